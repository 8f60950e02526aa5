//! A machine that can be used: its VMs, its clock, and what its vCPUs have done.
#![allow(unsafe_code)] // Programs use the machine that runs them, in turn with it.

use crate::engine::{Engine, EngineStats, NewVcpu};
use crate::executing;
use crate::outcome::{Outcome, VcpuStats};
use crate::platform::Simulated;
use crate::schedule::Rule;
use crate::spec::Spec;
use crate::units::NS;
use abi::HostStep;
use abi::Switch;
use abi::{Layout, TaskArea};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, stack::Stack};
use guest::workload;
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::AtomicBool;

/// Bytes of a vCPU's stack. Memory is taken for the pages only that are touched.
pub const STACK_BYTES: usize = 512 << 10;

/// Bytes of the stack of a task that is not the first of its vCPU, which has the vCPU's.
const TASK_STACK_BYTES: usize = 128 << 10;

/// How to simulate.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Of all that varies by chance.
    pub seed: u64,
    /// What is to happen at chosen moments.
    pub rules: Vec<Rule>,
    /// Note switches and what the hypervisor does.
    pub tracing: bool,
}

/// A VM to be put on a machine.
#[derive(Clone, Debug)]
pub struct VmConfig {
    /// How its region is laid out.
    pub layout: Layout,
    /// Where that begins: a multiple of 128.
    pub region: usize,
    /// The CPUs on which each vCPU may run.
    pub affinity: Vec<Vec<usize>>,
    /// Whether the steps of acquisitions are to be seen.
    pub instrumented: bool,
}

/// Why a VM cannot be put on a machine.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// More vCPUs than a lock's word can name.
    #[error(
        "{vcpus} vCPUs are more than a lock's word can name: at most {}",
        pvlock::MAX_CPUS
    )]
    TooManyVcpus {
        /// vCPUs asked for.
        vcpus: usize,
    },
    /// There is no such CPU.
    #[error("the simulated machine has no CPU {cpu}: it has {cpus}, counted from 0")]
    NoSuchCpu {
        /// The CPU.
        cpu: usize,
        /// How many there are.
        cpus: usize,
    },
    /// No memory for a stack.
    #[error("cannot map the stack of a simulated vCPU: {0}; use fewer vCPUs, or raise 'ulimit -v'")]
    Stack(#[source] io::Error),
}

/// A simulated machine with its VMs.
///
/// Deterministic: the same machine, seed, VMs and calls have the same results, in any process.
pub struct Simulation {
    /// From `Box::into_raw`: programs have pointers to it.
    engine: *mut Engine,
    cpus: usize,
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation")
            .field("now_ns", &self.now_ns())
            .field("stats", &self.stats())
            .finish()
    }
}

impl Simulation {
    /// A machine without VMs, at time 0.
    pub fn new(spec: &Spec, options: Options) -> Self {
        let engine = Engine::new(spec, options.seed, options.rules, options.tracing);
        Self {
            engine: Box::into_raw(Box::new(engine)),
            cpus: spec.cpus(),
        }
    }

    fn engine(&self) -> &Engine {
        // SAFETY: made in new(), and nothing executes: programs do only in run_until().
        unsafe { &*self.engine }
    }

    fn engine_mut(&mut self) -> &mut Engine {
        // SAFETY: as in engine().
        unsafe { &mut *self.engine }
    }

    /// Puts a VM on the machine. Its vCPUs begin as soon as the machine runs.
    ///
    /// # Errors
    /// If the machine cannot have it.
    ///
    /// # Safety
    /// A region of that layout is at `region`, filled in with addresses of this process, and stays there
    /// for as long as the simulation lives. While [`Self::run_until`] executes nobody else writes to it.
    pub unsafe fn add_vm(&mut self, config: &VmConfig) -> Result<usize, SimError> {
        let vcpus = config.affinity.len();
        if vcpus > pvlock::MAX_CPUS as usize {
            return Err(SimError::TooManyVcpus { vcpus });
        }
        // SAFETY: the caller's promise.
        let stacks = unsafe { task_stacks(config.layout, config.region) }?;
        let vm = self
            .engine_mut()
            .add_vm(config.layout, config.region, stacks);
        for (number, allowed) in config.affinity.iter().enumerate() {
            let allowed = self.cpu_numbers(allowed)?;
            let area = config.region + config.layout.vcpu(number);
            let stack = DefaultStack::new(STACK_BYTES).map_err(SimError::Stack)?;
            let lowest_stack = stack.limit().get();
            let body = if config.instrumented {
                workload::run_instrumented::<Simulated<true>>
            } else {
                workload::run::<Simulated<false>>
            };
            let program = Coroutine::with_stack(stack, move |yielder, ()| {
                executing::begin(yielder);
                let outcome = catch_unwind(AssertUnwindSafe(body));
                executing::end(outcome.map_err(|payload| message_of(&*payload)));
            });
            self.engine_mut().add_vcpu(NewVcpu {
                program: Some(program),
                lowest_stack,
                vm: Some((vm, number)),
                area,
                allowed,
            });
        }
        Ok(vm)
    }

