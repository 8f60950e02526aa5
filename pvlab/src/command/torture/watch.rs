//! Watching: threads that starve, and a lock that is stuck.

use super::count::{acquisitions, states, waiting_since};
use super::record::Starved;
use crate::figures::starves;
use crate::session::{Run, RunError, Stuck, Watched, ns};
use abi::VcpuState;
use std::time::Duration;
use tokio::time::Instant;

/// A thread starves if it has waited for this long (or never gets the lock in the whole test), while it
/// [`starves`] for what the others made meanwhile.
const STARVED_AFTER: Duration = Duration::from_secs(1);

/// If all are halted for this long, and not all of them in a pause, then nobody will ever kick them: what
/// is done next in the guest would have to be done by one that runs.
const LOST_AFTER: Duration = Duration::from_millis(1500);
/// One that is halted and has waited for this long may have missed a wake-up.
const SUSPECT_LOST_AFTER: Duration = Duration::from_millis(500);

/// A lock is stuck only if each vCPU that does not halt has had a CPU for this long in the second half of
/// the silence, a few time slices: a host that has no time for the vCPUs is no fault of the lock's.
const FAIR_CHANCE: Duration = Duration::from_millis(12);

/// Tells the vCPUs that starve from those that get on.
pub(crate) struct Watch {
    spells: Vec<Spell>,
    /// The CPU time of each vCPU's thread when the lock came under suspicion.
    suspected: Option<Vec<Option<Duration>>>,
    /// Since when all are halted.
    all_halted: Option<Instant>,
    /// Somebody halts for so long that its wake-up may have been lost.
    pub(crate) long_halted: bool,
}

/// A thread's present wait.
#[derive(Clone, Copy, Default)]
struct Spell {
    /// When it began, in ticks; 0 if there is none.
    since: u64,
    /// Acquisitions of the others until then, or until it was first seen.
    others_before: u64,
    /// Time of pauses since.
    paused: Duration,
    worst: Option<Starved>,
}

impl Watch {
    pub(crate) fn new(vcpus: usize) -> Self {
        Self {
            spells: vec![Spell::default(); vcpus],
            suspected: None,
            all_halted: None,
            long_halted: false,
        }
    }

    /// Looks who starves; `last`: for the last time.
    pub(crate) fn look(&mut self, vm: &Watched, last: bool) -> Result<(), RunError> {
        let acquisitions = acquisitions(&*vm.machine)?;
        let total = acquisitions.iter().sum();
        self.long_halted = false;
        let (now, khz) = (vm.machine.now(), vm.machine.khz());
        for (vcpu, own) in acquisitions.into_iter().enumerate() {
            let since = waiting_since(&*vm.machine, vcpu)?;
            let waited = match since {
                0 => 0,
                since => now.saturating_sub(since),
            };
            let waited = Duration::from_nanos(ns(waited, khz));
            self.long_halted |= waited >= SUSPECT_LOST_AFTER && vm.machine.is_halted(vcpu);
            self.note(vcpu, (own, total), (since, waited), last);
        }
        Ok(())
    }

    /// Notes of vCPU `vcpu`: its acquisitions and those of all; since when it has been waiting, in ticks,
    /// and for how long.
    fn note(
        &mut self,
        vcpu: usize,
        (own, total): (u64, u64),
        (since, waited): (u64, Duration),
        last: bool,
    ) {
        let others = total - own;
        let vcpus = self.spells.len() as u64;
        let spell = &mut self.spells[vcpu];
        if since != spell.since {
            let still = false;
            *spell = Spell {
                since,
                others_before: others,
                paused: Duration::ZERO,
                worst: spell.worst.map(|worst| Starved { still, ..worst }),
            };
        }
        if since == 0 {
            return;
        }
        let waited = waited.saturating_sub(spell.paused);
        // A guest that has overwritten its counters may show fewer than before.
        let others = others.saturating_sub(spell.others_before);
        let long = waited >= STARVED_AFTER || (last && own == 0);
        if long && starves(0, others, (vcpus - 1).max(1)) {
            let now = Starved {
                waited_s: waited.as_secs_f64(),
                others,
                still: true,
            };
            let as_bad = |worst: &Starved| worst.waited_s >= now.waited_s;
            spell.worst = spell.worst.filter(as_bad).or(Some(now));
        }
    }

    /// A pause of that length is over.
    pub(crate) fn paused(&mut self, length: Duration) {
        for spell in &mut self.spells {
            spell.paused += length;
        }
        self.suspected = None;
    }

    /// For that long nobody had a CPU.
    pub(crate) fn absent(&mut self, length: Duration) {
        self.paused(length);
        self.all_halted = None;
    }

