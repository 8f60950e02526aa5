//! What follows from comparisons at several degrees of overcommit.

use crate::command::compare::result::{Comparison, LockResult, Ratio, Verdict};
use crate::figures::none;
use crate::human::{nanos, rate, ratio, ratios};
use serde::Serialize;
use std::fmt;

/// A cell: how many vCPUs, beside whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Place {
    /// vCPUs for each CPU.
    pub overcommit: usize,
    /// Busy threads of others on the same CPUs.
    pub neighbours: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = if self.neighbours == 0 {
            "alone"
        } else {
            "beside neighbours"
        };
        write!(f, "{} a CPU, {beside}", self.overcommit)
    }
}

/// What to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Choice {
    /// Paravirtual locks on.
    On,
    /// Off.
    Off,
    /// It makes no difference.
    Either,
    /// It depends on the overcommit.
    Depends,
    /// The evidence does not tell.
    Unknown,
}

/// One cell's figures.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    #[serde(flatten)]
    pub place: Place,
    /// Each lock's, in the order of the report.
    pub locks: Vec<LockCell>,
    /// Paravirtual over native, with what may be said of it.
    #[serde(skip)]
    pub paravirtual: Option<Ratio>,
}

/// One lock in a cell.
#[derive(Debug, Serialize)]
pub(crate) struct LockCell {
    /// Its name.
    pub lock: String,
    /// Acquisitions a second, median of the rounds.
    #[serde(serialize_with = "none::figure")]
    pub acquisitions_per_s: f64,
    /// Ratio to the native lock in the same round.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval.
    pub lo: Option<f64>,
    /// Upper end.
    pub hi: Option<f64>,
    /// Against the native lock; none of a single round.
    pub verdict: Option<Verdict>,
    /// The longest wait, ns.
    pub longest_wait_ns: Option<u64>,
}

/// The advice.
#[derive(Debug, Serialize)]
pub(crate) struct Advice {
    /// What to choose.
    pub choice: Choice,
    /// Why, in sentences.
    pub reasons: Vec<String>,
    /// The least overcommit measured at which paravirtual locks are faster, alone on the CPUs.
    pub pays_from: Option<usize>,
    /// Paravirtual over native with one vCPU for each CPU: below 1 is what it costs.
    pub without_overcommit: Option<[f64; 3]>,
    /// Everything that was measured.
    pub cells: Vec<Cell>,
}

/// An interval that is wider than this factor decides nothing if it has 1 in it.
const WIDEST: f64 = 1.5;
/// Losses without overcommit that are worth naming.
const COST: f64 = 0.95;

impl Advice {
    /// From the comparison at each place: the native lock first, the paravirtual one second.
    pub(crate) fn from(places: &[(Place, &Comparison)]) -> Self {
        let cells: Vec<_> = places
            .iter()
            .map(|(place, c)| cell(*place, &c.results))
            .collect();
        let busy: Vec<&str> = (places.iter())
            .flat_map(|(_, comparison)| &comparison.warnings)
            .filter(|warning| warning.code == "host_busy")
            .map(|warning| warning.text.as_str())
            .collect();
        decide(cells, busy.first().copied())
    }
}

fn cell(place: Place, results: &[LockResult]) -> Cell {
    let locks = results.iter().map(|result| {
        let ratio = result.ratio.as_ref();
        let typical = ratio.map(|ratio| ratio.typical);
        let throughput = result.throughput.as_ref();
        LockCell {
            lock: result.lock.to_string(),
            acquisitions_per_s: throughput.map_or(0.0, |t| t.typical.median),
            ratio: typical.and_then(|t| none::some(t.median)),
            lo: typical.and_then(|t| t.lo),
            hi: typical.and_then(|t| t.hi),
            verdict: ratio
                .filter(|r| r.typical.interval.is_some())
                .map(|r| r.verdict),
            longest_wait_ns: result.summary.wait_ns.map(|waits| waits.max),
        }
    });
    Cell {
        place,
        locks: locks.collect(),
        paravirtual: results.get(1).and_then(|result| result.ratio.clone()),
    }
}

/// What one cell says of paravirtual locks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Faster,
    Slower,
    Same,
    Nothing,
}

impl Cell {
    fn says(&self) -> Says {
        let Some(ratio) = &self.paravirtual else {
            return Says::Nothing;
        };
        match (ratio.verdict, ratio.typical.ends()) {
            (Verdict::Faster, _) => Says::Faster,
            (Verdict::Slower, _) => Says::Slower,
            // Without a level it is a range of rounds, which tells nothing about others.
            (_, Some((lo, hi)))
                if ratio
                    .typical
                    .interval
                    .is_some_and(|is| is.level.is_some() && is.n > 2)
                    && hi / lo <= WIDEST =>
            {
                Says::Same
            }
            _ => Says::Nothing,
        }
    }

