//! Reports of `pvlab reproduce`.

use super::claims::{Claim, judge};
use super::closeness::Closeness;
use super::notes;
use super::published::{Place, Use};
use super::result::{Cell, Figure, TableResult};
use super::tables::TableName;
use crate::human::plural;
use crate::report::column::Columns;
use crate::report::doc::{self, Block, Table};
use crate::report::{Format, Report, to_json};
use serde::Serialize;
use std::collections::BTreeSet;

/// Spreads of less than this are not shown.
const SPREAD: f64 = 0.05;

/// What `pvlab reproduce` reports.
#[derive(Debug, Serialize)]
pub(crate) struct Reproduction {
    schema: &'static str,
    /// Of the published figures and the machines' presets, whichever tables there are.
    inputs: String,
    /// Nothing was measured.
    simulated: bool,
    tables: Vec<TableResult>,
    claims: Vec<Claim>,
}

impl Reproduction {
    pub(crate) fn new(tables: Vec<TableResult>) -> Self {
        Self {
            schema: "pvlab.reproduce/1",
            inputs: inputs(),
            simulated: true,
            claims: judge(&tables),
            tables,
        }
    }
}

impl Report for Reproduction {
    fn csv(&self) -> String {
        let rows = self.tables.iter().flat_map(|table| {
            let cells = table.cells.iter();
            cells.map(move |cell| (table.table.name(), cell))
        });
        let median = |cell: &Cell| cell.simulated.map(|figure| figure.median);
        Columns::new()
            .value("table", |row: &(&str, &Cell)| row.0)
            .value("block", |row| row.1.published.place.block.clone())
            .value("row", |row| row.1.published.place.row.clone())
            .value("column", |row| row.1.published.place.column.clone())
            .value("unit", |row| row.1.published.unit.clone())
            .value("use", |row| row.1.published.usage)
            .value("published", |row| row.1.published.value)
            .value("simulated", move |row| median(row.1))
            .value("ratio", |row| row.1.ratio)
            .csv(rows)
    }

    /// Markdown has a heading for each table.
    fn render(&self, format: Format) -> String {
        match format {
            Format::Json => to_json(self),
            Format::Csv => self.csv(),
            Format::Table => doc::render(&self.blocks(format), format),
            Format::Markdown => self.markdown(),
        }
    }

    fn blocks(&self, format: Format) -> Vec<Block> {
        let mut blocks = vec![Block::Lines(vec![
            "Published figures beside simulated ones: of a model, as good as its parameters.".to_owned(),
            "x is simulated / published; * marks figures that a parameter was fitted to; +- is half of the range \
             over the seeds, if above 5 %."
                .to_owned(),
            format!("checksum of the inputs: {}", self.inputs),
        ])];
        for result in &self.tables {
            blocks.extend(of_table(result, format));
        }
        if !self.claims.is_empty() {
            blocks.push(Block::Table(claims(&self.claims)));
        }
        blocks
    }
}

impl Reproduction {
    fn markdown(&self) -> String {
        let format = Format::Markdown;
        let head = &self.blocks(format)[..1];
        let mut text = format!(
            "# Published tables, reproduced\n\n{}",
            doc::render(head, format)
        );
        for result in &self.tables {
            text += &format!("\n## {}: {}\n\n", result.table, result.about);
            text += &doc::render(&of_table(result, format), format);
        }
        if !self.claims.is_empty() {
            text += "\n## Claims\n\n";
            text += &doc::render(&[Block::Table(claims(&self.claims))], format);
        }
        text
    }
}

