//! vCPUs that are host threads: the same locks and workload without a hypervisor of our own. The
//! host's scheduler takes its part; a halt is a futex wait, a kick a futex wake.
#![allow(unsafe_code)] // Threads find their area by address, and read the TSC.

use super::kind::{Caution, WORD_IS_FULL};
use super::{Facts, MOST_WORD_VCPUS, MachineError, Plan, RunningVm, Started};
use abi::{Counter, HostStep, Params, VcpuArea, VcpuState, flags};
use guest::machine::{Lock, VcpuAreaExt as _, area, vcpu_at};
use guest::{Machine, workload};
use host::yielding::Target;
use host::{HostError, HostNote, Notes, Notice, Region, clock, membarrier, thread};
use peers::Kind;
use pvlock::atomic::Watch;
use pvlock::{LockVisitor, Platform, RawLock};
use rustix::process::Pid;
use rustix::thread::futex;
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedSender};

pub(super) const FACTS: Facts = Facts {
    name: "threads",
    about: "vCPUs are host threads; the host's scheduler is their hypervisor.",
    simulated: false,
    kvm: false,
    tasks: false,
    peers: true,
    ends_waiters: false,
    most_vcpus: MOST_WORD_VCPUS,
    why_no_more: WORD_IS_FULL,
    caution: Some(Caution {
        code: "not_kvm",
        text: "vCPUs were host threads, not vCPUs of a KVM guest: halts and kicks are system calls",
        of_threads: "threads were host threads: the host's scheduler takes its part",
    }),
    start,
};

/// How long threads get to end. One that has not ended by then is stuck, and is left behind.
const PATIENCE: Duration = Duration::from_secs(1);

thread_local! {
    /// The address of this thread's area.
    static AREA: Cell<usize> = const { Cell::new(0) };
    /// What its VM and the other threads know of it.
    static HOST: OnceCell<Host> = const { OnceCell::new() };
}

/// This thread's place among those of its VM.
struct Host {
    /// Where to note what the host does with this thread.
    notes: Arc<Notes>,
    /// The threads of the VM's vCPUs.
    all: Arc<[Target]>,
    vcpu: usize,
}

fn note(step: HostStep) {
    HOST.with(|host| {
        if let Some(host) = host.get() {
            match step {
                HostStep::Blocked => host.all[host.vcpu].set_halted(true),
                HostStep::Unblocked => host.all[host.vcpu].set_halted(false),
                _ => {}
            }
            host.notes.note(step);
        }
    });
}

/// The platform of a vCPU that is a host thread. `TRACE`: see the steps of acquisitions, as in the
/// guest image.
struct HostThread<const TRACE: bool>;

// SAFETY: as of the guest image: each thread has an area of its own, in the region of its VM. A panic of a
// thread is caught at its end, and the whole VM, with its locks, is over then.
unsafe impl<const TRACE: bool> Platform for HostThread<TRACE> {
    guest::native_platform!();

    #[inline(always)]
    fn light_barrier() {
        compiler_fence(Ordering::SeqCst);
    }

    fn heavy_barrier() {
        // A lock that went on without it could lose a wake-up. It has been tried before the VM was started.
        membarrier::barrier().expect("the process has been registered");
    }

    fn halt_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
        if !asleep(word.load(Ordering::Acquire)) {
            return;
        }
        Self::vcpu().count(Counter::Halts, 1);
        let token = &Self::vcpu().kick_token;
        // Acquire pairs with the Release in wake(). A kick since the last halt is in the token.
        note(HostStep::Blocked);
        while token.swap(0, Ordering::Acquire) == 0 {
            // Fails if the token is there by now, or on a signal: look again in either case.
            let _ = futex::wait(token, futex::Flags::PRIVATE, 0, None);
        }
        note(HostStep::Unblocked);
        Self::spins();
    }

    fn kick(cpu: u32) {
        let vcpu = Self::vcpu();
        vcpu.count(Counter::Kicks, 1);
        if vcpu.header().params.flags & flags::DROP_KICKS == 0 {
            wake(&area::<Self>(cpu).kick_token);
        }
    }

    fn yield_to(cpu: u32) {
        let vcpu = Self::vcpu();
        vcpu.count(Counter::Yields, 1);
        HOST.with(|host| {
            if let Some(target) = host.get().and_then(|host| host.all.get(cpu as usize)) {
                for &counter in target.yield_to().counters() {
                    vcpu.count(counter, 1);
                }
            }
        });
    }
}

