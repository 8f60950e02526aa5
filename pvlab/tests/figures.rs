//! Figures of one run that must agree with each other, to the last one, on every machine.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod machines;

use abi::Counter;
use commands::{json, pvlab, stderr, stdout};
use machines::machines;
use pvlab::record::{Figures, Record, Waits};
use pvlab::session::{self, Interval, IntervalVm, Observer, Options};
use pvlab::trace::account::{Accountant, Setup, VmSetup};
use pvlab::trace::collect::DEFAULT_RECORDS;
use pvlab::trace::{CollectError, Collector};
use pvlock::LockEvent;
use std::ops::ControlFlow;
use std::time::Duration;

/// Every machine, as options.
fn everywhere() -> Vec<String> {
    let real = machines(8).into_iter();
    let mut all: Vec<_> = real.map(|name| format!("--machine {name}")).collect();
    all.push("--machine sim:broadwell-ex-4s --cpus 0-7".to_owned());
    all
}

/// The record of a run of `line` on that machine.
fn record(line: &str, machine: &str) -> Record {
    let line = format!("run {line} {machine} --format json");
    let output = pvlab(&line);
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    serde_json::from_value(json(stdout(&output))["record"].clone()).unwrap()
}

fn ended(waits: Option<&Waits>) -> u64 {
    waits.map_or(0, Waits::ended)
}

/// What was timed is what was counted.
fn agree(figures: &Figures, about: &str) {
    let acquisitions = figures.counter(Counter::Acquisitions);
    let reads = figures.counter(Counter::Reads);
    let contended = figures.counter(Counter::Lock(LockEvent::Contended));
    assert!(contended <= acquisitions, "{about}: {contended} contended");
    assert!(figures.waits.is_some(), "{about}");
    assert_eq!(
        ended(figures.waits.as_ref()),
        acquisitions - reads,
        "{about}"
    );
    assert_eq!(ended(figures.read_waits.as_ref()), reads, "{about}");
    for waits in figures.waits.iter().chain(&figures.read_waits) {
        // The longest is of the same interval as the others.
        let ended = waits.in_ns().last().map_or(0, |(ns, _)| ns);
        let longest = ended.max(waits.cut_off_ns.unwrap_or(0));
        assert!(waits.max_ns <= longest, "{about}: {waits:?}");
        assert!(longest <= waits.max_ns + waits.max_ns / 8 + 2, "{about}");
    }
}

const MIXES: [&str; 6] = [
    "--lock tas --vcpus 2",
    "--lock ticket --vcpus 2",
    "--lock pv-qspinlock --vcpus 4 --spin-threshold 256",
    "--lock rwlock --vcpus 3 --reads 4:1",
    "--lock rwlock --vcpus 4 --readers 3",
    "--lock qspinlock --vcpus 2 --contexts 4",
];

#[test]
fn every_acquisition_has_its_wait_in_a_timed_run() {
    for machine in everywhere() {
        let length = match machine.contains("sim:") {
            true => "--duration 2ms --warm-up 1ms",
            false => "--duration 60ms --warm-up 10ms",
        };
        for mix in MIXES {
            let about = format!("{mix} {machine}");
            let record = record(&format!("{mix} {length}"), &machine);
            for vcpu in record.vcpus() {
                agree(&vcpu.whole, &about);
                assert_eq!(vcpu.all_at_work, None, "{about}");
            }
        }
    }
}

#[test]
fn a_fixed_number_of_acquisitions_has_as_many_waits() {
    for machine in everywhere() {
        for mix in MIXES {
            let about = format!("{mix} {machine}");
            let record = record(&format!("{mix} --iterations 40 --warm-up 5ms"), &machine);
            let vm = &record.vms[0];
            let first = vm.first_done_s.unwrap();
            assert!(first <= record.measured_s, "{about}");
            let mut most = 0;
            for vcpu in &vm.vcpus {
                let (whole, at_work) = (&vcpu.whole, vcpu.all_at_work.as_ref().unwrap());
                agree(whole, &about);
                agree(at_work, &about);
                // Those made in interrupts are beside the number asked for.
                let own = |figures: &Figures| {
                    figures.counter(Counter::Acquisitions) - figures.counter(Counter::Nested)
                };
                assert_eq!(own(whole), 40, "{about}");
                assert!(own(at_work) <= 40, "{about}");
                most = most.max(own(at_work));
                assert!(vcpu.finished_s.unwrap() >= first, "{about}");
                assert!(vcpu.finished_s.unwrap() <= record.measured_s, "{about}");
            }
            assert_eq!(most, 40, "{about}: the first was done");
        }
    }
}

#[test]
fn runs_that_are_not_timed_have_no_waits() {
    for machine in everywhere() {
        for length in ["--iterations 100", "--duration 3ms"] {
            let line = format!("--lock rwlock --vcpus 2 --readers 1 --no-latency {length}");
            let record = record(&format!("{line} --warm-up 1ms"), &machine);
            for vcpu in record.vcpus() {
                assert_eq!((vcpu.waits(), vcpu.read_waits()), (None, None));
                if length.contains("iterations") {
                    assert_eq!(vcpu.whole.counter(Counter::Acquisitions), 100);
                }
            }
        }
    }
}

