//! The bare-metal image: entry, the KVM platform, panics, and what the compiler expects of libc.
//!
//! A vCPU starts at [`_start`] in 64-bit mode with its own stack, GS base pointing to its
//! [`VcpuArea`](abi::VcpuArea), and no interrupts, ever.
#![allow(unsafe_code)] // Bare metal: entry point, memory routines, doorbell stores.

mod hostile;
mod kvm;
mod mem;
mod patch;

use abi::{Doorbell, EXIT_DONE, EXIT_PANIC, LOG_BYTES, Workload};
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use guest::machine::VcpuAreaExt as _;
use guest::{Machine, workload};
use kvm::Kvm;

/// Entry point of every vCPU.
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    patch::keep();
    let params = &Kvm::<false>::vcpu().header().params;
    if params.workload == Workload::Hostile as u64 {
        hostile::run();
    } else if params.instrumented() {
        workload::run_instrumented::<Kvm<true>>();
    } else {
        workload::run::<Kvm<false>>();
    }
    exit(EXIT_DONE)
}

fn exit(code: u32) -> ! {
    loop {
        kvm::ring(Doorbell::Exit, code);
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let mut text = Text {
        bytes: [0; LOG_BYTES],
        len: 0,
    };
    // Text never fails.
    let _ = write!(text, "{info}");
    Kvm::<false>::vcpu().set_log(str::from_utf8(&text.bytes[..text.len]).unwrap_or("panic"));
    exit(EXIT_PANIC)
}

/// A string of fixed capacity that drops what does not fit.
struct Text {
    bytes: [u8; LOG_BYTES],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for c in s.chars() {
            if self.len + c.len_utf8() > LOG_BYTES {
                break;
            }
            self.len += c.encode_utf8(&mut self.bytes[self.len..]).len();
        }
        Ok(())
    }
}
