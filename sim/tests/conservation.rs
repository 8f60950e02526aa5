//! No time is lost and none is made: each nanosecond of a CPU and of a vCPU is accounted for once.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod support;

use abi::{Counter, HostStep, Switch, SwitchKind, phase};
use sim::{Options, Spec, presets};
use support::{Lab, anywhere, pinned, spin};

const VCPUS: usize = 8;
const CPUS: usize = 2;
const MS: u64 = 1_000_000;

/// Where a vCPU is, by its switches and the steps of the hypervisor alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Is {
    Queued,
    Running,
    Blocked,
}

/// What the records say of one vCPU.
#[derive(Default)]
struct Recorded {
    switches: Vec<Switch>,
    steps: Vec<(u64, HostStep)>,
}

#[derive(Default)]
struct Spent {
    ran: u64,
    queued: u64,
    blocked: u64,
    runs: Vec<(u32, u64, u64)>,
    last: Option<Is>,
}

impl Recorded {
    /// Adds up the times until `now`.
    fn spent(&self, now: u64) -> Spent {
        let mut spent = Spent::default();
        let (mut is, mut since) = (Is::Queued, 0);
        // When it could run again that was blocked since then, if that was before `until`.
        let roused = |since: u64, until: u64| {
            let times = self
                .steps
                .iter()
                .filter(|(_, step)| matches!(step, HostStep::Unblocked | HostStep::Injected(_)));
            let mut times = times.map(|(at, _)| *at);
            times.find(|at| (since..=until).contains(at))
        };
        for switch in &self.switches {
            let at = switch.at_ns;
            match (is, switch.kind) {
                (Is::Queued, SwitchKind::In) => spent.queued += at - since,
                (Is::Blocked, SwitchKind::In) => {
                    let roused = roused(since, at).expect("nobody runs unless it was woken");
                    spent.blocked += roused - since;
                    spent.queued += at - roused;
                }
                (Is::Running, SwitchKind::Out | SwitchKind::OutPreempted) => {
                    spent.ran += at - since;
                    spent.runs.push((switch.cpu, since, at));
                }
                impossible => panic!("{impossible:?} at {at}"),
            }
            is = match switch.kind {
                SwitchKind::In => Is::Running,
                SwitchKind::Out => Is::Blocked,
                SwitchKind::OutPreempted => Is::Queued,
            };
            since = at;
        }
        match is {
            Is::Running => {
                spent.ran += now - since;
                let cpu = self.switches.last().unwrap().cpu;
                spent.runs.push((cpu, since, now));
            }
            Is::Queued => spent.queued += now - since,
            Is::Blocked => match roused(since, now) {
                Some(at) => {
                    spent.blocked += at - since;
                    spent.queued += now - at;
                    is = Is::Queued;
                }
                None => spent.blocked += now - since,
            },
        }
        spent.last = Some(is);
        spent
    }
}

/// Whether they differ by no more than the nanosecond that each of `parts` is rounded by.
fn same(a: u64, b: u64, parts: usize) -> bool {
    a.abs_diff(b) <= parts as u64 + 1
}

/// Everything that must hold now.
fn check(lab: &mut Lab, recorded: &mut [Recorded], noisy: &[usize], what: &str) {
    let now = lab.sim.now_ns();
    let cpus = lab.sim.cpu_times();
    for (cpu, (busy, idle)) in cpus.iter().enumerate() {
        assert!(
            same(busy + idle, now, 2),
            "{what}: CPU {cpu}: {busy} + {idle} is not {now}"
        );
        if cpu >= CPUS {
            assert_eq!(*busy, 0, "{what}: CPU {cpu}");
        }
    }
    let mut runs: Vec<Vec<(u64, u64)>> = vec![Vec::new(); cpus.len()];
    for (vcpu, recorded) in recorded.iter_mut().enumerate() {
        recorded.switches.extend(lab.sim.take_switches(0, vcpu));
        recorded.steps.extend(lab.sim.take_steps(0, vcpu));
        let spent = recorded.spent(now);
        let stats = lab.sim.vcpu_stats(0, vcpu);
        let parts = recorded.switches.len();
        let of = |kind| recorded.switches.iter().filter(|s| s.kind == kind).count() as u64;
        let who = format!("{what}: vCPU {vcpu}: {stats:?} at {now}");
        assert!(
            same(stats.cpu_ns, spent.ran, parts),
            "{who}: it ran for {}",
            spent.ran
        );
        assert!(
            same(stats.queued_ns, spent.queued, parts),
            "{who}: it waited for {}",
            spent.queued
        );
        let lifetime = stats.cpu_ns + stats.queued_ns + spent.blocked;
        assert!(
            same(lifetime, now, parts),
            "{who}: it was blocked for {}",
            spent.blocked
        );
        assert_eq!(stats.voluntary_switches, of(SwitchKind::Out), "{who}");
        assert_eq!(
            stats.involuntary_switches,
            of(SwitchKind::OutPreempted),
            "{who}"
        );

        // What it is told itself is up to date whenever it runs.
        let (steal, preempted) = lab.region.steal(vcpu).unwrap().unwrap();
        let is = spent.last.unwrap();
        assert_eq!(preempted, is != Is::Running, "{who}: {is:?}");
        if is == Is::Queued {
            assert!(steal <= stats.queued_ns, "{who}: stolen {steal}");
        } else {
            assert_eq!(steal, stats.queued_ns, "{who}: {is:?}");
        }
        for (cpu, from, to) in spent.runs {
            runs[cpu as usize].push((from, to));
        }
    }
    for (cpu, mut runs) in runs.into_iter().enumerate() {
        runs.sort_unstable();
        for pair in runs.windows(2) {
            assert!(
                pair[0].1 <= pair[1].0,
                "{what}: CPU {cpu}: two at once: {pair:?}"
            );
        }
        let used: u64 = runs.iter().map(|(from, to)| to - from).sum();
        let (busy, idle) = cpus[cpu];
        if noisy.contains(&cpu) {
            // What the noise has is what is left: it always wants to run.
            assert!(used < busy, "{what}: CPU {cpu}: {used} of {busy}");
            assert!(idle < 100_000, "{what}: CPU {cpu} was idle for {idle}");
        } else {
            assert!(
                same(used, busy, runs.len()),
                "{what}: CPU {cpu}: {used} of {busy}"
            );
        }
    }
}

