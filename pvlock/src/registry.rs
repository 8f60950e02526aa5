//! Every lock by name: the one list from which tools, guests and tests pick.

// The locks' files. They are modules of the crate.
#[path = "busted/mod.rs"]
pub mod busted;
#[path = "mcs.rs"]
pub mod mcs;
#[path = "ppc/mod.rs"]
pub mod ppc;
#[path = "qrwlock.rs"]
pub mod qrwlock;
#[path = "qrwlock_2014.rs"]
pub mod qrwlock_2014;
#[path = "qspinlock/mod.rs"]
pub mod qspinlock;
#[path = "rwlock.rs"]
pub mod rwlock;
#[path = "sleep/mod.rs"]
pub mod sleep;
#[path = "tas.rs"]
pub mod tas;
#[path = "ticket.rs"]
pub mod ticket;
#[path = "virt_tas.rs"]
pub mod virt_tas;

use crate::raw::WriteSide;
pub use crate::traits::Traits;
use crate::traits::{ASYM, CONTROL, FAIR, PV, SLEEPS, UNFAIR};
use crate::{Downgrade, KillableRw, Operations, Platform, RawLock, RawRwLock};
use core::fmt;

/// What to do with a lock type once it is known: see [`LockKind::visit`].
pub trait LockVisitor<P: Platform> {
    /// What the visit yields.
    type Output;

    /// Called with the lock's type.
    fn visit<L: RawLock>(self) -> Self::Output;
}

/// What to do with a reader-writer lock's type once it is known: see [`LockKind::visit_rw`].
pub trait RwLockVisitor<P: Platform> {
    /// What the visit yields.
    type Output;

    /// Called with the lock's type.
    fn visit<L: RawRwLock>(self) -> Self::Output;
}

/// What to do with the type of a reader-writer semaphore once it is known: see
/// [`LockKind::visit_sem`].
pub trait SemVisitor<P: Platform> {
    /// What the visit yields.
    type Output;

    /// Called with the lock's type.
    fn visit<L: Downgrade + KillableRw>(self) -> Self::Output;
}

/// The state of a lock, to be shown to a person.
pub struct WordState {
    state: u64,
    describe: Describe,
}

/// Writes out the first 64 bits of a lock.
pub(crate) type Describe = fn(u64, &mut fmt::Formatter<'_>) -> fmt::Result;

impl fmt::Display for WordState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.describe)(self.state, f)
    }
}

