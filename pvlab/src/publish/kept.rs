//! Where things are kept that could not be written where they should.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

/// Where something is that could not be written where it should.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    File(PathBuf),
    Stdout,
    Stderr,
    Nowhere,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "what was to be written is kept in {}", path.display()),
            Self::Stdout => f.write_str("what was to be written is on standard output instead"),
            Self::Stderr => f.write_str("what was to be written is above, on standard error"),
            Self::Nowhere => f.write_str("no other place could be written either, and it is lost"),
        }
    }
}

/// Directories to keep things in, the likeliest first: that of temporary files, the one we are in, and
/// the user's own.
fn directories() -> impl Iterator<Item = PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let here = std::env::current_dir().ok();
    let temporary = [std::env::temp_dir()].into_iter();
    temporary.chain(here).chain(home.map(PathBuf::from))
}

/// Places in which something called `name` can be kept.
pub(crate) fn places(name: &OsStr) -> impl Iterator<Item = PathBuf> {
    let process = std::process::id();
    directories().map(move |directory| {
        let mut kept = std::ffi::OsString::from(format!("pvlab-kept-{process}-"));
        kept.push(name);
        directory.join(kept)
    })
}

/// Keeps `bytes`, which should have become something called `name`, wherever there is room.
/// `from_stdout`: standard output is where they could not be written.
pub(crate) fn keep(name: &OsStr, bytes: &[u8], from_stdout: bool) -> Kept {
    if let Some(path) = places(name).find(|path| write(path, bytes).is_ok()) {
        return Kept::File(path);
    }
    let print = |stream: &mut dyn Write| stream.write_all(bytes).and_then(|()| stream.flush());
    if !from_stdout && print(&mut io::stdout()).is_ok() {
        Kept::Stdout
    } else if print(&mut io::stderr()).is_ok() {
        Kept::Stderr
    } else {
        Kept::Nowhere
    }
}

fn write(path: &PathBuf, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half of it is of no use, and the other half finds its place elsewhere.
        let _ = fs::remove_file(path);
    }
    written
}
