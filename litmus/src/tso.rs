//! Memory as x86-64 has it: a first-in-first-out store buffer for each CPU, with bytes for lock words.
//!
//! A store goes to the buffer, and leaves it some time later. A load of a CPU finds its own last store to the same
//! bytes; if a store in the buffer has a part of them only, it waits until that is in memory. Locked instructions
//! and fences wait until the buffer is empty. Orderings mean nothing here: a load is an Acquire and a store a
//! Release, whatever they are called. (Owens, Sarkar and Sewell, "A better x86 memory model: x86-TSO", TPHOLs
//! 2009; stores of parts as in Intel SDM vol. 3A, 9.2.3.)
//!
//! A heavy barrier waits for each other CPU's buffer to be empty once, as membarrier(2) makes it; a light one is
//! nothing. A halt and a kick leave the guest, and so empty the buffer.

use crate::layout::Layout;
use crate::op::{Op, Place, Reply, Side};
use crate::view::Fingerprint;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

struct Buffered {
    slot: u8,
    mask: u64,
    value: u64,
}

/// The memory.
pub(crate) struct Tso {
    values: Vec<u64>,
    data: Vec<u64>,
    buffers: Vec<VecDeque<Buffered>>,
    tokens: Vec<bool>,
    /// How far the heavy barrier of each CPU has come.
    barriers: Vec<usize>,
    /// For each CPU the places that have changed since it was in a turn of a loop.
    changed: Vec<Vec<bool>>,
}

