//! A vCPU's thread: runs the guest, and serves its doorbells.
//!
//! ```text
//!            KVM_RUN returns: HALT            eventfd read returns: kicked
//!  running -----------------------> halted -------------------------------> running
//!     |  EXIT, an error, or stop      | stop
//!     v                               v
//!   ended <---------------------------+
//! ```

use crate::error::VmmError;
use crate::registers::Registers;
use crate::seccomp::{self, Filter};
use abi::{Doorbell, EXIT_DONE, EXIT_PANIC, ExitReason, HostStep};
use host::yielding::Target;
use host::{HostError, Notes, Notice, Region, membarrier};
use kvm_ioctls::{VcpuExit, VcpuFd};
use rustix::thread::{NanosleepRelativeResult, Timespec, nanosleep};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use vmm_sys_util::eventfd::EventFd;

/// Exits to the VMM by kind. Kicks are not among them: the kernel serves those.
#[derive(Debug, Default)]
pub struct Exits {
    halt: AtomicU64,
    yielded: AtomicU64,
    preempt: AtomicU64,
    barrier: AtomicU64,
    log: AtomicU64,
    exit: AtomicU64,
    signal: AtomicU64,
}

impl Exits {
    /// The counts by name; zeros are left out.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        [
            ("halt", &self.halt),
            ("yield", &self.yielded),
            ("preempt", &self.preempt),
            ("barrier", &self.barrier),
            ("log", &self.log),
            ("exit", &self.exit),
            ("signal", &self.signal),
        ]
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed)))
        .filter(|&(_, count)| count > 0)
        .collect()
    }
}

/// What a vCPU's thread shares with the VM.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Kicks.
    pub(crate) kick: EventFd,
    pub(crate) exits: Exits,
    pub(crate) notes: Notes,
    /// The thread must end.
    pub(crate) stop: AtomicBool,
    /// Somebody wants to see the registers.
    pub(crate) snapshot_wanted: AtomicBool,
    pub(crate) snapshot: Mutex<Option<Registers>>,
    /// Its thread, as the other vCPUs see it.
    pub(crate) target: Target,
    /// Something for its thread to do before it enters the guest the next time.
    #[cfg(test)]
    pub(crate) drill: Mutex<Option<fn()>>,
}

impl Shared {
    pub(crate) fn new(noting: bool) -> Result<Self, VmmError> {
        Ok(Self {
            // Blocking: a halted vCPU is a thread blocked in read().
            kick: EventFd::new(0).map_err(HostError::os("make an eventfd"))?,
            exits: Exits::default(),
            notes: Notes::new(noting),
            stop: AtomicBool::new(false),
            snapshot_wanted: AtomicBool::new(false),
            snapshot: Mutex::new(None),
            target: Target::default(),
            #[cfg(test)]
            drill: Mutex::new(None),
        })
    }
}

/// Messages of a vCPU that are passed on. A guest of ours has something to say once or twice, and whoever goes
/// on for ever is not to fill the memory of a host that does not listen just now.
pub(crate) const MOST_LOGS: u64 = 100;

/// A vCPU, to be run on a thread of its own.
pub(crate) struct Vcpu {
    pub(crate) number: usize,
    pub(crate) fd: VcpuFd,
    /// What each vCPU of the VM shares, itself included.
    pub(crate) all: Arc<[Shared]>,
    pub(crate) region: Region,
    pub(crate) notices: UnboundedSender<Notice>,
    /// What its thread is confined by.
    pub(crate) filter: Option<Filter>,
    /// The guest's lock asks for barriers: the process has been prepared for them.
    pub(crate) barriers: bool,
}

/// Why KVM_RUN returned, without borrowing from the vCPU.
enum Exit {
    Store(u64, Vec<u8>),
    Shutdown,
    Interrupted,
    Other(String),
}

impl Exit {
    fn kind(&self) -> ExitReason {
        match self {
            Self::Store(address, _) => match Doorbell::from_address(*address) {
                Some(Doorbell::Halt) => ExitReason::Halt,
                Some(Doorbell::Yield) => ExitReason::Yield,
                Some(Doorbell::Log) => ExitReason::Log,
                Some(Doorbell::Preempt) => ExitReason::Preempt,
                Some(Doorbell::Barrier) => ExitReason::Barrier,
                Some(Doorbell::Exit) => ExitReason::End,
                Some(Doorbell::Kick(_)) | None => ExitReason::Other,
            },
            Self::Interrupted => ExitReason::Signal,
            Self::Shutdown | Self::Other(_) => ExitReason::Other,
        }
    }
}

