//! A minimal KVM virtual machine monitor that runs pvlab's bare-metal guest.
//!
//! A [`Vm`] is built from a [`Config`], gets one host thread for each vCPU, and reports on a channel
//! what its vCPUs have to say ([`host::Notice`]). There is no device, no interrupt and no firmware: a guest
//! has memory ([`layout`]), the image, and doorbells ([`abi::Doorbell`]). While a VM runs, the
//! host reads and writes the shared [`host::Region`] through `vm-memory`.
//!
//! A guest is not trusted. What it stores to doorbells and to memory is checked, its vCPUs' threads may ask little
//! of the kernel ([`seccomp`]), and whatever it does ends with a [`VmmError`] at worst.
//!
//! Linux on x86-64 only.

pub mod boot;
pub mod cpl;
mod error;
mod image;
pub mod kvm_stats;
pub mod layout;
pub mod patch;
pub mod registers;
pub mod seccomp;
mod tsc;
mod vcpu;
mod vm;

pub use cpl::Cpl;
pub use error::VmmError;
pub use image::{Image, ImageError};
pub use vcpu::Exits;
pub use vm::{Config, Vm, check_host, max_vcpus};
