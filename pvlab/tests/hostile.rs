//! Values that nobody means, for every option there is: each is refused in one line, or has no effect; none
//! makes pvlab panic, hang or take all memory.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{pvlab, stderr, stdout};
use std::process::Command;

const VALUES: [&str; 10] = [
    "",
    "-1",
    "nan",
    "1e308",
    "18446744073709551615",
    "18446744073709551616",
    "0-18446744073709551615",
    "100000000h",
    "a=1e308",
    "4294967295:18446744073709551615:1h",
];

/// Commands that end at once, and the options that must not be given twice.
const COMMANDS: [(&str, &str); 4] = [
    (
        "run",
        "--machine sim:here --lock qrwlock --vcpus 2 --iterations 2 --warm-up 1ms",
    ),
    (
        "trace",
        "--machine sim:here --lock tas --vcpus 2 --ring 1024 --duration 1ms --warm-up 1ms",
    ),
    ("torture", "--machine sim:here --lock tas --duration 1ms"),
    ("machines", "here"),
];

/// The options of a command that take a value.
fn options(command: &str) -> Vec<String> {
    let help = pvlab(&format!("{command} --help"));
    let words = stdout(&help).split_whitespace();
    let next = words.clone().skip(1);
    let mut options: Vec<_> = words
        .zip(next)
        .filter(|(option, value)| option.starts_with("--") && value.starts_with('<'))
        .map(|(option, _)| option.to_owned())
        .collect();
    options.sort();
    options.dedup();
    options
}

#[test]
fn no_value_of_an_option_is_more_than_refused() {
    for (command, line) in COMMANDS {
        let options = options(command);
        assert!(options.len() > 1, "{command}: {options:?}");
        for option in &options {
            // What would be written to is not a question of values.
            if ["--output", "--save-schedule"].contains(&option.as_str()) {
                continue;
            }
            let others = line.split(' ').collect::<Vec<_>>();
            let mut arguments = Vec::new();
            let mut others = others.into_iter();
            while let Some(word) = others.next() {
                if word == option {
                    others.next();
                } else {
                    arguments.push(word);
                }
            }
            for value in VALUES {
                let output = Command::new("timeout")
                    .args(["60", env!("CARGO_BIN_EXE_pvlab"), command])
                    .args(&arguments)
                    .arg(format!("{option}={value}"))
                    .env_remove("RUST_LOG")
                    .output()
                    .unwrap();
                let text = stderr(&output);
                let code = output.status.code();
                let what = format!("{command} {option}={value}: {code:?}: {text}");
                assert!(matches!(code, Some(0..=3)), "{what}");
                assert!(!text.contains("panicked"), "{what}");
                if code == Some(2) {
                    assert_eq!(text.lines().count(), 1, "{what}");
                }
            }
        }
    }
}
