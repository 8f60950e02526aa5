//! Both lock words against one specification: lanes are independent, and every operation is one step.

#![allow(clippy::unwrap_used)]

#[path = "support/rng.rs"]
mod rng;
#[path = "support/stepper/mod.rs"]
#[cfg(target_arch = "x86_64")]
#[allow(dead_code, unused_imports)] // It can do more than is needed here.
mod stepper;

#[cfg(target_arch = "x86_64")]
use pvlock::LockKind;
use pvlock::word::{LockWord, PortableWord};
use rng::Rng;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
#[cfg(target_arch = "x86_64")]
use stepper::{Config, Preempt, Stepped, run};

type Portable = PortableWord<AtomicU32>;

/// An operation with its operands.
#[derive(Clone, Copy, Debug)]
enum Op {
    Load,
    Compare(u32, u32),
    Add(u32),
    SetBit(u32),
    Store8(usize, u8),
    Store16(usize, u16),
    Swap8(usize, u8),
    Swap16(usize, u16),
    Compare8(usize, u8, u8),
    Compare16(usize, u16, u16),
}

/// What an operation yields: a value, and whether it is the value asked for.
type Found = (bool, u32);

fn found<T: Into<u32>>(result: Result<T, T>) -> Found {
    match result {
        Ok(value) => (true, value.into()),
        Err(value) => (false, value.into()),
    }
}

/// The specification: the word as bytes, least significant first.
fn specified(op: Op, word: u32) -> (u32, Found) {
    let mut bytes = word.to_le_bytes();
    let mut lane = |at: usize, new: &[u8], expected: Option<&[u8]>| {
        let lane = &mut bytes[at * new.len()..][..new.len()];
        let old = lane
            .iter()
            .rfold(0, |value, &byte| value << 8 | u32::from(byte));
        let matches = expected.is_none_or(|expected| expected == lane);
        if matches {
            lane.copy_from_slice(new);
        }
        (u32::from_le_bytes(bytes), (matches, old))
    };
    match op {
        Op::Load => (word, (true, word)),
        Op::Compare(old, new) if word == old => (new, (true, word)),
        Op::Compare(..) => (word, (false, word)),
        Op::Add(n) => (word.wrapping_add(n), (true, word)),
        Op::SetBit(bit) => (word | 1 << bit, (true, word)),
        Op::Store8(at, new) => (lane(at, &[new], None).0, (true, 0)),
        Op::Store16(at, new) => (lane(at, &new.to_le_bytes(), None).0, (true, 0)),
        Op::Swap8(at, new) => lane(at, &[new], None),
        Op::Swap16(at, new) => lane(at, &new.to_le_bytes(), None),
        Op::Compare8(at, old, new) => lane(at, &[new], Some(&[old])),
        Op::Compare16(at, old, new) => lane(at, &new.to_le_bytes(), Some(&old.to_le_bytes())),
    }
}

fn performed<W: LockWord>(op: Op, word: &W, strong: bool) -> Found {
    let order = if strong { SeqCst } else { AcqRel };
    let store = if strong { SeqCst } else { Release };
    let fail = if strong { SeqCst } else { Acquire };
    match op {
        Op::Load => (true, word.load(fail)),
        Op::Compare(old, new) => found(word.compare_exchange(old, new, order, fail)),
        Op::Add(n) => (true, word.fetch_add(n, order)),
        Op::SetBit(bit) => (true, word.fetch_set_bit(bit, order)),
        Op::Store8(at, new) => {
            word.store_u8(at, new, store);
            (true, 0)
        }
        Op::Store16(at, new) => {
            word.store_u16(at, new, store);
            (true, 0)
        }
        Op::Swap8(at, new) => (true, word.swap_u8(at, new, order).into()),
        Op::Swap16(at, new) => (true, word.swap_u16(at, new, order).into()),
        Op::Compare8(at, old, new) => found(word.compare_exchange_u8(at, old, new, order, fail)),
        Op::Compare16(at, old, new) => found(word.compare_exchange_u16(at, old, new, order, fail)),
    }
}

/// Applies `op` to a word that holds `before`, and compares result and word.
fn holds<W: LockWord>(op: Op, before: u32, word: &W, strong: bool) -> u32 {
    let (after, expected) = specified(op, before);
    let result = performed(op, word, strong);
    assert_eq!(result, expected, "{op:?} on {before:#010x}");
    assert_eq!(word.load(Relaxed), after, "{op:?} on {before:#010x}");
    after
}

/// Every operation on every lane with the values at which carries, signs and masks go wrong.
fn corners<W: LockWord>() {
    const BYTES: [u8; 6] = [0, 1, 3, 0x7f, 0x80, 0xff];
    const HALVES: [u16; 7] = [0, 1, 0xff, 0x100, 0x7fff, 0x8000, 0xffff];
    let words = BYTES.into_iter().flat_map(|byte| {
        let low = u32::from(byte);
        [
            low,
            low << 8,
            low << 16,
            low << 24,
            low * 0x0101_0101,
            0x1234_5678,
        ]
    });
    let words: Vec<u32> = words.collect();
    let mut ops = vec![Op::Load];
    ops.extend(words.iter().map(|&n| Op::Add(n)));
    ops.extend((0..32).map(Op::SetBit));
    ops.extend(words.iter().map(|&old| Op::Compare(old, !old)));
    for lane in 0..4 {
        for new in BYTES {
            ops.extend([Op::Store8(lane, new), Op::Swap8(lane, new)]);
            ops.extend(BYTES.map(|old| Op::Compare8(lane, old, new)));
        }
    }
    for lane in 0..2 {
        for new in HALVES {
            ops.extend([Op::Store16(lane, new), Op::Swap16(lane, new)]);
            ops.extend(HALVES.map(|old| Op::Compare16(lane, old, new)));
        }
    }
    for &before in &words {
        for &op in &ops {
            for strong in [false, true] {
                holds(op, before, &W::new(before), strong);
            }
        }
    }
}

