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
                _ if machine.is_halted(vcpu) => halted += 1,
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
    let mut text = if node.head {
        "head of the queue"
    } else {
        "queued"
    }
    .to_owned();
    if halts {
        text += match node.state {
            pv::RUNNING => ", spinning",
            pv::HALTED => ", halted",
            pv::HASHED => ", hashed",
            pv::HASHING => ", about to be hashed",
            _ => ", in an unknown state",
        };
    }
    match node.next {
        Some(next) => text + &format!(", before {next}"),
        None => text + ", last",
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VmSpec { lock, vcpus } = self.spec;
        let (silent_s, before) = (self.silent_for.as_secs_f64(), self.acquisitions);
        write!(
            f,
            "VM {} ({lock}, {vcpus} vCPUs) has made no acquisition ",
            self.vm
        )?;
        write!(
            f,
            "for {silent_s:.1} s, after {before} of them: it is stuck"
        )?;
        if self.halted > 0 && self.halted + self.ended == self.spec.vcpus {
            let who = match self.ended {
                0 => "all vCPUs",
                _ => "all vCPUs that have not ended",
            };
            let lost = "a wake-up was lost";
            write!(
                f,
                "\n  {lost}: {who} are halted and nobody is left to kick them"
            )?;
        } else if self.halted > 0 {
            write!(f, "\n  {} vCPUs are halted, the others run", self.halted)?;
        }
        let violations = self.violations;
        if violations > 0 {
            write!(f, "\n  mutual exclusion was broken {violations} times")?;
        }
        if self.locks.is_empty() {
            write!(f, "\n  all locks are free")?;
        }
        for line in self.locks.iter().take(SHOWN) {
            write!(f, "\n  {line}")?;
        }
        let halts = self.spec.lock.traits().halts;
        for (vcpu, (state, nodes)) in self.vcpus.iter().enumerate().take(SHOWN) {
            write!(f, "\n  vCPU {vcpu}: ")?;
            for node in nodes {
                write!(f, "{}; ", describe(node, halts))?;
            }
            f.write_str(state)?;
        }
        let more = self.locks.len().max(self.vcpus.len()).saturating_sub(SHOWN);
        if more > 0 {
            write!(f, "\n  ({more} more not shown)")
        } else {
            Ok(())
        }
    }
}
