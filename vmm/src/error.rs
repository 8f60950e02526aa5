//! What can go wrong with a virtual machine, said to the person who started it.

use crate::image::ImageError;
use crate::limits::explain;
use crate::patch::PatchError;
use crate::region::RegionError;
use crate::report::Registers;
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
    #[error("cannot open /dev/kvm: {0}")]
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
    /// A system call failed.
    #[error("cannot {what}: {}", explain(.source))]
    Os {
        /// What was attempted.
        what: &'static str,
        /// The error of the call.
        source: io::Error,
    },
    /// Guest memory could not be had, or an address is outside it.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The guest image is unusable.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Its calls cannot be redirected to the lock.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// A vCPU could not be placed.
    #[error("cannot place vCPU {vcpu} on host CPU {cpus:?}: {source}")]
    Affinity {
        /// The vCPU.
        vcpu: usize,
        /// Where it should run.
        cpus: Vec<usize>,
        /// The error of the call.
        source: io::Error,
    },
    /// The guest faulted: without handlers, any exception is a triple fault.
    #[error("vCPU {vcpu} of the guest faulted (triple fault) at {registers}")]
    TripleFault {
        /// The vCPU.
        vcpu: usize,
        /// Its state, as far as KVM keeps it.
        registers: Box<Registers>,
    },
    /// The guest stored to an address that is neither memory nor a doorbell.
    #[error(
        "vCPU {vcpu} of the guest stored {data:02x?} to {address:#x}, which is no doorbell, at {registers}"
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
    /// For `map_err` on an ioctl.
    pub(crate) fn kvm(what: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> Self {
        move |source| Self::Kvm { what, source }
    }

    /// For `map_err` on a system call.
    pub(crate) fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Os {
            what,
            source: source.into(),
        }
    }
}
