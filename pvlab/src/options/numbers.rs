//! Numbers, shares, lists, and names that stand for values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NumberUsage {
    #[error("'{0}' is no whole number")]
    NoNumber(String),
    #[error("0 makes no sense here; give at least 1")]
    Zero,
    #[error("{number} is too many; give at most {most}")]
    TooMany { number: u64, most: u64 },
    #[error("'{0}' is no share; write a percentage from 0% to 1000%, such as 1%")]
    NoShare(String),
    #[error("there is nothing between two commas, or after the last one; write for example A,B")]
    NoElement,
}

pub(crate) fn whole(text: &str) -> Result<u64, NumberUsage> {
    let number = text.trim().parse();
    number.map_err(|_| NumberUsage::NoNumber(text.to_owned()))
}

pub(crate) fn positive(text: &str) -> Result<u64, NumberUsage> {
    match whole(text)? {
        0 => Err(NumberUsage::Zero),
        number => Ok(number),
    }
}

/// A number of things from `least` to `most`.
pub(crate) fn count<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, NumberUsage> {
    let parse = if least > 0 { positive } else { whole };
    let number = parse(text)?;
    let fitting = T::try_from(number).ok().filter(|_| number <= most);
    fitting.ok_or(NumberUsage::TooMany { number, most })
}

pub(crate) fn rounds(text: &str) -> Result<usize, NumberUsage> {
    count(text, 1, 1000)
}

/// A share, given as a percentage.
pub(crate) fn share(text: &str) -> Result<f64, NumberUsage> {
    text.trim()
        .strip_suffix('%')
        .and_then(|number| number.trim().parse::<f64>().ok())
        .filter(|percent| (0.0..=1000.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| NumberUsage::NoShare(text.to_owned()))
}

/// Reads to writes, such as `10:1`.
pub(crate) fn reads_to_writes(text: &str) -> Option<(u32, u32)> {
    let (reads, writes) = text.split_once(':')?;
    Some((reads.trim().parse().ok()?, writes.trim().parse().ok()?))
}

/// A parser of names, each of which stands for a value.
pub(crate) fn named<T: Copy + Send + Sync>(
    all: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|(name, _)| *name)).map(|given| {
        // It is one of them.
        let place = all.iter().position(|(name, _)| *name == given);
        all[place.unwrap_or(0)].1
    })
}

/// A parser, and what else is known of the values.
#[derive(Clone)]
pub(crate) struct Parser<P> {
    parser: P,
    /// Blanks around a value do not count, and it may not be missing.
    in_list: bool,
    /// What there is to choose from, if the parser does not tell; it may take more.
    known: Option<fn() -> Vec<PossibleValue>>,
}

/// A parser of each element of a list.
pub(crate) fn each<P>(parser: P) -> Parser<P> {
    Parser {
        parser,
        in_list: true,
        known: None,
    }
}

/// A parser that also knows what there is to choose from, for help and completions.
pub(crate) fn suggesting<P>(parser: P, known: fn() -> Vec<PossibleValue>) -> Parser<P> {
    Parser {
        parser,
        in_list: false,
        known: Some(known),
    }
}

impl<P: TypedValueParser> TypedValueParser for Parser<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<P::Value, clap::Error> {
        let element = value.to_str().filter(|_| self.in_list).map(str::trim);
        if element == Some("") {
            let missing = |_: &str| Err::<P::Value, _>(NumberUsage::NoElement);
            return missing.parse_ref(command, argument, value);
        }
        (self.parser).parse_ref(command, argument, element.map_or(value, str::as_ref))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        match self.known {
            Some(known) => Some(Box::new(known().into_iter())),
            None => self.parser.possible_values(),
        }
    }
}
