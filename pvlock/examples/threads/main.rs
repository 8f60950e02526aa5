//! A paravirtual lock on the threads of an ordinary process.

mod platform;

use platform::Threads;
use pvlock::atomic::ConstZero;
use pvlock::{RawLock, RawPvQSpinLock};

static LOCK: RawPvQSpinLock<Threads> = ConstZero::ZERO;

fn main() {
    // More threads than the platform has CPUs, but not at the same time.
    for batch in 0..3 {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    LOCK.lock();
                    println!("thread {thread} of batch {batch} is alone here");
                    LOCK.unlock();
                });
            }
        });
    }
    assert!(!LOCK.is_locked());
}
