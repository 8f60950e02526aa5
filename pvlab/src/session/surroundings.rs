//! What else happened on the host meanwhile: what others had of its CPUs, and what a quota took.

use super::absence::read;
use crate::host::limits::{self, Limits};
use crate::record::Surroundings;
use crate::scenario::Scenario;
use rustix::time::ClockId;
use std::fs;
use std::time::Duration;

/// Measurements shorter than this are too short for /proc/stat, which counts in ticks of 10 ms.
const LEAST: Duration = Duration::from_millis(400);

#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    at: Duration,
    /// Time that the scenario's CPUs were busy.
    busy: Option<Duration>,
    /// CPU time of this process.
    own: Duration,
    throttled: Option<Duration>,
}

impl Counts {
    /// Those of now; `None` of a simulated machine, which has no host.
    pub(super) fn take(scenario: &Scenario) -> Option<Self> {
        if scenario.machine.is_simulated() {
            return None;
        }
        Some(Self {
            at: read(ClockId::Monotonic),
            busy: busy(&scenario.cpus),
            own: read(ClockId::ProcessCPUTime),
            throttled: limits::throttled(),
        })
    }

    /// What happened since.
    pub(super) fn until(self, to: Self) -> Surroundings {
        let passed = to.at.saturating_sub(self.at);
        let own = to.own.saturating_sub(self.own);
        let others = self.busy.zip(to.busy).map(|(from, to)| {
            let others = to.saturating_sub(from).saturating_sub(own);
            others.as_secs_f64() / passed.as_secs_f64()
        });
        Surroundings {
            limits: Limits::examine(),
            throttled_ms: (self.throttled.zip(to.throttled))
                .map(|(from, to)| to.saturating_sub(from).as_secs_f64() * 1e3),
            others_cpus: others.filter(|_| passed >= LEAST),
        }
    }
}

/// For how long these CPUs have been busy, all in all (proc(5), /proc/stat).
fn busy(cpus: &[usize]) -> Option<Duration> {
    let ticks_per_s = rustix::param::clock_ticks_per_second();
    busy_in(&fs::read_to_string("/proc/stat").ok()?, cpus, ticks_per_s)
}

fn busy_in(stat: &str, cpus: &[usize], ticks_per_s: u64) -> Option<Duration> {
    let mut ticks = 0;
    for cpu in cpus {
        let name = format!("cpu{cpu} ");
        let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already.
        for (place, count) in line.split_whitespace().take(8).enumerate() {
            if !matches!(place, 3 | 4) {
                ticks += count.parse::<u64>().ok()?;
            }
        }
    }
    Some(Duration::from_millis(ticks * 1000 / ticks_per_s.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_all_but_idle() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\n\
                    cpu0 100 10 20 500 60 3 4 5 90 0\n\
                    cpu1 1 0 0 500 60 0 0 0 0 0\n";
        let busy = |cpus: &[usize]| busy_in(stat, cpus, 100);
        assert_eq!(busy(&[0]), Some(Duration::from_millis(1420)));
        assert_eq!(busy(&[0, 1]), Some(Duration::from_millis(1430)));
        assert_eq!(busy(&[2]), None, "unknown is not 0");
    }
}
