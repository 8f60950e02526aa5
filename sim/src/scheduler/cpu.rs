//! A CPU of the machine, and the vCPUs that wait for it.

use crate::units::Ps;

#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub(super) current: Option<u32>,
    pub(super) queue: Vec<u32>,
    /// The one that was on it last.
    pub(super) last: Option<u32>,
    /// To be first, as somebody has yielded to it.
    pub(super) next: Option<u32>,
    /// When the one that is on it got it.
    picked_at: Ps,
    idle_since: Ps,
    idle: Ps,
    busy: Ps,
    /// It is idle, and has been told to look at its queue.
    pub(super) waking: bool,
    pub(super) tick_arranged: bool,
    /// As soon as it can, it is to look at its queue.
    pub(super) is_due: bool,
}

impl Cpu {
    pub(super) fn load(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some()) + usize::from(self.waking)
    }

    /// Time with somebody on it, and without, until `now`.
    pub(super) fn times(&self, now: Ps) -> (Ps, Ps) {
        match self.current {
            Some(_) => (self.busy + self.ran(now), self.idle),
            None => (self.busy, self.idle + self.idled(now)),
        }
    }

    /// For how long the one that is on it has been.
    pub(super) fn ran(&self, now: Ps) -> Ps {
        now - self.picked_at
    }

    /// For how long it has been idle.
    pub(super) fn idled(&self, now: Ps) -> Ps {
        now - self.idle_since
    }

    /// When a slice ends that takes `slice`.
    pub(super) fn slice_ends(&self, slice: Ps) -> Ps {
        self.picked_at + slice
    }

    /// The one that it is to be given to next, if that waits for it.
    pub(super) fn favoured(&self) -> Option<u32> {
        self.next.filter(|next| self.queue.contains(next))
    }

    /// Whether somebody waits for the one that is on it.
    pub(super) fn is_wanted(&self) -> bool {
        self.current.is_some() && !self.queue.is_empty()
    }

    /// `vcpu`, which waits for it, gets it. Whether it is another than before.
    pub(super) fn put_on(&mut self, vcpu: u32, now: Ps) -> bool {
        self.queue.retain(|&queued| queued != vcpu);
        self.next = self.next.filter(|&next| next != vcpu);
        self.idle += self.idled(now);
        self.picked_at = now;
        self.current = Some(vcpu);
        self.last.replace(vcpu) != Some(vcpu)
    }

    /// Nobody is on it any more: the one that was, and for how long.
    pub(super) fn take_off(&mut self, now: Ps) -> Option<(u32, Ps)> {
        let vcpu = self.current.take()?;
        let ran = self.ran(now);
        self.busy += ran;
        self.idle_since = now;
        Some((vcpu, ran))
    }
}
