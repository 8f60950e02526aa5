//! Memory as C11 and Rust have it, as a machine that takes steps.
//!
//! Each place has a list of messages, in the place's *modification order*. A thread may read any message that is
//! not before the one in its view; a store may come in anywhere behind it, also before messages that are there
//! already; a read-modify-write comes right behind the message that it has read, and nothing comes between.
//!
//! | access                  | effect on views                                                            |
//! |-------------------------|----------------------------------------------------------------------------|
//! | load                    | what was read is the least that may be read again; Acquire: all that the message says |
//! | store                   | the message says what the thread knows, if it is a Release; else what it knew at its last release fence |
//! | read-modify-write       | both; and the message says what the one read says (release sequences)      |
//! | fence, Acquire          | all that messages read before have said                                    |
//! | fence, Release          | see store                                                                  |
//! | fence, SeqCst           | both; then knows what threads knew at their SeqCst fences before            |
//!
//! This is the machine of Kang and others, "A promising semantics for relaxed-memory concurrency" (POPL 2017),
//! without promises: what RC11 (Lahav and others, PLDI 2017) allows. So no load reads a value that is written
//! because of it (LB), which C11 allows for Relaxed accesses. SeqCst accesses are taken for AcqRel.
//!
//! Data races are found by counting, per cell and thread, the accesses that happened before.

mod data;
mod state;

use crate::layout::Layout;
use crate::op::{Op, Place, Reply, Side, acquires, releases};
use crate::view::View;
use std::sync::atomic::Ordering;

/// One value that a place has.
#[derive(Clone, Copy)]
struct Message {
    value: u64,
    says: View,
    /// It was made of the message before it.
    made_of: bool,
}

/// A thread's views.
#[derive(Clone, Copy)]
struct Knowledge {
    now: View,
    /// With what messages said that were read without Acquire.
    heard: View,
    /// At the last release fence.
    released: View,
}

#[derive(Clone, Copy)]
struct Token {
    set: bool,
    says: View,
}

/// A cell of plain data.
#[derive(Clone, Copy, Default)]
struct Data {
    value: u64,
    /// Accesses so far, by each thread.
    counts: [u8; crate::THREADS],
    /// Who wrote last, and which of its accesses that was.
    written: Option<(usize, u8)>,
}

/// The memory.
pub(crate) struct C11 {
    places: Vec<Vec<Message>>,
    data: Vec<Data>,
    threads: Vec<Knowledge>,
    fenced: View,
    tokens: Vec<Token>,
    /// Whether anybody uses an acquire fence.
    fences: bool,
}

impl C11 {
    pub(crate) fn new(threads: usize, fences: bool) -> Self {
        let nothing = Knowledge {
            now: View::ZERO,
            heard: View::ZERO,
            released: View::ZERO,
        };
        let token = Token {
            set: false,
            says: View::ZERO,
        };
        Self {
            places: vec![],
            data: vec![],
            threads: vec![nothing; threads],
            fenced: View::ZERO,
            tokens: vec![token; threads],
            fences,
        }
    }

    fn touch(&mut self, layout: &mut Layout, at: Place) -> usize {
        let slot = layout.slot(at);
        if self.places.len() <= slot {
            self.places.resize_with(slot + 1, Vec::new);
        }
        if self.places[slot].is_empty() {
            self.places[slot].push(Message {
                value: at.initial,
                says: View::ZERO,
                made_of: false,
            });
        }
        slot
    }

    fn data(&mut self, cell: u32) -> &mut Data {
        let number = cell as usize;
        if self.data.len() <= number {
            self.data.resize(number + 1, Data::default());
        }
        &mut self.data[number]
    }

    /// Places in the modification order where a store of thread `t` may come in.
    fn gaps(&self, t: usize, slot: usize) -> impl Iterator<Item = usize> {
        let messages = &self.places[slot];
        let first = usize::from(self.threads[t].now.get(slot)) + 1;
        (first..=messages.len())
            .rev()
            .filter(|&at| messages.get(at).is_none_or(|message| !message.made_of))
    }

    /// The messages that thread `t` may read, the last first.
    fn readable(&self, t: usize, slot: usize) -> impl Iterator<Item = usize> {
        let first = usize::from(self.threads[t].now.get(slot));
        (first..self.places[slot].len()).rev()
    }

    fn value(&self, slot: usize, at: usize) -> u64 {
        self.places[slot][at].value
    }

    /// Whether a read-modify-write may be made of that message.
    fn may_follow(&self, slot: usize, at: usize) -> bool {
        let next = self.places[slot].get(at + 1);
        next.is_none_or(|next| !next.made_of)
    }

