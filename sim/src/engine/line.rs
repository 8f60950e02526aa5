//! Cache lines: who has a copy, who asks for one, and what that takes.
//!
//! | a CPU has the line        | read                    | write, or read-modify-write               |
//! |---------------------------|-------------------------|-------------------------------------------|
//! | alone                     | hit                     | hit                                       |
//! | as others do (shared)     | hit                     | request: all other copies are taken away  |
//! | not                       | request: it is shared   | request: it moves here                    |
//!
//! Requests for a line are granted one after the other; only reads of a line that is shared already
//! overlap, each keeping the line busy for [`read_busy_ns`](crate::spec::Costs::read_busy_ns). Until a
//! request is granted the line stays where it is, and whoever has it goes on hitting it. Requests from
//! the socket that has the line pass those of others, but only
//! [`burst`](crate::spec::Costs::burst) in a row.

use super::Engine;
use super::event::{Ps, What};
use super::vcpu::{Doing, State};

/// Most sockets of a machine.
const SOCKETS: usize = 16;
/// Words of a set of CPUs.
const SET_WORDS: usize = crate::spec::MAX_CPUS / 64;

/// The state of a line that was ever touched, in 64 bits: zero at first, so that a machine of thousands
/// of vCPUs uses memory for the lines only that it touches.
///
/// Bits 0 to 15: 1 + the CPU that has it alone, or 0. Bit 16: requests are under way. Bits 32 to 63: 1 +
/// the number of its [`Hot`], or 0.
#[derive(Clone, Copy)]
pub(super) struct Line(pub(super) u64);

const IN_FLIGHT: u64 = 1 << 16;

impl Line {
    #[inline(always)]
    pub(super) fn is_owned_by(self, cpu: u32) -> bool {
        (self.0 & 0xffff) == u64::from(cpu) + 1
    }

    #[inline(always)]
    pub(super) fn in_flight(self) -> bool {
        self.0 & IN_FLIGHT != 0
    }

    fn owner(self) -> Option<u32> {
        ((self.0 & 0xffff) as u32).checked_sub(1)
    }

    #[inline(always)]
    pub(super) fn hot(self) -> Option<usize> {
        ((self.0 >> 32) as usize).checked_sub(1)
    }

    fn set_owner(&mut self, cpu: Option<u32>) {
        self.0 = self.0 & !0xffff | cpu.map_or(0, |cpu| u64::from(cpu) + 1);
    }

    fn set_in_flight(&mut self, in_flight: bool) {
        self.0 = self.0 & !IN_FLIGHT | if in_flight { IN_FLIGHT } else { 0 };
    }
}

/// What is known of a line that more than one CPU has asked for.
#[derive(Default)]
pub(super) struct Hot {
    sharers: [u64; SET_WORDS],
    sharer_count: u32,
    sharers_of_socket: [u16; SOCKETS],
    /// Whoever got it last, and passes it on.
    forwarder: u32,
    /// vCPUs that wait for it, in the order in which they asked.
    requests: Vec<u32>,
    /// Requests that have been sent on their way.
    in_flight: u32,
    /// One of them takes the line away.
    exclusive: bool,
    /// Until when a read keeps it busy.
    busy_until: Ps,
    /// Requests that have passed others, in a row.
    passed: u32,
    /// vCPUs that spin on it.
    pub(super) watchers: Vec<u32>,
}

impl Hot {
    #[inline(always)]
    pub(super) fn is_shared_by(&self, cpu: u32) -> bool {
        self.sharers[cpu as usize / 64] & (1 << (cpu % 64)) != 0
    }

    fn add(&mut self, cpu: u32, socket: usize) {
        if !self.is_shared_by(cpu) {
            self.sharers[cpu as usize / 64] |= 1 << (cpu % 64);
            self.sharer_count += 1;
            self.sharers_of_socket[socket] += 1;
        }
    }

    fn clear(&mut self) {
        if self.sharer_count > 0 {
            self.sharers = [0; SET_WORDS];
            self.sharers_of_socket = [0; SOCKETS];
            self.sharer_count = 0;
        }
    }
}

impl Engine {
    /// Whether `cpu` may read `line` without a request.
    #[inline(always)]
    pub(super) fn can_read(&self, line: u32, cpu: u32) -> bool {
        let line = self.line(line);
        line.is_owned_by(cpu)
            || line
                .hot()
                .is_some_and(|hot| self.hot[hot].is_shared_by(cpu))
    }

