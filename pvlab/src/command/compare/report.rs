//! The report of a comparison.

use super::result::{Comparison, LockResult, Typical};
use crate::figures::none;
use crate::human::{count, listed, or_dash, rates, ratio, ratios, throughput, time};
use crate::record::Ended;
use crate::report::lock::{LockRow, cut_off, evenness, named, slow_path, waiting};
use crate::report::{
    Block, Columns, Format, Report, Table, account, achieved, headline, lock, mix, starts, workload,
};
use crate::scenario::Length;

impl Report for Comparison {
    fn csv(&self) -> String {
        let machine = self.plan.run.machine_name();
        compared(self.rounds_done)
            .include(evenness().and(counts()).and(rest()), |row| row.row())
            .value("machine", move |_| machine.clone())
            .csv(&self.results)
    }

    fn blocks(&self, format: Format) -> Vec<Block> {
        let (run, done, of) = (&self.plan.run, self.rounds_done, self.plan.rounds);
        let rounds = match self.ended {
            Ended::Complete => format!("rounds: {done}, interleaved and rotated"),
            Ended::Interrupted => format!("interrupted after {done} of {of} rounds"),
            Ended::ExclusionBroken => {
                format!("stopped after {done} of {of} rounds: exclusion broken")
            }
        };
        let locks = self.locks();
        let mut lines = vec![headline(&self.context, run), workload(run), rounds];
        lines.extend(self.slow_paths.iter().map(ToString::to_string));
        lines.extend(achieved(run, &locks));
        lines.extend(starts(
            self.results.iter().flat_map(|result| &result.starts),
        ));
        lines.extend(self.uneven_end());
        let fairness =
            "Fairness among vCPUs (Jain index, most over least acquisitions), and waiting times";
        let even = named("lock").and(slow_path()).and(evenness());
        let mut blocks = vec![
            Block::Lines(lines),
            Block::Table(self.throughput()),
            Block::Table(even.table(fairness, locks.clone())),
            Block::Table(waits(&locks)),
        ];
        blocks.extend(cut_off(&locks));
        blocks.extend(mix::blocks(run, &locks));
        blocks.push(lock::warnings(&self.warnings));
        blocks.extend(account::explain(&self.explained, format));
        blocks
    }
}

impl Comparison {
    /// What to cry out if a lock did not exclude.
    pub(crate) fn exclusion_broken(&self) -> Option<String> {
        lock::exclusion_broken(&self.locks())
    }

    fn locks(&self) -> Vec<LockRow<'_>> {
        self.results.iter().map(LockResult::row).collect()
    }

    fn throughput(&self) -> Table {
        let title = format!(
            "Throughput of all vCPUs together, and its ratio to {} in the same round (median; 95 % \
             interval by Student's t on logarithms)",
            self.baseline
        );
        compared(self.rounds_done).table(title, &self.results)
    }

    /// When the vCPUs were done with a fixed number of acquisitions: figures are of the time before.
    fn uneven_end(&self) -> Option<String> {
        // The run in which a lock broke is in its sums and in no round.
        if !matches!(self.plan.run.length, Length::Iterations(_))
            || self.ended == Ended::ExclusionBroken
        {
            return None;
        }
        let started = |result: &&LockResult| !result.starts.is_empty();
        let each = self.results.iter().filter(started);
        let each = listed(each.map(|LockResult { lock, summary, .. }| {
            let [first, last] = [summary.measured_s, summary.whole_s].map(|s| time(s * 1e9));
            format!("{first} of {last} ({lock})")
        }));
        (!each.is_empty()).then(|| {
            format!(
                "the first vCPU was done after {each} that the last took, all rounds together: rates, \
                 fairness and waits are of the time in which all vCPUs were at work"
            )
        })
    }
}

impl LockResult {
    fn row(&self) -> LockRow<'_> {
        LockRow {
            vm: None,
            lock: self.lock,
            summary: &self.summary,
        }
    }
}

fn waits(locks: &[LockRow<'_>]) -> Table {
    let title = "How it waited: acquisitions of all rounds, share of them contended, rates of \
                 events, CPUs used";
    let columns = named("lock").and(counts());
    let table = columns.table(title, locks.iter().copied());
    table.without_empty_columns("-")
}

fn compared<'a>(rounds: usize) -> Columns<'a, &'a LockResult> {
    let made = |row: &&LockResult| Some(row.throughput.as_ref()?.typical);
    let compared = |row: &&LockResult| Some(row.ratio.as_ref()?.typical);
    Columns::new()
        .text("lock", "lock", |row: &&LockResult| row.lock.name())
        .value("is_baseline", |row| row.is_baseline)
        .value("rounds", move |_| rounds)
        .value("throughput_per_s", move |row| none::some(made(row)?.median))
        .cell("acquisitions", move |row| {
            or_dash(made(row), |is| throughput(is.median))
        })
        .value("throughput_lo_per_s", move |row| made(row)?.lo)
        .value("throughput_hi_per_s", move |row| made(row)?.hi)
        .cell("interval", move |row| {
            or_dash(made(row).and_then(Typical::ends), rates)
        })
        .value("ratio", move |row| Some(compared(row)?.median))
        .cell("ratio", move |row| {
            or_dash(compared(row), |is| ratio(is.median))
        })
        .value("ratio_lo", move |row| compared(row)?.lo)
        .value("ratio_hi", move |row| compared(row)?.hi)
        .cell("interval", move |row| {
            let other = compared(row).filter(|_| !row.is_baseline);
            or_dash(other.and_then(Typical::ends), ratios)
        })
        .value("verdict", |row| Some(row.ratio.as_ref()?.verdict.name()))
        .cell("verdict", |row| match &row.ratio {
            _ if row.is_baseline => "baseline".to_owned(),
            ratio => or_dash(ratio.as_ref(), |ratio| ratio.verdict.name().to_owned()),
        })
        .left()
}

fn counts<'a>() -> Columns<'a, LockRow<'a>> {
    Columns::new()
        .value("measured_s", |row: &LockRow<'_>| row.summary.measured_s)
        .value("acquisitions", |row| row.summary.acquisitions)
        .cell("acquired", |row| count(row.summary.acquisitions))
        .and(waiting())
}

/// What no table shows.
fn rest<'a>() -> Columns<'a, LockRow<'a>> {
    let columns = Columns::new()
        .value("critical_ns", |row: &LockRow<'_>| row.summary.critical_ns)
        .value("outside_ns", |row| row.summary.outside_ns)
        .value("probe_ns", |row| row.summary.probe_ns)
        .value("exclusion", |row| row.summary.exclusion.name());
    columns
        .include(mix::columns(), |row: &LockRow<'a>| row.summary)
        .value("waits_cut_off", |row| Some(row.summary.wait_ns?.cut_off))
        .value("wait_cut_off_ns", |row| {
            row.summary.wait_ns?.longest_cut_off
        })
}
