//! Per-CPU lock storage: the queue nodes.

use crate::atomic::{Atomic, ConstZero, Watch, zeroed};
use crate::wait::{OsqNode, Waiter};
use crate::{LockEvent, Platform};
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::sync::atomic::compiler_fence;

/// Lock contexts a CPU can wait in at once: task, soft interrupt, interrupt, NMI.
pub const MAX_NODES: usize = 4;

/// Bits of a [`NodeRef`] that say which of the CPU's nodes it names.
const INDEX_BITS: u32 = 2;

/// A waiter's place in an MCS queue.
///
/// Only [`Node::next`] of the predecessor and [`Node::locked`] are written by others, and
/// [`Node::state`] by the owner that advances a halted waiter.
#[repr(C)]
pub struct Node<P: Platform> {
    /// The successor's [`NodeRef`], 0 while there is none.
    pub next: P::U32,
    /// 1 once this waiter is queue head.
    pub locked: P::U32,
    /// Paravirtual state of the waiter, see [`crate::qspinlock`].
    pub state: P::U32,
    /// First node: which of this CPU's nodes are in use, bit `i` for node `i`. Second node: a count
    /// that [`crate::qspinlock::cna`] keeps. Others: 0.
    pub in_use: P::U32,
}

zeroed!(Node: next: U32, locked: U32, state: U32, in_use: U32);

/// Which nodes of that CPU are in use, and the first that is not.
#[inline(always)]
fn free_node<P: Platform>(cpu: u32) -> (u32, usize) {
    let set = P::percpu(cpu).nodes[0].in_use.load(Relaxed);
    (set, set.trailing_ones() as usize)
}

/// Whether this CPU has a node that is free. If so it stays so until the executing context takes it.
#[inline(always)]
pub(crate) fn has_node<P: Platform>(cpu: u32) -> bool {
    free_node::<P>(cpu).1 < MAX_NODES
}

/// Takes a node of this CPU, the first that is free. `None` if all are in use.
///
/// A set and not a stack: a lock whose holder keeps its node may be released in any order. Plain
/// loads and stores do, although an interrupt may come between them, because a context leaves the
/// set as it has found it when it returns to the one that it interrupted.
#[inline(always)]
pub(crate) fn take_node<P: Platform>(cpu: u32) -> Option<NodeRef> {
    let (set, index) = free_node::<P>(cpu);
    if index >= MAX_NODES {
        return None;
    }
    let in_use = &P::percpu(cpu).nodes[0].in_use;
    in_use.store(set | 1 << index, Relaxed);
    // An interrupt must see the node taken before we touch it, or would use it too.
    compiler_fence(AcqRel);
    Some(NodeRef::new(cpu, index))
}

/// Gives back a node of this CPU.
#[inline(always)]
pub(crate) fn give_node<P: Platform>(node: NodeRef) {
    // Nothing that we do to the node may come after it is free for an interrupt.
    compiler_fence(AcqRel);
    let in_use = &P::percpu(node.cpu()).nodes[0].in_use;
    in_use.store(in_use.load(Relaxed) & !(1 << node.index()), Relaxed);
}

/// Counts a wait with `node`, if others are in use before it; `None` for one without a node.
pub(crate) fn count_node<P: Platform>(node: Option<NodeRef>) {
    match node.map(NodeRef::index) {
        Some(0) => {}
        Some(1) => P::count(LockEvent::LockUseNode2, 1),
        Some(2) => P::count(LockEvent::LockUseNode3, 1),
        Some(_) => P::count(LockEvent::LockUseNode4, 1),
        None => P::count(LockEvent::LockNoNode, 1),
    }
}

/// Everything the locks keep per CPU. All zeros is the initial state.
///
/// The nodes fill one 64-byte line; the alignment keeps the neighbour CPU out of the line pair that
/// the hardware prefetches together.
#[repr(C, align(128))]
pub struct PerCpu<P: Platform> {
    /// One node for each context.
    pub nodes: [Node<P>; MAX_NODES],
    /// When this CPU was last kicked, in ticks; 0 once it has noticed.
    pub kick_time: P::U64,
    /// This CPU's place among optimistic spinners.
    pub osq: OsqNode<P>,
    /// What sleeping locks keep for the CPU's only task, on platforms without others.
    pub waiter: Waiter<P>,
    /// For each node what the algorithm that uses it wants to remember; see there.
    pub tags: [P::U64; MAX_NODES],
}

impl<P: Platform> Default for PerCpu<P> {
    fn default() -> Self {
        Self {
            nodes: core::array::from_fn(|_| Node::default()),
            kick_time: P::U64::new(0),
            osq: OsqNode::default(),
            waiter: Waiter::default(),
            tags: core::array::from_fn(|_| P::U64::new(0)),
        }
    }
}

impl<P: Platform> ConstZero for PerCpu<P>
where
    P::U32: ConstZero,
    P::U64: ConstZero,
{
    const ZERO: Self = Self {
        nodes: [const { Node::ZERO }; MAX_NODES],
        kick_time: P::U64::ZERO,
        osq: OsqNode::ZERO,
        waiter: Waiter::ZERO,
        tags: [const { P::U64::ZERO }; MAX_NODES],
    };
}

/// A node's name: `(cpu + 1) << 2 | index`, never 0, at most 16 bits wide.
///
/// It stands for a pointer to the node, fits into the tail of a lock word, and, unlike a pointer,
/// means the same to guest, host and simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRef(u16);

impl NodeRef {
    /// Names node `index` of `cpu`.
    ///
    /// # Panics
    /// If `cpu` is 2^14 - 1 or more, or `index` is [`MAX_NODES`] or more: the word could not name it.
    pub fn new(cpu: u32, index: usize) -> Self {
        assert!(cpu < crate::MAX_CPUS && index < MAX_NODES);
        #[expect(clippy::cast_possible_truncation, reason = "both checked above")]
        Self(((cpu + 1) << INDEX_BITS | index as u32) as u16)
    }

    /// The node of that name, `None` for what names none: 0 among others.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "callers hold 16-bit names in u32 atomics"
    )]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        let name = raw as u16;
        if name >> INDEX_BITS == 0 {
            None
        } else {
            Some(Self(name))
        }
    }

    /// The name as a number.
    pub const fn raw(self) -> u16 {
        self.0
    }

    /// The CPU whose node it is.
    pub const fn cpu(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32 - 1
    }

    /// Which of the CPU's nodes it is.
    pub const fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    /// The node itself.
    pub fn node<P: Platform>(self) -> &'static Node<P> {
        &P::percpu(self.cpu()).nodes[self.index()]
    }
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vCPU {}", self.cpu())?;
        if self.index() > 0 {
            write!(f, " (node {})", self.index())?;
        }
        Ok(())
    }
}
