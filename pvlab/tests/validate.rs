//! The simulated machine beside the real one: `validate`, `calibrate`.

mod commands;

use commands::{ended, ended_in_a_line, pvlab, stderr};
use serde_json::Value;

#[test]
fn every_cell_is_run_on_both_machines() {
    let output = pvlab(
        "validate --machine threads --locks tas,ticket --vcpus 1,2 --rounds 1 --duration 20ms \
         --warm-up 1ms --format json",
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["simulated_machine"], "sim:here");
    assert_eq!(report["machine"], "threads");
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        for side in ["real", "simulated"] {
            assert!(
                cell[side]["acquisitions_per_s"].as_f64().unwrap() > 0.0,
                "{cell}"
            );
        }
        let ratio = cell["simulated"]["acquisitions_per_s"].as_f64().unwrap()
            / cell["real"]["acquisitions_per_s"].as_f64().unwrap();
        assert!(
            (cell["ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9,
            "{cell}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    for (line, what) in [
        (
            "validate --against kvm",
            "--against applies only to simulated machines",
        ),
        ("validate --against sim:hear", "did you mean 'here'?"),
        (
            "validate --against sim:./no-such-file.toml",
            "no-such-file.toml",
        ),
        (
            "validate --against sim:here --machine sim:here",
            "simulated",
        ),
        ("validate --set kick_us=1", "did you mean 'kick_ns'?"),
        (
            "calibrate --machine sim:here",
            "pvlab calibrate measures a real machine, but the machine is simulated",
        ),
    ] {
        let output = pvlab(line);
        ended_in_a_line(&output, 2, line, &[what]);
    }
}

#[test]
fn a_file_is_a_machine() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("host.toml");
    let preset = sim::presets::text("cascade-lake-2s").unwrap();
    std::fs::write(&file, preset).unwrap();
    let run = |machine: &str| {
        let output = pvlab(&format!(
            "run --machine {machine} --lock tas --vcpus 2 --cpus 0-1 --duration 2ms --warm-up 1ms --format csv"
        ));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let by_file = run(&format!("sim:{}", file.display()));
    let by_name = run("sim:cascade-lake-2s");
    assert_eq!(
        by_file.replace(&file.display().to_string(), "cascade-lake-2s"),
        by_name
    );

    std::fs::write(&file, "name = 1").unwrap();
    let output = pvlab(&format!("run --lock tas --machine sim:{}", file.display()));
    ended(&output, 2, "", &["host.toml"]);
}
