//! Mistakes in the logic of the locks, by name: each a change of the source, of which a copy is tested.

use std::fs;
use std::io;
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

/// What tests are run, and for how long, until one fails.
const TESTS: [(&[&str], u64); 2] = [
    (&["-p", "litmus", "--test", "locks"], 400),
    (
        &[
            "-p",
            "pvlock",
            "--test",
            "stepper",
            "--test",
            "sleep",
            "--test",
            "loom",
            "--test",
            "sleep_loom",
        ],
        500,
    ),
];

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
        fs::write(folder.join("Cargo.toml"), manifest.join("\n"))?;
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { folder })
    }

    /// Makes the mistake, runs the tests, and takes it back. What found it; `None` if nothing did.
    ///
    /// # Errors
    /// If it cannot be made, or does not compile.
    pub fn try_out(&self, mistake: &Mistake) -> io::Result<Option<String>> {
        let file = self.folder.join("pvlock/src").join(mistake.file);
        let sound = fs::read_to_string(&file)?;
        fs::write(&file, mistake.apply(&sound).map_err(io::Error::other)?)?;
        let found = TESTS
            .iter()
            .find_map(|(tests, seconds)| self.test(tests, *seconds).transpose());
        fs::write(&file, sound)?;
        found.transpose()
    }

    fn test(&self, tests: &[&str], seconds: u64) -> io::Result<Option<String>> {
        let cargo = |more: &[&str]| {
            let mut cargo = Command::new("cargo");
            cargo.args(["test", "--offline", "--quiet"]).args(tests);
            cargo.args(more).current_dir(&self.folder);
            cargo.env("CARGO_TARGET_DIR", self.folder.join("target"));
            cargo.env("RUSTFLAGS", "--cap-lints=allow");
            cargo
        };
        let built = cargo(&["--no-run"]).output()?;
        if !built.status.success() {
            let text = String::from_utf8_lossy(&built.stderr).into_owned();
            return Err(io::Error::other(text));
        }
        let output = self.folder.join("output");
        let mut run = cargo(&[])
            .stdout(fs::File::create(&output)?)
            .stderr(Stdio::null())
            .spawn()?;
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            if let Some(status) = run.try_wait()? {
                let text = String::from_utf8_lossy(&fs::read(&output)?).into_owned();
                return Ok((!status.success()).then(|| failed(&text)));
            }
            if Instant::now() > end {
                run.kill()?;
                run.wait()?;
                return Ok(Some(format!("did not end in {seconds} s")));
            }
            sleep(Duration::from_millis(100));
        }
    }
}

/// The first failure that the output of tests tells of.
fn failed(output: &str) -> String {
    let mut lines = output.lines();
    let test = lines.find_map(|line| line.strip_prefix("---- "));
    let test = test.map_or("a test", |line| line.split(' ').next().unwrap_or(line));
    let mut said = lines.skip_while(|line| !line.contains("panicked at"));
    let said = said.nth(1).unwrap_or("");
    let short: String = said.chars().take(100).collect();
    format!("{test}: {short}")
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
