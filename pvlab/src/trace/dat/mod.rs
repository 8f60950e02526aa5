//! The trace as a `trace.dat`, which trace-cmd and KernelShark read (trace-cmd.dat.v6(5), version 6).
//!
//! Tasks are vCPUs: `vm0/vcpu3` with a number of its own. CPUs are those of the host where they are known, by
//! switches or because vCPUs are pinned, else one for each vCPU. Switches, entries, exits, wake-ups and the
//! beginning and end of a contended acquisition are under the kernel's names; every step of a lock is a
//! `pvlab:lock_step`. The file has its CPUs one after the other, so that each is gathered in a file without a
//! name until the trace ends.

mod format;
mod pages;

use super::header::{End, Header, Progress};
use super::out::Out;
use super::sink::{Sink, WriteError};
use super::{Event, What};
use abi::{ExitReason, HostDetail, HostStep, SwitchKind};
use format::{FORMATS, HEADER_EVENT, HEADER_PAGE};
use pages::{PAGE, Pages};
use pvlock::TraceEvent;
use pvlock::trace::Detail;
use std::io;

/// The most bytes of a task's name, with a 0 at its end.
const COMM: usize = 16;
/// The priority of an ordinary task.
const PRIORITY: i32 = 120;
/// The addresses that locks are shown with: a VM's number and a lock's below.
const LOCKS: u64 = 0xffff_8880_0000_0000;

/// Writes a `trace.dat`.
pub(super) struct Writer {
    out: Out,
    progress: Progress,
    /// What the clock shows when the trace begins, ns.
    start: u64,
    /// The number of each VM's first vCPU among all.
    first: Vec<usize>,
    vcpus: Vec<Vcpu>,
    cpus: Vec<Cpu>,
}

struct Vcpu {
    name: String,
    /// Its number in its VM.
    number: u32,
    /// Where it is, or was last.
    cpu: usize,
    /// Since when it is halted, ns.
    blocked: Option<u64>,
    /// Locks whose contention has begun.
    contended: Vec<u16>,
}

#[derive(Default)]
struct Cpu {
    pages: Option<Pages>,
    /// The vCPU that it runs, by its number among all.
    running: Option<usize>,
}

/// An event's bytes.
struct Payload(Vec<u8>);

impl Payload {
    /// With the fields that every event has. A vCPU's task has the number after its own: 0 is the idle task.
    fn new(id: u16, task: Option<usize>) -> Self {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend(id.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(pid(task).to_le_bytes());
        Self(bytes)
    }

    fn and(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.extend(bytes.as_ref());
        self
    }

    fn half(self, number: u32) -> Self {
        self.and(number.to_le_bytes())
    }

    fn whole(self, number: u64) -> Self {
        self.and(number.to_le_bytes())
    }

    fn text(self, text: &str) -> Self {
        let mut bytes = [0; COMM];
        let kept = text.len().min(COMM - 1);
        bytes[..kept].copy_from_slice(&text.as_bytes()[..kept]);
        self.and(bytes)
    }
}

fn pid(task: Option<usize>) -> i32 {
    task.map_or(0, |number| i32::try_from(number + 1).unwrap_or(i32::MAX))
}

impl Writer {
    /// Begins with the formats of all events.
    pub(super) fn new(mut out: Out, header: &Header) -> Self {
        head(&mut out.buffer);
        let mut first = Vec::new();
        let mut vcpus = Vec::new();
        for (vm, spec) in header.vms.iter().enumerate() {
            first.push(vcpus.len());
            for (vcpu, pinned) in spec.vcpus.iter().enumerate() {
                vcpus.push(Vcpu {
                    name: format!("vm{vm}/vcpu{vcpu}"),
                    number: u32::try_from(vcpu).unwrap_or(u32::MAX),
                    cpu: pinned.unwrap_or(vcpus.len()),
                    blocked: None,
                    contended: Vec::new(),
                });
            }
        }
        Self {
            out,
            progress: Progress::new(header),
            start: header.clock.monotonic_raw_start_ns,
            first,
            vcpus,
            cpus: Vec::new(),
        }
    }

    fn cpu(&mut self, cpu: usize) -> &mut Cpu {
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        &mut self.cpus[cpu]
    }

    /// Writes an event of vCPU `number`, where that is.
    fn write(&mut self, at: u64, number: usize, payload: Payload) -> Result<(), WriteError> {
        let cpu = self.vcpus[number].cpu;
        self.write_on(cpu, at, payload)
    }

