//! A preset of this host: its latencies, halts, kicks and slices are measured, on threads and on KVM, and
//! one latency is fitted so that two runs at two vCPUs come out as they do here.

use super::micro;
use crate::figures::{Run, median};
use crate::record::Record;
use crate::scenario::{Length, MachineKind, Scenario, Simulated, VmSpec};
use crate::session::costs::{Cost, CostError, costs};
use crate::session::{self, Observer, Options, RunError};
use pvlock::LockKind;
use sim::{PARAMETERS, Spec, SpecError};
use std::io;
use std::time::Duration;

/// vCPUs, and CPUs, of the runs that are fitted to.
const VCPUS: usize = 2;
/// Locks of the runs that are fitted to.
pub(crate) const FITTED_LOCKS: [LockKind; 2] = [LockKind::Tas, LockKind::PvQSpinLock];
/// Rounds of the real ones.
const ROUNDS: usize = 5;
/// Length of the simulated ones.
const SIMULATED: Duration = Duration::from_millis(40);
/// Linux's slice on one CPU (kernel/sched/fair.c names it base_slice_ns; 0.7 ms since 6.13).
const BASE_SLICE_NS: f64 = 700_000.0;
/// Steps of the search for the latency that fits.
const STEPS: usize = 12;
/// It is sought from, and to, that multiple of the one measured by sending a line to and fro.
const SOUGHT: (f64, f64) = (0.1, 4.0);

