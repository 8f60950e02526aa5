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

/// How long the others' events are held back for one that a vCPU has put aside, beside the time that it may be
/// held off its CPU on purpose. It comes late then, which is counted; a guest that never brings it does not make
/// merging need more memory than that.
const ASIDE_PATIENCE: Duration = Duration::from_secs(10);

/// Why a trace could not be collected.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "their messages say what they are")]
pub enum CollectError {
    #[error("cannot make a temporary file for the trace in {0}; make room there, or set TMPDIR")]
    NoSpool(#[from] SpoolError),
    #[error("cannot keep the trace in a temporary file: {}; make room in {}, or set TMPDIR",
        .0, std::env::temp_dir().display())]
    Spool(#[from] io::Error),
    #[error("cannot take the trace from the guest: {}{}", .0, no_room(.0))]
    Region(#[from] RegionError),
}

/// What helps if there was no room for what was taken from a guest.
fn no_room(error: &RegionError) -> String {
    match error {
        RegionError::Access(_) => {
            let place = std::env::temp_dir();
            format!("; if there is no room in {}, set TMPDIR", place.display())
        }
        _ => String::new(),
    }
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
    /// Records taken from the ring of each vCPU.
    taken: Vec<u64>,
    pub(super) dropped: u64,
}

impl Traced {
    #[cfg(test)]
    pub(super) fn without_switches(tsc_offset: u64) -> Self {
        Self {
            tsc_offset,
            switches: Vec::new(),
            taken: Vec::new(),
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

    /// A trace of two VMs, of a second from tick 1,000,000 on at 1 GHz, that consists of `words`: chunks, each begun
    /// by a word that says what is in it, whose it is and how long it is. For `fuzz/`.
    ///
    /// # Errors
    /// As [`Self::new`], or if it cannot be kept.
    pub(crate) fn of_words(mut words: &[u64]) -> Result<Self, CollectError> {
        const SOURCES: [Source; 4] = [Source::Guest, Source::Host, Source::Switches, Source::Cut];
        let mut collector = Self::new(16, [])?;
        for second in 0..2 {
            collector
                .pairs
                .add((second * 1_000_000_000, second * 1_000_000_000));
        }
        (collector.began, collector.ended) = (1_000_000, 1_001_000_000);
        let traced = |tsc_offset| Traced {
            tsc_offset,
            switches: Vec::new(),
            taken: Vec::new(),
            dropped: 0,
        };
        collector.vms = [0, 1 << 63].map(traced).into();
        while let [head, rest @ ..] = words {
            let [source, vm, vcpu, length, ..] = head.to_le_bytes();
            let chunk;
            (chunk, words) = rest.split_at(usize::from(length).min(rest.len()));
            let place = Place {
                vm: vm.into(),
                vcpu: vcpu.into(),
            };
            let source = SOURCES[usize::from(source) % SOURCES.len()];
            collector.spool.append_words(source, place, chunk)?;
        }
        Ok(collector)
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
                taken: vec![0; vm.region().layout().vcpus()],
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
        let patience = ASIDE_PATIENCE + Duration::from_nanos(self.longest_injection_ns);
        let khz = vms.first().map_or(0, |vm| vm.khz());
        let patience = patience.as_nanos() * u128::from(khz) / 1_000_000;
        let earliest = cut.saturating_sub(u64::try_from(patience).unwrap_or(u64::MAX));
        self.pair(vms);
        for (traced, vm) in self.vms.iter().zip(vms) {
            for vcpu in 0..vm.region().layout().vcpus() {
                // What a vCPU has put aside comes when it goes on, which may be a long time from now.
                if let Some(ticks) = vm.region().trace_aside(vcpu)? {
                    let ticks = ticks.wrapping_sub(traced.tsc_offset);
                    cut = cut.min(ticks.max(earliest));
                }
            }
        }
        for (number, vm) in (0u16..).zip(vms) {
            let traced = &mut self.vms[usize::from(number)];
            let vcpus = traced.switches.iter_mut().zip(&mut traced.taken);
            for (vcpu, (recorder, taken)) in (0u16..).zip(vcpus) {
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
                    vm.region()
                        .drain_trace(usize::from(vcpu), taken, file)
                        .map_err(CollectError::from)
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
