//! The lines above the tables: what was run, and how it was measured.

use super::lock::LockRow;
use super::mix;
use crate::figures::{Summary, range};
use crate::host::format_cpu_list;
use crate::human::{listed, or_dash, plural, time};
use crate::record::{Context, Spinning, Start, StartReason};
use crate::scenario::{Data, Length, Placement, Scenario, SpinThreshold, Spread};

/// The first line of a report: the machine and why, the vCPUs and where.
pub fn headline(context: &Context, scenario: &Scenario) -> String {
    let (cpus, vcpus) = (&scenario.cpus, scenario.vcpus());
    let machine = scenario.machine_name();
    let mut line = format!("machine: {machine} ({})", context.machine_reason);
    // All that chance has to say in a simulated machine.
    if scenario.machine.is_simulated() {
        line += &format!(", seed {}", scenario.seed);
    }
    line += &format!(", {}", plural(vcpus, "vCPU"));
    if scenario.vms.len() != 1 {
        line += &format!(" in {}", plural(scenario.vms.len(), "VM"));
    }
    line += &format!(
        " on {} {} ({:.1} vCPUs per CPU), ",
        if cpus.len() == 1 { "CPU" } else { "CPUs" },
        format_cpu_list(cpus),
        vcpus as f64 / cpus.len().max(1) as f64,
    );
    line += &match &scenario.placement {
        Placement::Pinned => "pinned".to_owned(),
        Placement::Floating => "floating".to_owned(),
        // In the order of the vCPUs, as it is typed: ranges would read as something else.
        Placement::Map(map) => format!("pinned as {}", listed(map).replace(' ', "")),
    };
    if scenario.numa_nodes != 1 {
        line += &format!(", told of {} NUMA nodes", scenario.numa_nodes);
    }
    if scenario.noise > 0 {
        line += &format!(", {}", plural(scenario.noise, "noise thread"));
    }
    if !scenario.vcpu_is_preempted {
        line += ", vcpu_is_preempted off";
    }
    // What keeps this process from its CPUs, if anything does.
    let host = context.host.iter();
    for limit in host.flat_map(|host| host.limits.notable(cpus.len())) {
        line += &format!(", {limit}");
    }
    line
}

pub(crate) fn workload(scenario: &Scenario) -> String {
    let length = match scenario.length {
        Length::Duration(duration) => time(duration.as_nanos() as f64),
        Length::Iterations(n) => format!("{n} acquisitions by each vCPU"),
    };
    let spread = on_average(scenario.workload.outside_spread);
    let data = data(scenario.workload.data);
    format!(
        "workload: critical section {}, outside {}{spread}, {}, {data}; {length} measured; seed {}, spin \
         threshold {}",
        time(scenario.workload.critical.ns()),
        time(scenario.workload.outside.ns()),
        mix::asked(scenario),
        scenario.seed,
        match scenario.spin_threshold {
            SpinThreshold::Own => "32768 turns, auto for pv-next".to_owned(),
            SpinThreshold::Time(spun) => time(spun.as_nanos() as f64),
            given => given.to_string(),
        },
    )
}

/// What to say behind the length of work that has that spread.
pub(crate) const fn on_average(spread: Spread) -> &'static str {
    match spread {
        Spread::Fixed => "",
        Spread::Exp => " on average (exponential)",
    }
}

pub(crate) const fn data(data: Data) -> &'static str {
    match data {
        Data::OwnLine => "data on a line of its own",
        Data::SameLine => "data in the lock's line",
        Data::None => "no data (exclusion not checked)",
    }
}

/// What the workload came to, and what looking at it cost.
pub(crate) fn achieved(scenario: &Scenario, locks: &[LockRow<'_>]) -> Vec<String> {
    let each = |value: fn(&Summary) -> Option<f64>| {
        let cell = |row: &LockRow<'_>| or_dash(value(row.summary), time);
        // Locks that agree, as they nearly always do, are not listed one by one.
        match locks.first().map(cell) {
            Some(first) if locks.iter().all(|row| cell(row) == first) => first,
            _ => {
                let cells = locks.iter();
                listed(cells.map(|row| format!("{} ({})", cell(row), row.lock)))
            }
        }
    };
    // What one vCPU achieves; of several, how far they are apart.
    let ranges = locks.iter().filter_map(|row| row.summary.critical_range_ns);
    let range = match range(ranges.flatten()) {
        Some([least, most]) if scenario.vcpus() > 1 => {
            format!(", each vCPU's {} to {}", time(least), time(most))
        }
        _ => String::new(),
    };
    let critical = each(|summary| summary.critical_ns);
    let mut lines = vec![
        format!("achieved critical section: {critical}{range}"),
        format!("achieved outside: {}", each(|summary| summary.outside_ns)),
        match scenario.latency {
            true => format!(
                "timing one acquisition costs: {}",
                each(|summary| summary.probe_ns)
            ),
            false => "acquisitions were not timed (--no-latency)".to_owned(),
        },
    ];
    lines.extend(locks.iter().filter_map(|row| {
        let Spinning { time_ns, turns } = row.summary.spinning?;
        let (lock, spun) = (row.lock, time(time_ns));
        Some(format!(
            "waiters of {lock} spun for {spun} ({turns} turns) before they halted"
        ))
    }));
    lines
}

/// How the starts of the measurements were chosen.
pub(crate) fn starts<'a>(starts: impl Iterator<Item = &'a Start>) -> Option<String> {
    let starts: Vec<&Start> = starts.collect();
    let [shortest, longest] = range(starts.iter().map(|start| start.warm_up_ms))?;
    let after = match longest - shortest {
        ..1.0 => format!("{longest:.0} ms"),
        _ => format!("{shortest:.0} to {longest:.0} ms"),
    };
    let mut reasons = Vec::new();
    for reason in WORDS {
        let such = |start: &&&Start| in_words(&start.reason) == reason;
        let n = starts.iter().filter(such).count();
        if n == starts.len() {
            reasons.push(reason.to_owned());
        } else if n > 0 {
            reasons.push(format!("{reason} ({n} of {} runs)", starts.len()));
        }
    }
    let reasons = reasons.join("; ");
    Some(format!("measurement started after {after}: {reasons}"))
}

/// Why warm-ups end, the best reason first.
const WORDS: [&str; 5] = [
    "every vCPU had been descheduled once",
    "every vCPU had been descheduled, or had at least halted or yielded, in twice the warm-up",
    "the warm-up was over (it is unknown whether every vCPU had been descheduled)",
    "the warm-up was over (not overcommitted)",
    "the longest warm-up was over, though not every vCPU had been descheduled",
];

fn in_words(reason: &StartReason) -> &'static str {
    WORDS[match reason {
        StartReason::EveryVcpuDescheduled => 0,
        StartReason::HaltedOnly(_) => 1,
        StartReason::PreemptionsUnknown => 2,
        StartReason::NotOvercommitted => 3,
        StartReason::LimitReached(_) => 4,
    }]
}
