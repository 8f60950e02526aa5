//! How fast the simulator is: on one core of this host,
//!
//! * `events`: events a second while 64 vCPUs fight for a qspinlock;
//! * `operations`: simulated atomic operations a second of one vCPU that nobody disturbs;
//! * `huge`: 4,096 vCPUs on 224 CPUs at a pv-qspinlock, 10 ms of virtual time (by ten for 100 ms).

use abi::{Params, Workload, phase};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use host::Region;
use host::region::layout_of;
use pvlock::LockKind;
use sim::{Options, Simulation, Spec, VmConfig};
use std::time::{Duration, Instant};

/// Virtual time of a step, ns.
const STEP_NS: u64 = 1_000_000;

/// A machine at work, with the memory of its VM.
struct Lab {
    // Dropped first.
    simulation: Simulation,
    region: Region,
}

impl Lab {
    fn new(
        spec: &Spec,
        lock: LockKind,
        vcpus: usize,
        (critical_ns, outside_ns): (u64, u64),
    ) -> Self {
        let params = Params {
            vcpus: vcpus as u64,
            locks: 1,
            workload: Workload::Spin as u64,
            lock_kind: lock.id().into(),
            critical_ns,
            outside_ns,
            spin_threshold: 1 << 15,
            tsc_khz: 1_000_000,
            seed: 1,
            ..Params::default()
        };
        let region = Region::in_process(&params).expect("memory for the region");
        let mut simulation = Simulation::new(spec, Options::default());
        let config = VmConfig {
            layout: layout_of(&params),
            region: region.host_address().expect("a region has an address"),
            affinity: (0..vcpus).map(|vcpu| vec![vcpu % spec.cpus()]).collect(),
            instrumented: false,
        };
        // SAFETY: the region is filled in, and is dropped after the simulation.
        #[allow(unsafe_code)]
        unsafe { simulation.add_vm(&config) }.expect("a machine that can have the VM");
        let mut lab = Self { simulation, region };
        lab.steps(2);
        lab.region.set_phase(phase::MEASURE).expect("a phase");
        (0..vcpus).for_each(|vcpu| lab.simulation.kick(0, vcpu));
        lab.steps(2);
        lab
    }

    fn steps(&mut self, steps: u64) {
        let now = self.simulation.now_ns();
        self.simulation.run_until(now + steps * STEP_NS);
    }

    fn acquisitions(&self) -> u64 {
        self.region.acquisitions().expect("the region's counters")
    }
}

fn spec(name: &str) -> Spec {
    sim::presets::find(name).expect("a preset")
}

/// How long it takes until `amount` of what `count` counts has come, while the machine goes on.
fn until(lab: &mut Lab, amount: u64, count: impl Fn(&Lab) -> u64) -> Duration {
    let (before, begun) = (count(lab), Instant::now());
    while count(lab) - before < amount {
        lab.steps(1);
    }
    let done = count(lab) - before;
    // The last step has done more than was asked for.
    begun.elapsed().mul_f64(amount as f64 / done as f64)
}

fn simulator(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulator");
    group.sample_size(10);
    group.throughput(Throughput::Elements(1));
    let mut contended = Lab::new(&spec("broadwell-ex-4s"), LockKind::QSpinLock, 64, (0, 0));
    group.bench_function("events", |b| {
        b.iter_custom(|events| until(&mut contended, events, |lab| lab.simulation.stats().events));
    });
    let mut alone = Lab::new(&spec("broadwell-ex-4s"), LockKind::Tas, 1, (0, 0));
    group.bench_function("operations", |b| {
        b.iter_custom(|operations| {
            until(&mut alone, operations, |lab| {
                lab.simulation.stats().operations
            })
        });
    });
    group.finish();

    let mut group = c.benchmark_group("huge");
    group.sample_size(10);
    group.warm_up_time(Duration::from_millis(1));
    let mut huge = Lab::new(
        &spec("thunderx2-2s"),
        LockKind::PvQSpinLock,
        4096,
        (130, 130),
    );
    group.bench_function("10 ms of 4096 vCPUs", |b| {
        b.iter_custom(|times| {
            let begun = Instant::now();
            huge.steps(10 * times);
            begun.elapsed()
        });
    });
    group.finish();
    assert!(huge.acquisitions() > 0, "nobody got the lock");
}

criterion_group!(benches, simulator);
criterion_main!(benches);
