//! The runs that yield the figures of a table.

pub(super) mod locktorture;
mod perf;
mod rwsem;
pub(super) mod unixbench;

use super::published::Publication;
use super::tables::TableName;
use super::trial::Trial;
use crate::scenario::{Bench, BenchKind, Length, Lock, Mix, Scenario, Simulated, VmSpec, WorkTime};
use abi::Dispatch;
use pvlock::LockKind;
use std::time::Duration;

/// The runs for a table.
pub(crate) fn trials(published: &Publication) -> Vec<Trial> {
    match published.table {
        TableName::Rwsem2019 => rwsem::rates_2019(),
        TableName::Torture => locktorture::trials(),
        TableName::Perf => perf::trials(),
        TableName::UnixBench => unixbench::trials(published),
        TableName::Rwsem2014 => rwsem::times_2014(),
        TableName::Aim7 => rwsem::aim7(published),
        TableName::Extra => rwsem::rates_extra(),
    }
}

/// A simulated machine.
#[derive(Clone, Copy, Debug)]
struct Site {
    preset: &'static str,
    /// What differs from the preset, as the published run did.
    set: &'static [&'static str],
    cpus: usize,
}

const BROADWELL: Site = Site {
    preset: "broadwell-ex-4s",
    set: &[],
    cpus: 112,
};
const WESTMERE: Site = Site {
    preset: "westmere-ex-4s",
    set: &[],
    cpus: 40,
};
/// With as many cores as the cover letter's machine, no hypervisor, and wake-ups as on the other bare metal of that
/// year.
const CASCADE_LAKE: Site = Site {
    preset: "cascade-lake-2s",
    set: &[
        "cores=20",
        "virtual_machine=0",
        "ple=0",
        "halt_poll_max_ns=0",
        "kick_ns=900",
        "wake_ns=1500",
    ],
    cpus: 80,
};
const THUNDERX2: Site = Site {
    preset: "thunderx2-2s",
    set: &[],
    cpus: 224,
};
/// The partition with a CPU for each of its 32 vCPUs, as the figures suggest.
const POWER8: Site = Site {
    preset: "power8-lpar-32",
    set: &["cores=16"],
    cpus: 32,
};

impl Site {
    /// `lock` with `vcpus` on the first of its CPUs, with nothing to do.
    fn scenario(self, lock: LockKind, vcpus: usize, length: Length) -> Scenario {
        let cpus = (0..self.cpus.min(vcpus)).collect();
        let lock = Lock::from(lock);
        let bare = Scenario::bare(Simulated::KIND, vec![VmSpec { lock, vcpus }], cpus, length);
        Scenario {
            simulated: Some(Simulated {
                preset: self.preset.to_owned(),
                set: self.set.iter().map(|&set| set.to_owned()).collect(),
                rules: Vec::new(),
            }),
            latency: false,
            ..bare
        }
    }

    /// A microbenchmark of `threads`, each on a CPU of its own as long as there are some.
    fn bench(
        self,
        workload: BenchKind,
        lock: LockKind,
        threads: usize,
        length: Length,
        warm_up: Duration,
    ) -> Scenario {
        let vcpus = threads.min(self.cpus);
        let mut scenario = self.scenario(lock, vcpus, length);
        scenario.workload.locks = workload.locks(vcpus, threads);
        scenario.warm_up = warm_up;
        scenario.bench = Some(Bench {
            workload,
            threads,
            pauses: 0,
            random_mix: false,
        });
        scenario
    }
}

/// Reads in that share of operations, by chance: strict alternation would keep all threads in step.
fn read(scenario: &mut Scenario, share: f64, pauses: u64) {
    if share > 0.0 {
        scenario.workload.mix = Mix::ReadShare(share);
    }
    if let Some(bench) = &mut scenario.bench {
        bench.pauses = pauses;
        bench.random_mix = share > 0.0 && share < 1.0;
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Work for so many seconds.
fn work_for(seconds: f64) -> WorkTime {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from nothing to a second"
    )]
    let ps = (seconds.clamp(0.0, 1.0) * 1e12) as u64;
    WorkTime::from_ps(ps)
}

/// A lock that is reached by a call through a pointer.
fn called(lock: LockKind) -> Lock {
    let mut lock = Lock::from(lock);
    lock.dispatch = Dispatch::Pointer;
    lock
}
