//! The guest's time stamp counter, and how far it is ahead of the host's.

use crate::error::VmmError;
use host::clock::now;
use kvm_bindings::{Msrs, kvm_device_attr, kvm_msr_entry};
use kvm_ioctls::VcpuFd;
use vmm_sys_util::ioctl::ioctl_with_ref;

/// IA32_TIME_STAMP_COUNTER.
const MSR_TSC: u32 = 0x10;

mod ioctls {
    #![allow(missing_docs)] // The macro writes the functions.
    use kvm_bindings::kvm_device_attr;
    // linux/kvm.h; kvm-ioctls offers it for devices, but not for vCPUs.
    vmm_sys_util::ioctl_iow_nr!(KVM_GET_DEVICE_ATTR, 0xae, 0xe2, kvm_device_attr);
}

/// What to add to the host's TSC to get that of `vcpu`, modulo 2^64.
///
/// Exact where KVM tells it (KVM_VCPU_TSC_OFFSET, Linux 5.16), else good to some microseconds.
///
/// # Errors
/// If KVM does not tell a vCPU's TSC at all.
pub(crate) fn tsc_offset(vcpu: &VcpuFd) -> Result<u64, VmmError> {
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
