//! Mistakes in the logic of the locks, by name: each a change of the source, of which a copy is tested.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A mistake.
#[derive(Clone, Debug, Default)]
pub struct Mistake {
    /// Its name.
    pub name: &'static str,
    /// The file, below `pvlock/src`.
    pub file: &'static str,
    /// What stands there once, and what in its place.
    edits: Vec<(String, String)>,
}

/// Every mistake, as `mistakes.txt` has it.
pub fn all() -> Vec<Mistake> {
    let mut all: Vec<Mistake> = vec![];
    let mut before = ' ';
    for line in include_str!("../mistakes.txt").lines() {
        let Some(sign) = line.chars().next() else {
            before = ' ';
            continue;
        };
        let text = &line[1..];
        match (sign, all.last_mut()) {
            ('=', _) => all.push(Mistake {
                name: text.trim(),
                ..Mistake::default()
            }),
            ('@', Some(mistake)) => mistake.file = text.trim(),
            ('-', Some(mistake)) if before == '-' => add(&mut last(mistake).0, text),
            ('-', Some(mistake)) => mistake.edits.push((text.into(), String::new())),
            ('+', Some(mistake)) if before == '+' => add(&mut last(mistake).1, text),
            ('+', Some(mistake)) => last(mistake).1 = text.into(),
            _ => {}
        }
        before = sign;
    }
    all
}

fn last(mistake: &mut Mistake) -> &mut (String, String) {
    mistake.edits.last_mut().expect("'-' is before '+'")
}

fn add(text: &mut String, line: &str) {
    text.push('\n');
    text.push_str(line);
}

impl Mistake {
    /// The file with the mistake.
    ///
    /// # Errors
    /// What does not stand there once.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        let mut places = vec![];
        for (find, put) in &self.edits {
            let mut found = text.match_indices(find.as_str()).map(|(at, _)| at);
            let (Some(at), None) = (found.next(), found.next()) else {
                let Self { name, file, .. } = self;
                return Err(format!("{name}: {find:?} does not stand in {file} once"));
            };
            places.push((at, find.len(), put));
        }
        // From the end, so that places stay as they are.
        places.sort_unstable();
        let mut changed = text.to_string();
        for (at, length, put) in places.into_iter().rev() {
            changed.replace_range(at..at + length, put);
        }
        Ok(changed)
    }
}

/// A copy of the locks, their tests and these models, to make mistakes in.
pub struct Copy {
    folder: PathBuf,
}

/// Which tests.
#[derive(Clone, Copy, Debug)]
pub enum Tests {
    /// The models of this crate.
    Models,
    /// Those of `pvlock`.
    Others,
}

/// The tests that are run for a file until one fails: the models here, and the others.
fn tests(file: &str) -> [&'static [&'static str]; 2] {
    let paravirtual = ["qspinlock/pv.rs", "qspinlock/asym.rs", "pv_hash.rs"];
    let models: &[&str] = if file.starts_with("sleep/") {
        &["-p", "litmus", "--test", "locks", "locks_that_sleep"]
    } else if paravirtual.contains(&file) {
        &["-p", "litmus", "--test", "locks", "paravirtual_locks"]
    } else if file == "qspinlock/mod.rs" {
        // Of both.
        &[
            "-p",
            "litmus",
            "--test",
            "locks",
            "--",
            "locks_that_spin",
            "paravirtual_locks",
        ]
    } else if file.starts_with("qrwlock") {
        &["-p", "litmus", "--test", "locks", "locks_with_readers"]
    } else {
        &["-p", "litmus", "--test", "locks", "locks_that_spin"]
    };
    let others: &[&str] = if file.starts_with("sleep/") {
        &["-p", "pvlock", "--test", "sleep", "--test", "sleep_loom"]
    } else {
        &["-p", "pvlock", "--test", "stepper", "--test", "loom"]
    };
    [models, others]
}