    /// That vCPU `vcpu` starved at its worst.
    pub(crate) fn starved(&self, vcpu: usize) -> Option<Starved> {
        self.spells[vcpu].worst
    }

    /// What there is to tell if a wake-up has been lost.
    pub(crate) fn lost(&mut self, run: &Run<'_>) -> Result<Option<Stuck>, RunError> {
        let machine = &run.vms[0].machine;
        if machine.is_stuck() {
            return run.stuck(0).map(Some);
        }
        let (mut all_halted, mut in_lock) = (true, false);
        for (vcpu, state) in states(&**machine)?.into_iter().enumerate() {
            all_halted = all_halted && (state == VcpuState::Done || machine.is_asleep(vcpu));
            in_lock |= state == VcpuState::Working;
        }
        let since = self.all_halted.unwrap_or_else(Instant::now);
        self.all_halted = (all_halted && in_lock).then_some(since);
        let long = |since: &Instant| since.elapsed() >= LOST_AFTER;
        let lost = self.all_halted.filter(long);
        lost.map(|_| run.stuck(0)).transpose()
    }

    /// Whether all were halted at the last look for lost wake-ups.
    pub(crate) fn all_are_halted(&self) -> bool {
        self.all_halted.is_some()
    }

    /// What there is to tell if nobody has made an acquisition for too long.
    pub(crate) fn stuck(&mut self, run: &mut Run<'_>) -> Result<Option<Stuck>, RunError> {
        let silence = run.vms[0].silence()?;
        if silence < run.scenario.watchdog / 2 {
            self.suspected = None;
            return Ok(None);
        }
        let machine = &run.vms[0].machine;
        let vcpus = 0..machine.region().layout().vcpus();
        let now = || vcpus.clone().map(|vcpu| machine.cpu_time(vcpu));
        let Some(before) = &self.suspected else {
            self.suspected = Some(now().collect());
            return Ok(None);
        };
        let fair = (now().zip(before).enumerate()).all(|(vcpu, (now, before))| {
            // One that has ended has nothing to do with it, and of others it is always known.
            let had = now.zip(*before);
            let had = had.map(|(now, before)| now.saturating_sub(before));
            machine.is_halted(vcpu) || had.is_none_or(|had| had >= FAIR_CHANCE)
        });
        let stuck = silence >= run.scenario.watchdog && fair;
        stuck.then(|| run.stuck(0)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT: (u64, Duration) = (0, Duration::ZERO);
    const BEGUN: (u64, Duration) = (7, Duration::from_millis(1));
    const SHORT: (u64, Duration) = (7, Duration::from_millis(999));
    const LONG: (u64, Duration) = (7, Duration::from_millis(1500));

    /// Its acquisitions and those of all, its wait, and whether it is the last look.
    type Look = ((u64, u64), (u64, Duration), bool);

    /// What is told of vCPU 0 of three after each of these looks: the acquisitions of others that it starved for,
    /// and whether it still does.
    fn told<const N: usize>(looks: [Look; N]) -> [Option<(u64, bool)>; N] {
        let mut watch = Watch::new(3);
        looks.map(|(counts, wait, last)| {
            watch.note(0, counts, wait, last);
            watch.starved(0).map(|worst| (worst.others, worst.still))
        })
    }

    #[test]
    fn a_thread_that_never_gets_the_lock_starves_once_others_had_it_often() {
        let looks = [
            ((0, 10), BEGUN, false),
            // 39 in all are not 20 of each.
            ((0, 49), SHORT, true),
            // It may still get it.
            ((0, 50), SHORT, false),
            ((0, 50), SHORT, true),
        ];
        assert_eq!(told(looks), [None, None, None, Some((40, true))]);
    }

    #[test]
    fn a_long_wait_counts_from_its_beginning_and_is_remembered() {
        let looks = [
            ((5, 205), BEGUN, false),
            // Others made 39 since,
            ((5, 244), LONG, false),
            // it has not waited for long,
            ((5, 245), SHORT, false),
            ((5, 245), LONG, false),
            // it is over.
            ((6, 246), NOT, false),
        ];
        let (starves, over) = (Some((40, true)), Some((40, false)));
        assert_eq!(told(looks), [None, None, None, starves, over]);
    }

    #[test]
    fn what_others_did_before_is_no_reason() {
        // In a queue each gets its turn.
        let looks = [((0, 10000), SHORT, false), ((0, 10002), LONG, true)];
        assert_eq!(told(looks), [None; 2]);
    }

    #[test]
    fn pauses_are_no_waits() {
        let mut watch = Watch::new(3);
        watch.note(0, (5, 5), BEGUN, false);
        watch.paused(Duration::from_secs(1));
        watch.note(0, (5, 1005), LONG, false);
        assert_eq!(watch.starved(0), None, "500 ms without the pause");
    }
}