    #[inline(always)]
    pub(super) fn line(&self, line: u32) -> Line {
        Line(self.lines[line as usize])
    }

    fn set_line(&mut self, line: u32, state: Line) {
        self.lines[line as usize] = state.0;
    }

    /// The line's [`Hot`], from now on if not before.
    pub(super) fn heat(&mut self, line: u32) -> usize {
        let mut state = self.line(line);
        if let Some(hot) = state.hot() {
            return hot;
        }
        let hot = self.hot.len();
        self.hot.push(Hot::default());
        state.0 |= (hot as u64 + 1) << 32;
        self.set_line(line, state);
        hot
    }

    /// The executing vCPU asks for `line`; it is to wait then.
    pub(super) fn request(&mut self, line: u32, write: bool) {
        self.request_for(self.vcpu, line, write);
    }

    fn request_for(&mut self, vcpu: u32, line: u32, write: bool) {
        self.stats.requests += 1;
        self.requested[vcpu as usize] = (line, write);
        self.vcpus[vcpu as usize].doing = Doing::WaitsForLine;
        let hot = self.heat(line);
        self.hot[hot].requests.push(vcpu);
        self.send_requests(line);
    }

    /// Sends on their way those requests for `line` that can be.
    fn send_requests(&mut self, line: u32) {
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
            let write = self.requested[vcpu as usize].1;
            let cpu = self.vcpus[vcpu as usize].cpu;
            let moves = write || state.owner().is_some();
            if moves && hot.in_flight > 0 {
                break;
            }
            let mut start = self.now;
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
            let time = self.jittered(time);
            let hot = &mut self.hot[number];
            if !moves {
                hot.busy_until = start + self.times.read_busy_ns;
            }
            if place > 0 {
                hot.passed += 1;
            } else {
                hot.passed = 0;
            }
            hot.requests.remove(place);
            hot.in_flight += 1;
            hot.exclusive = moves;
            self.events.push(start + time, What::Grant, vcpu);
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
        let near = |&vcpu: &u32| self.topology.socket(self.vcpus[vcpu as usize].cpu) == socket;
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

    /// The request of `vcpu` is granted; it goes on.
    pub(super) fn grant(&mut self, vcpu: u32) -> u32 {
        let (line, write) = self.requested[vcpu as usize];
        let cpu = self.vcpus[vcpu as usize].cpu;
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
        if write {
            self.wake_watchers(number, line);
        }
        self.send_requests(line);
        line
    }

    /// A shared line that one CPU alone has a copy of is its own.
    pub(super) fn try_own(&mut self, line: u32, cpu: u32) -> bool {
        let mut state = self.line(line);
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

    /// A spinning vCPU looks at its line again: now if its CPU has it, else when it has come. True if now.
    pub(super) fn looks_again(&mut self, vcpu: u32) -> bool {
        let (line, _) = self.requested[vcpu as usize];
        if self.can_read(line, self.vcpus[vcpu as usize].cpu) {
            return true;
        }
        self.request_for(vcpu, line, false);
        false
    }

    /// Those that spin on the line lose their copies, and will look at it again.
    fn wake_watchers(&mut self, number: usize, line: u32) {
        let mut watchers = std::mem::take(&mut self.hot[number].watchers);
        for &vcpu in &watchers {
            let Doing::Spins {
                line: spins_on,
                since,
                left,
            } = self.vcpus[vcpu as usize].doing
            else {
                continue;
            };
            if spins_on != line {
                continue;
            }
            self.vcpus[vcpu as usize].line_changed = true;
            if self.vcpus[vcpu as usize].state != State::Running {
                // It will look again when it gets a CPU.
                continue;
            }
            let notices = if self.wait_on_line {
                0
            } else {
                self.random_below(self.times.pause_ns)
            };
            self.spun(vcpu, self.now - since, left);
            let at = self.now + notices;
            let v = &mut self.vcpus[vcpu as usize];
            v.doing = Doing::Computes { until: at };
            v.arranged = self.events.push(at, What::Notices, vcpu);
            self.requested[vcpu as usize] = (line, false);
        }
        watchers.clear();
        self.hot[number].watchers = watchers;
    }
}
