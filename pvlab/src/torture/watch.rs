//! Watching: threads that starve, and a lock that is stuck.

use super::Starved;
use super::count::{Count, waiting};
use crate::session::{Run, RunError, Stuck, Watched};
use std::time::Duration;
use vmm::thread::ThreadStats;

/// A thread starves if it has waited for this long (or never gets the lock in the whole test),
const STARVED_AFTER: Duration = Duration::from_secs(1);
/// while the others made this many acquisitions, each, on average. Where waiters queue it is about one.
const STARVED_WHILE: u64 = 20;

/// From this silence on a lock is suspected to be stuck.
const SUSPECT_AFTER: Duration = Duration::from_millis(500);
/// A lock is stuck only if each vCPU that does not halt has had a CPU for this long in the silence: a
/// host that has no time for the vCPUs is no fault of the lock's.
const FAIR_CHANCE: Duration = Duration::from_millis(3);

/// Who starves, and who gets on.
pub(super) struct Watch {
    spells: Vec<Spell>,
    /// The CPU time of each vCPU's thread when the lock came under suspicion.
    suspected: Option<Vec<Duration>>,
}

/// A thread since its last acquisition.
#[derive(Clone, Copy, Default)]
struct Spell {
    acquisitions: u64,
    /// Acquisitions of the others when it made its last.
    others_before: u64,
    /// Time of pauses since.
    paused: Duration,
    worst: Option<Starved>,
}

impl Watch {
    pub(super) fn new(vcpus: usize) -> Self {
        Self {
            spells: vec![Spell::default(); vcpus],
            suspected: None,
        }
    }

    /// Looks who starves; `last`: for the last time.
    pub(super) fn look(
        &mut self,
        vm: &Watched,
        counts: &[Count],
        last: bool,
    ) -> Result<(), RunError> {
        for vcpu in 0..counts.len() {
            let ticks = waiting(&*vm.machine, vcpu)?;
            let ns = u128::from(ticks) * 1_000_000 / u128::from(vm.machine.khz().max(1));
            let waited = Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
            self.note(vcpu, counts, waited, last);
        }
        Ok(())
    }

    /// Notes that vCPU `vcpu` has been waiting for `waited`, not at all if it is zero.
    fn note(&mut self, vcpu: usize, counts: &[Count], waited: Duration, last: bool) {
        let own = counts[vcpu].acquisitions;
        let others = counts.iter().map(|c| c.acquisitions).sum::<u64>() - own;
        let spell = &mut self.spells[vcpu];
        if own != spell.acquisitions {
            spell.acquisitions = own;
            spell.others_before = others;
            spell.paused = Duration::ZERO;
            if let Some(worst) = &mut spell.worst {
                worst.still = false;
            }
        }
        let waited = waited.saturating_sub(spell.paused);
        let others = others - spell.others_before;
        let long = waited >= STARVED_AFTER || (last && own == 0 && !waited.is_zero());
        if long && others >= STARVED_WHILE * (counts.len() as u64 - 1).max(1) {
            let now = Starved {
                waited_s: waited.as_secs_f64(),
                others,
                still: true,
            };
            if spell
                .worst
                .is_none_or(|worst| worst.waited_s < now.waited_s)
            {
                spell.worst = Some(now);
            }
        }
    }

    /// A pause of that length is over.
    pub(super) fn paused(&mut self, length: Duration) {
        for spell in &mut self.spells {
            spell.paused += length;
        }
        self.suspected = None;
    }

    /// That vCPU `vcpu` starved at its worst.
    pub(super) fn starved(&self, vcpu: usize) -> Option<Starved> {
        self.spells[vcpu].worst
    }

    /// What there is to tell if nobody has made an acquisition for too long.
    pub(super) fn stuck(&mut self, run: &mut Run<'_>) -> Result<Option<Stuck>, RunError> {
        let silence = run.silence(0)?;
        if silence < SUSPECT_AFTER {
            self.suspected = None;
            return Ok(None);
        }
        let vm = &run.vms[0];
        let Some(before) = &self.suspected else {
            self.suspected = Some(cpu_times(vm));
            return Ok(None);
        };
        if silence < run.scenario.watchdog {
            return Ok(None);
        }
        let now = cpu_times(vm);
        let fair = (now.iter().zip(before).enumerate()).all(|(vcpu, (now, before))| {
            vm.machine.is_halted(vcpu) || now.saturating_sub(*before) >= FAIR_CHANCE
        });
        if fair {
            run.stuck(0).map(Some)
        } else {
            Ok(None)
        }
    }
}

fn cpu_times(vm: &Watched) -> Vec<Duration> {
    (0..vm.machine.region().layout().vcpus())
        .map(|vcpu| match vm.machine.tid(vcpu) {
            Some(tid) => ThreadStats::of(tid).cpu,
            None => Duration::ZERO,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(acquisitions: [u64; 3]) -> Vec<Count> {
        acquisitions
            .map(|acquisitions| Count {
                acquisitions,
                ..Count::default()
            })
            .to_vec()
    }

    const NOT: Duration = Duration::ZERO;
    const SHORT: Duration = Duration::from_millis(999);
    const LONG: Duration = Duration::from_millis(1500);

    #[test]
    fn a_thread_without_any_acquisition_starves_once_others_made_many() {
        let mut watch = Watch::new(3);
        watch.note(0, &counts([0, 20, 19]), SHORT, true);
        assert_eq!(watch.starved(0), None, "39 in all are not 20 of each");
        watch.note(0, &counts([0, 20, 20]), NOT, true);
        assert_eq!(watch.starved(0), None, "it is not waiting");
        watch.note(0, &counts([0, 20, 20]), SHORT, false);
        assert_eq!(watch.starved(0), None, "it may still get it");
        watch.note(0, &counts([0, 20, 20]), SHORT, true);
        let starved = watch.starved(0).unwrap();
        assert_eq!((starved.others, starved.still), (40, true));
    }

    #[test]
    fn a_long_wait_counts_from_the_last_acquisition_and_is_remembered() {
        let mut watch = Watch::new(3);
        watch.note(0, &counts([5, 100, 100]), SHORT, false);
        watch.note(0, &counts([5, 120, 119]), LONG, false);
        assert_eq!(watch.starved(0), None, "others made 39 since");
        watch.note(0, &counts([5, 120, 120]), SHORT, false);
        assert_eq!(watch.starved(0), None, "it has not waited for long");
        watch.note(0, &counts([5, 120, 120]), LONG, false);
        assert!(watch.starved(0).unwrap().still);
        watch.note(0, &counts([6, 120, 120]), NOT, false);
        assert!(!watch.starved(0).unwrap().still, "it is over");
    }

    #[test]
    fn pauses_are_no_waits() {
        let mut watch = Watch::new(3);
        watch.note(0, &counts([5, 0, 0]), NOT, false);
        watch.paused(Duration::from_secs(1));
        watch.note(0, &counts([5, 500, 500]), LONG, false);
        assert_eq!(watch.starved(0), None, "500 ms without the pause");
    }
}
