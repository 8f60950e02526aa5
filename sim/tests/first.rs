#![allow(clippy::unwrap_used)]
mod support;
use support::{Lab, spin};
#[test]
fn first() {
    let name = std::env::var("PRESET").unwrap_or("broadwell-ex-4s".into());
    let mut spec = sim::presets::find(&name).unwrap();
    if let Ok(set) = std::env::var("SET") {
        for a in set.split(',') {
            spec.set(a).unwrap();
        }
    }
    for lock in std::env::var("LOCKS")
        .unwrap_or("tas,ticket,qspinlock,pv-qspinlock".into())
        .split(',')
    {
        for shape in std::env::var("SHAPES")
            .unwrap_or("1:1,8:8,64:64,8:2".into())
            .split(',')
        {
            let (vcpus, cpus) = shape.split_once(':').unwrap();
            let (vcpus, cpus): (usize, usize) = (vcpus.parse().unwrap(), cpus.parse().unwrap());
            let map: Vec<_> = (0..vcpus).map(|v| vec![v % cpus]).collect();
            let t = std::time::Instant::now();
            let mut params = spin(lock, vcpus);
            if let Ok(x) = std::env::var("CRIT") {
                params.critical_ns = x.parse().unwrap();
                params.outside_ns = params.critical_ns;
            }
            let mut lab = Lab::new(&spec, 7, params, &map);
            let ms = std::env::var("MS").map_or(20, |x| x.parse().unwrap());
            let acq = lab.measure(
                std::env::var("WARM").map_or(10, |x| x.parse().unwrap()) * 1_000_000,
                ms * 1_000_000,
            );
            let dt = t.elapsed().as_secs_f64();
            let st = lab.sim.stats();
            let sum: u64 = acq.iter().sum();
            println!(
                "{lock:14} {vcpus:3} on {cpus:3}: {:10.0} acq/s, min {} max {}, events {} requests {} in {dt:.2} s: {:.1} Mev/s halts {} kicks {} out {:?}",
                sum as f64 / ms as f64 * 1e3,
                acq.iter().min().unwrap(),
                acq.iter().max().unwrap(),
                st.events,
                st.requests,
                st.events as f64 / dt / 1e6,
                lab.total(guest::abi::Counter::Halts),
                lab.total(guest::abi::Counter::Kicks),
                lab.sim.take_outcomes().len()
            );
        }
    }
}