    /// Paravirtual over native, in words.
    fn ratio_in_words(&self) -> String {
        let Some(typical) = self.paravirtual.as_ref().map(|ratio| ratio.typical) else {
            return "an unknown number of".to_owned();
        };
        match typical.ends() {
            Some(ends) => format!("{} ({})", ratio(typical.median), ratios(ends)),
            None => ratio(typical.median),
        }
    }
}

pub(super) fn decide(cells: Vec<Cell>, busy: Option<&str>) -> Advice {
    let at = |is: fn(&Place) -> bool| cells.iter().filter(move |cell| is(&cell.place));
    let alone = |p: &Place| p.overcommit == 1 && p.neighbours == 0;
    let flat = at(alone).next();
    let crowded: Vec<_> = at(|p| p.overcommit > 1 || p.neighbours > 0).collect();
    let count = |says: Says| crowded.iter().filter(|cell| cell.says() == says).count();
    let (faster, slower, same) = (count(Says::Faster), count(Says::Slower), count(Says::Same));
    let costs = flat.is_some_and(|cell| cell.says() == Says::Slower);
    let mut choice = match (faster, slower, same, count(Says::Nothing)) {
        (0, 0, 0, _) => Choice::Unknown,
        // A few cells may be undecided.
        (_, 0, 0, undecided) if faster > undecided => Choice::On,
        (0, 0, _, 0) if !costs => Choice::Either,
        (0, _, _, 0) => Choice::Off,
        (1.., _, _, _) => Choice::Depends,
        _ => Choice::Unknown,
    };
    let mut reasons = Vec::new();
    for cell in &cells {
        reasons.push(sentence(cell));
    }
    let pays_from = (cells.iter())
        .filter(|cell| cell.place.neighbours == 0 && cell.says() == Says::Faster)
        .map(|cell| cell.place.overcommit)
        .min();
    reasons.push(match pays_from {
        Some(1) => "Paravirtual locks pay already with one vCPU a CPU.".to_owned(),
        Some(from) => {
            let below = cells.iter().map(|cell| cell.place.overcommit);
            let below = below.filter(|&overcommit| overcommit < from).max();
            let below = below.map_or(String::new(), |below| format!("{below} and "));
            format!("Break-even is between {below}{from} vCPUs a CPU.")
        }
        None => "No overcommit measured here, without neighbours, makes paravirtual locks pay."
            .to_owned(),
    });
    let without = flat
        .and_then(|cell| cell.paravirtual.as_ref())
        .map(|ratio| ratio.typical);
    if let Some(typical) = without.filter(|typical| costs && typical.median < COST) {
        reasons.push(format!(
            "They cost {:.0} % where nothing is overcommitted and the lock is contended all the time.",
            100.0 * (1.0 - typical.median)
        ));
    }
    reasons.extend(worst_stall(&crowded));
    if let Some(busy) = busy {
        choice = Choice::Unknown;
        reasons.push(format!(
            "No advice, because others used the CPUs meanwhile: {busy}"
        ));
    } else if choice == Choice::Unknown {
        reasons.push(
            "No advice: too few rounds, or intervals too wide, to tell one from the other; give more --rounds, or a quiet host."
                .to_owned(),
        );
    }
    Advice {
        choice,
        reasons,
        pays_from,
        without_overcommit: without.and_then(|t| Some([t.median, t.lo?, t.hi?])),
        cells,
    }
}

fn sentence(cell: &Cell) -> String {
    let sure = match cell.says() {
        Says::Faster => "faster, for sure",
        Says::Slower => "slower, for sure",
        Says::Same => "no difference to speak of",
        Says::Nothing => "not decided: the interval is too wide",
    };
    let best = cell
        .locks
        .iter()
        .max_by(|a, b| a.acquisitions_per_s.total_cmp(&b.acquisitions_per_s));
    let best = best.map_or(String::new(), |lock| {
        format!(
            "; best is {} with {}",
            lock.lock,
            rate(lock.acquisitions_per_s)
        )
    });
    format!(
        "{}: paravirtual makes {} times native, {sure}{best}.",
        capital(&cell.place),
        cell.ratio_in_words()
    )
}

fn capital(place: &Place) -> String {
    let plural = if place.overcommit == 1 {
        "vCPU"
    } else {
        "vCPUs"
    };
    let beside = match place.neighbours {
        0 => "alone".to_owned(),
        n => format!("beside {n} busy neighbour{}", if n == 1 { "" } else { "s" }),
    };
    format!("{} {plural} a CPU, {beside}", place.overcommit)
}

/// The longest waits where CPUs are short.
fn worst_stall(crowded: &[&Cell]) -> Option<String> {
    let longest = |lock: usize| {
        let waits = crowded
            .iter()
            .filter_map(|cell| cell.locks.get(lock)?.longest_wait_ns);
        waits.max()
    };
    let (native, paravirtual) = (longest(0)?, longest(1)?);
    Some(format!(
        "The worst stall of an acquisition was {} native and {} paravirtual.",
        nanos(native),
        nanos(paravirtual)
    ))
}