    /// In how many ways `op` of thread `t` can be done now.
    pub(crate) fn ways(&mut self, layout: &mut Layout, t: usize, op: &Op, patient: bool) -> usize {
        match *op {
            Op::Load { at, .. } => {
                let slot = self.touch(layout, at);
                self.readable(t, slot).count()
            }
            Op::Await { at, done, .. } => {
                let slot = self.touch(layout, at);
                self.content(t, slot, done).0
            }
            Op::Spin { at, done, .. } => {
                let slot = self.touch(layout, at);
                let (content, others) = self.content(t, slot, done);
                content + usize::from(others && !patient)
            }
            Op::Store { at, mask, .. } => {
                let slot = self.touch(layout, at);
                if mask == u64::MAX {
                    self.gaps(t, slot).count()
                } else {
                    self.readable(t, slot)
                        .filter(|&at| self.may_follow(slot, at))
                        .count()
                }
            }
            Op::Change { at, change, .. } => {
                let slot = self.touch(layout, at);
                // SAFETY: see Change.
                #[allow(unsafe_code)]
                let change = unsafe { &*change };
                self.readable(t, slot)
                    .filter(|&at| {
                        change(self.value(slot, at)).is_none() || self.may_follow(slot, at)
                    })
                    .count()
            }
            Op::Sleep => usize::from(self.tokens[t].set),
            Op::Choose(n) => n,
            _ => 1,
        }
    }

    /// How many readable messages the look is content with, and whether there are others.
    fn content(&self, t: usize, slot: usize, done: crate::op::Look) -> (usize, bool) {
        // SAFETY: see Look.
        #[allow(unsafe_code)]
        let done = unsafe { &mut *done };
        let (mut content, mut others) = (0, false);
        for at in self.readable(t, slot) {
            if done(self.value(slot, at)) {
                content += 1;
            } else {
                others = true;
            }
        }
        (content, others)
    }

    /// Does it in one of these ways.
    ///
    /// # Errors
    /// A data race.
    pub(crate) fn perform(
        &mut self,
        layout: &mut Layout,
        t: usize,
        op: &Op,
        way: usize,
    ) -> Result<Reply, String> {
        let done = |value| Reply { value, ok: true };
        let reply = match *op {
            Op::Load { at, mask, order } => {
                let slot = self.touch(layout, at);
                let at = self.readable(t, slot).nth(way).expect("as counted");
                self.read(t, slot, at, order);
                done(self.value(slot, at) & mask)
            }
            Op::Await {
                at,
                order,
                done: look,
            }
            | Op::Spin {
                at,
                order,
                done: look,
            } => {
                let slot = self.touch(layout, at);
                // SAFETY: see Look.
                #[allow(unsafe_code)]
                let look = unsafe { &mut *look };
                let (content, others): (Vec<usize>, Vec<usize>) = self
                    .readable(t, slot)
                    .partition(|&at| look(self.value(slot, at)));
                if let Some(&at) = content.get(way) {
                    self.read(t, slot, at, order);
                    return Ok(done(self.value(slot, at)));
                }
                // It has read the first of these at least.
                let least = *others.last().expect("as counted");
                self.read(t, slot, least, Ordering::Relaxed);
                Reply {
                    value: 0,
                    ok: false,
                }
            }
            Op::Store {
                at,
                mask,
                value,
                order,
            } => {
                let slot = self.touch(layout, at);
                if mask == u64::MAX {
                    let at = self.gaps(t, slot).nth(way).expect("as counted");
                    self.write(t, slot, at, value, order, None);
                } else {
                    let found = self
                        .readable(t, slot)
                        .filter(|&at| self.may_follow(slot, at))
                        .nth(way)
                        .expect("as counted");
                    let new = self.value(slot, found) & !mask | value & mask;
                    self.exchange(t, slot, found, new, order);
                }
                done(0)
            }
            Op::Change {
                at,
                change,
                order,
                failure,
            } => {
                let slot = self.touch(layout, at);
                // SAFETY: see Change.
                #[allow(unsafe_code)]
                let change = unsafe { &*change };
                let found = self
                    .readable(t, slot)
                    .filter(|&at| {
                        change(self.value(slot, at)).is_none() || self.may_follow(slot, at)
                    })
                    .nth(way)
                    .expect("as counted");
                let value = self.value(slot, found);
                match change(value) {
                    Some(new) => {
                        self.exchange(t, slot, found, new, order);
                        done(value)
                    }
                    None => {
                        self.read(t, slot, found, failure);
                        Reply { value, ok: false }
                    }
                }
            }
            Op::Fence(order) => {
                self.fence(t, order);
                Reply::default()
            }
            Op::Barrier(Side::Light | Side::Heavy) => {
                self.fence(t, Ordering::SeqCst);
                Reply::default()
            }
            Op::Data { cell, write } => return self.access(layout, t, cell, write).map(done),
            Op::Sleep => {
                self.tokens[t].set = false;
                let says = self.tokens[t].says;
                self.hear(t, &says, true);
                Reply::default()
            }
            Op::Kick(cpu) => {
                self.tokens[cpu].set = true;
                let now = self.threads[t].now;
                self.tokens[cpu].says.join(&now);
                Reply::default()
            }
            Op::Choose(_) => done(way as u64),
            Op::Relax { .. } | Op::Forget(_) => Reply::default(),
        };
        Ok(reply)
    }

