//! The published figures: data files of one table each, and their reader.
//!
//! ```text
//! # author: ...                        where the figures are from, a line each
//! block,row,column,unit,value,use      the columns, by these names
//! before,64,mixed,kops/s,61,held-out   a figure: part of the table, row, column, and what it is used for
//! ```

use super::tables::TableName;
use crate::options::error::usage;
use csv::{ReaderBuilder, StringRecord};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Where a figure stands in its table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Place {
    pub block: String,
    pub row: String,
    pub column: String,
}

impl Place {
    pub(crate) fn new(block: impl Display, row: impl Display, column: impl Display) -> Self {
        let [block, row, column] = [&block as &dyn Display, &row, &column].map(|s| s.to_string());
        Self { block, row, column }
    }
}

/// What a figure is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Use {
    /// It is compared, and no parameter was fitted to it.
    HeldOut,
    /// It is compared; parameters of the machine were fitted to it.
    Fitted,
    /// It follows from others of its table.
    Derived,
    /// It says when a report came.
    Clock,
    /// What was printed is not what the label says: locktorture's Max/Min before 2020.
    Misprinted,
    /// It must be the same: a number of failures.
    Exact,
}

impl Use {
    /// Whether closeness is of it.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Self::HeldOut | Self::Fitted)
    }
}

impl From<Use> for serde_json::Value {
    fn from(usage: Use) -> Self {
        serde_json::to_value(usage).unwrap_or_default()
    }
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Published {
    #[serde(flatten)]
    pub place: Place,
    pub unit: String,
    pub value: f64,
    #[serde(rename = "use")]
    pub usage: Use,
}

/// The published figures of a table, and where they are from.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Publication {
    pub table: TableName,
    /// List, author, date, message, machine, by these names, in the order of the file.
    pub source: Vec<(String, String)>,
    pub figures: Vec<Published>,
}

/// Why a data file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PublishedError {
    #[error("cannot read the published figures in {}: {why}", path.display())]
    Read { path: PathBuf, why: std::io::Error },
    #[error("{file}, line {line}, column {column}: {what}")]
    Malformed {
        file: String,
        line: u64,
        /// Of the line, counted from 1; of a figure that of its field.
        column: usize,
        what: String,
    },
}

usage!(PublishedError);

/// The columns of a file.
const COLUMNS: [&str; 6] = ["block", "row", "column", "unit", "value", "use"];

impl Publication {
    /// The figures of `table`: those of the file of that name in `folder`, or the ones that are built in.
    pub(crate) fn of(table: TableName, folder: Option<&Path>) -> Result<Self, PublishedError> {
        let Some(folder) = folder else {
            return Self::parse(table, &format!("{table}.csv"), table.built_in());
        };
        let path = folder.join(format!("{table}.csv"));
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(table, &path.display().to_string(), &text),
            Err(why) => Err(PublishedError::Read { path, why }),
        }
    }

    fn parse(table: TableName, file: &str, text: &str) -> Result<Self, PublishedError> {
        let malformed = |line, column, what: String| PublishedError::Malformed {
            file: file.to_owned(),
            line,
            column,
            what,
        };
        let notes = text.lines().filter_map(|line| line.strip_prefix('#'));
        let source = notes.filter_map(|note| {
            let (name, value) = note.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        });
        let source: Vec<_> = source.collect();
        let mut reader = ReaderBuilder::new()
            .comment(Some(b'#'))
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes());
        let mut figures: Vec<Published> = Vec::new();
        let mut header = true;
        for record in reader.records() {
            let record = record.map_err(|error| {
                let line = error.position().map_or(1, csv::Position::line);
                malformed(line, 1, "it is not comma-separated text".to_owned())
            })?;
            let line = record.position().map_or(1, csv::Position::line);
            let at = |field: usize, what| malformed(line, column_of(&record, field), what);
            if record.len() != COLUMNS.len() {
                let what = format!("{} fields instead of {}", record.len(), COLUMNS.len());
                return Err(at(record.len().min(COLUMNS.len()), what));
            }
            if header {
                let other = (0..COLUMNS.len()).find(|&i| record[i].trim() != COLUMNS[i]);
                if let Some(i) = other {
                    let what = format!("'{}' instead of '{}'", &record[i], COLUMNS[i]);
                    return Err(at(i, what));
                }
                header = false;
                continue;
            }
            let figure = figure(&record).map_err(|(field, what)| at(field, what))?;
            if figures.iter().any(|other| other.place == figure.place) {
                return Err(at(0, "the figure is there twice".to_owned()));
            }
            figures.push(figure);
        }
        if figures.is_empty() {
            let last = text.lines().count().max(1) as u64;
            return Err(malformed(last, 1, "there are no figures".to_owned()));
        }
        Ok(Self {
            table,
            source,
            figures,
        })
    }

    /// The figure at that place.
    pub(crate) fn at(&self, place: &Place) -> Option<f64> {
        let figure = self.figures.iter().find(|figure| figure.place == *place);
        figure.map(|figure| figure.value)
    }
}

