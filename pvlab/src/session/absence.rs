//! Times in which nothing of this process had a CPU: it was stopped, the host was suspended, or all its CPUs
//! were taken away. What passes then is not measured time.
//!
//! The control thread looks at the clocks about every [`TICK`]. If it comes far too late, that alone says
//! little: its vCPUs may have kept it from its CPU. So it asks how much CPU time the whole process has had
//! meanwhile: as much as before, then only the look was late; hardly any, then nobody was there.

use crate::record::{Absence, Cause};
use host::stops;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// How often it looks, at least, if it is not kept from it.
const TICK: Duration = Duration::from_millis(100);
/// Looks that follow each other sooner are one.
const LEAST_BETWEEN: Duration = Duration::from_millis(50);
/// Shorter stops are not told from the host's other work,
const LEAST: Duration = Duration::from_millis(200);
/// nor are CPUs that were taken away for less than this.
const LEAST_TAKEN: Duration = Duration::from_millis(400);
/// With less than this many CPUs used, how much is used does not tell whether anybody is there.
const LEAST_RATE: f64 = 0.02;

pub(crate) struct Absences {
    /// CPUs that the vCPUs can use at the same time; 0: nobody is to look, as time is virtual.
    cpus: f64,
    last: Option<Moment>,
    /// CPUs that were used lately.
    rate: f64,
    found: Vec<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    /// Does not go on while the host is suspended,
    monotonic: Duration,
    /// does.
    boot: Duration,
    /// CPU time of all threads.
    cpu: Duration,
    continued: u64,
    /// The host's TSC.
    ticks: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// How long it was, on the clock of timers, which a suspended host does not count.
    pub(crate) lost: Duration,
    /// How long it really was.
    length: Duration,
    cause: Cause,
    /// The TSC at the look before.
    from: u64,
    /// Of the ticks since then, those with a CPU, which are taken to have been before the absence;
    present: u64,
    /// the others.
    absent: u64,
}

impl Absences {
    /// `cpus`: how many the vCPUs can use at the same time; 0 of a simulated machine.
    pub(crate) fn new(cpus: usize) -> Self {
        let cpus = cpus as f64;
        Self {
            cpus,
            last: None,
            rate: cpus,
            found: Vec::new(),
        }
    }

    /// From now on the vCPUs do something else: what they used before says nothing any more.
    pub(crate) fn turn(&mut self) {
        self.rate = self.cpus;
        self.last = None;
        self.look();
    }

    /// What was found until now does not count.
    pub(crate) fn forget(&mut self) {
        self.found.clear();
    }

    /// Looks at the clocks: an absence, if there has just been one.
    pub(crate) fn look(&mut self) -> Option<Found> {
        if self.cpus == 0.0 {
            return None;
        }
        let now = Moment::now();
        let last = *self.last.get_or_insert(now);
        let passed = Passed {
            monotonic: now.monotonic.saturating_sub(last.monotonic),
            boot: now.boot.saturating_sub(last.boot),
            cpu: now.cpu.saturating_sub(last.cpu),
            continued: now.continued != last.continued,
        };
        if passed.boot < LEAST_BETWEEN {
            return None;
        }
        self.last = Some(now);
        let rate = self.rate;
        tracing::trace!(?passed, rate, "looked whether anybody was there");
        let Some((lost, cause)) = passed.absence(self.rate, self.cpus) else {
            let rate = passed.cpu.as_secs_f64() / passed.monotonic.as_secs_f64();
            self.rate = f64::midpoint(self.rate, rate.min(self.cpus));
            return None;
        };
        let khz = host::clock::khz();
        let present = ticks(passed.monotonic.saturating_sub(lost), khz);
        let found = Found {
            lost,
            length: lost + passed.boot.saturating_sub(passed.monotonic),
            cause,
            from: last.ticks,
            present,
            absent: now.ticks.saturating_sub(last.ticks).saturating_sub(present),
        };
        tracing::debug!(?found, "without CPU");
        self.found.push(found);
        Some(found)
    }

    /// Time of timers that was lost.
    pub(crate) fn lost(&self) -> Duration {
        self.found.iter().map(|found| found.lost).sum()
    }

    /// Ticks of the TSC without CPU until it was `until`.
    pub(crate) fn ticks_until(&self, until: u64) -> u64 {
        let of = |found: &Found| {
            let since = until.saturating_sub(found.from);
            since.saturating_sub(found.present).min(found.absent)
        };
        self.found.iter().map(of).sum()
    }

    /// For the record: all absences, with the time that had been measured when each began. The measurement
    /// began at `from` on the TSC, whose frequency is `khz`.
    pub(crate) fn recorded(&self, from: u64, khz: u64) -> Vec<Absence> {
        let of = |found: &Found| {
            let begun = found.from + found.present;
            let absent = self.ticks_until(begun);
            let measured = begun.saturating_sub(from).saturating_sub(absent);
            Absence {
                at_s: measured as f64 / (khz.max(1) as f64 * 1e3),
                ms: found.length.as_secs_f64() * 1e3,
                cause: found.cause,
            }
        };
        self.found.iter().map(of).collect()
    }
}