impl Copy {
    /// Makes it, in `folder`, of the workspace at `root`.
    ///
    /// # Errors
    /// If that cannot be written, or the other not be read.
    pub fn new(root: &Path, folder: PathBuf) -> io::Result<Self> {
        for part in ["pvlock", "litmus"] {
            copy(&root.join(part), &folder.join(part))?;
        }
        let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
        let lines = manifest.lines().map(|line| {
            if line.starts_with("members") {
                "members = [\"pvlock\", \"litmus\"]"
            } else if line.starts_with("default-members") {
                ""
            } else {
                line
            }
        });
        let manifest: Vec<&str> = lines.collect();
        fs::write(folder.join("Cargo.toml"), manifest.join("\n") + "\n")?;
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { folder })
    }

    /// Makes the mistake, runs the tests, and takes it back. What found it; `None` if nothing did.
    ///
    /// # Errors
    /// If it cannot be made, or does not compile.
    pub fn try_out(&self, mistake: &Mistake, by: Tests) -> io::Result<Option<String>> {
        let file = self.folder.join("pvlock/src").join(mistake.file);
        let sound = fs::read_to_string(&file)?;
        fs::write(&file, mistake.apply(&sound).map_err(io::Error::other)?)?;
        let found = self.test(tests(mistake.file)[by as usize], 300);
        fs::write(&file, sound)?;
        found
    }

    fn test(&self, tests: &[&str], seconds: u64) -> io::Result<Option<String>> {
        let at_home = |cargo: &mut Command| {
            cargo.current_dir(&self.folder);
            cargo.env("CARGO_TARGET_DIR", self.folder.join("target"));
            cargo.env("RUSTFLAGS", "--cap-lints=allow");
        };
        let cargo = || {
            let mut cargo = Command::new("cargo");
            cargo.args(["test", "--offline"]).args(tests);
            cargo.process_group(0);
            at_home(&mut cargo);
            cargo
        };
        let filters = tests.iter().position(|&test| test == "--");
        let mut build = Command::new("cargo");
        build.args(["test", "--offline", "--no-run"]);
        build.args(&tests[..filters.unwrap_or(tests.len())]);
        at_home(&mut build);
        let built = build.output()?;
        if !built.status.success() {
            let text = String::from_utf8_lossy(&built.stderr).into_owned();
            return Err(io::Error::other(text));
        }
        let output = self.folder.join("output");
        let mut run = cargo()
            .stdout(fs::File::create(&output)?)
            .stderr(Stdio::null())
            .spawn()?;
        let end = Instant::now() + Duration::from_secs(seconds);
        let found = loop {
            let ended = run.try_wait()?;
            let text = String::from_utf8_lossy(&fs::read(&output)?).into_owned();
            if let Some(failed) = failed(&text) {
                break Some(format!("{}: {failed}", tests[1]));
            }
            if let Some(status) = ended {
                break (!status.success()).then(|| format!("{}: tests end by a signal", tests[1]));
            }
            if Instant::now() > end {
                break Some(format!("{}: no end in {seconds} s", tests[1]));
            }
            sleep(Duration::from_millis(50));
        };
        // With the tests that cargo has started.
        let group = format!("-{}", run.id());
        let _ = Command::new("kill")
            .args(["-KILL", "--", &group])
            .stderr(Stdio::null())
            .status()?;
        run.wait()?;
        Ok(found)
    }
}

/// The first test that the output says has failed.
fn failed(output: &str) -> Option<&str> {
    let failed = output.lines().find(|line| line.ends_with("... FAILED"))?;
    failed.split(' ').nth(1)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source moves on: each mistake must still be one that can be made.
    #[test]
    #[allow(clippy::unwrap_used)]
    fn every_mistake_can_be_made() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pvlock/src");
        let all = all();
        assert!(all.len() >= 30, "{}", all.len());
        for mistake in &all {
            let text = fs::read_to_string(src.join(mistake.file)).unwrap();
            let changed = mistake.apply(&text).unwrap();
            assert_ne!(changed, text, "{}", mistake.name);
        }
    }
}
