//! Cache lines: which CPUs have a copy, which vCPUs ask for one, and what that takes.
//!
//! | a CPU has the line        | read                    | write, or read-modify-write               |
//! |---------------------------|-------------------------|-------------------------------------------|
//! | alone                     | hit                     | hit                                       |
//! | as others do (shared)     | hit                     | request: all other copies are taken away  |
//! | not                       | request: it is shared   | request: it moves here                    |
//!
//! Requests for a line are granted one after the other; only reads of a line that is shared already
//! overlap, each keeping the line busy for [`read_busy_ns`](crate::parameters::Costs::read_busy_ns). A request
//! is on its way for a share ([`kept`](crate::parameters::Costs::kept)) of the time that it takes: the CPU that has
//! the line goes on hitting it until then. For the rest the line itself is on its way, and nobody has it. Requests from
//! the socket that has the line pass those of others, but only
//! [`burst`](crate::parameters::Costs::burst) in a row.

mod line;

use crate::agenda::{Agenda, What};
use crate::parameters::{Costs, whole};
use crate::topology::Topology;
use crate::units::{Ps, per_1024, times};
use line::{Hot, Line};
use std::rc::Rc;

times!(Times {
    hit_ns,
    memory_ns,
    read_busy_ns,
    invalidate_ns,
    crowd_ns,
});

/// What a vCPU has asked for last.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    line: u32,
    /// Where the vCPU is, and stays until it has got the line.
    cpu: u32,
    write: bool,
}

/// All lines of the machine.
pub(crate) struct Coherence {
    topology: Rc<Topology>,
    times: Times,
    burst: usize,
    /// For how much of a transfer the line stays, in 1/1024.
    kept: Ps,
    lines: Vec<u64>,
    hot: Vec<Hot>,
    /// One of each vCPU.
    requested: Vec<Request>,
    requests: u64,
}

impl Coherence {
    pub(crate) fn new(costs: &Costs, topology: Rc<Topology>) -> Self {
        Self {
            topology,
            times: Times::new(costs),
            burst: whole(costs.burst),
            kept: per_1024(costs.kept),
            lines: Vec::new(),
            hot: Vec::new(),
            requested: Vec::new(),
            requests: 0,
        }
    }

    /// More lines; the number of the first.
    pub(crate) fn add_lines(&mut self, more: usize) -> usize {
        let first = self.lines.len();
        // Pages of zeros are taken from the system when they are touched; growing keeps them so.
        let lines = vec![0; first + more];
        let before = std::mem::replace(&mut self.lines, lines);
        self.lines[..first].copy_from_slice(&before);
        first
    }

    pub(crate) fn add_vcpu(&mut self) {
        self.requested.push(Request::default());
    }

    /// How many requests there were.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// The line that `vcpu` has asked for last.
    pub(crate) fn requested(&self, vcpu: u32) -> u32 {
        self.requested[vcpu as usize].line
    }

    #[inline(always)]
    pub(crate) fn line(&self, line: u32) -> Line {
        Line(self.lines[line as usize])
    }

    fn set_line(&mut self, line: u32, state: Line) {
        self.lines[line as usize] = state.0;
    }

    /// Whether `cpu` may read `line` without a request.
    pub(crate) fn can_read(&self, line: u32, cpu: u32) -> bool {
        let line = self.line(line);
        let shares = |hot: usize| self.hot[hot].is_shared_by(cpu);
        line.is_owned_by(cpu) || line.hot().is_some_and(shares)
    }

    /// Whether `cpu`, whose time is `at`, may use `line`, whose state is `state`, without a request.
    #[inline(always)]
    pub(crate) fn can_use(
        &mut self,
        line: u32,
        state: Line,
        (cpu, at): (u32, Ps),
        write: bool,
    ) -> bool {
        if state.is_owned_by(cpu) {
            return !state.in_flight() || self.stays(state, at);
        }
        let Some(hot) = state.hot() else { return false };
        self.hot[hot].is_shared_by(cpu) && (!write || self.try_own(line, state, cpu))
    }

    /// Whether a line that is being taken away from its owner is still there `at` that time.
    fn stays(&self, state: Line, at: Ps) -> bool {
        let hot = state.hot().map(|hot| &self.hot[hot]);
        hot.is_none_or(|hot| !hot.exclusive || at <= hot.leaves_at)
    }

    /// How often `line` has been taken for writing.
    pub(crate) fn writes(&mut self, line: u32) -> u32 {
        let hot = self.heat(line);
        self.hot[hot].writes
    }

    /// A shared line that one CPU alone has a copy of is its own.
    fn try_own(&mut self, line: u32, mut state: Line, cpu: u32) -> bool {
        if state.in_flight() {
            return false;
        }
        let Some(number) = state.hot() else {
            return false;
        };
        let hot = &mut self.hot[number];
        if hot.sharer_count != 1 || !hot.is_shared_by(cpu) {
            return false;
        }
        hot.clear();
        state.set_owner(Some(cpu));
        self.set_line(line, state);
        true
    }

    /// The line's [`Hot`], from now on if not before.
    fn heat(&mut self, line: u32) -> usize {
        let mut state = self.line(line);
        if let Some(hot) = state.hot() {
            return hot;
        }
        let hot = self.hot.len();
        self.hot.push(Hot::default());
        state.set_hot(hot);
        self.set_line(line, state);
        hot
    }

    /// `vcpu` is to be told when another CPU writes to `line`.
    pub(crate) fn watch(&mut self, line: u32, vcpu: u32) {
        let hot = self.heat(line);
        let watchers = &mut self.hot[hot].watchers;
        if !watchers.contains(&vcpu) {
            watchers.push(vcpu);
        }
    }

