//! What stands in the place of ConcurrencyKit's locks where they have not been built in: nobody can make one.

use crate::{Exclude, Share};

/// None of them.
pub struct Absent(std::convert::Infallible);

/// Not built in.
pub type Ticket = Absent;
/// Not built in.
pub type Mcs = Absent;
/// Not built in.
pub type RwLock = Absent;
/// Not built in.
pub type PfLock = Absent;

impl Default for Absent {
    fn default() -> Self {
        unreachable!("refused before: ConcurrencyKit has not been built in")
    }
}

impl Exclude for Absent {
    fn lock(&self) {
        match self.0 {}
    }

    fn try_lock(&self) -> bool {
        match self.0 {}
    }

    fn unlock(&self) {
        match self.0 {}
    }
}

impl Share for Absent {
    fn read(&self) {
        match self.0 {}
    }

    fn try_read(&self) -> bool {
        match self.0 {}
    }

    fn read_unlock(&self) {
        match self.0 {}
    }
}
