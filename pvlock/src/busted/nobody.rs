//! `busted`: a lock that excludes nobody.
//!
//! A negative control: whatever checks mutual exclusion must catch this one. Its word is never
//! written.

use crate::atomic::{Atomic, ConstZero};
use crate::trace::{How, TraceEvent};
use crate::{Platform, RawLock};

/// The lock that does not lock.
#[repr(transparent)]
pub struct RawBusted<P: Platform> {
    _word: P::U32,
}

impl<P: Platform> RawLock for RawBusted<P> {
    fn new() -> Self {
        Self {
            _word: P::U32::new(0),
        }
    }

    fn lock(&self) {
        P::trace(self, TraceEvent::Start);
        P::trace(self, TraceEvent::Acquired(How::Fast));
    }

    fn try_lock(&self) -> bool {
        P::trace(self, TraceEvent::Acquired(How::Fast));
        true
    }

    fn unlock(&self) {
        P::trace(self, TraceEvent::Release);
    }

    fn is_locked(&self) -> bool {
        false
    }
}

impl<P: Platform> ConstZero for RawBusted<P>
where
    P::U32: ConstZero,
{
    const ZERO: Self = Self {
        _word: P::U32::ZERO,
    };
}
