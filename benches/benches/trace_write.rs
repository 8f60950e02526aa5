//! How fast traces are written and read back: events per second, on one CPU.
//!
//! The floor is what any writer has to do: copy the bytes of the file. The stream is that of a
//! contended paravirtual lock, whose every acquisition queues and every other one halts, the most
//! that a lock has to tell.

use criterion::{BenchmarkId, Criterion, Throughput};
use pvlab::trace::header::{ClockFit, End, Header, VmHeader};
use pvlab::trace::read::read;
use pvlab::trace::sink::{Format, to};
use pvlab::trace::{Event, Place, What};
use pvlock::TraceEvent;
use pvlock::trace::How;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;

const VCPUS: u16 = 8;
const ACQUISITIONS: u64 = 50_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let events = events();
    let mut group = criterion.benchmark_group("trace");
    group.throughput(Throughput::Elements(events.len() as u64));
    for (format, name) in [
        (Format::Perfetto, "perfetto"),
        (Format::JsonLines, "json-lines"),
    ] {
        let path = std::env::temp_dir().join(format!("pvlab-bench-{}.{name}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file in the directory for such");
        write(Box::new(file), format, &events);
        let bytes = std::fs::read(&path).expect("the file just written");
        println!(
            "{name}: {:.1} bytes per event",
            bytes.len() as f64 / events.len() as f64
        );
        group.bench_function(BenchmarkId::new("floor: copy", name), |bencher| {
            let mut copy = Vec::with_capacity(bytes.len());
            bencher.iter(|| {
                copy.clear();
                copy.extend_from_slice(black_box(&bytes));
                black_box(copy.len())
            });
        });
        group.bench_function(BenchmarkId::new("write", name), |bencher| {
            bencher.iter(|| write(Box::new(Nowhere), format, black_box(&events)));
        });
        group.bench_function(BenchmarkId::new("write to a file", name), |bencher| {
            bencher.iter(|| {
                let file = std::fs::File::create(&path).expect("the file is there");
                write(Box::new(file), format, black_box(&events));
            });
        });
        group.bench_function(BenchmarkId::new("read", name), |bencher| {
            bencher.iter(|| count(&path));
        });
        // Leaving it behind would do no harm.
        let _ = std::fs::remove_file(&path);
    }
    group.finish();
    criterion.final_summary();
}

/// Takes everything and keeps nothing.
struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        black_box(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(stream: Box<dyn Write + Send>, format: Format, events: &[Event]) {
    let mut sink = to(stream, "bench".to_owned(), format, &header()).expect("room for a header");
    for event in events {
        sink.event(event).expect("room for an event");
    }
    sink.finish(End::default()).expect("room for the end");
}

fn count(path: &Path) -> u64 {
    let mut sum = 0_u64;
    let summary = read(path, |_, event| sum = sum.wrapping_add(event.at));
    black_box(sum);
    summary.expect("our own file").events
}

fn header() -> Header {
    Header {
        scenario: serde_json::Value::Null,
        machine: "none".to_owned(),
        simulated: true,
        switches: true,
        vms: vec![VmHeader {
            lock: "pv-qspinlock".to_owned(),
            locks: 1,
            vcpus: vec![Some(0); usize::from(VCPUS)],
        }],
        clock: ClockFit {
            khz: 2_000_000,
            tsc_start: 1 << 40,
            monotonic_raw_start_ns: 1 << 40,
            residual_ns: 0,
        },
        notes: Vec::new(),
    }
}

/// vCPUs take the lock in turn, each behind the one before.
fn events() -> Vec<Event> {
    let mut events = Vec::new();
    let mut push = |at: u64, vcpu: u16, step: TraceEvent| {
        events.push(Event {
            at,
            place: Place { vm: 0, vcpu },
            what: What::Lock { lock: 0, step },
        });
    };
    let mut holder = 0;
    push(0, holder, TraceEvent::Start);
    push(10, holder, TraceEvent::Acquired(How::Fast));
    for i in 0..ACQUISITIONS {
        // As late in a long trace as timestamps are long.
        let at = 10_000_000_000 + i * 2_000;
        let next = (holder + 1) % VCPUS;
        push(at, next, TraceEvent::Start);
        push(at + 50, next, TraceEvent::QueuedBehind(Some(holder.into())));
        push(at + 90, next, TraceEvent::Head);
        if i % 2 == 0 {
            push(at + 500, next, TraceEvent::HaltHead);
        }
        push(at + 900, holder, TraceEvent::Release);
        if i % 2 == 0 {
            push(at + 910, holder, TraceEvent::Kick(next.into()));
            push(at + 1_500, next, TraceEvent::Woken);
        }
        push(at + 1_600, next, TraceEvent::Acquired(How::Queue));
        holder = next;
    }
    events
}
