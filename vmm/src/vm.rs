//! A virtual machine: built, run, watched, stopped.

use crate::boot;
use crate::cpl::Cpl;
use crate::error::VmmError;
use crate::image::Image;
use crate::kvm_stats::KvmStats;
use crate::layout::{self, MemoryMap};
use crate::registers::Registers;
use crate::seccomp::Filter;
use crate::tsc;
use crate::vcpu::{Shared, Vcpu};
use abi::{Doorbell, KICK_PAGES, Params};
use host::region::{self, RegionError};
use host::{HostError, HostNote, Notice, Region, clock, limits, membarrier, thread};
use kvm_bindings::{Msrs, kvm_msr_entry, kvm_userspace_memory_region};
use kvm_ioctls::{Cap, IoEventAddress, Kvm, NoDatamatch, VcpuFd, VmFd};
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

/// MSR_KVM_STEAL_TIME, and its bit that turns it on (KVM documentation, msr.rst).
const MSR_KVM_STEAL_TIME: u32 = 0x4b56_4d03;
const STEAL_TIME_ENABLED: u64 = 1;

/// Devices that KVM puts on a bus (NR_IOBUS_DEVS, linux/kvm_host.h); each ioeventfd is one.
const IOEVENTFDS: usize = 1000;

/// Of locks, of tasks of a vCPU, or of records of a ring: more of them could not be counted in bytes.
const MOST_PARTS: u64 = 1 << 32;

/// How often a thread that should leave the guest is signalled until it has.
const SIGNAL_PERIOD: Duration = Duration::from_millis(1);
/// How long to wait for registers.
const SNAPSHOT_PATIENCE: Duration = Duration::from_millis(500);

/// What a VM is to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the guest is to do. The VMM fills in magic, version and TSC frequency.
    pub params: Params,
    /// Privilege level of the guest.
    pub cpl: Cpl,
    /// Whether the vCPUs' threads are confined to the system calls that they need ([`crate::seccomp`]).
    pub seccomp: bool,
    /// Host CPUs that each vCPU may run on.
    pub affinity: Vec<Vec<usize>>,
}

/// A running virtual machine. Dropping it stops it.
#[derive(Debug)]
pub struct Vm {
    // Before the region: KVM must not outlive its memory. (The vCPUs' threads have ended by then.)
    fd: VmFd,
    region: Region,
    vcpus: Vec<VcpuHandle>,
    /// What each vCPU's thread shares with us.
    shared: Arc<[Shared]>,
    tsc_khz: u64,
    tsc_offset: u64,
    /// Why KVM's statistics of its vCPUs are unknown, if they are.
    no_stats: Option<io::Error>,
}

#[derive(Debug)]
struct VcpuHandle {
    stats: Option<KvmStats>,
    thread: Option<JoinHandle<()>>,
}

/// Opens /dev/kvm.
pub(crate) fn open_kvm() -> Result<Kvm, VmmError> {
    let opened = loop {
        match Kvm::new() {
            Err(e) if e.errno() == libc::EINTR => {}
            opened => break opened,
        }
    };
    let kvm = opened.map_err(|e| match e.errno() {
        libc::ENOENT | libc::ENODEV | libc::ENXIO => VmmError::NoKvm,
        libc::EACCES | libc::EPERM => VmmError::NoPermission,
        _ => VmmError::OpenKvm(e),
    })?;
    match kvm.get_api_version() {
        12 => Ok(kvm),
        other => Err(VmmError::ApiVersion(other)),
    }
}

/// Whether this host can run our guests, with `vcpus` vCPUs each.
///
/// # Errors
/// Says what is missing.
pub fn check_host(vcpus: usize) -> Result<(), VmmError> {
    let kvm = open_kvm()?;
    if !kvm.check_extension(Cap::Ioeventfd) || !kvm.check_extension(Cap::IoeventfdNoLength) {
        return Err(VmmError::Missing("ioeventfd", "kicks would not work"));
    }
    if !kvm.check_extension(Cap::UserMemory) {
        return Err(VmmError::Missing("user memory", "a guest gets no memory"));
    }
    match max_vcpus()? {
        max if vcpus > max => Err(VmmError::TooManyVcpus { asked: vcpus, max }),
        _ => Ok(()),
    }
}

