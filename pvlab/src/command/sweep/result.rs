//! A parameter of a simulated machine at several values.

use crate::figures::{Bistable, Run, Support, median, none, rounds_interval};
use crate::human::time;
use crate::record::Record;
use serde::Serialize;
use sim::{Parameter, SpecError, Unit};

const MOST_VALUES: usize = 1000;

#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    pub parameter: &'static Parameter,
    /// In its unit.
    pub values: Vec<f64>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepSyntax {
    #[error(
        "--sweep '{0}' is not of the form PARAMETER=FROM..TO:log:N, PARAMETER=FROM..TO:lin:N or PARAMETER=VALUE,VALUE"
    )]
    Form(String),
    #[error("--sweep {0}: a sweep has 2 to {MOST_VALUES} values")]
    Count(String),
    /// A value that is there twice, perhaps since a parameter that counts takes whole numbers.
    #[error("--sweep {text}: the value {value} is there twice; give fewer")]
    Twice {
        text: String,
        /// The value, in the parameter's unit.
        value: f64,
    },
    #[error("{0} is swept over, so --set cannot set it; leave one out")]
    AlsoSet(&'static str),
    #[error("--sweep {0}: a logarithmic sweep takes only values above 0")]
    Logarithm(String),
    #[error(transparent)]
    Spec(#[from] SpecError),
}

impl Sweep {
    /// Reads `PARAMETER=FROM..TO:log:N`, `PARAMETER=FROM..TO:lin:N` or `PARAMETER=VALUE,VALUE...`.
    ///
    /// # Errors
    /// If it is none of these.
    pub(crate) fn parse(text: &str) -> Result<Self, SweepSyntax> {
        let form = || SweepSyntax::Form(text.to_owned());
        let (name, values) = text.split_once('=').ok_or_else(form)?;
        let parameter = sim::parameter(name.trim())?;
        let values: Vec<f64> = match values.split_once("..") {
            None => (values.split(',').map(|value| parameter.parse(value.trim())))
                .collect::<Result<_, _>>()?,
            Some((from, rest)) => {
                let parts: Vec<_> = rest.split(':').collect();
                let &[to, scale, count] = &parts[..] else {
                    return Err(form());
                };
                let (from, to) = (parameter.parse(from.trim())?, parameter.parse(to.trim())?);
                let count: usize = count.trim().parse().map_err(|_| form())?;
                if !(2..=MOST_VALUES).contains(&count) {
                    return Err(SweepSyntax::Count(text.to_owned()));
                }
                let share = |i: usize| i as f64 / (count - 1) as f64;
                match scale {
                    "lin" => (0..count).map(|i| from + (to - from) * share(i)).collect(),
                    "log" if from <= 0.0 || to <= 0.0 => {
                        return Err(SweepSyntax::Logarithm(text.to_owned()));
                    }
                    "log" => (0..count)
                        .map(|i| from * (to / from).powf(share(i)))
                        .collect(),
                    _ => return Err(form()),
                }
            }
        };
        // Digits that nobody would type are not meant.
        let values: Vec<_> = values.into_iter().map(|v| rounded(parameter, v)).collect();
        if !(2..=MOST_VALUES).contains(&values.len()) {
            return Err(SweepSyntax::Count(text.to_owned()));
        }
        let twice = |(i, value): &(usize, &f64)| values[..*i].contains(value);
        if let Some((_, &value)) = values.iter().enumerate().find(twice) {
            let text = text.to_owned();
            return Err(SweepSyntax::Twice { text, value });
        }
        Ok(Self { parameter, values })
    }

    /// A value as people read it.
    pub(crate) fn name_of(&self, value: f64) -> String {
        match self.parameter.unit {
            Unit::Ns => time(value),
            Unit::Count | Unit::Factor | Unit::Switch => value.to_string(),
        }
    }
}

fn rounded(parameter: &Parameter, value: f64) -> f64 {
    match parameter.unit {
        Unit::Count | Unit::Switch => value.round(),
        Unit::Ns | Unit::Factor => (value * 1e3).round() / 1e3,
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// The value, in the parameter's unit.
    pub value: f64,
    pub locks: Vec<LockAt>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LockAt {
    pub lock: String,
    /// Acquisitions per second in each round.
    #[serde(serialize_with = "none::figures")]
    pub rounds: Vec<f64>,
    /// Their median.
    #[serde(serialize_with = "none::figure")]
    pub acquisitions_per_s: f64,
    /// The two states that the rounds were in, if they fall into two.
    pub bistable: Option<Bistable>,
    /// Median of the ratios to the first lock in the same round.
    #[serde(serialize_with = "none::figure")]
    pub ratio: f64,
    /// The ratio's interval over seeds, if there are enough rounds.
    #[serde(serialize_with = "none::ends")]
    pub ratio_interval: Option<(f64, f64)>,
    pub ratio_interval_is: Option<Support>,
}

impl Point {
    /// From the records of all locks, `rounds` of each.
    pub(crate) fn new(value: f64, records: &[Record], rounds: usize) -> Self {
        let rate = |record: &Record| Run::first(record).map_or(0.0, |run| run.throughput());
        let of_lock = |records: &[Record]| records.iter().map(rate).collect::<Vec<_>>();
        let first = of_lock(&records[..rounds]);
        let locks = records.chunks_exact(rounds).map(|records| {
            let rates = of_lock(records);
            let ratios: Vec<_> = rates.iter().zip(&first).map(|(a, b)| a / b).collect();
            let (ratio_interval, ratio_interval_is) = rounds_interval(&ratios).unzip();
            LockAt {
                lock: records[0].vms[0].lock.clone(),
                acquisitions_per_s: median(&rates).unwrap_or(0.0),
                bistable: Bistable::of(&rates),
                ratio: none::median_ratio(&ratios),
                ratio_interval,
                ratio_interval_is,
                rounds: rates,
            }
        });
        Self {
            value,
            locks: locks.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_linear_logarithmic_or_lists() {
        let values = |text| Sweep::parse(text).unwrap().values;
        assert_eq!(values("kick_ns=1us..100us:log:3"), [1e3, 1e4, 1e5]);
        assert_eq!(values("kick_ns=0..10:lin:3"), [0.0, 5.0, 10.0]);
        assert_eq!(values("kick_ns=1us, 2us,4ms"), [1e3, 2e3, 4e6]);
        assert_eq!(values("burst=1..8:log:4"), [1.0, 2.0, 4.0, 8.0]);
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        for (text, what) in [
            ("kick_ns", "not of the form"),
            ("kick_ns=1..2", "not of the form"),
            ("kick_ns=1..2:cubic:3", "not of the form"),
            ("kick_ns=1..2:log:3:4", "not of the form"),
            ("kick_ns=0..2:log:3", "above 0"),
            ("kick_ns=1..2:log:1", "2 to 1000"),
            ("kick_ns=1", "2 to 1000"),
            ("kick_ns=5us,5000", "the value 5000 is there twice"),
            ("burst=1..4:log:8", "the value 1 is there twice"),
            ("kik_ns=1,2", "did you mean 'kick_ns'?"),
            ("kick_ns=1,x", "'x' is not a number"),
        ] {
            let error = Sweep::parse(text).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
