//! ConcurrencyKit's locks, through the functions of `ck.c`. All bytes 0 is a free lock of each kind
//! (`CK_SPINLOCK_TICKET_INITIALIZER`, `CK_SPINLOCK_MCS_INITIALIZER`, `CK_RWLOCK_INITIALIZER`,
//! `CK_PFLOCK_INITIALIZER`).
#![allow(unsafe_code)] // Calls of C functions.

use crate::{Exclude, Share};
use std::cell::{Cell, UnsafeCell};
use std::ptr;

/// The bytes of a lock.
type Bytes = UnsafeCell<[u64; 2]>;
type Pointer = *mut [u64; 2];

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)+) => {
        unsafe extern "C" {
            $(fn $name($($argument: $type),*) $(-> $result)?;)+
        }
    };
}

functions! {
    pvlab_ck_ticket_lock(lock: Pointer);
    pvlab_ck_ticket_trylock(lock: Pointer) -> bool;
    pvlab_ck_ticket_unlock(lock: Pointer);
    pvlab_ck_mcs_lock(lock: Pointer, node: *mut Node);
    pvlab_ck_mcs_trylock(lock: Pointer, node: *mut Node) -> bool;
    pvlab_ck_mcs_unlock(lock: Pointer, node: *mut Node);
    pvlab_ck_rwlock_write_lock(lock: Pointer);
    pvlab_ck_rwlock_write_trylock(lock: Pointer) -> bool;
    pvlab_ck_rwlock_write_unlock(lock: Pointer);
    pvlab_ck_rwlock_read_lock(lock: Pointer);
    pvlab_ck_rwlock_read_trylock(lock: Pointer) -> bool;
    pvlab_ck_rwlock_read_unlock(lock: Pointer);
    pvlab_ck_pflock_write_lock(lock: Pointer);
    pvlab_ck_pflock_write_unlock(lock: Pointer);
    pvlab_ck_pflock_read_lock(lock: Pointer);
    pvlab_ck_pflock_read_unlock(lock: Pointer);
}

macro_rules! peer {
    ($(#[$doc:meta])+ $name:ident { $lock:ident, $try_lock:expr, $unlock:ident }) => {
        $(#[$doc])+
        #[derive(Default)]
        pub struct $name(Bytes);

        // SAFETY: made to be used by all threads.
        unsafe impl Sync for $name {}

        impl Exclude for $name {
            #[inline(always)]
            fn lock(&self) {
                // SAFETY: a lock of that kind, which all bytes 0 were at the beginning.
                unsafe { $lock(self.0.get()) };
            }

            #[inline(always)]
            fn try_lock(&self) -> bool {
                let try_lock: unsafe fn(Pointer) -> bool = $try_lock;
                // SAFETY: as above.
                unsafe { try_lock(self.0.get()) }
            }

            #[inline(always)]
            fn unlock(&self) {
                // SAFETY: as above, and the caller holds it.
                unsafe { $unlock(self.0.get()) };
            }
        }
    };
    ($(#[$doc:meta])+ $name:ident { $lock:ident, $try_lock:expr, $unlock:ident }
     read { $read:ident, $try_read:expr, $read_unlock:ident }) => {
        peer! { $(#[$doc])+ $name { $lock, $try_lock, $unlock } }

        impl Share for $name {
            #[inline(always)]
            fn read(&self) {
                // SAFETY: as of lock().
                unsafe { $read(self.0.get()) };
            }

            #[inline(always)]
            fn try_read(&self) -> bool {
                let try_read: unsafe fn(Pointer) -> bool = $try_read;
                // SAFETY: as of lock().
                unsafe { try_read(self.0.get()) }
            }

            #[inline(always)]
            fn read_unlock(&self) {
                // SAFETY: as of lock(), and the caller reads.
                unsafe { $read_unlock(self.0.get()) };
            }
        }
    };
}

peer! {
    /// `ck_spinlock_ticket`.
    Ticket { pvlab_ck_ticket_lock, |lock| unsafe { pvlab_ck_ticket_trylock(lock) }, pvlab_ck_ticket_unlock }
}

peer! {
    /// `ck_rwlock`: prefers writers.
    RwLock { pvlab_ck_rwlock_write_lock, |lock| unsafe { pvlab_ck_rwlock_write_trylock(lock) }, pvlab_ck_rwlock_write_unlock }
    read { pvlab_ck_rwlock_read_lock, |lock| unsafe { pvlab_ck_rwlock_read_trylock(lock) }, pvlab_ck_rwlock_read_unlock }
}

/// ck_pflock has no try: who only tries never gets it.
const fn never(_: Pointer) -> bool {
    false
}

peer! {
    /// `ck_pflock`: phase-fair.
    PfLock { pvlab_ck_pflock_write_lock, never, pvlab_ck_pflock_write_unlock }
    read { pvlab_ck_pflock_read_lock, never, pvlab_ck_pflock_read_unlock }
}

/// A waiter's place in a queue.
#[repr(C, align(64))]
struct Node(UnsafeCell<[u64; 8]>);

/// How many MCS locks a thread may hold, or wait for, at once.
const NODES: usize = 16;

thread_local! {
    static NODES_OF_THREAD: [Node; NODES] = const { [const { Node(UnsafeCell::new([0; 8])) }; NODES] };
    /// A bit for each that is in use.
    static IN_USE: Cell<u32> = const { Cell::new(0) };
}

fn take_node() -> (usize, *mut Node) {
    let used = IN_USE.get();
    let at = used.trailing_ones() as usize;
    assert!(at < NODES, "a thread holds too many MCS locks");
    IN_USE.set(used | 1 << at);
    (
        at,
        NODES_OF_THREAD.with(|nodes| ptr::from_ref(&nodes[at]).cast_mut()),
    )
}

fn give_back(at: usize) {
    IN_USE.set(IN_USE.get() & !(1 << at));
}

/// `ck_spinlock_mcs`; whoever holds it keeps the number of the node by which it does in the lock.
#[derive(Default)]
pub struct Mcs {
    queue: Bytes,
    by: Cell<usize>,
}

// SAFETY: the queue is made to be used by all threads, and only the one that holds the lock touches `by`.
unsafe impl Sync for Mcs {}

impl Exclude for Mcs {
    #[inline(always)]
    fn lock(&self) {
        let (at, node) = take_node();
        // SAFETY: a queue of that kind, and a node of this thread's that nobody uses.
        unsafe { pvlab_ck_mcs_lock(self.queue.get(), node) };
        self.by.set(at);
    }

    fn try_lock(&self) -> bool {
        let (at, node) = take_node();
        // SAFETY: as above.
        let locked = unsafe { pvlab_ck_mcs_trylock(self.queue.get(), node) };
        if locked {
            self.by.set(at);
        } else {
            give_back(at);
        }
        locked
    }

    #[inline(always)]
    fn unlock(&self) {
        let at = self.by.get();
        let node = NODES_OF_THREAD.with(|nodes| ptr::from_ref(&nodes[at]).cast_mut());
        // SAFETY: as above; the caller holds the lock by that node.
        unsafe { pvlab_ck_mcs_unlock(self.queue.get(), node) };
        give_back(at);
    }
}
