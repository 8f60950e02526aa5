//! Tests of [`super`], on a host made up for them.

use super::*;
use crate::command::{Cli, Command};
use crate::options::common::Request;
use crate::scenario::{Length, Mix, Torture};
use clap::Parser;

fn host() -> Host {
    Host::fixture(4, vec![0, 1, 2, 3])
}

fn ask(options: &str) -> Result<(Request, Torture), CliError> {
    let words = ["pvlab", "torture"].into_iter();
    match Cli::try_parse_from(words.chain(options.split_whitespace()))
        .unwrap()
        .command
    {
        Command::Torture(args) => torture_request(&args, &host()),
        _ => unreachable!(),
    }
}

fn refusal(options: &str) -> String {
    let error = ask(options).unwrap_err();
    assert_eq!(error.exit_code, 2, "{options}");
    error.to_string()
}

#[test]
fn defaults_are_those_of_locktorture() {
    let (request, how) = ask("--lock tas --cpus 0-3").unwrap();
    let scenario = request.scenario;
    assert_eq!(
        (scenario.vcpus(), &scenario.workload.mix),
        (8, &Mix::Readers(0))
    );
    assert_eq!(scenario.length, Length::Duration(Duration::from_secs(30)));
    assert_eq!(
        how,
        Torture {
            long_hold: Duration::from_millis(100),
            nested_locks: 0,
            acquire_limit: Duration::ZERO,
            stutter: Duration::from_secs(5),
            shuffle_interval: Duration::from_secs(3),
            writer_fifo: false,
        }
    );
    let scenario = ask("--lock rwlock --cpus 0-3").unwrap().0.scenario;
    assert_eq!(
        (scenario.vcpus(), &scenario.workload.mix),
        (8, &Mix::Readers(4))
    );
}

#[test]
fn what_makes_no_sense_is_refused_and_says_what_would() {
    let text = refusal("--lock tas --readers 2");
    assert!(
        text.contains("has no read side") && text.contains("rwlock"),
        "{text}"
    );
    assert!(ask("--lock tas --readers 0").is_ok(), "none are asked for");
    assert!(refusal("--lock tas --writers 0").contains("no writers and no readers"));
    assert!(refusal("--lock rwlock --writers 0 --readers 0").contains("--readers"));
    assert!(ask("--lock rwlock --writers 0 --readers 1").is_ok());
    assert!(refusal("--lock tas --writers 5000").contains("at most 4096 can be had"));
    assert!(refusal("--lock tas --long-hold 3s").contains("--watchdog"));
    assert!(refusal("--lock tas --writer-fifo --writers 3").contains("give each writer a CPU"));
    assert!(refusal("--lock tas:pointer").contains("torture calls locks directly"));
    assert!(refusal("--lock tas --cpus 7").contains("CPU 7 does not exist"));
}

#[test]
fn at_most_eight_locks_are_nested() {
    let words = |n| ["pvlab", "torture", "--lock", "tas", "--nested-locks", n];
    assert!(Cli::try_parse_from(words("8")).is_ok());
    let error = Cli::try_parse_from(words("9")).unwrap_err().to_string();
    assert!(error.contains("9 is too many; give at most 8"), "{error}");
}
