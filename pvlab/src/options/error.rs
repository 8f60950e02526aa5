//! Why a command could not be carried out, each reason in one line.

use super::output;
use crate::trace::{CollectError, read, sink};
use crate::{host, session};
use sim::SpecError;
use std::time::Duration;

/// Why a command failed, and the exit code that tells of it.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit_code: u8,
    pub(crate) why: Box<dyn std::error::Error>,
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.why.fmt(f)
    }
}

/// An error that ends a command.
pub(crate) trait Ends: std::error::Error + 'static {
    /// The exit code.
    fn exit_code(&self) -> u8 {
        super::exit::FAILED
    }
}

impl<E: Ends> From<E> for CliError {
    fn from(error: E) -> Self {
        Self {
            exit_code: error.exit_code(),
            why: Box::new(error),
        }
    }
}

impl Ends for Usage {
    fn exit_code(&self) -> u8 {
        super::exit::USAGE
    }
}

impl Ends for session::RunError {
    fn exit_code(&self) -> u8 {
        self.exit_code()
    }
}

impl Ends for session::costs::CostError {}
impl Ends for output::OutputError {}
impl Ends for sink::WriteError {}
impl Ends for read::ReadError {}
impl Ends for CollectError {}

/// KVM was asked for and cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KvmError {
    /// Something is wrong with /dev/kvm.
    #[error("--machine {machine}: {device}; {}, or use --machine threads", remedy(.device))]
    Device {
        /// The machine.
        machine: &'static str,
        /// What is wrong with it.
        device: host::Device,
    },
    /// The architecture is not that of the guest image.
    #[error(
        "--machine {machine}: guests are x86-64 and this host is {arch}; use --machine threads"
    )]
    NotX86 {
        /// The machine.
        machine: &'static str,
        /// The host's architecture.
        arch: String,
    },
}

impl Ends for KvmError {}

fn remedy(device: &host::Device) -> &'static str {
    match device {
        host::Device::NoPermission => "join the group that owns it (often 'kvm')",
        _ => "load the KVM module of this CPU",
    }
}

