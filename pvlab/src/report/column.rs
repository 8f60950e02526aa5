//! Columns: what one is called and what it tells, for programs and for people, in one place.
//!
//! Programs read names and plain values (CSV, and JSON where no struct has the same fields already);
//! people read titles and rounded cells with their units (tables, Markdown). Names tell their units.

use super::doc::Table;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The columns of rows that are made of `R`. One that is for programs and for people has its value
/// first, and then its cell.
pub(crate) struct Columns<'a, R> {
    values: Vec<(String, Of<'a, R, Value>)>,
    cells: Vec<(String, Of<'a, R, String>)>,
    /// Cells that are aligned to the left.
    left: Vec<usize>,
}

type Of<'a, R, T> = Box<dyn Fn(&R) -> T + 'a>;

impl<'a, R: 'a> Columns<'a, R> {
    pub(crate) fn new() -> Self {
        Self {
            values: Vec::new(),
            cells: Vec::new(),
            left: Vec::new(),
        }
    }

    /// For programs; there may be nothing to tell (`None`, or a number that is not finite).
    pub(crate) fn value<V: Into<Value>>(
        mut self,
        name: impl Into<String>,
        value: impl Fn(&R) -> V + 'a,
    ) -> Self {
        let value = Box::new(move |row: &R| value(row).into());
        self.values.push((name.into(), value));
        self
    }

    /// For people.
    pub(crate) fn cell(
        mut self,
        title: impl Into<String>,
        cell: impl Fn(&R) -> String + 'a,
    ) -> Self {
        self.cells.push((title.into(), Box::new(cell)));
        self
    }

    /// For both, what needs no rounding.
    pub(crate) fn text(
        self,
        name: &str,
        title: &str,
        of: impl Fn(&R) -> String + Copy + 'a,
    ) -> Self {
        self.value(name, of).cell(title, of)
    }

    /// The last cell is of words, so it is aligned to the left.
    pub(crate) fn left(mut self) -> Self {
        self.left.extend(self.cells.len().checked_sub(1));
        self
    }

    pub(crate) fn and(mut self, others: Self) -> Self {
        let before = self.cells.len();
        self.values.extend(others.values);
        self.cells.extend(others.cells);
        self.left
            .extend(others.left.iter().map(|left| before + left));
        self
    }

    /// The columns of something that belongs to each row.
    pub(crate) fn include<S: 'a>(
        mut self,
        others: Columns<'a, S>,
        of: impl Fn(&R) -> S + Copy + 'a,
    ) -> Self {
        for (name, value) in others.values {
            self = self.value(name, move |row| value(&of(row)));
        }
        for (title, cell) in others.cells {
            self = self.cell(title, move |row| cell(&of(row)));
        }
        self
    }

    /// Without what is for people.
    pub(crate) fn values_only(mut self) -> Self {
        self.cells.clear();
        self
    }

    pub(crate) fn without(mut self, title: &str) -> Self {
        let place = self.cells.iter().position(|(is, _)| is == title);
        if let Some(place) = place {
            drop(self.cells.remove(place));
            self.left.retain(|left| *left != place);
            for left in self.left.iter_mut().filter(|left| **left > place) {
                *left -= 1;
            }
        }
        self
    }

    /// With titles and cells for programs, instead of names and values.
    pub(crate) fn shown(mut self) -> Self {
        self.values.clear();
        for (title, cell) in std::mem::take(&mut self.cells) {
            self = self.value(title, cell);
        }
        self
    }

    /// What people read.
    pub(crate) fn table(
        self,
        title: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
    ) -> Table {
        let header: Vec<&str> = self.cells.iter().map(|(title, _)| title.as_str()).collect();
        let mut table = Table::new(title, &header);
        table.left.extend(self.left);
        for row in rows {
            table.row(self.cells.iter().map(|(_, cell)| cell(&row)).collect());
        }
        table
    }

    /// Comma-separated values (RFC 4180, with bare line feeds) below the columns' names.
    pub(crate) fn csv(self, rows: impl IntoIterator<Item = R>) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Memory takes it all, and every row has as many cells.
        let _ = writer.write_record(self.values.iter().map(|(name, _)| name));
        for row in rows {
            let _ = writer.write_record(self.values.iter().map(|(_, value)| plain(value(&row))));
        }
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// Rows as objects whose fields have the columns' names.
    pub(crate) fn objects<'c>(&'c self, rows: &'c [R]) -> Vec<impl Serialize + 'c> {
        rows.iter().map(|row| Object(self, row)).collect()
    }
}

struct Object<'c, 'a, R>(&'c Columns<'a, R>, &'c R);

impl<R> Serialize for Object<'_, '_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = self.0.values.iter();
        serializer.collect_map(values.map(|(name, value)| (name, value(self.1))))
    }
}

/// A value as text without quotes; nothing if there is none.
fn plain(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Number(number) => match number.as_f64() {
            // Whole ones without a fraction.
            Some(float) if number.is_f64() => float.to_string(),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Format;
    use crate::report::doc::{Block, render};

    fn columns<'a>() -> Columns<'a, (&'static str, Option<f64>)> {
        Columns::new()
            .text("lock", "lock", |row: &(&str, Option<f64>)| row.0.to_owned())
            .value("wait_ns", |row| row.1)
            .cell("wait", |row| format!("{:?}", row.1))
            .value("twice", |row| row.1.map(|ns| 2.0 * ns))
            .cell("note", |_| "none".to_owned())
            .left()
    }

    #[test]
    fn values_are_quoted_where_needed_and_empty_where_unknown() {
        let none = Some(f64::INFINITY);
        let rows = [("a,b", Some(1.0)), ("say \"hi\"", None), ("c", none)];
        let text = "lock,wait_ns,twice\n\"a,b\",1,2\n\"say \"\"hi\"\"\",,\nc,,\n";
        assert_eq!(columns().csv(rows), text);
    }

    #[test]
    fn words_stay_on_the_left_without_a_cell_before_them() {
        let left = |without| columns().without(without).table("", []).left;
        assert_eq!(left("wait"), [0, 1]);
        assert_eq!(left("note"), [0]);
        assert_eq!(left("nothing of that name"), [0, 2]);
    }

    #[test]
    fn people_and_programs_see_what_is_meant_for_them() {
        let table = columns().table("", [("tas", Some(0.5))]);
        assert_eq!(table.left, [0, 2]);
        let text = render(&[Block::Table(table)], Format::Markdown);
        assert!(text.starts_with("| lock |      wait | note |\n"), "{text}");
        let json = serde_json::to_string(&columns().objects(&[("tas", Some(0.5))])).unwrap();
        assert_eq!(json, r#"[{"lock":"tas","wait_ns":0.5,"twice":1.0}]"#);
    }

    #[test]
    fn columns_of_a_part_of_a_row_are_included() {
        let outer = Columns::new().value("n", |row: &(u64, &'static str)| row.0);
        let outer = outer.include(columns().values_only(), |row| (row.1, None));
        assert_eq!(outer.csv([(7, "tas")]), "n,lock,wait_ns,twice\n7,tas,,\n");
    }
}
