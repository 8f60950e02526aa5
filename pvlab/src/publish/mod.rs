//! Where a report or a trace goes: a file that is complete or as it was, or a stream.
//!
//! | the target is | how it is written |
//! |---|---|
//! | a file, there already or not | a [`Draft`] beside it, synced, and renamed in the end |
//! | a file whose directory may not be written | in place, once there is something to write |
//! | a file that cannot be renamed over, such as a bind mount | a draft, copied into it in the end |
//! | standard output, an open descriptor, a pipe, a device | straight through, without seeking |
//!
//! What cannot be written there in the end is kept elsewhere ([`Kept`]): it has been measured.

mod draft;
mod kept;

pub(crate) use draft::Draft;
pub(crate) use kept::{Kept, keep, places};

use crate::ending;
use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What stands for standard output, and for standard input.
pub(crate) const DASH: &str = "-";

/// Links that are followed at most, as Linux does.
const MOST_LINKS: usize = 40;

/// What a report is called that goes to standard output, should it have to be kept elsewhere.
const NAMELESS: &str = "report";

#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("cannot write {}: {source}; choose another file with --output", .path.display())]
    Refused { path: PathBuf, source: io::Error },
    #[error("cannot write to standard output: {0}")]
    Stdout(#[source] io::Error),
    #[error("cannot write to {name}: {source}; {kept}")]
    Lost {
        name: String,
        source: io::Error,
        kept: Kept,
    },
}

/// Where something goes.
#[derive(Debug)]
pub(crate) enum Target {
    Stdout,
    /// A regular file, there already or not.
    File(PathBuf),
    /// A regular file that is there, in a directory that may not be written.
    InPlace(PathBuf),
    /// Something else that can be written, such as a named pipe or /dev/null; it is open.
    Stream(PathBuf, File),
}

impl Target {
    /// The target, after a check that it can be written; `-` and nothing are standard output. Leaves
    /// nothing behind, so that a run that fails or is killed leaves nothing either.
    ///
    /// A stream is opened: a reader that waits at the other end of a named pipe is told that it ends
    /// whatever becomes of the run, and one that does not come yet is waited for.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn check(path: Option<&Path>) -> Result<Self, OutputError> {
        let Some(path) = path.filter(|path| *path != Path::new(DASH)) else {
            return Ok(Self::Stdout);
        };
        Self::check_file(path).map_err(|source| OutputError::Refused {
            path: path.to_owned(),
            source,
        })
    }

    fn check_file(path: &Path) -> io::Result<Self> {
        let stream = |file| Ok(Self::Stream(path.to_owned(), file));
        let target = match end_of_links(path)? {
            End::Descriptor(1) => return Ok(Self::Stdout),
            // Opened anew, it has a position of its own: the end is where it should be.
            End::Descriptor(_) => return stream(OpenOptions::new().append(true).open(path)?),
            End::File(target) => target,
        };
        let there = match fs::metadata(&target) {
            Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(found) => {
                // A rename would replace even a read-only file.
                let file = OpenOptions::new().write(true).open(&target)?;
                if !found.is_file() {
                    return stream(file);
                }
                true
            }
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        match Draft::create(&target) {
            Ok(draft) => drop(draft),
            Err(error) if there && is_forbidden(&error) => return Ok(Self::InPlace(target)),
            Err(error) => return Err(error),
        }
        Ok(Self::File(target))
    }

    /// Writes the whole of it. A reader that has had enough is no error.
    ///
    /// # Errors
    /// If it cannot be written; then it says where it has been kept.
    pub(crate) fn write(&self, text: &str) -> Result<(), OutputError> {
        let bytes = text.as_bytes();
        let written = match self {
            Self::Stdout => write_stream(io::stdout().lock(), bytes),
            Self::Stream(_, file) => write_stream(file, bytes),
            Self::InPlace(path) => in_place(path).and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            }),
            Self::File(path) => publish(path, bytes),
        };
        written.map_err(|source| OutputError::Lost {
            name: self.name(),
            source,
            kept: keep(self.file_name(), bytes, self.is_stdout()),
        })
    }

    /// Writes what can be had again at any time to standard output, whose reader may have had enough.
    ///
    /// # Errors
    /// If it cannot be written; it is not kept elsewhere then.
    pub(crate) fn print(text: &str) -> Result<(), OutputError> {
        write_stream(io::stdout().lock(), text.as_bytes()).map_err(OutputError::Stdout)
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_) | Self::InPlace(_))
    }

    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    pub(crate) fn name(&self) -> String {
        let path = self.path().map(|path| path.display().to_string());
        path.unwrap_or_else(|| "standard output".to_owned())
    }

    /// What a file is to be called that takes its place.
    pub(crate) fn file_name(&self) -> &OsStr {
        let name = self.path().and_then(Path::file_name);
        name.unwrap_or(OsStr::new(NAMELESS))
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdout => None,
            Self::File(path) | Self::InPlace(path) | Self::Stream(path, _) => Some(path),
        }
    }
}

