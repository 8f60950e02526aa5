//! An exhaustive checker of lock protocols under weak memory, for three CPUs and the locks' own source.
//!
//! The locks of `pvlock` are generic over a `Platform`. Here is one on which each access is a step that can be
//! taken in as many ways as the memory model allows, [that of C11](c11) or [that of x86-64](tso), and all
//! executions are looked at, once for each state. What a data race is, the model of memory knows; who waits for
//! ever is told by the graph of states; and what locks themselves assert holds or does not.
//!
//! | module      | what it is                                                            |
//! |-------------|-----------------------------------------------------------------------|
//! | [`c11`], [`tso`] | memories                                                         |
//! | [`explore`] | all executions                                                        |
//! | [`model`]   | how to say what each CPU does                                         |
//! | [`locks`], [`cases`] | models of the locks, and which there are                     |
//! | [`points`]  | orderings by their place in the source, which can be weakened one by one |
//!
//! The command `mutants` of this crate weakens each.
//!
//! # What it does not show
//! * Loads that yield what is stored because of them (LB), as C11 and some processors allow for Relaxed ones.
//! * SeqCst accesses, which are taken for AcqRel. (SeqCst fences are what they are.)
//! * More than a model has: three CPUs, one or two sections each, one or two waits in vain in each.

pub mod atomics;
pub mod c11;
pub mod cases;
pub mod explore;
mod layout;
pub mod locks;
mod machine;
mod machinery;
pub mod memory;
pub mod mistakes;
pub mod model;
pub mod mutants;
mod op;
pub mod platform;
pub mod points;
pub mod source;
mod thread;
pub mod tso;
mod view;

pub use explore::{Explored, Failure, Limits};
pub use memory::Model;
pub use model::{Cell, Setting, at};
pub use platform::{Facts, Litmus, Numa, Patience};
pub use thread::THREADS;
