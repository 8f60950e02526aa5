//! Models: a few CPUs that use a few locks, each in its way.

use crate::atomics::begin;
use crate::explore::{Explored, Failure, Limits, Program, datum, explore};
use crate::machinery;
use crate::memory::Model;
use crate::op::Op;
use crate::platform::{Facts, check_end, make};
use crate::thread::ask;
use std::panic::Location;

/// Plain data.
#[derive(Clone, Copy, Debug)]
pub struct Cell(u32);

impl Cell {
    /// One of a model; each has a number of its own, from 0.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// A CPU writes: one more than was there.
    #[track_caller]
    pub fn add_one(self) {
        let site = Location::caller();
        machinery::enter(true);
        let value = ask(site, self.op(None)).value;
        ask(site, self.op(Some(value + 1)));
        machinery::leave(true);
    }

    /// A CPU reads.
    #[track_caller]
    pub fn look(self) -> u64 {
        let site = Location::caller();
        machinery::enter(false);
        let value = ask(site, self.op(None)).value;
        machinery::leave(false);
        value
    }

    /// The value when all is done.
    pub fn last(self) -> u64 {
        datum(self.0)
    }

    /// Reads, whoever else is inside.
    #[track_caller]
    pub fn read(self) -> u64 {
        ask(Location::caller(), self.op(None)).value
    }

    /// Writes, whoever else is inside.
    #[track_caller]
    pub fn write(self, value: u64) {
        ask(Location::caller(), self.op(Some(value)));
    }

    const fn op(self, write: Option<u64>) -> Op {
        let cell = self.0;
        Op::Data { cell, write }
    }
}

/// The executing CPU is at that place of its part, and knows no more than that.
#[track_caller]
pub fn at(place: usize) {
    ask(Location::caller(), Op::Forget(place as u64));
}

/// What a CPU does; gets what all share.
pub type Part<S> = Box<dyn Fn(&'static S)>;

/// A model: what is shared, what each CPU does with it, and what must hold in the end.
pub struct Setting<S: 'static> {
    /// Makes what is shared.
    pub shared: fn() -> S,
    /// The locks in it that have keys.
    pub register: fn(&S),
    /// A part for each CPU.
    pub parts: Vec<Part<S>>,
    /// Checked in the end.
    pub end: Part<S>,
    /// Some use acquire fences.
    pub fences: bool,
    /// What the machine is like.
    pub facts: Facts,
    /// How far to look.
    pub limits: Limits,
}

impl<S> Setting<S> {
    /// Explores the model with that memory.
    ///
    /// # Errors
    /// What is found.
    pub fn explore(self, model: Model) -> Result<Explored, Failure> {
        begin(model);
        make(self.facts, self.parts.len());
        // Models are few and small; threads that are given up in the middle refer to it.
        let shared: &'static S = Box::leak(Box::new((self.shared)()));
        (self.register)(shared);
        let part =
            |part: Part<S>| -> &'static dyn Fn() { Box::leak(Box::new(move || part(shared))) };
        let end = self.end;
        let end: Part<S> = Box::new(move |shared| {
            end(shared);
            check_end();
        });
        let program = Program {
            threads: self.parts.into_iter().map(part).collect(),
            end: part(end),
            fences: self.fences,
        };
        explore(&program, model, self.limits)
    }
}
