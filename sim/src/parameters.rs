//! The parameters of a machine: each is defined once, in the list below, with its unit and range.

use serde::{Deserialize, Serialize};

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

            pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut f64> {
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
    /// A full memory barrier.
    fence_ns: Ns [0, 1e6],
    /// Whether a read-modify-write is a load and a conditional store, which fails if the line was taken away
    /// between them.
    llsc: Switch [0, 1],
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
    /// What each other request that waits for a line adds to the time in which it moves: requests that are refused
    /// are sent again.
    crowd_ns: Ns [0, 1e6],
    /// Requests from the owner's socket that may pass those of other sockets, in a row.
    burst: Count [0, 1e6],
    /// The share of a transfer for which the CPU that has the line goes on using it, as the request is on its
    /// way; for the rest of it nobody has the line.
    kept: Factor [0, 1],
    /// How much transfers and pauses vary, evenly to either side, as a share of their length.
    jitter: Factor [0, 1],
    /// A turn of a busy-wait loop (x86 `pause`).
    pause_ns: Ns [0.1, 1e6],
    /// Whether a CPU waits on the line itself (arm64 `wfe`) instead of looking again and again.
    wait_on_line: Switch [0, 1],
    /// Instructions of a microbenchmark's loop for each operation, besides its atomic operations.
    loop_ns: Ns [0, 1e6],
    /// A system call of a microbenchmark: into the kernel, what is done there besides locks, and back.
    syscall_ns: Ns [0, 1e9],
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

/// A count as what it counts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts, checked to be whole and in range"
)]
pub(crate) fn whole(count: f64) -> usize {
    count as usize
}
