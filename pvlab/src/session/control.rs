//! The course of a run: launch, warm up, measure, stop; with an eye on signals, deadlines and
//! progress.

use super::run::Run;
use super::spinning::SpinTimes;
use super::{Observer, Options, RunError};
use crate::ending;
use crate::record::Record;
use crate::scenario::{MachineKind, Scenario};
use crate::trace::Collector;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::task::Poll;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The control plane of a run. It lives as long as its thread, so that a Ctrl-C between two runs is noticed
/// by the next.
pub(crate) struct Control {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
}

/// Ends when Ctrl-C is typed, or the process is asked to end.
pub(crate) type Signalled<'a> = Pin<&'a mut dyn Future<Output = ()>>;

/// What comes of `step`, unless Ctrl-C is typed before.
pub(crate) async fn unless<T>(
    signalled: &mut Signalled<'_>,
    step: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    tokio::select! {
        biased;
        () = signalled => Err(RunError::Interrupted),
        done = step => done,
    }
}

thread_local! {
    static REAL: RefCell<Option<Control>> = const { RefCell::new(None) };
    static SIMULATED: RefCell<Option<Control>> = const { RefCell::new(None) };
}

/// Calls `f` with this thread's control plane for that kind of machine.
pub(crate) fn with_control<T>(
    machine: MachineKind,
    f: impl FnOnce(&mut Control) -> Result<T, RunError>,
) -> Result<T, RunError> {
    let simulated = machine.is_simulated();
    let control = if simulated { &SIMULATED } else { &REAL };
    control.with_borrow_mut(|control| match control {
        Some(control) => f(control),
        None => f(control.insert(Control::new(simulated).map_err(RunError::Control)?)),
    })
}

/// Descriptors that the control plane takes: tokio's poller, its waker, its pipe of signals and a second
/// handle of it.
const DESCRIPTORS: usize = 8;

/// An error if there is no room for the control plane's descriptors: tokio panics then, where it sets up
/// its pipe of signals.
fn find_room() -> io::Result<()> {
    let take = |_| rustix::io::fcntl_dupfd_cloexec(io::stderr(), 0);
    let taken: Result<Vec<_>, _> = (0..DESCRIPTORS).map(take).collect();
    taken.map(drop)?;
    // Nor does that say so when it gets no pair of sockets for its pipe of signals.
    UnixStream::pair().map(drop)
}

impl Control {
    /// Of a `simulated` machine the time is virtual: it stands still while there is anything to do, and
    /// goes on to the next timer when there is not, by whole milliseconds. The machine follows it.
    fn new(simulated: bool) -> io::Result<Self> {
        find_room()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(simulated)
            .build()?;
        let guard = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        drop(guard);
        Ok(Self {
            runtime,
            interrupt,
            terminate,
        })
    }

    /// Carries out `course`, which is given what tells it of Ctrl-C.
    pub(crate) fn carry_out<T>(&mut self, course: impl AsyncFnOnce(Signalled<'_>) -> T) -> T {
        let Self {
            runtime,
            interrupt,
            terminate,
        } = self;
        runtime.block_on(async {
            let mut received = pin!(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            });
            // A signal wakes this thread; what it means was noted by its handler. That the reader has gone
            // wakes nobody: it is seen when there is something else to do, which is often.
            let signalled = pin!(poll_fn(|context| {
                if ending::asked() {
                    return Poll::Ready(());
                }
                received.as_mut().poll(context)
            }));
            course(signalled).await
        })
    }

    pub(super) fn run(
        &mut self,
        scenario: &Scenario,
        options: &Options,
        observer: &mut dyn Observer,
        collector: Option<&mut Collector>,
        spin_times: SpinTimes,
    ) -> Result<Record, RunError> {
        self.carry_out(async |mut signalled| {
            let mut run = Run::launch(scenario, spin_times, collector)?;
            unless(&mut signalled, run.prepared()).await?;
            unless(&mut signalled, run.calibrate()).await?;
            run.make_noise()?;
            run.attach();
            observer.phase("warming up");
            let start = unless(&mut signalled, run.warm_up()).await?;
            observer.phase("measuring");
            let from = run.begin_measurement()?;
            let begun = run.when(&from);
            let mut intervals = run.intervals(&from);
            let interrupted = tokio::select! {
                biased;
                () = &mut signalled => true,
                // A simulated machine stands still as soon as it is asked to: that was not all.
                measured = run.measure(begun, options, observer, &mut intervals) => {
                    // An observer may be the first to find that nobody reads.
                    ending::asked() | measured?.is_break()
                }
            };
            observer.phase("stopping");
            let last: Option<(&mut _, &mut dyn Observer)> = match options.stat_interval {
                Some(_) => Some((&mut intervals, observer)),
                None => None,
            };
            run.finish(start, from, interrupted, last).await
        })
    }
}