#[derive(Debug, thiserror::Error)]
pub(crate) enum CalibrateError {
    #[error("calibrating takes two CPUs that this process may use; it has {0}")]
    Cpus(usize),
    #[error("cannot measure this host's CPUs: {}{}", .0, host::remedy(.0.raw_os_error()))]
    Micro(#[from] io::Error),
    #[error(transparent)]
    Costs(#[from] CostError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{0} was not measured once, so that nothing can be said of this host; try again")]
    NothingMeasured(&'static str),
    #[error("what was measured makes no machine: {0}")]
    Spec(#[from] SpecError),
}

impl crate::options::error::Ends for CalibrateError {}

#[derive(Debug)]
pub(crate) struct Calibration {
    pub spec: Spec,
    /// For each of the runs that were fitted to: the lock, what came out here, and simulated, in
    /// acquisitions per second.
    pub cells: Vec<(LockKind, f64, f64)>,
}

/// Measures, and fits. `scenario` is a run on the real machine that is to be like the simulated one, which has
/// `online` CPUs.
///
/// # Errors
/// See [`CalibrateError`].
pub(crate) fn calibrate(
    scenario: &Scenario,
    online: usize,
    observer: &mut dyn Observer,
) -> Result<Calibration, CalibrateError> {
    let cpus = match scenario.cpus[..] {
        [a, b, ..] => [a, b],
        _ => return Err(CalibrateError::Cpus(scenario.cpus.len())),
    };
    let mut spec = sim::presets::find("here")?;
    observer.phase("measuring this host's CPUs");
    let transfer = measure_cpus(&mut spec, cpus, online)?;
    observer.phase("measuring halts and kicks");
    measure_halts(&mut spec, scenario.machine, cpus)?;
    spec.name = "here".to_owned();
    let ([a, b], machine) = (cpus, scenario.machine.name());
    let found = "This host, as 'pvlab calibrate' found it on machine";
    spec.about = format!("{found} '{machine}', CPUs {a} and {b}.");

    let (mut cells, mut probes) = (Vec::new(), Vec::new());
    for lock in FITTED_LOCKS {
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            let record = session::run_undisturbed(&at_two(scenario, lock), observer)?;
            if record.interrupted {
                return Err(RunError::Interrupted.into());
            }
            rates.push(Run::first(&record).map_or(0.0, |run| run.throughput()));
            probes.extend(record.vms.iter().filter_map(|vm| vm.probe_ns));
        }
        let rate = median(&rates).filter(|rate| *rate > 0.0);
        let nothing = CalibrateError::NothingMeasured("an acquisition");
        cells.push((lock, rate.ok_or(nothing)?));
    }
    if let Some(probe) = median(&probes) {
        let from = "half of what timing an acquisition costs, which looks twice";
        set(&mut spec, "clock_ns", probe / 2.0, from)?;
    }
    observer.phase("fitting");
    // The longer a line takes, the fewer acquisitions: the ratio falls.
    let (mut low, mut high) = (transfer * SOUGHT.0, transfer * SOUGHT.1);
    let mut simulated = Vec::new();
    let fitted = format!(
        "fitted to {} at {VCPUS} vCPUs on {VCPUS} CPUs; sent to and fro, a line takes {transfer:.0} ns",
        FITTED_LOCKS.map(LockKind::name).join(" and ")
    );
    for _ in 0..STEPS {
        let middle = (low * high).sqrt();
        set(&mut spec, "transfer_socket_ns", middle, &fitted)?;
        simulated.clear();
        for &(lock, _) in &cells {
            let run = twin(&at_two(scenario, lock), simulated_here(&spec), SIMULATED);
            let record = session::run(&run, &Options::default(), observer)?;
            simulated.push(throughput(&record));
        }
        let logs = simulated.iter().zip(&cells).map(|(s, (_, r))| (s / r).ln());
        if logs.sum::<f64>() > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let cells = cells.into_iter().zip(simulated);
    Ok(Calibration {
        spec,
        cells: cells
            .map(|((lock, real), simulated)| (lock, real, simulated))
            .collect(),
    })
}

/// What the CPUs themselves take. Returns how long a line takes from one to the other.
fn measure_cpus(spec: &mut Spec, cpus: [usize; 2], online: usize) -> Result<f64, CalibrateError> {
    let one = micro::one_cpu();
    let transfer = micro::transfer_ns(cpus)?;
    let (slice, spread) = micro::slice_ns(cpus[0])?;
    let asked = BASE_SLICE_NS * (1.0 + (online.clamp(1, 8) as f64).log2().floor());
    // Without any jitter, slices would come in the same order for ever.
    let jitter = spread.clamp(1_000.0, slice / 4.0);
    let mut set = |name, value, from| set(spec, name, value, from);
    let from = "a load that depends on the one before";
    set("hit_ns", one.hit_ns, from)?;
    set("rmw_ns", one.rmw_ns, "an addition to a line that is there")?;
    set("pause_ns", one.pause_ns, "a pause")?;
    let from = "Linux's base slice, 0.7 ms times 1 + log2 of the CPUs, 8 at most";
    set("slice_ns", asked.min(slice), from)?;
    let from =
        "two busy threads on one CPU, the median time that one is off it: slices end at ticks";
    set("tick_ns", slice, from)?;
    let from = "half the distance of the quartiles of the slices";
    set("tick_jitter_ns", jitter, from)?;
    Ok(transfer)
}

/// What leaving the guest takes, on that machine.
fn measure_halts(
    spec: &mut Spec,
    machine: MachineKind,
    cpus: [usize; 2],
) -> Result<(), CalibrateError> {
    let costs = costs((machine, true), cpus)?;
    let clock = spec.costs.clock_ns;
    let rest = spec.costs.idle_exit_ns + spec.costs.switch_ns + clock;
    // Without what is in it that is not its own.
    let net = |cost: Cost, what, rest: f64| match cost.p50_ns {
        Some(ns) => Ok((ns as f64 - rest).max(0.0)),
        None => Err(CalibrateError::NothingMeasured(what)),
    };
    let half = net(costs.halt, "a halt", clock)? / 2.0;
    let from = "half of a halt whose kick is there already, as doctor measures it";
    set(spec, "exit_ns", half, from)?;
    set(spec, "entry_ns", half, from)?;
    let kick = net(costs.kick_halted, "a kick", clock)?;
    let from = "a kick of a halted vCPU, as doctor measures it";
    set(spec, "kick_ns", kick, from)?;
    let wake = net(costs.kick_to_run, "a wake-up", spec.costs.entry_ns + rest)?;
    let from =
        "from a kick to running, as doctor measures it, less entry_ns, idle_exit_ns and switch_ns";
    set(spec, "wake_ns", wake, from)?;
    let from = "halts and kicks cost what they do there";
    Ok(set(spec, "virtual_machine", 1.0, from)?)
}

/// Puts a figure into a preset, with where it is from.
fn set(spec: &mut Spec, name: &str, value: f64, from: &str) -> Result<(), SpecError> {
    // Digits beyond these are noise.
    let value = (value * 100.0).round() / 100.0;
    spec.set_value(sim::parameter(name)?, value)?;
    let from = format!("pvlab calibrate: {from}");
    spec.sources.insert(name.to_owned(), from);
    Ok(())
}

fn throughput(record: &Record) -> f64 {
    Run::first(record).map_or(0.0, |run| run.throughput_for_ratio())
}

/// The scenario with two vCPUs on the first two of its CPUs.
fn at_two(scenario: &Scenario, lock: LockKind) -> Scenario {
    Scenario {
        vms: vec![VmSpec {
            lock: lock.into(),
            vcpus: VCPUS,
        }],
        cpus: scenario.cpus[..VCPUS].to_vec(),
        ..scenario.clone()
    }
}

/// The same scenario on a simulated machine, on as many of its CPUs, counted from the first.
pub(crate) fn twin(real: &Scenario, simulated: Simulated, duration: Duration) -> Scenario {
    Scenario {
        machine: Simulated::KIND,
        simulated: Some(simulated),
        cpus: (0..real.cpus.len()).collect(),
        length: Length::Duration(duration),
        ..real.clone()
    }
}

/// The preset `here`, with every parameter as in `spec`.
fn simulated_here(spec: &Spec) -> Simulated {
    let set = PARAMETERS.iter().filter_map(|parameter| {
        let value = spec.costs.get(parameter.name)?;
        Some(format!("{}={value}", parameter.name))
    });
    Simulated {
        preset: "here".to_owned(),
        set: set.collect(),
        rules: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_can_be_given_by_its_value() {
        let spec = sim::presets::find("cascade-lake-2s").unwrap();
        let simulated = simulated_here(&spec);
        let here = crate::machine::spec(&simulated).unwrap();
        assert_eq!(here.costs, spec.costs);
    }
}
