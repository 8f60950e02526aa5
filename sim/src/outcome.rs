//! What comes of a vCPU: what it says, and what it has had.

use std::collections::BTreeMap;

/// Something that a vCPU has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The VM.
    pub vm: usize,
    /// Its vCPU.
    pub vcpu: usize,
    /// What.
    pub what: Said,
}

/// What a vCPU says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has ended.
    Done,
    /// It has panicked, with this message.
    Panicked(String),
    /// For the log.
    Log(String),
}

/// What a vCPU has had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcpuStats {
    /// Time on a CPU, ns.
    pub cpu_ns: u64,
    /// Time in which it wanted to run and could not, ns.
    pub queued_ns: u64,
    /// Times it gave up its CPU.
    pub voluntary_switches: u64,
    /// Times it lost its CPU.
    pub involuntary_switches: u64,
    /// Times it left the guest, by reason.
    pub exits: BTreeMap<&'static str, u64>,
}
