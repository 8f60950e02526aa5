//! A minimal KVM virtual machine monitor that runs pvlab's bare-metal guest.
//!
//! A [`Vm`] is built from a [`Config`], gets one host thread for each vCPU, and reports on a channel
//! what its vCPUs have to say ([`Event`]). There is no device, no interrupt and no firmware: a guest
//! has memory ([`layout`]), the image, and doorbells ([`guest::abi::Doorbell`]). While a VM runs, the
//! host reads and writes the shared [`Region`] through `vm-memory`.
//!
//! Linux on x86-64 only.

pub mod boot;
pub mod clock;
pub mod cpl;
mod error;
pub mod host_trace;
mod image;
pub mod kvm_stats;
pub mod layout;
pub mod limits;
pub mod patch;
pub mod region;
pub mod report;
pub mod sched;
pub mod stops;
pub mod switches;
pub mod thread;
mod vcpu;
mod vm;
pub mod yielding;

pub use cpl::Cpl;
pub use error::{VmmError, remedy};
pub use image::{Image, ImageError};
pub use region::Region;
pub use vcpu::{Event, Exits};
pub use vm::{Config, Vm, check_host, max_vcpus};
