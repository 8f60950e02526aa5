//! Where things are in the guest's physical address space. Virtual addresses are the same.
//!
//! ```text
//! 0x0000_0000  nothing: a null pointer faults
//! 0x0000_1000  GDT
//! 0x0000_2000  page tables: PML4, PDPT, page directories and tables
//! 0x0020_0000  image
//! 0x0080_0000  the shared region (abi), then guarded stacks, one for each vCPU and one for
//!              each task but the first of each vCPU
//! 0xf000_0000  doorbells: no memory here
//! ```

use abi::{Doorbell, Layout};

/// A page.
pub const PAGE: u64 = 0x1000;

/// The global descriptor table.
pub const GDT: u64 = 0x1000;

/// First page of page tables.
pub const PAGE_TABLES: u64 = 0x2000;
/// End of the space for page tables.
pub const PAGE_TABLES_END: u64 = IMAGE;

/// Lowest address of the image.
pub const IMAGE: u64 = 0x20_0000;
/// End of the space for the image.
pub const IMAGE_END: u64 = REGION;

/// The shared region.
pub const REGION: u64 = 0x80_0000;

/// Bytes of stack of a vCPU.
pub const STACK: u64 = 0x8000;
/// Unmapped bytes below each stack.
pub const STACK_GUARD: u64 = PAGE;

/// Memory that the page tables set aside can map.
const MAPPABLE: u64 = ((PAGE_TABLES_END - PAGE_TABLES) / PAGE - 8) * 0x20_0000;

const _: () = {
    assert!(GDT < PAGE_TABLES && PAGE_TABLES < PAGE_TABLES_END);
    assert!(PAGE_TABLES_END <= IMAGE && IMAGE < IMAGE_END && IMAGE_END <= REGION);
    assert!(
        MAPPABLE <= Doorbell::BASE,
        "memory must end below the doorbells"
    );
    assert!(Doorbell::BASE + Doorbell::SIZE <= 1 << 32);
};

/// Addresses that depend on the number of vCPUs and locks.
#[derive(Clone, Copy, Debug)]
pub struct MemoryMap {
    region: Layout,
}

impl MemoryMap {
    /// The map for that region.
    pub const fn new(region: Layout) -> Self {
        Self { region }
    }

    /// First byte of stack number `stack`.
    const fn nth_stack(self, stack: usize) -> u64 {
        REGION + self.region.size() as u64 + stack as u64 * (STACK_GUARD + STACK) + STACK_GUARD
    }

    /// First byte of the stack of vCPU `cpu`, which its first task uses.
    pub const fn stack(self, cpu: usize) -> u64 {
        self.nth_stack(cpu)
    }

    /// First byte of the stack of task number `task` of all, if it is not the first of its vCPU.
    pub const fn task_stack(self, task: usize) -> Option<u64> {
        let (cpu, own) = (
            task / self.region.tasks_per_vcpu(),
            task % self.region.tasks_per_vcpu(),
        );
        if own == 0 {
            return None;
        }
        // After those of the vCPUs, without gaps.
        Some(self.nth_stack(self.region.vcpus() + task - cpu - 1))
    }

    /// End of memory.
    pub const fn end(self) -> u64 {
        self.nth_stack(self.region.tasks()) - STACK_GUARD
    }

    /// Whether so much memory can be had.
    pub const fn fits(self) -> bool {
        self.end() <= MAPPABLE
    }
}
