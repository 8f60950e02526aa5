//! Doorbells: guest-physical addresses without memory behind them. A 32-bit store is a hypercall.
//!
//! A store to a page without a memory slot leaves guest mode on every kind of KVM, from any
//! privilege level (KVM API documentation, KVM_EXIT_MMIO), unlike `vmcall` or `hlt`. The KICK
//! doorbells are registered as ioeventfds, so that the kernel handles them without the VMM.

/// Pages of KICK doorbells: one 32-bit word for each of up to 4,096 vCPUs.
pub const KICK_PAGES: u64 = 4;

/// [`Doorbell::Exit`]: the vCPU has done its work.
pub const EXIT_DONE: u32 = 0;
/// [`Doorbell::Exit`]: the vCPU has panicked; its log holds the message.
pub const EXIT_PANIC: u32 = 1;

/// A hypercall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// Block this vCPU until it is kicked. A kick that came since the last halt counts.
    Halt,
    /// Offer the rest of this vCPU's time to the vCPU whose number is stored.
    Yield,
    /// This vCPU ends; the value is [`EXIT_DONE`] or [`EXIT_PANIC`].
    Exit,
    /// This vCPU's log buffer holds a message to be shown.
    Log,
    /// Hold this vCPU off its CPU for the number of ns stored.
    Preempt,
    /// Let every vCPU of this VM that runs pass a full memory barrier.
    Barrier,
    /// End the present or next halt of vCPU `.0`. The value stored is ignored.
    Kick(u32),
}

impl Doorbell {
    /// Where the doorbells are in the guest's physical address space.
    pub const BASE: u64 = 0xf000_0000;
    /// Bytes of address space they take.
    pub const SIZE: u64 = (1 + KICK_PAGES) * 0x1000;

    const KICKS: u64 = Self::BASE + 0x1000;

    /// The doorbell's guest-physical address.
    #[inline(always)]
    pub const fn address(self) -> u64 {
        match self {
            Self::Halt => Self::BASE,
            Self::Yield => Self::BASE + 0x40,
            Self::Exit => Self::BASE + 0x80,
            Self::Log => Self::BASE + 0xc0,
            Self::Preempt => Self::BASE + 0x100,
            Self::Barrier => Self::BASE + 0x140,
            Self::Kick(cpu) => Self::KICKS + 4 * cpu as u64,
        }
    }

    /// The doorbell at that address.
    pub const fn from_address(address: u64) -> Option<Self> {
        match address {
            0xf000_0000 => Some(Self::Halt),
            0xf000_0040 => Some(Self::Yield),
            0xf000_0080 => Some(Self::Exit),
            0xf000_00c0 => Some(Self::Log),
            0xf000_0100 => Some(Self::Preempt),
            0xf000_0140 => Some(Self::Barrier),
            Self::KICKS.. if address < Self::BASE + Self::SIZE && address.is_multiple_of(4) =>
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "less than KICK_PAGES * 1024"
                )]
                Some(Self::Kick(((address - Self::KICKS) / 4) as u32))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_decode_to_the_doorbell_they_came_from() {
        let all = [
            Doorbell::Halt,
            Doorbell::Yield,
            Doorbell::Exit,
            Doorbell::Log,
            Doorbell::Preempt,
            Doorbell::Barrier,
        ];
        for bell in all.into_iter().chain((0..4096).map(Doorbell::Kick)) {
            assert_eq!(Doorbell::from_address(bell.address()), Some(bell));
        }
        for nowhere in [
            0,
            Doorbell::BASE + 4,
            Doorbell::KICKS + 1,
            Doorbell::BASE + Doorbell::SIZE,
        ] {
            assert_eq!(Doorbell::from_address(nowhere), None);
        }
    }
}
