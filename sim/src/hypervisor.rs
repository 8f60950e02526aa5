//! What the hypervisor knows of each vCPU, and decides when it leaves the guest: halts and how long to poll for
//! their end, kicks, yields, and exits of loops that pause for too long.

use crate::parameters::Costs;
use crate::schedule::Rule;
use crate::scheduler::State;
use crate::units::{NS, Ps, per_1024, times};
use abi::{Counter, ExitReason, HostStep};
use std::collections::BTreeMap;
use std::ops::Range;

/// Candidates of a pause-loop exit that may turn out to be useless.
const PLE_TRIES: usize = 3;

times!(Times {
    pause_ns,
    wake_ns,
    halt_poll_max_ns,
    halt_poll_start_ns,
    ple_gap_ns,
    ple_window_ns,
    ple_window_max_ns,
});

/// How a directed yield ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yielded {
    /// The target waited for a CPU, and is next on it.
    Next,
    /// Futile: the target runs.
    WasRunning,
    /// Futile: the target is halted.
    WasHalted,
}

impl Yielded {
    /// What counts it, beside [`Counter::Yields`].
    pub(crate) const fn counters(self) -> &'static [Counter] {
        match self {
            Self::Next => &[],
            Self::WasRunning => &[Counter::FutileYields, Counter::YieldsToRunning],
            Self::WasHalted => &[Counter::FutileYields, Counter::YieldsToHalted],
        }
    }
}

/// What becomes of a vCPU that halts.
pub(crate) enum Halt {
    /// It goes on: it has been kicked.
    Kicked,
    /// Its CPU polls for it until then.
    Polls(Ps),
    /// It gives its CPU up.
    Blocks,
}

/// Why a vCPU leaves the guest.
#[derive(Clone, Copy)]
enum Exit {
    Halt,
    Kick,
    Yield,
    Pause,
    Preempt,
    Barrier,
}

/// The names of those.
const EXITS: [&str; 6] = ["halt", "kick", "yield", "pause", "preempt", "barrier"];

/// The block by which the hypervisor controls a vCPU.
struct Control {
    /// Its number in its VM.
    number: u32,
    /// A kick that no halt has taken yet.
    kicked: bool,
    /// A wake-up is on its way.
    waking: bool,
    halted_at: Ps,
    /// How long its CPU would poll for it.
    poll: Ps,
    /// How long it may spin until it leaves the guest, and what of that is left.
    ple_window: Ps,
    ple_left: Ps,
    /// When it last executed a pause of its own.
    paused_at: Ps,
    /// For [`HostStep::Injected`].
    away_since: Ps,
    /// Critical sections begun, and halts that ended: what a schedule counts.
    sections: u64,
    wakes: u64,
    /// Times it left the guest, by reason.
    exits: [u64; EXITS.len()],
    steps: Vec<(u64, HostStep)>,
}

pub(crate) struct Hypervisor {
    times: Times,
    poll_grow: Ps,
    poll_shrink: Ps,
    ple: bool,
    ple_grow: Ps,
    rules: Vec<Rule>,
    /// Whether steps are noted.
    tracing: bool,
    /// One of each vCPU.
    controls: Vec<Control>,
    /// Of each VM the vCPU that was last yielded to by a pause-loop exit, by its number there.
    boosted: Vec<u32>,
}

impl Hypervisor {
    pub(crate) fn new(costs: &Costs, rules: Vec<Rule>, tracing: bool) -> Self {
        Self {
            times: Times::new(costs),
            poll_grow: per_1024(costs.halt_poll_grow),
            poll_shrink: per_1024(costs.halt_poll_shrink),
            // Nothing leaves a guest where there is none.
            ple: costs.ple != 0.0 && costs.virtual_machine != 0.0,
            ple_grow: per_1024(costs.ple_grow),
            rules,
            tracing,
            controls: Vec::new(),
            boosted: Vec::new(),
        }
    }

    pub(crate) fn add_vm(&mut self) {
        self.boosted.push(0);
    }

    pub(crate) fn add_vcpu(&mut self, number: u32, now: Ps) {
        self.controls.push(Control {
            number,
            kicked: false,
            waking: false,
            halted_at: 0,
            poll: 0,
            ple_window: self.times.ple_window_ns,
            ple_left: self.times.ple_window_ns,
            paused_at: 0,
            away_since: now,
            sections: 0,
            wakes: 0,
            exits: [0; EXITS.len()],
            steps: Vec::new(),
        });
    }

