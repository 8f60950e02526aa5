//! The findings as text, JSON and CSV.

use super::{Cost, Costs, Findings};
use crate::host::{Host, format_cpu_list};
use crate::report::Columns;
use std::fmt::Write;

pub(crate) fn csv(findings: &Findings) -> String {
    let rows = findings.costs.iter();
    let rows = rows.flat_map(|costs| costs.rows().map(|(what, _, cost)| (costs, what, cost)));
    Columns::new()
        .value("machine", |(costs, ..): &(&Costs, &'static str, Cost)| {
            costs.machine.name()
        })
        .value("kicker_cpu", |(costs, ..)| costs.cpus[0])
        .value("kicked_cpu", |(costs, ..)| costs.cpus[1])
        .value("what", |(_, what, _)| *what)
        .value("p50_ns", |(.., cost)| cost.p50_ns)
        .value("p99_ns", |(.., cost)| cost.p99_ns)
        .value("trials", |(.., cost)| cost.trials)
        .csv(rows)
}

impl Costs {
    /// Each with its name, for programs and for people.
    fn rows(&self) -> [(&'static str, &'static str, Cost); 8] {
        [
            ("halt", "halt, kick pending", self.halt),
            ("kick_running", "kick, target runs", self.kick_running),
            ("kick_halted", "kick, target halted", self.kick_halted),
            ("kick_to_run", "kick to run", self.kick_to_run),
            ("yield", "yield, target halted", self.yield_to),
            ("barrier", "barrier, target runs", self.barrier),
            ("task_wake", "wake a blocked task", self.task_wake),
            ("task_wake_to_run", "wake to run", self.task_wake_to_run),
        ]
    }
}

fn or_unknown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |v| v.to_string())
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

fn us(ns: Option<u64>) -> String {
    or_unknown(ns.map(|ns| format!("{}.{:02} us", ns / 1000, ns % 1000 / 10)))
}

pub(crate) fn text(findings: &Findings) -> String {
    let host = &findings.host;
    let mut text = String::from("host\n");
    let mut say = |what: &str, value: String| {
        let _ = writeln!(text, "  {what:<22}{value}");
    };
    say("kernel", or_unknown(host.kernel.as_ref()));
    say("CPU", or_unknown(host.cpu_model.as_ref()));
    say("CPUs allowed", format!("{:?}", host.allowed_cpus));
    say("this process", limits(host));
    say("SMT", or_unknown(host.smt.map(yes)));
    if let Some(groups) = &host.thread_siblings {
        say("sibling groups", format!("{groups:?}"));
    }
    say("governor", or_unknown(host.governor.as_ref()));
    say("under a hypervisor", or_unknown(host.hypervisor.map(yes)));
    text.push_str("KVM\n");
    let mut say = |what: &str, value: String| {
        let _ = writeln!(text, "  {what:<22}{value}");
    };
    say("device", host.kvm.device.to_string());
    say("vendor", host.kvm.vendor_name().to_owned());
    if let Some(ns) = host.kvm.halt_poll_ns {
        let polling = format!("{ns} ns (polling ends before a halt of ours blocks: not used)");
        say("halt_poll_ns", polling);
    }
    if let Some(problem) = &findings.kvm_problem {
        say("problem", problem.clone());
    }
    if let Some(kvm) = &findings.kvm {
        let ticks = |t: Option<u64>| t.map_or("does not run".into(), |t| format!("{t} TSC ticks"));
        let (p50, p99) = (us(kvm.task_switch.p50_ns), us(kvm.task_switch.p99_ns));
        say("most vCPUs of a VM", kvm.max_vcpus.to_string());
        say("loop turn at CPL 0", ticks(kvm.loop_ticks_cpl0));
        say("loop turn at CPL 3", ticks(kvm.loop_ticks_cpl3));
        say("--cpl auto means", kvm.auto_cpl.to_string());
        say("guest TSC", format!("{} kHz", kvm.tsc_khz));
        say("steal time", yes(kvm.steal_time));
        say("preempted reported", yes(kvm.preempted_reported));
        say("vCPU statistics", yes(kvm.statistics));
        say("switch of tasks", format!("{p50} (99th percentile {p99})"));
    }
    text.push_str("costs (median, 99th percentile)\n");
    for costs in &findings.costs {
        let [a, b] = costs.cpus;
        let place = match a == b {
            true => format!("same CPU {a}"),
            false => format!("CPU {a} to CPU {b}"),
        };
        let _ = writeln!(text, "  machine {}, {place}", costs.machine.name());
        for (_, meaning, cost) in costs.rows() {
            let (p50, p99) = (us(cost.p50_ns), us(cost.p99_ns));
            let _ = writeln!(text, "    {meaning:<20}{p50:>12}{p99:>14}");
        }
    }
    text.push_str("what follows\n");
    for consequence in &findings.consequences {
        let _ = writeln!(text, "  * {consequence}");
    }
    text
}

/// What keeps this process from the CPUs that it may use.
fn limits(host: &Host) -> String {
    let limits = &host.limits;
    let cgroup = limits.cgroup.as_ref();
    let quota = match cgroup.map(|cgroup| &cgroup.quota) {
        None => "cgroup unknown".to_owned(),
        Some(None) => "no cgroup quota".to_owned(),
        Some(Some(quota)) => format!("cgroup quota {:.2} CPUs", quota.cpus()),
    };
    let cpuset = cgroup.and_then(|cgroup| cgroup.cpuset.as_ref());
    let priority = limits.priority.map(|priority| format!(" {priority}"));
    format!(
        "{quota}, cpuset {}, {}{}, nice {}",
        or_unknown(cpuset.map(|cpus| format_cpu_list(cpus))),
        or_unknown(limits.policy.as_ref()),
        priority.unwrap_or_default(),
        or_unknown(limits.nice)
    )
}
