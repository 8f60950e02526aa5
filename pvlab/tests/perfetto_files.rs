//! Trace files of both kinds: what is written is read again, also of files that are cut off, and
//! files that are damaged or not ours are refused in a line.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and its numbers are small"
)]

mod streams;

use abi::{HostStep, SwitchKind};
use pvlab::trace::header::EventError;
use pvlab::trace::read::Fault;
use pvlab::trace::sink::{Format, WriteError, create};
use pvlab::trace::{Event, What};
use std::path::Path;
use streams::{
    FORMATS, Random, Scratch, end, event, header, nonsense, orderly, read_all, story, write,
};

fn round_trip(events: &[Event], name: &str) {
    for (format, extension) in FORMATS {
        let file = Scratch::new(&format!("{name}.{extension}"));
        let last = events.last().map_or(0, |event| event.at);
        let written = write(&file.0, format, events, end(last + 5)).unwrap();
        assert_eq!(written.events, events.len() as u64);
        let (read, summary) = read_all(&file.0);
        let summary = summary.unwrap();
        assert_eq!(read, events, "{name}.{extension}");
        assert_eq!(summary.header, header());
        assert!(summary.complete && summary.warning().is_none());
        assert_eq!(summary.end_ns, last + 5);
        assert_eq!(summary.events, written.events);
        assert_eq!(summary.dropped, written.dropped);
        assert_eq!(summary.unknown, 0);
        assert_eq!(summary.end, Some(written));
    }
}

#[test]
fn events_are_read_as_written() {
    round_trip(&[], "nothing");
    round_trip(&story(), "story");
    round_trip(&orderly(50_000).collect::<Vec<_>>(), "orderly");
}

#[test]
fn random_events_are_read_as_written() {
    for seed in 0..30 {
        println!("seed {seed}");
        round_trip(&nonsense(seed, 2_000), "random");
    }
}

#[test]
fn the_largest_numbers_are_kept() {
    let largest = [
        event(
            0,
            1,
            1,
            What::Switch {
                cpu: u16::MAX,
                kind: SwitchKind::Out,
            },
        ),
        event(u64::MAX - 9, 0, 0, What::Host(HostStep::Injected(u64::MAX))),
        event(u64::MAX - 8, 0, 0, What::Gap { dropped: u64::MAX }),
        event(u64::MAX - 8, 0, 0, What::Gap { dropped: 1 }),
    ];
    round_trip(&largest, "largest");
}

#[test]
fn a_file_cut_off_anywhere_is_read_as_far_as_it_goes() {
    let events = story();
    for (format, extension) in FORMATS {
        let file = Scratch::new(&format!("whole.{extension}"));
        write(&file.0, format, &events, end(40_000_000)).unwrap();
        let bytes = std::fs::read(&file.0).unwrap();
        let mut most = None;
        for cut in 0..bytes.len() {
            let part = Scratch::write(&format!("cut.{extension}"), &bytes[..cut]);
            let (read, summary) = read_all(&part.0);
            assert_eq!(read, events[..read.len()], "cut at byte {cut}");
            match summary.map_err(|error| error.fault) {
                Ok(summary) => {
                    assert!(!summary.complete, "cut at byte {cut}");
                    assert!(summary.warning().unwrap().contains("ends early"));
                    assert_eq!(summary.header, header());
                    assert_eq!(summary.end_ns, read.last().map_or(0, |event| event.at));
                    // More of the file, more events.
                    assert!(most <= Some(read.len()));
                    most = Some(read.len());
                }
                Err(Fault::Foreign(what)) => {
                    assert_eq!((cut, &*what), (0, "an empty file"));
                }
                Err(Fault::NoHeader) => assert_eq!(most, None, "cut at byte {cut}"),
                Err(error) => panic!("cut at byte {cut}: {error:?}"),
            }
        }
        assert_eq!(most, Some(events.len()), "the end alone was cut off");
    }
}

#[test]
fn what_was_written_before_a_writer_went_away_is_kept() {
    for (format, extension) in FORMATS {
        let file = Scratch::new(&format!("dropped.{extension}"));
        let mut sink = create(&file.0, format, &header()).unwrap();
        for event in &story() {
            sink.event(event).unwrap();
        }
        drop(sink);
        let (read, summary) = read_all(&file.0);
        assert_eq!(read, story());
        assert!(!summary.unwrap().complete);
    }
}

