//! The same machine, seed and calls have the same results: at any time, on any thread, in any process.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod support;

use abi::{HISTS, flags};
use sim::{Options, Rule, presets};
use std::fmt::Write;
use std::process::Command;
use support::{Lab, anywhere, spin};

const LOCKS: [&str; 5] = ["tas", "ticket", "qspinlock", "pv-qspinlock", "mutex"];
const VCPUS: usize = 5;

/// Everything that a run leaves behind, as text.
fn record(lock: &str, seed: u64) -> String {
    let mut spec = presets::find("cascade-lake-2s").unwrap();
    // Short, so that all have their turn.
    for change in ["slice_ns=200us", "tick_ns=100us"] {
        spec.set(change).unwrap();
    }
    let rule = Rule::DescheduleHolder {
        vcpu: 1,
        section: 20,
        ns: 100_000,
    };
    let options = Options {
        seed,
        rules: vec![rule],
        tracing: true,
    };
    let mut params = spin(lock, VCPUS);
    params.flags = flags::LATENCY;
    params.spin_threshold = 300;
    (params.locks, params.trace_records) = (3, 1 << 10);
    let mut lab = Lab::with(&spec, options, params, &anywhere(VCPUS, 3));
    lab.sim.add_noise(2).unwrap();
    let acquisitions = lab.measure(500_000, 3_000_000);
    assert!(acquisitions.iter().sum::<u64>() > 100, "{lock}");

    let mut text = format!(
        "{acquisitions:?} {:?} {:?}",
        lab.sim.stats(),
        lab.sim.cpu_times()
    );
    for vcpu in 0..VCPUS {
        let counters = lab.region.counters(vcpu).unwrap();
        // The buckets in use.
        let hists: Vec<_> = (0..HISTS)
            .flat_map(|h| lab.region.hist(vcpu, h).unwrap())
            .enumerate()
            .filter(|(_, count)| *count > 0)
            .collect();
        let (switches, steps) = (lab.sim.take_switches(0, vcpu), lab.sim.take_steps(0, vcpu));
        assert!(!switches.is_empty() && !steps.is_empty());
        let stats = lab.sim.vcpu_stats(0, vcpu);
        let mut trace = Vec::new();
        let drained = lab.region.drain_trace(vcpu, &mut 0, &mut trace);
        drained.unwrap();
        assert!(!trace.is_empty());
        write!(
            text,
            "{counters:?} {hists:?} {switches:?} {steps:?} {stats:?} {trace:?}"
        )
        .unwrap();
        write!(text, "{}", lab.sim.state(0, vcpu)).unwrap();
    }
    text
}

/// FNV-1a (Fowler, Noll, Vo): the same in every build, which std's hashes need not be.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn fingerprint(seed: u64) -> String {
    let one = |lock: &&str| format!("{lock}={:016x}", hash(&record(lock, seed)));
    LOCKS.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_same_seed_has_the_same_record_and_another_seed_another() {
    for lock in LOCKS {
        let first = record(lock, 7);
        // What is where in this process's memory must not matter.
        let garbage: Vec<Vec<u8>> = (1..200).map(|i| vec![1; i * 997]).collect();
        assert!(record(lock, 7) == first, "{lock}");
        drop(garbage);
        assert!(record(lock, 8) != first, "{lock}");
        assert!(record(lock, 7) == first, "{lock}");
    }
}

#[test]
fn threads_do_not_disturb_each_other() {
    let alone = fingerprint(7);
    let threads: Vec<_> = (0..3)
        .map(|i| std::thread::spawn(move || fingerprint(7 + i % 2)))
        .collect();
    let together: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert_eq!(together[0], alone);
    assert_ne!(together[1], alone);
    assert_eq!(together[2], alone);
}

#[test]
fn two_machines_in_turn_on_one_thread_do_not_disturb_each_other() {
    let spec = presets::find("cascade-lake-2s").unwrap();
    let new = |seed| Lab::new(&spec, seed, spin("qspinlock", VCPUS), &anywhere(VCPUS, 3));
    let run = |labs: &mut [Lab]| {
        for lab in &mut *labs {
            lab.measure(0, 0);
        }
        for step in 1..40 {
            for lab in &mut *labs {
                lab.sim.run_until(1_000_000 + step * 50_000);
            }
        }
        labs.iter().map(Lab::acquisitions).collect::<Vec<_>>()
    };
    let together = run(&mut [new(1), new(2)]);
    assert_eq!(together[0], run(&mut [new(1)])[0]);
    assert_eq!(together[1], run(&mut [new(2)])[0]);
    assert_ne!(together[0], together[1]);
}

/// Set for a process that is to print its fingerprint.
const CHILD: &str = "SIM_TEST_PRINTS_ITS_FINGERPRINT";
const MARK: &str = "fingerprint: ";

#[test]
fn three_processes_agree() {
    if std::env::var_os(CHILD).is_some() {
        println!("\n{MARK}{}", fingerprint(7));
        return;
    }
    let run = |padding: usize| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "three_processes_agree", "--nocapture"])
            // The environment moves what comes after it.
            .env(CHILD, "x".repeat(padding))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(MARK));
        line.unwrap_or_else(|| panic!("no fingerprint in {text}"))
            .to_owned()
    };
    let own = fingerprint(7);
    assert_eq!(own.split(' ').count(), LOCKS.len());
    for padding in [1, 1000, 50_000] {
        assert_eq!(run(padding), own);
    }
}
