//! `pvlab machines`.

use crate::host::Host;
use crate::options::error::CliError;
use crate::options::exit::DONE;
use crate::options::output::{Target, format};
use crate::report::doc::{Block, Table, render};
use crate::report::{Format, to_json};
use crate::scenario::{SIM_PREFIX, Simulated};
use clap::Args;
use serde::Serialize;
use sim::{PARAMETERS, Spec};

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
struct List {
    schema: &'static str,
    machines: Vec<Machine>,
}

#[derive(Serialize)]
struct Machine {
    name: String,
    simulated: bool,
    cpus: Option<usize>,
    about: String,
}

#[derive(Serialize)]
struct Parameters<'a> {
    schema: &'static str,
    name: String,
    about: &'a str,
    parameters: Vec<Parameter<'a>>,
}

#[derive(Serialize)]
struct Parameter<'a> {
    name: &'static str,
    value: f64,
    unit: &'static str,
    what: &'static str,
    source: Option<&'a str>,
}

/// Lists the machines, or the parameters of one.
pub(crate) fn run(args: &MachinesArgs) -> Result<u8, CliError> {
    let format = args.format;
    let text = match &args.name {
        None => list(format),
        Some(name) => {
            let preset = name.strip_prefix(SIM_PREFIX).unwrap_or(name).to_owned();
            let set = args.set.clone();
            let rules = Vec::new();
            parameters(
                &crate::machine::spec(&Simulated { preset, set, rules })?,
                format,
            )
        }
    };
    Target::print(&text)?;
    Ok(DONE)
}

fn list(format: Format) -> String {
    let host = Host::examine();
    let cpus = host.allowed_cpus.len();
    let mut machines = vec![
        Machine {
            name: "kvm".to_owned(),
            simulated: false,
            cpus: Some(cpus),
            about: format!("Guests on real vCPUs. Here: {}.", host.kvm.device),
        },
        Machine {
            name: "threads".to_owned(),
            simulated: false,
            cpus: Some(cpus),
            about: "vCPUs are host threads; the host's scheduler is their hypervisor.".to_owned(),
        },
    ];
    machines.extend(sim::presets::names().map(|name| {
        let spec = sim::presets::find(name);
        Machine {
            name: format!("{SIM_PREFIX}{name}"),
            simulated: true,
            cpus: spec.as_ref().ok().map(Spec::cpus),
            about: match &spec {
                Ok(spec) => spec.about.trim().to_owned(),
                Err(error) => error.to_string(),
            },
        }
    }));
    if format == Format::Json {
        let schema = "pvlab.machines/1";
        return to_json(&List { schema, machines });
    }
    let mut table = Table::new("", &["machine", "CPUs", "what it is"]);
    table.left.push(2);
    for machine in machines {
        let cpus = machine
            .cpus
            .map_or_else(String::new, |cpus| cpus.to_string());
        table.row(vec![machine.name, cpus, machine.about]);
    }
    write(table, format)
}

fn parameters(spec: &Spec, format: Format) -> String {
    let parameters = PARAMETERS.iter().map(|parameter| Parameter {
        name: parameter.name,
        value: spec.costs.get(parameter.name).unwrap_or(f64::NAN),
        unit: parameter.unit.symbol(),
        what: parameter.what.trim(),
        source: spec.sources.get(parameter.name).map(String::as_str),
    });
    let parameters: Vec<_> = parameters.collect();
    if format == Format::Json {
        return to_json(&Parameters {
            schema: "pvlab.machine/1",
            name: spec.name.clone(),
            about: spec.about.trim(),
            parameters,
        });
    }
    let title = format!("{SIM_PREFIX}{}: {}", spec.name, spec.about.trim());
    let mut table = Table::new(
        title,
        &["parameter", "value", "unit", "what it is", "source"],
    );
    table.left.extend([2, 3, 4]);
    for parameter in parameters {
        table.row(vec![
            parameter.name.to_owned(),
            parameter.value.to_string(),
            parameter.unit.to_owned(),
            parameter.what.to_owned(),
            parameter.source.unwrap_or_default().to_owned(),
        ]);
    }
    write(table, format)
}

fn write(table: Table, format: Format) -> String {
    match format {
        Format::Csv => table.csv(),
        _ => render(&[Block::Table(table)], format),
    }
}
