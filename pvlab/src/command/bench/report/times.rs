//! Tables with a row for each mix of reads and writes and each number of threads, and the loads in it.
//!
//! As text they look as those of the mails of 2014 on optimistic spinning:
//!
//! ```text
//!   lock/r:w ratio # of threads   Load:Execution Time (ms)
//!   -------------- ------------   ------------------------
//!   rwsem/0:1           2         1:339.4, 5:368.9, 10:394.0
//! ```

use crate::report::doc::{Block, Table};

const FIRST: &str = "lock/r:w ratio";
const THREADS: &str = "# of threads";
const FIGURES: &str = "Load:Execution Time (ms)";

/// A row: lock and ratio, number of threads, and pairs of a load and its figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) cells: Vec<(String, String)>,
}

/// A table without its header, which is there once for all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// What it shows; may be empty.
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

/// All of them as plain text.
pub(crate) fn text(sections: &[Section]) -> String {
    let names = sections.iter().flat_map(|s| &s.rows).map(|row| &row.name);
    let width = names.map(String::len).fold(FIRST.len(), usize::max);
    let rule = |text: &str| "-".repeat(text.len());
    let mut lines = vec![
        format!("  {FIRST:<width$} {THREADS}   {FIGURES}"),
        format!(
            "  {:<width$} {}   {}",
            rule(FIRST),
            rule(THREADS),
            rule(FIGURES)
        ),
    ];
    for (i, section) in sections.iter().enumerate() {
        if i > 0 {
            lines.push(String::new());
        }
        if !section.title.is_empty() {
            lines.push(format!("{}:", section.title));
        }
        for row in &section.rows {
            // Figures of five characters stand below each other, as in the mails.
            let cells: Vec<_> = row
                .cells
                .iter()
                .map(|(load, cell)| format!("{load}:{cell:<5}"))
                .collect();
            lines.push(format!(
                "  {:<width$} {:>6}{:9}{}",
                row.name,
                row.threads,
                "",
                cells.join(", ")
            ));
        }
    }
    lines
        .iter()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// A part of a report in Markdown.
pub(crate) fn block(section: &Section, loads: &[String]) -> Block {
    let loads: Vec<_> = loads.iter().map(|load| format!("load {load}")).collect();
    let mut header = vec![FIRST, THREADS];
    header.extend(loads.iter().map(String::as_str));
    let mut table = Table::new(section.title.clone(), &header);
    for row in &section.rows {
        let cells = row.cells.iter().map(|(_, cell)| cell.clone());
        table.row(
            [row.name.clone(), row.threads.to_string()]
                .into_iter()
                .chain(cells)
                .collect(),
        );
    }
    Block::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, threads: usize, cells: &[(&str, &str)]) -> Row {
        let cells = cells.iter();
        Row {
            name: name.to_owned(),
            threads,
            cells: cells.map(|&(l, c)| (l.to_owned(), c.to_owned())).collect(),
        }
    }

    /// Rows of the mail of 3 August 2014.
    #[test]
    fn text_is_that_of_the_mail() {
        let section = |title: &str, rows| Section {
            title: title.to_owned(),
            rows,
        };
        let sections = [
            section(
                "",
                vec![row(
                    "mutex",
                    2,
                    &[("1", "530.7"), ("5", "406.0"), ("10", "472.7")],
                )],
            ),
            section(
                "Before patch",
                vec![
                    row(
                        "rwsem/1:1",
                        2,
                        &[("1", "2915"), ("5", "2621"), ("10", "2764")],
                    ),
                    row(
                        "rwsem/1:1",
                        10,
                        &[("1", "14562"), ("5", "14561"), ("10", "14770")],
                    ),
                ],
            ),
            section(
                "% Change",
                vec![row(
                    "rwsem/1:1",
                    2,
                    &[("1", "-93.5%"), ("5", "-91.9%"), ("10", "-88.7%")],
                )],
            ),
        ];
        let mail = "  lock/r:w ratio # of threads   Load:Execution Time (ms)
  -------------- ------------   ------------------------
  mutex               2         1:530.7, 5:406.0, 10:472.7

Before patch:
  rwsem/1:1           2         1:2915 , 5:2621 , 10:2764
  rwsem/1:1          10         1:14562, 5:14561, 10:14770

% Change:
  rwsem/1:1           2         1:-93.5%, 5:-91.9%, 10:-88.7%
";
        assert_eq!(text(&sections), mail);
    }
}
