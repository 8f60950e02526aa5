//! Instructions of an uncontended acquisition and release, of each lock, counted by callgrind and held against
//! `instructions.txt`. Counts are stable where times are not.
//!
//! They are of optimized code: `cargo test --release -p benches --test instructions`. With `RECORD=1` in the
//! environment the budget is written instead.

// The host platform is the one that the tests of pvlock use.
#[path = "../../pvlock/tests/support/host.rs"]
mod host;

use host::Host;
use pvlock::word::ByteWord;
use pvlock::{LockKind, LockVisitor, RawLock, RawRwLock, RwLockVisitor};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::{Command, ExitCode};

/// Where the budget is.
const BUDGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.txt");
/// By how much a count may differ: another version of the compiler arranges things a little differently.
const TOLERANCE: f64 = 2.0;
const PAIRS: u64 = 20_000;
/// What is counted without a lock: the program's start and end, and the loop.
const NOTHING: &str = "nothing";

/// A lock that is none.
struct Nothing;

impl RawLock for Nothing {
    fn new() -> Self {
        Self
    }

    fn lock(&self) {}

    fn try_lock(&self) -> bool {
        true
    }

    fn unlock(&self) {}

    fn is_locked(&self) -> bool {
        false
    }
}

#[inline(never)]
fn repeat<L>(lock: &L, pair: impl Fn(&L)) {
    for _ in 0..PAIRS {
        pair(black_box(lock));
    }
}

struct Pairs;

impl LockVisitor<Host<ByteWord>> for Pairs {
    type Output = ();

    fn visit<L: RawLock>(self) {
        repeat(&L::new(), |lock| {
            lock.lock();
            lock.unlock();
        });
    }
}

impl RwLockVisitor<Host<ByteWord>> for Pairs {
    type Output = ();

    fn visit<L: RawRwLock>(self) {
        repeat(&L::new(), |lock| {
            lock.read();
            lock.read_unlock();
        });
    }
}

/// What is counted: locks, and the read sides of those that have one.
fn names() -> impl Iterator<Item = String> {
    let locks = LockKind::ALL.iter().filter(|kind| !kind.traits().control);
    locks.flat_map(|kind| {
        let read = kind.is_rw().then(|| format!("{kind}, read"));
        std::iter::once(kind.to_string()).chain(read)
    })
}

/// Does what is to be counted.
fn work(name: &str) {
    let (lock, read) = match name.strip_suffix(", read") {
        Some(lock) => (lock, true),
        None => (name, false),
    };
    match LockKind::from_name(lock) {
        None => LockVisitor::<Host<ByteWord>>::visit::<Nothing>(Pairs),
        Some(kind) if read => kind.visit_rw::<Host<ByteWord>, _>(Pairs).unwrap_or(()),
        Some(kind) => kind.visit::<Host<ByteWord>, _>(Pairs),
    }
}

/// Instructions of the whole program that does it; `None` if there is no callgrind.
fn count(name: &str) -> Option<u64> {
    let this = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args(["--work", name])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    let collected = collected.and_then(|(_, number)| number.trim().parse().ok());
    Some(collected.unwrap_or_else(|| panic!("{name}: valgrind says:\n{text}")))
}

/// The recorded budget.
fn budget() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(BUDGET).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (name, number) = line.rsplit_once(' ')?;
            Some((name.trim().to_owned(), number.parse().ok()?))
        })
        .collect()
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("--work") {
        work(&arguments.next().unwrap_or_default());
        return ExitCode::SUCCESS;
    }
    if cfg!(debug_assertions) {
        println!(
            "SKIPPED: instructions are counted of optimized code: cargo test --release -p benches"
        );
        return ExitCode::SUCCESS;
    }
    let Some(nothing) = count(NOTHING) else {
        println!("SKIPPED: valgrind is not installed, so no instructions are counted");
        return ExitCode::SUCCESS;
    };
    #[expect(clippy::cast_precision_loss, reason = "less than 2^53")]
    let each = |name: &str| {
        let all = count(name).unwrap_or(nothing);
        all.saturating_sub(nothing) as f64 / PAIRS as f64
    };
    let found: Vec<(String, f64)> = names().map(|name| (name.clone(), each(&name))).collect();
    if std::env::var_os("RECORD").is_some() {
        let mut text = "# Instructions of an uncontended acquisition and release: see tests/instructions.rs.\n".to_owned();
        for (name, number) in &found {
            let _ = writeln!(text, "{name:<34} {number:.1}");
        }
        return match std::fs::write(BUDGET, text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => panic!("{BUDGET}: {error}"),
        };
    }
    let budget = budget();
    let mut failed = false;
    for (name, number) in &found {
        let allowed = budget.get(name).copied();
        let fits = allowed.is_some_and(|allowed| (number - allowed).abs() <= TOLERANCE);
        failed |= !fits;
        let verdict = if fits { "ok" } else { "FAILED" };
        let allowed = allowed.map_or("none".to_owned(), |allowed| format!("{allowed:.1}"));
        println!("{name:<34} {number:6.1} instructions, budget {allowed:>6}: {verdict}");
    }
    if failed {
        println!(
            "if that is what it should be: RECORD=1 cargo test --release -p benches --test instructions"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
