//! The crate `spin`: its test-and-set and its ticket mutex.
#![allow(unsafe_code)] // Released without a guard.

use crate::Exclude;
use guest::Machine;
use spin::mutex::{SpinMutex, TicketMutex};
use spin::relax::RelaxStrategy;
use std::marker::PhantomData;
use std::mem::forget;

/// What `spin` does at each turn of a loop, and the machine's look whether the run is over: with many threads
/// it would last for minutes until each had its turn.
pub struct Turn<M>(PhantomData<fn() -> M>);

impl<M: Machine> RelaxStrategy for Turn<M> {
    #[inline(always)]
    fn relax() {
        M::spins();
        std::hint::spin_loop();
    }
}

/// `spin::mutex::SpinMutex`.
pub struct Tas<M>(SpinMutex<(), Turn<M>>);

impl<M> Default for Tas<M> {
    fn default() -> Self {
        Self(SpinMutex::new(()))
    }
}

impl<M: Machine> Exclude for Tas<M> {
    #[inline(always)]
    fn lock(&self) {
        forget(self.0.lock());
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.0.try_lock().map(forget).is_some()
    }

    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: the caller holds the lock, and its guard is forgotten.
        unsafe { self.0.force_unlock() };
    }
}

/// `spin::mutex::TicketMutex`.
pub struct Ticket<M>(TicketMutex<(), Turn<M>>);

impl<M> Default for Ticket<M> {
    fn default() -> Self {
        Self(TicketMutex::new(()))
    }
}

impl<M: Machine> Exclude for Ticket<M> {
    #[inline(always)]
    fn lock(&self) {
        forget(self.0.lock());
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.0.try_lock().map(forget).is_some()
    }

    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: as of Tas.
        unsafe { self.0.force_unlock() };
    }
}
