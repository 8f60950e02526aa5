//! Tests of [`super`], on a host made up for them.

use super::*;
use crate::command::{Cli, Command};
use crate::options::Request;
use crate::scenario::{Length, Mix, Scenario, Torture};
use clap::Parser;

fn ask(options: &str) -> Result<(Request, Torture), CliError> {
    let words = ["pvlab", "torture"].into_iter();
    let cli = Cli::try_parse_from(words.chain(options.split_whitespace()));
    let Command::Torture(args) = cli.unwrap().command else {
        unreachable!()
    };
    torture_request(&args, &Host::fixture(4, vec![0, 1, 2, 3]))
}

#[test]
fn defaults_are_those_of_locktorture() {
    let work = |scenario: &Scenario| (scenario.vcpus(), scenario.workload.mix);
    let (request, how) = ask("--lock tas --cpus 0-3").unwrap();
    let scenario = request.scenario;
    assert_eq!(work(&scenario), (8, Mix::Readers(0)));
    assert_eq!(scenario.length, Length::Duration(Duration::from_secs(30)));
    let of_locktorture = Torture {
        long_hold: Duration::from_millis(100),
        nested_locks: 0,
        acquire_limit: Duration::ZERO,
        stutter: Duration::from_secs(5),
        shuffle_interval: Duration::from_secs(3),
        writer_fifo: false,
        irqs_off: false,
    };
    assert_eq!(how, of_locktorture);
    let scenario = ask("--lock rwlock --cpus 0-3").unwrap().0.scenario;
    assert_eq!(work(&scenario), (8, Mix::Readers(4)));
}

#[test]
fn what_makes_no_sense_is_refused_and_says_what_would() {
    for (options, what) in [
        ("tas --readers 2", "has no read side"),
        ("tas --readers 2", "rwlock"),
        ("tas --writers 0", "no writers and no readers"),
        ("rwlock --writers 0 --readers 0", "--readers"),
        ("tas --writers 5000", "at most 4096 can be had"),
        ("tas --long-hold 3s", "--watchdog"),
        ("tas --writer-fifo --writers 3", "give each writer a CPU"),
        ("tas:pointer", "torture calls locks directly"),
        ("tas --cpus 7", "CPU 7 does not exist"),
    ] {
        let error = ask(&format!("--lock {options}")).unwrap_err();
        assert_eq!(error.exit_code, 2, "{options}");
        assert!(error.to_string().contains(what), "{options}: {error}");
    }
    // None are asked for; and one is enough.
    assert!(ask("--lock tas --readers 0").is_ok());
    assert!(ask("--lock rwlock --writers 0 --readers 1").is_ok());
}

#[test]
fn at_most_eight_locks_are_nested() {
    let words = |n| ["pvlab", "torture", "--lock", "tas", "--nested-locks", n];
    assert!(Cli::try_parse_from(words("8")).is_ok());
    let error = Cli::try_parse_from(words("9")).unwrap_err().to_string();
    assert!(error.contains("9 is too many; give at most 8"), "{error}");
}
