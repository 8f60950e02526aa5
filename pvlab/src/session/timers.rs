//! Timers of something that goes on for a while.

use super::Found;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep_until};

/// Longer than anything goes on.
const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// When it ends, and what is done meanwhile, again and again.
pub(crate) struct Timers<const N: usize> {
    end: Pin<Box<Sleep>>,
    every: [Interval; N],
    over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    End,
    /// The timer of that number.
    Tick(usize),
}

impl<const N: usize> Timers<N> {
    /// `length`: how long it goes on from `begun`, if a time says so. `every`: the period of each timer, if it
    /// has any, and what is done with ticks that were missed. The first are the first to be served.
    pub(crate) fn new(
        begun: Instant,
        length: Option<Duration>,
        every: [(Option<Duration>, MissedTickBehavior); N],
    ) -> Self {
        let timer = |(period, missed): (Option<Duration>, _)| {
            let period = period.filter(|period| !period.is_zero()).unwrap_or(NEVER);
            let mut timer = interval_at(Instant::now() + period, period);
            timer.set_missed_tick_behavior(missed);
            timer
        };
        Self {
            end: Box::pin(sleep_until(begun + length.unwrap_or(NEVER))),
            every: every.map(timer),
            over: false,
        }
    }

    /// What is due next; the end once.
    pub(crate) async fn next(&mut self) -> Due {
        let Self { end, every, over } = self;
        poll_fn(|context| {
            if !*over && end.as_mut().poll(context).is_ready() {
                *over = true;
                return Poll::Ready(Due::End);
            }
            let ticked = |timer: &mut Interval| timer.poll_tick(context).is_ready();
            match every.iter_mut().position(ticked) {
                Some(number) => Poll::Ready(Due::Tick(number)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Puts the end off by the time that was lost; whether there was any.
    pub(crate) fn postpone(&mut self, found: Option<Found>) -> bool {
        let lost = found.map_or(Duration::ZERO, |found| found.lost);
        if lost.is_zero() {
            return false;
        }
        let later = self.end.deadline() + lost;
        self.end.as_mut().reset(later);
        self.over = false;
        true
    }
}