    fn write_on(&mut self, cpu: usize, at: u64, payload: Payload) -> Result<(), WriteError> {
        let at = self.start + at;
        let mut bytes = payload.0;
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let cpu = self.cpu(cpu);
        let pages = match &mut cpu.pages {
            Some(pages) => pages,
            none => none.insert(Pages::new().map_err(spool)?),
        };
        pages.event(at, &bytes).map_err(spool)
    }

    fn switch(
        &mut self,
        at: u64,
        number: usize,
        cpu: u16,
        kind: SwitchKind,
    ) -> Result<(), WriteError> {
        let cpu = usize::from(cpu);
        self.vcpus[number].cpu = cpu;
        let running = self.cpu(cpu).running;
        let (from, to) = match kind {
            SwitchKind::In => (running, Some(number)),
            // It has run since before the trace began, or is known to.
            SwitchKind::Out | SwitchKind::OutPreempted if running.is_none_or(|is| is == number) => {
                (Some(number), None)
            }
            // Another has been seen on the CPU since.
            _ => return Ok(()),
        };
        self.cpu(cpu).running = to;
        // A task that waits is S, one that could run is R.
        let state = u64::from(kind == SwitchKind::Out);
        let idle = format!("swapper/{cpu}");
        let name = |task: Option<usize>| task.map_or(idle.as_str(), |task| &self.vcpus[task].name);
        let payload = Payload::new(format::SWITCH, from)
            .text(name(from))
            .and(pid(from).to_le_bytes())
            .and(PRIORITY.to_le_bytes())
            .whole(state)
            .text(name(to))
            .and(pid(to).to_le_bytes())
            .and(PRIORITY.to_le_bytes());
        self.write_on(cpu, at, payload)
    }

    fn host(&mut self, at: u64, number: usize, step: HostStep) -> Result<(), WriteError> {
        let vcpu = &mut self.vcpus[number];
        let new = |id| Payload::new(id, Some(number));
        let payload = match (step, step.detail()) {
            (HostStep::Blocked, _) => {
                vcpu.blocked = Some(at);
                new(format::BLOCKED).half(vcpu.number)
            }
            (HostStep::Unblocked, _) => {
                let since = vcpu.blocked.take().unwrap_or(at);
                // Whether it waited, and whether that length is valid.
                new(format::WAKEUP).whole(at - since).and([1, 1])
            }
            (_, HostDetail::Reason(reason)) => new(format::EXIT)
                .half(vmx(reason))
                .half(1)
                .and([0; 24])
                .half(vcpu.number),
            (_, HostDetail::LengthNs(ns)) => new(format::INJECTED).whole(ns),
            (_, HostDetail::Nothing) => new(format::ENTRY).half(vcpu.number).half(0).whole(0),
        };
        self.write(at, number, payload)
    }

