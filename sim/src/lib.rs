//! A deterministic simulated machine that executes the locks themselves.
//!
//! vCPUs are coroutines that run `pvlock` and the workloads of `guest` unchanged, in virtual time. Every
//! atomic operation is charged for by a model of cache coherence, and every halt, kick and yield by a
//! model of a hypervisor and its scheduler; `docs/simulator.md` explains both. The same machine, seed and
//! scenario have the same result, in any process.
//!
//! A machine is a [`Spec`], of which there are [presets]; a [`Simulation`] of it runs VMs whose
//! memory is laid out as that of any other machine (`abi`).

mod agenda;
mod atomics;
mod coherence;
mod engine;
mod executing;
mod hypervisor;
mod needs;
mod outcome;
mod parameters;
mod platform;
pub mod presets;
mod schedule;
mod scheduler;
mod simulation;
mod spec;
mod text;
mod topology;
mod units;

pub use engine::EngineStats;
pub use outcome::{Outcome, Said, VcpuStats};
pub use parameters::{Costs, PARAMETERS, Parameter, Unit};
pub use schedule::Rule;
pub use simulation::{Options, STACK_BYTES, SimError, Simulation, VmConfig};
pub use spec::{MAX_CPUS, Spec, SpecError, parameter};
pub use text::read_text;