#[derive(Default)]
struct Collected(Vec<Interval>);

impl Observer for Collected {
    fn interval(&mut self, interval: &Interval) -> ControlFlow<()> {
        self.0.push(interval.clone());
        ControlFlow::Continue(())
    }
}

#[test]
fn interval_lines_add_up_to_the_whole() {
    for machine in everywhere() {
        let simulated = machine.contains("sim:");
        let timed = if simulated {
            "--duration 10ms"
        } else {
            "--duration 100ms"
        };
        for length in [timed, "--iterations 2000"] {
            let line = format!("--lock tas --vcpus 2 {length} --warm-up 1ms");
            let scenario = record(&line, &machine).scenario;
            let mut collected = Collected::default();
            let options = Options {
                // In the last interval, the whole is not a multiple of it.
                stat_interval: Some(Duration::from_millis(if simulated { 3 } else { 30 })),
                ..Options::default()
            };
            let record = session::run(&scenario, &options, &mut collected).unwrap();
            let vm = &record.vms[0];
            let sum = |of: fn(&IntervalVm) -> u64| -> u64 {
                collected
                    .0
                    .iter()
                    .map(|interval| of(&interval.vms[0]))
                    .sum()
            };
            let contended = Counter::Lock(LockEvent::Contended);
            assert_eq!(
                sum(|vm| vm.acquisitions),
                vm.whole(Counter::Acquisitions),
                "{line} {machine}"
            );
            assert_eq!(sum(|vm| vm.contended), vm.whole(contended));
            // That vCPUs are done with a fixed number is noticed later.
            if length.contains("iterations") {
                continue;
            }
            let length: f64 = collected.0.iter().map(|interval| interval.length_s).sum();
            assert!(
                (length - record.measured_s).abs() <= 1e-3 + record.measured_s / 100.0,
                "{length} of {} s: {line} {machine}",
                record.measured_s
            );
        }
    }
}

#[test]
fn a_comparison_tells_when_vcpus_were_done_and_which_waits_were_cut_off() {
    let line = "compare --machine sim:broadwell-ex-4s --cpus 0-3 --locks tas,ticket --vcpus 3 --rounds 3 \
                --warm-up 1ms";
    let table = |length: &str| {
        let output = pvlab(&format!("{line} {length}"));
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).to_owned()
    };
    let told = "the first vCPU was done after ";
    assert!(table("--iterations 40").contains(told));
    assert!(!table("--duration 1ms").contains(told));
    let csv = table("--duration 1ms --format csv");
    let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let at = |name| header.iter().position(|column| *column == name).unwrap();
    let (count, longest) = (at("waits_cut_off"), at("wait_cut_off_ns"));
    let ticket = rows.next_back().unwrap();
    // Two of three wait for a fair lock when time is up.
    assert!(ticket[count].parse::<u64>().unwrap() > 0, "{csv}");
    assert!(ticket[longest].parse::<u64>().unwrap() > 0, "{csv}");
}

/// Nobody watches.
struct Alone;

impl Observer for Alone {}

#[test]
fn the_account_of_a_trace_has_the_acquisitions_of_the_record() {
    for machine in everywhere() {
        for lock in ["pv-qspinlock", "ticket"] {
            let ms = if machine.contains("sim:") { 5 } else { 50 };
            let line = format!("--lock {lock} --vcpus 4 --duration {ms}ms --warm-up 5ms");
            let scenario = record(&line, &machine).scenario;
            let mut collector = Collector::new(DEFAULT_RECORDS, []).unwrap();
            let record =
                session::trace(&scenario, &Options::default(), &mut Alone, &mut collector).unwrap();
            let setup = Setup {
                vms: vec![VmSetup {
                    lock: scenario.vms[0].lock.kind,
                    vcpus: 4,
                    locks: 1,
                }],
                simulated: machine.contains("sim:"),
            };
            let mut accountant = Accountant::new(&setup);
            let merged = collector
                .merge(|event| {
                    accountant.event(event);
                    Ok::<_, CollectError>(())
                })
                .unwrap();
            let account = accountant.finish(merged.end_ns);
            let total = &account.vms[0].total;
            let seen = total.acquisitions + total.incomplete + total.dropped;
            let counted = record.vms[0].total(Counter::Acquisitions);
            // The trace begins and ends at the moments at which counters are read, but for the time that
            // takes on a real machine.
            let most = if machine.contains("sim:") {
                4
            } else {
                64 + counted / 20
            };
            let apart = seen.abs_diff(counted);
            println!("{machine} {lock}: {seen} traced, {counted} counted");
            assert!(
                apart <= most,
                "{machine}, {lock}: {seen} traced, {counted} counted"
            );
        }
    }
}
