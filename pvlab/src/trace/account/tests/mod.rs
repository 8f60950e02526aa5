//! Synthetic timelines with answers worked out by hand, and random ones against a reference.

mod edges;
mod halts;
mod parts;
mod random;
mod reference;
mod script;
mod stories;
