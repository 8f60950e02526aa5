//! What a simulated machine is made of: its topology, and what everything costs.
//!
//! A preset (a TOML file) gives all parameters; any can be changed by name.

use crate::parameters::{Costs, PARAMETERS, Parameter, Unit, whole};
use crate::text::read_text;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its name, `sim:` left out.
    pub name: String,
    /// What machine it stands for, and where the figures are from.
    pub about: String,
    /// Its parameters.
    pub costs: Costs,
    /// Where the value of each parameter is from.
    #[serde(default, serialize_with = "in_order")]
    pub sources: BTreeMap<String, String>,
}

/// Writes sources in the order of the parameters.
fn in_order<S: Serializer>(sources: &BTreeMap<String, String>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(
        PARAMETERS
            .iter()
            .filter_map(|p| sources.get_key_value(p.name)),
    )
}

/// Largest file of a preset, bytes.
const LARGEST: u64 = 1 << 20;

/// Most hardware threads of a machine.
pub const MAX_CPUS: usize = 1024;

/// Why there is no such machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// No preset has that name.
    #[error("no simulated machine is called '{name}'{}; 'pvlab machines' lists them", suggestion(.like))]
    UnknownPreset {
        /// The name.
        name: String,
        /// One that there is, and like it.
        like: Option<&'static str>,
    },
    /// No parameter has that name.
    #[error("a simulated machine has no parameter '{name}'{}; 'pvlab machines NAME' lists them", suggestion(.like))]
    UnknownParameter {
        /// The name.
        name: String,
        /// One that there is, and like it.
        like: Option<&'static str>,
    },
    /// Not NAME=VALUE.
    #[error("'{0}' is not of the form PARAMETER=VALUE, such as kick_ns=2us")]
    NoAssignment(String),
    /// Not a number in the parameter's unit.
    #[error("{name}: '{value}' is not a number of {}", unit_name(*.unit))]
    NotANumber {
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: String,
        /// What it should be measured in.
        unit: Unit,
    },
    /// Out of the parameter's range.
    #[error("{name} = {value} is out of range: {} to {} {}", .range.0, .range.1, .unit.symbol())]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What is allowed.
        range: (f64, f64),
        /// What it is measured in.
        unit: Unit,
    },
    /// More CPUs than can be simulated.
    #[error("{sockets} sockets of {cores} cores of {threads} threads are {} CPUs; at most {MAX_CPUS} can be simulated",
        .sockets * .cores * .threads)]
    TooManyCpus {
        /// Sockets.
        sockets: usize,
        /// Cores of each.
        cores: usize,
        /// Threads of each.
        threads: usize,
    },
    /// A link to more sockets than there are.
    #[error("{sockets} sockets cannot have {links} links each: at most {}", .sockets - 1)]
    Links {
        /// Sockets.
        sockets: usize,
        /// Links.
        links: usize,
    },
    /// Not a whole number.
    #[error("{name} = {value} is not a whole number")]
    NotWhole {
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: f64,
    },
    /// The file of a preset cannot be read, or is none.
    #[error("cannot use {file} as a simulated machine: {why}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// The text of a preset.
    #[error("not a preset of a machine: {0}")]
    Syntax(String),
}

fn suggestion(like: &Option<&'static str>) -> String {
    like.map_or_else(String::new, |like| format!(" (did you mean '{like}'?)"))
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "nanoseconds, or of ns, us, ms or s",
        Unit::Count => "things",
        Unit::Factor => "times",
        Unit::Switch => "0 or 1",
    }
}

/// The name most like `name`, if any is.
pub(crate) fn most_like(
    name: &str,
    names: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    names
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// The parameter of that name.
///
/// # Errors
/// If there is none.
pub fn parameter(name: &str) -> Result<&'static Parameter, SpecError> {
    PARAMETERS
        .iter()
        .find(|p| p.name == name)
        .ok_or_else(|| SpecError::UnknownParameter {
            name: name.to_owned(),
            like: most_like(name, PARAMETERS.iter().map(|p| p.name)),
        })
}

