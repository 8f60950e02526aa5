//! Collecting while the run goes on: guest rings, the host's notes and context switches are taken
//! away some twenty-five times a second, into the spool.

use super::Place;
use super::fit::Pairs;
use super::spool::{Source, Spool, SpoolError};
use crate::machine::{RunningVm, Switches};
use abi::Switch;
use host::region::RegionError;
use host::switches::SwitchError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Records of a vCPU's ring, unless said otherwise: 2 MiB, some 50 to 100 ms of the busiest vCPU.
pub const DEFAULT_RECORDS: usize = 1 << 18;

/// How often to collect. Each time takes a CPU from a vCPU, which may hold a lock: less often is
/// better, as long as rings do not run full.
pub(crate) const COLLECT_EVERY: Duration = Duration::from_millis(40);

/// Why a trace could not be collected.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "their messages say what they are")]
pub enum CollectError {
    #[error("cannot make a temporary file for the trace in {0}; make room there, or set TMPDIR")]
    NoSpool(#[from] SpoolError),
    #[error("cannot keep the trace in a temporary file: {}; make room in {}, or set TMPDIR",
        .0, std::env::temp_dir().display())]
    Spool(#[from] io::Error),
    #[error("cannot take the trace from the guest: {}; if there is no room in {}, set TMPDIR",
        .0, std::env::temp_dir().display())]
    Region(#[from] RegionError),
}

/// Collects a trace.
#[derive(Debug)]
pub struct Collector {
    records: usize,
    pub(super) spool: Spool,
    pub(super) pairs: Pairs,
    pub(super) vms: Vec<Traced>,
    /// The TSC when the trace began, and when it ended.
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) lost_switches: u64,
    pub(super) longest_injection_ns: u64,
    /// Why context switches are not recorded, if so.
    pub(super) no_switches: Option<String>,
}

#[derive(Debug)]
pub(super) struct Traced {
    pub(super) tsc_offset: u64,
    switches: Vec<Option<Box<dyn Switches>>>,
    pub(super) dropped: u64,
}

impl Traced {
    #[cfg(test)]
    pub(super) fn without_switches(tsc_offset: u64) -> Self {
        Self {
            tsc_offset,
            switches: Vec::new(),
            dropped: 0,
        }
    }
}

impl Collector {
    /// A collector for rings of `records` records, a power of two.
    ///
    /// Until the run is over the trace is in a temporary file, eight bytes for each event: in TMPDIR, and
    /// when there is no room there, in the first of the `spare` directories that has some.
    ///
    /// # Errors
    /// If there is no room for a temporary file.
    pub fn new(
        records: usize,
        spare: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Self, CollectError> {
        Ok(Self {
            records,
            spool: Spool::new([std::env::temp_dir()].into_iter().chain(spare))?,
            pairs: Pairs::default(),
            vms: Vec::new(),
            began: 0,
            ended: 0,
            lost_switches: 0,
            longest_injection_ns: 0,
            no_switches: None,
        })
    }

    /// Size of the vCPUs' rings, in records.
    pub fn records(&self) -> usize {
        self.records
    }

    /// The TSC when the trace began.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// Context switches that the kernel had no room for.
    pub fn lost_switches(&self) -> u64 {
        self.lost_switches
    }

    /// Why context switches are not recorded, if they are not.
    pub fn without_switches(&self) -> Option<&str> {
        self.no_switches.as_deref()
    }

    /// Starts recording context switches. The vCPUs exist, and have not begun to work.
    ///
    /// `longest_injection_ns` is how long a vCPU may be held off its CPU on purpose.
    pub(crate) fn attach(&mut self, longest_injection_ns: u64, vms: &[&dyn RunningVm]) {
        self.longest_injection_ns = longest_injection_ns;
        self.pair(vms);
        for vm in vms {
            let switches = (0..vm.region().layout().vcpus()).map(|vcpu| {
                let recorder = vm.record_switches(vcpu)?;
                // The first refusal is told; the others will have the same reason.
                if let Err(error) = &recorder {
                    let why = || why_no_switches(error);
                    self.no_switches.get_or_insert_with(why);
                }
                recorder.ok()
            });
            self.vms.push(Traced {
                switches: switches.collect(),
                tsc_offset: vm.tsc_offset(),
                dropped: 0,
            });
        }
        if self.no_switches.is_some() {
            // Those of some would not do, and the files they take are missing elsewhere.
            let all = self.vms.iter_mut().flat_map(|vm| &mut vm.switches);
            all.for_each(|recorder| *recorder = None);
        }
    }

    fn pair(&mut self, vms: &[&dyn RunningVm]) {
        if let Some(vm) = vms.first() {
            self.pairs.add(vm.host_clocks());
        }
    }

    /// The measurement, and with it the trace, begins.
    pub(crate) fn begin(&mut self, vms: &[&dyn RunningVm]) {
        self.began = now(vms);
        self.ended = self.began;
    }

    pub(crate) fn collect(&mut self, vms: &[&dyn RunningVm]) -> Result<(), CollectError> {
        let mut cut = now(vms);
        self.pair(vms);
        for (traced, vm) in self.vms.iter().zip(vms) {
            for vcpu in 0..vm.region().layout().vcpus() {
                // What a vCPU has put aside comes when it goes on, which may be a long time from now.
                if let Some(ticks) = vm.region().trace_aside(vcpu)? {
                    cut = cut.min(ticks.wrapping_sub(traced.tsc_offset));
                }
            }
        }
        for (number, vm) in (0u16..).zip(vms) {
            let traced = &mut self.vms[usize::from(number)];
            for (vcpu, recorder) in (0u16..).zip(&mut traced.switches) {
                let place = Place { vm: number, vcpu };
                let mut words = Vec::new();
                if let Some(recorder) = recorder {
                    let mut keep = |switch: Switch| words.extend(switch.words());
                    self.lost_switches += recorder.drain(&mut keep);
                }
                self.spool.append_words(Source::Switches, place, &words)?;
                words.clear();
                for event in vm.take_notes(usize::from(vcpu)) {
                    words.push(event.ticks);
                    words.extend(event.step.words());
                }
                self.spool.append_words(Source::Host, place, &words)?;
                self.spool.append(Source::Guest, place, |file| {
                    let drained = vm.region().drain_trace(usize::from(vcpu), file);
                    drained.map(|_| ()).map_err(CollectError::from)
                })?;
            }
        }
        let anywhere = Place { vm: 0, vcpu: 0 };
        self.spool.append_words(Source::Cut, anywhere, &[cut])?;
        self.ended = now(vms);
        Ok(())
    }

    /// The vCPUs have stopped: takes away the rest.
    pub(crate) fn end(&mut self, ended: u64, vms: &[&dyn RunningVm]) -> Result<(), CollectError> {
        let result = self.collect(vms);
        self.ended = ended;
        for (traced, vm) in self.vms.iter_mut().zip(vms) {
            traced.dropped = 0;
            for vcpu in 0..vm.region().layout().vcpus() {
                traced.dropped += vm.region().trace_dropped(vcpu)?;
            }
        }
        result
    }

    /// Guest events that found their ring full.
    pub fn dropped(&self) -> u64 {
        self.vms.iter().map(|vm| vm.dropped).sum()
    }
}

/// The clock that all VMs have in common, now.
fn now(vms: &[&dyn RunningVm]) -> u64 {
    vms.first().map_or(0, |vm| vm.host_now())
}

fn why_no_switches(error: &SwitchError) -> String {
    let unknown = "who was off its CPU, and when, is unknown; only totals are known";
    format!("context switches of vCPUs cannot be recorded ({error}): {unknown}")
}