    /// Those that watch `line`, which do not any more.
    pub(crate) fn take_watchers(&mut self, line: u32) -> Vec<u32> {
        let hot = self.heat(line);
        std::mem::take(&mut self.hot[hot].watchers)
    }

    /// Takes back what [`Self::take_watchers`] gave, for its memory.
    pub(crate) fn put_back(&mut self, line: u32, mut watchers: Vec<u32>) {
        let hot = self.heat(line);
        watchers.clear();
        self.hot[hot].watchers = watchers;
    }

    /// `vcpu`, which is on `cpu`, asks for `line`: it waits from now on.
    pub(crate) fn request(
        &mut self,
        (vcpu, cpu): (u32, u32),
        line: u32,
        write: bool,
        agenda: &mut Agenda,
    ) {
        self.requests += 1;
        self.requested[vcpu as usize] = Request { line, cpu, write };
        let hot = self.heat(line);
        self.hot[hot].requests.push(vcpu);
        self.send_requests(line, agenda);
    }

    /// Sends on their way those requests for `line` that can be.
    pub(crate) fn send_requests(&mut self, line: u32, agenda: &mut Agenda) {
        let mut state = self.line(line);
        let Some(number) = state.hot() else { return };
        loop {
            let hot = &self.hot[number];
            if hot.requests.is_empty() || hot.exclusive {
                break;
            }
            let from = state.owner().unwrap_or(hot.forwarder);
            let place = self.choose(number, from);
            let hot = &self.hot[number];
            let vcpu = hot.requests[place];
            let Request { cpu, write, .. } = self.requested[vcpu as usize];
            let moves = write || state.owner().is_some();
            if moves && hot.in_flight > 0 {
                break;
            }
            let mut start = agenda.now;
            let time = if let Some(owner) = state.owner() {
                if owner == cpu {
                    self.times.hit_ns
                } else {
                    self.topology.transfer(owner, cpu)
                }
            } else if hot.sharer_count == 0 {
                self.times.memory_ns
            } else if write {
                self.take_from_sharers(number, cpu)
            } else {
                start = start.max(hot.busy_until);
                self.topology.transfer(from, cpu)
            };
            let mut time = agenda.chance.jittered(time);
            let hot = &mut self.hot[number];
            if moves {
                time += (hot.requests.len() as u64 - 1) * self.times.crowd_ns;
            }
            if !moves {
                hot.busy_until = start + self.times.read_busy_ns;
            }
            hot.passed = if place > 0 { hot.passed + 1 } else { 0 };
            hot.requests.remove(place);
            hot.in_flight += 1;
            hot.exclusive = moves;
            hot.leaves_at = match state.owner() {
                // A CPU does not take it from itself.
                Some(owner) if owner == cpu => start + time,
                _ => start + time * self.kept / 1024,
            };
            agenda.arrange(start + time, What::Grant, vcpu);
        }
        let hot = &self.hot[number];
        state.set_in_flight(hot.in_flight > 0);
        self.set_line(line, state);
    }

    /// Which request is next: the first, or the first from the socket that has the line.
    fn choose(&self, number: usize, from: u32) -> usize {
        let hot = &self.hot[number];
        if hot.passed >= self.burst || hot.requests.len() == 1 {
            return 0;
        }
        let socket = self.topology.socket(from);
        let near = |&vcpu: &u32| self.topology.socket(self.requested[vcpu as usize].cpu) == socket;
        hot.requests.iter().position(near).unwrap_or(0)
    }

    /// How long it takes until all others have given up their copies of a shared line, and the data has
    /// arrived.
    fn take_from_sharers(&self, number: usize, cpu: u32) -> Ps {
        let hot = &self.hot[number];
        let own = hot.is_shared_by(cpu);
        let others = hot.sharer_count - u32::from(own);
        if others == 0 {
            return self.times.hit_ns;
        }
        let own_socket = self.topology.socket(cpu);
        let mut farthest = if own {
            0
        } else {
            self.topology.transfer(hot.forwarder, cpu)
        };
        for socket in 0..self.topology.sockets() {
            let own = u16::from(own && socket == own_socket);
            if hot.sharers_of_socket[socket] > own {
                farthest = farthest.max(self.topology.to_socket(cpu, socket));
            }
        }
        farthest + u64::from(others) * self.times.invalidate_ns
    }

    /// The request of `vcpu` is granted: its line, and whether all other copies have been taken away.
    pub(crate) fn grant(&mut self, vcpu: u32) -> (u32, bool) {
        let Request { line, cpu, write } = self.requested[vcpu as usize];
        let number = self.heat(line);
        let socket = self.topology.socket(cpu);
        let mut state = self.line(line);
        let owner = state.owner();
        let socket_of_owner = owner.map(|owner| self.topology.socket(owner));
        let hot = &mut self.hot[number];
        hot.in_flight -= 1;
        hot.exclusive = false;
        hot.forwarder = cpu;
        if write {
            hot.clear();
            hot.writes = hot.writes.wrapping_add(1);
            state.set_owner(Some(cpu));
        } else if let (Some(owner), Some(socket_of_owner)) = (owner, socket_of_owner) {
            if owner != cpu {
                hot.add(owner, socket_of_owner);
                hot.add(cpu, socket);
                state.set_owner(None);
            }
        } else if hot.sharer_count == 0 {
            // From memory: nobody else has it.
            state.set_owner(Some(cpu));
        } else {
            hot.add(cpu, socket);
        }
        self.set_line(line, state);
        (line, write)
    }
}
