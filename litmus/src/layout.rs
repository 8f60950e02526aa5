//! Where views keep what they know of what.

use crate::op::Place;
use crate::view::SLOTS;

/// Which slot of views belongs to what. Learnt by use, and kept for all executions of a model.
#[derive(Default)]
pub(crate) struct Layout {
    slots: Vec<Option<u8>>,
    initial: Vec<u64>,
    /// The first of each cell's, one for each thread.
    cells: Vec<Option<usize>>,
    /// What each slot is: a place's, or that of a cell and thread.
    pub(crate) kinds: Vec<Kind>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Place,
    Cell { cell: u32, thread: usize },
}

impl Layout {
    fn push(&mut self, kind: Kind) -> usize {
        self.kinds.push(kind);
        assert!(
            self.kinds.len() <= SLOTS,
            "a model of more than {SLOTS} places"
        );
        self.kinds.len() - 1
    }

    pub(crate) fn slot(&mut self, at: Place) -> usize {
        let number = at.number as usize;
        if self.slots.len() <= number {
            self.slots.resize(number + 1, None);
        }
        if let Some(slot) = self.slots[number] {
            return slot.into();
        }
        let slot = self.push(Kind::Place);
        self.initial.resize(slot + 1, 0);
        self.initial[slot] = at.initial;
        self.slots[number] = u8::try_from(slot).ok();
        slot
    }

    pub(crate) fn cell(&mut self, cell: u32, threads: usize) -> usize {
        let number = cell as usize;
        if self.cells.len() <= number {
            self.cells.resize(number + 1, None);
        }
        if let Some(first) = self.cells[number] {
            return first;
        }
        let slots: Vec<usize> = (0..threads)
            .map(|thread| self.push(Kind::Cell { cell, thread }))
            .collect();
        self.cells[number] = Some(slots[0]);
        slots[0]
    }

    /// By slot.
    pub(crate) fn initial_values(&self) -> &[u64] {
        &self.initial
    }
}
