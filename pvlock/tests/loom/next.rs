//! The ideas of `pv-next` as models of their own, and what can be done wrong.

use super::*;

/// The table of `qspinlock/asym.rs` by itself, with the two bytes as atomics of their own. The releaser takes and
/// releases again, as a thief that comes past the head.
fn asymmetric_release(mistake: Mistake) {
    const ASLEEP: u32 = 2;
    let shared = Arc::new([U32::<true>::new(1), U32::new(0), U32::new(0)]);
    let theirs = shared.clone();
    let head = spawn(1, move || {
        let [locked, pending, entry] = &*theirs;
        if mistake == Mistake::EntryLate {
            pending.store(ASLEEP, Release);
            entry.store(7, Relaxed);
        } else {
            entry.store(7, Relaxed);
            pending.store(ASLEEP, Release);
        }
        let early = locked.load(Acquire) != 0;
        Loom::heavy_barrier();
        // Nobody takes it in the end.
        let mut held = match mistake {
            Mistake::LookEarly => early,
            _ => locked.load(Acquire) != 0,
        };
        while held {
            Loom::halt_while(locked, |locked| {
                let held = mistake == Mistake::LookEarly || locked != 0;
                held && pending.load(Relaxed) == ASLEEP
            });
            held = locked.load(Acquire) != 0;
        }
    });
    let [locked, pending, entry] = &*shared;
    let claim = || {
        let claimed = pending.compare_exchange(ASLEEP, 0, Acquire, Relaxed);
        claimed.is_ok()
    };
    for round in 0..2 {
        if round > 0 && locked.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            break;
        }
        if mistake == Mistake::FlagEarly {
            let _ = claim();
        }
        locked.store(0, Release);
        Loom::light_barrier();
        if pending.load(Relaxed) == ASLEEP && claim() {
            assert_eq!(entry.load(Relaxed), 7, "no entry");
            Loom::kick(1);
        }
    }
    head.join().unwrap();
}

/// The second idea of `pv-next` as a model: a head enters itself into the table once more when its entry has been
/// used up, which it tells by the locked byte. A thief takes the lock past it.
fn rehash(mistake: Mistake) {
    const SLOW: u32 = 3;
    let shared: Arc<[U32<true>; 2]> = Arc::new([U32::new(1), U32::new(0)]);
    let theirs = shared.clone();
    let head = spawn(1, move || {
        let [locked, entries] = &*theirs;
        let mut hashed = false;
        while locked.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            if !hashed {
                assert_eq!(entries.fetch_add(1, Relaxed), 0, "entered twice");
                if locked.swap(SLOW, SeqCst) == 0 {
                    locked.store(1, Relaxed);
                    entries.fetch_add(u32::MAX, Relaxed);
                    break;
                }
            }
            Loom::halt_while(locked, |locked| locked == SLOW);
            hashed = mistake != Mistake::NoLook && locked.load(Acquire) == SLOW;
        }
        locked.store(0, Release);
    });
    let release = move |[locked, entries]: &[U32<true>; 2]| {
        if locked.compare_exchange(1, 0, Release, Relaxed).is_err() {
            Loom::fence(Acquire);
            let used_up = || assert_eq!(entries.fetch_add(u32::MAX, Relaxed), 1, "no entry");
            if mistake == Mistake::UsedLate {
                locked.store(0, Release);
                used_up();
            } else {
                used_up();
                locked.store(0, Release);
            }
            Loom::kick(1);
        }
    };
    let theirs = shared.clone();
    let thief = spawn(2, move || {
        if theirs[0].compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            release(&theirs);
        }
    });
    // Unfounded.
    Loom::kick(1);
    release(&shared);
    thief.join().unwrap();
    head.join().unwrap();
    assert_eq!(shared[1].load(Relaxed), 0, "an entry is left");
}

/// What the models of `pv-next` can do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// The head looks at the locked byte before the barrier, and not after it.
    LookEarly,
    /// The releaser clears the flag before it releases.
    FlagEarly,
    /// The head says that it sleeps, and enters itself then.
    EntryLate,
    /// The head enters itself again without a look whether its entry is still there.
    NoLook,
    /// The releaser frees the lock, and takes the entry out then.
    UsedLate,
}

#[test]
fn asymmetric_release_needs_both_barriers_and_the_order_of_the_entry() {
    let model = || asymmetric_release(Mistake::None);
    check(Mutation::None, None, model);
    for mutation in [
        Mutation::LightBarrier,
        Mutation::HeavyBarrier,
        Mutation::StoreRelease,
        Mutation::CompareAcquire,
    ] {
        let found = catch_unwind(|| check(mutation, None, model));
        assert!(found.is_err(), "{mutation:?}");
    }
}

#[test]
fn mistakes_in_the_ideas_of_pv_next_are_found() {
    check(Mutation::None, Some(3), || rehash(Mistake::None));
    let found = |model: fn(Mistake), preemptions, mistakes: &[Mistake]| {
        for &mistake in mistakes {
            let found = catch_unwind(|| check(Mutation::None, preemptions, move || model(mistake)));
            assert!(found.is_err(), "{mistake:?}");
        }
    };
    found(
        asymmetric_release,
        None,
        &[Mistake::LookEarly, Mistake::FlagEarly, Mistake::EntryLate],
    );
    found(rehash, Some(3), &[Mistake::NoLook, Mistake::UsedLate]);
}
