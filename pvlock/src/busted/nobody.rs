//! `busted`: a lock that excludes nobody.
//!
//! A negative control: whatever checks mutual exclusion must catch this one. Its word is never
//! written.

use crate::Platform;
use crate::atomic::zeroed;
use crate::traced::{Held, Traced};
use core::convert::Infallible;

/// The lock that does not lock.
#[repr(transparent)]
pub struct RawBusted<P: Platform> {
    _word: P::U32,
}

impl<P: Platform> Traced for RawBusted<P> {
    type Platform = P;
    type Seen = Infallible;

    fn fast(&self) -> Result<(), Infallible> {
        Ok(())
    }

    fn slow(&self, never: Infallible) -> Held {
        match never {}
    }

    fn try_fast(&self) -> bool {
        true
    }

    fn release(&self) {}

    fn in_use(&self) -> bool {
        false
    }
}

zeroed!(RawBusted: _word: U32);
