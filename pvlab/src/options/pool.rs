//! Many runs side by side, whose results come in their order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::Builder;

/// Makes `count` runs, at most `jobs` at the same time (or as many as there can be threads), and calls `each` for
/// them, in their order, until it breaks; runs that are being made by then are made to their end.
///
/// What `each` is given waits for what came out. It yields `None` if no thread makes runs: then `each` is to.
pub(crate) fn in_order<R: Send>(
    count: usize,
    jobs: usize,
    run: impl Fn(usize) -> R + Sync,
    mut each: impl FnMut(usize, &mut dyn FnMut() -> Option<R>) -> ControlFlow<()>,
) {
    // Relaxed: a counter, and a flag that says all there is to say.
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = mpsc::channel();
    let work = |sender: mpsc::Sender<_>| {
        while !over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            // Nobody listens any more if it is over.
            let _ = sender.send((number, run(number)));
        }
    };
    std::thread::scope(|scope| {
        let mut started = 0;
        for _ in (0..jobs.min(count)).filter(|_| jobs > 1) {
            let (sender, work) = (sender.clone(), &work);
            let thread = Builder::new().spawn_scoped(scope, move || work(sender));
            started += usize::from(thread.is_ok());
        }
        drop(sender);
        let mut early = BTreeMap::new();
        for number in 0..count {
            let mut made = || {
                // The threads send until all runs are made.
                while started > 0 && !early.contains_key(&number) {
                    early.extend(results.recv());
                }
                early.remove(&number)
            };
            if each(number, &mut made).is_break() {
                over.store(true, Ordering::Relaxed);
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_number_of_jobs() {
        for jobs in [1, 2, 7] {
            let mut seen = Vec::new();
            in_order(
                20,
                jobs,
                |n| n * n,
                |n, made| {
                    let result = made();
                    assert_eq!(result.is_some(), jobs > 1, "the caller makes them alone");
                    seen.push((n, result.unwrap_or(n * n)));
                    if n == 12 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                },
            );
            let expected: Vec<_> = (0..=12).map(|n| (n, n * n)).collect();
            assert_eq!(seen, expected);
        }
    }
}