#[test]
fn a_full_disk_and_a_forbidden_file_are_told_at_once() {
    for (format, _) in FORMATS {
        let full = create(Path::new("/dev/full"), format, &header())
            .err()
            .unwrap();
        let text = full.to_string();
        assert!(
            matches!(full, WriteError::Write { written: 0, .. }),
            "{text}"
        );
        assert!(
            text.starts_with("cannot write /dev/full: No space left"),
            "{text}"
        );
        let path = Path::new("/nonexistent/run.pftrace");
        let text = create(path, format, &header()).err().unwrap().to_string();
        assert!(
            text.starts_with("cannot create /nonexistent/run.pftrace: No such"),
            "{text}"
        );
        assert!(!text.contains('\n'));
    }
}

/// A disk that becomes full.
struct Disk {
    file: std::fs::File,
    room: usize,
}

impl std::io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let fits = bytes.len().min(self.room);
        if fits == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.room -= fits;
        self.file.write(&bytes[..fits])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_was_written_before_the_disk_was_full_is_readable() {
    let room = 300_001;
    for (format, extension) in FORMATS {
        let file = Scratch::new(&format!("full.{extension}"));
        let disk = Disk {
            file: std::fs::File::create(&file.0).unwrap(),
            room,
        };
        let name = "run".to_owned();
        let mut sink = pvlab::trace::sink::to(Box::new(disk), name, format, &header()).unwrap();
        let error = orderly(u64::MAX >> 16).find_map(|event| sink.event(&event).err());
        drop(sink);
        let text = error.unwrap().to_string();
        assert!(
            text.contains("the 300001 bytes before are kept and readable"),
            "{text}"
        );
        assert_eq!(std::fs::metadata(&file.0).unwrap().len(), room as u64);
        let (read, summary) = read_all(&file.0);
        assert!(read.len() > 1_000);
        assert!(read.iter().copied().eq(orderly(100_000).take(read.len())));
        assert!(!summary.unwrap().complete);
    }
}

#[test]
fn writers_refuse_what_readers_would() {
    for (format, extension) in FORMATS {
        let file = Scratch::new(&format!("refused.{extension}"));
        let mut sink = create(&file.0, format, &header()).unwrap();
        sink.event(&event(5, 0, 0, What::Host(HostStep::Enter)))
            .unwrap();
        let before = sink.event(&event(4, 0, 0, What::Host(HostStep::Enter)));
        assert!(matches!(
            before,
            Err(WriteError::Event(EventError::Order { at: 4, before: 5 }))
        ));
        for (vm, vcpu) in [(0, 3), (1, 2), (2, 0), (u16::MAX, u16::MAX)] {
            let nowhere = sink.event(&event(5, vm, vcpu, What::Host(HostStep::Enter)));
            assert!(matches!(nowhere, Err(WriteError::NoSuchVcpu(_))));
        }
    }
}

#[test]
fn files_of_others_are_refused() {
    let perfetto = b"\x0a\x04\x50\x01\x68\x01\x0a\x02\x50\x01";
    let newer = br#"{"schema":"pvlab.trace/2","vms":7}"#;
    let cases: &[(&[u8], &str)] = &[
        (b"", "an empty file not a trace of pvlab"),
        (b"\n\n\n", "neither JSON nor Perfetto"),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "neither JSON nor Perfetto",
        ),
        (b"\x7fELF\x02\x01\x01", "neither JSON nor Perfetto"),
        (b"\x1f\x8b\x08\x00", "compressed, unpack it first"),
        (b"{}\n", "JSON of another kind"),
        (b"{\"a\":1}", "JSON of another kind"),
        (
            b"{\n  \"schema\": \"pvlab.run/1\",\n  \"x\": 1\n}\n",
            "a report (pvlab.run/1)",
        ),
        (b"{\"schema\":\"pvlab.run/1\"}", "a report (pvlab.run/1)"),
        (perfetto, "a Perfetto trace of another program"),
        (newer, "cut off within its header"),
        (
            &[newer, &b"\n"[..]].concat(),
            "is a trace of version 2, and this pvlab reads version 1",
        ),
        (
            b"{\"schema\":\"pvlab.trace/1\"}\n",
            "damaged at its header: missing field",
        ),
        (
            b"{\"schema\":\"pvlab.trace/1\",}\n",
            "damaged at its header: it is no JSON",
        ),
    ];
    for (bytes, expected) in cases {
        let file = Scratch::write("foreign", bytes);
        let (events, result) = read_all(&file.0);
        let text = result.unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains('\n'));
        assert!(events.is_empty());
    }
    let missing = read_all(Path::new("/nonexistent"))
        .1
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("cannot open /nonexistent: "),
        "{missing}"
    );
    let directory = read_all(Path::new("/tmp")).1.unwrap_err().to_string();
    assert!(directory.starts_with("cannot read /tmp: "), "{directory}");
}

