//! Schedules on demand: what is to happen at chosen moments of a run, and the files that keep it.

use super::error::{CliError, usage};
use super::exit::{BROKEN, DONE, complain};
use super::machine::MachineUsage;
use super::output::Target;
use super::times::{TimeUsage, nonzero_duration};
use crate::report::to_json;
use crate::scenario::{Scenario, whole_ns};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::{Rule, read_text};
use std::path::{Path, PathBuf};

/// Largest schedule file, bytes: those of the most rules need a fraction of it.
const LARGEST: u64 = 16 << 20;

const SCHEMA: &str = "pvlab.schedule/1";

// Each option names it: as the heading of the group it would be that of all that come after the group.
const HEADING: &str = "Schedules on demand, on simulated machines";

/// What is to happen at chosen moments of a run.
#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    /// Take vCPU's CPU away for that long when it has begun its critical section of that number, counted
    /// from 1, such as 0:5:2ms; repeat it for more.
    #[arg(long, help_heading = HEADING, value_name = "VCPU:SECTION:TIME", value_parser = deschedule)]
    deschedule: Vec<Rule>,
    /// Let vCPU's wake-up of that number, counted from 1, take that much longer, such as 1:1:500us.
    #[arg(long, help_heading = HEADING, value_name = "VCPU:WAKE:TIME", value_parser = delay_wake)]
    delay_wake: Vec<Rule>,
    /// Do what this file says, which was saved from the same scenario.
    #[arg(long, help_heading = HEADING, value_name = "FILE", conflicts_with_all = ["deschedule", "delay_wake"])]
    schedule: Option<PathBuf>,
    /// Save the scenario, its schedule and what came out to this file, for 'pvlab replay', also if the run fails.
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    save_schedule: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    scenario: Scenario,
    /// What came out of it, unless it has not ended.
    outcome: Option<String>,
}

/// A file that is to tell what came out.
pub(crate) struct Saved {
    target: Target,
    scenario: Scenario,
}

impl Saved {
    fn write(&self, outcome: Option<String>) -> Result<(), CliError> {
        let file = File {
            schema: SCHEMA.to_owned(),
            scenario: self.scenario.clone(),
            outcome,
        };
        Ok(self.target.write(&to_json(&file))?)
    }

