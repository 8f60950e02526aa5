//! The order of the waiters, and so which of them is next, as far as events tell.
//!
//! * Queues: the pending waiter, which says `Head` without having queued, is before the queue. The
//!   front of the queue has said `Head`; or queued behind the vCPU that acquired through the queue last,
//!   so that it has been handed the queue and may not know yet; or queued behind nobody. Failing these,
//!   it is a vCPU that others say they are behind and that could not say itself yet where it is.
//! * Tickets: the waiter with the ticket that is served. If the ticket served is not known yet, the one
//!   with the smallest ticket (16 bits that wrap).

const NOBODY: u16 = u16::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Vcpu(u16),
    /// Someone with a ticket that could not say so yet; else the one with the smallest ticket known.
    Unseen(u16),
    /// Nobody, or whoever comes first.
    Anyone,
}

/// What a waiter has queued behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Nobody, or one that has acquired the lock since.
    Nobody,
    Waiter(u16),
    /// One of whose events some are missing.
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct Order {
    pending: Option<u16>,
    /// Became pending when the first had taken the lock and could not say so yet.
    second_pending: Option<u16>,
    front: Option<u16>,
    /// The front has said that it is next.
    front_knows: bool,
    /// Named by others, in this order, and have not said where they are. Nearly always empty.
    unplaced: Vec<u16>,
    vcpus: usize,
    /// For each vCPU the one behind it in the queue; as long as it has to be.
    successors: Vec<u16>,
    /// Tickets and who waits with them, at the ticket's low bits. Those that wait at a time are in a
    /// row, so they do not meet. Empty until there is one.
    tickets: Vec<(u16, u16)>,
    ticketed: usize,
    serving: Option<u16>,
}

impl Order {
    pub(super) fn new(vcpus: usize) -> Self {
        Self {
            vcpus,
            ..Self::default()
        }
    }

    pub(super) fn next(&self) -> Next {
        match self.first() {
            Some(vcpu) => Next::Vcpu(vcpu),
            None if self.ticketed == 0 => Next::Anyone,
            None => self.next_by_ticket(),
        }
    }

    fn first(&self) -> Option<u16> {
        let unplaced = || self.unplaced.first().copied();
        self.pending.or(self.front).or_else(unplaced)
    }

    fn next_by_ticket(&self) -> Next {
        if let Some(serving) = self.serving
            && !self.tickets.is_empty()
        {
            let (ticket, vcpu) = self.tickets[self.slot(serving)];
            if vcpu != NOBODY && ticket == serving {
                return Next::Vcpu(vcpu);
            }
        }
        let mut waiting = self.tickets.iter().filter(|(_, vcpu)| *vcpu != NOBODY);
        let Some(&(base, first)) = waiting.next() else {
            return Next::Anyone;
        };
        // Tickets that wait are less than half the circle apart: smaller is what lies behind `base`.
        let distance = |ticket: u16| ticket.wrapping_sub(base).cast_signed();
        let smallest = waiting.min_by_key(|(ticket, _)| distance(*ticket));
        let smallest = smallest.filter(|(ticket, _)| distance(*ticket) < 0);
        let smallest = smallest.map_or(first, |&(_, vcpu)| vcpu);
        match self.serving {
            Some(_) => Next::Unseen(smallest),
            None => Next::Vcpu(smallest),
        }
    }

    /// Of tickets that are not empty.
    fn slot(&self, ticket: u16) -> usize {
        usize::from(ticket) & (self.tickets.len() - 1)
    }

    fn successor(&mut self, vcpu: u16) -> &mut u16 {
        let number = usize::from(vcpu);
        if number >= self.successors.len() {
            self.successors.resize(number + 1, NOBODY);
        }
        &mut self.successors[number]
    }

    pub(super) fn queued(&mut self, vcpu: u16, ahead: Ahead) {
        self.unplaced.retain(|&unplaced| unplaced != vcpu);
        match ahead {
            // If there is a front, it has the lock and could not say so yet.
            Ahead::Nobody => match self.front {
                Some(front) => *self.successor(front) = vcpu,
                None => self.handed(vcpu, false),
            },
            Ahead::Waiter(before) => *self.successor(before) = vcpu,
            Ahead::Unknown => {}
        }
    }

    /// Somebody is behind `vcpu`, which has not said yet where it is.
    pub(super) fn named(&mut self, vcpu: u16) {
        if !self.unplaced.contains(&vcpu) {
            self.unplaced.push(vcpu);
        }
    }

    pub(super) fn ticket(&mut self, vcpu: u16, ticket: u16) {
        if self.tickets.is_empty() {
            self.tickets = vec![(0, NOBODY); self.vcpus.next_power_of_two()];
        }
        let slot = self.slot(ticket);
        self.ticketed += usize::from(self.tickets[slot].1 == NOBODY);
        self.tickets[slot] = (ticket, vcpu);
    }

    /// `vcpu` says it is next: in the queue if it has `queued`.
    pub(super) fn head(&mut self, vcpu: u16, queued: bool) {
        if !queued {
            match self.pending {
                None => self.pending = Some(vcpu),
                Some(_) => self.second_pending = Some(vcpu),
            }
            return;
        }
        self.unplaced.retain(|&unplaced| unplaced != vcpu);
        match self.front {
            // Two heads: the first has the lock and could not say so yet.
            Some(front) if self.front_knows && front != vcpu => {
                *self.successor(front) = vcpu;
            }
            _ => self.handed(vcpu, true),
        }
    }

    /// `vcpu` has acquired the lock; returns its successor if that was through the queue.
    pub(super) fn acquired(&mut self, vcpu: u16, ticket: Option<u16>, queue: bool) -> Option<u16> {
        let queue = queue || self.front == Some(vcpu);
        self.forget(vcpu, ticket);
        if ticket.is_some() {
            self.serving = ticket;
        }
        let successor = std::mem::replace(self.successor(vcpu), NOBODY);
        (queue && successor != NOBODY).then_some(successor)
    }

    /// `vcpu` has been handed the queue, and has said so already if it `knows`.
    pub(super) fn handed(&mut self, vcpu: u16, knows: bool) {
        self.front = Some(vcpu);
        self.front_knows = knows;
    }

    /// `vcpu`, which waits, has been kicked: that is for the front of the queue.
    pub(super) fn kicked(&mut self, vcpu: u16) {
        if self.front.is_none() {
            self.handed(vcpu, false);
        }
    }

    pub(super) fn released(&mut self) {
        self.serving = self.serving.map(|ticket| ticket.wrapping_add(1));
    }

    /// `vcpu` does not wait any more.
    pub(super) fn forget(&mut self, vcpu: u16, ticket: Option<u16>) {
        for place in [&mut self.pending, &mut self.second_pending, &mut self.front] {
            *place = place.filter(|&place| place != vcpu);
        }
        self.unplaced.retain(|&unplaced| unplaced != vcpu);
        self.pending = self.pending.or_else(|| self.second_pending.take());
        if let Some(ticket) = ticket
            && !self.tickets.is_empty()
        {
            let slot = self.slot(ticket);
            if self.tickets[slot] == (ticket, vcpu) {
                self.tickets[slot].1 = NOBODY;
                self.ticketed -= 1;
            }
        }
    }

    /// Events of `vcpu` are missing.
    pub(super) fn gap(&mut self, vcpu: u16) {
        if let Some(successor) = self.successors.get_mut(usize::from(vcpu)) {
            *successor = NOBODY;
        }
        self.serving = None;
    }
}
