//! From the spool to one stream of events, sorted by time.
//!
//! A vCPU may be preempted between looking at the clock and publishing its record, so a record can
//! come some milliseconds late; and that a vCPU was held off on purpose is noted when it is over. Events
//! are therefore held back for [`HOLD_BACK_NS`] and the longest injection behind the cut, and
//! one that is later still is moved forward to the time of the last event handed out, and counted.

use super::collect::{CollectError, Collector};
use super::fit::Fit;
use super::spool::Source;
use super::{Event, Place, What};
use abi::ring::{Clock, Entry};
use abi::{HostStep, Switch};
use pvlock::TraceEvent;
use std::collections::{BTreeMap, VecDeque};

/// How long after its time an event may arrive and still find its place.
const HOLD_BACK_NS: u64 = 60_000_000;

/// What merging yielded, beside the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Events handed out.
    pub events: u64,
    /// Of them, moved forward because they came too late.
    pub late: u64,
    /// Words that are no records: a guest that overwrote its ring.
    pub malformed: u64,
    /// Length of the trace, ns.
    pub end_ns: u64,
}

/// One source of events of one vCPU.
struct Stream {
    place: Place,
    waiting: VecDeque<Event>,
    clock: Clock,
    /// The last event from before the trace: the state it begins in.
    before: Option<What>,
}

/// From ticks to ns since the trace began.
struct Times {
    fit: Fit,
    start: u64,
    end_ns: u64,
}

impl Times {
    /// `None` before the trace.
    fn of_ticks(&self, ticks: u64) -> Option<u64> {
        self.fit.raw_ns(ticks).checked_sub(self.start)
    }
}

impl Collector {
    /// The line between the clocks.
    pub fn fit(&self) -> Option<Fit> {
        self.pairs.fit()
    }

    /// Hands all events to `each`, sorted by time.
    ///
    /// # Errors
    /// If the spool cannot be read, or what `each` returns.
    pub fn merge<E: From<CollectError>>(
        &mut self,
        mut each: impl FnMut(&Event) -> Result<(), E>,
    ) -> Result<Merged, E> {
        let Some(fit) = self.fit() else {
            return Ok(Merged::default());
        };
        let start = fit.raw_ns(self.began);
        let end_ns = fit.raw_ns(self.ended).saturating_sub(start);
        let times = Times { fit, start, end_ns };
        let hold_back_ns = HOLD_BACK_NS + self.longest_injection_ns;
        let offsets: Vec<u64> = self.vms.iter().map(|vm| vm.tsc_offset).collect();
        let mut streams = Streams::default();
        let mut merged = Merged {
            end_ns,
            ..Merged::default()
        };
        let mut last = 0;
        let mut emit = |event: &Event, merged: &mut Merged| -> Result<(), E> {
            let mut event = *event;
            if event.at < last {
                event.at = last;
                merged.late += 1;
            }
            last = event.at;
            merged.events += 1;
            each(&event)
        };
        let mut words = Vec::new();
        let mut chunks = self.spool.read().map_err(CollectError::from)?;
        while let Some((source, place)) = chunks.next(&mut words).map_err(CollectError::from)? {
            if source == Source::Cut {
                if let Some(cut) = words.first().and_then(|&ticks| times.of_ticks(ticks)) {
                    // All that was before the trace has been heard.
                    streams.begin_with_states();
                    streams.hand_out(cut.saturating_sub(hold_back_ns), |e| emit(e, &mut merged))?;
                }
                continue;
            }
            let stream = streams.of(source, place);
            match source {
                Source::Guest => {
                    let offset = offsets.get(usize::from(place.vm)).copied().unwrap_or(0);
                    merged.malformed += stream.add_guest(&words, &times, offset);
                }
                Source::Host => stream.add_host(&words, &times),
                Source::Switches => stream.add_switches(&words, &times),
                Source::Cut => {}
            }
        }
        streams.begin_with_states();
        streams.hand_out(u64::MAX, |e| emit(e, &mut merged))?;
        Ok(merged)
    }
}

impl Stream {
    fn add_host(&mut self, words: &[u64], times: &Times) {
        for &[ticks, ref step @ ..] in words.as_chunks::<3>().0 {
            if let Some(step) = HostStep::from_words(*step) {
                // Noted when it was over, and told when it begins.
                let before = match step {
                    HostStep::Injected(ns) => ns,
                    _ => 0,
                };
                let at = times.of_ticks(ticks).map(|at| at.saturating_sub(before));
                self.push_host(at, What::Host(step), times);
            }
        }
    }

