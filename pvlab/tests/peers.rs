//! Locks that others wrote, on host threads: they run through the same workload, checks and figures as ours, and
//! nowhere else.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{ended, ended_in_a_line, json, pvlab, stdout};
use peers::Peer;

fn built_in() -> impl Iterator<Item = Peer> {
    Peer::ALL.iter().copied().filter(|peer| peer.is_built_in())
}

#[test]
fn every_peer_excludes_and_is_measured_like_our_locks() {
    for peer in built_in() {
        let line = format!(
            "run --machine threads --lock {peer} --vcpus 4 --cpus 0 --duration 60ms --warm-up 1ms --format json"
        );
        let output = pvlab(&line);
        ended(&output, 0, &line, &[]);
        let report = json(stdout(&output));
        assert_eq!(report["exclusion"], "held", "{peer}");
        let summary = &report["summaries"][0];
        let acquisitions = summary["acquisitions"].as_u64().unwrap();
        assert!(acquisitions > 0, "{peer}");
        assert!(summary["wait_ns"]["max"].as_u64().unwrap() > 0, "{peer}");
        assert!(summary["contended"].is_null(), "nobody told: {peer}");
        assert_eq!(report["record"]["vms"][0]["lock"], peer.name());
    }
}

#[test]
fn peers_with_a_read_side_share() {
    for peer in built_in().filter(|peer| peer.is_rw()) {
        let line = format!(
            "torture --machine threads --lock {peer} --readers 2 --writers 2 --cpus 0 --duration 100ms --format json"
        );
        let output = pvlab(&line);
        ended(&output, 0, &line, &[]);
        let line = format!(
            "run --machine threads --lock {peer} --reads 90% --vcpus 4 --cpus 0 --duration 60ms --warm-up 1ms \
             --format json"
        );
        let output = pvlab(&line);
        ended(&output, 0, &line, &[]);
        assert_eq!(json(stdout(&output))["exclusion"], "held", "{peer}");
    }
}

#[test]
fn a_trace_of_a_peer_adds_up() {
    for lock in ["std-mutex", "parking-lot", "pthread-mutex"] {
        let line = format!(
            "trace --machine threads --lock {lock} --vcpus 3 --cpus 0 --duration 20ms --warm-up 1ms --account json"
        );
        let output = pvlab(&line);
        ended(&output, 0, &line, &[]);
    }
}

#[test]
fn peers_are_refused_where_they_cannot_run() {
    for (line, says) in [
        (
            "run --lock std-mutex --machine sim:here",
            "add --machine threads",
        ),
        (
            "compare --locks tas,parking-lot --machine sim:here",
            "add --machine threads",
        ),
        (
            "trace --lock pthread-spin --machine sim:here",
            "add --machine threads",
        ),
        (
            "torture --lock spin-tas --machine sim:here",
            "add --machine threads",
        ),
        (
            "run --lock std-mutex:pointer --machine threads",
            "write 'std-mutex'",
        ),
        (
            "run --lock std-mutx --machine threads",
            "did you mean 'std-mutex'?",
        ),
        ("run --lock std-mutex --machine threads --reads 50%", "read"),
    ] {
        let output = pvlab(line);
        ended_in_a_line(&output, 2, line, &[says]);
    }
    if std::path::Path::new("/dev/kvm").exists() {
        let output = pvlab("run --lock std-mutex --machine kvm");
        ended_in_a_line(&output, 2, "KVM", &["add --machine threads"]);
    }
    for peer in Peer::ALL.iter().filter(|peer| !peer.is_built_in()) {
        let output = pvlab(&format!("run --lock {peer} --machine threads"));
        ended_in_a_line(&output, 2, peer.name(), &["--features ck"]);
    }
}

#[test]
fn a_comparison_with_peers_runs_all_of_them() {
    let output = pvlab(
        "compare --peers --rounds 1 --vcpus 2 --cpus 0 --duration 20ms --warm-up 1ms --format json",
    );
    ended(&output, 0, "compare", &[]);
    let report = json(stdout(&output));
    let locks: Vec<_> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| lock["lock"].as_str().unwrap())
        .collect();
    assert_eq!(locks[0], "pv-next");
    let peers: Vec<_> = built_in()
        .filter(|peer| !peer.is_rw())
        .map(Peer::name)
        .collect();
    assert_eq!(locks[1..], peers);
    let output = pvlab(
        "compare --peers --reads 90% --rounds 1 --vcpus 2 --cpus 0 --duration 20ms --warm-up 1ms --format csv",
    );
    ended(&output, 0, "compare", &[]);
    for peer in built_in() {
        assert_eq!(
            stdout(&output).contains(&format!("{peer},")),
            peer.is_rw(),
            "{peer}"
        );
    }
    let output = pvlab("compare --peers --locks tas");
    ended(&output, 2, "both", &["--locks"]);
}
