//! The classic litmus tests: which outcomes the memories allow, all of them and no others.

#![allow(clippy::unwrap_used)]

use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use litmus::atomics::U32;
use litmus::explore::Failure;
use litmus::model::Part;
use litmus::{Facts, Limits, Litmus, Model, Setting};
use pvlock::Platform;
use pvlock::atomic::{Atomic, Watch};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// What all share: places, and what each thread has read, in its turn.
struct Shared {
    x: U32,
    y: U32,
    /// What was read is put here, each by one thread, so that the end can tell.
    read: [U32; 4],
}

fn shared() -> Shared {
    Shared {
        x: U32::new(0),
        y: U32::new(0),
        read: std::array::from_fn(|_| U32::new(9)),
    }
}

type Outcomes = BTreeSet<Vec<u32>>;

/// All outcomes of these parts: what was read, up to `reads`, then `x` and `y` if `last`.
fn outcomes(model: Model, parts: Vec<Part<Shared>>, reads: usize, last: bool) -> Outcomes {
    let seen: Rc<RefCell<Outcomes>> = Rc::default();
    let all = seen.clone();
    let setting = Setting {
        shared,
        register: |_| (),
        parts,
        end: Box::new(move |shared: &Shared| {
            let read = shared.read[..reads].iter();
            let mut outcome: Vec<u32> = read.map(|place| place.load(Relaxed)).collect();
            if last {
                outcome.extend([shared.x.load(Relaxed), shared.y.load(Relaxed)]);
            }
            all.borrow_mut().insert(outcome);
        }),
        fences: true,
        facts: Facts::default(),
        limits: Limits::default(),
    };
    setting
        .explore(model)
        .unwrap_or_else(|failure: Failure| panic!("{failure}"));
    seen.take()
}

