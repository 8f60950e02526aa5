//! One execution, as far as it has come.

use crate::explore::{Limits, Program};
use crate::layout::Layout;
use crate::memory::{Memory, Model};
use crate::op::{Op, Reply, Side};
use crate::thread::{Body, Ran};
use crate::view::{Fingerprint, mixed};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

/// A step: whose, and in which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) thread: u8,
    /// [`DRAIN`]: the first store in its buffer arrives.
    pub(crate) way: u8,
}

pub(crate) const DRAIN: u8 = u8::MAX;

struct Thread {
    body: Body,
    /// What it asks for; `None`: it is done.
    asks: Option<Op>,
    /// All that it has been answered, as a number: where it is and what it knows.
    history: u64,
    /// The same without what it has only read since it last did something else.
    done: u64,
    /// The slots that it has read since its last turn of a loop.
    loaded: Vec<u8>,
    /// What it has read there first.
    values: Vec<u64>,
    /// It has read two values of one place in one turn, and may have gone by the older one.
    torn: bool,
    /// Waits for a while that have ended in vain.
    timeouts: u8,
    /// Turns of loops in which there was no news.
    idle: u8,
}

/// The execution.
pub(crate) struct Machine {
    model: Model,
    limits: Limits,
    memory: Memory,
    threads: Vec<Thread>,
    /// Whose step was the last.
    last: usize,
    preemptions: u32,
    /// What happened, if that is wanted.
    pub(crate) story: Option<String>,
}

impl Machine {
    /// All threads at their first request.
    ///
    /// # Errors
    /// What is wrong already.
    pub(crate) fn start(
        program: &Program,
        model: Model,
        limits: Limits,
        layout: &mut Layout,
        story: bool,
    ) -> Result<Self, String> {
        crate::machinery::reset();
        let count = program.threads.len();
        let thread = |(number, run): (usize, &&'static dyn Fn())| Thread {
            body: Body::new(number, *run),
            asks: None,
            history: 0,
            done: 0,
            loaded: vec![],
            values: vec![],
            torn: false,
            timeouts: 0,
            idle: 0,
        };
        let mut machine = Self {
            model,
            limits,
            memory: Memory::new(model, count, program.fences),
            threads: program.threads.iter().enumerate().map(thread).collect(),
            last: 0,
            preemptions: 0,
            story: story.then(String::new),
        };
        for t in 0..count {
            machine.resume(t, Reply::default())?;
        }
        machine.settle(layout)?;
        Ok(machine)
    }

    /// Lets a thread run to its next request.
    fn resume(&mut self, t: usize, reply: Reply) -> Result<(), String> {
        let ran = self.threads[t].body.run(reply);
        let asks = match ran {
            Ran::Asks(op) => Some(op),
            Ran::Done => None,
            Ran::Panicked(text) => return Err(format!("CPU {t} panics: {text}")),
        };
        self.threads[t].asks = asks;
        Ok(())
    }

    /// Does what needs no choice, as it makes no difference to the others when it is done.
    fn settle(&mut self, layout: &mut Layout) -> Result<(), String> {
        while let Some(t) = (0..self.threads.len()).find(|&t| self.is_own(t)) {
            self.perform(layout, t, 0)?;
        }
        Ok(())
    }

    fn is_own(&self, t: usize) -> bool {
        let weak = self.model != Model::X86;
        match self.threads[t].asks {
            // A race is one in whatever order the accesses are looked at.
            Some(Op::Data { .. }) => weak,
            Some(Op::Fence(order)) => order != Ordering::SeqCst,
            Some(Op::Barrier(Side::Light)) => !weak,
            Some(Op::Relax { .. }) => self.threads[t].loaded.is_empty(),
            Some(Op::Forget(_)) => true,
            _ => false,
        }
    }

    /// In how many ways a thread can do what it asks for.
    fn ways(&mut self, layout: &mut Layout, t: usize) -> usize {
        let thread = &self.threads[t];
        let patient = thread.timeouts >= self.limits.timeouts;
        match thread.asks {
            None => 0,
            Some(Op::Relax { .. }) => usize::from(
                thread.idle < self.limits.idle_turns
                    || thread.torn
                    || self.memory.is_news(t, &thread.loaded),
            ),
            Some(op) => self.memory.ways(layout, t, &op, patient),
        }
    }

    /// All steps that can be taken now.
    pub(crate) fn steps(&mut self, layout: &mut Layout) -> Vec<Step> {
        let mut steps = vec![];
        let count = self.threads.len();
        let chooses = (0..count).find(|&t| matches!(self.threads[t].asks, Some(Op::Choose(_))));
        let only = chooses.or_else(|| self.may_not_be_preempted(layout));
        for t in 0..count {
            if only.is_none_or(|only| only == t) {
                let ways = self.ways(layout, t);
                steps.extend((0..ways).map(|way| step(t, way)));
            }
        }
        if chooses.is_none() {
            let buffered = (0..count).filter(|&t| self.memory.is_buffered(t));
            steps.extend(buffered.map(|t| step(t, DRAIN.into())));
        }
        steps
    }

    /// The thread that goes on, if there have been as many preemptions as there may be.
    fn may_not_be_preempted(&mut self, layout: &mut Layout) -> Option<usize> {
        let most = self.limits.preemptions?;
        let last = self.last;
        (self.preemptions >= most && self.goes_on(layout, last)).then_some(last)
    }

