//! Numbers, shares, lists, and names that stand for values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// What is wrong with a number.
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

pub(crate) fn spin_threshold(text: &str) -> Result<u32, NumberUsage> {
    count(text, 1, u32::MAX.into())
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

/// A parser that also knows what there is to choose from, for help and completions; it may take more.
#[derive(Clone)]
pub(crate) struct Suggesting<P>(pub(crate) P, pub(crate) fn() -> Vec<PossibleValue>);

impl<P: TypedValueParser> TypedValueParser for Suggesting<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.0.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.1)().into_iter()))
    }
}

/// A parser of each element of a list. Blanks around elements do not count, and no element may be missing.
#[derive(Clone)]
pub(crate) struct Each<P>(pub(crate) P);

impl<P: TypedValueParser> TypedValueParser for Each<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<P::Value, clap::Error> {
        let element = value.to_str().map_or(value, |text| text.trim().as_ref());
        if element.is_empty() {
            let missing = |_: &str| Err::<P::Value, _>(NumberUsage::NoElement);
            return missing.parse_ref(command, argument, value);
        }
        self.0.parse_ref(command, argument, element)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}
