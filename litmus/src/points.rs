//! Orderings by the place in the source where they are given, one of which can be weakened.

use crate::op::Site;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// An ordering that the code under test gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Of the source.
    pub file: &'static str,
    /// Of the call, from 1.
    pub line: u32,
    /// Likewise.
    pub column: u32,
    /// 0 if it is the call's only one, or that of success; 1 if that of failure.
    pub which: u8,
}

/// An ordering made weaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weakened {
    /// Where.
    pub point: Point,
    /// What to; `None` for a fence: it is left out.
    pub to: Option<Ordering>,
}

thread_local! {
    static WEAKENED: Cell<Option<Weakened>> = const { Cell::new(None) };
    static SEEN: RefCell<Option<BTreeSet<Point>>> = const { RefCell::new(None) };
}

/// From now on this thread's models are run with that ordering, or with all as they are.
pub fn weaken(weakened: Option<Weakened>) {
    WEAKENED.set(weakened);
}

/// The points that `run` passes.
pub fn passed<T>(run: impl FnOnce() -> T) -> (T, BTreeSet<Point>) {
    SEEN.set(Some(BTreeSet::new()));
    let result = run();
    (result, SEEN.take().unwrap_or_default())
}

fn here(site: Site, which: u8) -> Point {
    Point {
        file: site.file(),
        line: site.line(),
        column: site.column(),
        which,
    }
}

fn see(point: impl Fn() -> Point) {
    SEEN.with_borrow_mut(|seen| {
        if let Some(seen) = seen {
            seen.insert(point());
        }
    });
}

/// The ordering of an access to be used: `order`, unless it is the one to be weakened.
pub(crate) fn order(site: Site, which: u8, order: Ordering) -> Ordering {
    if order == Ordering::Relaxed {
        return order;
    }
    see(|| here(site, which));
    match WEAKENED.get() {
        Some(Weakened { point, to }) if point == here(site, which) => {
            to.unwrap_or(Ordering::Relaxed)
        }
        _ => order,
    }
}

/// Likewise of a fence or a barrier, of which there may be nothing left.
pub(crate) fn fence(site: Site, order: Ordering) -> Option<Ordering> {
    see(|| here(site, 0));
    match WEAKENED.get() {
        Some(Weakened { point, to }) if point == here(site, 0) => to,
        _ => Some(order),
    }
}
