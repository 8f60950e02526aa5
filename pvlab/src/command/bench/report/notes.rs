//! What was run, above the tables; and what the tables do not tell, below.

use super::tables::rate;
use crate::command::bench::plan::{BenchPlan, Load, TableKind};
use crate::command::bench::result::{BenchResult, CellResult, Measure, RunFigures};
use crate::figures::{never_told, warnings_of_repeats};
use crate::human::{count, plural, time};
use crate::record::{Context, Ended};
use crate::report::headline;
use crate::scenario::{BenchKind, Data, Length, Scenario, VmSpec, WorkTime};

/// What was run.
pub(crate) fn head(context: &Context, result: &BenchResult) -> Vec<String> {
    let plan = &result.plan;
    let (lock, vcpus) = (plan.locks[0], plan.most_vcpus());
    let vms = vec![VmSpec { lock, vcpus }];
    let scenario = Scenario {
        vms,
        ..plan.run.clone()
    };
    vec![headline::headline(context, &scenario), workload(plan)]
}

fn workload(plan: &BenchPlan) -> String {
    let mut text = plan.workload.name().to_owned();
    match (plan.workload, plan.layout, plan.columns.first()) {
        (BenchKind::RwsemBench, TableKind::Times, _) => {
            text += ", load in pauses unless it has a unit";
        }
        (BenchKind::RwsemBench, _, Some(column)) => match column.load {
            Load::Pauses(n) => {
                let n = usize::try_from(n).unwrap_or(usize::MAX);
                text += &format!(", {} inside", plural(n, "pause"));
            }
            Load::Ns(work) => text += &format!(", {} inside", time(work.ns())),
        },
        _ => {}
    }
    if plan.columns.iter().any(|column| column.split) {
        text += ", threads read or write";
    }
    if plan.random_mix {
        text += ", which operations read is a matter of chance";
    }
    let work = &plan.run.workload;
    if work.outside != WorkTime::ZERO {
        let spread = headline::on_average(work.outside_spread);
        text += &format!(", {}{spread} between", time(work.outside.ns()));
    }
    if work.data != Data::OwnLine {
        text += &format!(", {}", headline::data(work.data));
    }
    if plan.run.latency {
        text += ", every acquisition timed";
    }
    let units = Measure::of(plan.layout).iter().map(|of| of.unit());
    let units: Vec<_> = units.collect();
    let length = match plan.run.length {
        Length::Duration(duration) => format!("{} each", time(duration.as_nanos() as f64)),
        Length::Iterations(n) => format!("{n} operations by each thread"),
    };
    let rounds = match plan.rounds {
        1 => "one round".to_owned(),
        n => format!("median of {n} interleaved rounds"),
    };
    text + &format!(": {}; {length}, {rounds}", units.join(" and "))
}

/// What the tables do not tell.
pub(crate) fn foot(result: &BenchResult) -> Vec<String> {
    let plan = &result.plan;
    let mut lines = Vec::new();
    let runs = || {
        let cells = result.cells.iter();
        cells.flat_map(|cell| cell.runs.iter().map(move |run| (cell, run)))
    };
    let absences = warnings_of_repeats(runs().map(|(_, run)| (run.repeated, &*run.without_cpu)));
    let absences = absences.iter().map(|warning| &warning.text);
    lines.extend(absences.map(|text| format!("warning: {text}")));
    if result.ended != Ended::Complete {
        let done = runs().count();
        let all = plan.order(0).len() * plan.rounds;
        lines.push(format!(
            "not complete: {done} of {all} runs; a dash stands for cells without any"
        ));
    }
    if plan.rounds == 1 {
        lines.push("one round: nothing is known of the spread from run to run".to_owned());
    }
    let caution = plan.run.machine.facts().caution.as_ref();
    lines.extend(caution.map(|caution| caution.of_threads.to_owned()));
    let reported = runs().any(|(_, run)| run.preempted_reported);
    lines.extend(never_told(&plan.run, reported).map(str::to_owned));
    // A fixed number of operations is made by everybody.
    let by_time = matches!(plan.run.length, Length::Duration(_));
    if let Some((cell, run)) = runs()
        .filter(|(cell, _)| by_time && cell.threads > 1)
        .max_by(|a, b| unevenness(a.1).total_cmp(&unevenness(b.1)))
    {
        lines.push(format!(
            "most uneven run: {} to {} operations of a {} ({})",
            count(run.thread_min),
            count(run.thread_max),
            match plan.workload {
                BenchKind::Pipe => "pair",
                _ => "thread",
            },
            name(plan, cell)
        ));
    }
    type Wait = fn(&RunFigures) -> Option<u64>;
    let waits: [(&str, Wait); 2] = [
        ("write", |run| run.write_wait_max_ns),
        ("read", |run| run.read_wait_max_ns),
    ];
    for (kind, wait) in waits {
        let longest = runs().filter_map(|(cell, run)| Some((wait(run)?, cell)));
        if let Some((ns, cell)) = longest.max_by_key(|(ns, _)| *ns).filter(|(ns, _)| *ns > 0) {
            let (longest, name) = (time(ns as f64), name(plan, cell));
            lines.push(format!("longest wait of a {kind}: {longest} ({name})"));
        }
    }
    for cell in &result.cells {
        // What the other figures of a cell tell is made of the same.
        if let Some(figure) = cell.figures.first()
            && let Some(states) = figure.bistable
        {
            lines.push(format!(
                "warning: {}: two states, far apart: {} {unit} in {}, {} {unit} in {}; the median is of one of \
                 them",
                name(plan, cell),
                rate(states.low),
                plural(states.low_rounds, "round"),
                rate(states.high),
                plural(states.high_rounds, "round"),
                unit = figure.unit
            ));
        }
    }
    let idle = runs().filter(|(_, run)| run.operations == 0).count();
    if idle > 0 {
        lines.push(format!(
            "warning: no operation at all in {}; what cannot be told of them is \"none\"",
            plural(idle, "run")
        ));
    }
    if runs().any(|run| run.0.threads > 1) && runs().all(|run| run.1.contended == 0) {
        lines.push("0 contended acquisitions: nobody ever waited for a lock".to_owned());
    }
    lines
}

fn unevenness(run: &RunFigures) -> f64 {
    // A thread that did nothing is worse than any that did something.
    run.thread_max as f64 / (run.thread_min as f64).max(0.5)
}

fn name(plan: &BenchPlan, cell: &CellResult) -> String {
    let threads = plural(cell.threads, "thread");
    match plan.layout {
        TableKind::PerThread | TableKind::RoundTrips => format!("{}, {threads}", cell.lock),
        TableKind::Rates => format!("{} {}, {threads}", cell.lock, cell.column.name),
        TableKind::Times => format!(
            "{}/{} load {}, {threads}",
            cell.lock, cell.column.ratio, cell.column.load
        ),
    }
}
