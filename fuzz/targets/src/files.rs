//! What users hand over: files, and command lines.

use pvlab::fuzzing;
use sim::Spec;

/// The bytes as text, if they are; whoever reads text files has made sure of it.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// Trace files.
pub(crate) fn trace(bytes: &[u8]) {
    fuzzing::trace(bytes);
}

/// Scenarios, and schedule files, which have one.
pub(crate) fn scenario(bytes: &[u8]) {
    fuzzing::scenario(text(bytes));
    fuzzing::schedule(text(bytes));
}

/// Presets of simulated machines, and changes of them.
pub(crate) fn preset(bytes: &[u8]) {
    let (toml, assignments) = text(bytes)
        .split_once("\n---\n")
        .unwrap_or((text(bytes), ""));
    let Ok(mut spec) = Spec::from_toml(toml) else {
        return;
    };
    for assignment in assignments.lines() {
        // A change that is refused changes nothing.
        let before = spec.to_toml();
        if spec.set(assignment).is_err() {
            assert_eq!(spec.to_toml().ok(), before.ok());
        }
    }
    // The topology is looked at as a whole, once all is set.
    let possible = spec.check().is_ok();
    let text = spec.to_toml().unwrap_or_default();
    assert_eq!(
        Spec::from_toml(&text).is_ok(),
        possible,
        "what is written can be read: {text}"
    );
}

/// Command lines.
pub(crate) fn command_line(bytes: &[u8]) {
    fuzzing::command_line(text(bytes));
}
