//! A report as lines and tables, and its two looks: plain text that survives mail, and Markdown.

use super::Format;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle, presets};

/// A part of a report.
#[derive(Clone, Debug)]
pub enum Block {
    /// Lines of text.
    Lines(Vec<String>),
    /// A table.
    Table(Table),
}

/// A table. Cells are to the right, as figures are, except in the columns of `left`.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows; may be empty.
    pub title: String,
    /// Columns that are aligned to the left.
    pub left: Vec<usize>,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows; its first column is to the left.
    pub fn new(title: impl Into<String>, header: &[&str]) -> Self {
        Self {
            title: title.into(),
            left: vec![0],
            header: header.iter().map(|&cell| cell.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row of as many cells as the header has.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Leaves out columns that have the same cell, `filler`, in every row.
    pub fn without_empty_columns(mut self, filler: &str) -> Self {
        for column in (1..self.header.len()).rev() {
            if self.rows.iter().all(|row| row[column] == filler) {
                self.header.remove(column);
                for row in &mut self.rows {
                    row.remove(column);
                }
                self.left.retain(|&left| left != column);
                for left in self.left.iter_mut().filter(|left| **left > column) {
                    *left -= 1;
                }
            }
        }
        self
    }

    fn draw(&self, style: TableStyle) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(style)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.header);
        table.add_rows(&self.rows);
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_cell_alignment(match self.left.contains(&i) {
                true => CellAlignment::Left,
                false => CellAlignment::Right,
            });
        }
        let lines = table.lines();
        lines
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }
}

/// Renders a report as text, or as Markdown if that is the format.
pub fn render(blocks: &[Block], format: Format) -> String {
    let markdown = format == Format::Markdown;
    let parts = blocks.iter().filter_map(|block| match block {
        Block::Lines(lines) if lines.is_empty() => None,
        Block::Lines(lines) => {
            let bullet = if markdown { "* " } else { "" };
            let lines = lines.iter();
            Some(lines.map(|line| format!("{bullet}{line}\n")).collect())
        }
        Block::Table(table) => {
            let title = match (table.title.as_str(), markdown) {
                ("", _) => String::new(),
                (title, true) => format!("**{title}**\n\n"),
                (title, false) => format!("{title}\n"),
            };
            let style = match markdown {
                true => presets::ASCII_MARKDOWN,
                // Without lines between rows.
                false => presets::ASCII_NO_BORDERS.row_separator(LineStyle::none()),
            };
            Some(title + &table.draw(style))
        }
    });
    parts.collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("speeds", &["lock", "rate", "nothing", "note"]);
        table.left.push(3);
        table.row(["tas", "3.05 M/s", "-", "quick"].map(str::to_owned).into());
        table.row(["ticket", "9 /s", "-", "slow"].map(str::to_owned).into());
        table
    }

    #[test]
    fn text_is_plain_and_has_no_trailing_blanks() {
        let blocks = [Block::Lines(vec!["first".into()]), Block::Table(table())];
        let text = render(&blocks, Format::Table);
        assert!(text.starts_with("first\n\nspeeds\n"));
        assert!(text.is_ascii() && text.ends_with('\n'));
        assert!(text.lines().all(|line| line.trim_end() == line));
    }

    #[test]
    fn markdown_has_a_separator_row_and_a_list() {
        let blocks = [Block::Lines(vec!["first".into()]), Block::Table(table())];
        let text = render(&blocks, Format::Markdown);
        assert!(text.starts_with("* first\n\n**speeds**\n\n| lock"));
        let rule = text.lines().nth(5).unwrap();
        assert!(rule.starts_with("|--"), "{rule}");
        assert!(rule.chars().all(|c| "|-:".contains(c)), "{rule}");
    }

    #[test]
    fn columns_without_anything_are_left_out() {
        let slim = table().without_empty_columns("-");
        assert_eq!(slim.header, ["lock", "rate", "note"]);
        assert_eq!(slim.left, [0, 2]);
        assert_eq!(slim.rows[1], ["ticket", "9 /s", "slow"]);
    }
}
