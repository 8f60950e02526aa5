//! Time and ratios as the machine counts them: whole numbers, so that sums are the same in any order.

/// Picoseconds; as a moment, since the machine was switched on.
pub(crate) type Ps = u64;

/// Picoseconds in a nanosecond.
pub(crate) const NS: Ps = 1000;

/// Nanoseconds in picoseconds.
pub(crate) fn ps(ns: f64) -> Ps {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be from 0 to 10^12"
    )]
    let ps = (ns * 1000.0).round() as Ps;
    ps
}

/// A factor as a multiple of 1/1024.
pub(crate) fn per_1024(factor: f64) -> Ps {
    ps(factor * 1.024)
}

/// Defines a struct of those parameters that are times, in picoseconds.
macro_rules! times {
    ($(#[$doc:meta])* $type:ident { $($name:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $type {
            $(pub(crate) $name: $crate::units::Ps,)+
        }

        impl $type {
            pub(crate) fn new(costs: &$crate::parameters::Costs) -> Self {
                Self { $($name: $crate::units::ps(costs.$name),)+ }
            }
        }
    };
}

pub(crate) use times;
