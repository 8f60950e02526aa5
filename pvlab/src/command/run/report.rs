//! The report of a run, down to each vCPU.

use crate::figures as analysis;
use crate::figures::{Exclusion, Run, Summary, WaitNs, Warning};
use crate::record::{Record, VcpuRecord};
use crate::report::cells::{
    broken_line, cpus, cut_off, futile_yields, slow_path, wait_cells, yields,
};
use crate::report::csv;
use crate::report::doc::{Block, Table, render};
use crate::report::headline::{achieved, headline, starts, workload};
use crate::report::human::{count, or_dash, or_unknown, rate, ratio, share, throughput, time};
use crate::report::mix;
use crate::report::{Context, Format, Machine, to_json};
use crate::scenario::{Mix, Scenario};
use crate::selection::SlowPath;
use crate::session::Interval;
use abi::Counter;
use pvlock::LockEvent;
use serde::Serialize;

/// The report of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunReport {
    /// What came out.
    pub record: Record,
    context: Context,
    summaries: Vec<Summary>,
    warnings: Vec<Warning>,
}

/// The report for programs.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    #[serde(flatten)]
    machine: Machine<'a>,
    exclusion: Exclusion,
    slow_paths: Vec<SlowPath>,
    summaries: &'a [Summary],
    record: &'a Record,
    warnings: &'a [Warning],
}

impl RunReport {
    /// A report of that record.
    pub(crate) fn new(context: Context, record: Record) -> Self {
        let summaries = record
            .vms
            .iter()
            .map(|vm| Summary::of(&[Run::of(&record, vm)]))
            .collect();
        let warnings = analysis::warnings_of_run(&record);
        Self {
            record,
            context,
            summaries,
            warnings,
        }
    }

    /// The report in that format; `first_line` is left out of a table whose first line was shown
    /// before the run.
    pub(crate) fn render(&self, format: Format, first_line: bool) -> String {
        match format {
            Format::Json => to_json(&self.json()),
            Format::Csv => self.csv(),
            Format::Table | Format::Markdown => render(&self.blocks(first_line), format),
        }
    }

    /// What to cry out if a lock did not exclude.
    pub(crate) fn exclusion_broken(&self) -> Option<String> {
        let broken = |(_, summary): &(&str, &Summary)| summary.exclusion == Exclusion::Broken;
        self.named()
            .find(broken)
            .map(|(lock, summary)| broken_line(lock, summary))
    }