    fn hear(&mut self, t: usize, says: &View, acquire: bool) {
        let thread = &mut self.threads[t];
        if acquire {
            thread.now.join(says);
        }
        if self.fences {
            thread.heard.join(says);
        }
    }

    fn read(&mut self, t: usize, slot: usize, at: usize, order: Ordering) {
        let says = self.places[slot][at].says;
        self.threads[t].now.raise(slot, small(at));
        self.hear(t, &says, acquires(order));
    }

    fn exchange(&mut self, t: usize, slot: usize, found: usize, new: u64, order: Ordering) {
        self.read(t, slot, found, order);
        let says = self.places[slot][found].says;
        self.write(t, slot, found + 1, new, order, Some(says));
    }

    fn write(
        &mut self,
        t: usize,
        slot: usize,
        at: usize,
        value: u64,
        order: Ordering,
        made_of: Option<View>,
    ) {
        let place = small(at);
        if at < self.places[slot].len() {
            for view in self.views() {
                view.make_room(slot, place);
            }
        }
        let thread = &mut self.threads[t];
        thread.now.raise(slot, place);
        let mut says = if releases(order) {
            thread.now
        } else {
            thread.released
        };
        says.raise(slot, place);
        if let Some(before) = &made_of {
            says.join(before);
        }
        let message = Message {
            value,
            says,
            made_of: made_of.is_some(),
        };
        self.places[slot].insert(at, message);
    }

    fn views(&mut self) -> impl Iterator<Item = &mut View> {
        let threads = self.threads.iter_mut();
        let messages = self.places.iter_mut().flatten();
        threads
            .flat_map(|thread| [&mut thread.now, &mut thread.heard, &mut thread.released])
            .chain(messages.map(|message| &mut message.says))
            .chain(self.tokens.iter_mut().map(|token| &mut token.says))
            .chain([&mut self.fenced])
    }

    fn fence(&mut self, t: usize, order: Ordering) {
        let thread = &mut self.threads[t];
        if acquires(order) {
            assert!(self.fences, "a model of a lock that has fences must say so");
            let heard = thread.heard;
            thread.now.join(&heard);
        }
        if order == Ordering::SeqCst {
            thread.now.join(&self.fenced);
            self.fenced = thread.now;
        }
        if releases(order) {
            thread.released = thread.now;
        }
    }

    /// Whether a place among `loaded` has something newer than what thread `t` knows.
    pub(crate) fn is_news(&self, t: usize, loaded: &[u8]) -> bool {
        loaded
            .iter()
            .map(|&slot| usize::from(slot))
            .any(|slot| usize::from(self.threads[t].now.get(slot)) + 1 < self.places[slot].len())
    }

    /// What was written to these places has arrived, as all does in the end.
    pub(crate) fn arrive(&mut self, t: usize, loaded: &[u8]) {
        for slot in loaded.iter().map(|&slot| usize::from(slot)) {
            let last = self.places[slot].len() - 1;
            self.threads[t].now.raise(slot, small(last));
        }
    }

    /// The last value of a place.
    pub(crate) fn last(&self, layout: &mut Layout, at: Place) -> u64 {
        let messages = self.places.get(layout.slot(at));
        messages
            .and_then(|messages| messages.last())
            .map_or(at.initial, |last| last.value)
    }

    /// The value of a cell.
    pub(crate) fn datum(&self, cell: u32) -> u64 {
        self.data.get(cell as usize).map_or(0, |data| data.value)
    }
}

/// A place in a modification order.
fn small(at: usize) -> u8 {
    u8::try_from(at).expect("a model of fewer than 256 stores to a place")
}
