//! `pvlab machines`.

use crate::host::Host;
use crate::options::{CliError, DONE, Target, format};
use crate::report::{Block, Columns, Format, render, to_json};
use crate::scenario::{MachineKind, SIM_PREFIX, Simulated};
use clap::Args;
use serde::Serialize;
use sim::{PARAMETERS, Parameter, Spec};

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab machines
  pvlab machines broadwell-ex-4s                 every parameter, and where its value is from
  pvlab machines here --set kick_ns=2us --format json";

#[derive(Debug, Args)]
pub(crate) struct MachinesArgs {
    /// Show every parameter of this simulated machine, or of the preset in this file (*.toml).
    name: Option<String>,
    /// Change a parameter before, such as kick_ns=2us.
    #[arg(long, value_name = "PARAMETER=VALUE", requires = "name")]
    set: Vec<String>,
    /// Format of the list.
    #[arg(long, default_value = "table", value_parser = format())]
    format: Format,
}

#[derive(Serialize)]
struct List<M> {
    schema: &'static str,
    machines: Vec<M>,
}

struct Machine {
    name: String,
    simulated: bool,
    cpus: Option<usize>,
    about: String,
}

#[derive(Serialize)]
struct Parameters<'a, P> {
    schema: &'static str,
    name: &'a str,
    about: &'a str,
    parameters: Vec<P>,
}

/// Lists the machines, or the parameters of one.
pub(crate) fn run(args: &MachinesArgs) -> Result<u8, CliError> {
    let format = args.format;
    let text = match &args.name {
        None => list(format),
        Some(name) => {
            let preset = name.strip_prefix(SIM_PREFIX).unwrap_or(name).to_owned();
            let (set, rules) = (args.set.clone(), Vec::new());
            let simulated = Simulated { preset, set, rules };
            parameters(&crate::machine::spec(&simulated)?, format)
        }
    };
    Target::print(&text)?;
    Ok(DONE)
}

fn list(format: Format) -> String {
    let host = Host::examine();
    let cpus = host.allowed_cpus.len();
    let here = format!(" Here: {}.", host.kvm.device);
    let real = MachineKind::of_the_host().map(|machine| {
        let facts = machine.facts();
        Machine {
            name: facts.name.to_owned(),
            simulated: false,
            cpus: Some(cpus),
            about: facts.about.to_owned() + if facts.kvm { &here } else { "" },
        }
    });
    let simulated = sim::presets::names().map(|name| {
        let spec = sim::presets::find(name);
        let cpus = spec.as_ref().ok().map(Spec::cpus);
        Machine {
            name: format!("{SIM_PREFIX}{name}"),
            simulated: true,
            cpus,
            about: spec.map_or_else(|e| e.to_string(), |spec| spec.about.trim().to_owned()),
        }
    });
    let machines: Vec<_> = real.chain(simulated).collect();
    let columns = Columns::new()
        .text("name", "machine", |machine: &Machine| machine.name.clone())
        .value("simulated", |machine| machine.simulated)
        .value("cpus", |machine| machine.cpus)
        .cell("CPUs", |machine| {
            machine.cpus.map_or_else(String::new, |n| n.to_string())
        })
        .text("about", "what it is", |machine| machine.about.clone())
        .left();
    match format {
        Format::Json => to_json(&List {
            schema: "pvlab.machines/1",
            machines: columns.objects(&machines),
        }),
        _ => text("", columns, machines, format),
    }
}

fn parameters(spec: &Spec, format: Format) -> String {
    let source = |parameter: &Parameter| spec.sources.get(parameter.name).map(String::as_str);
    let value = |parameter: &Parameter| spec.costs.get(parameter.name).unwrap_or(f64::NAN);
    let columns = Columns::new()
        .text("name", "parameter", |of: &Parameter| of.name.to_owned())
        .value("value", value)
        .cell("value", move |of| value(of).to_string())
        .text("unit", "unit", |of| of.unit.symbol().to_owned())
        .left()
        .text("what", "what it is", |of| of.what.trim().to_owned())
        .left()
        .value("source", source)
        .cell("source", move |of| {
            source(of).unwrap_or_default().to_owned()
        })
        .left();
    match format {
        Format::Json => to_json(&Parameters {
            schema: "pvlab.machine/1",
            name: &spec.name,
            about: spec.about.trim(),
            parameters: columns.objects(PARAMETERS),
        }),
        _ => {
            let title = format!("{SIM_PREFIX}{}: {}", spec.name, spec.about.trim());
            text(&title, columns, PARAMETERS.iter().copied(), format)
        }
    }
}

/// CSV here has the titles of the tables.
fn text<R>(
    title: &str,
    columns: Columns<'_, R>,
    rows: impl IntoIterator<Item = R>,
    format: Format,
) -> String {
    match format {
        Format::Csv => columns.shown().csv(rows),
        _ => render(&[Block::Table(columns.table(title, rows))], format),
    }
}
