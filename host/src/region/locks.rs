//! What the locks show.

use super::{Region, Result, garbled};
use abi::{Data, Header, LockSlot, NodeWords};
use pvlock::{MAX_NODES, NodeRef};
use std::mem::offset_of;

/// A waiter's queue node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueNode {
    /// Whose node.
    pub node: NodeRef,
    /// The node behind it, if known.
    pub next: Option<NodeRef>,
    /// Whether it is head of its queue.
    pub head: bool,
    /// Its paravirtual state (`pvlock::qspinlock::pv`).
    pub state: u32,
}

impl Region {
    /// Where the vCPUs were told that the data is which their critical sections touch.
    pub fn data(&self) -> Result<Data> {
        let raw = self.load(offset_of!(Header, params.data))?;
        Ok(Data::from_raw(raw).unwrap_or_default())
    }

    /// First 64 bits of lock number `lock`, the owner (vCPU + 1, or 0) and the entries counted; of these, 0 if
    /// nothing is counted.
    ///
    /// # Errors
    /// If there cannot be so many entries.
    pub fn lock(&self, lock: usize) -> Result<(u64, u32, u64)> {
        let slot = self.layout.lock(lock);
        let (owner, entries) = match LockSlot::guarded_offset(self.data()?) {
            Some([owner, count]) => (self.load::<u64>(slot + owner)?, self.load(slot + count)?),
            None => (0, 0),
        };
        Ok((
            self.load(slot)?,
            u32::try_from(owner).unwrap_or(u32::MAX),
            garbled::entries(entries, lock)?,
        ))
    }

    /// Queue nodes in use by vCPU `cpu`.
    pub fn queue_nodes(&self, cpu: usize) -> Result<Vec<QueueNode>> {
        let node = |i: usize| self.layout.node(cpu, i);
        let in_use: u32 = self.load(node(0) + offset_of!(NodeWords, in_use))?;
        (0..MAX_NODES)
            .filter(|i| in_use & (1 << i) != 0)
            .map(|i| {
                let word = |field: usize| self.load::<u32>(node(i) + field);
                Ok(QueueNode {
                    node: NodeRef::new(u32::try_from(cpu).unwrap_or(0), i),
                    next: NodeRef::from_raw(word(offset_of!(NodeWords, next))?),
                    head: word(offset_of!(NodeWords, locked))? != 0,
                    state: word(offset_of!(NodeWords, state))?,
                })
            })
            .collect()
    }
}
