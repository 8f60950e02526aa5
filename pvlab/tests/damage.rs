//! Files that are damaged, made up or hostile: each is refused in one line that says where, without a panic
//! and without more memory than the file is worth.
#![allow(clippy::unwrap_used)] // A test fails by panicking.
#![allow(clippy::cast_possible_truncation, reason = "of numbers made small")]
#![allow(unsafe_code)] // To see how much memory is taken.

mod commands;
mod streams;

use commands::{command, ended_in_a_line, stderr};
use pvlab::trace::account::{Accountant, Setup, VmSetup};
use pvlab::trace::header::Header;
use pvlab::trace::read::read;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use streams::{FORMATS, Random, end, nonsense, story, write};

/// The system's allocator, which counts.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// More than the tests of this file need, and far less than a wrong number can ask for.
const ENOUGH: usize = 1 << 30;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: as for this.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for this.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn setup(header: &Header) -> Setup {
    let vms = header.vms.iter().map(|vm| VmSetup {
        lock: peers::Kind::from_name(&vm.lock).unwrap_or(pvlock::LockKind::Tas.into()),
        vcpus: vm.vcpus.len(),
        locks: vm.locks,
    });
    Setup {
        vms: vms.collect(),
        simulated: header.simulated,
    }
}

/// Reads the file as `--summary` does; the error, if it is refused.
fn account(path: &Path) -> Option<String> {
    let mut accountant = None;
    let result = read(path, |header, event| {
        let accountant = accountant.get_or_insert_with(|| Accountant::new(&setup(header)));
        accountant.event(event);
    });
    match result {
        Ok(summary) => {
            let accountant = accountant.unwrap_or_else(|| Accountant::new(&setup(&summary.header)));
            let account = accountant.finish(summary.end_ns);
            let text = pvlab::report::account::account(&account, pvlab::report::Format::Table);
            assert!(!text.is_empty());
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Numbers that are wrong in one way or another.
const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "1.5",
    "255",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e300",
];

/// Puts another number in the place of one of those that are in the text, or another token of it.
fn change_text(text: &str, random: &mut Random) -> String {
    let mut tokens: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let class = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
        let wanted = class(first);
        let length = rest.find(|c| class(c) != wanted).unwrap_or(rest.len());
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    for _ in 0..=random.below(3) {
        let place = random.below(tokens.len() as u64) as usize;
        let other = random.below(tokens.len() as u64) as usize;
        tokens[place] = match random.below(4) {
            0 | 1 => NUMBERS[random.below(NUMBERS.len() as u64) as usize],
            2 => tokens[other],
            _ => "",
        };
    }
    tokens.concat()
}

#[test]
fn no_damage_of_a_trace_makes_its_account_panic_or_take_much_memory() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("trace");
    let (mut refused, mut read) = (0, 0);
    for (format, _) in FORMATS {
        for (events, most) in [(story(), 1_000), (nonsense(7, 120), 700)] {
            write(&file, format, &events, end(u64::MAX)).unwrap();
            let good = fs::read(&file).unwrap();
            for seed in 0..most {
                let mut random = Random::new(seed);
                let bytes = match std::str::from_utf8(&good) {
                    Ok(text) => change_text(text, &mut random).into_bytes(),
                    Err(_) => {
                        let mut bytes = good.clone();
                        random.change(&mut bytes, 6, 5);
                        bytes
                    }
                };
                let bad = scratch.path().join("bad");
                fs::write(&bad, bytes).unwrap();
                println!("{format:?}, seed {seed}");
                match account(&bad) {
                    Some(error) => {
                        refused += 1;
                        assert!(!error.contains('\n'), "{error}");
                    }
                    None => read += 1,
                }
            }
        }
    }
    assert!(
        refused > 500 && read > 100,
        "{refused} refused, {read} read"
    );
    let most = MOST.load(Relaxed);
    assert!(most < ENOUGH, "{most} bytes at a time");
}

/// What a trace in the raw form is refused for, when `from` is `to` in it.
fn refused(from: &str, to: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("trace.jsonl");
    write(&file, FORMATS[1].0, &story(), end(40_000_000)).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replacen(from, to, 1);
    assert_ne!(text, changed, "{from}");
    fs::write(&file, changed).unwrap();
    let output = command("trace --summary").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{from} -> {to}");
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    stderr(&output).to_owned()
}

#[test]
fn impossible_contents_of_a_trace_are_refused_with_their_place() {
    for (from, to, told) in [
        (
            "\"lock\":1}",
            "\"lock\":65535}",
            "line 2: the header has no lock 65535 of VM 0, which has 2",
        ),
        (
            "\"vcpu\":2",
            "\"vcpu\":3",
            "line 2: the header has no vCPU 3 of VM 0",
        ),
        (
            "\"target\":1",
            "\"target\":3",
            "it names vCPU 3 of VM 0, which has 3",
        ),
        (
            "\"at_ns\":1020",
            "\"at_ns\":2",
            "line 4: an event at 2 ns comes after one at 1000 ns",
        ),
        ("\"khz\":2400000", "\"khz\":0", "its clock has 0 kHz"),
        (
            "\"khz\":2400000",
            "\"khz\":18446744073709551615",
            "its clock has 18446744073709551615 kHz",
        ),
        (
            "\"locks\":2",
            "\"locks\":1000000000000",
            "VM 0 has 1000000000000 locks; at most 1024",
        ),
        ("\"locks\":2", "\"locks\":-2", "its header: "),
        ("pvlab.trace/1", "pvlab.trace/99", "a trace of version 99"),
        (
            "\"end_ns\":40000000",
            "\"end_ns\":1",
            "its end: it is at 1 ns",
        ),
        (
            "\"how\":\"fast\"",
            "\"how\":\"magic\"",
            "'how' is missing or wrong",
        ),
    ] {
        let error = refused(from, to);
        assert!(error.contains(told), "{from} -> {to}: {error}");
    }
    // As many VMs with as many locks as a line has room for.
    let vm = "{\"lock\":\"tas\",\"locks\":1024,\"vcpus\":[]},";
    let many = format!("\"vms\":[{}", vm.repeat(30_000));
    assert!(refused("\"vms\":[", &many).contains("locks together; at most 65536"));
    let deep = format!("\"scenario\":{}", "[".repeat(100_000));
    assert!(refused("\"scenario\":", &deep).contains("its header"));
}

#[test]
fn no_damage_of_a_preset_makes_its_reader_panic() {
    let good = sim::presets::text("here").unwrap();
    let (mut refused, mut read) = (0, 0);
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let bad = change_text(good, &mut random);
        println!("seed {seed}");
        match sim::Spec::from_toml(&bad) {
            Ok(spec) => {
                assert!(spec.cpus() >= 1 && spec.cpus() <= sim::MAX_CPUS);
                read += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(
        refused > 300 && read > 300,
        "{refused} refused, {read} read"
    );
    for value in [
        "nan", "-nan", "inf", "-inf", "1e999", "-1", "1e300", "'x'", "[]",
    ] {
        let start = good.find("rmw_ns = ").unwrap();
        let end = start + good[start..].find('\n').unwrap();
        let bad = format!("{}rmw_ns = {value}{}", &good[..start], &good[end..]);
        assert!(sim::Spec::from_toml(&bad).is_err(), "{value}");
    }
    let deep = format!("{good}\nx = {}", "[".repeat(200_000));
    assert!(sim::Spec::from_toml(&deep).is_err());
    let tables = format!("{good}\nx.{}y = 1", "x.".repeat(200_000));
    assert!(sim::Spec::from_toml(&tables).is_err());
}

#[test]
fn a_file_without_end_is_no_preset_and_no_schedule() {
    let scratch = tempfile::tempdir().unwrap();
    let endless = scratch.path().join("endless.toml");
    std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
    for line in [
        "replay".to_owned(),
        "run --lock tas --machine sim:here --schedule".to_owned(),
        "machines".to_owned(),
    ] {
        let output = command(&line).arg(&endless).output().unwrap();
        ended_in_a_line(&output, 2, &line, &["larger than"]);
    }
}

#[test]
fn schedule_files_go_through_the_limits_of_options() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("case.json");
    let save = "run --lock pv-qspinlock --vcpus 2 --machine sim:here --iterations 5 --warm-up 1ms \
                --deschedule 0:2:1ms --save-schedule";
    let output = command(save).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let good = fs::read_to_string(&file).unwrap();
    assert!(
        command("replay")
            .arg(&file)
            .output()
            .unwrap()
            .status
            .success()
    );
    for (from, to, told) in [
        (
            "\"contexts\": 1",
            "\"contexts\": 9",
            "workload.contexts is 9: it may be 1 to 5",
        ),
        (
            "\"vcpus\": 2",
            "\"vcpus\": 4000000000",
            "vms.0.vcpus is 4000000000: it may be 1 to 16383",
        ),
        (
            "\"noise\": 0",
            "\"noise\": 4000000000",
            "noise is 4000000000: it may be 0 to 1024",
        ),
        (
            "\"warm_up_ns\": 1000000",
            "\"warm_up_ns\": 18446744073709551615",
            "warm_up_ns is 184467",
        ),
        (
            "\"iterations\": 5",
            "\"iterations\": 0",
            "length.iterations is 0",
        ),
        (
            "\"section\": 2",
            "\"section\": 0",
            "simulated.rules.0.deschedule_holder.section is 0",
        ),
        (
            "\"vcpu\": 0",
            "\"vcpu\": 4294967295",
            "simulated.rules.0.deschedule_holder.vcpu is 4294967295",
        ),
        (
            "\"placement\": \"pinned\"",
            "\"placement\": {\"map\": []}",
            "placement.map is 0 CPUs",
        ),
        ("\"cpl\": \"auto\"", "\"cpl\": \"0\"", "cpl is given"),
        (
            "\"preset\": \"here\"",
            "\"preset\": \"there\"",
            "no simulated machine is called",
        ),
        (
            "\"machine\": \"sim\"",
            "\"machine\": \"kvm\"",
            "only the machine 'sim' has that",
        ),
        (
            "pvlab.schedule/1",
            "pvlab.schedule/2",
            "its schema is 'pvlab.schedule/2'",
        ),
    ] {
        assert!(good.contains(from), "{from} in {good}");
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let output = command("replay").arg(&file).output().unwrap();
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{to}: {error}");
        assert!(
            error.contains(told) && error.lines().count() == 1,
            "{to}: {error}"
        );
    }
    // Whatever else is wrong with it, it is told.
    let mut refused = 0;
    for seed in 0..40 {
        fs::write(&file, change_text(&good, &mut Random::new(seed))).unwrap();
        let output = command("replay").arg(&file).output().unwrap();
        println!("seed {seed}: {}", stderr(&output));
        let code = output.status.code().expect("it ends by itself");
        assert!(code <= 3 && code != 101, "{code}");
        refused += u32::from(code == 2);
    }
    assert!(refused > 5);
}
