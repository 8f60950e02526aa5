//! Our locks and those of others on the threads of this host, as `docs/peers.md`:
//!
//! ```text
//! cargo bench -p pvlab --bench peers --features ck
//! ```
//!
//! `-- --output FILE` writes elsewhere, `-- --quick` measures for a fifth of the time. Every cell is a
//! `pvlab compare --peers`, whose runs are interleaved; what it needs is on its command line, which the page shows.
#![allow(clippy::unwrap_used, clippy::expect_used)] // It ends with what went wrong.

use serde_json::Value;
use std::fmt::Write as _;
use std::process::Command;

const THREADS: [u32; 6] = [1, 2, 4, 8, 16, 48];
const SECTIONS: [&str; 4] = ["0", "130ns", "1us", "10us"];
const CPUS: &str = "0-1";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let output = arguments.iter().position(|argument| argument == "--output");
    let output = output.and_then(|at| arguments.get(at + 1).cloned());
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/peers.md");
    let output = output.unwrap_or_else(|| default.to_owned());
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let (rounds, duration) = if quick { (2, "50ms") } else { (3, "150ms") };

    let mut page = page_head(rounds, duration);
    uncontended(&mut page, rounds, duration);
    for section in SECTIONS {
        let _ = writeln!(page, "\n## Critical section {section}, outside {section}\n");
        for threads in THREADS {
            eprintln!("section {section}, {threads} threads");
            let options = format!("--vcpus {threads} --critical {section} --outside {section}");
            let report = compare(&options, rounds, duration);
            let plural = if threads == 1 { "" } else { "s" };
            let _ = writeln!(page, "### {threads} thread{plural} on {CPUS}\n");
            rows(&mut page, &report);
        }
    }
    eprintln!("read sides");
    let _ = writeln!(
        page,
        "\n## Reader-writer locks, 90 % reads, 130 ns and 130 ns, 8 threads\n"
    );
    rows(
        &mut page,
        &compare("--vcpus 8 --reads 90%", rounds, duration),
    );
    std::fs::write(&output, page).expect("the page can be written");
    eprintln!("written to {output}");
}

fn page_head(rounds: u32, duration: &str) -> String {
    let doctor = pvlab("doctor --format json");
    let host = &doctor["host"];
    format!(
        "# Our locks beside those of others\n\n\
         Made by `cargo bench -p pvlab --bench peers --features ck`; do not edit. Host threads on CPUs {CPUS} of this \
         host: {} ({} CPUs), Linux {}. {rounds} rounds of {duration}, interleaved; throughput is the median with its \
         95 % interval, the ratio that of paired rounds to `pv-next`. Waits include those that were cut off at the \
         end (`>=`). `max/min` is the most by the fewest acquisitions of a thread; CPUs are those in use on average.\n\n\
         Each cell is `pvlab compare --peers --cpus {CPUS} --rounds {rounds} --duration {duration}` with the options in \
         its heading. Compare within a table only: the host is shared, and its speed changes.\n",
        host["cpu_model"].as_str().unwrap_or("?"),
        host["online_cpus"].as_array().map_or(0, Vec::len),
        host["kernel"].as_str().unwrap_or("?"),
    )
}

/// What one thread pays that nobody disturbs, beside the loop that does nothing else.
fn uncontended(page: &mut String, rounds: u32, duration: &str) {
    eprintln!("uncontended");
    let options = "--vcpus 1 --critical 0 --outside 0 --no-latency --data none";
    let report = compare(options, rounds, duration);
    let _ = writeln!(
        page,
        "\n## Uncontended\n\n\
         One thread, `{options}`: an acquisition, a release and the loop around both. The floor is what tas takes, a \
         compare-and-exchange and a store.\n\n\
         | lock | ns a pair | of the floor |\n|---|---:|---:|"
    );
    let ns = |result: &Value| 1e9 / result["throughput"]["median"].as_f64().unwrap_or(f64::NAN);
    let results = report["results"].as_array().unwrap();
    let floor = compare_tas(options, rounds, duration);
    for result in results {
        let ns = ns(result);
        let _ = writeln!(page, "| {} | {ns:.1} | {:.2} |", name(result), ns / floor);
    }
    let _ = writeln!(page, "| tas (floor) | {floor:.1} | 1.00 |");
}

fn compare_tas(options: &str, rounds: u32, duration: &str) -> f64 {
    let report = pvlab(&format!(
        "compare --machine threads --locks tas,tas {options} --cpus {CPUS} --rounds {rounds} --duration {duration} \
         --format json"
    ));
    1e9 / report["results"][0]["throughput"]["median"]
        .as_f64()
        .unwrap()
}

fn rows(page: &mut String, report: &Value) {
    let _ = writeln!(
        page,
        "| lock | acquisitions | of pv-next | p50 | p99.9 | longest | max/min | CPUs |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    for result in report["results"].as_array().unwrap() {
        let throughput = &result["throughput"];
        let rate = |which: &str| throughput[which].as_f64().map_or("-".to_owned(), rate);
        let number = |value: &Value| value.as_f64().map_or("-".to_owned(), ratio_of);
        let ratio = &result["ratio"];
        let ratio = match ratio["median"].as_f64() {
            Some(_) => format!(
                "{} ({} to {})",
                number(&ratio["median"]),
                number(&ratio["lo"]),
                number(&ratio["hi"])
            ),
            None => "1".to_owned(),
        };
        let waits = &result["wait_ns"];
        let wait = |which: &str| {
            let more = if waits["at_least"][which] == true {
                ">= "
            } else {
                ""
            };
            waits[which]
                .as_f64()
                .map_or("-".to_owned(), |ns| format!("{more}{}", time(ns)))
        };
        let cpus = result["cpu_ns"]
            .as_f64()
            .zip(result["whole_s"].as_f64())
            .map(|(ns, s)| ns / 1e9 / s);
        let _ = writeln!(
            page,
            "| {} | {} ({} to {}) | {ratio} | {} | {} | {} | {} | {} |",
            name(result),
            rate("median"),
            rate("lo"),
            rate("hi"),
            wait("p50"),
            wait("p999"),
            wait("max"),
            number(&result["fairness"]["max_over_min"]),
            cpus.map_or("-".to_owned(), |cpus| format!("{cpus:.2}")),
        );
    }
    let _ = writeln!(page);
}

fn name(result: &Value) -> &str {
    result["lock"].as_str().unwrap_or("?")
}

fn rate(per_s: f64) -> String {
    match per_s {
        r if r < 1e3 => format!("{r:.0} /s"),
        r if r < 1e6 => format!("{:.1} k/s", r / 1e3),
        r => format!("{:.2} M/s", r / 1e6),
    }
}

/// Three digits, however small it is.
fn ratio_of(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 0.1 || v == 0.0 => format!("{v:.2}"),
        v => format!("{v:.1e}"),
    }
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

fn compare(options: &str, rounds: u32, duration: &str) -> Value {
    pvlab(&format!(
        "compare --peers {options} --cpus {CPUS} --rounds {rounds} --duration {duration} --warm-up 100ms --format json"
    ))
}

/// What `pvlab` says, as JSON.
fn pvlab(line: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_pvlab"))
        .args(line.split_whitespace())
        .output()
        .expect("pvlab runs");
    assert!(
        output.status.success(),
        "pvlab {line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}
