//! What the terminal behind standard error can do, and what its user wants of it.

use rustix::termios::tcgetwinsize;
use std::env;
use std::io::{IsTerminal, stderr};

/// Whether something may be drawn there, and drawn over: a dumb terminal, or a file, gets lines only.
pub(crate) fn may_draw() -> bool {
    stderr().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether text there may have colours (<https://no-color.org>).
pub(crate) fn may_colour() -> bool {
    may_draw() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Its columns and lines, now; `None` if it does not tell.
pub(crate) fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(stderr()).ok()?;
    let (columns, lines) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && lines > 0).then_some((columns, lines))
}

/// `line`, cut to that many columns; one that is cut ends in an ellipsis.
pub(crate) fn fit(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let kept = line.chars().take(columns.saturating_sub(1));
    kept.chain(['\u{2026}']).take(columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_to_the_width() {
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab\u{2026}");
        assert_eq!(fit("abcd", 1), "\u{2026}".to_owned());
        assert_eq!(fit("abcd", 0), String::new());
    }
}
