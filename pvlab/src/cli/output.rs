//! Where reports go, see [`crate::publish`].

pub(super) use crate::publish::{OutputError, Target};
