//! Synthetic timelines with answers worked out by hand, and random ones against a reference.

mod parts;
mod script;
