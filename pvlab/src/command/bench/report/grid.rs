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

use crate::report::doc::{Block, Table};

/// The first column's header.
const THREADS: &str = "# of Threads";
/// Where the first column begins, where its numbers end, and where figures begin.
const MARGIN: usize = 3;
const NUMBER_END: usize = 9;
const FIGURES: usize = 17;
/// Least width of a column of figures, and the gaps between columns and between groups.
const WIDTH: usize = 6;
const GAP: usize = 2;
const GROUP_GAP: usize = 4;

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    /// What it shows; may be empty.
    pub(crate) title: String,
    /// Titles of the groups, and of the columns in each.
    pub(crate) groups: Vec<(String, Vec<String>)>,
    /// Numbers of threads, and a cell for each column of all groups.
    pub(crate) rows: Vec<(usize, Vec<String>)>,
}

impl Grid {
    /// As plain text.
    pub(crate) fn text(&self) -> String {
        let width = self.width();
        // Groups may be narrower than their titles.
        let spans: Vec<usize> = self
            .groups
            .iter()
            .map(|(title, columns)| {
                let columns = columns.len() * (width + GAP) - GAP;
                columns.max(title.len())
            })
            .collect();

        let mut lines = Vec::new();
        if !self.title.is_empty() {
            lines.push(self.title.clone());
        }
        lines.push(" ".repeat(FIGURES) + &self.titles(&spans));
        let first = |text: &str| format!("{:MARGIN$}{text:<1$}", "", FIGURES - MARGIN);
        // To the left of a column of the mails' width, which is to the right of a wider one.
        let header = |column: &str| format!("{:>width$}", format!("{column:<WIDTH$}"));
        let columns = || self.groups.iter().flat_map(|(_, columns)| columns);
        lines.push(first(THREADS) + &self.joined(&spans, columns().map(|c| header(c)).collect()));
        let rule = |text: &str| "-".repeat(text.len());
        let rules = columns().map(|c| header(&rule(c))).collect();
        lines.push(first(&rule(THREADS)) + &self.joined(&spans, rules));
        for (threads, cells) in &self.rows {
            let number = format!("{threads:>NUMBER_END$}{:1$}", "", FIGURES - NUMBER_END);
            let cells = cells.iter().map(|cell| format!("{cell:>width$}"));
            lines.push(number + &self.joined(&spans, cells.collect()));
        }
        lines
            .iter()
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }

    /// The widest cell's width.
    fn width(&self) -> usize {
        let cells = self.rows.iter().flat_map(|(_, cells)| cells);
        let columns = self.groups.iter().flat_map(|(_, columns)| columns);
        cells
            .chain(columns)
            .map(String::len)
            .fold(WIDTH, usize::max)
    }

    /// The groups' titles, each in the middle of its span.
    fn titles(&self, spans: &[usize]) -> String {
        let titles = self.groups.iter().zip(spans);
        let titles = titles.map(|((title, _), &span)| {
            let before = (span - title.len()) / 2;
            format!("{:before$}{title:<1$}", "", span - before)
        });
        titles.collect::<Vec<_>>().join(&" ".repeat(GROUP_GAP))
    }

    /// Cells of equal width, group by group.
    fn joined(&self, spans: &[usize], cells: Vec<String>) -> String {
        let mut cells = cells.into_iter();
        let groups = self.groups.iter().zip(spans);
        let groups = groups.map(|((_, columns), &span)| {
            let group: Vec<_> = cells.by_ref().take(columns.len()).collect();
            format!("{:<span$}", group.join(&" ".repeat(GAP)))
        });
        groups.collect::<Vec<_>>().join(&" ".repeat(GROUP_GAP))
    }

    /// As a part of a report in Markdown.
    pub(crate) fn block(&self) -> Block {
        let columns = self.groups.iter().flat_map(|(group, columns)| {
            columns
                .iter()
                .map(move |column| format!("{group} {column}"))
        });
        let header: Vec<String> = std::iter::once("# of threads".to_owned())
            .chain(columns)
            .collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = Table::new(self.title.clone(), &header);
        table.left.clear();
        for (threads, cells) in &self.rows {
            let cells = cells.iter().cloned();
            table.row(std::iter::once(threads.to_string()).chain(cells).collect());
        }
        Block::Table(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    /// The first rows of the table in the mail of 10 February 2019.
    #[test]
    fn text_is_that_of_the_mail() {
        let columns = strings(&["wlock", "rlock", "mixed"]);
        let grid = Grid {
            title: String::new(),
            groups: vec![
                ("Before Patch".to_owned(), columns.clone()),
                ("After Patch".to_owned(), columns),
            ],
            rows: vec![
                (
                    1,
                    strings(&["27,373", "29,409", "28,170", "28,773", "30,164", "29,276"]),
                ),
                (
                    64,
                    strings(&["5,980", "15,478", "61", "5,668", "15,509", "58"]),
                ),
            ],
        };
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
        let grid = Grid {
            title: "kops/s".to_owned(),
            groups: vec![
                ("pv-qspinlock".to_owned(), strings(&["wlock"])),
                ("tas".to_owned(), strings(&["wlock"])),
            ],
            rows: vec![(1024, strings(&["1,027,373", "-"]))],
        };
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