/// Empties the file to write it in place, as soon as nobody else of us does that.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn in_place(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).open(path)?;
    // Where there are no locks, two of us at the same time are not prevented.
    let _ = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
    file.set_len(0)?;
    Ok(file)
}

fn publish(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = Draft::create(path)?;
    // A report that is not complete is of no use; a trace is, and is left as a draft.
    let _removed_if_ended = ending::Draft::at(draft.path());
    draft.writer()?.write_all(bytes)?;
    draft.publish().map_err(|unpublished| unpublished.source)
}

fn write_stream(mut stream: impl Write, bytes: &[u8]) -> io::Result<()> {
    match stream.write_all(bytes).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Whether nothing can be made in that directory, though files in it may be writable.
fn is_forbidden(error: &io::Error) -> bool {
    use ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// What a path leads to.
enum End {
    /// A descriptor of this process, by its number.
    Descriptor(u32),
    /// Something that is no link, and need not exist.
    File(PathBuf),
}

/// Follows links: it is the file that is to be replaced, not a link to it.
fn end_of_links(path: &Path) -> io::Result<End> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Some(number) = descriptor(&path) {
            return Ok(End::Descriptor(number));
        }
        match fs::read_link(&path) {
            Ok(link) => path = path.parent().unwrap_or(Path::new("")).join(link),
            // It is no link, or what is wrong with it shows when it is opened.
            Err(_) => return Ok(End::File(path)),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// The number of the descriptor that the path names.
fn descriptor(path: &Path) -> Option<u32> {
    let path = path.to_str()?;
    match path {
        "/dev/stdin" => Some(0),
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        _ => ["/dev/fd/", "/proc/self/fd/"]
            .iter()
            .find_map(|directory| path.strip_prefix(directory)?.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn names(directory: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    fn check(path: impl AsRef<Path>) -> Target {
        Target::check(Some(path.as_ref())).unwrap()
    }

    #[test]
    fn a_check_leaves_nothing_and_a_write_leaves_the_file_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("report.json");
        let target = check(&path);
        assert!(names(scratch.path()).is_empty());
        target.write("all of it\n").unwrap();
        assert_eq!(names(scratch.path()), ["report.json"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "all of it\n");
        check(&path).write("again\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "again\n");
    }

    #[test]
    fn a_link_stays_a_link_also_one_to_nothing_yet() {
        let scratch = tempfile::tempdir().unwrap();
        let (file, link) = (scratch.path().join("file"), scratch.path().join("link"));
        std::os::unix::fs::symlink("file", &link).unwrap();
        for text in ["new", "newer"] {
            check(&link).write(text).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("link", &link).unwrap();
        assert!(Target::check(Some(&link)).is_err(), "round and round");
    }

    #[test]
    fn directories_and_missing_directories_are_refused_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let [missing, up] = ["no/such/file", ".."].map(|path| scratch.path().join(path));
        for path in [scratch.path(), &missing, &up] {
            let refused = Target::check(Some(path));
            let refused = matches!(refused, Err(OutputError::Refused { .. }));
            assert!(refused, "{path:?}");
        }
        assert!(names(scratch.path()).is_empty());
    }

    #[test]
    fn devices_are_written_straight_through() {
        let target = check("/dev/null");
        assert!(matches!(target, Target::Stream(..)));
        target.write("gone").unwrap();
    }

    #[test]
    fn a_dash_and_dev_stdout_are_standard_output_and_a_descriptor_is_appended_to() {
        for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert!(check(name).is_stdout());
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before ").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        check(format!("/dev/fd/{number}")).write("after").unwrap();
        let mut text = String::new();
        io::Seek::rewind(&mut file).unwrap();
        io::Read::read_to_string(&mut file, &mut text).unwrap();
        assert_eq!(text, "before after");
    }

    #[test]
    fn the_mode_of_a_file_outlives_its_replacement() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("private");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        check(&path).write("new").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_written_in_the_end_is_kept_and_the_error_says_where() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("there");
        fs::create_dir(&directory).unwrap();
        let target = check(directory.join("report.json"));
        fs::remove_dir(&directory).unwrap();
        let error = target.write("measured").unwrap_err();
        let OutputError::Lost {
            kept: Kept::File(kept),
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(fs::read_to_string(kept).unwrap(), "measured");
        assert!(error.to_string().contains(&kept.display().to_string()));
        fs::remove_file(kept).unwrap();
    }
}