#[test]
fn a_newer_perfetto_file_is_refused() {
    let file = Scratch::new("newer.pftrace");
    write(&file.0, Format::Perfetto, &story(), end(40_000_000)).unwrap();
    let mut bytes = std::fs::read(&file.0).unwrap();
    let schema = b"pvlab.trace/1";
    let place = bytes
        .windows(schema.len())
        .position(|w| w == schema)
        .unwrap();
    bytes[place + schema.len() - 1] = b'2';
    let file = Scratch::write("newer.pftrace", &bytes);
    let text = read_all(&file.0).1.unwrap_err().to_string();
    assert!(text.contains("is a trace of version 2"), "{text}");
}

#[test]
fn damage_in_a_raw_file_is_located() {
    let file = Scratch::new("damaged.jsonl");
    write(&file.0, Format::JsonLines, &story(), end(40_000_000)).unwrap();
    let text = std::fs::read_to_string(&file.0).unwrap();
    let lines = text.lines().collect::<Vec<_>>();
    let with = |number: usize, line: &str| {
        let mut lines = lines.clone();
        lines[number - 1] = line;
        let file = Scratch::write("damaged.jsonl", (lines.join("\n") + "\n").as_bytes());
        read_all(&file.0).1.map_err(|error| error.to_string())
    };
    let cases = [
        ("oops", "line 3: expected value"),
        (
            r#"{"at_ns":1000,"vm":0,"vcpu":0,"event":"start"}"#,
            "line 3: 'lock' is missing",
        ),
        (
            r#"{"at_ns":1000,"vm":9,"vcpu":0,"event":"enter"}"#,
            "line 3: the header has no vCPU 0",
        ),
        (
            r#"{"at_ns":1000,"vm":0,"vcpu":0,"event":"exit","reason":"?"}"#,
            "line 3: 'reason' is",
        ),
        (
            r#"{"at_ns":1,"vm":0,"vcpu":0,"event":"enter"}"#,
            "line 3: an event at 1 ns comes after",
        ),
        (
            r#"{"end_ns":1,"events":0}"#,
            "line 4: something follows the end",
        ),
    ];
    for (line, expected) in cases {
        let text = with(3, line).unwrap_err();
        assert!(text.contains("is damaged at "), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    let later = r#"{"at_ns":1000,"vm":0,"vcpu":0,"event":"teleported","to":"Mars","x":[1]}"#;
    let summary = with(3, later).unwrap();
    assert_eq!(
        (summary.unknown, summary.events),
        (1, story().len() as u64 - 1)
    );
    let text = with(lines.len(), r#"{"end_ns":40000000,"events":5}"#).unwrap_err();
    assert!(
        text.contains("its end: it counts 5 events, 31 are there"),
        "{text}"
    );
}

/// Whatever is done to a file, reading it ends, in a result or an error of one line.
#[test]
fn no_damage_makes_the_reader_panic() {
    let events = nonsense(1, 150);
    for (format, extension) in FORMATS {
        let file = Scratch::new(&format!("good.{extension}"));
        write(&file.0, format, &events, end(u64::MAX)).unwrap();
        let good = std::fs::read(&file.0).unwrap();
        for seed in 0..1_500 {
            let mut random = Random::new(seed);
            let mut bytes = good.clone();
            random.change(&mut bytes, 8, 4);
            let bad = Scratch::write(&format!("bad.{extension}"), &bytes);
            println!("seed {seed}, kept in {} if this fails", bad.0.display());
            if let Err(error) = read_all(&bad.0).1 {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}
