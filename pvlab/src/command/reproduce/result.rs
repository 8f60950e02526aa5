//! What came out of the runs, beside what was published.

use super::closeness::Closeness;
use super::plan::locktorture::SLICE;
use super::plan::unixbench::{ITEMS, SCORE, score};
use super::published::{Place, Publication, Published, Use};
use super::tables::TableName;
use super::trial::{Found, REPORTS};
use crate::figures::stats::median;
use serde::Serialize;
use std::collections::BTreeMap;

/// A simulated figure: the median over the seeds, and how far they are apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Figure {
    fn of(values: &[f64]) -> Option<Self> {
        let fold = |f: fn(f64, f64) -> f64, from| values.iter().copied().fold(from, f);
        Some(Self {
            median: median(values)?,
            least: fold(f64::min, f64::INFINITY),
            most: fold(f64::max, f64::NEG_INFINITY),
        })
    }

    /// Half of the distance of the least and the most, as a share of the median.
    pub(crate) fn spread(self) -> f64 {
        if self.median > 0.0 {
            (self.most - self.least) / 2.0 / self.median
        } else {
            0.0
        }
    }
}

/// A published figure beside the simulated one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    #[serde(flatten)]
    pub published: Published,
    pub simulated: Option<Figure>,
    /// Simulated over published, of figures that are compared.
    pub ratio: Option<f64>,
}

/// A table, published and simulated.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TableResult {
    pub table: TableName,
    pub about: &'static str,
    pub source: BTreeMap<String, String>,
    pub seeds: usize,
    pub cells: Vec<Cell>,
    /// Of all that is compared, and of that to which nothing was fitted.
    pub all: Closeness,
    pub held_out: Closeness,
    /// What has no published figure.
    pub more: Vec<More>,
}

/// A simulated figure that nobody has published.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct More {
    #[serde(flatten)]
    pub place: Place,
    #[serde(flatten)]
    pub figure: Figure,
}

impl TableResult {
    /// Of what the runs have found, with all seeds.
    pub(crate) fn new(published: &Publication, seeds: usize, found: Vec<Found>) -> Self {
        let mut values: BTreeMap<Place, Vec<f64>> = BTreeMap::new();
        for (place, value) in found.into_iter().flatten() {
            values.entry(place).or_default().push(value);
        }
        let mut simulated: BTreeMap<Place, Figure> = values
            .into_iter()
            .filter_map(|(place, values)| Some((place, Figure::of(&values)?)))
            .collect();
        derive(published, &mut simulated);
        let cells: Vec<Cell> = published
            .figures
            .iter()
            .map(|figure| {
                let found = simulated.remove(&figure.place);
                let ratio = found
                    .filter(|_| figure.usage.counts() && figure.value != 0.0)
                    .map(|found| found.median / figure.value);
                Cell {
                    published: figure.clone(),
                    simulated: found,
                    ratio,
                }
            })
            .collect();
        let pairs = |counts: fn(Use) -> bool| {
            let pairs = cells.iter().filter(|cell| counts(cell.published.usage));
            let pairs = pairs.filter_map(|c| Some((c.published.value, c.simulated?.median)));
            Closeness::of(&pairs.collect::<Vec<_>>())
        };
        Self {
            table: published.table,
            about: published.table.about(),
            source: published.source.iter().cloned().collect(),
            seeds,
            all: pairs(Use::counts),
            held_out: pairs(|usage| usage == Use::HeldOut),
            cells,
            more: simulated
                .into_iter()
                .map(|(place, figure)| More { place, figure })
                .collect(),
        }
    }

    /// The simulated figure at that place, published or not.
    pub(crate) fn simulated(&self, place: &Place) -> Option<Figure> {
        let of_cell = self.cells.iter().find(|c| c.published.place == *place);
        let of_more = || self.more.iter().find(|more| more.place == *place);
        match of_cell {
            Some(cell) => cell.simulated,
            None => of_more().map(|more| more.figure),
        }
    }
}

