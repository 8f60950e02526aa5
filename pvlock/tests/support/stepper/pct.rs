//! Priorities for [`Order::Pct`].

use super::Machine;
use super::scenario::{Config, Order};
use crate::rng::Rng;

/// The priorities of vCPUs, and when they change.
pub(super) struct Pct {
    /// The highest first.
    order: Vec<usize>,
    changes: Vec<u64>,
    last: Option<usize>,
}

impl Pct {
    pub(super) fn new(config: &Config, rng: &mut Rng) -> Self {
        let Order::Pct { depth, steps, .. } = config.order else {
            return Self {
                order: vec![],
                changes: vec![],
                last: None,
            };
        };
        let mut order: Vec<usize> = (0..config.programs.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
        let changes = (1..depth).map(|_| rng.next() % steps).collect();
        Self {
            order,
            changes,
            last: None,
        }
    }

    pub(super) fn choose(&mut self, time: u64, machine: &Machine, choice: &[usize]) -> usize {
        if let Some(last) = self.last
            && (machine.vcpus[last].pauses() || self.changes.contains(&time))
        {
            self.order.retain(|&cpu| cpu != last);
            self.order.push(last);
        }
        let next = self.order.iter().copied().find(|cpu| choice.contains(cpu));
        self.last = next;
        next.unwrap_or(choice[0])
    }
}
