//! What can go wrong with a virtual machine, said to the person who started it.

use crate::image::ImageError;
use crate::patch::PatchError;
use crate::registers::Registers;
use crate::seccomp::{SeccompError, name};
use host::limits::explain;
use host::region::RegionError;
use host::{HostError, remedy};
use std::io;

/// Why a VM could not be built or go on.
#[derive(Debug, thiserror::Error)]
pub enum VmmError {
    /// There is no KVM device.
    #[error(
        "/dev/kvm does not exist: load the kvm_intel or kvm_amd module (in a virtual machine, turn on nested virtualisation), or use --machine threads"
    )]
    NoKvm,
    /// The KVM device may not be opened.
    #[error(
        "no permission to open /dev/kvm: join its group (often 'kvm') or run as root, or use --machine threads"
    )]
    NoPermission,
    /// The KVM device could not be opened for another reason.
    #[error("cannot open /dev/kvm: {}{}", .0, remedy(Some(.0.errno())))]
    OpenKvm(#[source] kvm_ioctls::Error),
    /// The KVM API is not the one everybody has used since 2007.
    #[error("/dev/kvm offers API version {0}, version 12 is needed")]
    ApiVersion(i32),
    /// A capability is missing.
    #[error("this KVM lacks {0}, without which {1}; use --machine threads")]
    Missing(&'static str, &'static str),
    /// More vCPUs than the host's KVM can give one VM.
    #[error("{asked} vCPUs are too many: this KVM gives a VM {max} at most")]
    TooManyVcpus {
        /// vCPUs asked for.
        asked: usize,
        /// vCPUs that can be had.
        max: usize,
    },
    /// The guest would not fit below its doorbells.
    #[error("{vcpus} vCPUs and {locks} locks need {bytes} bytes of guest memory, more than fit")]
    TooLarge {
        /// vCPUs asked for.
        vcpus: usize,
        /// Locks asked for.
        locks: usize,
        /// Bytes needed.
        bytes: u64,
    },
    /// An ioctl failed.
    #[error("KVM could not {what}: {}", explain(&io::Error::from_raw_os_error(.source.errno())))]
    Kvm {
        /// What was attempted.
        what: &'static str,
        /// The error of the ioctl.
        source: kvm_ioctls::Error,
    },
    /// The host refuses something that every machine needs.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The guest image is unusable.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Its calls cannot be redirected to the lock.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// A vCPU's thread cannot be confined.
    #[error(transparent)]
    Seccomp(#[from] SeccompError),
    /// A vCPU's thread made a system call that it has no use for.
    #[error(
        "the thread of vCPU {vcpu} made a system call that its seccomp filter does not allow, {}; please report it, \
         and use --no-seccomp until then",
        name(*.call)
    )]
    Denied {
        /// The vCPU.
        vcpu: usize,
        /// The number of the call.
        call: i64,
    },
    /// A vCPU's thread panicked: a mistake of this monitor's.
    #[error("the thread of vCPU {vcpu} panicked, which is a bug of pvlab's: {message}")]
    ThreadPanicked {
        /// The vCPU.
        vcpu: usize,
        /// What it said.
        message: String,
    },
    /// The guest faulted: without handlers, any exception is a triple fault.
    #[error("vCPU {vcpu} of the guest faulted (triple fault) at {registers}")]
    TripleFault {
        /// The vCPU.
        vcpu: usize,
        /// Its state, as far as KVM keeps it.
        registers: Box<Registers>,
    },
    /// The guest stored to an address that is neither memory nor a doorbell, or what that doorbell does not take.
    #[error(
        "vCPU {vcpu} of the guest stored {data:02x?} to {address:#x}, which is no doorbell of this guest or does \
         not take that, at {registers}"
    )]
    BadStore {
        /// The vCPU.
        vcpu: usize,
        /// The guest-physical address.
        address: u64,
        /// The bytes.
        data: Vec<u8>,
        /// Its state.
        registers: Box<Registers>,
    },
    /// KVM returned for a reason this guest has none for.
    #[error("vCPU {vcpu} left the guest unexpectedly ({exit}) at {registers}")]
    UnexpectedExit {
        /// The vCPU.
        vcpu: usize,
        /// KVM's reason.
        exit: String,
        /// Its state.
        registers: Box<Registers>,
    },
}

impl VmmError {
    /// Makes an ioctl, once more whenever a signal interrupts it.
    ///
    /// KVM_CREATE_VM among others fails with EINTR when a signal is pending, which the next attempt finds
    /// delivered.
    pub(crate) fn ioctl<T>(
        what: &'static str,
        mut call: impl FnMut() -> Result<T, kvm_ioctls::Error>,
    ) -> Result<T, Self> {
        loop {
            // Some of kvm-ioctls' functions return what the call returned, -1, instead of its error.
            let told = |source: kvm_ioctls::Error| match source.errno() {
                -1 => kvm_ioctls::Error::last(),
                _ => source,
            };
            match call().map_err(told) {
                Err(source) if source.errno() == libc::EINTR => {}
                result => return result.map_err(|source| Self::Kvm { what, source }),
            }
        }
    }
}

impl From<RegionError> for VmmError {
    fn from(error: RegionError) -> Self {
        Self::Host(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_ioctl_is_made_again_and_a_refused_one_is_not() {
        let mut interruptions = 3;
        let made = VmmError::ioctl("do it", || {
            interruptions -= 1;
            if interruptions > 0 {
                Err(kvm_ioctls::Error::new(libc::EINTR))
            } else {
                Ok(7)
            }
        });
        assert_eq!(made.unwrap(), 7);
        let mut calls = 0;
        let refused = VmmError::ioctl::<()>("do it", || {
            calls += 1;
            Err(kvm_ioctls::Error::new(libc::EMFILE))
        });
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("KVM could not do it") && text.contains("ulimit -n"),
            "{text}"
        );
        assert_eq!(calls, 1);
    }
}