    /// Adds what came out; that it cannot be added does not hide that.
    pub(crate) fn came_out(&self, result: Result<u8, CliError>) -> Result<u8, CliError> {
        let outcome = match &result {
            Ok(DONE) => "fine".to_owned(),
            Ok(BROKEN) => "mutual exclusion broken".to_owned(),
            Ok(_) => "interrupted".to_owned(),
            Err(error) => error.to_string(),
        };
        if let Err(unsaved) = self.write(Some(outcome)) {
            if result.is_ok() {
                return Err(unsaved);
            }
            complain(&format!("error: {unsaved}"));
        }
        result
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ScheduleError {
    #[error("'{0}' is no schedule; write VCPU:NUMBER:TIME, such as 0:5:2ms")]
    Syntax(String),
    #[error(transparent)]
    Time(#[from] TimeUsage),
    #[error("{file} is not a schedule that 'pvlab run --save-schedule' has written: {why}")]
    File { file: String, why: String },
    #[error("{file} cannot be run: {why}")]
    Scenario { file: String, why: String },
    /// It was saved from something else; `place` is where the scenarios differ first.
    #[error(
        "{file} is a schedule for another scenario: {place} is {theirs} there and {ours} here; 'pvlab replay {file}' runs that one"
    )]
    Other {
        file: String,
        place: String,
        theirs: String,
        ours: String,
    },
    /// `vcpus` are those of the largest VM.
    #[error("a schedule for vCPU {vcpu}, but no VM has more than {vcpus} vCPUs, counted from 0")]
    NoSuchVcpu { vcpu: u32, vcpus: usize },
}

usage!(ScheduleError);

/// A vCPU, a number counted from 1, and a time in ns, such as `0:5:2ms`.
fn moment(text: &str) -> Result<(u32, u64, u64), ScheduleError> {
    let wrong = || ScheduleError::Syntax(text.to_owned());
    let (vcpu, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (number, time) = rest.split_once(':').ok_or_else(wrong)?;
    let vcpu = vcpu.parse().map_err(|_| wrong())?;
    let number = number.parse().map_err(|_| wrong())?;
    if number == 0 {
        return Err(wrong());
    }
    Ok((vcpu, number, whole_ns(nonzero_duration(time)?)))
}

/// A critical section in which its holder is to be descheduled.
fn deschedule(text: &str) -> Result<Rule, ScheduleError> {
    moment(text).map(|(vcpu, section, ns)| Rule::DescheduleHolder { vcpu, section, ns })
}

/// A wake-up that is to take longer.
fn delay_wake(text: &str) -> Result<Rule, ScheduleError> {
    moment(text).map(|(vcpu, wake, ns)| Rule::DelayWake { vcpu, wake, ns })
}

/// Puts the schedule into the scenario, and saves it, as the options say. A file is saved before anything
/// runs, so that it is there whatever happens.
pub(crate) fn apply(
    args: &ScheduleArgs,
    scenario: &mut Scenario,
) -> Result<Option<Saved>, CliError> {
    let rules = [&*args.deschedule, &args.delay_wake].concat();
    let asked = !rules.is_empty() || args.schedule.is_some() || args.save_schedule.is_some();
    if asked && !scenario.machine.is_simulated() {
        return Err(MachineUsage::not_simulated("a schedule", scenario.machine).into());
    }
    let rules = match &args.schedule {
        Some(path) => rules_for(path, scenario)?,
        None => rules,
    };
    check_vcpus(&rules, scenario)?;
    if let Some(simulated) = &mut scenario.simulated {
        simulated.rules = rules;
    }
    let Some(path) = &args.save_schedule else {
        return Ok(None);
    };
    let saved = Saved {
        target: Target::check(Some(path))?,
        scenario: scenario.clone(),
    };
    // A stream takes one file only: that with what came out.
    if saved.target.is_file() {
        saved.write(None)?;
    }
    Ok(Some(saved))
}

fn check_vcpus(rules: &[Rule], scenario: &Scenario) -> Result<(), ScheduleError> {
    let vcpus = scenario.vms.iter().map(|vm| vm.vcpus).max().unwrap_or(0);
    let mut named = rules.iter().map(Rule::vcpu);
    match named.find(|vcpu| *vcpu as usize >= vcpus) {
        Some(vcpu) => Err(ScheduleError::NoSuchVcpu { vcpu, vcpus }),
        None => Ok(()),
    }
}

/// The scenario of a schedule file.
pub(crate) fn read(path: &Path) -> Result<Scenario, CliError> {
    let file = path.display().to_string();
    match read_text(path, LARGEST) {
        Ok(text) => parse(&text, &file),
        Err(error) => {
            let why = error.to_string();
            Err(ScheduleError::File { file, why }.into())
        }
    }
}

/// The scenario of a schedule, as the text of `file` has it.
pub(crate) fn parse(text: &str, file: &str) -> Result<Scenario, CliError> {
    let file = || file.to_owned();
    let wrong = |why| CliError::from(ScheduleError::File { file: file(), why });
    let refused = |why| CliError::from(ScheduleError::Scenario { file: file(), why });
    let saved: File = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
    if saved.schema != SCHEMA {
        return Err(wrong(format!("its schema is '{}'", saved.schema)));
    }
    let scenario = saved.scenario;
    let Some(simulated) = &scenario.simulated else {
        return Err(wrong("its machine is not a simulated one".to_owned()));
    };
    // What the options cannot say, but an edited file can.
    scenario.check().map_err(|e| refused(e.to_string()))?;
    if scenario.torture.is_some() || scenario.bench.is_some() {
        return Err(refused("only 'pvlab run' has schedules".to_owned()));
    }
    let most = crate::machine::spec(simulated)?.cpus();
    if let Some(cpu) = scenario.cpus.iter().find(|cpu| **cpu >= most) {
        let why = format!("cpus has {cpu}: the machine has 0 to {}", most - 1);
        return Err(refused(why));
    }
    Ok(scenario)
}

/// The rules in a file, if it was saved from that scenario.
fn rules_for(path: &Path, scenario: &Scenario) -> Result<Vec<Rule>, CliError> {
    let mut theirs = read(path)?;
    let simulated = theirs.simulated.as_mut();
    let rules = simulated.map(|simulated| std::mem::take(&mut simulated.rules));
    let value = |scenario: &Scenario| serde_json::to_value(scenario).unwrap_or(Value::Null);
    if let Some((place, theirs, ours)) = difference("", &value(&theirs), &value(scenario)) {
        return Err(ScheduleError::Other {
            file: path.display().to_string(),
            place,
            theirs,
            ours,
        }
        .into());
    }
    Ok(rules.unwrap_or_default())
}

/// Where two values differ first, and how.
fn difference(place: &str, a: &Value, b: &Value) -> Option<(String, String, String)> {
    let inside = |name: &str| match place {
        "" => name.to_owned(),
        _ => format!("{place}.{name}"),
    };
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let new = y.keys().filter(|name| !x.contains_key(*name));
            let mut names = x.keys().chain(new);
            // What is not there is null.
            names.find_map(|name| difference(&inside(name), &a[name], &b[name]))
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => (x.iter().zip(y).enumerate())
            .find_map(|(i, (x, y))| difference(&inside(&i.to_string()), x, y)),
        _ => (a != b).then(|| (place.to_owned(), a.to_string(), b.to_string())),
    }
}
