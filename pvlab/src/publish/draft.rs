//! A file in the making, beside the one that it is to become.
//!
//! A draft of `trace.jsonl` is called `trace.jsonl.pvlab-4711.draft`, after the process that writes it,
//! which has it locked (flock(2)) as long as it lives. One that nobody has locked was left by a process
//! that was killed: it is there to be read, and goes when the file itself has been published.

use super::in_place;
use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What stands between the file's name and the process.
const MARK: &str = ".pvlab-";
const END: &str = ".draft";

/// Bytes of the file's name that a draft's name has, so that it does not become too long.
const MOST_NAME: usize = 200;

/// Drafts of one file that a process can have at a time.
const MOST_DRAFTS: u32 = 1000;

/// A draft. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    path: PathBuf,
    target: PathBuf,
    /// It is a draft no more, or is to stay.
    settled: bool,
}

/// A draft that could not become what it was to be, and why.
#[derive(Debug)]
pub(crate) struct Unpublished {
    pub source: io::Error,
    pub draft: Draft,
}

impl Draft {
    /// Begins a draft of the file `target`, which need not exist.
    ///
    /// # Errors
    /// If nothing can be made beside it.
    pub(crate) fn create(target: &Path) -> io::Result<Self> {
        let name = target.file_name().ok_or(ErrorKind::IsADirectory)?;
        for number in 0..MOST_DRAFTS {
            let path = target.with_file_name(draft_name(name, std::process::id(), number));
            let file = match File::create_new(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            // Where there are no locks, nobody else takes it for left behind either. Where there are,
            // somebody may have done so before it was locked, and has removed it by now.
            let _ = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
            if file.metadata()?.nlink() == 0 {
                continue;
            }
            if let Ok(old) = fs::metadata(target) {
                // Nothing is lost if the new file has the usual mode instead of the old one's.
                let _ = file.set_permissions(old.permissions());
            }
            return Ok(Self {
                file,
                path,
                target: target.to_owned(),
                settled: false,
            });
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// What writes it, from where it is.
    ///
    /// # Errors
    /// If there are no more descriptors.
    pub(crate) fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it the file that it is to become, which from then on is there even if the host stops.
    ///
    /// # Errors
    /// If that cannot be; the draft is still there then.
    pub(crate) fn publish(mut self) -> Result<(), Unpublished> {
        if let Err(source) = self.replace() {
            let draft = self;
            return Err(Unpublished { source, draft });
        }
        self.settled = true;
        remove_left_behind(&self.target);
        Ok(())
    }

    pub(crate) fn leave(mut self) -> PathBuf {
        self.settled = true;
        std::mem::take(&mut self.path)
    }

    fn replace(&self) -> io::Result<()> {
        self.file.sync_all()?;
        let Err(error) = fs::rename(&self.path, &self.target) else {
            // The name is as durable as the file system makes it: some cannot sync a directory.
            let _ = File::open(directory(&self.target)).and_then(|d| d.sync_all());
            return Ok(());
        };
        // A mount point, or another's file in a sticky directory: it cannot be replaced, but written.
        match error.kind() {
            ErrorKind::ResourceBusy | ErrorKind::PermissionDenied | ErrorKind::CrossesDevices => {
                let target = in_place(&self.target).map_err(|_| error)?;
                self.copy_to(&target)?;
                // The file is complete; a directory that may not be written by now keeps the draft too.
                let _ = fs::remove_file(&self.path);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Copies it to another file, as it is even if its name has gone.
    ///
    /// # Errors
    /// If that cannot be written.
    pub(crate) fn copy_to(&self, mut other: &File) -> io::Result<()> {
        let mut file = &self.file;
        file.rewind()?;
        io::copy(&mut file, &mut other)?;
        other.sync_all()
    }

    /// Whether it can still be found under its name.
    pub(crate) fn is_there(&self) -> bool {
        let there = fs::metadata(&self.path).and_then(|there| {
            let own = self.file.metadata()?;
            Ok((there.dev(), there.ino()) == (own.dev(), own.ino()))
        });
        there.unwrap_or(false)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.settled {
            // Whatever went wrong is reported; that the draft cannot be removed adds nothing to it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn stem(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    OsString::from_vec(bytes[..bytes.len().min(MOST_NAME)].to_vec())
}

fn draft_name(name: &OsStr, process: u32, number: u32) -> OsString {
    let mut draft = stem(name);
    draft.push(format!("{MARK}{process}"));
    if number > 0 {
        draft.push(format!("-{number}"));
    }
    draft.push(END);
    draft
}

fn is_draft_name(draft: &OsStr, name: &OsStr) -> bool {
    let whose = |draft: &[u8]| {
        let rest = draft.strip_prefix(stem(name).as_bytes())?;
        let process = rest.strip_prefix(MARK.as_bytes())?;
        let process = process.strip_suffix(END.as_bytes())?;
        (!process.is_empty()).then(|| process.iter().all(|b| b.is_ascii_digit() || *b == b'-'))
    };
    whose(draft.as_bytes()).unwrap_or(false)
}

fn directory(file: &Path) -> &Path {
    let parent = file.parent().filter(|parent| *parent != Path::new(""));
    parent.unwrap_or(Path::new("."))
}

/// Removes the drafts of `target` that processes have left that were killed.
fn remove_left_behind(target: &Path) {
    let (Some(name), Ok(entries)) = (target.file_name(), fs::read_dir(directory(target))) else {
        return;
    };
    for entry in entries.flatten() {
        if !is_draft_name(&entry.file_name(), name) {
            continue;
        }
        // Where there are no locks, none is known to be left behind.
        if let Ok(file) = OpenOptions::new().write(true).open(entry.path())
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn drafts_left_behind_go_with_the_next_file_and_those_at_work_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("trace.jsonl");
        let left = scratch.path().join("trace.jsonl.pvlab-1.draft");
        let others = scratch.path().join("trace.jsonl.pvlab-of-mine.draft");
        fs::write(&left, "half").unwrap();
        fs::write(&others, "mine").unwrap();
        let one = Draft::create(&target).unwrap();
        let two = Draft::create(&target).unwrap();
        assert_ne!(one.path(), two.path());
        one.writer().unwrap().write_all(b"one").unwrap();
        one.publish().map_err(|u| u.source).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "one");
        assert!(!left.exists() && others.exists() && two.is_there());
        two.writer().unwrap().write_all(b"two").unwrap();
        two.publish().map_err(|u| u.source).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "two");
    }

    #[test]
    fn a_draft_whose_target_became_a_directory_is_still_there() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("report");
        let draft = Draft::create(&target).unwrap();
        draft.writer().unwrap().write_all(b"measured").unwrap();
        fs::create_dir(&target).unwrap();
        let draft = draft.publish().unwrap_err().draft;
        assert!(draft.is_there());
        assert_eq!(fs::read_to_string(draft.leave()).unwrap(), "measured");
    }

    #[test]
    fn a_draft_whose_directory_has_gone_can_be_copied() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("there");
        fs::create_dir(&directory).unwrap();
        let draft = Draft::create(&directory.join("report")).unwrap();
        draft.writer().unwrap().write_all(b"measured").unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let draft = draft.publish().unwrap_err().draft;
        assert!(!draft.is_there());
        let copy = scratch.path().join("copy");
        draft.copy_to(&File::create(&copy).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(copy).unwrap(), "measured");
    }

    #[test]
    fn names_of_any_length_have_drafts() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("n".repeat(255));
        let draft = Draft::create(&target).unwrap();
        draft.publish().map_err(|u| u.source).unwrap();
        assert!(target.exists());
    }
}
