//! Columns: what one is called and what it tells, for programs and for people, in one place.
//!
//! Programs read names and plain values (CSV, and JSON where no struct has the same fields already);
//! people read titles and rounded cells with their units (tables, Markdown). Names tell their units.

use super::doc::Table;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The columns of rows that are made of `R`.
pub(crate) struct Columns<'a, R>(Vec<Column<'a, R>>);

struct Column<'a, R> {
    /// For programs; of no column that people alone read.
    value: Option<(String, ValueOf<'a, R>)>,
    /// For people; of no column that programs alone read.
    cell: Option<(String, CellOf<'a, R>)>,
    left: bool,
}

type ValueOf<'a, R> = Box<dyn Fn(&R) -> Value + 'a>;
type CellOf<'a, R> = Box<dyn Fn(&R) -> String + 'a>;

impl<'a, R: 'a> Columns<'a, R> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    fn with(
        mut self,
        value: Option<(String, ValueOf<'a, R>)>,
        cell: Option<(String, CellOf<'a, R>)>,
    ) -> Self {
        let left = false;
        self.0.push(Column { value, cell, left });
        self
    }

    /// A column for programs; there may be nothing to tell (`None`, or a number that is not finite).
    pub(crate) fn value<V: Into<Value>>(
        self,
        name: impl Into<String>,
        value: impl Fn(&R) -> V + 'a,
    ) -> Self {
        self.with(
            Some((name.into(), Box::new(move |row| value(row).into()))),
            None,
        )
    }

    /// A column for people.
    pub(crate) fn cell(self, title: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Self {
        self.with(None, Some((title.into(), Box::new(cell))))
    }

    /// A column for both.
    pub(crate) fn both<V: Into<Value>>(
        self,
        name: impl Into<String>,
        value: impl Fn(&R) -> V + 'a,
        title: impl Into<String>,
        cell: impl Fn(&R) -> String + 'a,
    ) -> Self {
        let value: ValueOf<'a, R> = Box::new(move |row| value(row).into());
        self.with(
            Some((name.into(), value)),
            Some((title.into(), Box::new(cell))),
        )
    }

    /// A column for both whose text needs no rounding.
    pub(crate) fn text(
        self,
        name: &str,
        title: &str,
        text: impl Fn(&R) -> String + Copy + 'a,
    ) -> Self {
        self.both(name, text, title, text)
    }

    /// The last column is of words, so it is aligned to the left.
    pub(crate) fn left(mut self) -> Self {
        if let Some(last) = self.0.last_mut() {
            last.left = true;
        }
        self
    }

    /// The columns of something that belongs to each row.
    pub(crate) fn include<S: 'a>(
        mut self,
        columns: Columns<'a, S>,
        of: impl Fn(&R) -> S + Copy + 'a,
    ) -> Self {
        self.0.extend(columns.0.into_iter().map(|column| Column {
            value: (column.value).map(|(name, value)| {
                (
                    name,
                    Box::new(move |row: &R| value(&of(row))) as ValueOf<'a, R>,
                )
            }),
            cell: (column.cell).map(|(title, cell)| {
                (
                    title,
                    Box::new(move |row: &R| cell(&of(row))) as CellOf<'a, R>,
                )
            }),
            left: column.left,
        }));
        self
    }

    /// These columns and those.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Without what is for people.
    pub(crate) fn values_only(mut self) -> Self {
        for column in &mut self.0 {
            column.cell = None;
        }
        self
    }

    /// With titles and cells for programs, too.
    pub(crate) fn as_shown(mut self) -> Self {
        for column in &mut self.0 {
            column.value = (column.cell.take()).map(|(title, cell)| {
                (
                    title,
                    Box::new(move |row: &R| cell(row).into()) as ValueOf<'a, R>,
                )
            });
        }
        self
    }

    /// Without the column of that title.
    pub(crate) fn without(mut self, title: &str) -> Self {
        let other = |cell: &Option<(String, CellOf<'a, R>)>| {
            cell.as_ref().is_none_or(|(is, _)| is != title)
        };
        self.0.retain(|column| other(&column.cell));
        self
    }

    /// What people read.
    pub(crate) fn table(
        self,
        title: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
    ) -> Table {
        let shown: Vec<_> = (self.0.into_iter())
            .filter_map(|column| Some((column.cell?, column.left)))
            .collect();
        let header: Vec<&str> = shown.iter().map(|((title, _), _)| title.as_str()).collect();
        let mut table = Table::new(title, &header);
        let left = (shown.iter().enumerate()).filter(|(number, (_, left))| *left && *number > 0);
        table.left.extend(left.map(|(number, _)| number));
        for row in rows {
            table.row(shown.iter().map(|((_, cell), _)| cell(&row)).collect());
        }
        table
    }

    /// Comma-separated values (RFC 4180, with bare line feeds) below the columns' names.
    pub(crate) fn csv(self, rows: impl IntoIterator<Item = R>) -> String {
        let told: Vec<_> = self
            .0
            .into_iter()
            .filter_map(|column| column.value)
            .collect();
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Memory takes it all, and every row has as many cells.
        let _ = writer.write_record(told.iter().map(|(name, _)| name));
        for row in rows {
            let _ = writer.write_record(told.iter().map(|(_, value)| plain(value(&row))));
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
        let values = self.0.0.iter().filter_map(|column| column.value.as_ref());
        serializer.collect_map(values.map(|(name, value)| (name, value(self.1))))
    }
}

/// A value as text without quotes; nothing if there is none.
fn plain(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        // Whole ones without a fraction.
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .map_or_else(String::new, |number| number.to_string()),
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
            .both("wait_ns", |row| row.1, "wait", |row| format!("{:?}", row.1))
            .value("twice", |row| row.1.map(|ns| 2.0 * ns))
            .cell("note", |_| "none".to_owned())
            .left()
    }

    #[test]
    fn values_are_quoted_where_needed_and_empty_where_unknown() {
        let rows = [
            ("a,b", Some(1.0)),
            ("say \"hi\"", None),
            ("c", Some(f64::INFINITY)),
        ];
        let text = "lock,wait_ns,twice\n\"a,b\",1,2\n\"say \"\"hi\"\"\",,\nc,,\n";
        assert_eq!(columns().csv(rows), text);
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
