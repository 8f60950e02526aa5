//! Every lock, three CPUs, all orders that weak memory allows.

#![allow(clippy::unwrap_used)]

use litmus::locks::{Do, Parts, Use};
use litmus::{Facts, Limits, Model};
use pvlock::LockKind;

#[test]
#[ignore]
fn try_out() {
    let name = std::env::var("K").unwrap();
    let kind = LockKind::from_name(&name).unwrap();
    let parts: Parts = match std::env::var("P").unwrap_or_default().as_str() {
        "21" => &[&[Do::Write, Do::Write], &[Do::Write]],
        "22" => &[&[Do::Write, Do::Write], &[Do::Write, Do::Write]],
        "211" => &[&[Do::Write, Do::Write], &[Do::Write], &[Do::Write]],
        "wrr" => &[&[Do::Write], &[Do::Read], &[Do::Read]],
        "wwr" => &[&[Do::Write], &[Do::Write], &[Do::Read]],
        _ => &[&[Do::Write], &[Do::Write], &[Do::Write]],
    };
    for model in Model::ALL {
        let mut used = Use::new(parts);
        if let Ok(bound) = std::env::var("B") {
            used.limits.preemptions = Some(bound.parse().unwrap());
        }
        used.limits.states = 3_000_000;
        let start = std::time::Instant::now();
        match used.of(kind, model) {
            Ok(explored) => println!("{kind} {}: {} states, {} steps, {} ends {:?}", model.name(), explored.states, explored.steps, explored.ends, start.elapsed()),
            Err(failure) => println!("{kind} {}: {failure} {:?}", model.name(), start.elapsed()),
        }
    }
    let _ = (Limits::default(), Facts::default());
}
