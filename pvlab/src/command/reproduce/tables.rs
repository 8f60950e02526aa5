//! The tables that there are, by the names that users give.

use crate::options::error::usage;
use serde::Serialize;
use std::fmt;

/// A published table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TableName {
    /// Rates of the rwsem microbenchmark, 2019.
    Rwsem2019,
    /// locktorture on arm64, 2017.
    Torture,
    /// perf bench on powerpc, 2016.
    Perf,
    /// UnixBench on powerpc, 2016.
    UnixBench,
    /// Times of the rwsem microbenchmark, 2014.
    Rwsem2014,
    /// AIM7, 2014.
    Aim7,
    /// Further rates of the rwsem microbenchmark, 2019.
    Extra,
}

/// What was given is no table.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no table '{given}'{}; there are {}", suggestion(*.like), names().join(", "))]
pub(crate) struct UnknownTable {
    given: String,
    like: Option<&'static str>,
}

usage!(UnknownTable);

fn suggestion(like: Option<&str>) -> String {
    like.map_or_else(String::new, |like| format!(", did you mean '{like}'?"))
}

fn names() -> [&'static str; TableName::ALL.len()] {
    TableName::ALL.map(TableName::name)
}

impl TableName {
    /// Every table, in the order of reports.
    pub(crate) const ALL: [Self; 7] = [
        Self::Rwsem2019,
        Self::Torture,
        Self::Perf,
        Self::UnixBench,
        Self::Rwsem2014,
        Self::Aim7,
        Self::Extra,
    ];

    /// Its name, what it is, and its figures.
    const fn facts(self) -> (&'static str, &'static str, &'static str) {
        macro_rules! facts {
            ($name:literal, $about:literal) => {
                (
                    $name,
                    $about,
                    include_str!(concat!("../../../data/published/", $name, ".csv")),
                )
            };
        }
        match self {
            Self::Rwsem2019 => facts!("000", "rates of kernel rwsems before and after a patch"),
            Self::Torture => facts!(
                "001",
                "locktorture of the old and the queued rwlock of arm64"
            ),
            Self::Perf => facts!("003-perf", "perf bench with three spinlocks on powerpc"),
            Self::UnixBench => facts!("003-unixbench", "UnixBench with three spinlocks on powerpc"),
            Self::Rwsem2014 => facts!("004", "times of kernel rwsems before and after a series"),
            Self::Aim7 => facts!("004-aim7", "AIM7 before and after that series"),
            Self::Extra => facts!("extra", "rates of kernel rwsems as they were rewritten"),
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        self.facts().0
    }

    pub(crate) const fn about(self) -> &'static str {
        self.facts().1
    }

    /// The figures' file.
    pub(crate) const fn built_in(self) -> &'static str {
        self.facts().2
    }

    /// The table of that name; `003` is both of that mail, and so is `004`'s AIM7 named apart.
    pub(crate) fn parse(text: &str) -> Result<Self, UnknownTable> {
        let given = text.trim();
        let found = Self::ALL.into_iter().find(|table| table.name() == given);
        found.ok_or_else(|| {
            let near = |name: &&&str| strsim::jaro_winkler(given, name) > 0.6;
            let likeness = |name: &&str| strsim::jaro_winkler(given, name);
            let names = names();
            let like = names.iter().filter(near);
            let like = like.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
            UnknownTable {
                given: given.to_owned(),
                like: like.copied(),
            }
        })
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for TableName {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_what_is_none_gets_a_suggestion() {
        for table in TableName::ALL {
            assert_eq!(TableName::parse(table.name()), Ok(table));
        }
        let told = |text: &str| TableName::parse(text).unwrap_err().to_string();
        assert!(told("003-unxbench").contains("did you mean '003-unixbench'?"));
        assert!(told("002").contains("did you mean"), "{}", told("002"));
        assert!(!told("zzz").contains("did you mean") && told("zzz").contains("004-aim7"));
    }
}
