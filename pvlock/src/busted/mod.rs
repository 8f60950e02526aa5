//! Locks that are broken on purpose, each in its own way: negative controls. Whatever checks locks must
//! catch them.
//!
//! | lock            | what is wrong                                       | what must catch it               |
//! |-----------------|-----------------------------------------------------|----------------------------------|
//! | `busted`        | it excludes nobody                                  | a check of exclusion              |
//! | `busted-wakeup` | one kick in 64 is forgotten                         | a watchdog: all halt for ever     |
//! | `busted-rw`     | one in 16 of the reads that find a writer does not wait | a check of readers against writers |
//! | `busted-starve` | CPU 0 gets it only if no other CPU wants it         | a look at who gets it; excludes as it should |

mod nobody;
mod rw;
mod starve;
mod wakeup;

pub use nobody::RawBusted;
pub use rw::RawBustedRw;
pub use starve::RawBustedStarve;
pub use wakeup::RawBustedWakeup;
pub(crate) use wakeup::describe as describe_wakeup;
