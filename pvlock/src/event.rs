//! Lock events: every counter, defined once for all machines.

macro_rules! lock_events {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Something a lock did that is worth counting.
        ///
        /// Names follow Linux's `lock_event_counts` where an event of the same meaning exists there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum LockEvent {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl LockEvent {
            /// Every event, in the order of their discriminants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// How many events there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The event's stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What is counted, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc,)+).trim_ascii(),)+ }
            }
        }
    };
}

lock_events! {
    /// Acquisitions that found the lock taken and had to wait or retry, for any lock.
    Contended = "lock_contended",
    /// Acquisitions through the pending bit of a native qspinlock.
    LockPending = "lock_pending",
    /// Acquisitions through the queue: native counts on queueing, paravirtual on becoming head.
    LockSlowpath = "lock_slowpath",
    /// Waiters that used the CPU's second queue node.
    LockUseNode2 = "lock_use_node2",
    /// Waiters that used the CPU's third queue node.
    LockUseNode3 = "lock_use_node3",
    /// Waiters that used the CPU's fourth queue node.
    LockUseNode4 = "lock_use_node4",
    /// Waiters that found all four nodes of their CPU in use and fell back to retrying.
    LockNoNode = "lock_no_node",
    /// Waiters that a queue head moved to the secondary queue, being of another NUMA node (cna).
    CnaMoved = "cna_moved",
    /// Secondary queues that had existed for too long and were put before the primary one (cna).
    CnaFlushed = "cna_flushed",
    /// Times a queue head of ppc-qspinlock had waited for long and stopped thieves.
    PpcMustQueue = "ppc_must_queue",
    /// Times a waiter found the holder of a ppc-qspinlock descheduled and marked the lock.
    PpcSleepy = "ppc_sleepy",
    /// Acquisitions of a ppc-qspinlock past its queue.
    PpcSteal = "ppc_steal",
    /// Offers of a waiter's time to the holder of a powerpc lock.
    PpcYieldOwner = "ppc_yield_owner",
    /// Offers of a waiter's time to the one before it in the queue of a ppc-qspinlock.
    PpcYieldPrev = "ppc_yield_prev",
    /// Hash slots probed to insert sleeping queue heads (average: per pv_kick_unlock).
    PvHashHops = "pv_hash_hops",
    /// Releases that had to kick a sleeping queue head.
    PvKickUnlock = "pv_kick_unlock",
    /// Wake-ups from a halt that saw a kick's time stamp.
    PvKickWake = "pv_kick_wake",
    /// Ticks spent inside kicks (average: per pv_kick_unlock).
    PvLatencyKick = "pv_latency_kick",
    /// Ticks from kick to running again (average: per pv_kick_wake).
    PvLatencyWake = "pv_latency_wake",
    /// Acquisitions that stole the lock past the queue.
    PvLockStealing = "pv_lock_stealing",
    /// Queued waiters that woke without having become queue head.
    PvSpuriousWakeup = "pv_spurious_wakeup",
    /// Queue heads that halted again for the same acquisition.
    PvWaitAgain = "pv_wait_again",
    /// Queued waiters that halted early because the one before them was not running.
    PvWaitEarly = "pv_wait_early",
    /// Halts of queue heads.
    PvWaitHead = "pv_wait_head",
    /// Halts of queued waiters.
    PvWaitNode = "pv_wait_node",
    /// Mutex acquisitions by optimistic spinning.
    MutexOptLock = "mutex_opt_lock",
    /// Optimistic spins on a mutex that were given up.
    MutexOptFail = "mutex_opt_fail",
    /// Times that a mutex waiter slept.
    MutexSleep = "mutex_sleep",
    /// Mutex waiters woken by a release.
    MutexWake = "mutex_wake",
    /// Times that the first waiter of a mutex demanded to be given it.
    MutexHandoff = "mutex_handoff",
    /// Times that an rwsem reader slept.
    RwsemSleepReader = "rwsem_sleep_reader",
    /// Times that an rwsem writer slept.
    RwsemSleepWriter = "rwsem_sleep_writer",
    /// Waiting rwsem readers that were given the lock.
    RwsemWakeReader = "rwsem_wake_reader",
    /// Waiting rwsem writers that were woken to take the lock.
    RwsemWakeWriter = "rwsem_wake_writer",
    /// Rwsem acquisitions by writers that spun.
    RwsemOptLock = "rwsem_opt_lock",
    /// Rwsem acquisitions by readers that spun.
    RwsemOptRlock = "rwsem_opt_rlock",
    /// Optimistic spins on an rwsem that were given up.
    RwsemOptFail = "rwsem_opt_fail",
    /// Spins on an rwsem's readers that took too long, so that it was marked as not worth it.
    RwsemOptNospin = "rwsem_opt_nospin",
    /// Rwsem acquisitions by readers that waited in the list.
    RwsemRlock = "rwsem_rlock",
    /// Rwsem acquisitions by readers past the list.
    RwsemRlockSteal = "rwsem_rlock_steal",
    /// Rwsem acquisitions by readers that were about to queue and found that they need not.
    RwsemRlockFast = "rwsem_rlock_fast",
    /// Rwsem readers that were killed while they waited.
    RwsemRlockFail = "rwsem_rlock_fail",
    /// Times that an rwsem reader had waited for so long that others may not pass it any more.
    RwsemRlockHandoff = "rwsem_rlock_handoff",
    /// Rwsem acquisitions by writers that waited in the list.
    RwsemWlock = "rwsem_wlock",
    /// Rwsem writers that were killed while they waited.
    RwsemWlockFail = "rwsem_wlock_fail",
    /// Times that an rwsem writer had waited for so long that others may not pass the first any more.
    RwsemWlockHandoff = "rwsem_wlock_handoff",
}
