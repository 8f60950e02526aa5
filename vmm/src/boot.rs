//! A vCPU's state at its first instruction: page tables, descriptors, registers.
//!
//! The guest starts in 64-bit mode, at CPL 3 or 0, and never changes it: it has no kernel, no
//! interrupts and no exception handlers. Sources: AMD64 APM vol. 2 chapters 4 and 5, Intel SDM
//! vol. 3A chapters 3 and 4.

use crate::cpl::Cpl;
use crate::error::VmmError;
use crate::image::Image;
use crate::layout::{self, MemoryMap, PAGE};
use crate::patch;
use abi::{Dispatch, Doorbell, Layout, Params};
use host::Region;
use host::region::RegionError;
use kvm_bindings::{kvm_regs, kvm_segment};
use kvm_ioctls::VcpuFd;
use pvlock::LockKind;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

// Page-table entries.
const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const NO_EXECUTE: u64 = 1 << 63;

// Control registers and EFER.
const CR0_PE: u64 = 1 << 0;
const CR0_MP: u64 = 1 << 1;
const CR0_ET: u64 = 1 << 4;
const CR0_NE: u64 = 1 << 5;
const CR0_WP: u64 = 1 << 16;
const CR0_AM: u64 = 1 << 18;
const CR0_PG: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const CR4_OSFXSR: u64 = 1 << 9;
const CR4_OSXMMEXCPT: u64 = 1 << 10;
const EFER_SCE: u64 = 1 << 0;
const EFER_LME: u64 = 1 << 8;
const EFER_LMA: u64 = 1 << 10;
const EFER_NXE: u64 = 1 << 11;

/// Reserved bit 1, and IF: interrupts are on, but there is nothing that could send one.
const RFLAGS: u64 = 0x202;

/// Indices into the GDT.
const KERNEL_CODE: u16 = 2;
const KERNEL_DATA: u16 = 3;
const USER_DATA: u16 = 5;
const USER_CODE: u16 = 6;

/// Writes page tables that map virtual to equal physical addresses in 4 KiB pages.
struct Mapper<'a> {
    memory: &'a GuestMemoryMmap,
    next_table: u64,
}

impl Mapper<'_> {
    const LEVELS: u32 = 4;

    fn map(&mut self, start: u64, size: u64, bits: u64) -> Result<(), RegionError> {
        let mut page = start & !(PAGE - 1);
        while page < start + size {
            self.map_page(page, bits)?;
            page += PAGE;
        }
        Ok(())
    }

    fn map_page(&mut self, page: u64, bits: u64) -> Result<(), RegionError> {
        let mut table = layout::PAGE_TABLES;
        for level in (1..Self::LEVELS).rev() {
            let entry = GuestAddress(table + 8 * (page >> (12 + 9 * level) & 0x1ff));
            let found: u64 = self.memory.read_obj(entry)?;
            table = if found & PRESENT != 0 {
                found & !(PAGE - 1) & !NO_EXECUTE
            } else {
                self.next_table += PAGE;
                // Tables allow everything; the pages restrict.
                self.memory
                    .write_obj(self.next_table | PRESENT | WRITE | USER, entry)?;
                self.next_table
            };
        }
        let entry = GuestAddress(table + 8 * (page >> 12 & 0x1ff));
        Ok(self.memory.write_obj(page | PRESENT | USER | bits, entry)?)
    }
}

/// Loads the image and writes page tables and GDT.
///
/// # Errors
/// If the image does not fit.
pub fn load(memory: &GuestMemoryMmap, image: &Image<'_>, region: Layout) -> Result<(), VmmError> {
    let map = MemoryMap::new(region);
    let mut mapper = Mapper {
        memory,
        next_table: layout::PAGE_TABLES,
    };
    for segment in image.segments()? {
        memory
            .write_slice(segment.data, GuestAddress(segment.address))
            .map_err(RegionError::from)?;
        let write = if segment.write { WRITE } else { 0 };
        let execute = if segment.execute { 0 } else { NO_EXECUTE };
        mapper.map(segment.address, segment.size, write | execute)?;
    }
    mapper.map(layout::REGION, region.size() as u64, WRITE | NO_EXECUTE)?;
    for cpu in 0..region.vcpus() {
        mapper.map(map.stack(cpu), layout::STACK, WRITE | NO_EXECUTE)?;
    }
    for stack in (0..region.tasks()).filter_map(|task| map.task_stack(task)) {
        mapper.map(stack, layout::STACK, WRITE | NO_EXECUTE)?;
    }
    mapper.map(Doorbell::BASE, Doorbell::SIZE, WRITE | NO_EXECUTE)?;
    write_gdt(memory)?;
    Ok(())
}

/// Makes the loaded image's calls call the lock that `params` name, if they are to be patched.
///
/// # Errors
/// If the image is not as it says.
pub fn patch(memory: &GuestMemoryMmap, image: &Image<'_>, params: &Params) -> Result<(), VmmError> {
    let kind = u32::try_from(params.lock_kind).ok();
    let (Some(Dispatch::Patched), Some(kind)) = (
        Dispatch::from_raw(params.dispatch),
        kind.and_then(LockKind::from_id),
    ) else {
        return Ok(());
    };
    for patch in patch::patches(image, kind)? {
        memory
            .write_slice(&patch.bytes, GuestAddress(patch.address))
            .map_err(RegionError::from)?;
    }
    Ok(())
}

