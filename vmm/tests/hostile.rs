//! Guests that do the host harm, at random, on real KVM (`guest/src/image/hostile.rs` says what they do): each
//! thing that the host reads of them is an error or a value, what it holds for them is bounded, and it ends when it
//! is to. Without /dev/kvm these tests say loudly that they were skipped.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test fails by panicking.

mod support;

use abi::{HISTS, Params, VcpuArea, Workload, phase};
use host::Notice;
use host::region::RegionError;
use std::mem::offset_of;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use support::kvm_is_here;
use tokio::sync::mpsc::UnboundedReceiver;
use vmm::{Config, Cpl, Vm, VmmError};

/// vCPUs of each guest.
const VCPUS: usize = 4;
/// How long each guest may do harm.
const TIME: Duration = Duration::from_millis(700);
/// Messages of a vCPU that are passed on, at most.
const MOST_LOGS: usize = 100;

fn hostile(seed: u64, cpl: Cpl) -> (Vm, UnboundedReceiver<Notice>) {
    let params = Params {
        workload: Workload::Hostile as u64,
        locks: 3,
        tasks: 2,
        trace_records: 1024,
        seed,
        ..Params::default()
    };
    let config = Config {
        params,
        cpl,
        seccomp: true,
        affinity: vec![vec![0, 1]; VCPUS],
    };
    Vm::start(&config).unwrap()
}

/// What the host has read.
#[derive(Default)]
struct Seen {
    /// Records taken from each ring.
    taken: [u64; VCPUS],
    /// Reads that were values, and that were errors.
    values: u64,
    garbled: u64,
}

impl Seen {
    fn note<T>(&mut self, read: Result<T, RegionError>) {
        match read {
            Ok(_) => self.values += 1,
            Err(
                RegionError::Count { .. } | RegionError::Entries { .. } | RegionError::Ring { .. },
            ) => {
                self.garbled += 1;
            }
            // Nothing that a guest writes makes the host look outside its memory.
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads all that there is to be read.
    fn look(&mut self, vm: &Vm) {
        let region = vm.region();
        self.note(region.acquisitions());
        self.note(region.preempted_is_reported());
        for lock in 0..region.layout().locks() {
            self.note(region.lock(lock));
        }
        for task in 0..region.layout().tasks() {
            self.note(region.task_phase(task));
            self.note(region.task_count(task, offset_of!(abi::TaskArea, writes)));
        }
        for cpu in 0..VCPUS {
            self.note(region.state(cpu));
            self.note(region.counters(cpu));
            self.note(region.steal(cpu));
            self.note(region.calibration(cpu));
            self.note(region.trace_aside(cpu));
            self.note(region.trace_dropped(cpu));
            for hist in 0..HISTS {
                self.note(region.hist(cpu, hist));
            }
            let mark = offset_of!(VcpuArea, begun);
            self.note(region.counters_of_mark(cpu, mark));
            let log = region.log(cpu).unwrap();
            assert!(!log.chars().any(|c| c.is_control() && c != '\n'), "{log:?}");
            let nodes = region.queue_nodes(cpu).unwrap();
            assert!(nodes.len() <= pvlock::MAX_NODES);
            let mut records = Vec::new();
            let before = self.taken[cpu];
            let drained = region.drain_trace(cpu, &mut self.taken[cpu], &mut records);
            self.note(drained);
            assert!(records.len() <= 8 * region.layout().trace_records());
            assert_eq!(self.taken[cpu] - before, records.len() as u64 / 8);
            vm.exits(cpu);
            vm.kvm_stats(cpu);
        }
    }
}

/// Runs a hostile guest, looks at it all the time, and ends it. What it has said.
fn run(seed: u64, cpl: Cpl) -> Vec<Notice> {
    let (mut vm, mut notices) = hostile(seed, cpl);
    let mut seen = Seen::default();
    let begun = Instant::now();
    let mut looks = 0;
    while begun.elapsed() < TIME {
        seen.look(&vm);
        looks += 1;
        // As the session does, now and then.
        if looks % 50 == 0 {
            vm.region().set_phase(phase::WARM_UP).unwrap();
            (0..VCPUS).for_each(|cpu| vm.kick(cpu).unwrap());
        }
        if looks % 500 == 0 {
            let registers = vm.registers();
            assert_eq!(registers.len(), VCPUS);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    vm.stop();
    seen.look(&vm);
    eprintln!(
        "seed {seed}, {cpl}: {} values, {} garbled",
        seen.values, seen.garbled
    );
    let mut said = Vec::new();
    while let Ok(notice) = notices.try_recv() {
        said.push(notice);
    }
    said
}

/// Each vCPU has ended in one of the ways there are, and has not said more than is listened to.
fn check(seed: u64, said: &[Notice]) {
    let mut ended = [0; VCPUS];
    let mut logs = [0; VCPUS];
    for notice in said {
        match notice {
            Notice::Log { vcpu, .. } => logs[*vcpu] += 1,
            Notice::Done { vcpu } | Notice::Panicked { vcpu, .. } => ended[*vcpu] += 1,
            Notice::Failed { vcpu, error } => {
                ended[*vcpu] += 1;
                let error: &VmmError = error.downcast_ref().unwrap();
                let of_the_guest = matches!(
                    error,
                    VmmError::TripleFault { .. }
                        | VmmError::BadStore { .. }
                        | VmmError::UnexpectedExit { .. }
                );
                assert!(of_the_guest, "seed {seed}: {error}");
                assert_eq!(error.to_string().lines().count(), 1, "seed {seed}: {error}");
            }
        }
    }
    assert_eq!(ended, [1; VCPUS], "seed {seed}");
    assert!(
        logs.iter().all(|&logs| logs <= MOST_LOGS),
        "seed {seed}: {logs:?}"
    );
}

#[test]
fn whatever_a_guest_does_the_host_reads_on_and_ends() {
    if !kvm_is_here() {
        return;
    }
    // Twice each of what there is to be up to.
    for seed in 0..12 {
        let said = ends_in_time(move || run(seed, Cpl::Cpl3));
        check(seed, &said);
    }
    // Whoever is reckless gets to ending its vCPUs.
    let failed = (4..64).step_by(6).any(|seed| {
        let said = ends_in_time(move || run(seed, Cpl::Cpl3));
        check(seed, &said);
        said.iter()
            .any(|notice| matches!(notice, Notice::Failed { .. }))
    });
    assert!(failed, "no hostile guest got to where it would be stopped");
}

#[test]
fn a_guest_in_kernel_mode_does_no_more_harm() {
    if !kvm_is_here() {
        return;
    }
    for seed in [4, 5] {
        let said = ends_in_time(move || run(seed, Cpl::Cpl0));
        check(seed, &said);
    }
}

/// What comes of `f`, which must not hang.
fn ends_in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = f();
        let _ = done.send(());
        result
    });
    match is_done.recv_timeout(Duration::from_secs(120)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the host hangs"),
        // A panic of the thread is the test's.
        _ => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}
