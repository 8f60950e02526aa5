//! Where a report goes: standard output, or a file that is complete or not there.

use crate::ending;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The file cannot be written.
    #[error("cannot write {}: {source}; choose another file with --output", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
}

/// Where a report goes.
#[derive(Debug)]
pub(super) enum Target {
    /// Standard output.
    Stdout,
    /// A regular file, there already or not.
    File(PathBuf),
    /// Something else that can be written, such as a named pipe or /dev/null.
    Special(PathBuf),
}

impl Target {
    /// The target, after a check that it can be written. Leaves nothing behind, so that a run
    /// that fails or is killed leaves nothing either.
    pub(super) fn check(path: Option<&Path>) -> Result<Self, OutputError> {
        let Some(path) = path else {
            return Ok(Self::Stdout);
        };
        Self::check_file(path).map_err(|source| OutputError::File {
            path: path.to_owned(),
            source,
        })
    }

    fn check_file(path: &Path) -> io::Result<Self> {
        let target = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(found) if found.is_file() => {
                // A rename would replace even a read-only file.
                OpenOptions::new().write(true).open(path)?;
                // It is the file that is to be replaced, not a link to it.
                fs::canonicalize(path)?
            }
            Ok(_) => return Ok(Self::Special(path.to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        let draft = draft_of(&target)?;
        create(&draft)?;
        fs::remove_file(&draft)?;
        Ok(Self::File(target))
    }

    /// Writes the whole report.
    pub(super) fn write(&self, text: &str) -> Result<(), OutputError> {
        match self {
            Self::Stdout => write_stdout(text).map_err(OutputError::Stdout),
            Self::File(path) => replace(path, text).map_err(|source| OutputError::File {
                path: path.clone(),
                source,
            }),
            Self::Special(path) => fs::write(path, text).map_err(|source| OutputError::File {
                path: path.clone(),
                source,
            }),
        }
    }

    /// Whether the report goes to standard output.
    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }
}

/// Writes to standard output; whoever reads it may have enough and close it.
fn write_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let draft = draft_of(path)?;
    let _removed_if_ended = ending::Draft::at(&draft);
    let written = create(&draft)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // Whatever went wrong is reported; that the draft cannot be removed adds nothing to it.
        let _ = fs::remove_file(&draft);
    }
    written
}

/// A name beside `path`, on the same file system, where nobody else writes.
fn draft_of(path: &Path) -> io::Result<PathBuf> {
    let mut name = OsString::from(".");
    name.push(path.file_name().ok_or(ErrorKind::IsADirectory)?);
    name.push(format!(".{}.draft", std::process::id()));
    Ok(path.with_file_name(name))
}

fn create(draft: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own for each test, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("pvlab-{name}-{}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }

        fn names(&self) -> Vec<OsString> {
            fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_check_leaves_nothing_and_a_write_leaves_the_file_alone() {
        let scratch = Scratch::new("check");
        let path = scratch.0.join("report.json");
        let target = Target::check(Some(&path)).unwrap();
        assert!(scratch.names().is_empty());
        target.write("all of it\n").unwrap();
        assert_eq!(scratch.names(), ["report.json"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "all of it\n");
        Target::check(Some(&path))
            .unwrap()
            .write("again\n")
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "again\n");
    }

    #[test]
    fn a_link_stays_a_link() {
        let scratch = Scratch::new("link");
        let (file, link) = (scratch.0.join("file"), scratch.0.join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        Target::check(Some(&link)).unwrap().write("new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn directories_and_missing_directories_are_refused_at_once() {
        let scratch = Scratch::new("refused");
        for path in [
            scratch.0.clone(),
            scratch.0.join("no/such/file"),
            scratch.0.join(".."),
        ] {
            assert!(
                matches!(Target::check(Some(&path)), Err(OutputError::File { .. })),
                "{path:?}"
            );
        }
        assert!(scratch.names().is_empty());
    }

    #[test]
    fn devices_are_written_in_place() {
        let target = Target::check(Some(Path::new("/dev/null"))).unwrap();
        assert!(matches!(target, Target::Special(_)));
        target.write("gone").unwrap();
    }
}
