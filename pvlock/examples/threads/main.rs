//! A paravirtual lock on the threads of an ordinary process.

mod platform;

use platform::Threads;
use pvlock::atomic::ConstZero;
use pvlock::{RawLock, RawPvQSpinLock};

static LOCK: RawPvQSpinLock<Threads> = ConstZero::ZERO;

fn main() {
    std::thread::scope(|scope| {
        for cpu in 0..4 {
            scope.spawn(move || {
                LOCK.lock();
                println!("thread {cpu} is alone here");
                LOCK.unlock();
            });
        }
    });
    assert!(!LOCK.is_locked());
}