/// FNV-1a (Fowler, Noll, Vo) of all that the figures are made from, but for the program.
fn inputs() -> String {
    let data = TableName::ALL.into_iter().map(TableName::built_in);
    let presets = sim::presets::names().filter_map(sim::presets::text);
    let bytes = data.chain(presets).flat_map(str::bytes);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// A table in the layout of its mail.
fn of_table(result: &TableResult, format: Format) -> Vec<Block> {
    let source = |name: &str| result.source.get(name).map_or("", String::as_str);
    let mut lines = Vec::new();
    if format != Format::Markdown {
        lines.push(format!("== {}: {}", result.table, result.about));
    }
    lines.extend([
        format!(
            "{}, {}, {}: {}; message {}",
            source("author"),
            source("date"),
            source("list"),
            source("subject"),
            source("message-id")
        ),
        format!(
            "published: {}; simulated: sim:{}, {}",
            source("machine"),
            source("preset"),
            plural(result.seeds, "seed")
        ),
        closeness("all", result.all),
        closeness("held out", result.held_out),
    ]);
    lines.extend(notes::of(result.table).iter().map(|&note| note.to_owned()));
    let mut blocks = vec![Block::Lines(lines)];
    for block in in_order(result.cells.iter().map(|c| &c.published.place.block)) {
        let of_block = |cell: &&Cell| cell.published.place.block == *block;
        blocks.push(Block::Table(published(
            block,
            &result.cells.iter().filter(of_block).collect::<Vec<_>>(),
        )));
    }
    let unpublished: BTreeSet<&String> = result.more.iter().map(|m| &m.place.block).collect();
    for block in unpublished {
        blocks.push(Block::Table(not_published(result, block)));
    }
    blocks
}

fn closeness(of: &str, close: Closeness) -> String {
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    format!(
        "{of}: {} figures, geometric-mean error {}, rank correlation {}",
        close.cells,
        figure(close.geometric_error),
        figure(close.rank_correlation)
    )
}

/// Each of them once, in the order in which they come first.
fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// A part of a table: of each column what was published, what was simulated, and their ratio.
fn published(block: &str, cells: &[&Cell]) -> Table {
    let places = || cells.iter().map(|cell| &cell.published.place);
    let columns = in_order(places().map(|place| &place.column));
    let unit = &cells[0].published.unit;
    let mut header = vec![String::new()];
    for column in &columns {
        header.extend([(*column).clone(), "simulated".to_owned(), "x".to_owned()]);
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(format!("{block}, {unit}"), &header);
    for row in in_order(places().map(|place| &place.row)) {
        let mut line = vec![row.clone()];
        for column in &columns {
            let here = |cell: &&&Cell| {
                let Place {
                    row: r, column: c, ..
                } = &cell.published.place;
                r == row && c == *column
            };
            line.extend(match cells.iter().find(here) {
                Some(cell) => [
                    number(cell.published.value)
                        + if cell.published.usage == Use::Fitted {
                            "*"
                        } else {
                            ""
                        },
                    cell.simulated.map_or_else(|| "-".to_owned(), with_spread),
                    cell.ratio
                        .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
                ],
                None => ["-", "-", "-"].map(str::to_owned),
            });
        }
        table.row(line);
    }
    table
}

/// Simulated figures that have no published ones.
fn not_published(result: &TableResult, block: &str) -> Table {
    let more: Vec<_> = result
        .more
        .iter()
        .filter(|m| m.place.block == block)
        .collect();
    let columns = in_order(more.iter().map(|m| &m.place.column));
    let mut header = vec![String::new()];
    header.extend(columns.iter().map(|column| (*column).clone()));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(format!("{block} (not published; simulated)"), &header);
    for row in in_order(more.iter().map(|m| &m.place.row)) {
        let of = |column: &String| {
            let here = |m: &&&super::result::More| m.place.row == *row && m.place.column == *column;
            let found = more.iter().find(here);
            found.map_or_else(|| "-".to_owned(), |m| with_spread(m.figure))
        };
        let mut line = vec![row.clone()];
        line.extend(columns.iter().map(|column| of(column)));
        table.row(line);
    }
    table
}

fn with_spread(figure: Figure) -> String {
    let spread = figure.spread();
    let told = if spread >= SPREAD {
        format!(" +-{:.0} %", 100.0 * spread)
    } else {
        String::new()
    };
    number(figure.median) + &told
}

/// With digits as the mails have them: whole from a thousand on, with separators.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        1000.0.. => 0,
        10.0.. => 1,
        0.0 => 0,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let (sign, rest) = text
        .strip_prefix('-')
        .map_or(("", &*text), |rest| ("-", rest));
    let (whole, part) = rest.split_once('.').unwrap_or((rest, ""));
    let groups: Vec<&str> = (0..whole.len())
        .step_by(3)
        .map(|end| {
            let end = whole.len() - end;
            &whole[end.saturating_sub(3)..end]
        })
        .collect();
    let whole = groups.into_iter().rev().collect::<Vec<_>>().join(",");
    let part = if part.is_empty() {
        String::new()
    } else {
        format!(".{part}")
    };
    format!("{sign}{whole}{part}")
}

fn claims(claims: &[Claim]) -> Table {
    let mut table = Table::new("claims", &["", "table", "holds", "claim", "simulated"]);
    table.left.extend([1, 2, 3, 4]);
    for claim in claims {
        let holds = match claim.holds {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        table.row(vec![
            claim.id.to_owned(),
            claim.table.to_string(),
            holds.to_owned(),
            claim.claim.to_owned(),
            claim.figures.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::published::Publication;
    use super::*;
    use crate::report::fixture::undocumented;

    /// Everything is simulated as twice what was published.
    fn doubled(table: TableName) -> TableResult {
        let published = Publication::of(table, None).unwrap();
        let figures = published.figures.iter();
        let found = figures.map(|figure| (figure.place.clone(), 2.0 * figure.value));
        let mut found: Vec<_> = found.collect();
        found.push((Place::new("overcommit", "2", "pv-next"), 1234.5));
        TableResult::new(&published, 1, vec![found])
    }

    fn report() -> Reproduction {
        Reproduction::new(TableName::ALL.map(doubled).into())
    }

    #[test]
    fn numbers_are_as_in_mails() {
        assert_eq!(number(29_276.0), "29,276");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(
            (number(161.1), number(0.0), number(-93.5)),
            ("161.1".into(), "0".into(), "-93.5".into())
        );
        assert_eq!(
            (number(0.987), number(-1500.0)),
            ("0.99".into(), "-1,500".into())
        );
    }

    #[test]
    fn tables_have_the_layout_of_their_mails() {
        for format in [Format::Table, Format::Markdown] {
            let text = report().render(format);
            for part in [
                "27,373",
                "54,746",
                "2.00",
                "geometric-mean error 2.00, rank correlation 1.00",
                "Waiman Long, 2019-02-10",
                "overcommit (not published; simulated)",
                "1,234",
                "871.8",
            ] {
                assert_eq!(text.contains(part), part != "871.8", "{part} in\n{text}");
            }
            // The row of 64 threads, of three columns with three figures each.
            let row = text
                .lines()
                .find(|line| line.trim_start_matches(['|', ' ']).starts_with("64 "))
                .unwrap();
            assert_eq!(row.matches("2.00").count(), 3, "{row}");
        }
    }

    #[test]
    fn programs_get_every_figure() {
        let csv = report().render(Format::Csv);
        assert_eq!(csv.lines().count(), 1 + 271 + 54);
        assert!(csv.starts_with("table,block,row,column,unit,use,published,simulated,ratio\n"));
        assert!(csv.contains("000,before,64,mixed,kops/s,held-out,61"));
        let json: serde_json::Value = serde_json::from_str(&report().render(Format::Json)).unwrap();
        assert_eq!(json["schema"], "pvlab.reproduce/1");
        assert_eq!(
            json["tables"][0]["cells"][0]["published"],
            serde_json::Value::Null
        );
        assert_eq!(json["tables"][0]["cells"][0]["value"], 27_373.0);
        assert_eq!(json["tables"][0]["cells"][0]["ratio"], 2.0);
        assert_eq!(json["claims"][0]["id"], "C1");
        let documentation = include_str!("../../../../docs/json.md");
        let lacking = undocumented(&json, documentation, &["source"]);
        assert!(lacking.is_empty(), "{lacking:?} are not in docs/json.md");
    }
}
