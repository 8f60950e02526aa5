//! The control plane before the load: which thread the host's scheduler lets run first.
//!
//! A run is started, timed, watched and ended by one thread, which shares the host's CPUs with what it
//! controls: hundreds of threads that never stop wanting a CPU. Were it one among equals, it would get
//! its turn when they have had theirs, seconds too late; under an inherited real-time policy, never.
//!
//! | thread            | how it is scheduled                                                        |
//! |-------------------|----------------------------------------------------------------------------|
//! | vCPUs, noise      | alike: as the process was started, but ordinary where that was real-time, and |
//! |                   | nicer where nothing else gives precedence to the control plane             |
//! | the control plane | [`Precedence`]: the first of its variants that the host permits            |
//!
//! The load stays as it was started so that its weight beside other processes is what the user gave it.
#![allow(unsafe_code)] // The system calls have no safe wrappers.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// Real-time priority of the control plane, unless it inherited a higher one. Above that of real-time
/// writers under torture, which have 1.
const PRIORITY: u32 = 2;
/// Niceness of a control plane that may be nicer to itself, but not real-time.
const NICE: i32 = -10;
/// Slice that a control plane asks for which has nothing else. From Linux 6.12 on a thread that asks for a
/// shorter slice than others have is let in before them; it takes no privilege.
const SLICE: Duration = Duration::from_micros(100);

/// A control plane without privileges that shares a CPU with so many threads of the load, or fewer, gets by
/// as one among equals; beside more of them, they are to be so much nicer than they were.
///
/// A step of niceness is a factor of about 1.25 in CPU time (sched(7)), so the control plane has the weight
/// of a sixth of the load at least.
const NICER_LOAD: [(usize, i32); 4] = [(4, 0), (16, 5), (48, 10), (usize::MAX, 19)];

/// How much nicer the load is at present than the process was started.
static LOAD_NICER: AtomicI32 = AtomicI32::new(0);

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// `SCHED_OTHER`, `SCHED_FIFO` and so on.
    policy: u32,
    /// Real-time priority, 1 to 99; 0 for policies that have none.
    priority: u32,
    /// Niceness, -20 to 19.
    nice: i32,
    /// The slice that it asks for; zero for the scheduler's own.
    slice: Duration,
}

/// What gives the control plane its precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// A real-time policy: it runs as soon as it wants to.
    RealTime,
    /// A lower niceness than the load's, and a short slice.
    Nicer,
    /// A short slice, which lets it in earlier from Linux 6.12 on, and a load that is nicer by this.
    NicerLoad(i32),
    /// Nothing: the host refuses all of these.
    Nothing,
}

impl Precedence {
    /// In short, for records.
    pub fn name(self) -> String {
        match self {
            Self::RealTime => "real-time".to_owned(),
            Self::Nicer => "nice".to_owned(),
            Self::NicerLoad(by) => format!("load nicer by {by}"),
            Self::Nothing => "none".to_owned(),
        }
    }
}

impl Scheduling {
    /// That of the calling thread.
    ///
    /// # Errors
    /// If the host does not tell.
    pub fn of_this_thread() -> io::Result<Self> {
        let mut attributes = attributes();
        let size = size_of::<libc::sched_attr>();
        // SAFETY: `attributes` is valid to be written for `size` bytes.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            policy: attributes.sched_policy,
            priority: attributes.sched_priority,
            nice: attributes.sched_nice,
            // What is told is the slice in force, whether or not it was asked for.
            slice: Duration::ZERO,
        })
    }

    /// Whether it lets a thread run before all ordinary ones until it blocks.
    pub const fn is_real_time(self) -> bool {
        self.policy == libc::SCHED_FIFO as u32 || self.policy == libc::SCHED_RR as u32
    }

    /// What the load is to have: the same, nicer by `nicer`, and ordinary if it is real-time.
    fn for_load(self, nicer: i32) -> Self {
        let load = if self.is_real_time() {
            self.ordinary()
        } else {
            self
        };
        Self {
            nice: (load.nice + nicer).min(19),
            ..load
        }
    }

    const fn ordinary(self) -> Self {
        Self {
            policy: libc::SCHED_OTHER as u32,
            priority: 0,
            ..self
        }
    }

    /// What a control plane that was started like this may try to have, best first.
    fn for_control(self, sharing: usize) -> [(Precedence, Self); 4] {
        let load = NICER_LOAD.iter().find(|(most, _)| sharing <= *most);
        let real_time = if self.is_real_time() {
            Self {
                priority: self.priority.max(PRIORITY),
                ..self
            }
        } else {
            Self {
                policy: libc::SCHED_FIFO as u32,
                priority: PRIORITY,
                ..self
            }
        };
        let short = Self {
            slice: SLICE,
            ..self.ordinary()
        };
        let nicer = Self {
            nice: (self.nice + NICE).max(-20),
            ..short
        };
        // A real-time priority that may not be raised is above the load all the same.
        let second = if self.is_real_time() {
            (Precedence::RealTime, self)
        } else {
            (Precedence::Nicer, nicer)
        };
        [
            (Precedence::RealTime, real_time),
            second,
            (Precedence::NicerLoad(load.map_or(0, |load| load.1)), short),
            (Precedence::Nothing, self),
        ]
    }

    fn apply(self) -> io::Result<()> {
        let mut attributes = attributes();
        attributes.sched_policy = self.policy;
        attributes.sched_priority = self.priority;
        attributes.sched_nice = self.nice;
        attributes.sched_runtime = u64::try_from(self.slice.as_nanos()).unwrap_or(0);
        // SAFETY: `attributes` is a valid sched_attr of the size it says.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn attributes() -> libc::sched_attr {
    libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0),
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

