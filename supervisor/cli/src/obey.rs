//! Does what signals ask for, and tells what it did.
//!
//! It is a task of its own and never writes: a pipe or a terminal that takes nothing more may hold the display up, but
//! not the effect of a signal.

use std::time::Duration;

use fanin_protocol::ParentMark;
use fanin_protocol::limits::{DEPTH_MAX, GRACE, GRACE_NOW, SIGNALS_TOLD_MAX};
use fanin_supervisor::Supervisor;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::duration::show;
use crate::signals::{Demand, Escalation, Signal, Signals};

/// What was done, in the order in which it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Nothing new starts; what runs may go on for this long.
    Draining(Signal, Duration),
    /// The time to drain is over: what runs was told to stop.
    DrainOver,
    /// All that lives was told to stop, and is killed after this long.
    Stopping(Signal, Duration),
    /// All that lived was killed.
    Killing(Signal),
    /// A signal came after which nothing was left to do.
    Again(Signal),
}

impl Notice {
    /// The signal that asked for it.
    pub(crate) const fn signal(self) -> Option<Signal> {
        match self {
            Self::DrainOver => None,
            Self::Draining(signal, _)
            | Self::Stopping(signal, _)
            | Self::Killing(signal)
            | Self::Again(signal) => Some(signal),
        }
    }

    /// What to tell people; nothing where nothing was done.
    pub(crate) fn words(self) -> Option<String> {
        match self {
            Self::Draining(_, time) => Some(format!(
                "draining: running tasks may finish ({}), nothing new starts; again to cancel, a third time to kill",
                show(time)
            )),
            Self::DrainOver => Some(format!(
                "the time to drain is over: stopping what still runs ({}), then it is killed",
                show(GRACE)
            )),
            Self::Stopping(_, time) => {
                Some(format!("stopping all tasks ({}), then they are killed; again to kill now", show(time)))
            }
            Self::Killing(_) => Some("killing all tasks".to_owned()),
            Self::Again(_) => None,
        }
    }
}

/// How much time signals leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How long running tasks may go on after a first signal.
    drain: Duration,
    /// Between the polite stop and the forced one, once it is said to stop.
    grace: Duration,
    is_nested: bool,
}

impl Patience {
    /// That of a run, or of one that is nested in a job. Each level has half the time of the one around it: the inner
    /// run has stopped its tasks before the outer one kills it.
    pub(crate) fn new(drain: Duration, parent: Option<&ParentMark>) -> Self {
        let grace = parent.map_or(GRACE_NOW, |parent| GRACE_NOW / (1 << parent.depth.min(DEPTH_MAX)));
        Self { drain, grace, is_nested: parent.is_some() }
    }
}

/// Begins to obey signals.
///
/// Each notice is sent before it takes effect, so that whoever sees the end of a task it stopped finds the notice.
pub(crate) fn obey(signals: Signals, supervisor: Supervisor, patience: Patience) -> mpsc::Receiver<Notice> {
    let (tell, told) = mpsc::channel(SIGNALS_TOLD_MAX);
    let escalation = Escalation::new(patience.is_nested);
    let obeying = Obeying { signals, supervisor, patience, escalation, tell };
    tokio::spawn(obeying.until_nobody_listens());
    told
}

struct Obeying {
    signals: Signals,
    supervisor: Supervisor,
    patience: Patience,
    escalation: Escalation,
    tell: mpsc::Sender<Notice>,
}

impl Obeying {
    async fn until_nobody_listens(mut self) {
        let mut draining: Option<Instant> = None;
        loop {
            tokio::select! {
                () = self.tell.closed() => return,
                signal = self.signals.next() => draining = self.signal(signal, draining),
                () = self.supervisor.drained(), if draining.is_some() => {
                    // What is still queued will never start, and its group waits for it.
                    draining = None;
                    self.supervisor.stop_all(GRACE);
                }
                () = sleep_until(draining.unwrap_or_else(Instant::now)), if draining.is_some() => {
                    draining = None;
                    self.tell(Notice::DrainOver);
                    self.supervisor.stop_all(GRACE);
                }
            }
        }
    }

    /// Does what `signal` asks for; the end of the drain that is on after it.
    fn signal(&mut self, signal: Signal, draining: Option<Instant>) -> Option<Instant> {
        match self.escalation.raise(signal) {
            Some(Demand::Drain) => {
                self.tell(Notice::Draining(signal, self.patience.drain));
                self.supervisor.drain();
                Some(Instant::now() + self.patience.drain)
            }
            Some(Demand::Stop) => {
                self.tell(Notice::Stopping(signal, self.patience.grace));
                self.supervisor.stop_all(self.patience.grace);
                None
            }
            Some(Demand::Kill) => {
                self.tell(Notice::Killing(signal));
                self.supervisor.stop_all(Duration::ZERO);
                None
            }
            None => {
                self.tell(Notice::Again(signal));
                draining
            }
        }
    }

    fn tell(&self, notice: Notice) {
        // The four that did something come first and fit; more signals than that need not be told one by one.
        let _ = self.tell.try_send(notice);
    }
}