impl Parameter {
    /// The number that `text` stands for: in the parameter's unit, or, for a time, with a unit of its own.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(&self, text: &str) -> Result<f64, SpecError> {
        const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        let text = text.trim();
        let with_unit = || {
            let (unit, scale) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
            let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            Some(number * scale)
        };
        let number = match self.unit {
            Unit::Ns => text.parse().ok().or_else(with_unit),
            Unit::Count | Unit::Factor | Unit::Switch => text.parse().ok(),
        };
        number
            .filter(|n: &f64| n.is_finite())
            .ok_or_else(|| SpecError::NotANumber {
                name: self.name,
                value: text.to_owned(),
                unit: self.unit,
            })
    }
}

impl Spec {
    /// Reads a preset.
    ///
    /// # Errors
    /// If it is none, or no machine can be like it.
    pub fn from_toml(text: &str) -> Result<Self, SpecError> {
        let spec: Self = toml::from_str(text).map_err(|e| SpecError::Syntax(e.to_string()))?;
        for name in spec.sources.keys() {
            parameter(name)?;
        }
        spec.check()?;
        Ok(spec)
    }

    /// Reads a preset from a file.
    ///
    /// # Errors
    /// As [`Self::from_toml`], or if the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, SpecError> {
        let text = read_text(path, LARGEST).map_err(|e| e.to_string());
        text.and_then(|text| Self::from_toml(&text).map_err(|e| e.to_string()))
            .map_err(|why| SpecError::File {
                file: path.display().to_string(),
                why,
            })
    }

    /// The text of a preset.
    ///
    /// # Errors
    /// None that is known: all that a machine consists of can be written.
    pub fn to_toml(&self) -> Result<String, SpecError> {
        toml::to_string(self).map_err(|e| SpecError::Syntax(e.to_string()))
    }

    /// Changes one parameter: `name=value`.
    ///
    /// # Errors
    /// If there is no such parameter, or it cannot have that value.
    pub fn set(&mut self, assignment: &str) -> Result<(), SpecError> {
        let (name, value) = assignment
            .split_once('=')
            .ok_or_else(|| SpecError::NoAssignment(assignment.to_owned()))?;
        let parameter = parameter(name.trim())?;
        let value = parameter.parse(value)?;
        self.set_value(parameter, value)
    }

    /// Changes one parameter.
    ///
    /// # Errors
    /// If it cannot have that value.
    pub fn set_value(&mut self, parameter: &Parameter, value: f64) -> Result<(), SpecError> {
        let mut changed = self.clone();
        if let Some(place) = changed.costs.get_mut(parameter.name) {
            *place = value;
        }
        changed.check_range()?;
        *self = changed;
        Ok(())
    }

    fn check_range(&self) -> Result<(), SpecError> {
        for parameter in PARAMETERS {
            let value = self.costs.get(parameter.name).unwrap_or(f64::NAN);
            let (least, most) = parameter.range;
            if !(least..=most).contains(&value) {
                return Err(SpecError::OutOfRange {
                    name: parameter.name,
                    value,
                    range: parameter.range,
                    unit: parameter.unit,
                });
            }
            let whole = matches!(parameter.unit, Unit::Count | Unit::Switch);
            if whole && value.fract() != 0.0 {
                return Err(SpecError::NotWhole {
                    name: parameter.name,
                    value,
                });
            }
        }
        Ok(())
    }

    /// Whether there can be such a machine. To be called when all parameters are set: the topology is
    /// looked at as a whole.
    ///
    /// # Errors
    /// If there cannot.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_range()?;
        let (sockets, cores, threads) = self.shape();
        if sockets * cores * threads > MAX_CPUS {
            return Err(SpecError::TooManyCpus {
                sockets,
                cores,
                threads,
            });
        }
        let links = whole(self.costs.links);
        if links >= sockets || (sockets > 1 && links == 0) {
            return Err(SpecError::Links { sockets, links });
        }
        Ok(())
    }

    /// Sockets, cores of each, threads of each.
    pub fn shape(&self) -> (usize, usize, usize) {
        let costs = &self.costs;
        (
            whole(costs.sockets),
            whole(costs.cores),
            whole(costs.threads),
        )
    }

    /// Hardware threads.
    pub fn cpus(&self) -> usize {
        let (sockets, cores, threads) = self.shape();
        sockets * cores * threads
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sockets, cores, threads) = self.shape();
        write!(f, "{sockets} x {cores} x {threads}")
    }
}