fn code(dpl: u8) -> kvm_segment {
    // Execute/read, accessed; 64-bit.
    kvm_segment {
        type_: 0xb,
        l: 1,
        db: 0,
        ..data(dpl)
    }
}

fn data(dpl: u8) -> kvm_segment {
    // Read/write, accessed; 4 KiB granularity.
    kvm_segment {
        limit: 0xffff_ffff,
        type_: 3,
        present: 1,
        dpl,
        s: 1,
        g: 1,
        db: 1,
        ..Default::default()
    }
}

/// A segment in its form in the GDT.
fn descriptor(s: &kvm_segment) -> u64 {
    let limit = u64::from(if s.g == 1 { s.limit >> 12 } else { s.limit });
    let flags = u64::from(s.type_ | s.s << 4 | s.dpl << 5 | s.present << 7);
    let granularity = u64::from(s.l << 1 | s.db << 2 | s.g << 3);
    limit & 0xffff | flags << 40 | (limit >> 16 & 0xf) << 48 | granularity << 52
}

fn write_gdt(memory: &GuestMemoryMmap) -> Result<(), RegionError> {
    for (index, segment) in [
        (KERNEL_CODE, code(0)),
        (KERNEL_DATA, data(0)),
        (USER_DATA, data(3)),
        (USER_CODE, code(3)),
    ] {
        let address = layout::GDT + 8 * u64::from(index);
        memory.write_obj(descriptor(&segment), GuestAddress(address))?;
    }
    Ok(())
}

/// Puts vCPU `cpu` at the entry of the image.
///
/// # Errors
/// If KVM refuses.
pub fn set_registers(
    vcpu: &VcpuFd,
    cpl: Cpl,
    entry: u64,
    region: &Region,
    cpu: usize,
) -> Result<(), VmmError> {
    let stack = MemoryMap::new(region.layout()).stack(cpu) + layout::STACK;
    let area = layout::REGION + region.layout().vcpu(cpu) as u64;
    set_special_registers(vcpu, cpl, area)?;
    // As if `_start` had been called: the stack is 16-byte aligned before the return address.
    let regs = kvm_regs {
        rip: entry,
        rsp: stack - 8,
        rflags: RFLAGS,
        ..Default::default()
    };
    VmmError::ioctl("set the registers of a vCPU", || vcpu.set_regs(&regs))
}

/// Sets 64-bit mode, segments and GS base.
pub(crate) fn set_special_registers(vcpu: &VcpuFd, cpl: Cpl, gs_base: u64) -> Result<(), VmmError> {
    let mut sregs = VmmError::ioctl("read the registers of a vCPU", || vcpu.get_sregs())?;
    let dpl = cpl.level();
    let (code_index, data_index) = match cpl {
        Cpl::Cpl0 => (KERNEL_CODE, KERNEL_DATA),
        Cpl::Cpl3 => (USER_CODE, USER_DATA),
    };
    let selector = |index: u16| index << 3 | u16::from(dpl);
    let data = kvm_segment {
        selector: selector(data_index),
        ..data(dpl)
    };
    sregs.cs = kvm_segment {
        selector: selector(code_index),
        ..code(dpl)
    };
    (sregs.ds, sregs.es, sregs.fs, sregs.ss) = (data, data, data, data);
    sregs.gs = kvm_segment {
        base: gs_base,
        ..data
    };
    sregs.gdt.base = layout::GDT;
    sregs.gdt.limit = 8 * (USER_CODE + 1) - 1;
    sregs.cr3 = layout::PAGE_TABLES;
    sregs.cr0 = CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_AM | CR0_PG;
    sregs.cr4 |= CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT;
    sregs.efer = EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE;
    VmmError::ioctl("set the control registers of a vCPU", || {
        vcpu.set_sregs(&sregs)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_those_of_the_manuals() {
        // The well-known 64-bit flat descriptors, accessed bit set.
        assert_eq!(descriptor(&code(0)), 0x00af_9b00_0000_ffff);
        assert_eq!(descriptor(&data(0)), 0x00cf_9300_0000_ffff);
        assert_eq!(descriptor(&code(3)), 0x00af_fb00_0000_ffff);
        assert_eq!(descriptor(&data(3)), 0x00cf_f300_0000_ffff);
    }

    #[test]
    fn what_is_mapped_is_found_by_a_walk_and_guards_are_not() {
        let region = Layout::new(3, 2);
        let map = MemoryMap::new(region);
        let memory = host::region::map(usize::try_from(map.end()).unwrap()).unwrap();
        load(&memory, &Image::guest().unwrap(), region).unwrap();
        let walk = |address: u64| {
            let mut table = layout::PAGE_TABLES;
            for level in (0..4).rev() {
                let entry = table + 8 * (address >> (12 + 9 * level) & 0x1ff);
                let found: u64 = memory.read_obj(GuestAddress(entry)).unwrap();
                if found & PRESENT == 0 {
                    return None;
                }
                table = found & !(PAGE - 1) & !NO_EXECUTE;
            }
            Some(table)
        };
        for mapped in [
            layout::IMAGE,
            layout::REGION,
            map.stack(0),
            map.stack(2),
            Doorbell::BASE,
        ] {
            assert_eq!(walk(mapped), Some(mapped & !(PAGE - 1)));
        }
        for unmapped in [
            0,
            layout::GDT,
            layout::PAGE_TABLES,
            map.stack(1) - 1,
            map.end(),
        ] {
            assert_eq!(walk(unmapped), None, "{unmapped:#x}");
        }
    }
}