/// Figures that follow from others of their table.
fn derive(published: &Publication, simulated: &mut BTreeMap<Place, Figure>) {
    let exactly = |value: f64| Figure {
        median: value,
        least: value,
        most: value,
    };
    if published.table == TableName::Torture {
        return totals(published, simulated);
    }
    for figure in published.figures.iter().filter(|f| f.usage == Use::Derived) {
        let Place { block, row, column } = &figure.place;
        let at = |place: Place| simulated.get(&place).map(|found| found.median);
        let derived = if *row == SCORE {
            let items = ITEMS
                .iter()
                .map(|item| at(Place::new(block, item.name, column)));
            items.collect::<Option<Vec<f64>>>().map(|all| score(&all))
        } else {
            let (before, after) = if block == "change" {
                let of = |block| at(Place::new(block, row, column));
                (of("before"), of("after"))
            } else {
                let of = |column| at(Place::new(block, row, column));
                (of("before"), of("after"))
            };
            before
                .zip(after)
                .map(|(before, after)| 100.0 * (after / before - 1.0))
        };
        if let Some(value) = derived {
            simulated.insert(figure.place.clone(), exactly(value));
        }
    }
}

/// locktorture's reports count from the start. The first came after its interval, the others when they came. The first
/// slice is the beginning, while threads are created, and stands for itself.
fn totals(published: &Publication, simulated: &mut BTreeMap<Place, Figure>) {
    /// Its statistics interval, s.
    const INTERVAL: f64 = 2.0;
    let begins = SLICE.as_secs_f64();
    for block in ["old", "queued"] {
        'sides: for side in ["writes", "reads"] {
            let mut total = Figure {
                median: 0.0,
                least: 0.0,
                most: 0.0,
            };
            let clock = |n: usize| published.at(&Place::new(block, format!("{side} {n}"), "time"));
            for n in 1..=REPORTS {
                let length = match clock(n).zip(clock(n.wrapping_sub(1))) {
                    Some((now, before)) => now - before,
                    None => INTERVAL,
                };
                let row = format!("{side} {n}");
                let rate = |n: usize| {
                    let row = format!("{side} {n}");
                    simulated.get(&Place::new(block, row, "rate")).copied()
                };
                let parts = match n {
                    1 => [(rate(1), begins), (rate(2), length - begins)],
                    n => [(rate(n), length), (rate(n), 0.0)],
                };
                for (rate, length) in parts {
                    let Some(rate) = rate else { continue 'sides };
                    total.median += rate.median * length;
                    total.least += rate.least * length;
                    total.most += rate.most * length;
                }
                simulated.insert(Place::new(block, &row, "total"), total);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(table: TableName) -> Publication {
        Publication::of(table, None).unwrap()
    }

    #[test]
    fn the_published_figures_are_as_close_to_themselves_as_can_be() {
        for table in TableName::ALL {
            let published = publication(table);
            let found: Found = published
                .figures
                .iter()
                .map(|figure| (figure.place.clone(), figure.value))
                .collect();
            let result = TableResult::new(&published, 1, vec![found]);
            assert_eq!(result.all.geometric_error, Some(1.0), "{table}");
            assert!(result.all.cells >= result.held_out.cells);
            for cell in &result.cells {
                // Derived ones were computed, and printed with one digit after the point.
                let found = cell.simulated.unwrap().median;
                let off = (found - cell.published.value).abs();
                assert!(off < 0.11, "{table}: {cell:?}");
            }
        }
    }

    #[test]
    fn totals_are_rates_times_the_intervals_that_were_printed() {
        let published = publication(TableName::Torture);
        let rates = (1..=3).map(|n| (Place::new("queued", format!("reads {n}"), "rate"), 1000.0));
        let result = TableResult::new(&published, 1, vec![rates.collect()]);
        let total = |n: usize| {
            let place = Place::new("queued", format!("reads {n}"), "total");
            result.simulated(&place).unwrap().median
        };
        assert!((total(1) - 2000.0).abs() < 1e-6);
        assert!((total(2) - total(1) - 1000.0 * (223.512_611 - 221.491_219)).abs() < 1e-6);
        assert!(total(3) > total(2));
    }

    #[test]
    fn several_seeds_have_a_median_and_a_spread() {
        let published = publication(TableName::Perf);
        let place = Place::new("pHyp", "sched pipe", "qspinlock");
        let found = [90_000.0, 70_000.0, 80_000.0].map(|value| vec![(place.clone(), value)]);
        let result = TableResult::new(&published, 3, found.into());
        let figure = result.simulated(&place).unwrap();
        assert_eq!(
            (figure.median, figure.least, figure.most),
            (80e3, 70e3, 90e3)
        );
        assert!((figure.spread() - 0.125).abs() < 1e-12);
        let cell = |c: &&Cell| c.published.place == place;
        let ratio = result.cells.iter().find(cell).unwrap().ratio.unwrap();
        assert!((ratio - 80_000.0 / 76_060.0).abs() < 1e-12);
        assert_eq!(result.all.cells, 1);
    }
}
