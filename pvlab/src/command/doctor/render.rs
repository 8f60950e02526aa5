//! The findings as text, JSON and CSV.

use super::{Cost, Costs, Findings};
use crate::host::{Host, format_cpu_list};
use crate::report::column::Columns;
use crate::report::to_json;
use std::fmt::Write;

pub(crate) fn json(findings: &Findings) -> String {
    to_json(findings)
}

pub(crate) fn csv(findings: &Findings) -> String {
    let rows = findings.costs.iter();
    let rows = rows.flat_map(|costs| costs.rows().map(|(what, cost)| (costs, what, cost)));
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
    fn rows(&self) -> [(&'static str, Cost); 7] {
        [
            ("halt", self.halt),
            ("kick_running", self.kick_running),
            ("kick_halted", self.kick_halted),
            ("kick_to_run", self.kick_to_run),
            ("yield", self.yield_to),
            ("task_wake", self.task_wake),
            ("task_wake_to_run", self.task_wake_to_run),
        ]
    }
}

fn line(text: &mut String, what: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "  {what:<22}{value}");
}

fn or_unknown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |v| v.to_string())
}

fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

fn us(ns: Option<u64>) -> String {
    let Some(ns) = ns else {
        return "unknown".to_owned();
    };
    format!("{}.{:02} us", ns / 1000, ns % 1000 / 10)
}

pub(crate) fn text(findings: &Findings) -> String {
    let host = &findings.host;
    let mut text = String::from("host\n");
    line(&mut text, "kernel", or_unknown(host.kernel.as_ref()));
    line(&mut text, "CPU", or_unknown(host.cpu_model.as_ref()));
    line(
        &mut text,
        "CPUs allowed",
        format!("{:?}", host.allowed_cpus),
    );
    line(&mut text, "this process", limits(host));
    line(&mut text, "SMT", or_unknown(host.smt.map(yes)));
    if let Some(groups) = &host.thread_siblings {
        line(&mut text, "sibling groups", format!("{groups:?}"));
    }
    line(&mut text, "governor", or_unknown(host.governor.as_ref()));
    line(
        &mut text,
        "under a hypervisor",
        or_unknown(host.hypervisor.map(yes)),
    );
    text.push_str("KVM\n");
    line(&mut text, "device", &host.kvm.device);
    line(&mut text, "vendor", host.kvm.vendor_name());
    if let Some(ns) = host.kvm.halt_poll_ns {
        line(
            &mut text,
            "halt_poll_ns",
            format!("{ns} ns (polling ends before a halt of ours blocks: not used)"),
        );
    }
    if let Some(problem) = &findings.kvm_problem {
        line(&mut text, "problem", problem);
    }
    if let Some(kvm) = &findings.kvm {
        line(&mut text, "most vCPUs of a VM", kvm.max_vcpus);
        let ticks = |t: Option<u64>| t.map_or("does not run".into(), |t| format!("{t} TSC ticks"));
        line(&mut text, "loop turn at CPL 0", ticks(kvm.loop_ticks_cpl0));
        line(&mut text, "loop turn at CPL 3", ticks(kvm.loop_ticks_cpl3));
        line(&mut text, "--cpl auto means", kvm.auto_cpl);
        line(&mut text, "guest TSC", format!("{} kHz", kvm.tsc_khz));
        line(&mut text, "steal time", yes(kvm.steal_time));
        line(&mut text, "preempted reported", yes(kvm.preempted_reported));
        line(&mut text, "vCPU statistics", yes(kvm.statistics));
        let (p50, p99) = (us(kvm.task_switch.p50_ns), us(kvm.task_switch.p99_ns));
        line(
            &mut text,
            "switch of tasks",
            format!("{p50} (99th percentile {p99})"),
        );
    }
    text.push_str("costs (median, 99th percentile)\n");
    for costs in &findings.costs {
        let [a, b] = costs.cpus;
        let place = if a == b {
            format!("same CPU {a}")
        } else {
            format!("CPU {a} to CPU {b}")
        };
        let _ = writeln!(text, "  machine {}, {place}", costs.machine.name());
        for (what, cost) in costs.rows() {
            let meaning = match what {
                "halt" => "halt, kick pending",
                "kick_running" => "kick, target runs",
                "kick_halted" => "kick, target halted",
                "kick_to_run" => "kick to run",
                "task_wake" => "wake a blocked task",
                "task_wake_to_run" => "wake to run",
                _ => "yield, target halted",
            };
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
    let quota = match &limits.cgroup {
        None => "cgroup unknown".to_owned(),
        Some(cgroup) => cgroup.quota.map_or_else(
            || "no cgroup quota".to_owned(),
            |quota| format!("cgroup quota {:.2} CPUs", quota.cpus()),
        ),
    };
    let cpuset = limits
        .cgroup
        .as_ref()
        .and_then(|cgroup| cgroup.cpuset.as_ref());
    let cpuset = cpuset.map(|cpus| format!("cpuset {}", format_cpu_list(cpus)));
    let priority = limits.priority.map(|priority| format!(" {priority}"));
    format!(
        "{quota}, {}, {}{}, nice {}",
        cpuset.unwrap_or_else(|| "cpuset unknown".to_owned()),
        or_unknown(limits.policy.as_ref()),
        priority.unwrap_or_default(),
        or_unknown(limits.nice)
    )
}
