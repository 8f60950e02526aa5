//! What a vCPU was doing: registers, for error messages and the watchdog.

use crate::image::{Image, Symbol};
use kvm_bindings::kvm_regs;
use std::fmt;

/// General registers of a vCPU, and where in the image it is.
#[derive(Clone, Debug)]
pub struct Registers {
    /// As KVM returned them; `None` if it would not.
    pub values: Option<kvm_regs>,
    /// The function at RIP.
    pub symbol: Option<Symbol>,
}

impl Registers {
    pub(crate) fn new(values: Option<kvm_regs>) -> Self {
        let symbol = values.and_then(|regs| Image::guest().ok()?.symbolise(regs.rip));
        Self { values, symbol }
    }
}

impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(r) = &self.values else {
            return f.write_str("registers that KVM does not tell");
        };
        write!(f, "rip {:#x}", r.rip)?;
        if let Some(symbol) = &self.symbol {
            write!(f, " ({symbol})")?;
        }
        for (name, value) in [
            ("rsp", r.rsp),
            ("rbp", r.rbp),
            ("rax", r.rax),
            ("rbx", r.rbx),
            ("rcx", r.rcx),
            ("rdx", r.rdx),
            ("rsi", r.rsi),
            ("rdi", r.rdi),
            ("r8", r.r8),
            ("r9", r.r9),
            ("r10", r.r10),
            ("r11", r.r11),
            ("r12", r.r12),
            ("r13", r.r13),
            ("r14", r.r14),
            ("r15", r.r15),
            ("rflags", r.rflags),
        ] {
            write!(f, " {name} {value:#x}")?;
        }
        Ok(())
    }
}
