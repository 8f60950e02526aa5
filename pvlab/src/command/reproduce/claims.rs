//! What the mails claim, and whether the simulated figures say the same.

mod list;

use super::published::Place;
use super::result::{Figure, TableResult};
use super::tables::TableName;
use serde::Serialize;

/// A claim, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Claim {
    pub id: &'static str,
    pub table: TableName,
    pub claim: &'static str,
    /// `None`: figures are missing.
    pub holds: Option<bool>,
    /// The figures that it was judged by.
    pub figures: String,
}

/// What a claim is judged by: whether it holds, and the figures.
struct Judged {
    holds: bool,
    figures: String,
}

fn judged(holds: bool, figures: String) -> Option<Judged> {
    Some(Judged { holds, figures })
}

/// The tables that are complete.
struct Tables<'a>(&'a [TableResult]);

impl Tables<'_> {
    fn figure(&self, table: TableName, place: &Place) -> Option<Figure> {
        let result = self.0.iter().find(|result| result.table == table)?;
        result.simulated(place)
    }
}

/// A table of those, by the names of its rows.
struct Of<'a> {
    tables: &'a Tables<'a>,
    table: TableName,
}

impl Of<'_> {
    fn figure(&self, block: &str, row: &str, column: &str) -> Option<Figure> {
        self.tables
            .figure(self.table, &Place::new(block, row, column))
    }

    fn at(&self, block: &str, row: &str, column: &str) -> Option<f64> {
        self.figure(block, row, column).map(|figure| figure.median)
    }
}

/// Judges all claims of the tables that there are.
pub(crate) fn judge(results: &[TableResult]) -> Vec<Claim> {
    let tables = Tables(results);
    let there = |table| results.iter().any(|result| result.table == table);
    let claims = list::CLAIMS.iter().filter(|claim| there(claim.table));
    let judge = |claim: &list::Stated| {
        let of = Of {
            tables: &tables,
            table: claim.table,
        };
        let judged = (claim.judge)(&of);
        Claim {
            id: claim.id,
            table: claim.table,
            claim: claim.claim,
            holds: judged.as_ref().map(|judged| judged.holds),
            figures: judged.map_or_else(|| "figures are missing".to_owned(), |j| j.figures),
        }
    };
    claims.map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::super::published::Publication;
    use super::*;

    /// The claims are about the published figures: those must fulfil all that they have figures for.
    #[test]
    fn the_published_figures_say_what_their_mails_claim() {
        let of = |table| {
            let published = Publication::of(table, None).unwrap();
            let mut found: Vec<_> = published
                .figures
                .iter()
                .map(|figure| (figure.place.clone(), figure.value))
                .collect();
            if table == TableName::Torture {
                // Rates between reports, as the totals and the clock have them.
                for (block, side, rates) in [
                    ("old", "writes", [5063.0, 375.0, 55.3]),
                    ("old", "reads", [382_357.0, 432_618.0, 536_865.0]),
                    ("queued", "writes", [28_659.0, 12_982.0, 13_157.0]),
                    ("queued", "reads", [191_489.0, 149_333.0, 140_870.0]),
                ] {
                    for (i, rate) in rates.into_iter().enumerate() {
                        let row = format!("{side} {}", i + 1);
                        found.push((Place::new(block, row, "rate"), rate));
                    }
                }
            }
            TableResult::new(&published, 1, vec![found])
        };
        let claims = judge(&TableName::ALL.map(of));
        let judged: Vec<_> = claims
            .iter()
            .filter(|claim| claim.holds.is_some())
            .collect();
        for claim in &judged {
            assert_eq!(claim.holds, Some(true), "{claim:?}");
        }
        // A spread needs several seeds; waits, fairness and overcommit were not published.
        let open: Vec<_> = claims
            .iter()
            .filter(|c| c.holds.is_none())
            .map(|c| c.id)
            .collect();
        assert_eq!(open, ["C5", "C9", "C10", "C19"]);
        assert_eq!(judged.len(), 15);
    }

    #[test]
    fn claims_of_a_table_that_is_not_there_are_left_out() {
        assert!(judge(&[]).is_empty());
        let published = Publication::of(TableName::Perf, None).unwrap();
        let claims = judge(&[TableResult::new(&published, 1, Vec::new())]);
        assert!(claims.iter().all(|claim| claim.table == TableName::Perf));
        assert!(claims.iter().all(|claim| claim.holds.is_none()));
    }
}