    /// Something that computes all the time on `cpu`, and has nothing to do with the VMs.
    ///
    /// # Errors
    /// If there is no such CPU.
    pub fn add_noise(&mut self, cpu: usize) -> Result<(), SimError> {
        let allowed = self.cpu_numbers(&[cpu])?;
        self.engine_mut().add_vcpu(NewVcpu {
            program: None,
            lowest_stack: 0,
            vm: None,
            area: 0,
            allowed,
        });
        Ok(())
    }

    fn cpu_numbers(&self, cpus: &[usize]) -> Result<Box<[u32]>, SimError> {
        let number = |&cpu: &usize| match u32::try_from(cpu) {
            Ok(number) if cpu < self.cpus => Ok(number),
            _ => Err(SimError::NoSuchCpu {
                cpu,
                cpus: self.cpus,
            }),
        };
        cpus.iter().map(number).collect()
    }

    /// Lets `ns` nanoseconds have passed since the machine was switched on.
    pub fn run_until(&mut self, ns: u64) {
        let before = executing::enter(self.engine);
        // SAFETY: the engine is valid, and `&mut self` says that nobody else uses it. Programs have no
        // reference into it while they are suspended: see `executing::with`.
        unsafe { Engine::run(self.engine, ns.saturating_mul(NS)) };
        executing::enter(before);
    }

    /// Once `interrupt` is set, the machine stands still, for good: [`Self::run_until`] returns soon, and
    /// the time is what it is then.
    pub fn stand_still_on(&mut self, interrupt: &'static AtomicBool) {
        self.engine_mut().interrupt = Some(interrupt);
    }

    /// Nanoseconds since the machine was switched on.
    pub fn now_ns(&self) -> u64 {
        self.engine().now() / NS
    }

    /// Kicks a vCPU, from outside.
    pub fn kick(&mut self, vm: usize, vcpu: usize) {
        let engine = self.engine_mut();
        let target = engine.number_of(vm, vcpu);
        engine.kick(target);
    }

    /// What a vCPU has had.
    pub fn vcpu_stats(&self, vm: usize, vcpu: usize) -> VcpuStats {
        let engine = self.engine();
        engine.vcpu_stats(engine.number_of(vm, vcpu))
    }

    /// Whether a vCPU is halted.
    pub fn is_halted(&self, vm: usize, vcpu: usize) -> bool {
        let engine = self.engine();
        engine.is_halted(engine.number_of(vm, vcpu))
    }

    /// Takes away the switches of a vCPU, if they are noted.
    pub fn take_switches(&mut self, vm: usize, vcpu: usize) -> Vec<Switch> {
        let engine = self.engine_mut();
        let number = engine.number_of(vm, vcpu);
        engine.take_switches(number)
    }

    /// Takes away what the hypervisor has done with a vCPU, if that is noted, each with its time in ns.
    pub fn take_steps(&mut self, vm: usize, vcpu: usize) -> Vec<(u64, HostStep)> {
        let engine = self.engine_mut();
        let number = engine.number_of(vm, vcpu);
        engine.take_steps(number)
    }

    /// Takes away what vCPUs have said.
    pub fn take_outcomes(&mut self) -> Vec<Outcome> {
        self.engine_mut().take_outcomes()
    }

    /// What a vCPU is doing, for a person.
    pub fn state(&self, vm: usize, vcpu: usize) -> String {
        let engine = self.engine();
        engine.describe(engine.number_of(vm, vcpu))
    }

    /// Whether a VM is stuck for good: some of its vCPUs want a lock, and none will ever go on, as all
    /// that have not ended halt, or spin on what nobody will change.
    pub fn is_stuck(&self, vm: usize) -> bool {
        self.engine().is_stuck(vm)
    }

    /// For each CPU how long it has been busy and idle, ns.
    pub fn cpu_times(&self) -> Vec<(u64, u64)> {
        self.engine().cpu_times()
    }

    /// What it took to simulate that.
    pub fn stats(&self) -> EngineStats {
        self.engine().stats()
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // SAFETY: from Box::into_raw in new(), and nothing executes.
        let mut engine = unsafe { Box::from_raw(self.engine) };
        engine.forget_programs();
    }
}

/// Stacks for the tasks that are not the first of their vCPU, each of which is told of its own.
///
/// # Safety
/// A region of that layout is at `region`, which nobody else uses meanwhile.
unsafe fn task_stacks(layout: Layout, region: usize) -> Result<Vec<DefaultStack>, SimError> {
    let others = (0..layout.tasks()).filter(|task| task % layout.tasks_per_vcpu() > 0);
    let stack = |task| {
        let stack = DefaultStack::new(TASK_STACK_BYTES).map_err(SimError::Stack)?;
        let area = ptr::with_exposed_provenance_mut::<TaskArea>(region + layout.task(task));
        // SAFETY: the layout says that the task's area is there.
        unsafe { (*area).stack_top = stack.base().get() as u64 };
        Ok(stack)
    };
    others.map(stack).collect()
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("panic")
        .to_owned()
}