/// How this process was started; `None` where the host does not tell. Asked for by whichever comes first
/// of [`ControlPlane::begin`] and [`join_load`], when nothing has been changed.
pub fn inherited() -> Option<Scheduling> {
    static INHERITED: OnceLock<Option<Scheduling>> = OnceLock::new();
    *INHERITED.get_or_init(|| Scheduling::of_this_thread().ok())
}

/// Makes the calling thread part of the load. It has inherited the precedence of the thread that made it,
/// and gives it up.
pub fn join_load() {
    if let Some(inherited) = inherited() {
        // To become less important is always permitted; a host that refuses all the same has its threads
        // as they are.
        let _ = inherited
            .for_load(LOAD_NICER.load(Ordering::Relaxed))
            .apply();
    }
}

/// The calling thread's precedence over the load, until this is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    precedence: Precedence,
    before: Option<Scheduling>,
}

impl ControlPlane {
    /// Gives the calling thread precedence over those that [`join_load`] from now on, `sharing` of them on
    /// each CPU.
    pub fn begin(sharing: usize) -> Self {
        let before = inherited();
        let granted = before.and_then(|before| {
            let wanted = before.for_control(sharing).into_iter();
            let mut granted = wanted.filter(|(_, scheduling)| scheduling.apply().is_ok());
            granted.next()
        });
        let precedence = granted.map_or(Precedence::Nothing, |(precedence, _)| precedence);
        let nicer = match precedence {
            Precedence::NicerLoad(by) => by,
            _ => 0,
        };
        // Relaxed: threads of the load are made after this.
        LOAD_NICER.store(nicer, Ordering::Relaxed);
        tracing::debug!(?precedence, ?before, "control plane");
        Self { precedence, before }
    }

    /// What it was given.
    pub fn precedence(&self) -> Precedence {
        self.precedence
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        LOAD_NICER.store(0, Ordering::Relaxed);
        if let Some(before) = self.before {
            // As it was, so it is permitted.
            let _ = before.apply();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `f` on a thread of its own, whose scheduling nobody misses.
    fn apart<T: Send>(f: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(f).join().unwrap())
    }

    fn scheduling(policy: libc::c_int, priority: u32, nice: i32) -> Scheduling {
        Scheduling {
            policy: u32::try_from(policy).unwrap(),
            priority,
            nice,
            slice: Duration::ZERO,
        }
    }

    #[test]
    fn the_load_is_never_real_time_and_else_as_the_process_was_started() {
        for policy in [libc::SCHED_FIFO, libc::SCHED_RR] {
            let load = scheduling(policy, 50, 3).for_load(0);
            assert_eq!(load, scheduling(libc::SCHED_OTHER, 0, 3));
        }
        for policy in [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE] {
            let inherited = scheduling(policy, 0, 7);
            assert_eq!(inherited.for_load(0), inherited);
            assert_eq!(inherited.for_load(5), scheduling(policy, 0, 12));
            assert_eq!(inherited.for_load(19), scheduling(policy, 0, 19));
        }
    }

    #[test]
    fn every_choice_of_the_control_plane_is_above_the_load() {
        for policy in [
            libc::SCHED_OTHER,
            libc::SCHED_BATCH,
            libc::SCHED_IDLE,
            libc::SCHED_FIFO,
            libc::SCHED_RR,
        ] {
            let priority = u32::from(matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR));
            let inherited = scheduling(policy, priority, 0);
            for (precedence, control) in inherited.for_control(128) {
                let load = inherited.for_load(0);
                match precedence {
                    Precedence::RealTime => assert!(control.is_real_time()),
                    Precedence::Nicer => assert!(control.nice < load.nice),
                    Precedence::NicerLoad(by) => assert!(by > 0 && !control.slice.is_zero()),
                    Precedence::Nothing => assert_eq!(control, inherited),
                }
                assert!(!load.is_real_time());
            }
        }
        let high = scheduling(libc::SCHED_FIFO, 50, 0).for_control(1)[0].1;
        assert_eq!(high, scheduling(libc::SCHED_FIFO, 50, 0));
    }

    #[test]
    fn precedence_is_taken_given_up_by_the_load_and_given_back() {
        apart(|| {
            let before = Scheduling::of_this_thread().unwrap();
            let control = ControlPlane::begin(1);
            let during = Scheduling::of_this_thread().unwrap();
            if control.precedence() == Precedence::RealTime {
                assert!(during.is_real_time());
            }
            let load = apart(|| {
                join_load();
                Scheduling::of_this_thread().unwrap()
            });
            assert_eq!(load, before.for_load(0));
            drop(control);
            assert_eq!(Scheduling::of_this_thread().unwrap(), before);
        });
    }
}