    fn lock(
        &mut self,
        at: u64,
        (vm, number): (u16, usize),
        lock: u16,
        step: TraceEvent,
    ) -> Result<(), WriteError> {
        let address = LOCKS | u64::from(vm) << 24 | u64::from(lock) << 8;
        let contended = &mut self.vcpus[number].contended;
        let place = contended.iter().position(|&other| other == lock);
        let new = |id| Payload::new(id, Some(number)).whole(address);
        let kernels = match (step, place) {
            (TraceEvent::Acquired(_), Some(place)) => {
                contended.swap_remove(place);
                Some(new(format::CONTENTION_END).half(0))
            }
            (
                TraceEvent::QueuedBehind(_)
                | TraceEvent::QueuedWithTicket(_)
                | TraceEvent::Head
                | TraceEvent::HaltQueued
                | TraceEvent::HaltHead,
                None,
            ) => {
                contended.push(lock);
                // A spinlock.
                Some(new(format::CONTENTION_BEGIN).half(1))
            }
            _ => None,
        };
        if let Some(payload) = kernels {
            self.write(at, number, payload)?;
        }
        let detail = match step.detail() {
            Detail::Nothing | Detail::Behind(None) => 0,
            Detail::Behind(Some(number)) | Detail::Target(number) => number,
            Detail::Ticket(ticket) => ticket.into(),
            Detail::How(how) => how as u32,
        };
        let payload = Payload::new(format::STEP, Some(number))
            .and(vm.to_le_bytes())
            .and(lock.to_le_bytes())
            .half(detail)
            .text(step.name());
        self.write(at, number, payload)
    }
}

/// What the kernel's tools call it: the exit of Intel's VMX (SDM volume 3, appendix C) that is nearest.
const fn vmx(reason: ExitReason) -> u32 {
    const EXTERNAL_INTERRUPT: u32 = 1;
    const HLT: u32 = 12;
    const VMCALL: u32 = 18;
    const PAUSE: u32 = 40;
    match reason {
        ExitReason::Halt => HLT,
        ExitReason::Pause => PAUSE,
        ExitReason::Signal | ExitReason::Other => EXTERNAL_INTERRUPT,
        ExitReason::Yield
        | ExitReason::Log
        | ExitReason::Preempt
        | ExitReason::End
        | ExitReason::Barrier => VMCALL,
    }
}

fn spool(source: io::Error) -> WriteError {
    WriteError::Write {
        name: "a temporary file for the trace".to_owned(),
        source,
        written: 0,
    }
}

impl Sink for Writer {
    fn event(&mut self, event: &Event) -> Result<(), WriteError> {
        self.progress.event(event)?;
        let (at, vm) = (event.at, event.place.vm);
        let number = self.first[usize::from(vm)] + usize::from(event.place.vcpu);
        match event.what {
            What::Lock { lock, step } => self.lock(at, (vm, number), lock, step),
            What::Switch { cpu, kind } => self.switch(at, number, cpu, kind),
            What::Host(step) => self.host(at, number, step),
            What::Gap { dropped } => {
                self.vcpus[number].contended.clear();
                let payload = Payload::new(format::GAP, Some(number)).whole(dropped);
                self.write(at, number, payload)
            }
        }
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        self.out.write_out()
    }

    fn finish(mut self: Box<Self>, end: End) -> Result<End, WriteError> {
        let end = self.progress.end(end);
        let tasks: String = (self.vcpus.iter().enumerate())
            .map(|(number, vcpu)| format!("{} {}\n", pid(Some(number)), vcpu.name))
            .collect();
        let mut cpus = self.cpus;
        let sizes = cpus.iter_mut().map(|cpu| match &mut cpu.pages {
            Some(pages) => pages.end().map_err(spool),
            None => Ok(0),
        });
        let sizes = sizes.collect::<Result<Vec<u64>, _>>()?;
        let out = &mut self.out;
        section(&mut out.buffer, b"", &tasks);
        count(&mut out.buffer, cpus.len());
        // No options.
        out.buffer.extend(b"options  \0\0\0flyrecord\0");
        let table = 16 * sizes.len() as u64;
        let first = (out.position() + table).next_multiple_of(PAGE as u64);
        let mut at = first;
        for size in sizes {
            out.buffer.extend(at.to_le_bytes());
            out.buffer.extend(size.to_le_bytes());
            at += size;
        }
        let gap = usize::try_from(first - out.position()).unwrap_or(0);
        out.buffer.resize(out.buffer.len() + gap, 0);
        let mut pages = vec![0; 16 * PAGE];
        for from in cpus.iter_mut().filter_map(|cpu| cpu.pages.as_mut()) {
            loop {
                match from.read(&mut pages).map_err(spool)? {
                    0 => break,
                    n => out.buffer.extend(&pages[..n]),
                }
                out.drain()?;
            }
        }
        out.write_out()?;
        Ok(end)
    }
}

/// All that stands before the tasks: who wrote it, and what its events are.
fn head(bytes: &mut Vec<u8>) {
    bytes.extend(b"\x17\x08\x44tracing6\0");
    // Little-endian, 8 bytes a long.
    bytes.extend([0, 8]);
    count(bytes, PAGE);
    section(bytes, b"header_page\0", HEADER_PAGE);
    section(bytes, b"header_event\0", HEADER_EVENT);
    // No events of ftrace itself.
    count(bytes, 0);
    let mut systems: Vec<&str> = FORMATS.iter().map(|format| format.system).collect();
    systems.dedup();
    count(bytes, systems.len());
    for system in systems {
        let of = || FORMATS.iter().filter(|format| format.system == system);
        bytes.extend(system.as_bytes());
        bytes.push(0);
        count(bytes, of().count());
        for format in of() {
            section(bytes, b"", &format.text());
        }
    }
    // No symbols of the kernel, and no formats of its printk.
    count(bytes, 0);
    count(bytes, 0);
}

fn section(bytes: &mut Vec<u8>, name: &[u8], text: &str) {
    bytes.extend(name);
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn count(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}