    fn add_switches(&mut self, words: &[u64], times: &Times) {
        for &words in words.as_chunks().0 {
            if let Some(Switch { at_ns, cpu, kind }) = Switch::from_words(words) {
                let cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
                let at = at_ns.checked_sub(times.start);
                self.push_host(at, What::Switch { cpu, kind }, times);
            }
        }
    }

    /// Adds records of the guest; returns how many words are none.
    fn add_guest(&mut self, words: &[u64], times: &Times, tsc_offset: u64) -> u64 {
        let mut malformed = 0;
        for &word in words {
            let Some(record) = Entry::decode(word) else {
                malformed += 1;
                continue;
            };
            let ticks = self.clock.advance(record);
            let what = match record {
                Entry::Time(_) => continue,
                Entry::Gap(dropped) => What::Gap {
                    dropped: dropped.into(),
                },
                Entry::Event { lock, event, .. } => What::Lock { lock, step: event },
            };
            let at = times.of_ticks(ticks.wrapping_sub(tsc_offset)).unwrap_or(0);
            // The vCPU had not yet seen that the trace was over.
            if at > times.end_ns {
                continue;
            }
            self.push(at, what);
            // Head at once: the guest spares itself a second look at the clock.
            if let What::Lock {
                lock,
                step: TraceEvent::QueuedBehind(None),
            } = what
            {
                let step = TraceEvent::Head;
                self.push(at, What::Lock { lock, step });
            }
        }
        malformed
    }

    fn push(&mut self, at: u64, what: What) {
        let place = self.place;
        self.waiting.push_back(Event { at, place, what });
    }

    /// Adds an event of the host. Of those before the trace the last is kept, as the state it begins
    /// in; those after its end say nothing about it.
    fn push_host(&mut self, at: Option<u64>, what: What, times: &Times) {
        match at {
            None => self.before = Some(what),
            Some(at) if at <= times.end_ns => {
                self.begin();
                self.push(at, what);
            }
            Some(_) => {}
        }
    }

    /// Turns what was before the trace into its first event.
    fn begin(&mut self) {
        if let Some(what) = self.before.take() {
            let (at, place) = (0, self.place);
            self.waiting.push_front(Event { at, place, what });
        }
    }
}

#[derive(Default)]
struct Streams {
    streams: Vec<Stream>,
    numbers: BTreeMap<(u8, Place), usize>,
}

impl Streams {
    fn of(&mut self, source: Source, place: Place) -> &mut Stream {
        let streams = &mut self.streams;
        let number = self.numbers.entry((source as u8, place));
        let number = *number.or_insert_with(|| {
            streams.push(Stream {
                place,
                waiting: VecDeque::new(),
                clock: Clock::default(),
                before: None,
            });
            streams.len() - 1
        });
        &mut streams[number]
    }

    fn begin_with_states(&mut self) {
        self.streams.iter_mut().for_each(Stream::begin);
    }

    /// Hands out all events up to `limit`, sorted by time.
    ///
    /// The stream with the earliest event keeps its turn until another's is earlier: with few vCPUs
    /// running at a time, that spares most of the comparisons.
    fn hand_out<E>(
        &mut self,
        limit: u64,
        mut each: impl FnMut(&Event) -> Result<(), E>,
    ) -> Result<(), E> {
        // The times of the first events side by side: found out again for each turn, for all streams.
        let front = |stream: &Stream| stream.waiting.front().map_or(u64::MAX, |event| event.at);
        let mut fronts: Vec<u64> = self.streams.iter().map(front).collect();
        loop {
            let (mut first, mut first_at, mut second_at) = (0, u64::MAX, u64::MAX);
            for (number, &at) in fronts.iter().enumerate() {
                if at < first_at {
                    second_at = first_at;
                    (first, first_at) = (number, at);
                } else {
                    second_at = second_at.min(at);
                }
            }
            if first_at > limit || first_at == u64::MAX {
                return Ok(());
            }
            let waiting = &mut self.streams[first].waiting;
            let turn_ends = second_at.min(limit);
            while let Some(event) = waiting.front()
                && event.at <= turn_ends
            {
                each(event)?;
                waiting.pop_front();
            }
            fronts[first] = front(&self.streams[first]);
        }
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
