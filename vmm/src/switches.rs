//! The host scheduler's side: when threads get and lose CPUs.
//!
//! Measured, not inferred: the kernel writes a PERF_RECORD_SWITCH (perf_event_open(2)) for each switch
//! of a thread, into a ring of our own, stamped with CLOCK_MONOTONIC_RAW. The event itself is a dummy
//! that counts nothing.

use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::process::Pid;
use std::io;

// linux/perf_event.h.
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Size of a thread's ring. A record is 32 bytes, and a thread is switched some hundred times a second.
const RING_BYTES: usize = 64 * 1024;

/// A switch of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When, on CLOCK_MONOTONIC_RAW, ns.
    pub raw_ns: u64,
    /// The host CPU.
    pub cpu: u32,
    /// What happened.
    pub kind: SwitchKind,
}

/// What happened to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchKind {
    /// It got the CPU.
    In,
    /// It gave the CPU up, to wait for something.
    Out,
    /// It lost the CPU though it wanted to go on.
    OutPreempted,
}

/// Switches of one thread.
pub struct SwitchRecorder {
    sampler: Sampler,
}

impl std::fmt::Debug for SwitchRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SwitchRecorder")
    }
}

impl SwitchRecorder {
    /// Records switches of the thread `tid` from now on.
    ///
    /// # Errors
    /// Most often a lack of permission: see `/proc/sys/kernel/perf_event_paranoid`.
    pub fn start(tid: Pid) -> io::Result<Self> {
        // The kernel side of the dummy counts nothing either, but asking for it needs a privilege.
        let mut builder = Builder::new(Software::DUMMY);
        builder
            .observe_pid(tid.as_raw_nonzero().get())
            .any_cpu()
            .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CPU)
            .sample_id_all(true)
            .context_switch(true)
            .clockid(Clock::MONOTONIC_RAW);
        let counter = loop {
            match builder.build() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                built => break built?,
            }
        };
        let mut sampler = counter.sampled(RING_BYTES)?;
        sampler.enable()?;
        Ok(Self { sampler })
    }

    /// Takes away the switches recorded, in order. Returns how many records the kernel had no room
    /// for.
    pub fn drain(&mut self, mut each: impl FnMut(Switch)) -> u64 {
        let mut lost = 0;
        while let Some(record) = self.sampler.next_record() {
            let body = record.to_contiguous();
            let word = |at: usize| {
                body.get(at..at + 8)?
                    .try_into()
                    .ok()
                    .map(u64::from_le_bytes)
            };
            match record.ty() {
                // The body is the sample's identity alone: pid and tid, time, CPU.
                PERF_RECORD_SWITCH => {
                    let (Some(raw_ns), Some(cpu)) = (word(8), word(16)) else {
                        continue;
                    };
                    let kind = match record.misc() & (MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT) {
                        0 => SwitchKind::In,
                        MISC_SWITCH_OUT => SwitchKind::Out,
                        _ => SwitchKind::OutPreempted,
                    };
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "the upper half is reserved"
                    )]
                    each(Switch {
                        raw_ns,
                        cpu: cpu as u32,
                        kind,
                    });
                }
                // An id and a count.
                PERF_RECORD_LOST => lost += word(8).unwrap_or(0),
                _ => {}
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_sleep_is_a_switch_out_and_in_again() {
        let mut recorder = match SwitchRecorder::start(rustix::thread::gettid()) {
            Ok(recorder) => recorder,
            Err(e) => {
                eprintln!("SKIPPED: no perf events here: {e}");
                return;
            }
        };
        let before = crate::clock::raw_ns();
        std::thread::sleep(Duration::from_millis(5));
        let after = crate::clock::raw_ns();
        let mut seen = Vec::new();
        assert_eq!(recorder.drain(|switch| seen.push(switch)), 0);
        let out = seen
            .iter()
            .position(|s| s.kind == SwitchKind::Out)
            .expect("it went to sleep");
        let back = seen[out..]
            .iter()
            .find(|s| s.kind == SwitchKind::In)
            .expect("it woke");
        assert!(
            seen.iter().all(|s| (before..=after).contains(&s.raw_ns)),
            "{seen:?}"
        );
        assert!(back.raw_ns - seen[out].raw_ns >= 4_000_000, "{seen:?}");
    }
}
