//! Orderings weakened one at a time, and what the models say to that.

use crate::Model;
use crate::cases::{Case, all};
use crate::points::{Point, Weakened, passed, weaken};
use crate::source::Ordered;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Release};

/// A weaker ordering in the place of one in the source.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Which one.
    pub of: Ordered,
    /// What to; `None`: Relaxed, or a fence that is left out.
    pub to: Option<Ordering>,
}

/// What became of a mutant.
#[derive(Clone, Debug)]
pub enum Fate {
    /// That model found it, and says so.
    Killed {
        /// The lock, and who does what.
        by: String,
        /// In its first line.
        how: String,
    },
    /// That many models pass the place and find nothing.
    Survived(usize),
    /// No model passes the place.
    NotPassed,
}

impl Mutant {
    /// Its name.
    pub fn name(&self) -> String {
        let to = match self.to {
            None if self.of.call.contains("fence") || self.of.call.contains("barrier") => "nothing",
            None => "Relaxed",
            Some(Acquire) => "Acquire",
            Some(Release) => "Release",
            Some(_) => "AcqRel",
        };
        format!("{} -> {to}", self.of.name())
    }
}

/// The mutants of these orderings: each step that makes one weaker.
pub fn of(orderings: &[Ordered]) -> Vec<Mutant> {
    let weaker = |of: &Ordered| match of.ordering.as_str() {
        "AcqRel" => vec![Some(Acquire), Some(Release)],
        // A SeqCst access is taken for AcqRel anyway.
        "SeqCst" if of.call.contains("fence") => vec![Some(AcqRel), None],
        "SeqCst" => vec![Some(Acquire), Some(Release)],
        _ => vec![None],
    };
    let mutants = orderings.iter().flat_map(|of| {
        weaker(of)
            .into_iter()
            .map(|to| Mutant { of: of.clone(), to })
    });
    mutants.collect()
}

/// A model, and the points that it passes.
pub struct Passing {
    case: Case,
    points: BTreeSet<Point>,
}

/// All models, with what they pass.
pub fn passing(mut tell: impl FnMut(&Case, usize)) -> Vec<Passing> {
    let mut all: Vec<(usize, Passing)> = all()
        .into_iter()
        .map(|case| {
            let (explored, points) = passed(|| case.explore(case.models[0], case.bound));
            let states = explored.map_or(usize::MAX, |explored| explored.states);
            tell(&case, states);
            (states, Passing { case, points })
        })
        .collect();
    // The quick ones first.
    all.sort_by_key(|(states, _)| *states);
    all.into_iter().map(|(_, passing)| passing).collect()
}

/// The point in the models that an ordering of the source is.
fn is(of: &Ordered, point: &Point) -> bool {
    point.file.ends_with(&format!("pvlock/src/{}", of.file))
        && (point.line, point.column) == of.at
        && point.which == of.which
}

/// Runs the models that pass the mutant's place until one finds it.
pub fn try_to_kill(mutant: &Mutant, models: &[Passing]) -> Fate {
    let mut tried = 0;
    for Passing { case, points } in models {
        let Some(&point) = points.iter().find(|point| is(&mutant.of, point)) else {
            continue;
        };
        tried += 1;
        let to = mutant.to;
        for &model in case.models {
            // On x86 the orderings of accesses make no difference.
            if model != Model::C11 && mutant.of.ordering != "Barrier" {
                continue;
            }
            weaken(Some(Weakened { point, to }));
            let found = case.explore(model, case.bound);
            weaken(None);
            if let Err(failure) = found {
                return Fate::Killed {
                    by: format!("{}, {}, {}", case.kind, case.name, model.name()),
                    how: failure.what.lines().next().unwrap_or("").into(),
                };
            }
        }
    }
    if tried == 0 {
        Fate::NotPassed
    } else {
        Fate::Survived(tried)
    }
}
