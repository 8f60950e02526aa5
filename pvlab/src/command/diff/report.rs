//! The report of a difference.

use super::result::{Difference, LockDifference, Side};
use crate::figures::none;
use crate::human::{nanos, or_dash, plural, rate, ratio, ratios};
use crate::report::column::Columns;
use crate::report::doc::Block;
use crate::report::{Format, Report};

impl Report for Difference {
    fn csv(&self) -> String {
        self.changes().and(waits()).csv(&self.locks)
    }

    fn blocks(&self, _: Format) -> Vec<Block> {
        let rounds = |side: fn(&LockDifference) -> &Side| {
            let most = self.locks.iter().map(|lock| side(lock).rounds).max();
            plural(most.unwrap_or(0), "round")
        };
        let mut lines = vec![
            format!("old: {}, {}", self.old, rounds(|lock| &lock.old)),
            format!("new: {}, {}", self.new, rounds(|lock| &lock.new)),
        ];
        lines.extend(self.conditions.iter().map(|condition| {
            let (what, old, new) = (&condition.what, &condition.old, &condition.new);
            format!("not the same: {what}, {old} and {new}")
        }));
        let of_what = match &self.relative_to {
            None => "Acquisitions a second".to_owned(),
            Some(lock) => format!("Acquisitions, relative to those of {lock} in the same round"),
        };
        let title = format!("{of_what} (geometric mean; 95 % interval by Welch's t on logarithms)");
        let warnings = self.warnings.iter().map(|w| format!("warning: {w}"));
        vec![
            Block::Lines(lines),
            Block::Table(self.changes().table(title, &self.locks)),
            Block::Table(waits().table("Waits and Jain's index of fairness", &self.locks)),
            Block::Lines(warnings.collect()),
        ]
    }
}

type Of<'a> = &'a LockDifference;

impl Difference {
    fn changes<'a>(&self) -> Columns<'a, Of<'a>> {
        let figure = if self.relative_to.is_some() {
            ratio
        } else {
            rate
        };
        Columns::new()
            .text("lock", "lock", |lock: &Of<'_>| lock.lock.clone())
            .value("old", |lock| none::some(lock.old.typical))
            .cell("old", move |lock| figure(lock.old.typical))
            .value("new", |lock| none::some(lock.new.typical))
            .cell("new", move |lock| figure(lock.new.typical))
            .value("ratio", |lock| none::some(lock.ratio))
            .cell("new/old", |lock| ratio(lock.ratio))
            .value("lo", |lock| lock.lo)
            .value("hi", |lock| lock.hi)
            .cell("interval", |lock| or_dash(lock.lo.zip(lock.hi), ratios))
            .value("verdict", |lock| lock.verdict.name())
            .cell("verdict", |lock| match lock.lo {
                None => "none".to_owned(),
                Some(_) => lock.verdict.name().to_owned(),
            })
            .left()
    }
}

fn waits<'a>() -> Columns<'a, Of<'a>> {
    let jain = |index: Option<f64>| or_dash(index, |index| format!("{index:.3}"));
    Columns::new()
        .cell("lock", |lock: &Of<'_>| lock.lock.clone())
        .value("old_p999_ns", |lock| lock.old.p999_ns)
        .cell("p99.9 old", |lock| or_dash(lock.old.p999_ns, nanos))
        .value("new_p999_ns", |lock| lock.new.p999_ns)
        .cell("new", |lock| or_dash(lock.new.p999_ns, nanos))
        .value("old_max_ns", |lock| lock.old.max_ns)
        .cell("longest old", |lock| or_dash(lock.old.max_ns, nanos))
        .value("new_max_ns", |lock| lock.new.max_ns)
        .cell("new", |lock| or_dash(lock.new.max_ns, nanos))
        .value("old_jain", |lock| lock.old.jain)
        .cell("Jain old", move |lock| jain(lock.old.jain))
        .value("new_jain", |lock| lock.new.jain)
        .cell("new", move |lock| jain(lock.new.jain))
}