fn part(part: impl Fn(&'static Shared) + 'static) -> Part<Shared> {
    Box::new(part)
}

fn note(place: &U32, value: u32) {
    place.store(value, Relaxed);
}

/// Message passing.
fn mp(model: Model, write: Ordering, read: Ordering) -> Outcomes {
    let parts = vec![
        part(move |s| {
            s.x.store(1, Relaxed);
            s.y.store(1, write);
        }),
        part(move |s| {
            note(&s.read[0], s.y.load(read));
            note(&s.read[1], s.x.load(Relaxed));
        }),
    ];
    outcomes(model, parts, 2, false)
}

const STALE: [u32; 2] = [1, 0];

#[test]
fn message_passing() {
    let stale = |model, write, read| mp(model, write, read).contains(STALE.as_slice());
    assert!(!stale(Model::C11, Release, Acquire));
    assert!(stale(Model::C11, Relaxed, Acquire));
    assert!(stale(Model::C11, Release, Relaxed));
    assert!(stale(Model::C11, Relaxed, Relaxed));
    assert!(!stale(Model::X86, Relaxed, Relaxed));
    assert_eq!(mp(Model::C11, Relaxed, Relaxed).len(), 4);
    assert_eq!(mp(Model::C11, Release, Acquire).len(), 3);
}

/// With fences in the place of orderings.
#[test]
fn message_passing_by_fences() {
    let stale = |first: Option<Ordering>, second: Option<Ordering>| {
        let parts = vec![
            part(move |s| {
                s.x.store(1, Relaxed);
                if let Some(order) = first {
                    Litmus::fence(order);
                }
                s.y.store(1, Relaxed);
            }),
            part(move |s| {
                note(&s.read[0], s.y.load(Relaxed));
                if let Some(order) = second {
                    Litmus::fence(order);
                }
                note(&s.read[1], s.x.load(Relaxed));
            }),
        ];
        outcomes(Model::C11, parts, 2, false).contains(STALE.as_slice())
    };
    assert!(!stale(Some(Release), Some(Acquire)));
    assert!(!stale(Some(AcqRel), Some(SeqCst)));
    assert!(stale(Some(Acquire), Some(Acquire)));
    assert!(stale(Some(Release), Some(Release)));
    assert!(stale(Some(Release), None));
    assert!(stale(None, Some(SeqCst)));
}

/// Store buffering.
#[test]
fn store_buffering() {
    let both_miss = |model, fences: [bool; 2], order: [Ordering; 2]| {
        let side = move |me: usize| {
            part(move |s| {
                let (mine, theirs) = if me == 0 { (&s.x, &s.y) } else { (&s.y, &s.x) };
                mine.store(1, order[0]);
                if fences[me] {
                    Litmus::fence(SeqCst);
                }
                note(&s.read[me], theirs.load(order[1]));
            })
        };
        outcomes(model, vec![side(0), side(1)], 2, false).contains(&vec![0, 0])
    };
    for model in [Model::C11, Model::X86] {
        assert!(both_miss(model, [false, false], [Release, Acquire]));
        assert!(both_miss(model, [true, false], [Release, Acquire]));
        assert!(both_miss(model, [false, true], [Relaxed, Relaxed]));
        assert!(!both_miss(model, [true, true], [Relaxed, Relaxed]));
    }
}

/// The same with an asymmetric barrier, of which x86 has one side only.
#[test]
fn store_buffering_by_barriers() {
    let both_miss = |model, light: bool, heavy: bool| {
        let parts = vec![
            part(move |s| {
                s.x.store(1, Relaxed);
                if light {
                    Litmus::light_barrier();
                }
                note(&s.read[0], s.y.load(Relaxed));
            }),
            part(move |s| {
                s.y.store(1, Relaxed);
                if heavy {
                    Litmus::heavy_barrier();
                }
                note(&s.read[1], s.x.load(Relaxed));
            }),
        ];
        outcomes(model, parts, 2, false).contains(&vec![0, 0])
    };
    assert!(!both_miss(Model::C11, true, true));
    assert!(both_miss(Model::C11, false, true) && both_miss(Model::C11, true, false));
    assert!(!both_miss(Model::X86, false, true) && both_miss(Model::X86, true, false));
}

/// Load buffering: no memory here has it, which C11 does allow for Relaxed.
#[test]
fn load_buffering() {
    for model in [Model::C11, Model::X86] {
        let parts = vec![
            part(|s| {
                note(&s.read[0], s.x.load(Relaxed));
                s.y.store(1, Relaxed);
            }),
            part(|s| {
                note(&s.read[1], s.y.load(Relaxed));
                s.x.store(1, Relaxed);
            }),
        ];
        let seen = outcomes(model, parts, 2, false);
        assert!(!seen.contains(&vec![1, 1]));
        assert_eq!(seen.len(), 3);
    }
}

/// Independent reads of independent writes.
#[test]
fn independent_reads_of_independent_writes() {
    let disagree = |model, fence: bool| {
        let reader = move |me: usize| {
            part(move |s| {
                let (first, second) = if me == 0 { (&s.x, &s.y) } else { (&s.y, &s.x) };
                note(&s.read[2 * me], first.load(Acquire));
                if fence {
                    Litmus::fence(SeqCst);
                }
                note(&s.read[2 * me + 1], second.load(Acquire));
            })
        };
        let parts = vec![
            part(|s| s.x.store(1, Release)),
            part(|s| s.y.store(1, Release)),
            reader(0),
            reader(1),
        ];
        outcomes(model, parts, 4, false).contains(&vec![1, 0, 1, 0])
    };
    assert!(disagree(Model::C11, false));
    assert!(!disagree(Model::C11, true));
    assert!(!disagree(Model::X86, false));
}

/// Write to read causality.
#[test]
fn write_to_read_causality() {
    let stale = |model, middle: [Ordering; 2], last: Ordering| {
        let parts = vec![
            part(|s| s.x.store(1, Relaxed)),
            part(move |s| {
                note(&s.read[0], s.x.load(middle[0]));
                s.y.store(1, middle[1]);
            }),
            part(move |s| {
                note(&s.read[1], s.y.load(last));
                note(&s.read[2], s.x.load(Relaxed));
            }),
        ];
        outcomes(model, parts, 3, false).contains(&vec![1, 1, 0])
    };
    assert!(!stale(Model::C11, [Relaxed, Release], Acquire));
    assert!(stale(Model::C11, [Acquire, Relaxed], Acquire));
    assert!(stale(Model::C11, [Acquire, Release], Relaxed));
    assert!(!stale(Model::X86, [Relaxed, Relaxed], Relaxed));
}

/// Two plus two writes: each place ends with the first write of a thread, in program order.
#[test]
fn two_plus_two_writes() {
    let weak = |model, fences: bool| {
        let side = move |me: usize| {
            part(move |s| {
                let (first, second) = if me == 0 { (&s.x, &s.y) } else { (&s.y, &s.x) };
                first.store(1, Release);
                if fences {
                    Litmus::fence(SeqCst);
                }
                second.store(2, Release);
            })
        };
        outcomes(model, vec![side(0), side(1)], 0, true).contains(&vec![1, 1])
    };
    assert!(weak(Model::C11, false));
    assert!(!weak(Model::C11, true));
    assert!(!weak(Model::X86, false));
}

/// Coherence: reads of one place by one thread do not go back, and an update is lost by nobody.
#[test]
fn coherence() {
    for model in [Model::C11, Model::X86] {
        let parts = vec![
            part(|s| s.x.store(1, Relaxed)),
            part(|s| s.x.store(2, Relaxed)),
            part(|s| {
                note(&s.read[0], s.x.load(Relaxed));
                note(&s.read[1], s.x.load(Relaxed));
            }),
            part(|s| {
                note(&s.read[2], s.x.load(Relaxed));
                note(&s.read[3], s.x.load(Relaxed));
            }),
        ];
        let seen = outcomes(model, parts, 4, false);
        assert!(!seen.contains(&vec![1, 2, 2, 1]));
        assert!(!seen.iter().any(|read| read[0] != 0 && read[1] == 0));
        assert!(seen.contains(&vec![1, 2, 0, 2]) && seen.contains(&vec![2, 1, 0, 1]));

        let add = || part(|s| _ = s.x.fetch_add(1, Relaxed));
        let seen = outcomes(model, vec![add(), add(), add()], 0, true);
        assert_eq!(seen, [vec![3, 0]].into());
    }
}

/// A release sequence: what a Release store says is passed on by Relaxed read-modify-writes, not by stores.
#[test]
fn release_sequences() {
    let stale = |store: bool| {
        let parts = vec![
            part(|s| {
                s.x.store(1, Relaxed);
                s.y.store(1, Release);
            }),
            part(move |s| {
                if store {
                    if s.y.load(Relaxed) == 1 {
                        s.y.store(2, Relaxed);
                    }
                } else {
                    let _ = s.y.compare_exchange(1, 2, Relaxed, Relaxed);
                }
            }),
            part(|s| {
                note(&s.read[0], s.y.load(Acquire));
                note(&s.read[1], s.x.load(Relaxed));
            }),
        ];
        outcomes(Model::C11, parts, 2, false).contains(&vec![2, 0])
    };
    assert!(!stale(false));
    assert!(stale(true));
}

/// The least that a lock does, and what is left of it without one of its orderings.
#[test]
fn races_and_waits_for_ever_are_found() {
    let data = litmus::Cell::new(0);
    let run = |acquire, release: Option<Ordering>| {
        let side = move || {
            part(move |s| {
                while s.x.compare_exchange(0, 1, acquire, Relaxed).is_err() {
                    Litmus::spin_until(&s.x, Relaxed, |x| x == 0);
                }
                data.add_one();
                if let Some(release) = release {
                    s.x.store(0, release);
                }
            })
        };
        let setting = Setting {
            shared,
            register: |_| (),
            parts: vec![side(), side(), side()],
            end: Box::new(move |_| assert_eq!(data.last(), 3)),
            fences: false,
            facts: Facts::default(),
            limits: Limits::default(),
        };
        setting.explore(Model::C11).map_err(|failure| failure.what)
    };
    assert!(run(Acquire, Some(Release)).unwrap().ends > 0);
    assert!(
        run(Relaxed, Some(Release))
            .unwrap_err()
            .contains("data race")
    );
    assert!(
        run(Acquire, Some(Relaxed))
            .unwrap_err()
            .contains("data race")
    );
    assert!(run(Acquire, None).unwrap_err().contains("wait for ever"));
}
