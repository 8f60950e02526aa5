//! How much work makes a critical section, and a pause between two, last as long as was asked for.
//!
//! What is done there besides the work is known ([`Costs`]) and taken off it. So are the looks at the clock
//! that some turns have and others have not, as they are a sample: they last as long as all others.
//! How much of a turn lies between its two looks is known too.

use super::choice::Choice;
use super::exponential;
use crate::work::{ps_in_ticks, units};
use abi::hist::Hist;
use abi::{Costs, Params, Sampled, flags};
use core::hint::black_box;

/// What is longer than so many times what was asked for,
const INTERRUPTED_TIMES: u64 = 4;
/// and this, ps, has been interrupted: by the host, or by other vCPUs on the same CPU. That is no part of the
/// critical section.
const INTERRUPTED_PS: u64 = 250_000;
/// The same of a mean: one in e^32 random times is longer than that.
const INTERRUPTED_MEANS: u64 = 32;

/// From a sample to the figure.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// To be added to what the clock has shown, ticks.
    correction: i64,
    /// Longest that was not interrupted, ticks.
    longest: u64,
}

impl Sample {
    /// `more`: how much longer it is than shown, ps.
    fn new(asked: u64, khz: u64, more: i64, random: bool) -> Self {
        let times = if random {
            INTERRUPTED_MEANS
        } else {
            INTERRUPTED_TIMES
        };
        let longest = asked.saturating_mul(times).saturating_add(INTERRUPTED_PS);
        let ticks = i64::try_from(ps_in_ticks(more.unsigned_abs(), khz)).unwrap_or(0);
        Self {
            correction: ticks * more.signum(),
            longest: ps_in_ticks(longest, khz),
        }
    }

    #[inline(always)]
    fn note(self, shown: u64, sampled: &Sampled, hist: &Hist) {
        let ticks = shown.saturating_add_signed(self.correction);
        hist.record(ticks);
        if ticks <= self.longest {
            sampled.add(ticks);
        }
    }
}

/// The critical section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    units: u64,
    sampled_units: u64,
    sample: Sample,
}

impl Section {
    /// `timed`: acquisitions are.
    pub(super) fn new(params: &Params, costs: &Costs, timed: bool) -> Self {
        let Costs {
            unit_ps, look_ps, ..
        } = *costs;
        let work = params.critical().saturating_sub(costs.section_ps);
        // A look when it is taken, unless all turns have that, and one at the end.
        let extra = if timed { look_ps } else { 2 * look_ps };
        let units_of = |ps| units(ps, unit_ps);
        let more = costs.section_more_ps;
        Self {
            units: units_of(work),
            sampled_units: units_of(work.saturating_sub(extra)),
            sample: Sample::new(params.critical(), params.tsc_khz, more, false),
        }
    }

    /// How much to work.
    #[inline(always)]
    pub(super) fn units(&self, sampled: bool) -> u64 {
        if sampled {
            self.sampled_units
        } else {
            self.units
        }
    }

    /// A section has shown that it takes so long.
    #[inline(always)]
    pub(super) fn note(&self, shown: u64, sampled: &Sampled, hist: &Hist) {
        self.sample.note(shown, sampled, hist);
    }
}

/// What is between two critical sections.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    units: u64,
    sampled_units: u64,
    sample: Sample,
    random: Option<Random>,
}

/// Work whose length is random.
#[derive(Clone, Debug)]
struct Random {
    choice: Choice,
    mean: u64,
    unit_ps: u64,
    /// What is there besides the work, ps, and more in a sample.
    besides: u64,
    look_ps: u64,
    /// What could not be taken off the work so far, as there was not so much.
    owed: u64,
    steady: bool,
}

/// Makes the choices of times others than those of locks and of reads.
const TIMES: u64 = 0x7469_6d65;

