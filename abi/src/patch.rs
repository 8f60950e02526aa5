//! Calls in the image that the host redirects before the guest runs ([`super::Dispatch::Patched`]).
//!
//! Two sections of the image, which no code reads: the calls, and what they may be made to call.

/// The section of [`CallSite`]s.
pub const SITES: &str = ".pvlab.sites";
/// The section of [`CallTarget`]s.
pub const TARGETS: &str = ".pvlab.targets";

/// What a call is for: an operation of a lock, in one of the two versions of the code.
pub mod operation {
    /// Lock, in code that is not instrumented.
    pub const LOCK: u64 = 0;
    /// Unlock.
    pub const UNLOCK: u64 = 1;
    /// Added in code that is instrumented ([`Params::instrumented`](crate::Params::instrumented)).
    pub const INSTRUMENTED: u64 = 2;
    /// How many there are.
    pub const COUNT: u64 = 4;
}

/// A call to be redirected: `call rel32`, opcode 0xe8 (Intel SDM vol. 2A, CALL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CallSite {
    /// Address of the instruction.
    pub address: u64,
    /// What it calls before it is patched.
    pub unpatched: u64,
    /// An [`operation`].
    pub operation: u64,
}

/// A function that calls may be redirected to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CallTarget {
    /// A [`pvlock::LockKind`] by its id.
    pub kind: u64,
    /// An [`operation`].
    pub operation: u64,
    /// Its address.
    pub function: unsafe extern "C-unwind" fn(*const ()),
}
