//! Atomics as a [`Platform`](crate::Platform) supplies them.
//!
//! The locks never name `core::sync::atomic` types. Real machines plug those in; a model checker or
//! a simulator plugs in its own, which see every access.
#![allow(unsafe_code)] // That they are atomics is for the implementer to promise.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Something a CPU can wait on: a location with an atomic load.
pub trait Watch: Send + Sync + 'static {
    /// What a load yields.
    type Value: Copy;

    /// Atomically loads the current value.
    fn load(&self, order: Ordering) -> Self::Value;
}

/// An atomic integer of one access size.
///
/// The methods have the meaning of their namesakes in [`core::sync::atomic`].
///
/// # Safety
/// What a lock guards is only as safe as its words are atomic.
/// * A value holds exactly one `T`. All methods, and [`Watch::load`], do to it what their namesakes do, as
///   one step, with the ordering given or a stronger one. They may do other things besides, but none that
///   changes the value.
/// * If the type is [`ConstZero`], [`ZERO`](ConstZero::ZERO) is `new(0)`, and so is memory of zeros.
///
/// ```compile_fail,E0200
/// # use pvlock::atomic::{Atomic, Watch};
/// struct Mine;
/// impl Atomic<u32> for Mine {}
/// ```
pub unsafe trait Atomic<T: Copy>: Watch<Value = T> {
    /// A new atomic holding `value`.
    fn new(value: T) -> Self;
    /// Atomic store.
    fn store(&self, value: T, order: Ordering);
    /// Atomic exchange; returns the previous value.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Strong compare-and-exchange.
    ///
    /// # Errors
    /// The value found, if it was not `current`.
    fn compare_exchange(
        &self,
        current: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T>;
    /// Wrapping add; returns the previous value.
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    /// Bitwise or; returns the previous value.
    fn fetch_or(&self, value: T, order: Ordering) -> T;
    /// Bitwise and; returns the previous value.
    fn fetch_and(&self, value: T, order: Ordering) -> T;
}

/// A type with an all-zero value that can be named in a constant (an unlocked lock word, an empty node).
pub trait ConstZero: Sized {
    /// The zero value.
    // A constant with interior mutability is the point: each use is a fresh value, as with
    // `lock_api::RawMutex::INIT`.
    const ZERO: Self;
}

impl<T> ConstZero for PhantomData<T> {
    const ZERO: Self = Self;
}

/// A struct of a platform's atomics that is all zeros at first: made so at run time on any platform, and in a
/// constant where the atomics can. It may have other such parts, and a lock `wait` of any type.
macro_rules! zeroed {
    (
        $name:ident $([const $flag:ident: $of:ty])? $([type $variant:ident: $trait:path])? $([over $wait:ident])?:
        $($field:ident: $atomic:ident),+ $(; $($part:ident: $type:ty),+)? $(,)?
    ) => {
        impl<P: $crate::Platform $(, const $flag: $of)? $(, $variant: $trait)? $(, $wait: $crate::RawLock)?> Default
            for $name<P $(, $flag)? $(, $variant)? $(, $wait)?>
        {
            fn default() -> Self {
                #[allow(unused_imports)] // The atomics may be of either kind.
                use $crate::{atomic::Atomic as _, word::LockWord as _};
                Self {
                    $($field: P::$atomic::new(0),)+
                    $($($part: <$type>::default(),)+)?
                    $(wait: $wait::new(),)?
                }
            }
        }

        impl<P: $crate::Platform $(, const $flag: $of)? $(, $variant: $trait)? $(, $wait: $crate::atomic::ConstZero)?>
            $crate::atomic::ConstZero for $name<P $(, $flag)? $(, $variant)? $(, $wait)?>
        where
            $(P::$atomic: $crate::atomic::ConstZero,)+
            $($($type: $crate::atomic::ConstZero,)+)?
        {
            const ZERO: Self = Self {
                $($field: $crate::atomic::ConstZero::ZERO,)+
                $($($part: $crate::atomic::ConstZero::ZERO,)+)?
                $(wait: $wait::ZERO,)?
            };
        }
    };
}
pub(crate) use zeroed;

macro_rules! core_atomic {
    ($atomic:ty, $value:ty) => {
        impl Watch for $atomic {
            type Value = $value;
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                <$atomic>::load(self, order)
            }
        }

        // SAFETY: they are the namesakes.
        unsafe impl Atomic<$value> for $atomic {
            #[inline(always)]
            fn new(value: $value) -> Self {
                <$atomic>::new(value)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                <$atomic>::store(self, value, order);
            }
            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::swap(self, value, order)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                <$atomic>::compare_exchange(self, current, new, success, failure)
            }
            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_add(self, value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_or(self, value, order)
            }
            #[inline(always)]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_and(self, value, order)
            }
        }

        impl ConstZero for $atomic {
            const ZERO: Self = <$atomic>::new(0);
        }
    };
}

core_atomic!(AtomicU32, u32);
core_atomic!(AtomicU64, u64);
