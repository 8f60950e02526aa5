//! `mutex-3.16`: the mutex of Linux before 4.10, without a hand-over.
//!
//! As [`super::mutex`], but a waiter that is woken and finds the lock taken sleeps again: it neither spins, nor can
//! it demand the lock. Those that spin overtake those that sleep, without a bound.

use super::mutex::{Age, SleepMutex};
use super::within::Within;
use crate::RawQSpinLock;

/// Before Linux 4.10.
pub struct NoHandoff;

impl Age for NoHandoff {
    const HANDOFF: bool = false;
}

/// The mutex without a hand-over, with `W` as wait lock; see the [module](self) documentation.
pub type RawSleepMutex316<P, W = RawQSpinLock<Within<P>>> = SleepMutex<P, NoHandoff, W>;
