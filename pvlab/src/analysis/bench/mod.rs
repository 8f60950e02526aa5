//! The microbenchmarks: what is run, cell by cell of a table, and what came out.

mod plan;
mod result;

pub use plan::{BenchPlan, Cell, Column, Layout, Load, Ratio};
pub use result::{BenchResult, CellResult, Figure, Measure, RunFigures};

#[cfg(test)]
pub(crate) use result::fixture;
