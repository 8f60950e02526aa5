//! A report as lines and tables, and its two looks: plain text that survives mail, and Markdown.

use super::Format;
use comfy_table::{CellAlignment, ContentArrangement, presets};

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

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Leaves out columns that have the same cell, `filler`, in every row.
    pub fn without_empty_columns(mut self, filler: &str) -> Self {
        for column in (1..self.header.len()).rev() {
            if self
                .rows
                .iter()
                .all(|row| row.get(column).is_none_or(|cell| cell == filler))
            {
                self.header.remove(column);
                for row in &mut self.rows {
                    if column < row.len() {
                        row.remove(column);
                    }
                }
                self.left.retain(|&left| left != column);
                for left in self.left.iter_mut().filter(|left| **left > column) {
                    *left -= 1;
                }
            }
        }
        self
    }

    fn draw(&self, style: comfy_table::TableStyle) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(style)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.header);
        table.add_rows(&self.rows);
        for (i, column) in table.column_iter_mut().enumerate() {
            let left = self.left.contains(&i);
            column.set_cell_alignment(if left {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            });
        }
        table
            .lines()
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }
}

/// Renders a report as text, or as Markdown if that is the format.
pub fn render(blocks: &[Block], format: Format) -> String {
    let markdown = format == Format::Markdown;
    let parts = blocks.iter().filter_map(|block| match block {
        Block::Lines(lines) if lines.is_empty() => None,
        Block::Lines(lines) if markdown => {
            Some(lines.iter().map(|line| format!("* {line}\n")).collect())
        }
        Block::Lines(lines) => Some(lines.iter().map(|line| format!("{line}\n")).collect()),
        Block::Table(table) => {
            let title = match (table.title.as_str(), markdown) {
                ("", _) => String::new(),
                (title, true) => format!("**{title}**\n\n"),
                (title, false) => format!("{title}\n"),
            };
            let style = if markdown {
                presets::ASCII_MARKDOWN
            } else {
                presets::ASCII_NO_BORDERS
            };
            Some(title + &table.draw(if markdown { style } else { plain(style) }))
        }
    });
    parts.collect::<Vec<String>>().join("\n")
}

/// Without lines between rows.
fn plain(style: comfy_table::TableStyle) -> comfy_table::TableStyle {
    style.row_separator(comfy_table::LineStyle::none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("speeds", &["lock", "rate", "nothing", "note"]);
        table.left.push(3);
        table.row(vec![
            "tas".into(),
            "3.05 M/s".into(),
            "-".into(),
            "quick".into(),
        ]);
        table.row(vec![
            "ticket".into(),
            "9 /s".into(),
            "-".into(),
            "slow".into(),
        ]);
        table
    }

    #[test]
    fn text_is_plain_and_has_no_trailing_blanks() {
        let text = render(
            &[Block::Lines(vec!["first".into()]), Block::Table(table())],
            Format::Table,
        );
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
        assert!(
            rule.starts_with("|--") && rule.chars().all(|c| "|-:".contains(c)),
            "{rule}"
        );
    }

    #[test]
    fn columns_without_anything_are_left_out() {
        let slim = table().without_empty_columns("-");
        assert_eq!(slim.header, ["lock", "rate", "note"]);
        assert_eq!(slim.left, [0, 2]);
        assert_eq!(slim.rows[1], ["ticket", "9 /s", "slow"]);
    }
}
