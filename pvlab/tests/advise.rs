//! `pvlab advise`, on a machine that does the same each time.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{ended_in_a_line, json, pvlab, stderr, stdout};

#[test]
fn an_overcommitted_machine_is_told_to_use_paravirtual_locks() {
    let line = "advise --machine sim:here --cpus 0-1 --overcommit 4 --duration 40ms --warm-up 20ms";
    let output = pvlab(&format!("{line} --format json"));
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(stdout(&output));
    assert_eq!(report["schema"], "pvlab.advise/1");
    let cells = report["cells"].as_array().unwrap();
    let places: Vec<_> = (cells.iter())
        .map(|cell| {
            (
                cell["overcommit"].as_u64().unwrap(),
                cell["neighbours"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(places, [(1, 0), (1, 2), (4, 0), (4, 2)]);
    for cell in cells {
        let locks = cell["locks"].as_array().unwrap();
        let names: Vec<_> = locks
            .iter()
            .map(|lock| lock["lock"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["qspinlock", "pv-qspinlock", "pv-next", "tas"]);
        assert_eq!(
            locks[0]["ratio"], 1.0,
            "native is what others are compared with"
        );
    }
    // A native queue stands still there, each time.
    assert_eq!(cells[2]["locks"][1]["verdict"], "faster", "{}", cells[2]);
    assert_eq!(report["choice"], "on");
    let text = pvlab(line);
    let text = stdout(&text);
    for part in [
        "advice: ",
        "4 vCPUs a CPU, alone: paravirtual makes",
        "Paravirtual locks pay already with one vCPU a CPU.",
        "worst stall",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (line, part) in [
        ("advise --overcommit 0", "at least 1"),
        ("advise --overcommit 65", "at most 64"),
        ("advise --overcommit 2,", "between two commas"),
        ("advise --vcpus 8", "--vcpus"),
    ] {
        ended_in_a_line(&pvlab(line), 2, line, &[part]);
    }
}
