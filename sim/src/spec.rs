//! What a simulated machine is made of: its topology, and what everything costs.
//!
//! Each parameter is defined once, in the list below, with its unit. A preset (a TOML file) gives all
//! of them; any can be changed by name.

use crate::text::read_text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// What a parameter's value is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds; a value with a unit of its own (`2us`) is converted.
    Ns,
    /// A number without a unit.
    Count,
    /// A ratio.
    Factor,
    /// 0 or 1.
    Switch,
}

impl Unit {
    /// How it is written behind a number.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Count => "",
            Self::Factor => "x",
            Self::Switch => "(0 or 1)",
        }
    }
}

macro_rules! parameters {
    ($($(#[doc = $doc:literal])+ $name:ident: $unit:ident [$least:literal, $most:literal],)+) => {
        /// Every parameter of a machine, as a number in its unit.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Costs {
            $($(#[doc = $doc])+ pub $name: f64,)+
        }

        /// A parameter: see [`PARAMETERS`].
        #[derive(Clone, Copy, Debug)]
        pub struct Parameter {
            /// Its name, in presets and options.
            pub name: &'static str,
            /// What it is.
            pub what: &'static str,
            /// What it is measured in.
            pub unit: Unit,
            /// Its least and greatest value.
            pub range: (f64, f64),
        }

        /// Every parameter.
        pub const PARAMETERS: &[Parameter] = &[
            $(Parameter {
                name: stringify!($name),
                what: concat!($($doc,)+),
                unit: Unit::$unit,
                range: ($least as f64, $most as f64),
            },)+
        ];

        impl Costs {
            /// The value of the parameter of that name.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)+
                    _ => None,
                }
            }

            fn get_mut(&mut self, name: &str) -> Option<&mut f64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

parameters! {
    /// Sockets.
    sockets: Count [1, 16],
    /// Cores of a socket.
    cores: Count [1, 256],
    /// Hardware threads of a core.
    threads: Count [1, 8],
    /// A load or store that hits the core's own copy of the line.
    hit_ns: Ns [0, 1e6],
    /// An atomic read-modify-write of a line that the core owns.
    rmw_ns: Ns [0, 1e6],
    /// A line moves between two hardware threads of a core.
    transfer_core_ns: Ns [0, 1e6],
    /// A line moves between two cores of a socket.
    transfer_socket_ns: Ns [0, 1e6],
    /// A line moves between two sockets that are linked.
    transfer_cross_ns: Ns [0, 1e6],
    /// What each further link between sockets adds to that.
    transfer_hop_ns: Ns [0, 1e6],
    /// Sockets that each socket is linked to, round a ring; all, if it is one less than the sockets.
    links: Count [0, 15],
    /// A line comes from memory, as no core has it.
    memory_ns: Ns [0, 1e6],
    /// For how long a read of a shared line keeps other requests for the line waiting.
    read_busy_ns: Ns [0, 1e6],
    /// What each sharer of a line adds to the time of a write, as its copy is taken away.
    invalidate_ns: Ns [0, 1e6],
    /// Requests from the owner's socket that may pass those of other sockets, in a row.
    burst: Count [0, 1e6],
    /// How much transfers and pauses vary, evenly to either side, as a share of their length.
    jitter: Factor [0, 1],
    /// A turn of a busy-wait loop (x86 `pause`).
    pause_ns: Ns [0.1, 1e6],
    /// Whether a CPU waits on the line itself (arm64 `wfe`) instead of looking again and again.
    wait_on_line: Switch [0, 1],
    /// Reading the clock.
    clock_ns: Ns [0.1, 1e6],
    /// How much longer a hardware thread takes for everything while one other of its core computes.
    smt_busy: Factor [1, 8],
    /// The same while the other one spins.
    smt_spin: Factor [1, 8],
    /// Whether the CPUs are virtual: halts, kicks and yields leave the guest.
    virtual_machine: Switch [0, 1],
    /// A vCPU leaves the guest for the host, and what the host does before it can act.
    exit_ns: Ns [0, 1e9],
    /// A vCPU enters the guest.
    entry_ns: Ns [0, 1e9],
    /// What a kick takes of the CPU that kicks, from the hypercall until it goes on.
    kick_ns: Ns [0, 1e9],
    /// From a kick until the halted vCPU can run.
    wake_ns: Ns [0, 1e9],
    /// How long a halted vCPU is waited for before its CPU is given to others, at most; 0: no polling.
    halt_poll_max_ns: Ns [0, 1e9],
    /// The first such time.
    halt_poll_start_ns: Ns [0, 1e9],
    /// What it is multiplied with when it was too short.
    halt_poll_grow: Factor [0, 1000],
    /// What it is divided by when the vCPU halts for longer than the most; 0: it becomes 0.
    halt_poll_shrink: Factor [0, 1000],
    /// Whether a vCPU that spins for long is made to yield (pause-loop exiting).
    ple: Switch [0, 1],
    /// Longest time between two pauses of one loop.
    ple_gap_ns: Ns [0, 1e9],
    /// How long a loop of pauses lasts before the vCPU leaves the guest.
    ple_window_ns: Ns [1, 1e9],
    /// What that is multiplied with each time.
    ple_grow: Factor [1, 1000],
    /// The longest it becomes.
    ple_window_max_ns: Ns [1, 1e9],
    /// From an interrupt until a CPU that was idle for a short time runs again.
    idle_exit_ns: Ns [0, 1e9],
    /// Idle for longer than this, a CPU is in a deep state.
    deep_idle_after_ns: Ns [0, 1e12],
    /// From an interrupt until a CPU in a deep state runs again.
    deep_idle_exit_ns: Ns [0, 1e9],
    /// Whether slices are given in turn (0), or by virtual deadlines as in EEVDF (1).
    eevdf: Switch [0, 1],
    /// How long a vCPU may run while others wait for its CPU.
    slice_ns: Ns [1000, 1e12],
    /// The period of the scheduler's tick, at which slices end; 0: they end exactly.
    tick_ns: Ns [0, 1e12],
    /// How late a tick may come, as interrupts and other work of the host are before it.
    tick_jitter_ns: Ns [0, 1e9],
    /// Whether a vCPU that wakes up may preempt one that runs.
    wakeup_preemption: Switch [0, 1],
    /// For how long a vCPU that has just got a CPU is protected from that.
    wakeup_protect_ns: Ns [0, 1e12],
    /// A CPU changes from one vCPU to another.
    switch_ns: Ns [0, 1e9],
    /// What it takes a vCPU longer to run on another CPU than before.
    migration_ns: Ns [0, 1e9],
    /// How often waiting vCPUs are spread over the CPUs; 0: never.
    balance_ns: Ns [0, 1e12],
    /// How much later than asked for a sleep ends.
    timer_slack_ns: Ns [0, 1e9],
}

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
    #[serde(default)]
    pub sources: std::collections::BTreeMap<String, String>,
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

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts, checked to be whole and in range"
)]
pub(crate) fn whole(count: f64) -> usize {
    count as usize
}
