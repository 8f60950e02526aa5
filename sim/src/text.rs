//! Text files that somebody else may have written.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a text file of at most `most` bytes, and not more of anything else.
///
/// # Errors
/// If it cannot be read, is larger, or no text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if read as u64 > most {
        let why = format!("it is larger than {} MiB", most >> 20);
        return Err(io::Error::other(why));
    }
    Ok(text)
}
