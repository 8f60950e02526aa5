//! What makes two states of memory one: nobody can tell them apart any more.

use super::{C11, small};
use crate::layout::{Kind, Layout};
use crate::view::{Fingerprint, SLOTS, View};

impl C11 {
    /// Adds what can make a difference for those of the threads that are still `live`.
    pub(crate) fn describe(&self, layout: &Layout, live: &[bool], state: &mut Fingerprint) {
        let mut floor = [0; SLOTS];
        for (slot, messages) in self.places.iter().enumerate() {
            let knows = self.threads.iter().zip(live).filter(|(_, live)| **live);
            let least = knows.map(|(thread, _)| thread.now.get(slot)).min();
            floor[slot] = least.unwrap_or_else(|| small(messages.len().saturating_sub(1)));
        }
        let of = |view: &View, state: &mut Fingerprint| {
            for (slot, kind) in layout.kinds.iter().enumerate() {
                let known = view.get(slot);
                let above = match *kind {
                    Kind::Place => known.saturating_sub(floor[slot]),
                    Kind::Cell { cell, thread } => {
                        let Some(data) = self.data.get(cell as usize) else {
                            continue;
                        };
                        let wrote = data.written.filter(|&(writer, _)| writer == thread);
                        let last = data.counts[thread];
                        u8::from(last > 0 && known >= last)
                            + 2 * u8::from(wrote.is_some_and(|(_, count)| known >= count))
                    }
                };
                if above > 0 {
                    state.add((slot as u64) << 8 | u64::from(above));
                }
            }
            state.add(u64::MAX);
        };
        for (slot, messages) in self.places.iter().enumerate() {
            if messages.len() < 2 {
                continue;
            }
            state.add(0x1_0000 | slot as u64);
            let first = usize::from(floor[slot]);
            for (at, message) in messages.iter().enumerate().skip(first) {
                state.add(message.value);
                state.add(u64::from(message.made_of && at > first));
                of(&message.says, state);
            }
        }
        for data in &self.data {
            state.add(data.value);
            state.add(data.written.map_or(0, |(writer, _)| 1 + writer as u64));
            for count in data.counts {
                state.add((count > 0).into());
            }
        }
        for (t, (thread, live)) in self.threads.iter().zip(live).enumerate() {
            if *live {
                state.add(0x2_0000 | t as u64);
                of(&thread.now, state);
                if self.fences {
                    of(&thread.heard, state);
                }
                of(&thread.released, state);
                state.add(self.tokens[t].set.into());
                of(&self.tokens[t].says, state);
            }
        }
        of(&self.fenced, state);
    }
}
