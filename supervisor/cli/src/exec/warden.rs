//! What ends a hosted parent before it is done: signals, and the time that it may take. It is a task of its own and never
//! writes, so that nothing that takes its time holds the effect of a signal up.

use std::sync::Arc;
use std::time::Duration;

use fanin_protocol::limits::{GRACE, GRACE_NOW};
use fanin_supervisor::{StopSignal, StopStage, Supervisor};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::signals::{Demand, Escalation, Signal, Signals};

/// What cut it short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The time that it may take is over.
    Deadline,
    /// A signal asked for its end, and what was left to finish did not in time.
    Signal(Signal),
}

/// Ends what is told to.
pub(crate) struct Warden {
    pub(crate) signals: Signals,
    pub(crate) supervisor: Supervisor,
    /// The agent's.
    pub(crate) stop: Arc<StopSignal>,
    /// When all has to be over.
    pub(crate) deadline: Option<Instant>,
    /// After a first signal: how long what runs may go on.
    pub(crate) drain: Duration,
    pub(crate) is_nested: bool,
    pub(crate) say: Box<dyn Fn(&str) + Send>,
}

impl Warden {
    /// Begins to watch; what cut it short can be seen as soon as it takes effect.
    pub(crate) fn begin(self) -> watch::Receiver<Option<Cut>> {
        let (cut, is_cut) = watch::channel(None);
        tokio::spawn(self.watch(cut));
        is_cut
    }

    async fn watch(mut self, cut: watch::Sender<Option<Cut>>) {
        let mut escalation = Escalation::new(self.is_nested);
        // When patience ends, and for what reason; first the time of the whole.
        let mut due = self.deadline.map(|at| (at, Cut::Deadline));
        loop {
            let at = due.map(|(at, _)| at);
            tokio::select! {
                () = cut.closed() => return,
                signal = self.signals.next() => match escalation.raise(signal) {
                    Some(Demand::Drain) => {
                        (self.say)("draining: what runs may finish, nothing new is launched; again to stop");
                        self.supervisor.drain();
                        let end = Instant::now() + self.drain;
                        if due.is_none_or(|(at, _)| at > end) {
                            due = Some((end, Cut::Signal(signal)));
                        }
                    }
                    Some(Demand::Stop) => due = self.stop(&cut, Cut::Signal(signal), GRACE_NOW),
                    Some(Demand::Kill) => {
                        cut.send_if_modified(|cut| cut.replace(Cut::Signal(signal)).is_none());
                        due = None;
                        self.force();
                    }
                    None => {}
                },
                () = sleep_until(at.unwrap_or_else(Instant::now)), if at.is_some() => {
                    let is_cut = cut.borrow().is_some();
                    due = match due.take() {
                        Some((_, why)) if !is_cut => self.stop(&cut, why, GRACE),
                        Some(_) | None => {
                            self.force();
                            None
                        }
                    };
                }
            }
        }
    }

    /// Stops all politely; when force follows.
    fn stop(&self, cut: &watch::Sender<Option<Cut>>, why: Cut, grace: Duration) -> Option<(Instant, Cut)> {
        // The first reason is the one that counts.
        cut.send_if_modified(|cut| cut.is_none() && cut.replace(why).is_none());
        (self.say)(match why {
            Cut::Deadline => "its time is over: the agent's turn and all jobs are stopped",
            Cut::Signal(_) => "stopping the agent's turn and all jobs; again to kill now",
        });
        // The agent first: it launches nothing in the place of what goes.
        self.stop.raise(StopStage::Polite);
        self.supervisor.stop_all(grace);
        Some((Instant::now() + grace, why))
    }

    fn force(&self) {
        self.stop.raise(StopStage::Forced);
        self.supervisor.stop_all(Duration::ZERO);
    }
}