impl Outside {
    /// Of vCPU, or task, `cpu`.
    pub(super) fn new(params: &Params, costs: &Costs, cpu: u32) -> Self {
        let Costs {
            unit_ps,
            look_ps,
            outside_ps,
            ..
        } = *costs;
        let work = params.outside().saturating_sub(outside_ps);
        let units_of = |ps| units(ps, unit_ps);
        // A sample has a look when the lock has been released, and one before it is asked for.
        let (all, sampled) = (units_of(work), units_of(work.saturating_sub(2 * look_ps)));
        let random = (params.flags & flags::OUTSIDE_EXP != 0).then(|| Random {
            choice: Choice::new(
                &Params {
                    seed: params.seed ^ TIMES,
                    ..*params
                },
                cpu,
            ),
            mean: params.outside(),
            unit_ps,
            besides: outside_ps,
            look_ps,
            owed: 0,
            steady: false,
        });
        let more = costs.outside_more_ps;
        Self {
            units: all,
            sampled_units: sampled,
            sample: Sample::new(params.outside(), params.tsc_khz, more, random.is_some()),
            random,
        }
    }

    /// Draws, but always works for the mean: to find out what there is besides the work.
    pub(super) fn steady(mut self) -> Self {
        if let Some(random) = &mut self.random {
            random.steady = true;
        }
        self
    }

    /// How much to work now.
    #[inline(always)]
    pub(super) fn units(&mut self, sampled: bool) -> u64 {
        match &mut self.random {
            None if sampled => self.sampled_units,
            None => self.units,
            Some(random) => random.units(sampled),
        }
    }

    /// It has shown that it takes so long.
    #[inline(always)]
    pub(super) fn note(&self, shown: u64, sampled: &Sampled, hist: &Hist) {
        self.sample.note(shown, sampled, hist);
    }
}

impl Random {
    #[inline(always)]
    fn units(&mut self, sampled: bool) -> u64 {
        let mut ps = exponential::draw(&mut self.choice, self.mean);
        if self.steady {
            black_box(ps);
            ps = self.mean;
        }
        let looks = if sampled { 2 * self.look_ps } else { 0 };
        // Short ones would be longer than they should be, and so would be the mean: the next ones pay.
        let due = self.besides + looks + self.owed;
        self.owed = due.saturating_sub(ps).min(16 * self.mean);
        units(ps.saturating_sub(due), self.unit_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 1024; // A unit is a picosecond.

    fn params(outside_ns: u64, flags: u64) -> Params {
        Params {
            critical_ns: 4,
            critical_ps: 200,
            outside_ns,
            flags,
            tsc_khz: 1_000_000,
            ..Params::default()
        }
    }

    #[test]
    fn what_is_there_anyhow_is_taken_off_the_work() {
        let costs = Costs {
            unit_ps: UNIT,
            look_ps: 1_000,
            section_ps: 1_100,
            ..Costs::default()
        };
        let section = Section::new(&params(0, 0), &costs, false);
        assert_eq!((section.units(false), section.units(true)), (3_100, 1_100));
        let section = Section::new(&params(0, 0), &costs, true);
        assert_eq!((section.units(false), section.units(true)), (3_100, 2_100));
        let long = Costs {
            section_ps: 5_000,
            ..costs
        };
        assert_eq!(Section::new(&params(0, 0), &long, true).units(false), 0);
    }

    #[test]
    fn a_random_pause_has_its_mean_whatever_is_there_besides() {
        for (mean, besides) in [(130, 0), (130, 40), (130, 120), (10_000, 40)] {
            let costs = Costs {
                unit_ps: UNIT,
                outside_ps: besides * 1000,
                look_ps: 20_000,
                ..Costs::default()
            };
            let mut outside = Outside::new(&params(mean, flags::OUTSIDE_EXP), &costs, 3);
            let n = 100_000;
            let sum: u64 = (0..n).map(|_| outside.units(false) + besides * 1000).sum();
            let found = sum as f64 / n as f64 / 1000.0;
            assert!(
                (found / mean as f64 - 1.0).abs() < 0.05,
                "{mean} with {besides}: {found}"
            );
        }
    }
}
