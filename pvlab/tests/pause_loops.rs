//! Pause-loop exits on simulated machines: what they do to several VMs, and how they are counted.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{json, pvlab, stderr, stdout};
use serde_json::Value;

/// The VMs' records of `vms` guests with `vcpus` vCPUs each, of a fair lock, on four CPUs.
fn run(vms: usize, vcpus: usize, options: &str) -> Vec<Value> {
    let vms = format!("--vm lock=ticket,vcpus={vcpus} ").repeat(vms);
    let output = pvlab(&format!(
        "run --machine sim:cascade-lake-2s --cpus 0-3 {vms} {options} --duration 24ms --warm-up 12ms \
         --no-latency --format json"
    ));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    json(stdout(&output))["record"]["vms"]
        .as_array()
        .unwrap()
        .clone()
}

fn sum(vms: &[Value], kind: &str, name: &str) -> u64 {
    let vcpus = vms.iter().flat_map(|vm| vm["vcpus"].as_array().unwrap());
    vcpus
        .map(|vcpu| vcpu[kind][name].as_u64().unwrap_or(0))
        .sum()
}

/// Each VM's spinners took the CPU from the other's vCPUs whenever they left the guest, and those of the
/// other took it back: three quarters of all time went into switches, and a VM could get nothing at all.
#[test]
fn vms_do_not_take_each_others_cpus_by_spinning() {
    for (eevdf, vms) in [(1, 2), (1, 3), (0, 2)] {
        let with = |ple| run(vms, 4, &format!("--set ple={ple} --set eevdf={eevdf}"));
        let (off, on) = (with(0), with(1));
        let rate = |vms: &[Value]| sum(vms, "counters", "acquisitions");
        assert!(
            rate(&on) * 10 >= rate(&off) * 9,
            "{vms} VMs, eevdf={eevdf}: {} without, {} with pause-loop exits",
            rate(&off),
            rate(&on)
        );
        for vm in &on {
            let own = sum(std::slice::from_ref(vm), "counters", "acquisitions");
            assert!(own * 6 >= rate(&on), "{own} of {}", rate(&on));
        }
    }
}

/// Within a VM they are what they are for: the waiters make way for the holder.
#[test]
fn pause_loop_exits_help_a_fair_lock_in_an_overcommitted_vm() {
    let with = |ple| {
        sum(
            &run(1, 8, &format!("--set ple={ple}")),
            "counters",
            "acquisitions",
        )
    };
    let (off, on) = (with(0), with(1));
    assert!(on > 10 * off, "{off} without, {on} with them");
}

#[test]
fn a_pause_loop_exit_is_a_yield_and_futile_if_nobody_waits() {
    // Overcommitted, there are vCPUs to yield to.
    let vms = run(1, 8, "");
    let exits = sum(&vms, "exits", "pause");
    assert!(exits > 100, "{exits}");
    // An exit at the very end of the measurement may be counted on one side only.
    let yields = sum(&vms, "counters", "yields");
    assert!(
        yields.abs_diff(exits) <= 8,
        "{yields} yields, {exits} exits"
    );
    assert!(sum(&vms, "counters", "futile_yields") < yields);
    // Not overcommitted there are none: all run.
    let vms = run(1, 4, "--critical 2ms");
    let yields = sum(&vms, "counters", "yields");
    assert!(yields > 10, "{yields}");
    assert_eq!(sum(&vms, "counters", "futile_yields"), yields);
    assert_eq!(sum(&vms, "counters", "yields_to_running"), yields);
}
