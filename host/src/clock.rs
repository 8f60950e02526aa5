//! The time stamp counter: the one clock of host and guests.

use std::sync::OnceLock;
use std::time::Duration;

/// The host's TSC.
#[inline]
pub fn now() -> u64 {
    #[allow(unsafe_code)]
    // SAFETY: every x86-64 CPU has a TSC, and Linux lets processes read it.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

/// CLOCK_MONOTONIC_RAW, ns: what the kernel stamps context switches with.
pub fn raw_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
    // Since boot: neither negative nor near the end of 64 bits.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The host's TSC and CLOCK_MONOTONIC_RAW at the same moment: of several bracketed readings, the
/// tightest.
pub fn pair() -> (u64, u64) {
    let reading = || {
        let before = now();
        let ns = raw_ns();
        let after = now();
        (after - before, before + (after - before) / 2, ns)
    };
    let tightest = (0..8).map(|_| reading()).min_by_key(|&(width, ..)| width);
    tightest.map_or_else(|| (now(), raw_ns()), |(_, ticks, ns)| (ticks, ns))
}

/// The frequency of the host's TSC in kHz, measured once against CLOCK_MONOTONIC_RAW.
///
/// For machines without KVM, which knows it. Takes 20 ms the first time, and is good to some parts
/// per million: each end is the tightest of several bracketed readings.
pub fn khz() -> u64 {
    static KHZ: OnceLock<u64> = OnceLock::new();
    *KHZ.get_or_init(measure_khz)
}

fn measure_khz() -> u64 {
    let (first_ticks, first_ns) = pair();
    std::thread::sleep(Duration::from_millis(20));
    let (last_ticks, last_ns) = pair();
    let khz =
        u128::from(last_ticks - first_ticks) * 1_000_000 / u128::from(last_ns - first_ns).max(1);
    u64::try_from(khz).unwrap_or(u64::MAX)
}
