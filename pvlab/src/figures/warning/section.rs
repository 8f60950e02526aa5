//! Whether the work that was asked for is the work that was done.

use crate::figures::summary::Summary;
use crate::human::time;
use crate::scenario::{Data, Scenario, Spread};

/// How far the work may be off, as a share of what was asked for, if one vCPU works, or several: these disturb
/// each other.
const OFF: (f64, f64) = (0.08, 0.15);
/// What is no matter, ns: short sections are made of little but what is measured.
const OFF_NS: f64 = 10.0;
/// Acquisitions per second of vCPUs that must share CPUs, of which most follow a change of vCPUs.
const FEW: f64 = 5_000.0;
/// What between two critical sections is no matter, as a share of the section.
const OFF_TURN: f64 = 0.02;

/// What to say if the work that was asked for is not the work that was done.
pub(crate) fn not_as_asked(scenario: &Scenario, summary: &Summary) -> Vec<(&'static str, String)> {
    let work = &scenario.workload;
    let limit = if scenario.vcpus() == 1 { OFF.0 } else { OFF.1 };
    let off = |asked: f64, achieved: f64, no_matter: f64| {
        let off = achieved - asked;
        (asked > 0.0 && off.abs() > (limit * asked).max(no_matter)).then_some(off)
    };
    let mut texts = Vec::new();
    if scenario.bench.is_some() {
        return texts;
    }
    if let Some(achieved) = summary.critical_ns
        && let Some(off) = off(work.critical.ns(), achieved, OFF_NS)
    {
        let range = summary.critical_range_ns;
        let apart = range.is_some_and(|[least, most]| most > (1.0 + limit) * least);
        let why = if off < 0.0 {
            "the CPUs were faster than when the work was calibrated"
        } else if scenario.overcommitted() && summary.rate(summary.acquisitions) < FEW {
            "there were so few that nearly each followed a change of vCPUs on its CPU, when caches were cold"
        } else if apart {
            "vCPUs differ: their CPUs are not equally fast, or one's sibling was busy"
        } else if scenario.vcpus() > 1 && work.data == Data::OwnLine {
            "the data came late from another CPU (compare --data same-line and none), or the CPUs were slower \
             than when the work was calibrated"
        } else {
            "the CPUs were slower than when the work was calibrated (something else ran on them or on their \
             siblings)"
        };
        let (asked, achieved) = (time(work.critical.ns()), time(achieved));
        let text = format!("asked for a critical section of {asked}, achieved {achieved}: {why}");
        texts.push(("section_not_as_asked", text));
    }
    // The mean of a few random lengths is not theirs.
    let no_matter = OFF_NS.max(OFF_TURN * work.critical.ns());
    if work.outside_spread == Spread::Fixed
        && let Some(achieved) = summary.outside_ns
        && off(work.outside.ns(), achieved, no_matter).is_some()
    {
        let text = format!(
            "asked for {} between two critical sections, achieved {}: figures are noted there too, \
             and take that long if CPUs are busy",
            time(work.outside.ns()),
            time(achieved)
        );
        texts.push(("outside_not_as_asked", text));
    }
    texts
}

#[cfg(test)]
mod tests {
    use crate::figures::warning::{Warning, of_run};
    use crate::figures::{Summary, fixture};
    use pvlock::LockKind;

    /// The warnings about the section, if each of two vCPUs, or one, achieved that on average.
    fn about(vcpus: usize, achieved: f64, range: [f64; 2]) -> Vec<Warning> {
        let mut record = fixture::record(LockKind::Tas, 1_000_000);
        record.scenario.vms[0].vcpus = vcpus;
        record.vms[0].vcpus.truncate(vcpus);
        record.vms[0].critical_ns = Some(achieved);
        for (vcpu, end) in record.vms[0].vcpus.iter_mut().zip(range) {
            vcpu.critical_ns = Some(end);
        }
        let mut warnings = of_run(&record, &Summary::of_vms(&record));
        warnings.retain(|warning| warning.code == "section_not_as_asked");
        warnings
    }

    #[test]
    fn a_section_that_is_not_as_asked_is_told_of_with_the_likely_reason() {
        for (vcpus, achieved) in [(1, 130.0), (1, 139.0), (1, 121.0), (2, 149.0), (2, 111.0)] {
            let none = about(vcpus, achieved, [achieved; 2]);
            assert!(none.is_empty(), "{vcpus}: {none:?}");
        }
        for (vcpus, achieved, range, why) in [
            (1, 228.0, [228.0; 2], "slower"),
            (1, 80.0, [80.0; 2], "faster"),
            (2, 178.0, [178.0; 2], "data came late"),
            (2, 178.0, [130.0, 228.0], "vCPUs differ"),
        ] {
            let [warning] = &about(vcpus, achieved, range)[..] else {
                panic!("{vcpus} vCPUs, {achieved} ns: no warning, or several");
            };
            let text = &warning.text;
            let figures = format!("asked for a critical section of 130 ns, achieved {achieved} ns");
            assert!(text.contains(&figures) && text.contains(why), "{text}");
        }
    }
}
