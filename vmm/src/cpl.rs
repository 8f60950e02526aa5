//! The guest's privilege level, and which one suits this host.
//!
//! On VMX and SVM hosts a guest at CPL 0 runs natively, and only there does hardware pause-loop
//! exiting watch its spinning, as it does a real kernel's. A KVM without hardware support may have
//! to emulate each instruction at CPL 0.

use crate::boot;
use crate::error::VmmError;
use crate::image::Image;
use crate::layout::MemoryMap;
use crate::vm::create_vm;
use abi::{Doorbell, Layout};
use host::region::{self, RegionError};
use kvm_bindings::kvm_regs;
use kvm_ioctls::VcpuExit;
use std::fmt;
use vm_memory::{Bytes, GuestAddress};

/// A privilege level a guest can run at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpl {
    /// Kernel mode.
    Cpl0,
    /// User mode.
    Cpl3,
}

impl Cpl {
    /// The level as a number.
    pub const fn level(self) -> u8 {
        match self {
            Self::Cpl0 => 0,
            Self::Cpl3 => 3,
        }
    }
}

impl fmt::Display for Cpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPL {}", self.level())
    }
}

/// Turns of the timed loop.
const TURNS: u32 = 256;
/// Ticks a native loop turn cannot take, and an emulated one (some 1,500) does not fall below.
const NATIVE_TICKS: u64 = 40;
/// Runs, of which the fastest counts: one may be preempted.
const RUNS: usize = 3;

/// A loop that times itself and stores the ticks to the doorbell in RDI.
const PROGRAM: &[u8] = &[
    0x0f, 0x31, // rdtsc
    0x89, 0xc6, // mov esi, eax
    0xb9, 0x00, 0x01, 0x00, 0x00, // mov ecx, 256
    0xff, 0xc9, // 1: dec ecx
    0x75, 0xfc, // jnz 1b
    0x0f, 0x31, // rdtsc
    0x29, 0xf0, // sub eax, esi
    0x89, 0x07, // mov [rdi], eax
    0xeb, 0xfe, // 2: jmp 2b
];

/// CPL 0 if this host runs it natively, else CPL 3.
///
/// # Errors
/// If a throw-away VM cannot be made.
pub fn detect() -> Result<Cpl, VmmError> {
    let ticks = ticks_per_turn(Cpl::Cpl0)?;
    let cpl = match ticks {
        Some(ticks) if ticks < NATIVE_TICKS => Cpl::Cpl0,
        _ => Cpl::Cpl3,
    };
    tracing::debug!(?ticks, %cpl, "timed a loop at CPL 0");
    Ok(cpl)
}

/// Ticks that a turn of a short loop takes at `cpl`; `None` if the guest does not get through it.
///
/// # Errors
/// If a throw-away VM cannot be made.
pub fn ticks_per_turn(cpl: Cpl) -> Result<Option<u64>, VmmError> {
    let layout = Layout::new(1, 1);
    let size = MemoryMap::new(layout).end();
    let memory = region::map(usize::try_from(size).unwrap_or(usize::MAX))?;
    // The image's entry is on an executable page: the program goes there.
    let image = Image::guest()?;
    boot::load(&memory, &image, layout)?;
    memory
        .write_slice(PROGRAM, GuestAddress(image.entry()))
        .map_err(RegionError::from)?;

    let vm = create_vm(&memory)?;
    let mut vcpu = VmmError::ioctl("create a vCPU", || vm.create_vcpu(0))?;
    boot::set_special_registers(&vcpu, cpl, 0)?;
    let regs = kvm_regs {
        rip: image.entry(),
        rdi: Doorbell::Exit.address(),
        rflags: 2,
        ..Default::default()
    };
    let mut fastest = None;
    for _ in 0..RUNS {
        VmmError::ioctl("set the registers of a vCPU", || vcpu.set_regs(&regs))?;
        let ticks = loop {
            match vcpu.run() {
                Ok(VcpuExit::MmioWrite(_, &[a, b, c, d])) => {
                    break u32::from_le_bytes([a, b, c, d]);
                }
                Err(e) if e.errno() == libc::EINTR || e.errno() == libc::EAGAIN => {}
                // Whatever else happened, this level is not for us.
                _ => return Ok(None),
            }
        };
        let per_turn = u64::from(ticks / TURNS);
        fastest = Some(fastest.map_or(per_turn, |f: u64| f.min(per_turn)));
    }
    Ok(fastest)
}
