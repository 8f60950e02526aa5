//! Tables with a row for each number of threads and groups of columns, such as one for each lock.
//!
//! As text they look as those of the mails that microbenchmarks of kernel locks are reported in:
//!
//! ```text
//!                       Before Patch              After Patch
//!    # of Threads  wlock   rlock   mixed     wlock   rlock   mixed
//!    ------------  -----   -----   -----     -----   -----   -----
//!         1        27,373  29,409  28,170    28,773  30,164  29,276
//! ```

use super::times;
use crate::report::{Block, Columns};

const THREADS: &str = "# of Threads";
/// Where the first column begins, where its numbers end, and where figures begin.
const MARGIN: usize = 3;
const NUMBER_END: usize = 9;
const FIGURES: usize = 17;
/// Least width of a column of figures, and the gaps between columns and between groups.
const WIDTH: usize = 6;
const GAP: &str = "  ";
const GROUP_GAP: &str = "    ";

#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    /// What it shows; may be empty.
    pub(crate) title: String,
    /// Titles of the groups, and of the columns in each.
    pub(crate) groups: Vec<(String, Vec<String>)>,
    pub(crate) rows: Vec<Row>,
}

/// A row, with a cell for each column of all groups.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Lock and ratio, where the groups do not tell them.
    pub(crate) name: Option<String>,
    pub(crate) threads: usize,
    pub(crate) cells: Vec<String>,
}

impl Grid {
    /// The columns of all groups.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &String> {
        self.groups.iter().flat_map(|(_, columns)| columns)
    }

    pub(crate) fn text(&self) -> String {
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        let widths = cells.chain(self.columns()).map(String::len);
        let width = widths.fold(WIDTH, usize::max);
        // Groups may be narrower than their titles.
        let span = |title: &str, columns: usize| {
            (columns * (width + GAP.len()) - GAP.len()).max(title.len())
        };
        let titles = self.groups.iter().map(|(title, columns)| {
            let span = span(title, columns.len());
            format!("{title:^span$}")
        });
        let titles = titles.collect::<Vec<_>>().join(GROUP_GAP);
        // Cells of equal width, group by group, behind the first column.
        let line = |first: String, cells: &mut dyn Iterator<Item = String>| {
            let groups = self.groups.iter().map(|(title, columns)| {
                let group = cells
                    .take(columns.len())
                    .map(|cell| format!("{cell:>width$}"));
                let group = group.collect::<Vec<_>>().join(GAP);
                format!("{group:<0$}", span(title, columns.len()))
            });
            format!("{first:<FIGURES$}") + &groups.collect::<Vec<_>>().join(GROUP_GAP)
        };
        // To the left of a column of the mails' width, which is to the right of a wider one.
        let header = |of: fn(&str) -> String| {
            let mut columns = self
                .columns()
                .map(|column| format!("{:<WIDTH$}", of(column)));
            line(format!("{:MARGIN$}{}", "", of(THREADS)), &mut columns)
        };
        let mut lines = Vec::new();
        if !self.title.is_empty() {
            lines.push(self.title.clone());
        }
        lines.push(format!("{:FIGURES$}{titles}", ""));
        lines.extend([header(str::to_owned), header(rule)]);
        lines.extend(self.rows.iter().map(|row| {
            let first = format!("{:>NUMBER_END$}", row.threads);
            line(first, &mut row.cells.iter().cloned())
        }));
        trimmed(lines)
    }

    pub(crate) fn block(&self) -> Block {
        let mut columns = Columns::new();
        let named = self.rows.iter().any(|row| row.name.is_some());
        if named {
            let name = |row: &&Row| row.name.clone().unwrap_or_default();
            columns = columns.cell(times::FIRST, name);
        }
        columns = columns.cell(times::THREADS, |row| row.threads.to_string());
        let titles = (self.groups.iter())
            .flat_map(|(group, columns)| columns.iter().map(move |name| format!("{group} {name}")));
        for (number, title) in titles.enumerate() {
            columns = columns.cell(title, move |row| row.cells[number].clone());
        }
        let mut table = columns.table(self.title.clone(), &self.rows);
        // The first column is to the left if it is of names.
        table.left.retain(|_| named);
        Block::Table(table)
    }
}

/// A line below a header.
pub(crate) fn rule(header: &str) -> String {
    "-".repeat(header.len())
}

/// The lines without blanks at their ends.
pub(crate) fn trimmed(lines: Vec<String>) -> String {
    let lines = lines.iter().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table of words.
    pub(crate) fn grid(
        title: &str,
        groups: &[(&str, &str)],
        rows: &[(Option<&str>, usize, &str)],
    ) -> Grid {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let groups = groups.iter();
        let rows = rows.iter().map(|&(name, threads, cells)| Row {
            name: name.map(str::to_owned),
            threads,
            cells: words(cells),
        });
        Grid {
            title: title.to_owned(),
            groups: groups
                .map(|&(title, columns)| (title.to_owned(), words(columns)))
                .collect(),
            rows: rows.collect(),
        }
    }

    /// The first rows of the table in the mail of 10 February 2019.
    #[test]
    fn text_is_that_of_the_mail() {
        let columns = "wlock rlock mixed";
        let grid = grid(
            "",
            &[("Before Patch", columns), ("After Patch", columns)],
            &[
                (None, 1, "27,373 29,409 28,170 28,773 30,164 29,276"),
                (None, 64, "5,980 15,478 61 5,668 15,509 58"),
            ],
        );
        let mail = "                      Before Patch              After Patch
   # of Threads  wlock   rlock   mixed     wlock   rlock   mixed
   ------------  -----   -----   -----     -----   -----   -----
        1        27,373  29,409  28,170    28,773  30,164  29,276
       64         5,980  15,478      61     5,668  15,509      58
";
        assert_eq!(grid.text(), mail);
    }

    #[test]
    fn wide_cells_and_titles_make_room() {
        let groups = [("pv-qspinlock", "wlock"), ("tas", "wlock")];
        let grid = grid("kops/s", &groups, &[(None, 1024, "1,027,373 -")]);
        let text = "\
kops/s
                 pv-qspinlock       tas
   # of Threads     wlock           wlock
   ------------     -----           -----
     1024        1,027,373               -
";
        assert_eq!(grid.text(), text);
        let Block::Table(_) = grid.block() else {
            panic!("a table");
        };
    }
}