macro_rules! locks {
    (@exclusive spin $lock:ty, $visitor:ident) => { $visitor.visit::<$lock>() };
    (@exclusive rw $lock:ty, $visitor:ident) => { $visitor.visit::<WriteSide<$lock>>() };
    (@operations spin $lock:ty) => { Operations::of::<$lock>() };
    (@operations rw $lock:ty) => { Operations::of::<WriteSide<$lock>>() };
    (@shared spin $lock:ty, $visitor:ident) => { None };
    (@shared rw $lock:ty, $visitor:ident) => { Some($visitor.visit::<$lock>()) };
    (@exclusive sem $lock:ty, $visitor:ident) => { $visitor.visit::<WriteSide<$lock>>() };
    (@operations sem $lock:ty) => { Operations::of::<WriteSide<$lock>>() };
    (@shared sem $lock:ty, $visitor:ident) => { Some($visitor.visit::<$lock>()) };
    (@is_rw sem) => { true };
    (@sem sem $lock:ty, $visitor:ident) => { Some($visitor.visit::<$lock>()) };
    (@sem $side:ident $lock:ty, $visitor:ident) => { None };
    (@is_sem sem) => { true };
    (@is_sem $side:ident) => { false };
    (@is_rw spin) => { false };
    (@is_rw rw) => { true };
    ($($(#[doc = $doc:literal])+ $variant:ident = $id:literal, $name:literal, $side:ident $promise:ident $lock:ty {
        $describe:expr, $traits:expr, $waiters:literal, $delayed:literal
    })+) => {
        /// A lock algorithm.
        ///
        /// | lock | waiters | a descheduled vCPU delays |
        /// |------|---------|---------------------------|
        $(#[doc = concat!("| [`", $name, "`](Self::", stringify!($variant), ") | ", $waiters, " | ", $delayed, " |")])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum LockKind {
            $($(#[doc = $doc])+ $variant = $id,)+
        }

        impl LockKind {
            /// Every lock.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The lock's name, as users write it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The lock in one sentence.
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc,)+).trim_ascii(),)+ }
            }

            /// What the lock can do and needs.
            pub const fn traits(self) -> Traits {
                match self { $(Self::$variant => $traits,)+ }
            }

            /// Calls `visitor` with the type that implements this lock on platform `P`; for a
            /// reader-writer lock, with its write side.
            pub fn visit<P: Platform, V: LockVisitor<P>>(self, visitor: V) -> V::Output {
                match self { $(Self::$variant => locks!(@exclusive $side $lock, visitor),)+ }
            }

            /// This lock's operations on platform `P`; a reader-writer lock's are those of its write
            /// side.
            pub const fn operations<P: Platform>(self) -> Operations {
                match self { $(Self::$variant => locks!(@operations $side $lock),)+ }
            }

            /// Calls `visitor` with the type that implements this reader-writer lock on platform
            /// `P`; `None` for a lock that has no read side.
            pub fn visit_rw<P: Platform, V: RwLockVisitor<P>>(self, visitor: V) -> Option<V::Output> {
                match self { $(Self::$variant => locks!(@shared $side $lock, visitor),)+ }
            }

            /// Calls `visitor` with the type that implements this lock on platform `P`; `None` for a
            /// lock that cannot be downgraded, and waited for in a way that ends when the task does.
            pub fn visit_sem<P: Platform, V: SemVisitor<P>>(self, visitor: V) -> Option<V::Output> {
                match self { $(Self::$variant => locks!(@sem $side $lock, visitor),)+ }
            }

            /// Whether the lock is [`Downgrade`] and [`KillableRw`].
            pub const fn is_sem(self) -> bool {
                match self { $(Self::$variant => locks!(@is_sem $side),)+ }
            }

            /// Whether the lock has a read side.
            pub const fn is_rw(self) -> bool {
                match self { $(Self::$variant => locks!(@is_rw $side),)+ }
            }

            /// The first 64 bits of such a lock (little-endian), decoded.
            pub fn describe(self, state: u64) -> WordState {
                let describe: Describe = match self { $(Self::$variant => $describe,)+ };
                WordState { state, describe }
            }
        }
    };
}

fn no_word(_: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("has no state")
}

/// The first 32-bit word of a lock's first 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "the point")]
pub(crate) const fn low(state: u64) -> u32 {
    state as u32
}

/// The second 32-bit word.
pub(crate) const fn high(state: u64) -> u32 {
    low(state >> 32)
}