/// A time in ticks at `khz`.
pub(super) fn ticks(time: Duration, khz: u64) -> u64 {
    u64::try_from(time.as_nanos() * u128::from(khz) / 1_000_000).unwrap_or(u64::MAX)
}

impl Moment {
    fn now() -> Self {
        Self {
            monotonic: read(ClockId::Monotonic),
            boot: read(ClockId::Boottime),
            cpu: read(ClockId::ProcessCPUTime),
            continued: stops::times_continued(),
            ticks: host::clock::now(),
        }
    }
}

pub(super) fn read(clock: ClockId) -> Duration {
    // Of these clocks none is before its beginning.
    clock_gettime(clock).try_into().unwrap_or_default()
}

/// What passed between two looks.
#[derive(Clone, Copy, Debug)]
struct Passed {
    monotonic: Duration,
    boot: Duration,
    cpu: Duration,
    continued: bool,
}

impl Passed {
    /// How much of the monotonic time nobody was there, and why; `rate` is how many CPUs were used before, of
    /// `cpus`.
    fn absence(self, rate: f64, cpus: f64) -> Option<(Duration, Cause)> {
        // A process that is told to go on had been stopped: how often it got a CPU before does not matter.
        let rate = if self.continued { cpus } else { rate };
        let present = match rate {
            LEAST_RATE.. => self.cpu.div_f64(rate),
            _ => self.monotonic,
        };
        let lost = self.monotonic.saturating_sub(present.max(TICK));
        let (there, cause) = match self.continued {
            true => (lost < LEAST || 2 * lost < self.monotonic, Cause::Stopped),
            false => (lost < LEAST_TAKEN || present > TICK, Cause::NoCpu),
        };
        let lost = if there { Duration::ZERO } else { lost };
        if self.boot.saturating_sub(self.monotonic) >= LEAST {
            Some((lost, Cause::Suspended))
        } else {
            (!there).then_some((lost, cause))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn passed(monotonic: u64, cpu: u64) -> Passed {
        Passed {
            monotonic: ms(monotonic),
            boot: ms(monotonic),
            cpu: ms(cpu),
            continued: false,
        }
    }

    fn continued(monotonic: u64, cpu: u64) -> Passed {
        Passed {
            continued: true,
            ..passed(monotonic, cpu)
        }
    }

    #[test]
    fn a_stop_and_a_stolen_cpu_are_told_from_each_other() {
        let stolen = passed(2_100, 200);
        assert_eq!(stolen.absence(2.0, 2.0), Some((ms(2_000), Cause::NoCpu)));
        let stopped = continued(2_100, 200);
        assert_eq!(stopped.absence(2.0, 2.0), Some((ms(2_000), Cause::Stopped)));
        // Told to go on, though it had never stopped.
        assert_eq!(continued(120, 240).absence(2.0, 2.0), None);
    }

    #[test]
    fn a_suspended_host_is_one_however_little_its_clock_went_on() {
        let suspended = Passed {
            boot: ms(5_100),
            ..passed(100, 200)
        };
        let found = Some((Duration::ZERO, Cause::Suspended));
        assert_eq!(suspended.absence(2.0, 2.0), found);
    }

    #[test]
    fn a_late_look_is_no_absence_if_the_vcpus_worked_on() {
        // They kept the control thread from its CPUs.
        assert_eq!(passed(3_000, 5_900).absence(2.0, 2.0), None);
        // Its reader kept it from going on, while vCPUs that mostly halt went on as before.
        assert_eq!(passed(3_000, 300).absence(0.1, 2.0), None);
        // Nobody used a CPU before either: nothing can be said, unless it was told to go on.
        assert_eq!(passed(3_000, 0).absence(0.0, 2.0), None);
        let stopped = continued(3_000, 0);
        assert_eq!(stopped.absence(0.0, 2.0), Some((ms(2_900), Cause::Stopped)));
        // A busy host, which gave them less than before.
        assert_eq!(passed(900, 300).absence(2.0, 2.0), None);
        assert_eq!(passed(450, 10).absence(2.0, 2.0), None);
    }

    #[test]
    fn ticks_without_cpu_come_after_those_with() {
        let mut absences = Absences::new(2);
        absences.found.push(Found {
            lost: ms(2_000),
            length: ms(2_000),
            cause: Cause::Stopped,
            from: 1_000,
            present: 100,
            absent: 2_000,
        });
        let looks = [900, 1_050, 1_100, 2_100, 5_000];
        let until = looks.map(|ticks| absences.ticks_until(ticks));
        assert_eq!(until, [0, 0, 0, 1_000, 2_000]);
        // At 1 kHz; the measurement began at 600.
        let recorded = absences.recorded(600, 1);
        assert_eq!((recorded[0].at_s, recorded[0].ms), (0.5, 2_000.0));
    }
}
