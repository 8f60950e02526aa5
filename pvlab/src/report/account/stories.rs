//! The worst stalls as short stories.

use crate::host::format_cpu_list;
use crate::human::nanos;
use crate::report::Format;
use crate::trace::account::{Episode, EpisodeKind, Tally};

const WIDTH: usize = 98;

/// The stories, worst first, with a line that introduces them. Text is wrapped.
pub(crate) fn stories(tally: &Tally, format: Format) -> Vec<String> {
    if tally.stalls.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "worst stalls ({}), by what others waited in all:",
        tally.stalls.len()
    )];
    for (number, stall) in (1..).zip(&tally.stalls) {
        let story = story(stall);
        match format {
            Format::Table => lines.extend(wrapped(&format!("{number:>2}. "), &story)),
            _ => lines.push(story),
        }
    }
    lines
}

pub(crate) fn story(episode: &Episode) -> String {
    let Episode {
        kind, lock, vcpu, ..
    } = *episode;
    let at = seconds(episode.at_ns);
    let off = nanos(episode.off_ns);
    let what = match kind {
        EpisodeKind::Lhp => {
            format!("at {at} vCPU {vcpu} held lock {lock} and was off its CPU for {off}")
        }
        EpisodeKind::Lwp => format!(
            "at {at} lock {lock} was free, but vCPU {vcpu}, next in line, was off its CPU for {off}"
        ),
        EpisodeKind::Kick => format!(
            "at {at} lock {lock} was free, but vCPU {vcpu}, next in line, was up only {off} after its \
             kick"
        ),
    };
    let duration = nanos(episode.duration_ns);
    // It may have been away for a while before anyone missed it.
    let missed = match duration == off {
        true => String::new(),
        false => format!(", {duration} of it missed by others"),
    };
    let waited = nanos(episode.waited_ns);
    format!("{what}{missed}; {} waited, {waited} in all", who(episode))
}

fn who(episode: &Episode) -> String {
    let listed: Vec<usize> = episode.who.iter().map(|&vcpu| vcpu.into()).collect();
    let list = format_cpu_list(&listed).replace(',', ", ");
    match episode.waiters {
        0 => "nobody else".to_owned(),
        1 => format!("vCPU {list}"),
        n if n > listed.len() => format!("vCPUs {list} and {} more", n - listed.len()),
        _ => format!("vCPUs {list}"),
    }
}

/// A time stamp, to the microsecond.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
}

/// `text` in lines, the first of which begins with `label` and the others below it.
fn wrapped(label: &str, text: &str) -> Vec<String> {
    let mut lines = vec![label.trim_end().to_owned()];
    let indent = label.len();
    let mut fresh = true;
    for word in text.split(' ') {
        if let Some(line) = lines.last_mut()
            && line.len() + 1 + word.len() <= WIDTH
        {
            *line = match fresh {
                true => format!("{line:<indent$}{word}"),
                false => format!("{line} {word}"),
            };
        } else {
            lines.push(format!("{:indent$}{word}", ""));
        }
        fresh = false;
    }
    lines
}
