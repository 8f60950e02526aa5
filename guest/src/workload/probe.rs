//! What a halt, a kick, a yield and a heavy barrier cost on this machine.
//!
//! vCPU 0 measures; vCPU 1 halts and is kicked, and spins in the end. The number of trials is [`TRIALS`].
//! Barriers are measured if the lock that the parameters name rests upon them.

use super::{current_phase, start, wait_for_stop};
use crate::machine::VcpuAreaExt as _;
use crate::machine::area;
use crate::{Machine, work};
use abi::{Counter, VcpuArea, phase};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// vCPU 0: ticks in a kick of a vCPU that is not halted.
pub const HIST_KICK_RUNNING: usize = 0;
/// vCPU 0: ticks in a kick of a halted vCPU.
pub const HIST_KICK_HALTED: usize = 1;
/// vCPU 0: ticks in a halt that has a kick waiting for it: out of the guest and in again.
pub const HIST_HALT: usize = 2;
/// vCPU 0: ticks in a directed yield.
pub const HIST_YIELD: usize = 3;
/// vCPU 0: ticks in a barrier on all CPUs while vCPU 1 runs.
pub const HIST_BARRIER: usize = 4;
/// vCPU 1: ticks from the kick to running again.
pub const HIST_KICK_TO_RUN: usize = 0;

/// Trials of each.
pub const TRIALS: u64 = 200;
/// Time for vCPU 1 to be halted for sure, ns.
const SETTLE_NS: u64 = 500_000;
/// The stamp of a kick that is none: vCPU 1 may end.
const NO_MORE: u64 = u64::MAX;

/// Runs the workload on this vCPU. Ends by itself.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea) {
    let khz = vcpu.header().params.tsc_khz;
    let settle = work::units(SETTLE_NS * 1000, work::unit_ps::<M>(khz));
    start::<M>(vcpu);
    match vcpu.cpu {
        0 => kick_others::<M>(vcpu, settle),
        1 => be_kicked::<M>(vcpu),
        _ => wait_for_stop::<M>(vcpu),
    }
}

fn kick_others<M: Machine>(vcpu: &VcpuArea, settle: u64) {
    let timed = |hist: usize, what: &dyn Fn()| {
        let start = M::now();
        what();
        vcpu.hists[hist].record(M::now().saturating_sub(start));
    };
    for _ in 0..TRIALS {
        // A kick of oneself is a kick of a running vCPU, and leaves something for the halt.
        timed(HIST_KICK_RUNNING, &|| M::kick(0));
        timed(HIST_HALT, &|| M::halt_while(&vcpu.state, |_| true));
        vcpu.count(Counter::Acquisitions, 1);
    }
    if vcpu.header().params.vcpus < 2 {
        return;
    }
    let other = area::<M>(1);
    for _ in 0..TRIALS {
        M::work(settle);
        timed(HIST_YIELD, &|| M::yield_to(1));
        let now = M::now();
        // Release pairs with the Acquire in be_kicked().
        vcpu.kicked_at.store(now, Release);
        timed(HIST_KICK_HALTED, &|| M::kick(1));
        vcpu.count(Counter::Acquisitions, 1);
        // Acquire pairs with the Release in be_kicked(). The host may be stopping us.
        M::spin_until(&other.kick_seen, Acquire, |seen| {
            seen == now || current_phase(vcpu) == phase::STOP
        });
    }
    if vcpu.header().params.needs_barriers() {
        for _ in 0..TRIALS {
            timed(HIST_BARRIER, &|| M::heavy_barrier());
        }
    }
    // Nothing but the word itself is read by the one that waits for it.
    vcpu.kicked_at.store(NO_MORE, Relaxed);
}

fn be_kicked<M: Machine>(vcpu: &VcpuArea) {
    let word = &area::<M>(0).kicked_at;
    let mut seen = 0;
    for _ in 0..TRIALS {
        let kicked = loop {
            if current_phase(vcpu) == phase::STOP {
                return;
            }
            M::halt_while(word, |stamp| stamp == seen);
            // Acquire pairs with the Release in kick_others().
            match word.load(Acquire) {
                stamp if stamp == seen => {}
                stamp => break stamp,
            }
        };
        vcpu.hists[HIST_KICK_TO_RUN].record(M::now().saturating_sub(kicked));
        seen = kicked;
        // Release pairs with the Acquire in kick_others().
        vcpu.kick_seen.store(seen, Release);
        vcpu.count(Counter::Acquisitions, 1);
    }
    if vcpu.header().params.needs_barriers() {
        M::spin_until(word, Relaxed, |stamp| {
            stamp == NO_MORE || current_phase(vcpu) == phase::STOP
        });
    }
}
