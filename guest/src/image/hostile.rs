//! A guest that does its host harm, at random, as far as a guest can: the host's tests run it.
//!
//! It writes to all that the host reads while the host reads it, and rings doorbells in any way. The seed says
//! what it is up to:
//!
//! | seed         | what it does                                                                       |
//! |--------------|------------------------------------------------------------------------------------|
//! | odd          | begins as other guests do, so that the host thinks that it works                    |
//! | even         | begins at once                                                                      |
//! | seed / 2 % 3 | 0: writes to memory only; 1: also rings doorbells as they may be rung; 2: everything |
//!
//! What it needs itself is on its stack, where it does not write.

use super::exit;
use super::kvm::{Kvm, ring};
use abi::hist::Hist;
use abi::{
    Costs, Doorbell, EXIT_DONE, HISTS, Header, Layout, LockSlot, Mark, NodeWords, Params, TaskArea,
    VcpuArea, VcpuState, phase,
};
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use guest::Machine;
use guest::machine::VcpuAreaExt as _;
use guest::workload::choice::Choice;
use pvlock::Platform;

/// Acts between two that may end the vCPU, or hold it up for seconds.
const RARE: u64 = 4000;

/// What the host looks at in the area of a vCPU; the rest is found by chance.
const TARGETS: [usize; 24] = [
    offset_of!(VcpuArea, this),
    offset_of!(VcpuArea, kick_token),
    offset_of!(VcpuArea, state),
    offset_of!(VcpuArea, wait_since),
    offset_of!(VcpuArea, wait_max),
    offset_of!(VcpuArea, read_wait_since),
    offset_of!(VcpuArea, first_acquisition),
    offset_of!(VcpuArea, finished),
    offset_of!(VcpuArea, calibration),
    offset_of!(VcpuArea, section.count),
    offset_of!(VcpuArea, section.ticks),
    offset_of!(VcpuArea, outside.ticks),
    offset_of!(VcpuArea, counters),
    offset_of!(VcpuArea, hists),
    offset_of!(VcpuArea, begun.at),
    offset_of!(VcpuArea, first_done.at),
    offset_of!(VcpuArea, trace.head),
    offset_of!(VcpuArea, trace.tail),
    offset_of!(VcpuArea, trace.dropped),
    offset_of!(VcpuArea, trace.aside),
    offset_of!(VcpuArea, trace.aside_records),
    offset_of!(VcpuArea, log_len),
    offset_of!(VcpuArea, log),
    offset_of!(VcpuArea, steal.steal_ns),
];

/// A number of bytes as a number.
const fn wide(n: usize) -> u64 {
    n as u64
}

/// What it knows, and keeps out of its own reach.
struct Hostile {
    /// The region's address.
    base: usize,
    layout: Layout,
    choice: Choice,
    /// How often it has acted.
    acts: u64,
    rings: bool,
    reckless: bool,
}

/// Does harm, as often as the parameters say acquisitions are to be made, or until the vCPU is ended.
pub(super) fn run() -> ! {
    let vcpu = Kvm::<false>::vcpu();
    let params: Params = vcpu.header().params;
    let size = |n: u64| usize::try_from(n).unwrap_or(0);
    let layout = Layout::new(size(params.vcpus), size(params.locks))
        .with_tasks(size(params.tasks).max(1))
        .with_trace(size(params.trace_records));
    let mut guest = Hostile {
        base: size(vcpu.header),
        layout,
        choice: Choice::new(&params, vcpu.cpu),
        acts: 0,
        rings: params.seed / 2 % 3 > 0,
        reckless: params.seed / 2 % 3 > 1,
    };
    if params.seed % 2 == 1 {
        begin(vcpu);
    }
    while params.iterations == 0 || guest.acts < params.iterations {
        guest.act();
    }
    exit(EXIT_DONE)
}

/// As other guests begin.
fn begin(vcpu: &VcpuArea) {
    vcpu.state.store(VcpuState::Ready as u32, Relaxed);
    let word = &vcpu.header().control.phase;
    // Acquire pairs with the host's Release store of the phase.
    while word.load(Acquire) < phase::WARM_UP {
        Kvm::<false>::halt_while(word, |now| now < phase::WARM_UP);
        if vcpu.cpu == 0 && word.load(Relaxed) == phase::CALIBRATE {
            vcpu.calibration.store(&Costs {
                unit_ps: 1,
                ..Costs::default()
            });
        }
    }
    vcpu.state.store(VcpuState::Working as u32, Relaxed);
}

impl Hostile {
    fn act(&mut self) {
        self.acts += 1;
        if self.reckless && self.acts % RARE == 0 {
            self.risk();
        } else if self.rings && self.choice.below(64) == 0 {
            self.ring();
        } else {
            self.write();
        }
        // The host's watchdog sees somebody who gets on.
        if self.acts % 64 == 0 {
            let acquisitions = self.vcpu() + offset_of!(VcpuArea, counters);
            self.store(acquisitions, self.acts);
        }
    }