/// Most vCPUs of a VM: what KVM can do, and what there are KICK doorbells and ioeventfds for.
///
/// # Errors
/// If KVM cannot be opened.
pub fn max_vcpus() -> Result<usize, VmmError> {
    let kicks = usize::try_from(KICK_PAGES * layout::PAGE / 4).unwrap_or(usize::MAX);
    Ok(open_kvm()?.get_max_vcpus().min(kicks).min(IOEVENTFDS))
}

impl Vm {
    /// Builds a VM and starts its vCPUs. What they have to say comes out of the receiver.
    ///
    /// # Errors
    /// If the host cannot run it; nothing is left running then.
    pub fn start(config: &Config) -> Result<(Self, UnboundedReceiver<Notice>), VmmError> {
        let count = config.affinity.len();
        check_host(count)?;
        let mut params = config.params;
        membarrier::prepare_for(&params)?;
        params.vcpus = count as u64;
        let huge = [params.locks, params.tasks, params.trace_records];
        if huge.iter().any(|&n| n > MOST_PARTS) {
            return Err(VmmError::TooLarge {
                vcpus: count,
                locks: usize::try_from(params.locks).unwrap_or(usize::MAX),
                bytes: u64::MAX,
            });
        }
        let filter = config.seccomp.then(Filter::new).transpose()?;
        let layout = region::layout_of(&params);
        let map = MemoryMap::new(layout);
        if !map.fits() {
            let (locks, bytes) = (layout.locks(), map.end());
            return Err(VmmError::TooLarge {
                vcpus: count,
                locks,
                bytes,
            });
        }
        let memory = Arc::new(region::map(
            usize::try_from(map.end()).unwrap_or(usize::MAX),
        )?);
        let image = Image::guest()?;
        boot::load(&memory, &image, layout)?;
        boot::patch(&memory, &image, &params)?;
        let region = Region::new(Arc::clone(&memory), layout::REGION, layout);

        let vm = create_vm(&memory)?;
        let mut fds = Vec::with_capacity(count);
        for cpu in 0..count {
            let fd = VmmError::ioctl("create a vCPU", || vm.create_vcpu(cpu as u64))?;
            boot::set_registers(&fd, config.cpl, image.entry(), &region, cpu)?;
            enable_steal_time(&fd, region.steal_address(cpu))?;
            fds.push(fd);
        }
        let first = fds
            .first()
            .ok_or(VmmError::Missing("vCPUs", "there is nothing to run"))?;
        let tsc_khz = VmmError::ioctl("tell the TSC's frequency", || first.get_tsc_khz())?.into();
        let tsc_offset = tsc::tsc_offset(first)?;
        params.tsc_khz = tsc_khz;
        region.init(&params, layout::REGION)?;
        for task in 0..layout.tasks() {
            if let Some(stack) = map.task_stack(task) {
                region.set_task_stack(task, stack + layout::STACK)?;
            }
        }

        allow_signalling()?;
        let (notices, receiver) = mpsc::unbounded_channel();
        // From here on, dropping `this` ends whatever has been started.
        let traced = layout.trace_records() > 0;
        let mut this = Self {
            region,
            vcpus: Vec::with_capacity(count),
            shared: (0..count)
                .map(|_| Shared::new(traced))
                .collect::<Result<_, _>>()?,
            tsc_khz,
            tsc_offset,
            no_stats: None,
            fd: vm,
        };
        for (number, fd) in fds.into_iter().enumerate() {
            let vcpu = Vcpu {
                number,
                fd,
                all: Arc::clone(&this.shared),
                region: this.region.clone(),
                notices: notices.clone(),
                filter,
                barriers: params.needs_barriers(),
            };
            this.start_vcpu(vcpu, &config.affinity[number])?;
        }
        tracing::debug!(vcpus = count, cpl = %config.cpl, tsc_khz, "VM started");
        Ok((this, receiver))
    }

