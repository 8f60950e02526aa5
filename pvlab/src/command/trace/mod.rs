//! `pvlab trace`.

mod args;
mod file;
mod summary;

pub(crate) use args::{EXAMPLES, TraceArgs, check_traceable, not_with_summary};

use crate::ending;
use crate::figures::never_told;
use crate::host::Host;
use crate::options::{
    BROKEN, CliError, DONE, Ends, Guests, Progress, Target, Watcher, complain, interrupted,
};
use crate::record::{Context, Record, absent};
use crate::report::{self, Format};
use crate::scenario::{Length, Lock, Scenario, SlowPath};
use crate::session::{self, Observer, Options};
use crate::trace::account::{Account, Accountant, Setup, VmSetup};
use crate::trace::collect::DEFAULT_RECORDS;
use crate::trace::header::{ClockFit, End, Header, VmHeader};
use crate::trace::sink::WriteError;
use crate::trace::{Collector, Event, Merged};
use file::{Destination, Written, write_out};
use pvlock::LockKind;
use std::io::{self, Write};
use std::time::Instant;

/// Runs, traces, accounts; or accounts for a trace that is there.
pub(crate) fn trace(args: &TraceArgs) -> Result<u8, CliError> {
    match &args.summary {
        Some(path) => summary::summarise(args, path),
        None => record(args),
    }
}

fn record(args: &TraceArgs) -> Result<u8, CliError> {
    let host = Host::examine();
    let guests = Guests::of(&args.guests)?;
    let asked = (args.common).request(guests, Length::Duration(args.duration), &host)?;
    let (mut scenario, context) = (asked.scenario, asked.context);
    check_traceable(&scenario)?;
    // The trace has every wait: timing them once more would only cost time.
    scenario.latency = false;

    // Whether the file can be written is found out before the run, not after.
    let mut header = header(&context, &scenario);
    header.check().map_err(WriteError::Header)?;
    let destination = Destination::of(args)?;
    let trace_on_stdout = destination.as_ref().is_some_and(Destination::is_stdout);
    if destination.is_none() || trace_on_stdout {
        ending::watch_reader();
    }
    let format = args.account;
    let first = report::headline(&context, &scenario) + "\n";
    if format == Format::Table && !trace_on_stdout {
        // A reader who wants no more than this line need not wait for the rest.
        show(destination.as_ref(), &first)?;
    }
    let spare = destination.as_ref().and_then(Destination::directory);
    let mut collector = Collector::new(args.ring, spare)?;
    let mut progress = Progress::new(1, scenario.expected());
    let options = Options::default();
    let mut watcher = Watcher::new(&progress);
    let result = session::trace(&scenario, &options, &mut watcher, &mut collector);
    drop(watcher);
    if ending::has_reader_left() {
        return Ok(DONE);
    }
    // Whatever became of the run, what was captured is kept.
    let begun = Instant::now();
    progress.end();
    progress.at("merging", 1.0);
    if let Some(fit) = collector.fit() {
        header.clock = fit.header(collector.began());
    }
    let no_switches = collector.without_switches();
    header.switches = no_switches.is_none();
    header.notes.extend(no_switches.map(str::to_owned));
    let absences = result.as_ref().ok().and_then(|r| absent(&r.without_cpu));
    header.notes.extend(absences.map(|text| {
        format!("{text}: neither the scheduler nor a lock is to blame for what waited meanwhile")
    }));
    let Written {
        account,
        merged,
        end,
        lost,
    } = write_out(&mut collector, &header, destination.as_ref())?;
    drop(progress);
    let unread = trace_on_stdout && end.is_none() && lost.is_none();
    if unread || ending::has_reader_left() {
        return Ok(DONE);
    }
    tracing::info!(events = merged.events, elapsed = ?begun.elapsed(), "merged");

    let mut text = String::new();
    if format == Format::Table {
        if trace_on_stdout {
            text += &first;
        }
        text += &slow_paths(&scenario);
        let seconds = begun.elapsed().as_secs_f64();
        text += &about(args, &header, &collector, &merged, &end, seconds);
    }
    text += &report::account::account(&account, format);
    if let (false, Ok(record), Format::Table) = (header.switches, &result, format) {
        text += &totals(record);
    }
    show(destination.as_ref(), &text)?;
    if let Some(lost) = lost {
        if let Err(error) = result {
            complain(&format!("error: {error}"));
        }
        return Err(lost.into());
    }
    match result {
        Ok(record) => {
            if let Some(line) = never_told(&scenario, record.preempted_reported()) {
                complain(line);
            }
            if let Some(vm) = record.vms.iter().find(|vm| !vm.exclusion.held()) {
                complain(&format!("MUTUAL EXCLUSION BROKEN by lock '{}'", vm.lock));
                return Ok(BROKEN);
            }
            if record.interrupted {
                let seconds = record.measured_s;
                return Ok(interrupted(&format!(
                    "interrupted after {seconds:.1} s; the trace is of these"
                )));
            }
        }
        Err(error) => {
            complain("the run failed; what was captured until then has been kept");
            return Err(error.into());
        }
    }
    check_sums(&account)
}

/// The account is wrong.
#[derive(Debug, thiserror::Error)]
#[error(
    "the account is wrong: the parts of {0} waits do not add up to them (by more than 1 us and 1 %)"
)]
struct SumRule(u64);

impl Ends for SumRule {}

fn check_sums(account: &Account) -> Result<u8, CliError> {
    match account.sum_violations() {
        0 => Ok(DONE),
        n => Err(SumRule(n).into()),
    }
}

