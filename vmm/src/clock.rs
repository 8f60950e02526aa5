//! The time stamp counter: the one clock of host and guests.

use crate::error::VmmError;
use kvm_bindings::{Msrs, kvm_device_attr, kvm_msr_entry};
use kvm_ioctls::VcpuFd;
use std::sync::OnceLock;
use std::time::Duration;
use vmm_sys_util::ioctl::ioctl_with_ref;

/// IA32_TIME_STAMP_COUNTER.
const MSR_TSC: u32 = 0x10;

mod ioctls {
    #![allow(missing_docs)] // The macro writes the functions.
    use kvm_bindings::kvm_device_attr;
    // linux/kvm.h; kvm-ioctls offers it for devices, but not for vCPUs.
    vmm_sys_util::ioctl_iow_nr!(KVM_GET_DEVICE_ATTR, 0xae, 0xe2, kvm_device_attr);
}

/// The host's TSC.
#[inline]
pub fn now() -> u64 {
    #[allow(unsafe_code)]
    // SAFETY: every x86-64 CPU has a TSC, and Linux lets processes read it.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

/// What to add to the host's TSC to get that of `vcpu`, modulo 2^64.
///
/// Exact where KVM tells it (KVM_VCPU_TSC_OFFSET, Linux 5.16), else good to some microseconds.
///
/// # Errors
/// If KVM does not tell a vCPU's TSC at all.
pub fn tsc_offset(vcpu: &VcpuFd) -> Result<u64, VmmError> {
    let mut offset = 0u64;
    let attr = kvm_device_attr {
        flags: 0,
        group: kvm_bindings::KVM_VCPU_TSC_CTRL,
        attr: kvm_bindings::KVM_VCPU_TSC_OFFSET.into(),
        addr: (&raw mut offset).expose_provenance() as u64,
    };
    let told = VmmError::ioctl("tell its offset", || {
        #[allow(unsafe_code)]
        // SAFETY: KVM writes eight bytes to `attr.addr`, which is `offset`.
        match unsafe { ioctl_with_ref(vcpu, ioctls::KVM_GET_DEVICE_ATTR(), &attr) } {
            0 => Ok(()),
            _ => Err(kvm_ioctls::Error::last()),
        }
    });
    if told.is_ok() {
        return Ok(offset);
    }
    let entry = kvm_msr_entry {
        index: MSR_TSC,
        ..Default::default()
    };
    let mut msrs = Msrs::from_entries(&[entry])
        .map_err(|_| VmmError::Missing("room for an MSR", "a vCPU's clock cannot be read"))?;
    let mut before = now();
    let read = VmmError::ioctl("read the TSC of a vCPU", || {
        before = now();
        vcpu.get_msrs(&mut msrs)
    })?;
    let after = now();
    if read != 1 {
        return Err(VmmError::Missing(
            "MSR 0x10",
            "a vCPU's clock cannot be read",
        ));
    }
    Ok(msrs.as_slice()[0]
        .data
        .wrapping_sub(before + (after - before) / 2))
}

/// CLOCK_MONOTONIC_RAW, ns: what the kernel stamps context switches with.
pub fn raw_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
    // Since boot: neither negative nor near the end of 64 bits.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The host's TSC and CLOCK_MONOTONIC_RAW at the same moment: of several bracketed readings, the
/// tightest.
pub fn pair() -> (u64, u64) {
    let reading = || {
        let before = now();
        let ns = raw_ns();
        let after = now();
        (after - before, before + (after - before) / 2, ns)
    };
    let tightest = (0..8).map(|_| reading()).min_by_key(|&(width, ..)| width);
    tightest.map_or_else(|| (now(), raw_ns()), |(_, ticks, ns)| (ticks, ns))
}

/// The frequency of the host's TSC in kHz, measured once against CLOCK_MONOTONIC_RAW.
///
/// For machines without KVM, which knows it. Takes 20 ms the first time, and is good to some parts
/// per million: each end is the tightest of several bracketed readings.
pub fn khz() -> u64 {
    static KHZ: OnceLock<u64> = OnceLock::new();
    *KHZ.get_or_init(measure_khz)
}

fn measure_khz() -> u64 {
    let (first_ticks, first_ns) = pair();
    std::thread::sleep(Duration::from_millis(20));
    let (last_ticks, last_ns) = pair();
    let khz =
        u128::from(last_ticks - first_ticks) * 1_000_000 / u128::from(last_ns - first_ns).max(1);
    u64::try_from(khz).unwrap_or(u64::MAX)
}
