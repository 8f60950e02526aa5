//! Schedules of simulated runs: saved, replayed to the last bit, and refused where they do not fit.

mod commands;

use commands::{done, ended, json, pvlab, stderr};
use serde_json::Value;

#[test]
fn a_schedule_is_a_small_file_that_replays_to_the_last_bit() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("case.json");
    let file = file.display();
    let line = "run --machine sim:here --cpus 0-1 --lock pv-qspinlock --vcpus 3 --iterations 40 --warm-up 1ms \
                --format json";
    let plain = done(line);
    let scheduled = done(&format!(
        "{line} --deschedule 0:3:7ms --delay-wake 1:1:2ms --save-schedule {file}"
    ));
    assert_ne!(plain, scheduled);
    let replayed = done(&format!("replay {file} --format json"));
    let without_reason = |text: &str| {
        let mut report = json(text);
        report["machine_reason"] = Value::Null;
        report
    };
    assert_eq!(without_reason(&replayed), without_reason(&scheduled));
    assert_eq!(done(&format!("replay {file} --format json")), replayed);
    assert_eq!(
        json(&std::fs::read_to_string(file.to_string()).unwrap())["outcome"],
        "fine"
    );
    // The options that it was saved with, and others.
    assert_eq!(done(&format!("{line} --schedule {file}")), scheduled);
    for (line, what) in [
        (
            format!(
                "{} --schedule {file}",
                line.replace("pv-qspinlock", "ticket")
            ),
            "is a schedule for another scenario: vms.0.lock is \"pv-qspinlock\" there and \"ticket\" here",
        ),
        (format!("{line} --schedule /dev/null"), "is not a schedule"),
        (format!("{line} --deschedule 5:1:1ms"), "vCPU 5"),
        (format!("{line} --deschedule 0:0:1ms"), "is no schedule"),
        (
            "run --machine threads --lock tas --vcpus 2 --deschedule 0:1:1ms".to_owned(),
            "applies only to simulated machines",
        ),
    ] {
        let output = pvlab(&line);
        ended(&output, 2, &line, &[what]);
    }
}

#[test]
fn a_schedule_that_breaks_a_lock_breaks_it_again() {
    let directory = tempfile::tempdir().unwrap();
    for (lock, vcpus, code, outcome) in [
        ("busted", 2, 3, "mutual exclusion broken"),
        ("busted-wakeup", 3, 1, "a wake-up was lost"),
    ] {
        let file = directory.path().join(lock);
        let line = format!(
            "run --machine sim:here --cpus 0-1 --lock {lock} --vcpus {vcpus} --iterations 20 --warm-up 1ms"
        );
        // With the holder descheduled at another moment, nothing goes wrong.
        done(&format!("{line} --deschedule 0:1:5ms"));
        let output = pvlab(&format!(
            "{line} --deschedule 0:{}:{} --save-schedule {} --format json",
            if lock == "busted" { 12 } else { 40 },
            if lock == "busted" { "2ms" } else { "5ms" },
            file.display()
        ));
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        let again = pvlab(&format!("replay {} --format json", file.display()));
        assert_eq!(again.status.code(), Some(code), "{}", stderr(&again));
        assert_eq!(stderr(&again), stderr(&output));
        let saved = json(&std::fs::read_to_string(file).unwrap());
        let text = saved["outcome"].as_str().unwrap();
        assert!(text.contains(outcome), "{text}");
    }
}

#[test]
fn a_schedule_that_was_edited_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("case.json");
    let line = format!("replay {}", file.display());
    done(&format!(
        "run --machine sim:here --lock tas --vcpus 2 --iterations 20 --warm-up 1ms --deschedule 0:3:2ms \
         --save-schedule {}",
        file.display()
    ));
    let saved = json(&std::fs::read_to_string(&file).unwrap());
    for (place, value, what) in [
        (
            "/scenario/vms",
            Value::Array(Vec::new()),
            "the number of vms is 0",
        ),
        ("/scenario/vms/0/vcpus", 0.into(), "vms.0.vcpus is 0"),
        (
            "/scenario/simulated/rules/0/deschedule_holder/vcpu",
            7.into(),
            "deschedule_holder.vcpu is 7: it may be 0 to 1",
        ),
        (
            "/scenario/simulated/rules/0/deschedule_holder/section",
            0.into(),
            "section is 0: it may be 1 to",
        ),
    ] {
        let mut edited = saved.clone();
        *edited.pointer_mut(place).unwrap() = value;
        std::fs::write(&file, edited.to_string()).unwrap();
        let output = pvlab(&line);
        ended(&output, 2, place, &[what]);
    }
}