impl<const TRACE: bool> Machine for HostThread<TRACE> {
    type Lock = Kind;

    const INSTRUMENTED: bool = TRACE;

    #[inline(always)]
    fn vcpu() -> &'static VcpuArea {
        // SAFETY: the thread has been given its area before it runs the workload, and `Crew` keeps
        // the region until the thread has ended, or for ever.
        unsafe { vcpu_at(AREA.get()) }
    }

    #[inline(always)]
    fn spins() {
        if Self::vcpu().header().control.leave.load(Ordering::Relaxed) != 0 {
            leave();
        }
    }

    fn hold_off(ns: u32) {
        let begun = Instant::now();
        std::thread::sleep(Duration::from_nanos(ns.into()));
        note(HostStep::injected(begun.elapsed()));
    }

    fn log(message: &str) {
        Self::vcpu().set_log(message);
    }
}

/// What a vCPU's thread unwinds with that leaves in the middle of its turn.
struct Left;

/// Ends the calling thread's vCPU. The lock that it waits for stays as it is: nobody will use it again, as
/// all vCPUs leave.
#[cold]
fn leave() {
    // A destructor that waits must not unwind once more.
    if !std::thread::panicking() {
        resume_unwind(Box::new(Left));
    }
}

/// Bytes of a lock of that kind: on every machine the same.
pub fn lock_bytes(kind: Kind) -> usize {
    struct Bytes;

    impl<P: Platform> LockVisitor<P> for Bytes {
        type Output = usize;

        fn visit<L: RawLock>(self) -> usize {
            size_of::<L>()
        }
    }

    <Kind as Lock<HostThread<false>>>::visit(kind, Bytes)
}

/// Leaves a kick in `token`, and wakes who waits for one.
fn wake(token: &AtomicU32) {
    // Release pairs with the Acquire in halt_while().
    if token.swap(1, Ordering::Release) == 0 {
        // Cannot fail on a valid address.
        let _ = futex::wake(token, futex::Flags::PRIVATE, 1);
    }
}

struct Crew {
    /// Freed once all threads have ended; never, if one is stuck.
    region: ManuallyDrop<Region>,
    instrumented: bool,
    khz: u64,
    threads: Vec<Thread>,
    /// The threads, as they see each other.
    targets: Arc<[Target]>,
}

struct Thread {
    notes: Arc<Notes>,
    handle: Option<JoinHandle<()>>,
}

pub(super) fn start(plan: &Plan<'_>) -> Result<Vec<Started>, MachineError> {
    let vms = plan.vms.iter();
    vms.map(|(params, affinity)| Ok(start_vm(*params, affinity)?))
        .collect()
}

fn start_vm(mut params: Params, affinity: &[Vec<usize>]) -> Result<Started, HostError> {
    params.vcpus = affinity.len() as u64;
    params.tsc_khz = clock::khz();
    membarrier::prepare_for(&params)?;
    let region = Region::in_process(&params)?;
    let (notices, receiver) = mpsc::unbounded_channel();
    let mut vm = Crew {
        region: ManuallyDrop::new(region),
        instrumented: params.instrumented(),
        khz: params.tsc_khz,
        threads: Vec::new(),
        targets: affinity.iter().map(|_| Target::default()).collect(),
    };
    for (vcpu, cpus) in affinity.iter().enumerate() {
        vm.start_vcpu(vcpu, cpus, notices.clone())?;
    }
    Ok((Box::new(vm), receiver))
}

impl Crew {
    fn start_vcpu(
        &mut self,
        vcpu: usize,
        cpus: &[usize],
        notices: UnboundedSender<Notice>,
    ) -> Result<(), HostError> {
        let area = self.region.vcpu_host_address(vcpu)?;
        let notes = Arc::new(Notes::new(self.region.layout().trace_records() > 0));
        let host = Host {
            notes: Arc::clone(&notes),
            all: Arc::clone(&self.targets),
            vcpu,
        };
        let instrumented = self.instrumented;
        let targets = Arc::clone(&self.targets);
        let body = move || {
            AREA.set(area);
            HOST.with(|this| {
                this.get_or_init(|| host);
            });
            let body = match instrumented {
                true => workload::run_instrumented::<HostThread<true>>,
                false => workload::run::<HostThread<false>>,
            };
            let outcome = catch_unwind(AssertUnwindSafe(body));
            // Nobody listens any more if the VM is being dropped.
            let _ = notices.send(match outcome {
                Ok(()) => Notice::Done { vcpu },
                Err(payload) if payload.is::<Left>() => Notice::Done { vcpu },
                Err(payload) => Notice::Panicked {
                    vcpu,
                    message: message_of(&*payload),
                },
            });
        };
        let handle = thread::start_vcpu(vcpu, cpus, move || targets[vcpu].set_thread(), body)?;
        self.threads.push(Thread {
            notes,
            handle: Some(handle),
        });
        Ok(())
    }
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("panic").to_owned()
}

