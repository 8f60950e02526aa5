//! The platform of the example: thread numbers come back, and there are only so many at once.

#![allow(clippy::unwrap_used)]

#[path = "../examples/threads/platform.rs"]
mod platform;

use platform::Threads;
use pvlock::atomic::ConstZero;
use pvlock::{RawLock, RawMcs, RawPvQSpinLock};
use std::sync::Barrier;
use std::thread::{scope, spawn};

static LOCK: RawPvQSpinLock<Threads> = ConstZero::ZERO;
static KEPT: RawMcs<Threads> = ConstZero::ZERO;

/// As many as the platform says.
const CPUS: usize = 8;

fn section() {
    LOCK.lock();
    LOCK.unlock();
}

/// One test, as numbers are those of the process.
#[test]
fn eight_threads_at_a_time_and_any_number_in_sequence() {
    for _ in 0..5 * CPUS {
        spawn(section).join().unwrap();
    }

    let (here, leave) = (Barrier::new(CPUS + 1), Barrier::new(CPUS + 1));
    scope(|scope| {
        for _ in 0..CPUS {
            scope.spawn(|| {
                <Threads as pvlock::Platform>::cpu();
                here.wait();
                section();
                leave.wait();
            });
        }
        here.wait();
        let ninth = spawn(<Threads as pvlock::Platform>::cpu).join();
        leave.wait();
        let text = *ninth.unwrap_err().downcast::<String>().unwrap();
        assert!(text.starts_with("8 threads use locks already"), "{text}");
    });
    (0..2 * CPUS).for_each(|_| spawn(section).join().unwrap());

    // A thread that ends and leaves a lock held whose queue needs its node: the number is not used again.
    let kept = spawn(|| {
        // Never released.
        KEPT.lock();
        <Threads as pvlock::Platform>::cpu()
    });
    let kept = kept.join().unwrap();
    for _ in 0..CPUS {
        let other = spawn(<Threads as pvlock::Platform>::cpu).join().unwrap();
        assert_ne!(other, kept);
    }
}
