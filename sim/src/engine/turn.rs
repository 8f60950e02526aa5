//! The vCPU that executes: its clock, how far that may run ahead, what it sees, and how fast it is.

use crate::parameters::Costs;
use crate::scheduler::State;
use crate::units::{Ps, times};

/// Bytes of a line.
pub(super) const LINE_BYTES: usize = 64;

/// Where a vCPU sees its region, and the number of the first line of that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) base: usize,
    pub(super) bytes: usize,
    pub(super) first_line: u32,
}

times!(
    /// What a core takes on its own.
    Pace { hit_ns, rmw_ns }
);

pub(crate) struct Turn {
    /// Its clock.
    local: Ps,
    /// Until when nobody else does anything.
    horizon: Ps,
    /// Until when nobody can take a line away that no request is under way for.
    limit: Ps,
    window: Window,
    vcpu: u32,
    cpu: u32,
    /// How much longer everything takes than it should, as its core is shared, in 1/1024.
    factor: Ps,
    /// As it is with that, and without.
    pace: Pace,
    alone: Pace,
    /// Whether it is still its turn.
    lasts: bool,
    /// Once it suspends itself it leaves its CPU for that.
    leaves: Option<State>,
    operations: u64,
}

impl Turn {
    pub(super) fn new(costs: &Costs) -> Self {
        let pace = Pace::new(costs);
        Self {
            local: 0,
            horizon: 0,
            limit: 0,
            window: Window::default(),
            vcpu: 0,
            cpu: 0,
            factor: 1024,
            pace,
            alone: pace,
            lasts: false,
            leaves: None,
            operations: 0,
        }
    }

    /// `vcpu` goes on at `now` on `cpu`.
    #[inline(always)]
    pub(super) fn begin(&mut self, vcpu: u32, cpu: u32, window: Window, now: Ps) {
        self.vcpu = vcpu;
        self.cpu = cpu;
        self.local = now;
        self.window = window;
        self.lasts = true;
    }

    /// Its CPU is that much slower, in 1/1024, than one that is alone on its core.
    #[inline(always)]
    pub(super) fn slow_down(&mut self, factor: Ps) {
        if factor != self.factor {
            self.factor = factor;
            self.pace.hit_ns = self.alone.hit_ns * factor / 1024;
            self.pace.rmw_ns = self.alone.rmw_ns * factor / 1024;
        }
    }

    /// The vCPU has suspended itself: its CPU, and for what it leaves that.
    #[inline(always)]
    pub(super) fn end(&mut self) -> (u32, Option<State>) {
        self.lasts = false;
        (self.cpu, self.leaves.take())
    }

    /// Nobody else does anything until `horizon`, and nobody can take a line away for `lookahead` more.
    #[inline(always)]
    pub(super) fn set_horizon(&mut self, horizon: Ps, lookahead: Ps) {
        self.horizon = horizon;
        self.limit = horizon.saturating_add(lookahead);
    }

    /// It is to come back as soon as possible.
    pub(super) fn hurry(&mut self) {
        self.horizon = 0;
        self.limit = 0;
    }

    /// Once it suspends itself it leaves its CPU for `state`.
    pub(super) fn leave_for(&mut self, state: State) {
        self.leaves = Some(state);
    }

    pub(super) fn is_of(&self, vcpu: u32) -> bool {
        self.lasts && self.vcpu == vcpu
    }

    #[inline(always)]
    pub(super) fn vcpu(&self) -> u32 {
        self.vcpu
    }

    #[inline(always)]
    pub(super) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Lines used that its CPU had.
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn set_local(&mut self, local: Ps) {
        self.local = local;
    }

    #[inline(always)]
    pub(crate) fn local(&self) -> Ps {
        self.local
    }

    #[inline(always)]
    pub(crate) fn charge(&mut self, time: Ps) {
        self.local += time * self.factor / 1024;
    }

    /// The same for what has gone on beside something else that took `beside`.
    pub(crate) fn charge_beside(&mut self, time: Ps, beside: Ps) {
        self.local += (time * self.factor / 1024).saturating_sub(beside);
    }

    /// Accounts for using a line that this CPU has.
    #[inline(always)]
    pub(super) fn charge_use(&mut self, modify: bool) {
        self.operations += 1;
        self.local += if modify {
            self.pace.rmw_ns
        } else {
            self.pace.hit_ns
        };
    }

    /// Whether the vCPU is so far ahead of the machine that it is to suspend itself; what it computes is
    /// accounted for then.
    #[inline(always)]
    pub(crate) fn is_ahead(&self) -> bool {
        self.local > self.limit
    }

    #[inline(always)]
    pub(crate) fn is_ahead_at_all(&self) -> bool {
        self.local > self.horizon
    }

    /// Where the region begins.
    pub(crate) fn base(&self) -> usize {
        self.window.base
    }

    #[inline(always)]
    pub(crate) fn line_at(&self, address: usize) -> u32 {
        let offset = address.wrapping_sub(self.window.base);
        assert!(offset < self.window.bytes, "an atomic outside the region");
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the region has fewer lines"
        )]
        let line = (offset / LINE_BYTES) as u32;
        self.window.first_line + line
    }
}