impl RunningVm for Crew {
    fn region(&self) -> &Region {
        &self.region
    }

    fn khz(&self) -> u64 {
        self.khz
    }

    fn now(&self) -> u64 {
        clock::now()
    }

    fn kick(&self, vcpu: usize) -> Result<(), HostError> {
        // SAFETY: the region is ours, and there is such a vCPU, or vcpu_host_address() fails.
        wake(unsafe { &vcpu_at(self.region.vcpu_host_address(vcpu)?).kick_token });
        Ok(())
    }

    fn tid(&self, vcpu: usize) -> Option<Pid> {
        self.targets[vcpu].tid()
    }

    fn take_notes(&self, vcpu: usize) -> Vec<HostNote> {
        self.threads[vcpu].notes.take()
    }

    fn is_halted(&self, vcpu: usize) -> bool {
        self.targets[vcpu].is_halted()
    }

    fn stop(&mut self) {
        // Cannot fail on a region of our own.
        let _ = self.region.set_leave();
        let deadline = Instant::now() + PATIENCE;
        let running = |t: &Thread| t.handle.as_ref().is_some_and(|h| !h.is_finished());
        while self.threads.iter().any(running) && Instant::now() < deadline {
            for vcpu in 0..self.threads.len() {
                let _ = self.kick(vcpu);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn states(&self) -> Vec<String> {
        let state = |vcpu| match self.region.state(vcpu) {
            Ok(VcpuState::Working) if self.is_halted(vcpu) => "host thread, halted".to_owned(),
            Ok(VcpuState::Working) => "host thread at work".to_owned(),
            Ok(task) => format!("host thread, {task:?}"),
            Err(e) => e.to_string(),
        };
        (0..self.threads.len()).map(state).collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // The phase ends the workload's loop; those that wait leave. A thread that does neither cannot be
        // ended from outside.
        let _ = self.region.set_phase(abi::phase::STOP);
        self.stop();
        let running = |t: &Thread| t.handle.as_ref().is_some_and(|h| !h.is_finished());
        if self.threads.iter().any(running) {
            tracing::warn!("a vCPU's thread is stuck: it, and its memory, are left behind");
            return;
        }
        for thread in &mut self.threads {
            if let Some(handle) = thread.handle.take() {
                let _ = handle.join();
            }
        }
        // SAFETY: dropped once, here; every thread that used the region has ended.
        unsafe { ManuallyDrop::drop(&mut self.region) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    /// What vCPU 0 is told of vCPU 1.
    fn told(flags: u64, reported: bool, preempted: bool) -> Option<bool> {
        let params = Params {
            vcpus: 2,
            flags,
            ..Params::default()
        };
        let region = Region::in_process(&params).unwrap();
        if reported {
            region.set_preempted_is_reported().unwrap();
        }
        // SAFETY: the region has two vCPUs, and outlives what is done with their areas here.
        let other = unsafe { vcpu_at(region.vcpu_host_address(1).unwrap()) };
        other.steal.preempted.store(preempted.into(), Relaxed);
        AREA.set(region.vcpu_host_address(0).unwrap());
        let told = HostThread::<false>::vcpu_is_preempted(1);
        AREA.set(0);
        told
    }

    #[test]
    fn locks_are_told_of_preempted_vcpus_where_it_is_known_and_not_switched_off() {
        for preempted in [true, false] {
            assert_eq!(told(0, true, preempted), Some(preempted));
            assert_eq!(told(0, false, preempted), None);
            assert_eq!(told(flags::NO_VCPU_IS_PREEMPTED, true, preempted), None);
        }
    }
}