    fn start_vcpu(&mut self, vcpu: Vcpu, cpus: &[usize]) -> Result<(), VmmError> {
        let number = vcpu.number;
        let bell = Doorbell::Kick(u32::try_from(number).unwrap_or(u32::MAX)).address();
        let (kick, bell) = (&self.shared[number].kick, IoEventAddress::Mmio(bell));
        VmmError::ioctl("register a kick as ioeventfd", || {
            self.fd.register_ioevent(kick, &bell, NoDatamatch)
        })?;
        let stats = self.open_stats(&vcpu.fd);
        let shared = Arc::clone(&self.shared);
        let begin = move || shared[number].target.set_thread();
        let thread = thread::start_vcpu(number, cpus, begin, move || vcpu.run())?;
        self.vcpus.push(VcpuHandle {
            stats,
            thread: Some(thread),
        });
        Ok(())
    }

    /// Opens KVM's statistics of a vCPU, unless those of another could not be opened. Of all or of none:
    /// sums over some would say little, and what descriptors they take are missing elsewhere.
    fn open_stats(&mut self, vcpu: &VcpuFd) -> Option<KvmStats> {
        if self.no_stats.is_some() {
            return None;
        }
        match KvmStats::open(vcpu) {
            Ok(stats) => Some(stats),
            Err(error) => {
                self.no_stats = Some(error);
                for vcpu in &mut self.vcpus {
                    vcpu.stats = None;
                }
                None
            }
        }
    }

    /// Why KVM's statistics of the vCPUs are unknown, if they are.
    pub fn without_stats(&self) -> Option<String> {
        let error = self.no_stats.as_ref()?;
        Some(match error.raw_os_error() {
            Some(libc::ENOTTY | libc::EINVAL | libc::ENOSYS) => {
                format!("this KVM has none (Linux 5.14 has them): {error}")
            }
            Some(libc::EPERM | libc::EACCES) => {
                format!("{error}: a seccomp filter or security module of this process denies them")
            }
            _ => limits::explain(error),
        })
    }

    /// The memory shared with the guest.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Frequency of the guest's TSC, kHz.
    pub fn tsc_khz(&self) -> u64 {
        self.tsc_khz
    }

    /// The guest's TSC, now.
    pub fn now(&self) -> u64 {
        clock::now().wrapping_add(self.tsc_offset)
    }

    /// Kicks vCPU `cpu`.
    ///
    /// # Errors
    /// If its eventfd cannot be written.
    pub fn kick(&self, cpu: usize) -> Result<(), HostError> {
        self.shared[cpu]
            .kick
            .write(1)
            .map_err(HostError::os("kick a vCPU"))
    }

    /// The host thread of vCPU `cpu`, once it runs.
    pub fn tid(&self, cpu: usize) -> Option<Pid> {
        self.shared[cpu].target.tid()
    }

    /// Takes away what has been noted of vCPU `cpu` for a trace, if the VM is traced.
    pub fn take_notes(&self, cpu: usize) -> Vec<HostNote> {
        self.shared[cpu].notes.take()
    }

    /// What to add to the host's TSC to get the guest's, modulo 2^64.
    pub fn tsc_offset(&self) -> u64 {
        self.tsc_offset
    }

    /// Whether vCPU `cpu` is halted.
    pub fn is_halted(&self, cpu: usize) -> bool {
        self.shared[cpu].target.is_halted()
    }

    /// Exits of vCPU `cpu` to the VMM, by kind.
    pub fn exits(&self, cpu: usize) -> BTreeMap<String, u64> {
        self.shared[cpu].exits.by_name()
    }

    /// KVM's statistics of vCPU `cpu`; `None` if they are unknown, see [`Self::without_stats`].
    pub fn kvm_stats(&self, cpu: usize) -> Option<BTreeMap<String, u64>> {
        self.vcpus[cpu].stats.as_ref()?.read()
    }

