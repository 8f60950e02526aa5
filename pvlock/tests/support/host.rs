//! Locks on the threads of this computer: each thread that uses a lock is a CPU.
//!
//! The operating system plays hypervisor: it takes the CPU from a thread whenever it likes. There is
//! one machine per process, so that tests that run side by side do not share CPU numbers.

use pvlock::atomic::{ConstZero, Watch};
use pvlock::pv_hash::{HashSlot, slots_for};
use pvlock::word::{LockWord, PortableWord};
use pvlock::{LockEvent, PerCpu, Platform};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// The platform; `W` is the lock word under test.
pub(crate) struct Host<W = PortableWord<AtomicU32>>(PhantomData<fn() -> W>);

/// Threads that may use locks at the same time.
const CPUS: usize = 64;

/// Whether a kick has come that no halt has used up.
static KICKED: [(Mutex<bool>, Condvar); CPUS] =
    [const { (Mutex::new(false), Condvar::new()) }; CPUS];

/// CPU numbers in use.
static TAKEN: Mutex<[bool; CPUS]> = Mutex::new([false; CPUS]);

/// A thread's CPU number, given back when the thread ends.
struct Cpu(usize);

impl Cpu {
    fn take() -> Self {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let cpu = taken
            .iter()
            .position(|taken| !taken)
            .expect("a CPU for every thread");
        taken[cpu] = true;
        Self(cpu)
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner)[self.0] = false;
    }
}

thread_local! {
    static CPU: Cpu = Cpu::take();
}

/// Per-CPU lock storage and hash table of one word type.
pub(crate) struct Storage<P: Platform> {
    percpu: [PerCpu<P>; CPUS],
    hash: [HashSlot<P>; slots_for(CPUS)],
}

impl<P: Platform> Storage<P>
where
    P::U32: ConstZero,
    P::U64: ConstZero,
{
    const ZERO: Self = Self {
        percpu: [const { PerCpu::ZERO }; CPUS],
        hash: [const { HashSlot::ZERO }; slots_for(CPUS)],
    };
}

/// A lock word that has storage for its locks on this machine.
pub(crate) trait HostWord: LockWord + ConstZero {
    fn storage() -> &'static Storage<Host<Self>>;
}

macro_rules! host_word {
    ($word:ty) => {
        impl HostWord for $word {
            fn storage() -> &'static Storage<Host<Self>> {
                static STORAGE: Storage<Host<$word>> = Storage::ZERO;
                &STORAGE
            }
        }
    };
}

host_word!(PortableWord<AtomicU32>);
#[cfg(target_arch = "x86_64")]
host_word!(pvlock::word::ByteWord);

#[allow(unsafe_code)] // For the promise below.
// SAFETY: a thread has a number, and by it storage, of its own; a number is free again when its thread has
// ended, which holds no lock then that keeps a node, or its nodes would not be free. Atomics and waits are
// the processor's, keys are addresses.
unsafe impl<W: HostWord> Platform for Host<W> {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    type LockWord = W;

    fn cpu() -> u32 {
        u32::try_from(CPU.with(|cpu| cpu.0)).expect("few CPUs")
    }
    fn percpu(cpu: u32) -> &'static PerCpu<Self> {
        &W::storage().percpu[cpu as usize]
    }
    fn pv_hash() -> &'static [HashSlot<Self>] {
        &W::storage().hash
    }
    fn relax() {
        std::hint::spin_loop();
    }
    /// After a while lets other threads run: there may be fewer CPUs than we count, and a fair lock
    /// would spend a time slice on every handoff.
    fn spin_until<V: Watch>(
        word: &V,
        order: Ordering,
        mut done: impl FnMut(V::Value) -> bool,
    ) -> V::Value {
        for turn in 0_u64.. {
            let value = word.load(order);
            if done(value) {
                return value;
            }
            if turn < 100 {
                Self::relax();
            } else {
                std::thread::yield_now();
            }
        }
        unreachable!("2^64 turns")
    }
    fn halt_while<V: Watch>(word: &V, asleep: impl Fn(V::Value) -> bool) {
        let (kicked, wake) = &KICKED[Self::cpu() as usize];
        let mut kicked = kicked.lock().unwrap_or_else(PoisonError::into_inner);
        if asleep(word.load(Ordering::Relaxed)) && !*kicked {
            kicked = wake.wait(kicked).unwrap_or_else(PoisonError::into_inner);
        }
        *kicked = false;
    }
    fn kick(cpu: u32) {
        let (kicked, wake) = &KICKED[cpu as usize];
        *kicked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        wake.notify_one();
    }
    fn yield_to(_: u32) {
        std::thread::yield_now();
    }
    fn vcpu_is_preempted(_: u32) -> Option<bool> {
        None
    }
    fn now() -> u64 {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let nanos = START.get_or_init(Instant::now).elapsed().as_nanos();
        u64::try_from(nanos).expect("a process of less than 500 years")
    }
    /// Short: the holder may well be waiting for our CPU.
    fn pv_spin_threshold() -> u32 {
        256
    }
    fn count(_: LockEvent, _: u64) {}
}