fn halves(word: u32) -> [u16; 2] {
    let [a, b, c, d] = word.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}

/// Long histories of one word.
fn histories<W: LockWord>() {
    for seed in 0..20 {
        let mut rng = Rng(seed);
        let word = W::new(0);
        let mut state = 0_u32;
        for _ in 0..2_000 {
            let random = u32::try_from(rng.next() >> 32).unwrap();
            let ([a, b, ..], [old, new]) = (random.to_le_bytes(), halves(random));
            let (lane8, lane16) = (rng.below(4), rng.below(2));
            // Half of the compares should succeed.
            let hit = rng.below(2) == 0;
            let byte = if hit { state.to_le_bytes()[lane8] } else { a };
            let half = if hit { halves(state)[lane16] } else { old };
            let op = match rng.below(10) {
                0 => Op::Load,
                1 => Op::Compare(if hit { state } else { u32::from(old) }, u32::from(new)),
                2 => Op::Add(u32::from(new) << a.min(16)),
                3 => Op::SetBit(u32::from(a & 31)),
                4 => Op::Store8(lane8, b),
                5 => Op::Store16(lane16, new),
                6 => Op::Swap8(lane8, b),
                7 => Op::Swap16(lane16, new),
                8 => Op::Compare8(lane8, byte, b),
                _ => Op::Compare16(lane16, half, new),
            };
            println!("seed {seed}: {op:?}");
            state = holds(op, state, &word, hit);
        }
    }
}

/// Each thread counts in a byte of its own, through compare-and-exchange. An exchange that failed
/// because a neighbour changed would show as an error, a lost update as a wrong count.
fn lanes_are_independent<W: LockWord>() {
    let word = W::new(0);
    let count = |lane: usize| {
        for turn in 0..60_000_u32 {
            let [now, next, ..] = [turn, turn + 1].map(|n| n.to_le_bytes()[0]);
            match turn % 3 {
                0 => assert_eq!(
                    word.compare_exchange_u8(lane, now, next, AcqRel, Relaxed),
                    Ok(now)
                ),
                1 => assert_eq!(word.swap_u8(lane, next, AcqRel), now),
                _ => word.store_u8(lane, next, Release),
            }
        }
    };
    std::thread::scope(|scope| {
        for lane in 0..3 {
            scope.spawn(move || count(lane));
        }
        // Byte 3 flickers, including in its upper bits and together with nothing else.
        scope.spawn(|| {
            for _ in 0..60_000 {
                word.fetch_set_bit(31, AcqRel);
                word.fetch_add(1 << 24, AcqRel);
                word.store_u8(3, 0, Release);
            }
        });
    });
    let [end, ..] = 60_000_u32.to_le_bytes();
    assert_eq!(word.load(Relaxed).to_le_bytes(), [end, end, end, 0]);
}

/// The same for halves.
fn halves_are_independent<W: LockWord>() {
    let word = W::new(0);
    std::thread::scope(|scope| {
        for lane in 0..2 {
            let word = &word;
            scope.spawn(move || {
                for n in 0..60_000 {
                    let next = n + 1;
                    let result = word.compare_exchange_u16(lane, n, next, AcqRel, Relaxed);
                    assert_eq!(result, Ok(n));
                }
            });
        }
    });
    assert_eq!(word.load(Relaxed), 60_000 << 16 | 60_000);
}

fn conforms<W: LockWord>() {
    corners::<W>();
    histories::<W>();
    lanes_are_independent::<W>();
    halves_are_independent::<W>();
}

#[test]
fn portable_word_conforms() {
    conforms::<Portable>();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn byte_word_conforms() {
    conforms::<pvlock::word::ByteWord>();
}

/// With each operation on the word one step, both words make every lock do the same thing.
#[cfg(target_arch = "x86_64")]
#[test]
fn locks_cannot_tell_the_words_apart() {
    use pvlock::word::ByteWord;
    for kind in [
        LockKind::Tas,
        LockKind::Ticket,
        LockKind::QSpinLock,
        LockKind::PvQSpinLock,
    ] {
        for seed in 0..60 {
            let mut config = Config::new(kind, 4, 3).random(seed);
            let (vcpu, at) = (usize::try_from(seed % 4).unwrap(), seed / 4);
            config.preempt.push(Preempt {
                vcpu,
                at,
                steps: 200,
            });
            let portable = run::<Stepped<Portable>>(&config).unwrap();
            let bytes = run::<Stepped<ByteWord>>(&config).unwrap();
            // Order of acquisitions, event counters, and every value that was read on the way.
            assert_eq!(portable, bytes, "seed {seed}");
        }
    }
}