    /// Registers of all vCPUs, taken by interrupting them; `None` for one that does not answer.
    pub fn registers(&self) -> Vec<Option<Registers>> {
        for vcpu in self.shared.iter() {
            *vcpu.snapshot.lock().unwrap_or_else(|e| e.into_inner()) = None;
            // Release pairs with the AcqRel in Vcpu::take_snapshot().
            vcpu.snapshot_wanted.store(true, Ordering::Release);
        }
        let deadline = Instant::now() + SNAPSHOT_PATIENCE;
        let answer = |vcpu: &Shared| {
            let snapshot = vcpu.snapshot.lock();
            snapshot.unwrap_or_else(|e| e.into_inner()).clone()
        };
        self.signal_until(|vcpu| answer(vcpu).is_some() || Instant::now() > deadline);
        self.shared.iter().map(answer).collect()
    }

    /// Ends all vCPU threads, wherever they are.
    pub fn stop(&mut self) {
        for vcpu in self.shared.iter() {
            // Release: the thread's Acquire load ends its loop; nothing else depends on it.
            vcpu.stop.store(true, Ordering::Release);
            let _ = vcpu.kick.write(1);
        }
        self.signal_until(|_| false);
        for vcpu in &mut self.vcpus {
            if let Some(thread) = vcpu.thread.take() {
                let _ = thread.join();
            }
        }
    }

    /// Signals each vCPU's thread until `enough` holds or it has ended. Again and again, because a
    /// signal that arrives just before KVM_RUN or a blocking read does not interrupt it; and all in
    /// turn, because many threads on few CPUs take long to react.
    fn signal_until(&self, enough: impl Fn(&Shared) -> bool) {
        let unfinished = |(vcpu, shared): &(&VcpuHandle, &Shared)| match &vcpu.thread {
            Some(thread) if !thread.is_finished() && !enough(shared) => {
                let _ = thread.kill(SIGRTMIN());
                true
            }
            _ => false,
        };
        let all = || self.vcpus.iter().zip(self.shared.iter());
        // Not any(): each is to be signalled.
        while all().filter(unfinished).count() > 0 {
            std::thread::sleep(SIGNAL_PERIOD);
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Creates a VM with that memory, which must outlive it.
pub(crate) fn create_vm(memory: &GuestMemoryMmap) -> Result<VmFd, VmmError> {
    let kvm = open_kvm()?;
    let vm = VmmError::ioctl("create a VM", || kvm.create_vm())?;
    let address = memory
        .get_host_address(GuestAddress(0))
        .map_err(RegionError::from)?;
    let slot = kvm_userspace_memory_region {
        memory_size: memory.iter().map(GuestMemoryRegion::len).sum(),
        userspace_addr: address.expose_provenance() as u64,
        ..Default::default()
    };
    #[allow(unsafe_code)]
    // SAFETY: the callers keep the memory until the VM and its vCPUs are gone, and the host touches
    // it through vm-memory's volatile and atomic accesses only.
    VmmError::ioctl("give a VM its memory", || unsafe {
        vm.set_user_memory_region(slot)
    })?;
    Ok(vm)
}

/// Asks KVM to write steal time to `address`. A KVM that cannot is left alone.
fn enable_steal_time(vcpu: &VcpuFd, address: u64) -> Result<(), VmmError> {
    let entry = kvm_msr_entry {
        index: MSR_KVM_STEAL_TIME,
        data: address | STEAL_TIME_ENABLED,
        ..Default::default()
    };
    if let Ok(msrs) = Msrs::from_entries(&[entry]) {
        let set = VmmError::ioctl("set the steal-time MSR", || vcpu.set_msrs(&msrs))?;
        if set != 1 {
            tracing::debug!("this KVM offers no steal time");
        }
    }
    Ok(())
}

/// Installs the do-nothing handler that makes a signal interrupt KVM_RUN and read().
fn allow_signalling() -> Result<(), VmmError> {
    extern "C" fn interrupt(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
    register_signal_handler(SIGRTMIN(), interrupt)
        .map_err(HostError::os("install a signal handler"))?;
    Ok(())
}

#[cfg(test)]
mod drills;