/// The list of all locks: `each_lock!(m)` is `m! { lines }`, with for each lock
///
/// ```text
/// /// summary
/// Variant = number, "name", side promise Type<P> { describe, TRAITS, "waiters", "what is delayed" }
/// ```
///
/// * The side is `spin` for a [`RawLock`], `rw` for a [`RawRwLock`], `sem` for one that is [`Downgrade`] and
///   [`KillableRw`].
/// * The promise is `guards` if data may rest on the lock: it is a raw mutex or reader-writer lock of
///   `lock_api`, and a `spin` one is a [`WaitLock`](crate::WaitLock), whose promises it must keep. It is `over` if
///   all types that differ in their wait lock keep it, which are listed with `lock_api`'s traits; and
///   `broken` for a negative control.
/// * The texts go into the table of [`LockKind`].
#[macro_export]
#[doc(hidden)]
macro_rules! each_lock {
    ($then:ident) => {
        $then! {
            /// test-and-test-and-set: unfair, immune to preempted waiters
            Tas = 1, "tas", spin guards $crate::tas::RawTas<P> {
                $crate::tas::describe, UNFAIR,
                "any of them, by chance", "all, if it is the holder"
            }
            /// first come, first served by number
            Ticket = 2, "ticket", spin guards $crate::ticket::RawTicket<P> {
                $crate::ticket::describe, FAIR,
                "in order of arrival", "all, also if it is the next waiter"
            }
            /// queued spinlock: pending bit, then per-CPU MCS queue
            QSpinLock = 3, "qspinlock", spin guards $crate::qspinlock::RawQSpinLock<P> {
                $crate::qspinlock::describe, Traits { queues: true, ..FAIR },
                "in order, each spinning on its own line", "all, also if it is the next waiter"
            }
            /// paravirtual queued spinlock: waiters halt and are kicked, free locks can be stolen
            PvQSpinLock = 4, "pv-qspinlock", spin guards $crate::qspinlock::RawPvQSpinLock<P> {
                $crate::qspinlock::describe, PV,
                "halt after a while; a free lock may be taken past a halted head", "all, if it is the holder; meanwhile they leave the CPU to it"
            }
            /// pv-qspinlock whose thieves queue when their time is up
            PvBound = 10, "pv-qspinlock+bound", spin guards $crate::RawQSpinLock<P, { $crate::form::PV | $crate::form::BOUND }> {
                $crate::qspinlock::describe, PV,
                "as `pv-qspinlock`, stealing for a while only", "as `pv-qspinlock`"
            }
            /// pv-qspinlock whose head halts again when it was kicked in vain
            PvRehash = 11, "pv-qspinlock+rehash", spin guards $crate::RawQSpinLock<P, { $crate::form::PV | $crate::form::REHASH }> {
                $crate::qspinlock::describe, PV,
                "as `pv-qspinlock`, the head again and again", "as `pv-qspinlock`"
            }
            /// pv-qspinlock that is released by a plain store: a head that halts pays for it with a barrier on all CPUs
            PvAsym = 12, "pv-qspinlock+asym", spin guards $crate::RawQSpinLock<P, { $crate::form::PV | $crate::form::ASYM }> {
                $crate::qspinlock::describe, ASYM,
                "as `pv-qspinlock`", "as `pv-qspinlock`"
            }
            /// pv-qspinlock with +bound and +rehash
            PvBoundRehash = 13, "pv-qspinlock+bound+rehash", spin guards $crate::RawQSpinLock<P, { $crate::form::PV | $crate::form::BOUND | $crate::form::REHASH }> {
                $crate::qspinlock::describe, PV,
                "halt after a while, the head again and again; stealing for a while only", "as `pv-qspinlock`"
            }
            /// pv-qspinlock with +bound and +asym
            PvBoundAsym = 14, "pv-qspinlock+bound+asym", spin guards $crate::RawQSpinLock<P, { $crate::form::PV | $crate::form::BOUND | $crate::form::ASYM }> {
                $crate::qspinlock::describe, ASYM,
                "as `pv-qspinlock`, stealing for a while only", "as `pv-qspinlock`"
            }
            /// pv-qspinlock with +rehash and +asym
            PvRehashAsym = 15, "pv-qspinlock+rehash+asym", spin guards $crate::RawQSpinLock<P, { $crate::form::PV | $crate::form::REHASH | $crate::form::ASYM }> {
                $crate::qspinlock::describe, ASYM,
                "as `pv-qspinlock`, the head again and again", "as `pv-qspinlock`"
            }
            /// pv-qspinlock with +bound, +rehash and +asym: no wait without a bound, no atomic in a release
            PvNext = 16, "pv-next", spin guards $crate::RawPvNext<P> {
                $crate::qspinlock::describe, ASYM,
                "halt after a while, the head again and again; stealing for a while only", "as `pv-qspinlock`"
            }
            /// pv-qspinlock as it was until Linux 4.15: one try to steal, then it queues
            PvQSpinLock48 = 17, "pv-qspinlock-4.8", spin guards $crate::RawQSpinLock<P, { $crate::form::PV | $crate::form::ONE_TRY }> {
                $crate::qspinlock::describe, PV,
                "halt after a while; a free lock may be taken past a halted head, at the first try", "as `pv-qspinlock`"
            }
            /// pv-qspinlock-4.8 whose release is a full barrier, as it was before cmpxchg_release
            PvQSpinLock48Full = 18, "pv-qspinlock-4.8+full-barrier", spin guards $crate::RawQSpinLock<P, { $crate::form::PV | $crate::form::ONE_TRY | $crate::form::FULL }> {
                $crate::qspinlock::describe, PV,
                "as `pv-qspinlock-4.8`", "as `pv-qspinlock`"
            }
            /// test-and-set on the qspinlock's word: what a guest without halting waiters gets
            VirtTas = 5, "virt-tas", spin guards $crate::virt_tas::RawVirtTas<P> {
                $crate::qspinlock::describe, UNFAIR,
                "any of them, by chance", "all, if it is the holder"
            }
            /// queue of Mellor-Crummey and Scott: strictly in order, each waiter on its own line
            Mcs = 6, "mcs", spin guards $crate::mcs::RawMcs<P> {
                $crate::mcs::describe, Traits { queues: true, ..FAIR },
                "in order, each spinning on its own line", "all, also if it is the next waiter"
            }
            /// powerpc: test-and-set with the holder's name, to which waiters yield
            PpcSpinLock = 7, "ppc-spinlock", spin guards $crate::ppc::simple::RawPpcSpinLock<P> {
                $crate::ppc::simple::describe, Traits { yields: true, ..UNFAIR },
                "yield to the holder", "all, if it is the holder; meanwhile they give their time to it"
            }
            /// powerpc: queued, may be stolen for a while, waiters yield to the holder and down the queue
            PpcQSpinLock = 8, "ppc-qspinlock", spin guards $crate::ppc::queued::RawPpcQSpinLock<P> {
                $crate::ppc::queued::describe, Traits { queues: true, yields: true, steals: true, ..UNFAIR },
                "yield to the holder; may steal at first, then in order", "all, if it is the holder or the next waiter; they give their time to it"
            }
            /// NUMA-aware queued spinlock: waiters of the holder's node go first, for a millisecond at most
            Cna = 9, "cna", spin guards $crate::qspinlock::cna::RawCna<P> {
                $crate::qspinlock::describe, Traits { queues: true, ..UNFAIR },
                "as `qspinlock`, those of the holder's NUMA node first", "all, also if it is the next waiter"
            }
            /// unfair reader-writer lock: readers come as they like, writers may starve
            RwLock = 20, "rwlock", rw guards $crate::rwlock::RawUnfairRwLock<P> {
                $crate::rwlock::describe, UNFAIR,
                "readers as they come, a writer when there is none", "all, if it holds the lock"
            }
            /// queued reader-writer lock: waiters take turns by a qspinlock
            QRwLock = 21, "qrwlock", rw over $crate::qrwlock::RawQRwLock<P, $crate::RawQSpinLock<P>> {
                |state, f| $crate::qrwlock::describe(state, $crate::qspinlock::describe, f), Traits { queues: true, ..FAIR },
                "take turns by a wait lock; readers share", "as its wait lock; readers and writers in turn"
            }
            /// qrwlock whose waiters take turns by a ticket lock
            QRwLockTicket = 22, "qrwlock+ticket", rw over $crate::qrwlock::RawQRwLock<P, $crate::RawTicket<P>> {
                |state, f| $crate::qrwlock::describe(state, $crate::ticket::describe, f), FAIR,
                "as `qrwlock`", "as `qrwlock`"
            }
            /// qrwlock whose waiters take turns by a pv-qspinlock, and halt
            QRwLockPvQSpinLock = 23, "qrwlock+pv-qspinlock", rw over $crate::qrwlock::RawQRwLock<P, $crate::RawPvQSpinLock<P>> {
                |state, f| $crate::qrwlock::describe(state, $crate::qspinlock::describe, f), Traits { queues: true, halts: true, ..UNFAIR },
                "as `qrwlock`", "as `qrwlock`"
            }
            /// qrwlock as it was until 2017: a writer cannot announce itself to a writer, and may starve
            QRwLock2014 = 24, "qrwlock-2014", rw over $crate::qrwlock_2014::RawQRwLock2014<P, $crate::RawQSpinLock<P>> {
                |state, f| $crate::qrwlock_2014::describe(state, $crate::qspinlock::describe, f), Traits { queues: true, ..UNFAIR },
                "as `qrwlock`, but a writer starves while others come fast enough", "as its wait lock"
            }
            /// qrwlock-2014 whose waiters take turns by a ticket lock
            QRwLock2014Ticket = 25, "qrwlock-2014+ticket", rw over $crate::qrwlock_2014::RawQRwLock2014<P, $crate::RawTicket<P>> {
                |state, f| $crate::qrwlock_2014::describe(state, $crate::ticket::describe, f), UNFAIR,
                "as `qrwlock-2014`", "as `qrwlock-2014`"
            }
            /// qrwlock-2014 whose waiters take turns by a pv-qspinlock, and halt
            QRwLock2014PvQSpinLock = 26, "qrwlock-2014+pv-qspinlock", rw over $crate::qrwlock_2014::RawQRwLock2014<P, $crate::RawPvQSpinLock<P>> {
                |state, f| $crate::qrwlock_2014::describe(state, $crate::qspinlock::describe, f), Traits { queues: true, halts: true, ..UNFAIR },
                "as `qrwlock-2014`", "as `qrwlock-2014`"
            }
            /// qrwlock whose waiters take turns by a pv-next, and halt
            QRwLockPvNext = 27, "qrwlock+pv-next", rw over $crate::qrwlock::RawQRwLock<P, $crate::RawPvNext<P>> {
                |state, f| $crate::qrwlock::describe(state, $crate::qspinlock::describe, f), Traits { queues: true, halts: true, barriers: true, ..UNFAIR },
                "as `qrwlock`", "as `qrwlock`"
            }
            /// sleeping lock with one owner: optimistic spinning, then a queue with hand-over
            Mutex = 40, "mutex", spin over $crate::sleep::mutex::RawSleepMutex<P> {
                $crate::sleep::mutex::describe, SLEEPS,
                "spin while the owner runs, then sleep; the first one is handed the lock if it is overtaken", "all that spin, if it is the holder, unless that can be known"
            }
            /// mutex as it was until Linux 4.9: one that is woken in vain sleeps again
            Mutex316 = 48, "mutex-3.16", spin over $crate::RawSleepMutex316<P> {
                $crate::sleep::mutex_316::describe, SLEEPS,
                "as `mutex`, without a hand-over: one that sleeps may be overtaken for ever", "as `mutex`"
            }
            /// sleeping lock that is handed to the first waiter at each release, as FUTEX_LOCK_PI's
            PiMutex = 49, "pi-mutex", spin over $crate::RawPiMutex<P> {
                $crate::sleep::mutex::describe, SLEEPS,
                "sleep, and are handed the lock in order", "all, also if it is the next waiter"
            }
            /// sleeping reader-writer lock of Linux 5.3 and later: hand-over, stealing readers, bounded spinning
            Rwsem = 41, "rwsem", sem over $crate::sleep::rwsem::RawRwSem<P> {
                $crate::sleep::rwsem::describe, SLEEPS,
                "the same; readers share, and are woken together", "as `mutex`"
            }
            /// sleeping reader-writer lock of Linux 4.x: no hand-over, readers never spin
            RwsemXadd = 42, "rwsem-xadd", rw over $crate::sleep::rwsem_xadd::RawRwSemXadd<P, false, false, false, false> {
                $crate::sleep::rwsem_xadd::describe, SLEEPS,
                "its predecessor: one that is woken may be overtaken for ever", "as `mutex`"
            }
            /// the same with the x86 assembly's fast path: a writer steals past waiters
            RwsemXaddAsm = 43, "rwsem-xadd+asm", rw over $crate::sleep::rwsem_xadd::RawRwSemXadd<P, true, false, false, false> {
                $crate::sleep::rwsem_xadd::describe, SLEEPS,
                "as `rwsem-xadd`", "as `mutex`"
            }
            /// that of Linux 3.16: no spinning unless a writer is known to own it
            RwsemXadd2014 = 44, "rwsem-xadd-2014", rw over $crate::sleep::rwsem_xadd::RawRwSemXadd<P, true, true, false, false> {
                $crate::sleep::rwsem_xadd::describe, SLEEPS,
                "as `rwsem-xadd`", "as `mutex`"
            }
            /// the same; readers spin, and all spin on readers
            RwsemXadd2014Rspin = 45, "rwsem-xadd-2014+rspin", rw over $crate::sleep::rwsem_xadd::RawRwSemXadd<P, true, true, true, false> {
                $crate::sleep::rwsem_xadd::describe, SLEEPS,
                "as `rwsem-xadd`", "as `mutex`"
            }
            /// that of 3.16; a writer that is woken spins before it sleeps again
            RwsemXadd2014Respin = 46, "rwsem-xadd-2014+respin", rw over $crate::sleep::rwsem_xadd::RawRwSemXadd<P, true, true, false, true> {
                $crate::sleep::rwsem_xadd::describe, SLEEPS,
                "as `rwsem-xadd`", "as `mutex`"
            }
            /// that of 3.16 with both
            RwsemXadd2014Both = 47, "rwsem-xadd-2014+rspin+respin", rw over $crate::sleep::rwsem_xadd::RawRwSemXadd<P, true, true, true, true> {
                $crate::sleep::rwsem_xadd::describe, SLEEPS,
                "as `rwsem-xadd`", "as `mutex`"
            }
            /// negative control: excludes nobody, must be caught
            Busted = 1000, "busted", spin broken $crate::busted::RawBusted<P> {
                no_word, CONTROL,
                "see [`busted`](crate::busted)", ""
            }
            /// negative control: now and then forgets to kick a halted waiter, all hang, must be caught
            BustedWakeup = 1001, "busted-wakeup", spin broken $crate::busted::RawBustedWakeup<P> {
                $crate::busted::describe_wakeup, Traits { fair: true, halts: true, queues: true, ..CONTROL },
                "see [`busted`](crate::busted)", ""
            }
            /// negative control: now and then lets a reader in beside a writer, must be caught
            BustedRw = 1002, "busted-rw", rw broken $crate::busted::RawBustedRw<P> {
                $crate::rwlock::describe, CONTROL,
                "see [`busted`](crate::busted)", ""
            }
            /// negative control: starves CPU 0 while any other wants the lock, must be reported
            BustedStarve = 1003, "busted-starve", spin broken $crate::busted::RawBustedStarve<P> {
                $crate::tas::describe, CONTROL,
                "see [`busted`](crate::busted)", ""
            }
        }
    };
}

crate::each_lock!(locks);

impl LockKind {
    /// The lock of that name. `qrwlock+qspinlock` and `qrwlock-2014+qspinlock` say in full what their
    /// short names mean.
    pub fn from_name(name: &str) -> Option<Self> {
        let short = name.strip_suffix("+qspinlock");
        let name = short.filter(|rw| rw.starts_with("qrwlock")).unwrap_or(name);
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The number that stands for the lock between host and guest.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The lock of that number.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.id() == id)
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
