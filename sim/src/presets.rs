//! The machines that there are figures of.

use crate::spec::{Spec, SpecError, most_like};

macro_rules! presets {
    ($($name:literal),+ $(,)?) => {
        /// Names and texts.
        const PRESETS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../presets/", $name, ".toml"))),)+
        ];
    };
}

presets! {
    "broadwell-ex-4s",
    "westmere-ex-4s",
    "thunderx2-2s",
    "power8-lpar-32",
    "cascade-lake-2s",
    "here",
}

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The text of the preset of that name, as it is in the source.
pub fn text(name: &str) -> Option<&'static str> {
    PRESETS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// The preset of that name.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<Spec, SpecError> {
    let text = text(name).ok_or_else(|| SpecError::UnknownPreset {
        name: name.to_owned(),
        like: most_like(name, names()),
    })?;
    Spec::from_toml(text)
}
