//! The host scheduler's side: when threads get and lose CPUs.
//!
//! Measured, not inferred: the kernel writes a PERF_RECORD_SWITCH (perf_event_open(2)) for each switch
//! of a thread, into a ring of our own, stamped with CLOCK_MONOTONIC_RAW. The event itself is a dummy
//! that counts nothing.

use abi::{Switch, SwitchKind};
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::process::Pid;
use std::io;

// linux/perf_event.h. The crate's own parser does not know PERF_RECORD_SWITCH, only that of whole CPUs.
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Size of a thread's ring. A record is 32 bytes, and a thread is switched some hundred times a second.
const RING_BYTES: usize = 64 * 1024;

/// Why switches cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The kernel refuses to record.
    #[error("{}", refused(.0))]
    Open(#[source] io::Error),
    /// There is no room for the records.
    #[error("{}", no_room(.0))]
    Map(#[source] io::Error),
}

/// From this value of the sysctl on, as some distributions have it, nobody without privilege may use perf events
/// at all; up to 2 everybody may ask for the switches of own threads.
const PARANOID_REFUSES: i32 = 3;

/// What the kernel was asked for is allowed on all hosts but those that forbid perf events.
fn refused(error: &io::Error) -> String {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.map(|text| text.trim().to_owned());
    why_refused(error, paranoid.ok().as_deref())
}

fn why_refused(error: &io::Error, paranoid: Option<&str>) -> String {
    let level: Option<i32> = paranoid.and_then(|text| text.parse().ok());
    match (error.raw_os_error(), level) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level >= PARANOID_REFUSES => format!(
            "{error}: the sysctl kernel.perf_event_paranoid is {level}; 2 would do, or CAP_PERFMON"
        ),
        (Some(libc::EACCES | libc::EPERM), _) => format!(
            "{error}: a seccomp filter or security module denies perf_event_open to this process{}; \
             in a container, allow that call (such as by a seccomp profile of your own)",
            paranoid.map_or_else(String::new, |level| format!(
                ", for kernel.perf_event_paranoid, which is {level}, would allow it"
            ))
        ),
        (Some(libc::ENOSYS), _) => format!(
            "{error}: perf_event_open is missing in this kernel (CONFIG_PERF_EVENTS), or a seccomp \
             filter hides it"
        ),
        _ => crate::limits::explain(error),
    }
}

fn no_room(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EAGAIN) => format!(
            "{error}: no more memory may be locked for the kernel's records; raise 'ulimit -l', or the \
             sysctl kernel.perf_event_mlock_kb, or take fewer vCPUs"
        ),
        _ => crate::limits::explain(error),
    }
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
    /// Most often a lack of permission; the error tells which, and the remedy.
    pub fn start(tid: Pid) -> Result<Self, SwitchError> {
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
                built => break built.map_err(SwitchError::Open)?,
            }
        };
        let mut sampler = counter.sampled(RING_BYTES).map_err(SwitchError::Map)?;
        sampler.enable().map_err(SwitchError::Open)?;
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
                    let (Some(at_ns), Some(cpu)) = (word(8), word(16)) else {
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
                        at_ns,
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
    fn the_cause_of_a_refusal_is_named_rightly() {
        let of = |errno, paranoid| why_refused(&io::Error::from_raw_os_error(errno), paranoid);
        let denied = of(libc::EACCES, Some("3"));
        assert!(denied.contains("perf_event_paranoid is 3"), "{denied}");
        for (errno, paranoid) in [(libc::EPERM, Some("2")), (libc::EACCES, None)] {
            let text = of(errno, paranoid);
            assert!(text.contains("seccomp"), "{text}");
        }
        let missing = of(libc::ENOSYS, Some("2"));
        assert!(missing.contains("CONFIG_PERF_EVENTS"), "{missing}");
        let files = of(libc::EMFILE, Some("2"));
        assert!(files.contains("ulimit -n"), "{files}");
        let locked = no_room(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(locked.contains("ulimit -l"), "{locked}");
    }

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
            seen.iter().all(|s| (before..=after).contains(&s.at_ns)),
            "{seen:?}"
        );
        assert!(back.at_ns - seen[out].at_ns >= 4_000_000, "{seen:?}");
    }
}
