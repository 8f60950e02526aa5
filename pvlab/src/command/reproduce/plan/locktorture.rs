//! locktorture with 56 writers and 224 readers.

use super::super::trial::{REPORTS, Reading, Trial};
use super::{THUNDERX2, ms};
use crate::scenario::{Length, Mix, Placement, Torture};
use pvlock::LockKind;
use std::time::Duration;

const WRITERS: usize = 56;
const READERS: usize = 224;
/// What stands for the time between two reports.
pub(crate) const SLICE: Duration = ms(30);

/// Table 001. The queued lock's waiters took turns by a ticket lock then.
pub(super) fn trials() -> Vec<Trial> {
    let trial = |(block, lock): (&'static str, LockKind)| {
        let torture = Torture {
            long_hold: ms(100),
            nested_locks: 0,
            acquire_limit: Duration::ZERO,
            stutter: Duration::ZERO,
            shuffle_interval: Duration::ZERO,
            writer_fifo: false,
            irqs_off: true,
        };
        #[expect(clippy::cast_possible_truncation, reason = "three")]
        // Half a slice more: in the end all that wait get their turn, which is not to count.
        let length = Length::Duration(SLICE * REPORTS as u32 + SLICE / 2);
        let mut scenario = THUNDERX2.scenario(lock, WRITERS + READERS, length);
        scenario.placement = Placement::Floating;
        scenario.workload.mix = Mix::Readers(READERS);
        scenario.torture = Some(torture);
        scenario.latency = true;
        Trial {
            name: format!("locktorture {block}"),
            scenario,
            reading: Reading::Reports {
                block,
                torture,
                slice: SLICE,
            },
        }
    };
    [
        ("old", LockKind::RwLock),
        ("queued", LockKind::QRwLockTicket),
        ("queued 2014", LockKind::QRwLock2014Ticket),
        ("queued, qspinlock", LockKind::QRwLock),
    ]
    .map(trial)
    .into()
}
