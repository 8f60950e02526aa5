//! Tables with a row for each mix of reads and writes and each number of threads, and the loads in it.
//!
//! As text they look as those of the mails of 2014 on optimistic spinning:
//!
//! ```text
//!   lock/r:w ratio # of threads   Load:Execution Time (ms)
//!   -------------- ------------   ------------------------
//!   rwsem/0:1           2         1:339.4, 5:368.9, 10:394.0
//! ```

use super::grid::{Grid, rule, trimmed};

pub(crate) const FIRST: &str = "lock/r:w ratio";
pub(crate) const THREADS: &str = "# of threads";
const FIGURES: &str = "Load:Execution Time (ms)";

/// All of them as plain text, below a header that is there once.
pub(crate) fn text(grids: &[Grid]) -> String {
    let names = grids.iter().flat_map(|grid| &grid.rows);
    let names = names.filter_map(|row| row.name.as_deref());
    let width = names.map(str::len).fold(FIRST.len(), usize::max);
    let header = |of: fn(&str) -> String| {
        format!("  {:<width$} {}   {}", of(FIRST), of(THREADS), of(FIGURES))
    };
    let mut lines = vec![header(str::to_owned), header(rule)];
    for (i, grid) in grids.iter().enumerate() {
        if i > 0 {
            lines.push(String::new());
        }
        if !grid.title.is_empty() {
            lines.push(format!("{}:", grid.title));
        }
        for row in &grid.rows {
            // Figures of five characters stand below each other, as in the mails.
            let cells = grid.columns().zip(&row.cells);
            let cells = cells.map(|(load, cell)| format!("{load}:{cell:<5}"));
            let cells = cells.collect::<Vec<_>>().join(", ");
            let name = row.name.as_deref().unwrap_or_default();
            lines.push(format!(
                "  {name:<width$} {:>6}{:9}{cells}",
                row.threads, ""
            ));
        }
    }
    trimmed(lines)
}

#[cfg(test)]
mod tests {
    use super::super::grid::tests::grid;
    use super::*;

    /// Rows of the mail of 3 August 2014.
    #[test]
    fn text_is_that_of_the_mail() {
        let (mutex, rwsem) = (Some("mutex"), Some("rwsem/1:1"));
        let two = (rwsem, 2, "2915 2621 2764");
        let before = vec![two, (rwsem, 10, "14562 14561 14770")];
        let grids = [
            ("", vec![(mutex, 2, "530.7 406.0 472.7")]),
            ("Before patch", before),
            ("% Change", vec![(rwsem, 2, "-93.5% -91.9% -88.7%")]),
        ]
        .map(|(title, rows)| grid(title, &[("load", "1 5 10")], &rows));
        let mail = "  lock/r:w ratio # of threads   Load:Execution Time (ms)
  -------------- ------------   ------------------------
  mutex               2         1:530.7, 5:406.0, 10:472.7

Before patch:
  rwsem/1:1           2         1:2915 , 5:2621 , 10:2764
  rwsem/1:1          10         1:14562, 5:14561, 10:14770

% Change:
  rwsem/1:1           2         1:-93.5%, 5:-91.9%, 10:-88.7%
";
        assert_eq!(text(&grids), mail);
    }
}
