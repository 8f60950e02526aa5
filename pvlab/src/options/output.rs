//! Where reports go, see [`crate::publish`].

pub(crate) use crate::publish::{OutputError, Target};
