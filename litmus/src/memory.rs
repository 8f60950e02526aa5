//! The memory of an execution: one model or the other.

use crate::c11::C11;
use crate::layout::Layout;
use crate::op::{Op, Place, Reply};
use crate::tso::Tso;
use crate::view::Fingerprint;

/// A memory model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// That of C11 and Rust, for lock words that are one atomic: [`crate::c11`].
    C11,
    /// The same, and a lock word whose pending bit is set by one access and the rest read by another.
    C11TwoSteps,
    /// That of x86-64, with lock words accessed by bytes: [`crate::tso`].
    X86,
}

impl Model {
    /// Every model.
    pub const ALL: [Self; 3] = [Self::C11, Self::C11TwoSteps, Self::X86];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::C11 => "C11",
            Self::C11TwoSteps => "C11, two steps",
            Self::X86 => "x86-TSO, bytes",
        }
    }

    /// Whether parts of a lock word are accessed by themselves.
    pub(crate) const fn has_bytes(self) -> bool {
        matches!(self, Self::X86)
    }

    /// Whether setting a bit and reading the others are two accesses.
    pub(crate) const fn sets_bits_in_two_steps(self) -> bool {
        !matches!(self, Self::C11)
    }
}

/// The memory.
pub(crate) enum Memory {
    C11(C11),
    X86(Tso),
}

impl Memory {
    pub(crate) fn new(model: Model, threads: usize, fences: bool) -> Self {
        match model {
            Model::C11 | Model::C11TwoSteps => Self::C11(C11::new(threads, fences)),
            Model::X86 => Self::X86(Tso::new(threads)),
        }
    }

    pub(crate) fn ways(&mut self, layout: &mut Layout, t: usize, op: &Op, patient: bool) -> usize {
        match self {
            Self::C11(memory) => memory.ways(layout, t, op, patient),
            Self::X86(memory) => memory.ways(layout, t, op, patient),
        }
    }

    /// Does `op` in one of these ways. `None`: it takes another step.
    ///
    /// # Errors
    /// A data race.
    pub(crate) fn perform(
        &mut self,
        layout: &mut Layout,
        t: usize,
        op: &Op,
        way: usize,
    ) -> Result<Option<Reply>, String> {
        match self {
            Self::C11(memory) => memory.perform(layout, t, op, way).map(Some),
            Self::X86(memory) => Ok(memory.perform(layout, t, op, way)),
        }
    }

    pub(crate) fn is_buffered(&self, t: usize) -> bool {
        match self {
            Self::C11(_) => false,
            Self::X86(memory) => memory.is_buffered(t),
        }
    }

    pub(crate) fn drain(&mut self, t: usize) {
        if let Self::X86(memory) = self {
            memory.drain(t);
        }
    }

    /// Thread `t` has loaded from that slot.
    pub(crate) fn looked(&mut self, t: usize, slot: u8) {
        if let Self::X86(memory) = self {
            memory.looked(t, slot);
        }
    }

    pub(crate) fn is_news(&self, t: usize, loaded: &[u8]) -> bool {
        match self {
            Self::C11(memory) => memory.is_news(t, loaded),
            Self::X86(memory) => memory.is_news(t, loaded),
        }
    }

    pub(crate) fn arrive(&mut self, t: usize, loaded: &[u8]) {
        if let Self::C11(memory) = self {
            memory.arrive(t, loaded);
        }
    }

    pub(crate) fn last(&self, layout: &mut Layout, at: Place) -> u64 {
        match self {
            Self::C11(memory) => memory.last(layout, at),
            Self::X86(memory) => memory.last(layout, at),
        }
    }

    pub(crate) fn datum(&self, cell: u32) -> u64 {
        match self {
            Self::C11(memory) => memory.datum(cell),
            Self::X86(memory) => memory.datum(cell),
        }
    }

    pub(crate) fn describe(
        &self,
        layout: &Layout,
        live: &[bool],
        loops: &[Vec<u8>],
        state: &mut Fingerprint,
    ) {
        match self {
            Self::C11(memory) => memory.describe(layout, live, state),
            Self::X86(memory) => memory.describe(layout, loops, state),
        }
    }
}