    fn json(&self) -> Json<'_> {
        let each = self.summaries.iter().map(|summary| summary.exclusion);
        Json {
            schema: "pvlab.run/1",
            machine: self.context.machine(&self.record.scenario),
            exclusion: Exclusion::worst(each),
            slow_paths: SlowPath::of_vms(&self.record.scenario),
            summaries: &self.summaries,
            record: &self.record,
            warnings: &self.warnings,
        }
    }

    fn blocks(&self, first_line: bool) -> Vec<Block> {
        let Record {
            scenario,
            start,
            measured_s,
            first_acquisition_ms,
            interrupted,
            ..
        } = &self.record;
        let mut lines = Vec::new();
        if first_line {
            lines.push(headline(&self.context, scenario));
        }
        lines.push(workload(scenario));
        lines.extend(SlowPath::lines(&SlowPath::of_vms(scenario)));
        lines.extend(achieved(scenario, self.named()));
        lines.extend(starts([start].into_iter()));
        lines.push(format!(
            "measured {measured_s:.3} s{}; {}",
            if *interrupted { ", interrupted" } else { "" },
            first_acquisition_ms.map_or_else(
                || "no acquisition at all".to_owned(),
                |ms| format!("first acquisition {ms:.1} ms after the launch")
            )
        ));
        lines.extend(self.uneven_end());
        let mut blocks = vec![
            Block::Lines(lines),
            Block::Table(self.vms()),
            Block::Table(self.waiting()),
        ];
        let named = self.named().enumerate();
        let named = named.map(|(vm, (lock, summary))| (format!("{vm} {lock}"), summary));
        blocks.extend(cut_off(named.clone()).map(|line| Block::Lines(vec![line])));
        blocks.extend(mix::blocks(scenario, named));
        blocks.push(Block::Table(self.vcpus()));
        if scenario.workload.mix != Mix::Exclusive {
            let vcpus = self.each_vcpu();
            let vcpus = vcpus.map(|(vm, _, number, vcpu)| {
                let length_s = self.record.at_work_s(&self.record.vms[vm]);
                (format!("{vm}.{number}"), vcpu, length_s)
            });
            blocks.push(Block::Table(mix::vcpus(vcpus)));
        }
        blocks.push(Block::Table(self.threads().without_empty_columns("-")));
        blocks.push(Block::Lines(
            self.warnings
                .iter()
                .map(|warning| format!("warning: {}", warning.text))
                .collect(),
        ));
        blocks
    }

    /// When the vCPUs were done with a fixed number of acquisitions: figures are of the time before.
    fn uneven_end(&self) -> Option<String> {
        let firsts = (self.record.vms.iter()).filter_map(|vm| vm.first_done_s);
        let first = firsts.min_by(f64::total_cmp)?;
        let last = match self.record.interrupted {
            true => "some were not".to_owned(),
            false => format!("the last after {}", time(self.record.measured_s * 1e9)),
        };
        Some(format!(
            "the first vCPU was done after {}, {last}: rates, fairness and waits are of the time in which \
             all vCPUs of a VM were at work",
            time(first * 1e9)
        ))
    }

    fn named(&self) -> impl Iterator<Item = (&str, &Summary)> + Clone {
        self.record
            .vms
            .iter()
            .map(|vm| vm.lock.as_str())
            .zip(&self.summaries)
    }

    fn vms(&self) -> Table {
        let mut table = Table::new(
            "Each VM: acquisitions per second of all its vCPUs, fairness among them, waiting times",
            &[
                "VM",
                "lock",
                "throughput",
                "Jain",
                "max/min",
                "wait p50",
                "p99",
                "p99.9",
                "max",
            ],
        );
        table.left.push(1);
        for (number, (lock, summary)) in self.named().enumerate() {
            let mut row = vec![
                number.to_string(),
                lock.to_owned(),
                throughput(summary.rate(summary.acquisitions)),
                or_dash(summary.fairness.jain, |jain| format!("{jain:.3}")),
                or_dash(summary.fairness.max_over_min, ratio),
            ];
            row.extend(wait_cells(summary.wait_ns));
            table.row(row);
        }
        table
    }

    fn waiting(&self) -> Table {
        let mut table = Table::new(
            "Each VM: how it waited",
            &[
                "VM",
                "slow path",
                "contended",
                "halts",
                "kicks",
                "spurious",
                "yields",
                "futile",
                "exits",
                "CPUs",
            ],
        );
        table.left.push(1);
        for (number, (spec, summary)) in self
            .record
            .scenario
            .vms
            .iter()
            .zip(&self.summaries)
            .enumerate()
        {
            table.row(vec![
                number.to_string(),
                slow_path(spec.lock).to_owned(),
                share(summary.contended, summary.acquisitions),
                rate(summary.rate(summary.halts)),
                rate(summary.rate(summary.kicks)),
                rate(summary.rate(summary.spurious_wakes)),
                yields(spec.lock, summary),
                futile_yields(summary),
                rate(summary.exits_per_s()),
                cpus(summary),
            ]);
        }
        table.without_empty_columns("-")
    }

    /// Every vCPU with the number of its VM and its own within it.
    fn each_vcpu(&self) -> impl Iterator<Item = (usize, &str, usize, &VcpuRecord)> {
        self.record.vms.iter().enumerate().flat_map(|(vm, record)| {
            let numbered = record.vcpus.iter().enumerate();
            numbered.map(move |(vcpu, of)| (vm, record.lock.as_str(), vcpu, of))
        })
    }

    fn vcpus(&self) -> Table {
        let mut table = Table::new(
            "Each vCPU: its acquisitions per second, share of them contended, halts and kicks, \
             waiting times",
            &[
                "VM.vCPU",
                "throughput",
                "contended",
                "halts",
                "kicks",
                "wait p50",
                "p99",
                "p99.9",
                "max",
            ],
        );
        for (vm, _, number, vcpu) in self.each_vcpu() {
            let length_s = self.record.at_work_s(&self.record.vms[vm]);
            let per_second = |count: u64| rate(count as f64 / length_s.max(1e-9));
            let acquisitions = vcpu.counter(Counter::Acquisitions);
            let mut row = vec![
                format!("{vm}.{number}"),
                throughput(acquisitions as f64 / length_s.max(1e-9)),
                share(
                    vcpu.counter(Counter::Lock(LockEvent::Contended)),
                    acquisitions,
                ),
                per_second(vcpu.counter(Counter::Halts)),
                per_second(vcpu.counter(Counter::Kicks)),
            ];
            row.extend(wait_cells(WaitNs::pooled(vcpu.all_waits())));
            table.row(row);
        }
        table
    }

    fn threads(&self) -> Table {
        let mut table = Table::new(
            "Each vCPU: host CPU, time on it, how often its thread blocked and was preempted, \
             spurious wakes",
            &[
                "VM.vCPU",
                "CPU",
                "CPU time",
                "steal",
                "blocked",
                "preempted",
                "spurious",
                "exits by kind",
            ],
        );
        table.left.push(7);
        for (vm, _, number, vcpu) in self.each_vcpu() {
            let exits: Vec<_> = vcpu
                .exits
                .iter()
                .map(|(kind, n)| format!("{kind} {}", count(*n)))
                .collect();
            table.row(vec![
                format!("{vm}.{number}"),
                or_dash(vcpu.cpu, |cpu| cpu.to_string()),
                or_unknown(vcpu.cpu_ns, |ns| time(ns as f64)),
                or_dash(vcpu.steal_ns, |ns| time(ns as f64)),
                or_unknown(vcpu.voluntary_switches, count),
                or_unknown(vcpu.involuntary_switches, count),
                count(vcpu.counter(Counter::Lock(LockEvent::PvSpuriousWakeup))),
                if exits.is_empty() {
                    "-".to_owned()
                } else {
                    exits.join(", ")
                },
            ]);
        }
        table
    }

    fn csv(&self) -> String {
        let fixed = [
            "vm",
            "lock",
            "vcpu",
            "cpu",
            "measured_s",
            "wait_p50_ns",
            "wait_p99_ns",
            "wait_p999_ns",
            "wait_max_ns",
            "cpu_ns",
            "steal_ns",
            "voluntary_switches",
            "involuntary_switches",
            "exits",
            "exclusion",
        ];
        let sides = [
            "read_wait_p50_ns",
            "read_wait_p99_ns",
            "read_wait_p999_ns",
            "read_wait_max_ns",
            "write_wait_p50_ns",
            "write_wait_p99_ns",
            "write_wait_p999_ns",
            "write_wait_max_ns",
        ];
        let counters = Counter::all().map(Counter::name);
        let header = fixed.into_iter().chain(counters).chain(sides);
        let header = header.chain([
            "wait_cut_off_ns",
            "read_wait_cut_off_ns",
            "write_wait_cut_off_ns",
            "starved",
            "finished_s",
            "first_done_s",
            "first_done_acquisitions",
            "machine",
        ]);
        let mut text = csv::row(header.map(str::to_owned));
        for (vm, lock, number, vcpu) in self.each_vcpu() {
            let whole = &vcpu.whole;
            let waits = WaitNs::pooled(whole.waits.iter().chain(&whole.read_waits));
            let cells = [
                vm.to_string(),
                lock.to_owned(),
                number.to_string(),
                csv::maybe(vcpu.cpu),
                self.record.measured_s.to_string(),
                csv::maybe(waits.map(|waits| waits.p50)),
                csv::maybe(waits.map(|waits| waits.p99)),
                csv::maybe(waits.map(|waits| waits.p999)),
                csv::maybe(waits.map(|waits| waits.max)),
                csv::maybe(vcpu.cpu_ns),
                csv::maybe(vcpu.steal_ns),
                csv::maybe(vcpu.voluntary_switches),
                csv::maybe(vcpu.involuntary_switches),
                vcpu.exits.values().sum::<u64>().to_string(),
                self.summaries[vm].exclusion.name().to_owned(),
            ];
            let counters = Counter::all().map(|counter| whole.counter(counter).to_string());
            let reads = WaitNs::pooled(&whole.read_waits);
            let writes = whole.read_waits.as_ref();
            let writes = writes.and_then(|_| WaitNs::pooled(&whole.waits));
            let sides = [reads, writes].into_iter().flat_map(mix::csv_waits);
            let cut_off =
                [waits, reads, writes].map(|w| csv::maybe(w.and_then(|w| w.longest_cut_off)));
            let mut starving = self.summaries[vm].starving.iter();
            let first_done = vcpu.all_at_work.as_ref();
            let last = [
                starving.any(|starving| starving.vcpu == number).to_string(),
                csv::maybe(vcpu.finished_s),
                csv::maybe(self.record.vms[vm].first_done_s),
                csv::maybe(first_done.map(|figures| figures.counter(Counter::Acquisitions))),
                self.record.scenario.machine_name(),
            ];
            let cells = cells.into_iter().chain(counters).chain(sides);
            text += &csv::row(cells.chain(cut_off).chain(last));
        }
        text
    }
}

/// The lines for a statistics interval, one for each VM.
pub(crate) fn interval_lines(scenario: &Scenario, interval: &Interval) -> Vec<String> {
    let per_second = |count: u64| rate(count as f64 / interval.length_s.max(1e-9));
    let numbered = scenario.vms.iter().zip(&interval.vms).enumerate();
    let without = if interval.without_cpu_s > 0.0 {
        format!(
            "  (not counting {:.2} s without CPU)",
            interval.without_cpu_s
        )
    } else {
        String::new()
    };
    numbered
        .map(|(number, (spec, vm))| {
            format!(
                "{:>7.2} s  VM {number} {:<12}  {:>9} acquisitions  {:>9} contended  {:>9} halts  \
                 {:>9} kicks{without}",
                interval.at_s,
                spec.lock,
                per_second(vm.acquisitions),
                per_second(vm.contended),
                per_second(vm.halts),
                per_second(vm.kicks),
            )
        })
        .collect()
}