    fn control(&mut self, vcpu: u32) -> &mut Control {
        &mut self.controls[vcpu as usize]
    }

    pub(crate) fn note(&mut self, vcpu: u32, step: HostStep, now: Ps) {
        let exit = match step {
            HostStep::Exit(ExitReason::Halt) => Some(Exit::Halt),
            HostStep::Exit(ExitReason::Yield) => Some(Exit::Yield),
            HostStep::Exit(ExitReason::Preempt) => Some(Exit::Preempt),
            HostStep::Exit(ExitReason::Pause) => Some(Exit::Pause),
            HostStep::Exit(ExitReason::Barrier) => Some(Exit::Barrier),
            _ => None,
        };
        let tracing = self.tracing;
        let control = self.control(vcpu);
        if let Some(exit) = exit {
            control.exits[exit as usize] += 1;
        }
        if tracing {
            control.steps.push((now / NS, step));
        }
    }

    pub(crate) fn note_kick(&mut self, vcpu: u32) {
        self.control(vcpu).exits[Exit::Kick as usize] += 1;
    }

    /// How often `vcpu` left the guest, by reason.
    pub(crate) fn exits(&self, vcpu: u32) -> BTreeMap<&'static str, u64> {
        let counts = self.controls[vcpu as usize].exits;
        let exits = EXITS.into_iter().zip(counts);
        exits.filter(|&(_, count)| count > 0).collect()
    }

    pub(crate) fn take_steps(&mut self, vcpu: u32) -> Vec<(u64, HostStep)> {
        std::mem::take(&mut self.control(vcpu).steps)
    }

    /// Whether a wake-up of `vcpu` is on its way.
    pub(crate) fn is_waking(&self, vcpu: u32) -> bool {
        self.controls[vcpu as usize].waking
    }

    /// `vcpu`, which has got a CPU, enters the guest.
    pub(crate) fn enters(&mut self, vcpu: u32, now: Ps) {
        let window = self.times.ple_window_ns;
        let control = self.control(vcpu);
        control.ple_window = window;
        control.ple_left = window;
        self.note(vcpu, HostStep::Enter, now);
    }

    /// `vcpu`, which has left the guest, halts. `is_wanted`: others wait for its CPU.
    pub(crate) fn halt(&mut self, vcpu: u32, is_wanted: bool, now: Ps) -> Halt {
        let control = self.control(vcpu);
        if std::mem::take(&mut control.kicked) {
            return Halt::Kicked;
        }
        control.halted_at = now;
        let poll = control.poll;
        self.note(vcpu, HostStep::Blocked, now);
        if poll > 0 && !is_wanted {
            Halt::Polls(now + poll)
        } else {
            Halt::Blocks
        }
    }

    /// `target` is kicked: when it wakes up for that. `polls`: its CPU polls for it, if it is halted.
    pub(crate) fn kick(
        &mut self,
        target: u32,
        is_halted: bool,
        polls: bool,
        now: Ps,
    ) -> Option<Ps> {
        let control = &mut self.controls[target as usize];
        if control.waking {
            return None;
        }
        if !is_halted {
            control.kicked = true;
            return None;
        }
        control.waking = true;
        control.wakes += 1;
        let (number, count) = (control.number, control.wakes);
        let late = self.rules.iter().find_map(|r| r.delays(number, count));
        // A CPU that polls sees the kick at once.
        let wakes = if polls { 0 } else { self.times.wake_ns };
        Some(now + wakes + late.unwrap_or(0) * NS)
    }

    /// A halted vCPU has been kicked, and can run.
    pub(crate) fn wakes(&mut self, vcpu: u32, now: Ps) {
        let control = self.control(vcpu);
        control.waking = false;
        let blocked = now - control.halted_at;
        self.adapt_poll(vcpu, blocked);
        self.note(vcpu, HostStep::Unblocked, now);
    }

    /// How long to poll the next time: longer if that would have helped this time, shorter if the halt
    /// was too long for it (KVM documentation, halt-polling).
    fn adapt_poll(&mut self, vcpu: u32, blocked: Ps) {
        let Times {
            halt_poll_max_ns: most,
            halt_poll_start_ns: start,
            ..
        } = self.times;
        let poll = &mut self.controls[vcpu as usize].poll;
        if most == 0 || blocked <= *poll {
            return;
        }
        *poll = if blocked <= most {
            (*poll * self.poll_grow / 1024).max(start).min(most)
        } else {
            let less = (*poll * 1024).checked_div(self.poll_shrink).unwrap_or(0);
            if less < start { 0 } else { less }
        };
    }

    /// `vcpu` leaves its CPU for a time.
    pub(crate) fn goes_away(&mut self, vcpu: u32, now: Ps) {
        self.control(vcpu).away_since = now;
    }

    pub(crate) fn comes_back(&mut self, vcpu: u32, now: Ps) {
        let away = now - self.control(vcpu).away_since;
        self.note(vcpu, HostStep::Injected(away / NS), now);
    }

    /// `vcpu` begins to spin: for how long it may, of `budget`.
    pub(crate) fn spins(&mut self, vcpu: u32, budget: Ps, now: Ps) -> Ps {
        let gap = self.times.ple_gap_ns + self.times.pause_ns;
        let control = &mut self.controls[vcpu as usize];
        if now - control.paused_at > gap {
            control.ple_left = control.ple_window;
        }
        if self.ple {
            budget.min(control.ple_left)
        } else {
            budget
        }
    }

    /// `vcpu` has spun for `time`.
    pub(crate) fn spun(&mut self, vcpu: u32, time: Ps, now: Ps) {
        let control = self.control(vcpu);
        control.ple_left = control.ple_left.saturating_sub(time);
        control.paused_at = now;
    }

    /// `vcpu` pauses, from `before` to `now`. True if it has to leave the guest for it.
    #[inline(always)]
    pub(crate) fn pauses(&mut self, vcpu: u32, before: Ps, now: Ps) -> bool {
        if !self.ple {
            return false;
        }
        let control = &mut self.controls[vcpu as usize];
        if before - control.paused_at > self.times.ple_gap_ns {
            control.ple_left = control.ple_window;
        }
        let paused = now - control.paused_at.max(before);
        control.ple_left = control.ple_left.saturating_sub(paused);
        control.paused_at = now;
        control.ple_left == 0
    }

    /// Whether `vcpu` has spun for so long that it has to leave the guest.
    pub(crate) fn has_spun_out(&self, vcpu: u32) -> bool {
        self.ple && self.controls[vcpu as usize].ple_left == 0
    }

    /// A spinning vCPU of `vm`, which has the vCPUs `all`, has left the guest, and yields to one that is
    /// preempted, if there is one: to which, and how that ended.
    pub(crate) fn pause_exit(
        &mut self,
        vcpu: u32,
        vm: usize,
        all: Range<u32>,
        now: Ps,
        state: impl Fn(u32) -> State,
    ) -> (Option<u32>, Yielded) {
        self.note(vcpu, HostStep::Exit(ExitReason::Pause), now);
        let control = &mut self.controls[vcpu as usize];
        let longer = control.ple_window * self.ple_grow / 1024;
        control.ple_window = longer.min(self.times.ple_window_max_ns);
        control.ple_left = control.ple_window;
        let boosted = &mut self.boosted[vm];
        let from = all.start + *boosted + 1;
        let in_turn = (from..all.end).chain(all.start..from);
        let (mut tries, mut yielded) = (0, Yielded::WasHalted);
        for candidate in in_turn.filter(|&candidate| candidate != vcpu) {
            match state(candidate) {
                State::Queued => {
                    *boosted = candidate - all.start;
                    return (Some(candidate), Yielded::Next);
                }
                State::Running => {
                    yielded = Yielded::WasRunning;
                    tries += 1;
                    if tries == PLE_TRIES {
                        break;
                    }
                }
                _ => {}
            }
        }
        (None, yielded)
    }

    /// `vcpu` has begun a critical section: it leaves its CPU, if a schedule says so. For how long, ns.
    pub(crate) fn section_begins(&mut self, vcpu: u32) -> Option<u64> {
        let control = self.control(vcpu);
        control.sections += 1;
        let (number, count) = (control.number, control.sections);
        self.rules.iter().find_map(|r| r.deschedules(number, count))
    }
}