/// The figure in a line, or the field that is wrong, and how.
fn figure(record: &StringRecord) -> Result<Published, (usize, String)> {
    if let Some(empty) = (0..COLUMNS.len()).find(|&i| record[i].trim().is_empty()) {
        return Err((empty, format!("no {}", COLUMNS[empty])));
    }
    let value: f64 = record[4]
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
        .ok_or_else(|| (4, format!("'{}' is no number", &record[4])))?;
    let usage = serde_json::from_value(record[5].into())
        .map_err(|_| (5, format!("'{}' is no use of a figure", &record[5])))?;
    Ok(Published {
        place: Place::new(&record[0], &record[1], &record[2]),
        unit: record[3].to_owned(),
        value,
        usage,
    })
}

/// Where a field begins in its line, counted from 1, as the files here are written: without blanks, and with
/// quotation marks round fields that have a comma.
fn column_of(record: &StringRecord, field: usize) -> usize {
    let before = record.iter().take(field);
    let width = |text: &str| text.chars().count() + if text.contains(',') { 2 } else { 0 };
    1 + before.map(|text| width(text) + 1).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Publication, PublishedError> {
        Publication::parse(TableName::Rwsem2019, "x.csv", text)
    }

    /// Figures of each table, and their sum: whoever changes one by mistake is told.
    const KNOWN: [(TableName, usize, f64); 7] = [
        (TableName::Rwsem2019, 42, 442_256.0),
        (TableName::Torture, 60, 9_471_771.747_104),
        (TableName::Perf, 9, 1_962_282.0),
        (TableName::UnixBench, 88, 121_770.2),
        (TableName::Rwsem2014, 60, 116_145.2),
        (TableName::Aim7, 12, 2_713_248.4),
        (TableName::Extra, 54, 85_687.0),
    ];

    #[test]
    fn all_figures_are_there_and_are_those_that_were_published() {
        assert_eq!(KNOWN.map(|(table, ..)| table), TableName::ALL);
        for (table, count, sum) in KNOWN {
            let found = Publication::of(table, None).unwrap();
            assert_eq!(found.figures.len(), count, "{table}");
            let total: f64 = found.figures.iter().map(|figure| figure.value).sum();
            assert!((total - sum).abs() < 1e-3, "{table}: {total}");
            for name in [
                "list",
                "author",
                "date",
                "message-id",
                "subject",
                "machine",
                "preset",
            ] {
                let told = found.source.iter().find(|(known, _)| known == name);
                assert!(
                    told.is_some_and(|(_, told)| !told.is_empty()),
                    "{table}: no {name}"
                );
            }
        }
        let seeds = KNOWN
            .iter()
            .filter(|(table, ..)| *table != TableName::Extra);
        assert_eq!(seeds.map(|(_, count, _)| count).sum::<usize>(), 271);
    }

    #[test]
    fn at_most_a_quarter_of_a_table_is_fitted() {
        for table in TableName::ALL {
            let found = Publication::of(table, None).unwrap();
            let of = |usage| {
                found
                    .figures
                    .iter()
                    .filter(move |f| f.usage == usage)
                    .count()
            };
            assert!(of(Use::Fitted) * 4 <= found.figures.len(), "{table}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_column() {
        const HEAD: &str = "# author: A\nblock,row,column,unit,value,use\n";
        let told = |lines: &str| parse(&format!("{HEAD}{lines}")).unwrap_err().to_string();
        assert_eq!(
            told("a,1,w,kops/s,1x,held-out\n"),
            "x.csv, line 3, column 14: '1x' is no number"
        );
        assert_eq!(
            told("a,1,w,kops/s,1,held-out\na,1,r,kops/s,2,forgotten\n"),
            "x.csv, line 4, column 16: 'forgotten' is no use of a figure"
        );
        assert_eq!(
            told("a,1,w,kops/s,1\n"),
            "x.csv, line 3, column 16: 5 fields instead of 6"
        );
        assert_eq!(
            told("a,,w,kops/s,1,held-out\n"),
            "x.csv, line 3, column 3: no row"
        );
        assert_eq!(
            told("a,1,w,k,1,held-out\na,1,w,k,2,held-out\n"),
            "x.csv, line 4, column 1: the figure is there twice"
        );
        assert_eq!(told(""), "x.csv, line 2, column 1: there are no figures");
        let head = parse("block,rows,column,unit,value,use\n").unwrap_err();
        assert_eq!(
            head.to_string(),
            "x.csv, line 1, column 7: 'rows' instead of 'row'"
        );
    }
}
