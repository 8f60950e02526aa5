//! Many runs side by side, whose results come in their order.

use crate::session::RunError;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::Builder;

/// Makes `count` runs, at most `jobs` at the same time, and hands what came out to `each`, in their order, until
/// it breaks; runs that are being made by then are made to their end.
pub(crate) fn in_order<R: Send>(
    count: usize,
    jobs: usize,
    run: impl Fn(usize) -> Result<R, RunError> + Sync,
    mut each: impl FnMut(usize, Result<R, RunError>) -> ControlFlow<()>,
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
            started += usize::from(
                Builder::new()
                    .spawn_scoped(scope, move || work(sender))
                    .is_ok(),
            );
        }
        drop(sender);
        let mut early = BTreeMap::new();
        for number in 0..count {
            let result = if started == 0 {
                run(number)
            } else {
                // The threads send until all runs are made.
                loop {
                    if let Some(result) = early.remove(&number) {
                        break result;
                    }
                    early.extend(results.recv());
                }
            };
            if each(number, result).is_break() {
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
                |n| Ok(n * n),
                |n, result| {
                    seen.push((n, result.unwrap()));
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