    fn goes_on(&mut self, layout: &mut Layout, t: usize) -> bool {
        !matches!(self.threads[t].asks, Some(Op::Relax { .. })) && self.ways(layout, t) > 0
    }

    /// Takes one of these.
    ///
    /// # Errors
    /// What is wrong then.
    pub(crate) fn step(&mut self, layout: &mut Layout, step: Step) -> Result<(), String> {
        let t = usize::from(step.thread);
        if step.way == DRAIN {
            self.memory.drain(t);
            self.tell(t, "its store arrives", 0);
            return Ok(());
        }
        if self.limits.preemptions.is_some() && t != self.last {
            let last = self.last;
            self.preemptions += u32::from(self.goes_on(layout, last));
            self.last = t;
        }
        self.perform(layout, t, usize::from(step.way))?;
        self.settle(layout)
    }

    fn perform(&mut self, layout: &mut Layout, t: usize, way: usize) -> Result<(), String> {
        let op = self.threads[t].asks.expect("it asks");
        if let Op::Relax { .. } = op {
            let loaded = std::mem::take(&mut self.threads[t].loaded);
            self.threads[t].values.clear();
            let torn = std::mem::take(&mut self.threads[t].torn);
            if !torn && !loaded.is_empty() && !self.memory.is_news(t, &loaded) {
                self.threads[t].idle += 1;
            }
            self.memory.arrive(t, &loaded);
        }
        let site = crate::thread::site();
        let Some(reply) = self.memory.perform(layout, t, &op, way)? else {
            return Ok(());
        };
        if let Some(at) = op.place() {
            let slot = u8::try_from(layout.slot(at)).expect("few slots");
            let thread = &mut self.threads[t];
            match thread.loaded.binary_search(&slot) {
                Ok(i) => thread.torn |= thread.values[i] != reply.value,
                Err(i) => {
                    thread.loaded.insert(i, slot);
                    thread.values.insert(i, reply.value);
                }
            }
            self.memory.looked(t, slot);
        }
        let thread = &mut self.threads[t];
        let news = mixed(reply.value.wrapping_mul(2) | u64::from(reply.ok));
        thread.history = mixed(thread.history ^ news).wrapping_add(1);
        let reads = match op {
            Op::Load { .. } | Op::Relax { .. } => true,
            Op::Change { .. } => !reply.ok,
            Op::Spin { .. } => {
                thread.timeouts += u8::from(!reply.ok);
                false
            }
            _ => false,
        };
        match op {
            Op::Relax { forgetful: true } => thread.history = mixed(thread.done) ^ 1,
            Op::Forget(place) => {
                (thread.history, thread.timeouts, thread.idle) = (mixed(place), 0, 0);
                thread.loaded.clear();
                thread.values.clear();
                thread.torn = false;
                thread.done = thread.history;
            }
            _ if !reads => thread.done = thread.history,
            _ => {}
        }
        if self.story.is_some() && !matches!(op, Op::Forget(_)) {
            let at = site.map_or(String::new(), |site| format!(" {site}"));
            let place = op.place().map_or(0, |place| place.number);
            let what = format!(
                "{} #{place} {}{at}",
                op.name(),
                if reply.ok { "" } else { "-" }
            );
            let value = match op {
                Op::Store { value, .. } => value,
                _ => reply.value,
            };
            self.tell(t, &what, value);
        }
        self.resume(t, reply)
    }

    fn tell(&mut self, t: usize, what: &str, value: u64) {
        if let Some(story) = &mut self.story {
            // A string takes all that is written.
            let _ = writeln!(story, "CPU {t}: {what} {value:#x}");
        }
    }

    /// Whether all have done what they had to.
    pub(crate) fn is_over(&self) -> bool {
        let mut threads = (0..).zip(&self.threads);
        threads.all(|(t, thread)| thread.asks.is_none() && !self.memory.is_buffered(t))
    }

    /// What each thread asks for.
    pub(crate) fn describe(&self) -> String {
        let line = |(t, thread): (usize, &Thread)| match &thread.asks {
            None => format!("CPU {t}: done\n"),
            Some(op) => format!("CPU {t}: {}\n", op.name()),
        };
        self.threads.iter().enumerate().map(line).collect()
    }

    /// A number for the state.
    pub(crate) fn fingerprint(&self, layout: &Layout) -> u128 {
        let mut state = Fingerprint::new();
        let mut live = vec![];
        let mut loops = vec![];
        for thread in &self.threads {
            let lives = thread.asks.is_some();
            live.push(lives);
            loops.push(if lives { thread.loaded.clone() } else { vec![] });
            state.add(if lives { thread.history } else { 1 });
            if lives {
                state.add(
                    u64::from(thread.timeouts) << 16
                        | u64::from(thread.idle) << 8
                        | u64::from(thread.torn),
                );
                thread.values.iter().for_each(|&value| state.add(value));
                for &slot in &thread.loaded {
                    state.add(u64::from(slot) + 1);
                }
                if self.limits.forgets {
                    state.add(thread.done);
                }
            }
        }
        if self.limits.preemptions.is_some() {
            state.add(u64::from(self.preemptions) << 8 | self.last as u64);
        }
        crate::machinery::describe(&mut state);
        self.memory.describe(layout, &live, &loops, &mut state);
        state.value()
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}

fn step(t: usize, way: usize) -> Step {
    Step {
        thread: u8::try_from(t).expect("few threads"),
        way: u8::try_from(way).expect("fewer than 256 ways"),
    }
}
