//! Why a run yielded nothing.

use crate::machine::{MachineError, RunningVm};
use crate::scenario::{ScenarioError, VmSpec};
use crate::trace::CollectError;
use abi::{Counter, VcpuState};
use host::region::{QueueNode, RegionError};
use host::{HostError, remedy};
use pvlock::qspinlock::pv;
use std::fmt;
use std::io;
use std::time::Duration;

/// Locks and vCPUs shown of a stuck VM.
const SHOWN: usize = 64;

/// Why a run yielded nothing.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[expect(missing_docs, reason = "their messages say what they are")]
pub enum RunError {
    #[error("interrupted before the measurement started")]
    Interrupted,
    #[error("cannot set up the control plane: {}{}", .0, remedy(.0.raw_os_error()))]
    Control(#[source] io::Error),
    /// How long waiters are to spin could not be found out.
    #[error("--spin-threshold auto: {0}; give a number of turns, or a time such as 20us")]
    Threshold(String),
    #[error("cannot start the noise threads: {}{}", .0, remedy(.0.raw_os_error()))]
    Noise(#[source] io::Error),
    #[error(
        "the host refuses real-time scheduling (SCHED_FIFO): {0}; it takes CAP_SYS_NICE, or leave out --writer-fifo"
    )]
    Fifo(#[source] io::Error),
    #[error("cannot set how a vCPU's thread is scheduled: {0}")]
    Scheduling(#[source] io::Error),
    #[error("this cannot be run: {0}")]
    Scenario(#[from] ScenarioError),
    Machine(#[from] MachineError),
    Region(#[from] RegionError),
    Trace(#[from] CollectError),
    #[error("the guest of VM {vm} panicked on vCPU {vcpu}: {message}")]
    Panicked {
        vm: usize,
        vcpu: usize,
        message: String,
    },
    Stuck(#[from] Box<Stuck>),
}

impl From<HostError> for RunError {
    fn from(error: HostError) -> Self {
        Self::Machine(error.into())
    }
}

impl RunError {
    /// The exit code that tells of it: 3 if a lock has been seen not to exclude, 2 if it was asked for
    /// wrongly, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Scenario(_) => 2,
            Self::Stuck(stuck) if stuck.violations > 0 => 3,
            _ => 1,
        }
    }
}

/// A VM that makes no progress, with everything that may tell why.
#[derive(Debug, thiserror::Error)]
pub struct Stuck {
    vm: usize,
    spec: VmSpec,
    /// How long it had made no acquisition.
    silent_for: Duration,
    /// Until then.
    acquisitions: u64,
    violations: u64,
    /// vCPUs that are halted, and that have ended.
    halted: usize,
    ended: usize,
    /// A line for each lock in use.
    locks: Vec<String>,
    /// What each vCPU is doing, and its places in queues.
    vcpus: Vec<(String, Vec<QueueNode>)>,
}

impl Stuck {
    /// Looks at the VM, whose locks are held by what is called `holder`.
    pub(super) fn new(
        vm: usize,
        spec: VmSpec,
        silent_for: Duration,
        machine: &dyn RunningVm,
        holder: &str,
    ) -> Result<Self, RegionError> {
        let region = machine.region();
        let (mut halted, mut ended, mut violations) = (0, 0, 0);
        for vcpu in 0..region.layout().vcpus() {
            match region.state(vcpu)? {
                VcpuState::Done => ended += 1,
                _ if machine.is_asleep(vcpu) => halted += 1,
                _ => {}
            }
            violations += region.counters(vcpu)?[Counter::Violations.index()];
        }
        // The queue first: taking the registers disturbs it.
        let mut locks = Vec::new();
        for i in 0..region.layout().locks() {
            let (word, owner, entries) = region.lock(i)?;
            if word == 0 && owner == 0 {
                continue;
            }
            let inside = match owner {
                0 => "nobody is inside".to_owned(),
                number => format!("{holder} {} is inside", number - 1),
            };
            let word_state = spec.lock.kind.describe(word);
            locks.push(format!(
                "lock {i}: {word:#010x} ({word_state}), {inside}, {entries} entries"
            ));
        }
        let states = machine.states().into_iter().enumerate();
        let vcpus = states.map(|(vcpu, state)| Ok((state, region.queue_nodes(vcpu)?)));
        Ok(Self {
            vm,
            spec,
            silent_for,
            acquisitions: region.acquisitions()?,
            violations,
            halted,
            ended,
            locks,
            vcpus: vcpus.collect::<Result<_, RegionError>>()?,
        })
    }
}

fn describe(node: &QueueNode, halts: bool) -> String {
    let place = match node.head {
        true => "head of the queue",
        false => "queued",
    };
    let state = match node.state {
        _ if !halts => "",
        pv::RUNNING => ", spinning",
        pv::HALTED => ", halted",
        pv::HASHED => ", hashed",
        pv::HASHING => ", about to be hashed",
        _ => ", in an unknown state",
    };
    match node.next {
        Some(next) => format!("{place}{state}, before {next}"),
        None => format!("{place}{state}, last"),
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VmSpec { lock, vcpus } = self.spec;
        let silent_s = self.silent_for.as_secs_f64();
        let mut lines = vec![format!(
            "VM {} ({lock}, {vcpus} vCPUs) has made no acquisition for {silent_s:.1} s, after {} of \
             them: it is stuck",
            self.vm, self.acquisitions
        )];
        if self.halted > 0 && self.halted + self.ended == vcpus {
            let but = match self.ended {
                0 => "",
                _ => " that have not ended",
            };
            lines.push(format!(
                "a wake-up was lost: all vCPUs{but} are halted and nobody is left to kick them"
            ));
        } else if self.halted > 0 {
            lines.push(format!("{} vCPUs are halted, the others run", self.halted));
        }
        if self.violations > 0 {
            lines.push(format!(
                "mutual exclusion was broken {} times",
                self.violations
            ));
        }
        if self.locks.is_empty() {
            lines.push("all locks are free".to_owned());
        }
        lines.extend(self.locks.iter().take(SHOWN).cloned());
        for (vcpu, (state, nodes)) in self.vcpus.iter().enumerate().take(SHOWN) {
            let nodes = nodes
                .iter()
                .map(|node| describe(node, lock.traits().halts) + "; ");
            lines.push(format!("vCPU {vcpu}: {}{state}", nodes.collect::<String>()));
        }
        let more = self.locks.len().max(self.vcpus.len()).saturating_sub(SHOWN);
        lines.extend((more > 0).then(|| format!("({more} more not shown)")));
        f.write_str(&lines.join("\n  "))
    }
}
