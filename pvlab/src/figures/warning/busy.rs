//! Whether something else was running on the host.

use crate::human::listed;
use crate::record::{Record, Surroundings};
use crate::scenario::{Length, Placement, Scenario};
use std::collections::BTreeSet;

/// Share of its CPUs that a spinning VM must get. The monitor itself takes about a hundredth.
const BUSY: f64 = 0.9;

/// vCPUs that never halt use up their CPUs, unless something else on the host takes them away, which
/// no lock is to blame for. Of vCPUs that halt, what they leave says nothing; but what others had does.
pub(crate) fn busy_host(
    scenario: &Scenario,
    halts: bool,
    (cpu_ns, measured_s): (Option<u64>, f64),
    records: &[&Record],
) -> Option<String> {
    // Noise is something else on purpose, and vCPUs with a fixed number of turns end one by one.
    // Beside a simulated machine there is nothing else.
    if scenario.noise > 0
        || matches!(scenario.length, Length::Iterations(_))
        || scenario.machine.is_simulated()
    {
        return None;
    }
    let cpus = match &scenario.placement {
        Placement::Floating => scenario.cpus.len().min(scenario.vcpus()),
        Placement::Pinned | Placement::Map(_) => {
            let placed = (0..scenario.vcpus()).filter_map(|vcpu| scenario.cpu_of(vcpu));
            placed.collect::<BTreeSet<_>>().len()
        }
    };
    let around = || (records.iter()).filter_map(|record| record.surroundings.as_ref());
    let reasons = reasons(cpus, around);
    if halts {
        let others: Vec<f64> = around().filter_map(|around| around.others_cpus).collect();
        let others = others.iter().sum::<f64>() / others.len().max(1) as f64;
        let throttled = around().any(|around| around.throttled_ms.is_some_and(|ms| ms > 0.0));
        return (others > (1.0 - BUSY) * cpus as f64 || throttled).then(|| {
            format!(
                "something else had {others:.2} of {cpus} CPUs on this host, and the figures show it{reasons}"
            )
        });
    }
    let used = cpu_ns? as f64 / 1e9 / measured_s.max(1e-9);
    (used < BUSY * cpus as f64).then(|| {
        let who = match reasons.as_str() {
            "" => "; something else was running on this host",
            _ => "",
        };
        format!(
            "vCPUs that never halt got {used:.2} of {cpus} CPUs{who}, and the figures show it{reasons}"
        )
    })
}

/// What limits of this process explain, for the end of a sentence.
fn reasons<'a, I: Iterator<Item = &'a Surroundings>>(
    cpus: usize,
    around: impl Fn() -> I,
) -> String {
    let notable = around().flat_map(|around| around.limits.notable(cpus));
    let notable: BTreeSet<String> = notable.collect();
    let throttled: f64 = around().filter_map(|around| around.throttled_ms).sum();
    let throttled = (throttled > 0.0).then(|| format!("throttled for {:.1} s", throttled / 1e3));
    let reasons = listed(notable.into_iter().chain(throttled));
    match reasons.as_str() {
        "" => reasons,
        _ => format!(" (this process: {reasons})"),
    }
}
