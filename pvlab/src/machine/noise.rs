//! The neighbour: host threads that want the same CPUs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Busy threads. Dropping it ends them.
#[derive(Debug)]
pub struct Noise {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Noise {
    /// Starts `count` threads that compute without end, placed round-robin on `cpus`.
    ///
    /// # Errors
    /// If a thread cannot be started or placed.
    pub fn start(count: usize, cpus: &[usize]) -> io::Result<Self> {
        let mut noise = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for (i, &cpu) in cpus.iter().cycle().take(count).enumerate() {
            let stop = Arc::clone(&noise.stop);
            let (placed, placement) = std::sync::mpsc::channel();
            let thread = std::thread::Builder::new()
                .name(format!("noise{i}"))
                .spawn(move || {
                    host::sched::join_load();
                    let _ = placed.send(host::thread::set_affinity(&[cpu]));
                    let mut x = i;
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..10_000 {
                            x = std::hint::black_box(x.wrapping_mul(3));
                        }
                    }
                })?;
            noise.threads.push(thread);
            placement.recv().map_err(io::Error::other)??;
        }
        Ok(noise)
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