/// The account goes to standard output, unless the trace itself does.
fn show(destination: Option<&Destination>, text: &str) -> Result<(), CliError> {
    if destination.is_some_and(Destination::is_stdout) {
        let _ = io::stderr().write_all(text.as_bytes());
        return Ok(());
    }
    Ok(Target::Stdout.write(text)?)
}

fn header(context: &Context, scenario: &Scenario) -> Header {
    let mut cpus = (0..).map(|number| scenario.cpu_of(number));
    let vms = scenario.vms.iter().map(|vm| VmHeader {
        lock: vm.lock.name(),
        locks: scenario.workload.locks,
        vcpus: cpus.by_ref().take(vm.vcpus).collect(),
    });
    Header {
        scenario: serde_json::to_value(scenario).unwrap_or_default(),
        machine: format!("{} ({})", scenario.machine_name(), context.machine_reason),
        simulated: scenario.machine.is_simulated(),
        switches: true,
        vms: vms.collect(),
        clock: ClockFit {
            khz: 0,
            tsc_start: 0,
            monotonic_raw_start_ns: 0,
            residual_ns: 0,
        },
        notes: Vec::new(),
    }
}

/// An accountant for what that header is of.
pub(crate) fn accountant(header: &Header) -> Accountant {
    let vms = header.vms.iter().map(|vm| VmSetup {
        // The account needs the lock for its name only; one that this version does not know is kept
        // as one without an order.
        lock: (vm.lock.parse()).map_or(LockKind::Tas.into(), |lock: Lock| lock.kind),
        vcpus: vm.vcpus.len(),
        locks: vm.locks,
    });
    Accountant::new(&Setup {
        vms: vms.collect(),
        simulated: header.simulated,
    })
}

/// Runs the scenario once, traced, for its account, which is in the record unless it was interrupted.
pub(crate) fn account(
    scenario: &Scenario,
    observer: &mut dyn Observer,
) -> Result<Record, CliError> {
    let scenario = Scenario {
        latency: false,
        ..scenario.clone()
    };
    check_traceable(&scenario)?;
    let mut collector = Collector::new(DEFAULT_RECORDS, [])?;
    let mut record = session::trace(&scenario, &Options::default(), observer, &mut collector)?;
    if record.interrupted {
        return Ok(record);
    }
    let mut accountant = accountant(&header(&Context::default(), &scenario));
    let merged = collector.merge(|event: &Event| {
        accountant.event(event);
        Ok::<_, CliError>(())
    })?;
    let account = accountant.finish(merged.end_ns);
    check_sums(&account)?;
    record.account = Some(account);
    Ok(record)
}

/// What the scheduler has counted: all that is known of vCPUs whose switches are not recorded.
fn totals(record: &Record) -> String {
    use crate::human::{or_unknown, time};
    let mut text = String::from(
        "\nTotals only, from the scheduler's statistics: when it happened is not known\n",
    );
    let times = |n| or_unknown(n, |n: u64| format!("{n} times"));
    for (vm, record) in record.vms.iter().enumerate() {
        for (vcpu, totals) in record.vcpus.iter().enumerate() {
            text += &format!(
                " VM {vm} vCPU {vcpu}: {} on a CPU, blocked {}, preempted {}\n",
                or_unknown(totals.cpu_ns, |ns| time(ns as f64)),
                times(totals.voluntary_switches),
                times(totals.involuntary_switches),
            );
        }
    }
    text
}

/// Lines about the trace itself.
fn about(
    args: &TraceArgs,
    header: &Header,
    collector: &Collector,
    merged: &Merged,
    end: &Option<End>,
    seconds: f64,
) -> String {
    use crate::human::{count, rate};
    let mut text = format!(
        "trace: {} events in {:.3} s, {} dropped (rings of {} events)",
        count(merged.events),
        std::time::Duration::from_nanos(merged.end_ns).as_secs_f64(),
        collector.dropped(),
        args.ring,
    );
    // What is said of a simulated run is the same whenever and wherever it is made.
    text += &if header.simulated {
        "\nclock: that of the simulated machine\n".to_owned()
    } else {
        format!(
            "; merged at {}\nclock: TSC at {} kHz, fitted to CLOCK_MONOTONIC_RAW within {} ns\n",
            rate(merged.events as f64 / seconds.max(1e-9)),
            header.clock.khz,
            header.clock.residual_ns
        )
    };
    if let (Some(path), Some(end)) = (&args.output, end) {
        text += &format!("written: {}, {} events\n", path.display(), end.events);
    }
    let (dropped, lost) = (collector.dropped(), collector.lost_switches());
    let full = "events found their ring full: take a larger --ring";
    let late = "events came too late to be sorted and were moved forward";
    let counts = [
        (dropped, full),
        (lost, "context switches were lost by the kernel"),
        (merged.late, late),
        (merged.malformed, "words in trace rings were no records"),
    ];
    let counts = counts.into_iter().filter(|(n, _)| *n > 0);
    let counts = counts.map(|(n, what)| format!("{n} {what}"));
    let warnings = counts.chain(header.notes.clone());
    let warnings = warnings.map(|warning| format!("warning: {warning}\n"));
    text + &warnings.collect::<String>()
}

/// How the VMs' vCPUs wait, a line for each VM.
fn slow_paths(scenario: &Scenario) -> String {
    SlowPath::lines(&SlowPath::of_vms(scenario)).join("\n") + "\n"
}
