//! What this host is, what a halt, a kick and a kick-to-run cost on it, and what follows.

mod measure;
mod render;

use crate::host::{Device, Host};
use crate::report::{Format, to_json};
use crate::scenario::MachineKind;
use crate::session::costs::{Cost, CostError, Costs, costs};
use host::switches::SwitchRecorder;
use serde::Serialize;

/// What was found; `docs/json.md` has the fields.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    schema: &'static str,
    host: Host,
    /// Absent where no guest can be run.
    kvm: Option<KvmFindings>,
    kvm_problem: Option<String>,
    switches_problem: Option<String>,
    costs: Vec<Costs>,
    consequences: Vec<String>,
}

/// What this KVM does, beyond what the host says of it.
#[derive(Debug, Serialize)]
pub(crate) struct KvmFindings {
    max_vcpus: usize,
    /// TSC ticks of a two-instruction loop's turn; absent if that does not run.
    loop_ticks_cpl0: Option<u64>,
    loop_ticks_cpl3: Option<u64>,
    auto_cpl: u8,
    tsc_khz: u64,
    steal_time: bool,
    preempted_reported: bool,
    statistics: bool,
    /// From one task of a vCPU to another: woken by the first, which then blocks.
    task_switch: Cost,
}

/// Examines the host and renders the findings.
///
/// # Errors
/// If a throw-away VM, or threads, could not be run though they should.
pub(crate) fn run(format: Format) -> Result<String, CostError> {
    let findings = examine()?;
    Ok(match format {
        Format::Json => to_json(&findings),
        Format::Csv => render::csv(&findings),
        Format::Table | Format::Markdown => render::text(&findings),
    })
}

fn examine() -> Result<Findings, CostError> {
    let host = Host::examine();
    let kvm_problem = vmm::check_host(2).err().map(|e| e.to_string());
    let guests = MachineKind::of_the_host().find(|machine| machine.facts().kvm);
    let guests = guests.filter(|_| kvm_problem.is_none());
    let kvm = guests
        .map(|machine| measure::kvm(machine, &host))
        .transpose()?;
    let mut found = Vec::new();
    for machine in MachineKind::of_the_host().filter(|m| kvm.is_some() || !m.facts().kvm) {
        for cpus in measure::placements(&host) {
            found.push(costs((machine, true), cpus)?);
        }
    }
    let recorder = SwitchRecorder::start(rustix::thread::gettid());
    let switches_problem = recorder.err().map(|e| e.to_string());
    let mut consequences = consequences(&host, kvm.as_ref(), kvm_problem.as_deref(), &found);
    consequences.extend(switches_problem.as_ref().map(|problem| {
        format!(
            "Context switches cannot be recorded ({problem}): a trace knows no preemption, and the live view \
             no holder that is off its CPU."
        )
    }));
    consequences.extend(limited(&host));
    Ok(Findings {
        schema: "pvlab.doctor/1",
        host,
        kvm,
        kvm_problem,
        switches_problem,
        costs: found,
        consequences,
    })
}

/// What limits of this process mean for its figures.
fn limited(host: &Host) -> Option<String> {
    let notable = host.limits.notable(host.allowed_cpus.len());
    (!notable.is_empty()).then(|| {
        format!(
            "This process is limited ({}): figures are of that, as much as of the locks.",
            notable.join(", ")
        )
    })
}

/// What will not work here, or not as elsewhere.
fn consequences(
    host: &Host,
    kvm: Option<&KvmFindings>,
    problem: Option<&str>,
    costs: &[Costs],
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    if let Some(problem) = problem {
        found.push(format!("No guests: {problem}. Runs use --machine threads."));
        if host.kvm.device == Device::NoPermission {
            found.push("As root, or in the group of /dev/kvm, guests may well run.".into());
        }
    }
    if let Some(kvm) = kvm {
        if kvm.auto_cpl == 3 {
            found.push(match kvm.loop_ticks_cpl0 {
                Some(ticks) => format!(
                    "Guest code at CPL 0 is emulated ({ticks} ticks a loop turn): guests run at CPL 3. \
                     --cpl 0 works but is too slow to measure, and pause-loop exiting cannot be observed."
                ),
                None => "Guest code at CPL 0 does not run: guests run at CPL 3, and pause-loop exiting \
                         cannot be observed."
                    .into(),
            });
        }
        let lacking = [
            (kvm.steal_time, "No steal time: it is left out of reports."),
            (
                kvm.preempted_reported,
                "This KVM does not mark preempted vCPUs: vcpu_is_preempted is unknown to locks, which \
                 are correct without it.",
            ),
            (
                kvm.statistics,
                "No KVM statistics (Linux 5.14 has them): exits are the VMM's count only.",
            ),
        ];
        let lacking = lacking.into_iter().filter(|(there, _)| !there);
        found.extend(lacking.map(|(_, line)| line.into()));
        let there = costs.iter().find(|c| c.machine.facts().kvm);
        if let Some((halt, kick)) = there.and_then(|c| c.halt.p50_ns.zip(c.kick_to_run.p50_ns)) {
            found.push(format!(
                "A halt that ends in a kick costs the waiter at least {:.1} us here: waits much shorter \
                 than that are better spent spinning (--spin-threshold).",
                (halt + kick) as f64 / 1e3
            ));
        }
    }
    found.push(format!(
        "A directed yield makes the yielder sleep {} us at a time until the target has run, at most \
         {} ms: Linux offers a process no yield to a chosen thread.",
        host::yielding::STEP.as_micros(),
        host::yielding::BOUND.as_millis()
    ));
    if host.allowed_cpus.len() < 2 {
        found.push("Only one CPU may be used: vCPUs never run at the same time.".into());
    }
    let siblings = host.thread_siblings.iter().flatten();
    if siblings.into_iter().any(|group| group.len() > 1) {
        let on = "SMT is on: pick CPUs on different cores (see the sibling groups) unless you want \
                  to measure SMT.";
        found.push(on.into());
    }
    let governor = host.governor.iter().filter(|name| *name != "performance");
    found.extend(governor.map(|name| {
        format!(
            "The frequency governor is '{name}': clock rates may change during a run; 'performance' is steadier."
        )
    }));
    if host.hypervisor == Some(true) {
        let itself = "This host is itself a virtual machine: its CPUs can be taken away without a \
                      trace; compare within one run only.";
        found.push(itself.into());
    }
    found
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab doctor
  pvlab doctor --format json -o host.json";