impl Tso {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            values: vec![],
            data: vec![],
            buffers: (0..threads).map(|_| VecDeque::new()).collect(),
            tokens: vec![false; threads],
            barriers: vec![0; threads],
            changed: vec![vec![]; threads],
        }
    }

    fn touch(&mut self, layout: &mut Layout, at: Place) -> usize {
        let slot = layout.slot(at);
        if self.values.len() <= slot {
            let initial = layout.initial_values();
            let known = self.values.len();
            self.values.extend(&initial[known..=slot]);
            for changed in &mut self.changed {
                changed.resize(slot + 1, false);
            }
        }
        slot
    }

    /// What a load sees; `None` as long as a part of it is in the buffer.
    fn seen(&self, t: usize, slot: usize, mask: u64) -> Option<u64> {
        let buffer = self.buffers[t].iter().rev();
        let own = buffer
            .filter(|entry| usize::from(entry.slot) == slot)
            .find(|entry| entry.mask & mask != 0);
        match own {
            None => Some(self.values[slot] & mask),
            Some(entry) if entry.mask & mask == mask => Some(entry.value & mask),
            Some(_) => None,
        }
    }

    /// In how many ways `op` of CPU `t` can be done now.
    pub(crate) fn ways(&mut self, layout: &mut Layout, t: usize, op: &Op, patient: bool) -> usize {
        let slot = op.place().map_or(0, |at| self.touch(layout, at));
        let drained = usize::from(self.buffers[t].is_empty());
        match *op {
            Op::Load { mask, .. } => usize::from(self.seen(t, slot, mask).is_some()),
            Op::Await { done, .. } => self.content(t, slot, done).map_or(0, usize::from),
            Op::Spin { done, .. } => match self.content(t, slot, done) {
                None => 0,
                Some(false) => usize::from(!patient),
                Some(true) => 1,
            },
            Op::Store {
                order: Ordering::SeqCst,
                ..
            } => drained,
            Op::Change { .. } | Op::Fence(Ordering::SeqCst) | Op::Kick(_) => drained,
            Op::Barrier(Side::Heavy) => {
                let whose = (t + self.barriers[t]) % self.buffers.len();
                usize::from(self.buffers[whose].is_empty())
            }
            Op::Sleep => drained & usize::from(self.tokens[t]),
            Op::Choose(n) => n,
            _ => 1,
        }
    }

    fn content(&self, t: usize, slot: usize, done: crate::op::Look) -> Option<bool> {
        // SAFETY: see Look.
        #[allow(unsafe_code)]
        let done = unsafe { &mut *done };
        self.seen(t, slot, u64::MAX).map(done)
    }

    /// Does it. `None`: there is more to do.
    pub(crate) fn perform(
        &mut self,
        layout: &mut Layout,
        t: usize,
        op: &Op,
        way: usize,
    ) -> Option<Reply> {
        let slot = op.place().map_or(0, |at| self.touch(layout, at));
        let done = |value| Reply { value, ok: true };
        Some(match *op {
            Op::Load { mask, .. } => done(self.seen(t, slot, mask).expect("as counted")),
            Op::Await { done: look, .. } | Op::Spin { done: look, .. } => {
                let ok = self.content(t, slot, look).expect("as counted");
                let value = self.seen(t, slot, u64::MAX).filter(|_| ok);
                Reply {
                    value: value.unwrap_or(0),
                    ok,
                }
            }
            Op::Store {
                mask, value, order, ..
            } => {
                if order == Ordering::SeqCst {
                    self.write(slot, mask, value);
                } else {
                    let slot = u8::try_from(slot).expect("few places");
                    self.buffers[t].push_back(Buffered { slot, mask, value });
                }
                done(0)
            }
            Op::Change { change, .. } => {
                // SAFETY: see Change.
                #[allow(unsafe_code)]
                let change = unsafe { &*change };
                let value = self.values[slot];
                match change(value) {
                    Some(new) => {
                        self.write(slot, u64::MAX, new);
                        done(value)
                    }
                    None => Reply { value, ok: false },
                }
            }
            Op::Barrier(Side::Heavy) => {
                self.barriers[t] += 1;
                if self.barriers[t] < self.buffers.len() {
                    return None;
                }
                self.barriers[t] = 0;
                Reply::default()
            }
            Op::Data { cell, write } => {
                let number = cell as usize;
                if self.data.len() <= number {
                    self.data.resize(number + 1, 0);
                }
                if let Some(value) = write {
                    self.data[number] = value;
                }
                done(self.data[number])
            }
            Op::Sleep => {
                self.tokens[t] = false;
                Reply::default()
            }
            Op::Kick(cpu) => {
                self.tokens[cpu] = true;
                Reply::default()
            }
            Op::Choose(_) => done(way as u64),
            Op::Fence(_) | Op::Barrier(Side::Light) | Op::Relax { .. } | Op::Forget(_) => {
                Reply::default()
            }
        })
    }

    fn write(&mut self, slot: usize, mask: u64, value: u64) {
        let new = self.values[slot] & !mask | value & mask;
        if new != self.values[slot] {
            self.changed.iter_mut().for_each(|of| of[slot] = true);
        }
        self.values[slot] = new;
    }

    /// Whether something of that CPU is on its way to memory.
    pub(crate) fn is_buffered(&self, t: usize) -> bool {
        !self.buffers[t].is_empty()
    }

    /// The first store in the buffer arrives.
    pub(crate) fn drain(&mut self, t: usize) {
        if let Some(entry) = self.buffers[t].pop_front() {
            self.write(entry.slot.into(), entry.mask, entry.value);
        }
    }

    pub(crate) fn is_news(&self, t: usize, loaded: &[u8]) -> bool {
        let mut slots = loaded.iter().map(|&slot| usize::from(slot));
        slots.any(|slot| self.changed[t][slot])
    }

    /// A place has been loaded: what changes from now on is news.
    pub(crate) fn looked(&mut self, t: usize, slot: u8) {
        self.changed[t][usize::from(slot)] = false;
    }

    pub(crate) fn last(&self, layout: &mut Layout, at: Place) -> u64 {
        let value = self.values.get(layout.slot(at));
        value.copied().unwrap_or(at.initial)
    }

    pub(crate) fn datum(&self, cell: u32) -> u64 {
        self.data.get(cell as usize).copied().unwrap_or(0)
    }

    pub(crate) fn describe(&self, layout: &Layout, loops: &[Vec<u8>], state: &mut Fingerprint) {
        for (slot, (value, initial)) in self.values.iter().zip(layout.initial_values()).enumerate()
        {
            if value != initial {
                state.add((slot as u64) << 32 | 1);
                state.add(*value);
            }
        }
        for value in &self.data {
            state.add(*value);
        }
        for (t, buffer) in self.buffers.iter().enumerate() {
            state.add(0x1_0000 | t as u64);
            for entry in buffer {
                state.add(entry.slot.into());
                state.add(entry.mask);
                state.add(entry.value);
            }
            state.add(u64::from(self.tokens[t]) << 8 | self.barriers[t] as u64);
            for &slot in &loops[t] {
                state.add(self.changed[t][usize::from(slot)].into());
            }
        }
    }
}