/// What is wrong with a command line whose parts are right.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Usage {
    /// Neither `--vm` nor `--lock`.
    #[error("nothing to run: give --lock NAME, or --vm lock=NAME,vcpus=N for each guest")]
    NoVm,
    /// The kernel does not say which CPUs may be used.
    #[error("cannot tell which CPUs this process may use; name them with --cpus")]
    NoCpus,
    /// A CPU that the host does not have online.
    #[error("--{option}: CPU {cpu} does not exist or is offline; online are {online}")]
    NoSuchCpu {
        /// Option that named it.
        option: &'static str,
        /// Its number.
        cpu: usize,
        /// Those that are online.
        online: String,
    },
    /// A CPU outside the affinity mask or cpuset.
    #[error("--{option}: this process may not run on CPU {cpu}; it may use {allowed}")]
    CpuNotAllowed {
        /// Option that named it.
        option: &'static str,
        /// Its number.
        cpu: usize,
        /// Those that are allowed.
        allowed: String,
    },
    /// A CPU named twice.
    #[error("--cpus: CPU {cpu} is named twice; to load a CPU more, list it in --placement")]
    CpuTwice {
        /// Its number.
        cpu: usize,
    },
    /// `--placement` names a CPU that `--cpus` does not.
    #[error("--placement: CPU {cpu} is not among --cpus {cpus}; name it there or leave --cpus out")]
    PlacementOutside {
        /// Its number.
        cpu: usize,
        /// The value of `--cpus`.
        cpus: String,
    },
    /// `--placement` does not have one CPU for each vCPU.
    #[error("--placement lists {listed} CPUs for {vcpus} vCPUs; list one for each vCPU")]
    PlacementLength {
        /// CPUs listed.
        listed: usize,
        /// vCPUs of all VMs.
        vcpus: usize,
    },
    /// More vCPUs than a VM can have.
    #[error("{vcpus} vCPUs in one VM: at most {most} can be had, {why}")]
    TooManyVcpus {
        /// How many were asked for.
        vcpus: usize,
        /// The limit.
        most: usize,
        /// Where it comes from.
        why: &'static str,
    },
    /// `--cpl` without a guest.
    #[error("--cpl is of KVM guests, but the machine is {machine}; leave it out")]
    CplWithoutKvm {
        /// The machine.
        machine: &'static str,
    },
    /// There is no such simulated machine.
    #[error(transparent)]
    Simulated(#[from] SpecError),
    /// An option of simulated machines, without one.
    #[error("{option} is of simulated machines, but the machine is {machine}; leave it out")]
    NotSimulated {
        /// The option.
        option: &'static str,
        /// The machine.
        machine: &'static str,
    },
    /// An option that a simulated machine does not have.
    #[error("{0} is of real machines, and the machine is simulated; leave it out")]
    OnlyReal(&'static str),
    /// An option about what `auto` chooses, without one.
    #[error("{option} changes what --lock auto chooses, but no lock is auto; leave it out")]
    NothingToChoose {
        /// The option.
        option: &'static str,
    },
    /// A lock whose waiters halt, where they cannot.
    #[error(
        "waiters of '{lock}' halt, which --no-pv-unhalt rules out; use auto, virt-tas, qspinlock, or \
         another lock whose waiters do not halt ('pvlab locks')"
    )]
    CannotHalt {
        /// The lock.
        lock: String,
    },
    /// Patched calls without an image.
    #[error(
        "'{lock}': calls are patched in the image of a KVM guest, and the machine is {machine}, which \
         has none; use :pointer or :direct"
    )]
    NothingToPatch {
        /// The lock.
        lock: String,
        /// The machine.
        machine: &'static str,
    },
    /// The watchdog would bark at a single acquisition.
    #[error(
        "--watchdog {} is shorter than one turn of critical section and outside work ({}); \
         make it longer", humantime::format_duration(*.watchdog), humantime::format_duration(*.turn)
    )]
    ImpatientWatchdog {
        /// Its patience.
        watchdog: Duration,
        /// Critical section and outside work together.
        turn: Duration,
    },
    /// Data that is not to be checked.
    #[error(
        "--no-check leaves the data alone, so there is none to lie somewhere; leave out --data, or --no-check"
    )]
    CheckOfNothing,
    /// A lock that needs its line for itself.
    #[error(
        "--data same-line: {lock} has {bytes} bytes, and only locks of at most {most} leave room for data in \
         their line of 64; leave it out, or choose another lock"
    )]
    NoRoomBesideLock {
        /// The lock.
        lock: String,
        /// Its size.
        bytes: usize,
        /// The most that it may have.
        most: usize,
    },
    /// No interval would ever end.
    #[error(
        "--stat-interval {} is longer than the measurement of {}; shorten it or leave it out",
        humantime::format_duration(*.interval), humantime::format_duration(*.duration)
    )]
    IntervalTooLong {
        /// The interval.
        interval: Duration,
        /// The measurement.
        duration: Duration,
    },
    /// More intervals than a report can have.
    #[error(
        "--stat-interval {} makes more than a million intervals of {}; make it longer",
        humantime::format_duration(*.interval), humantime::format_duration(*.duration)
    )]
    TooManyIntervals {
        /// The interval.
        interval: Duration,
        /// The test.
        duration: Duration,
    },
    /// The baseline is not among the locks.
    #[error("--baseline {baseline} is not among --locks {locks}; add it there")]
    BaselineMissing {
        /// The baseline.
        baseline: String,
        /// The locks compared.
        locks: String,
    },
    /// Reads are asked of a lock that has no read side.
    #[error("{option}: '{lock}' is taken exclusively and has no read side; {rw} can be read")]
    NoReadSide {
        /// Option that asks for reads.
        option: &'static str,
        /// The lock.
        lock: String,
        /// Locks that have one.
        rw: String,
    },
    /// Reads are asked of a lock that is not called directly.
    #[error(
        "{option}: '{lock}' can only be written that way; its reads are compiled in, use {direct}"
    )]
    ReadsNotDirect {
        /// Option that asks for reads.
        option: &'static str,
        /// The lock.
        lock: String,
        /// The same lock, called directly.
        direct: &'static str,
    },
    /// More vCPUs are to read than there are.
    #[error("--readers {readers}: there are {vcpus} vCPUs; give at most as many")]
    TooManyReaders {
        /// How many were asked for.
        readers: usize,
        /// vCPUs of the VM.
        vcpus: usize,
    },
    /// There is nothing to choose from.
    #[error("--skew is of many locks, and there is one; give --lock-count")]
    SkewOfOneLock,
    /// A number of locks beside contexts, which have their own.
    #[error(
        "--lock-count {locks} with --contexts {contexts}: each context takes the one lock that is its \
         own, so there are {contexts}; leave --lock-count out"
    )]
    LocksOfContexts {
        /// Locks asked for.
        locks: usize,
        /// Contexts asked for.
        contexts: u32,
    },
    /// A sleeping lock in contexts that cannot sleep.
    #[error(
        "--contexts: '{lock}' puts its waiters to sleep, which an interrupt cannot do; use a spinning lock"
    )]
    SleepsInInterrupt {
        /// The lock.
        lock: String,
    },
    /// A choice of locks beside contexts, which have none.
    #[error(
        "--skew with --contexts: each context takes the one lock that is its own; leave one out"
    )]
    SkewOfContexts,
    /// More NUMA nodes than vCPUs.
    #[error("--numa-nodes {nodes}: {vcpus} vCPUs cannot be spread over more nodes than they are")]
    TooManyNodes {
        /// Nodes asked for.
        nodes: u32,
        /// vCPUs of the VM.
        vcpus: usize,
    },
    /// A trace of a workload that the account cannot follow.
    #[error("{option}: {reason}, so this cannot be traced; 'pvlab run' can do it")]
    NotTraceable {
        /// Option that asks for the workload.
        option: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// Locks that a trace cannot tell apart.
    #[error("{locks} locks cannot be told apart in a trace; give at most {most}")]
    TooManyLocks {
        /// How many were asked for.
        locks: usize,
        /// How many a trace can name.
        most: usize,
    },
    /// Two tables in one CSV.
    #[error("--explain does not fit into CSV, which has one table; use --format json")]
    ExplainCsv,
    /// Nobody to torture the lock.
    #[error("no writers and no readers: give at least one of {0}")]
    NoThreads(&'static str),
    /// Real-time threads that would keep each other off their CPU for ever.
    #[error(
        "--writer-fifo: {writers} writers on {cpus} CPUs (one of them idle in turn, unless          --shuffle-interval is 0): a spinning real-time thread never leaves its CPU to another;          give each writer a CPU"
    )]
    FifoOvercommitted {
        /// Writers.
        writers: usize,
        /// CPUs.
        cpus: usize,
    },
    /// The watchdog would bark at a long hold.
    #[error(
        "--watchdog {} is not longer than --long-hold {}; make it longer",
        humantime::format_duration(*.watchdog), humantime::format_duration(*.hold)
    )]
    ImpatientTorture {
        /// Its patience.
        watchdog: Duration,
        /// A long hold.
        hold: Duration,
    },
    /// A way to call a lock that this command does not know.
    #[error("--lock {0}: torture calls locks directly; leave the way out")]
    TortureDispatch(String),
    /// An option that would change nothing.
    #[error("{option} would change nothing: {why}; leave it out")]
    NoEffect {
        /// The option, with its value where that matters.
        option: String,
        /// What it needs is missing.
        why: &'static str,
    },
    /// A time that cannot be kept.
    #[error(
        "{option} {}: {}", humantime::format_duration(*.time), if *.simulated {
            "the time of a simulated machine goes by whole milliseconds; give a multiple of 1ms"
        } else {
            "the shortest time that can be kept is 1ms"
        }
    )]
    FinerThanTicks {
        /// The option.
        option: &'static str,
        /// Its value.
        time: Duration,
        /// Whether the machine is simulated.
        simulated: bool,
    },
    /// RUST_LOG does not parse.
    #[error("RUST_LOG='{directives}': {why}; write for example RUST_LOG=vmm=debug")]
    LogFilter {
        /// Its value.
        directives: String,
        /// What is wrong with it.
        why: String,
    },
}
