//! All executions of a model: depth first over its states, each of which is looked at once.
//!
//! A state is what memory holds and may still be read, and where each thread is, which is told by all that it
//! has been answered. To go back to a state its execution is repeated from the start. Once all states are
//! known, each must have a way to the end: else somebody waits for ever, asleep or awake.

use crate::layout::Layout;
use crate::machine::{Machine, Step};
use crate::memory::Model;
use crate::op::{Op, Reply};
use pvlock::LockEvent;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::rc::Rc;

/// What is run.
#[derive(Clone)]
pub struct Program {
    /// What each CPU does.
    pub(crate) threads: Vec<&'static dyn Fn()>,
    /// What must hold when all are done.
    pub(crate) end: &'static dyn Fn(),
    /// Somebody uses acquire fences.
    pub(crate) fences: bool,
}

/// How far to look.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How often a CPU may lose its turn although it could go on; `None`: always.
    pub preemptions: Option<u32>,
    /// How often in one operation a wait for a while ends in vain.
    pub timeouts: u8,
    /// How often a loop takes a turn without any news, in one operation.
    pub idle_turns: u8,
    /// Loops that carry nothing from one turn to the next are told apart by their beginning only.
    pub forgets: bool,
    /// States to look at at most.
    pub states: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            preemptions: None,
            timeouts: 1,
            idle_turns: 0,
            forgets: true,
            states: 20_000_000,
        }
    }
}

/// What was looked at.
#[derive(Clone, Debug)]
pub struct Explored {
    /// States.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// Those in which all is done.
    pub ends: usize,
    /// How often each event has happened, on all ways.
    pub(crate) counts: [u64; LockEvent::COUNT],
}

impl Explored {
    /// How often `event` was counted.
    pub fn count(&self, event: LockEvent) -> u64 {
        self.counts[event as usize]
    }

    /// Panics unless each of these has happened.
    #[track_caller]
    pub fn saw(&self, events: &[LockEvent]) {
        for &event in events {
            assert!(self.count(event) > 0, "not seen: {}", event.name());
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub what: String,
    /// How it comes to that, step by step.
    pub story: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.what, self.story)
    }
}

/// An execution that has ended.
type Ended = Rc<RefCell<(Machine, Layout)>>;

thread_local! {
    static AT_THE_END: RefCell<Option<Ended>> = const { RefCell::new(None) };
}

/// What a place holds when all is done, or before anything is.
pub(crate) fn at_the_end(op: &Op) -> Reply {
    let value = AT_THE_END.with_borrow(|end| {
        let Op::Load { at, .. } = *op else {
            panic!("between executions there are loads only");
        };
        end.as_ref().map_or(at.initial, |end| {
            let (machine, layout) = &mut *end.borrow_mut();
            machine.memory().last(layout, at)
        })
    });
    Reply { value, ok: true }
}

/// The value of a cell when all is done.
pub(crate) fn datum(cell: u32) -> u64 {
    AT_THE_END.with_borrow(|end| {
        let end = end.as_ref().expect("when all is done");
        end.borrow().0.memory().datum(cell)
    })
}

struct Frame {
    id: u32,
    steps: Vec<Step>,
    next: usize,
}

struct Explorer<'a> {
    program: &'a Program,
    model: Model,
    limits: Limits,
    layout: Layout,
    known: HashMap<u128, u32, std::hash::BuildHasherDefault<AsIs>>,
    /// Whence each state was reached first, and by what.
    first: Vec<(u32, Step)>,
    edges: Vec<(u32, u32)>,
    ends: Vec<u32>,
    frames: Vec<Frame>,
}

/// Explores all executions of `program`.
///
/// # Errors
/// The first that goes wrong; or that there are too many states.
pub fn explore(program: &Program, model: Model, limits: Limits) -> Result<Explored, Failure> {
    crate::thread::quiet_panics();
    crate::machinery::forget_counts();
    let mut explorer = Explorer {
        program,
        model,
        limits,
        layout: Layout::default(),
        known: HashMap::default(),
        first: vec![],
        edges: vec![],
        ends: vec![],
        frames: vec![],
    };
    explorer.run()?;
    explorer.all_can_end()?;
    Ok(Explored {
        states: explorer.first.len(),
        steps: explorer.edges.len(),
        ends: explorer.ends.len(),
        counts: crate::machinery::counts(),
    })
}

const NOTHING: Step = Step { thread: 0, way: 0 };