/// Runs it, looking now and then. What the machine has done to its vCPUs: migrations, halts.
fn run(spec: &Spec, lock: &str, affinity: &[Vec<usize>], noisy: &[usize]) -> (u64, u64) {
    let what = format!("{lock}, {}, noise on {noisy:?}", spec.name);
    let options = Options {
        seed: 3,
        tracing: true,
        ..Options::default()
    };
    let mut params = spin(lock, VCPUS);
    (params.critical_ns, params.outside_ns) = (2_000, 6_000);
    // Shorter than a critical section.
    params.spin_threshold = 20;
    let mut lab = Lab::with(spec, options, params, affinity);
    noisy
        .iter()
        .for_each(|&cpu| lab.sim.add_noise(cpu).unwrap());
    let mut recorded: Vec<_> = (0..VCPUS).map(|_| Recorded::default()).collect();
    lab.sim.run_until(MS);
    check(&mut lab, &mut recorded, noisy, &what);
    lab.enter(phase::MEASURE);
    // At times that have nothing to do with slices and ticks.
    for step in 1..=13 {
        lab.sim.run_until(MS + step * 3_171_717);
        check(&mut lab, &mut recorded, noisy, &what);
    }
    assert!(lab.acquisitions().iter().sum::<u64>() > 100, "{what}");
    assert_eq!(lab.total(Counter::Violations), 0, "{what}");
    let migrations = recorded.iter().map(|r| {
        let ins = r.switches.iter().filter(|s| s.kind == SwitchKind::In);
        let cpus: Vec<_> = ins.map(|s| s.cpu).collect();
        cpus.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
    });
    (migrations.sum(), lab.total(Counter::Halts))
}

fn machine(name: &str, changes: &[&str]) -> Spec {
    let mut spec = presets::find("cascade-lake-2s").unwrap();
    changes.iter().for_each(|change| spec.set(change).unwrap());
    spec.name = name.to_owned();
    spec
}

/// The locks that wait in different ways: spinning, halting, and blocking their task.
const LOCKS: [&str; 3] = ["tas", "pv-qspinlock", "mutex"];

fn all_adds_up(spec: &Spec) {
    let mut moved_in_all = 0;
    for lock in LOCKS {
        let (moved, _) = run(spec, lock, &pinned(VCPUS, CPUS), &[]);
        assert_eq!(moved, 0, "{lock}: they may not");
        run(spec, lock, &pinned(VCPUS, CPUS), &[0]);
        let (moved, halts) = run(spec, lock, &anywhere(VCPUS, CPUS), &[]);
        moved_in_all += moved;
        assert!(lock == "tas" || halts > 10, "{lock}: {halts} halts");
        run(spec, lock, &anywhere(VCPUS, CPUS), &[1]);
    }
    // Whether it happens to those of one lock in so short a time is a matter of chance.
    assert!(moved_in_all > 0);
}

#[test]
fn round_robin() {
    all_adds_up(&machine("round robin", &["eevdf=0", "slice_ns=1ms"]));
}

#[test]
fn exact_slices_without_a_tick() {
    all_adds_up(&machine(
        "exact",
        &["eevdf=0", "tick_ns=0", "slice_ns=300us", "balance_ns=700us"],
    ));
}

#[test]
fn eevdf() {
    all_adds_up(&machine(
        "EEVDF",
        &["eevdf=1", "tick_ns=1ms", "slice_ns=1ms"],
    ));
}

#[test]
fn eevdf_with_long_halt_polls() {
    let changes = [
        "eevdf=1",
        "tick_ns=1ms",
        "halt_poll_max_ns=5ms",
        "balance_ns=50us",
    ];
    all_adds_up(&machine("EEVDF, polling", &changes));
}

#[test]
fn pause_loop_exits() {
    let changes = [
        "eevdf=0",
        "tick_ns=1ms",
        "ple=1",
        "ple_window_ns=2us",
        "balance_ns=1ms",
    ];
    all_adds_up(&machine("pause-loop exits", &changes));
}

#[test]
fn bare_metal() {
    all_adds_up(&machine(
        "bare metal",
        &["virtual_machine=0", "slice_ns=1ms", "tick_ns=1ms"],
    ));
}