impl Vcpu {
    /// Runs the vCPU until it ends, fails or is told to stop; says on the channel how it ended.
    pub(crate) fn run(mut self) {
        let vcpu = self.number;
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run_guest()));
        let outcome = outcome.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let message = text.unwrap_or("it does not say why").to_owned();
            Err(VmmError::ThreadPanicked { vcpu, message })
        });
        let notice = match outcome {
            Ok(Some(EXIT_PANIC)) => {
                let message = self.region.log(vcpu).unwrap_or_else(|e| e.to_string());
                Notice::Panicked { vcpu, message }
            }
            Ok(_) => Notice::Done { vcpu },
            Err(error) => Notice::Failed {
                vcpu,
                error: error.into(),
            },
        };
        tracing::debug!(vcpu, ?notice, "vCPU ended");
        // Nobody listens any more if the VM is being dropped.
        let _ = self.notices.send(notice);
    }

    /// What this vCPU shares.
    fn own(&self) -> &Shared {
        &self.all[self.number]
    }

    /// The exit code, or `None` if the vCPU was told to stop.
    fn run_guest(&mut self) -> Result<Option<u32>, VmmError> {
        if let Some(filter) = self.filter {
            filter.confine()?;
        }
        loop {
            #[cfg(test)]
            if let Some(drill) = self
                .own()
                .drill
                .lock()
                .ok()
                .and_then(|mut drill| drill.take())
            {
                drill();
            }
            if let Some(call) = seccomp::denied() {
                let vcpu = self.number;
                return Err(VmmError::Denied { vcpu, call });
            }
            if self.own().stop.load(Ordering::Acquire) {
                return Ok(None);
            }
            self.take_snapshot();
            self.own().notes.note(HostStep::Enter);
            let exit = self.enter()?;
            self.own().notes.note(HostStep::Exit(exit.kind()));
            tracing::trace!(vcpu = self.number, exit = ?exit.kind(), "left the guest");
            match exit {
                Exit::Store(address, data) => match self.serve(address, &data)? {
                    Some(code) => return Ok(Some(code)),
                    None => continue,
                },
                Exit::Interrupted => count(&self.own().exits.signal),
                Exit::Shutdown => {
                    return Err(VmmError::TripleFault {
                        vcpu: self.number,
                        registers: self.registers(),
                    });
                }
                Exit::Other(exit) => {
                    let (vcpu, registers) = (self.number, self.registers());
                    return Err(VmmError::UnexpectedExit {
                        vcpu,
                        exit,
                        registers,
                    });
                }
            }
        }
    }

    fn enter(&mut self) -> Result<Exit, VmmError> {
        match self.fd.run() {
            Ok(VcpuExit::MmioWrite(address, data)) => Ok(Exit::Store(address, data.to_vec())),
            Ok(VcpuExit::Shutdown) => Ok(Exit::Shutdown),
            Ok(VcpuExit::Intr) => Ok(Exit::Interrupted),
            Ok(other) => Ok(Exit::Other(format!("{other:?}"))),
            Err(e) if e.errno() == libc::EINTR || e.errno() == libc::EAGAIN => {
                Ok(Exit::Interrupted)
            }
            Err(source) => Err(VmmError::Kvm {
                what: "run a vCPU",
                source,
            }),
        }
    }

    /// Serves a store to a doorbell. `Some` if it was the vCPU's last.
    fn serve(&mut self, address: u64, data: &[u8]) -> Result<Option<u32>, VmmError> {
        let vcpu = self.number;
        let (Some(bell), Ok(value)) = (Doorbell::from_address(address), data.try_into()) else {
            return Err(self.bad_store(address, data));
        };
        let value = u32::from_le_bytes(value);
        match bell {
            Doorbell::Halt => {
                count(&self.own().exits.halt);
                self.halt()?;
                tracing::trace!(vcpu, "woken");
            }
            Doorbell::Yield => {
                count(&self.own().exits.yielded);
                tracing::trace!(vcpu, to = value, "yield");
                let Some(target) = self.all.get(value as usize) else {
                    return Err(self.bad_store(address, data));
                };
                let yielded = target.target.yield_to();
                self.region.count_yield(vcpu, yielded)?;
            }
            Doorbell::Preempt => {
                count(&self.own().exits.preempt);
                tracing::trace!(vcpu, ns = value, "held off its CPU");
                let held_off = self.hold_off(Duration::from_nanos(value.into()));
                self.own().notes.note(HostStep::injected(held_off));
            }
            Doorbell::Barrier if !self.barriers => return Err(self.bad_store(address, data)),
            Doorbell::Barrier => {
                count(&self.own().exits.barrier);
                membarrier::barrier()?;
            }
            Doorbell::Log => {
                count(&self.own().exits.log);
                if self.own().exits.log.load(Ordering::Relaxed) <= MOST_LOGS {
                    let message = self.region.log(vcpu)?;
                    let _ = self.notices.send(Notice::Log { vcpu, message });
                }
            }
            Doorbell::Exit => {
                count(&self.own().exits.exit);
                return Ok(Some(if value == EXIT_PANIC {
                    EXIT_PANIC
                } else {
                    EXIT_DONE
                }));
            }
            // An ioeventfd is registered for each vCPU's KICK: the target does not exist.
            Doorbell::Kick(_) => return Err(self.bad_store(address, data)),
        }
        Ok(None)
    }

    /// Blocks for that time, or until the vCPU is told to stop; returns for how long.
    fn hold_off(&self, time: Duration) -> Duration {
        let begun = Instant::now();
        loop {
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() || self.own().stop.load(Ordering::Acquire) {
                return begun.elapsed();
            }
            let left = Timespec {
                // At most four seconds: the doorbell takes 32 bits of nanoseconds.
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(0),
                tv_nsec: left.subsec_nanos().into(),
            };
            // Not sleep(), which goes on sleeping after a signal.
            if !matches!(nanosleep(&left), NanosleepRelativeResult::Ok) {
                self.take_snapshot();
            }
        }
    }

    /// Blocks until the vCPU is kicked, or has been since its last halt.
    fn halt(&mut self) -> Result<(), VmmError> {
        self.own().target.set_halted(true);
        self.own().notes.note(HostStep::Blocked);
        let result = loop {
            match wait_for_kick(&self.own().kick) {
                Ok(()) => break Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                    count(&self.own().exits.signal);
                    if self.own().stop.load(Ordering::Acquire) {
                        break Ok(());
                    }
                    self.take_snapshot();
                }
                Err(source) => {
                    break Err(HostError::os("wait for a kick")(source).into());
                }
            }
        };
        self.own().notes.note(HostStep::Unblocked);
        self.own().target.set_halted(false);
        result
    }

    fn bad_store(&self, address: u64, data: &[u8]) -> VmmError {
        VmmError::BadStore {
            vcpu: self.number,
            address,
            data: data.to_vec(),
            registers: self.registers(),
        }
    }

    fn registers(&self) -> Box<Registers> {
        Box::new(Registers::new(self.fd.get_regs().ok()))
    }

    fn take_snapshot(&self) {
        // Acquire pairs with the Release in Vm::registers(): the old snapshot is gone by then.
        if self.own().snapshot_wanted.swap(false, Ordering::AcqRel) {
            let mut snapshot = self
                .own()
                .snapshot
                .lock()
                .unwrap_or_else(|e| e.into_inner());
            *snapshot = Some(*self.registers());
        }
    }
}

/// Blocks until there is a kick, or until a signal. (`EventFd::read` goes on waiting after a signal.)
#[allow(unsafe_code)] // An EventFd gives out its descriptor as a number only.
fn wait_for_kick(kick: &EventFd) -> io::Result<()> {
    // SAFETY: `kick` keeps the descriptor open.
    let kick = unsafe { BorrowedFd::borrow_raw(kick.as_raw_fd()) };
    let mut kicks = [0u8; size_of::<u64>()];
    rustix::io::read(kick, &mut kicks)?;
    Ok(())
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
