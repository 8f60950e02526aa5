//! The report of a run, down to each vCPU.

use crate::figures::{Exclusion, Summary, WaitNs, Warning, warnings_of_run};
use crate::human::{count, listed, nanos, or_dash, or_unknown, rate, share, throughput, time};
use crate::record::{Context, Record, VcpuRecord, VmRecord};
use crate::report::lock::{LockRow, cut_off, evenness, named, slow_path, waits};
use crate::report::{
    Block, Columns, Format, Report, Table, achieved, headline, lock, mix, starts, workload,
};
use crate::scenario::{Mix, SlowPath};
use abi::Counter;
use pvlock::LockEvent;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "schema", rename = "pvlab.run/1")]
pub(crate) struct RunReport<'a> {
    #[serde(flatten)]
    context: &'a Context,
    exclusion: Exclusion,
    slow_paths: Vec<SlowPath>,
    summaries: Vec<Summary>,
    record: &'a Record,
    warnings: Vec<Warning>,
    /// Whether the first line of tables is still to be shown; else it was before the run.
    #[serde(skip)]
    pub first_line: bool,
}

impl<'a> RunReport<'a> {
    pub(crate) fn new(record: &'a Record) -> Self {
        let summaries = Summary::of_vms(record);
        Self {
            context: &record.context,
            exclusion: Exclusion::worst(summaries.iter().map(|summary| summary.exclusion)),
            slow_paths: SlowPath::of_vms(&record.scenario),
            warnings: warnings_of_run(record, &summaries),
            summaries,
            record,
            first_line: true,
        }
    }

    /// What to cry out if a lock did not exclude.
    pub(crate) fn exclusion_broken(&self) -> Option<String> {
        lock::exclusion_broken(&self.locks())
    }

    fn lines(&self) -> Vec<String> {
        let Record {
            context,
            scenario,
            start,
            measured_s,
            first_acquisition_ms,
            interrupted,
            ..
        } = self.record;
        let mut lines = Vec::new();
        if self.first_line {
            lines.push(headline(context, scenario));
        }
        lines.push(workload(scenario));
        lines.extend(SlowPath::lines(&self.slow_paths));
        lines.extend(achieved(scenario, &self.locks()));
        lines.extend(starts([start].into_iter()));
        let interrupted = if *interrupted { ", interrupted" } else { "" };
        let first = match first_acquisition_ms {
            None => "no acquisition at all".to_owned(),
            Some(ms) => format!("first acquisition {ms:.1} ms after the launch"),
        };
        lines.push(format!("measured {measured_s:.3} s{interrupted}; {first}"));
        lines.extend(self.uneven_end());
        lines
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

    fn locks(&self) -> Vec<LockRow<'_>> {
        let specs = self.record.scenario.vms.iter().zip(&self.summaries);
        let numbered = specs.enumerate().map(|(number, (spec, summary))| LockRow {
            vm: Some(number),
            lock: spec.lock,
            summary,
        });
        numbered.collect()
    }

    fn vms(&self) -> Table {
        let title =
            "Each VM: acquisitions per second of all its vCPUs, fairness among them, waiting times";
        let made = |row: &LockRow<'_>| throughput(row.summary.rate(row.summary.acquisitions));
        let columns = named("VM").cell("lock", |row| row.lock.name()).left();
        let columns = columns.cell("throughput", made).and(evenness());
        columns.table(title, self.locks())
    }

    fn waiting(&self) -> Table {
        let columns = named("VM").and(slow_path()).and(lock::waiting());
        let table = columns.table("Each VM: how it waited", self.locks());
        table.without_empty_columns("-")
    }

    fn vcpu_rows(&self) -> impl Iterator<Item = Row<'_>> {
        (self.record.vms.iter().enumerate()).flat_map(move |(vm, record)| {
            let numbered = record.vcpus.iter().enumerate();
            let row = move |(number, vcpu)| Row {
                of: self,
                vm,
                number,
                vcpu,
            };
            numbered.map(row)
        })
    }

    fn vcpus(&self) -> Table {
        let title = "Each vCPU: its acquisitions per second, share of them contended, halts and \
                     kicks, waiting times";
        let per_second = |counter: Counter| move |row: &Row<'_>| rate(row.per_second(counter));
        Columns::new()
            .cell("VM.vCPU", Row::name)
            .cell("throughput", |row| {
                throughput(row.per_second(Counter::Acquisitions))
            })
            .cell("contended", |Row { of, vm, vcpu, .. }| {
                let contended = vcpu.counter(Counter::Lock(LockEvent::Contended));
                let told = of.record.vms[*vm].contended().map(|_| contended);
                or_dash(told, |n| share(n, vcpu.counter(Counter::Acquisitions)))
            })
            .cell("halts", per_second(Counter::Halts))
            .cell("kicks", per_second(Counter::Kicks))
            .include(waits(""), |row| WaitNs::pooled(row.vcpu.all_waits()))
            .table(title, self.vcpu_rows())
    }

    fn threads(&self) -> Table {
        let columns = Columns::new().cell("VM.vCPU", Row::name).and(threads());
        let title = "Each vCPU: host CPU, time on it, how often its thread blocked and was \
                     preempted, spurious wakes";
        columns
            .table(title, self.vcpu_rows())
            .without_empty_columns("-")
    }
}

