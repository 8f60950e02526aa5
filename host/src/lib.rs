//! What all machines have in common on their host, whether their vCPUs are in KVM guests, threads or
//! simulated: the memory they share with them ([`Region`]), what is noted of them, and their threads.
//!
//! Linux on x86-64 only.

pub mod clock;
mod error;
pub mod limits;
pub mod membarrier;
mod notes;
mod notice;
pub mod region;
pub mod sched;
pub mod stops;
pub mod switches;
pub mod thread;
pub mod yielding;

pub use error::HostError;
pub use limits::remedy;
pub use notes::{HostNote, Notes};
pub use notice::Notice;
pub use region::Region;