impl Explorer<'_> {
    fn start(&mut self, story: bool) -> Result<Machine, Failure> {
        Machine::start(
            self.program,
            self.model,
            self.limits,
            &mut self.layout,
            story,
        )
        .map_err(|what| self.failure(what, &[]))
    }

    fn run(&mut self) -> Result<(), Failure> {
        let mut machine = self.start(false)?;
        let mut by = NOTHING;
        loop {
            machine = self.arrive(machine, by)?;
            // The last state from which there is more to see.
            while self.frames.last().is_some_and(|f| f.next == f.steps.len()) {
                self.frames.pop();
            }
            let Some(frame) = self.frames.last() else {
                return Ok(());
            };
            if frame.next > 0 {
                // It is not the one that the machine has just come to.
                drop(machine);
                machine = self.again()?;
            }
            let frame = self.frames.last_mut().expect("looked at above");
            by = frame.steps[frame.next];
            frame.next += 1;
            if let Err(what) = machine.step(&mut self.layout, by) {
                let trail = self.trail();
                return Err(self.failure(what, &trail));
            }
        }
    }

    /// The steps that lead to the present state.
    fn trail(&self) -> Vec<Step> {
        let taken = self.frames.iter().filter(|frame| frame.next > 0);
        taken.map(|frame| frame.steps[frame.next - 1]).collect()
    }

    /// An execution that has come to the state of the last frame.
    fn again(&mut self) -> Result<Machine, Failure> {
        let mut machine = self.start(false)?;
        for i in 0..self.frames.len() - 1 {
            let frame = &self.frames[i];
            let step = frame.steps[frame.next - 1];
            if let Err(what) = machine.step(&mut self.layout, step) {
                let what = format!("a repetition differs: {what}");
                return Err(self.failure(what, &[]));
            }
        }
        Ok(machine)
    }

    /// Looks at the state that the machine has come to, if it is a new one.
    fn arrive(&mut self, mut machine: Machine, by: Step) -> Result<Machine, Failure> {
        let key = machine.fingerprint(&self.layout);
        let next = u32::try_from(self.first.len()).expect("fewer than 2^32 states");
        let from = self.frames.last().map_or(0, |frame| frame.id);
        let id = match self.known.entry(key) {
            Entry::Occupied(known) => {
                self.edges.push((from, *known.get()));
                return Ok(machine);
            }
            Entry::Vacant(new) => *new.insert(next),
        };
        self.first.push((from, by));
        self.edges.push((from, id));
        if self.first.len() > self.limits.states {
            let what = format!("more than {} states", self.limits.states);
            return Err(self.failure(what, &[]));
        }
        let steps = machine.steps(&mut self.layout);
        if !steps.is_empty() {
            self.frames.push(Frame { id, steps, next: 0 });
            return Ok(machine);
        }
        let trail = self.trail();
        if !machine.is_over() {
            let what = format!("all wait for ever\n{}", machine.describe());
            return Err(self.failure(what, &trail));
        }
        self.ends.push(id);
        self.at_the_end(machine)
            .map_err(|what| self.failure(what, &trail))
    }

    fn at_the_end(&mut self, machine: Machine) -> Result<Machine, String> {
        let both = Rc::new(RefCell::new((machine, std::mem::take(&mut self.layout))));
        AT_THE_END.set(Some(both.clone()));
        let result = crate::thread::catch(self.program.end);
        AT_THE_END.set(None);
        let (machine, layout) = Rc::into_inner(both).expect("not kept").into_inner();
        self.layout = layout;
        result.map(|()| machine)
    }

    /// From each state there must be a way to an end.
    fn all_can_end(&mut self) -> Result<(), Failure> {
        let count = self.first.len();
        // Edges by where they lead to.
        let mut starts = vec![0_u32; count + 1];
        for &(_, to) in &self.edges {
            starts[to as usize + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut fill = starts.clone();
        let mut from = vec![0_u32; self.edges.len()];
        for &(source, to) in &self.edges {
            from[fill[to as usize] as usize] = source;
            fill[to as usize] += 1;
        }
        let mut can = vec![false; count];
        let mut left = self.ends.clone();
        for &end in &self.ends {
            can[end as usize] = true;
        }
        while let Some(state) = left.pop() {
            let state = state as usize;
            for &before in &from[starts[state] as usize..starts[state + 1] as usize] {
                if !std::mem::replace(&mut can[before as usize], true) {
                    left.push(before);
                }
            }
        }
        let Some(stuck) = can.iter().position(|can| !can) else {
            return Ok(());
        };
        let mut trail = vec![];
        let mut state = stuck;
        while state != 0 {
            let (before, step) = self.first[state];
            trail.push(step);
            state = before as usize;
        }
        trail.reverse();
        Err(self.failure("somebody waits for ever".into(), &trail))
    }

    /// The finding, with how it comes to that.
    fn failure(&mut self, what: String, trail: &[Step]) -> Failure {
        let machine = Machine::start(
            self.program,
            self.model,
            self.limits,
            &mut self.layout,
            true,
        );
        let mut story = String::new();
        if let Ok(mut machine) = machine {
            for &step in trail {
                if machine.step(&mut self.layout, step).is_err() {
                    break;
                }
            }
            story = machine.story.take().unwrap_or_default() + &machine.describe();
        }
        Failure { what, story }
    }
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl std::hash::Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        let (low, _) = bytes.split_first_chunk().expect("16 bytes");
        self.0 = u64::from_le_bytes(*low);
    }
}