    /// Any number, and rather one that is at an end of some range.
    fn value(&mut self) -> u64 {
        match self.choice.below(10) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => u64::MAX - self.choice.below(4096),
            4 => 1 << self.choice.below(64),
            5 => (1 << self.choice.below(64)) - 1,
            6 => self.choice.below(16),
            7 => self.choice.below(5000),
            _ => self.choice.below(1 << 32) << 32 | self.choice.below(1 << 32),
        }
    }

    /// A number below `n`, which is not 0.
    fn any(&mut self, n: usize) -> usize {
        usize::try_from(self.choice.below(wide(n))).unwrap_or(0)
    }

    /// The area of some vCPU.
    fn vcpu(&mut self) -> usize {
        let vcpu = self.any(self.layout.vcpus());
        self.layout.vcpu(vcpu)
    }

    /// Writes anything anywhere.
    fn write(&mut self) {
        let offset = match self.choice.below(12) {
            0..5 => self.vcpu() + TARGETS[self.any(TARGETS.len())],
            5 => self.vcpu() + 8 * self.any(size_of::<VcpuArea>() / 8),
            6 => {
                self.vcpu()
                    + offset_of!(VcpuArea, hists)
                    + 8 * self.any(HISTS * size_of::<Hist>() / 8)
            }
            7 => {
                self.vcpu() + offset_of!(VcpuArea, begun) + 8 * self.any(2 * size_of::<Mark>() / 8)
            }
            8 => {
                let lock = self.any(self.layout.locks());
                self.layout.lock(lock) + 8 * self.any(size_of::<LockSlot>() / 8)
            }
            9 => {
                let vcpu = self.any(self.layout.vcpus());
                self.layout.node(vcpu, 0) + 8 * self.any(size_of::<NodeWords>() / 2)
            }
            10 => {
                let task = self.any(self.layout.tasks());
                self.layout.task(task) + 8 * self.any(size_of::<TaskArea>() / 8)
            }
            _ => 8 * self.any(self.layout.size() / 8),
        };
        let value = self.value();
        // The parameters, and what the host says, are the host's own words: it is seldom that they are
        // overwritten, as all vCPUs that begin later depend on them.
        if offset < size_of::<Header>() && self.choice.below(100) > 0 {
            return;
        }
        self.store(offset, value);
    }

    /// Stores `value` at `offset` in the region.
    fn store(&self, offset: usize, value: u64) {
        let last = self.layout.size() - 8;
        let address = self.base + offset.min(last);
        // SAFETY: in the region, which is mapped, and in no object of this program: it has none there.
        unsafe { asm!("mov qword ptr [{a}], {v}", a = in(reg) address, v = in(reg) value) };
    }

    /// Rings a doorbell as it may be rung.
    fn ring(&mut self) {
        let vcpu = u32::try_from(self.any(self.layout.vcpus())).unwrap_or(0);
        match self.choice.below(64) {
            // Somebody may kick it again, or the host.
            0 => ring(Doorbell::Halt, vcpu),
            1..8 => ring(Doorbell::Log, vcpu),
            8..16 => ring(Doorbell::Yield, vcpu),
            16..20 => ring(Doorbell::Preempt, 1000 * vcpu),
            _ => ring(Doorbell::Kick(vcpu), 0),
        }
    }

    /// Does what may be the last thing it does.
    fn risk(&mut self) {
        let value = u32::try_from(self.value() >> 32).unwrap_or(0);
        let bell = usize::try_from(Doorbell::BASE).unwrap_or(0);
        let anywhere = bell + self.any(usize::try_from(Doorbell::SIZE).unwrap_or(1));
        match self.choice.below(16) {
            0 => ring(Doorbell::Kick(value % 4096), value),
            1 => ring(Doorbell::Yield, value),
            2 => ring(Doorbell::Barrier, value),
            3 => ring(Doorbell::Exit, value),
            4 => ring(Doorbell::Preempt, u32::MAX),
            act => reckless(act, anywhere),
        }
    }
}

/// What no program may do.
fn reckless(act: u64, anywhere: usize) {
    // SAFETY: none: what is written to is no memory, and the others fault. The host is to survive it, not this
    // vCPU.
    unsafe {
        match act {
            5 => asm!("mov byte ptr [{a}], 7", a = in(reg) anywhere),
            6 => asm!("mov word ptr [{a}], 7", a = in(reg) anywhere),
            7 => asm!("mov dword ptr [{a}], 7", a = in(reg) anywhere),
            8 => asm!("mov qword ptr [{a}], 7", a = in(reg) anywhere),
            9 => asm!("mov {b}, qword ptr [{a}]", a = in(reg) anywhere, b = out(reg) _),
            10 => asm!("lock inc dword ptr [{a}]", a = in(reg) anywhere),
            11 => asm!("ud2"),
            12 => asm!("hlt"),
            13 => asm!("mov {b}, qword ptr [8]", b = out(reg) _),
            14 => asm!("out 0x80, al", in("al") 1u8),
            _ => asm!("jmp {a}", a = in(reg) anywhere),
        }
    }
}
