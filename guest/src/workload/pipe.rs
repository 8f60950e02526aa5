//! pipe: pairs of tasks send a number to and fro, over a pipe for each direction.
//!
//! After `perf bench sched pipe`. A pipe is a lock, a small ring, and a place for one task that waits
//! until there is something in the ring, or room. A round trip takes the locks four times and blocks
//! both tasks.
//!
//! Every pipe has two lock slots: its lock's, and one in which the rest of it lies.

use super::bench::{self, Bench, Member};
use super::place::{place, placed};
use super::subject::{self, Subject};
use crate::Machine;
use abi::{Counter, LockSlot, Params, VcpuArea};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Lock slots for each task: two for a pipe, of which there are as many as tasks.
pub const SLOTS_PER_TASK: usize = 2;
/// Numbers that fit into a pipe.
const RING: u32 = 8;

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    assert!(
        params.threads.is_multiple_of(2) && params.locks >= params.threads * SLOTS_PER_TASK as u64,
        "tasks come in pairs, with {SLOTS_PER_TASK} lock slots for each"
    );
    bench::run::<M, PipeBench>(vcpu, params);
}

struct PipeBench;

impl<M: Machine> Bench<M> for PipeBench {
    fn construct<S: Subject>(slots: &'static [LockSlot], params: &'static Params) {
        for pair in slots.chunks_exact(SLOTS_PER_TASK) {
            subject::construct::<S>(&pair[0], params.data());
            place(&pair[1], Pipe::default());
        }
    }

    fn work<S: Subject>(mut member: Member, slots: &'static [LockSlot]) {
        let end = |pipe: u64| {
            #[expect(clippy::cast_possible_truncation, reason = "less than 2^20 tasks")]
            let first = pipe as usize * SLOTS_PER_TASK;
            End::<S> {
                lock: &slots[first],
                pipe: placed(&slots[first + 1]),
                kind: PhantomData,
            }
        };
        // Each of a pair writes to the pipe of its own number.
        let (to, from) = (end(member.rank), end(member.rank ^ 1));
        let mut next = 0u32;
        if member.rank.is_multiple_of(2) {
            while member.goes_on::<M>() {
                let (true, Some(back)) = (to.write::<M>(&member, next), from.read::<M>(&member))
                else {
                    break;
                };
                if back != next {
                    member.vcpu.count(Counter::Violations, 1);
                }
                next = next.wrapping_add(1);
                member.think::<M>();
            }
        } else {
            loop {
                member.notice_phase();
                let Some(number) = from.read::<M>(&member) else {
                    break;
                };
                if !to.write::<M>(&member, number) {
                    break;
                }
            }
            member.finish::<M>();
        }
        to.close::<M>(&member);
        from.close::<M>(&member);
    }
}

/// A pipe but for its lock, which guards it. It has one writer and one reader.
#[derive(Debug, Default)]
#[repr(C)]
struct Pipe {
    /// Stays 0, as the first word of a free lock: whoever looks at the locks of a VM passes it by.
    _free: AtomicU64,
    /// 1: nothing will be written or read any more.
    closed: AtomicU32,
    /// Numbers written, modulo 2^32.
    written: AtomicU32,
    /// Numbers read, likewise.
    read: AtomicU32,
    /// The task that waits for something to read, and 1; or 0.
    reader: AtomicU32,
    /// The task that waits for room, and 1; or 0.
    writer: AtomicU32,
    ring: [AtomicU32; RING as usize],
}

/// A pipe as a task uses it.
struct End<S> {
    lock: &'static LockSlot,
    pipe: &'static Pipe,
    kind: PhantomData<S>,
}

/// What an attempt under the lock came to.
enum Attempt<T> {
    /// Done; that task, and 1, is to be woken, or nobody.
    Done(T, u32),
    Wait,
    Closed,
}

impl<S: Subject> End<S> {
    /// Writes a number; false if the pipe is closed.
    fn write<M: Machine>(&self, member: &Member, number: u32) -> bool {
        let pipe = self.pipe;
        let written = self.until_done::<M, ()>(member, &pipe.writer, || {
            let written = pipe.written.load(Relaxed);
            if written.wrapping_sub(pipe.read.load(Relaxed)) == RING {
                return Attempt::Wait;
            }
            pipe.ring[(written % RING) as usize].store(number, Relaxed);
            pipe.written.store(written.wrapping_add(1), Relaxed);
            Attempt::Done((), take(&pipe.reader))
        });
        if written.is_some() {
            member.count(false);
        }
        written.is_some()
    }

    /// Reads a number; `None` if the pipe is closed.
    fn read<M: Machine>(&self, member: &Member) -> Option<u32> {
        let pipe = self.pipe;
        let number = self.until_done::<M, u32>(member, &pipe.reader, || {
            let read = pipe.read.load(Relaxed);
            if read == pipe.written.load(Relaxed) {
                return Attempt::Wait;
            }
            let number = pipe.ring[(read % RING) as usize].load(Relaxed);
            pipe.read.store(read.wrapping_add(1), Relaxed);
            Attempt::Done(number, take(&pipe.writer))
        })?;
        member.count(true);
        Some(number)
    }

    /// Ends whatever the partner waits for, now and later.
    fn close<M: Machine>(&self, member: &Member) {
        let pipe = self.pipe;
        let waiting = member.locked::<M, S, _>(self.lock, false, || {
            pipe.closed.store(1, Relaxed);
            [take(&pipe.reader), take(&pipe.writer)]
        });
        waiting.into_iter().for_each(wake::<M>);
    }

    /// Makes attempts under the lock, and blocks after one that has to wait, noted in `waiting`.
    fn until_done<M: Machine, T>(
        &self,
        member: &Member,
        waiting: &AtomicU32,
        attempt: impl Fn() -> Attempt<T>,
    ) -> Option<T> {
        let me = member.me;
        M::system_call();
        loop {
            let attempted = member.locked::<M, S, _>(self.lock, false, || {
                M::touches(&self.pipe.written, true);
                if self.pipe.closed.load(Relaxed) != 0 {
                    return Attempt::Closed;
                }
                let attempted = attempt();
                let wait = matches!(attempted, Attempt::Wait);
                waiting.store(if wait { me } else { 0 }, Relaxed);
                attempted
            });
            match attempted {
                Attempt::Done(value, waiter) => {
                    wake::<M>(waiter);
                    return Some(value);
                }
                Attempt::Closed => return None,
                // The task that wakes us has taken our number away before.
                Attempt::Wait => M::block_while(waiting, |waiter| waiter == me),
            }
        }
    }
}

/// Takes away the task that waits there: its number plus 1, or 0. The lock is held.
fn take(waiting: &AtomicU32) -> u32 {
    let waiter = waiting.load(Relaxed);
    waiting.store(0, Relaxed);
    waiter
}

fn wake<M: Machine>(waiter: u32) {
    if waiter != 0 {
        M::wake(waiter - 1);
    }
}