impl Report for RunReport<'_> {
    fn csv(&self) -> String {
        Columns::new()
            .value("vm", |row: &Row<'_>| row.vm)
            .value("lock", |row| row.vm_record().lock.clone())
            .value("vcpu", |row| row.number)
            .and(threads())
            .and(rest())
            .csv(self.vcpu_rows())
    }

    fn blocks(&self, _: Format) -> Vec<Block> {
        let (locks, scenario) = (self.locks(), &self.record.scenario);
        let mut blocks = vec![
            Block::Lines(self.lines()),
            Block::Table(self.vms()),
            Block::Table(self.waiting()),
        ];
        blocks.extend(cut_off(&locks));
        blocks.extend(mix::blocks(scenario, &locks));
        blocks.push(Block::Table(self.vcpus()));
        if scenario.workload.mix != Mix::Exclusive {
            let vcpus = self.vcpu_rows();
            let vcpus = vcpus.map(|row| (row.name(), row.vcpu, row.length_s()));
            blocks.push(Block::Table(mix::vcpus(vcpus)));
        }
        blocks.push(Block::Table(self.threads()));
        blocks.push(lock::warnings(&self.warnings));
        blocks
    }
}

/// A vCPU with the number of its VM and its own within it.
struct Row<'a> {
    of: &'a RunReport<'a>,
    vm: usize,
    number: usize,
    vcpu: &'a VcpuRecord,
}

impl Row<'_> {
    fn name(&self) -> String {
        format!("{}.{}", self.vm, self.number)
    }

    fn vm_record(&self) -> &VmRecord {
        &self.of.record.vms[self.vm]
    }

    fn length_s(&self) -> f64 {
        self.of.record.at_work_s(self.vm_record())
    }

    fn per_second(&self, counter: Counter) -> f64 {
        self.vcpu.counter(counter) as f64 / self.length_s().max(1e-9)
    }

    /// Its waits in the whole measurement: all, those for reading, and where there may be such, the others.
    fn waits(&self) -> [Option<WaitNs>; 3] {
        let whole = &self.vcpu.whole;
        let writes = whole.read_waits.as_ref().and(whole.waits.as_ref());
        let all = WaitNs::pooled(whole.waits.iter().chain(&whole.read_waits));
        let reads = WaitNs::pooled(&whole.read_waits);
        [all, reads, WaitNs::pooled(writes)]
    }
}

const SPURIOUS: Counter = Counter::Lock(LockEvent::PvSpuriousWakeup);

/// The threads, and what host and KVM counted of them.
fn threads<'a>() -> Columns<'a, Row<'a>> {
    Columns::new()
        .value("cpu", |row: &Row<'_>| row.vcpu.cpu)
        .cell("CPU", |row| or_dash(row.vcpu.cpu, |cpu| cpu.to_string()))
        .value("measured_s", |row| row.of.record.measured_s)
        .include(waits("").values_only(), |row| row.waits()[0])
        .value("cpu_ns", |row| row.vcpu.cpu_ns)
        .cell("CPU time", |row| or_unknown(row.vcpu.cpu_ns, nanos))
        .value("steal_ns", |row| row.vcpu.steal_ns)
        .cell("steal", |row| or_dash(row.vcpu.steal_ns, nanos))
        .value("voluntary_switches", |row| row.vcpu.voluntary_switches)
        .cell("blocked", |row| {
            or_unknown(row.vcpu.voluntary_switches, count)
        })
        .value("involuntary_switches", |row| row.vcpu.involuntary_switches)
        .cell("preempted", |row| {
            or_unknown(row.vcpu.involuntary_switches, count)
        })
        .cell("spurious", |row| count(row.vcpu.counter(SPURIOUS)))
        .value("exits", |row| row.vcpu.exits.values().sum::<u64>())
        .cell("exits by kind", |row| {
            let exits = row.vcpu.exits.iter();
            let exits = listed(exits.map(|(kind, n)| format!("{kind} {}", count(*n))));
            or_dash(Some(exits).filter(|exits| !exits.is_empty()), |exits| exits)
        })
        .left()
}

/// What no table shows.
fn rest<'a>() -> Columns<'a, Row<'a>> {
    let columns = Columns::new().value("exclusion", |row: &Row<'_>| {
        row.of.summaries[row.vm].exclusion.name()
    });
    let columns = Counter::all().fold(columns, |columns, counter| {
        columns.value(counter.name(), move |row| row.vcpu.whole.counter(counter))
    });
    let cut_off = |number: usize| move |row: &Row<'_>| row.waits()[number]?.longest_cut_off;
    columns
        .include(waits("read_"), |row| row.waits()[1])
        .include(waits("write_"), |row| row.waits()[2])
        .value("wait_cut_off_ns", cut_off(0))
        .value("read_wait_cut_off_ns", cut_off(1))
        .value("write_wait_cut_off_ns", cut_off(2))
        .value("starved", |row| {
            let mut starving = row.of.summaries[row.vm].starving.iter();
            starving.any(|starving| starving.vcpu == row.number)
        })
        .value("finished_s", |row| row.vcpu.finished_s)
        .value("first_done_s", |row| row.vm_record().first_done_s)
        .value("first_done_acquisitions", |row| {
            let figures = row.vcpu.all_at_work.as_ref();
            figures.map(|figures| figures.counter(Counter::Acquisitions))
        })
        .value("machine", |row| row.of.record.scenario.machine_name())
}
