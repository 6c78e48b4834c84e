//! A run as it is shown while it goes on, and how much patience its signals leave. It never decides what becomes of a
//! task.

use std::io;
use std::pin::pin;

use fanin_protocol::limits::{KILL_SLACK, KILL_WAIT, REDRAW_EVERY};
use fanin_protocol::{GroupId, JobInfo, Status};
use fanin_supervisor::{Session, Supervisor, Wake};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::drive::DriveError;
use crate::obey::Notice;
use crate::progress::Progress;
use crate::signals::Signal;
use crate::view::View;
use crate::watch::Watch;

/// A run as it is shown.
pub(crate) struct Shown<'s> {
    supervisor: &'s Supervisor,
    notices: Receiver<Notice>,
    progress: Progress,
    /// The jobs as they were before, of a run that is gone on with.
    before: Vec<JobInfo>,
    /// The last signal that came in.
    signal: Option<Signal>,
    /// After a third signal, which is kept with it: when the program ends whatever holds it up.
    give_up: Option<(Instant, Signal)>,
}

impl<'s> Shown<'s> {
    pub(crate) const fn new(
        supervisor: &'s Supervisor,
        notices: Receiver<Notice>,
        progress: Progress,
    ) -> Self {
        Self { supervisor, notices, progress, before: Vec::new(), signal: None, give_up: None }
    }

    /// With the jobs of a run that is gone on with, as they were before: what had happened by then is no news.
    pub(crate) fn going_on(mut self, before: Vec<JobInfo>) -> Self {
        self.before = before;
        self
    }

    /// What is there of a run that is gone on with; `None` of one that begins.
    pub(crate) fn goes_on(&self) -> Option<String> {
        let count = |is: fn(&JobInfo) -> bool| self.before.iter().filter(|job| is(job)).count();
        let over = count(|job| job.status.is_terminal());
        let (ran, left) =
            (count(|job| job.status == Status::Running), count(|job| job.status == Status::Queued));
        let words = format!("{over} tasks are over, {ran} ran when it was interrupted, {left} are left");
        (!self.before.is_empty()).then_some(words)
    }

    pub(crate) const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The last signal that came in.
    pub(crate) const fn signal(&self) -> Option<Signal> {
        self.signal
    }

    /// Says something of the program's own.
    pub(crate) fn say(&self, words: &str) {
        self.progress.say(words);
    }

    /// Shows what happens until the group fires.
    pub(crate) async fn until_fired(
        &mut self,
        session: &Session,
        group: &GroupId,
    ) -> Result<Wake, DriveError> {
        let mut watch =
            Watch::begin(self.supervisor, group, View::new(self.before.drain(..)), &self.progress).await?;
        let mut wake = pin!(session.next_wake());
        let mut redraw = interval(REDRAW_EVERY);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                wake = &mut wake => {
                    // The last notices and endings are told before the result is.
                    self.notices();
                    watch.catch_up(&self.progress)?;
                    self.progress.clear();
                    return Ok(wake?);
                }
                Some(notice) = self.notices.recv() => self.notice(notice),
                _ = patience(self.give_up) => {
                    self.progress.clear();
                    return Err(DriveError::StillAlive);
                }
                came = watch.next() => {
                    // A notice comes before what it brought about.
                    self.notices();
                    watch.take(&came, &self.progress)?;
                }
                _ = redraw.tick(), if self.progress.is_live() => watch.draw(&self.progress),
            }
        }
    }

    /// Waits for the end of all patience, and returns the signal that ended it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn patience(&self) -> Signal {
        patience(self.give_up).await
    }

    /// The next signal, whatever it asks for; the end of patience brings the one that set it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a signal that came stays until it is returned.
    pub(crate) async fn next_signal(&mut self) -> Signal {
        loop {
            tokio::select! {
                Some(notice) = self.notices.recv() => {
                    if let Some(signal) = notice.signal() {
                        return signal;
                    }
                }
                signal = patience(self.give_up) => return signal,
            }
        }
    }

    /// Does what may block, beside the runtime. Signals are heard meanwhile; only one after the last that had something to
    /// ask for, or the end of all patience, leaves the work alone.
    ///
    /// # Errors
    ///
    /// The signal that left it alone.
    pub(crate) async fn aside<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<io::Result<T>, Signal> {
        let mut working = tokio::task::spawn_blocking(work);
        loop {
            tokio::select! {
                done = &mut working => return Ok(done.unwrap_or_else(|panic| Err(io::Error::other(panic)))),
                Some(notice) = self.notices.recv() => match notice {
                    Notice::Again(signal) => return Err(signal),
                    Notice::Draining(..) | Notice::DrainOver | Notice::Stopping(..) | Notice::Killing(_) => {
                        self.notice(notice);
                    }
                },
                signal = patience(self.give_up) => return Err(signal),
            }
        }
    }

    /// Shows what notices have come.
    fn notices(&mut self) {
        while let Ok(notice) = self.notices.try_recv() {
            self.notice(notice);
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.signal = notice.signal().or(self.signal);
        if let Some(words) = notice.words() {
            self.progress.note(&words, notice.signal());
        }
        if let Notice::Killing(signal) = notice {
            self.give_up = Some((Instant::now() + KILL_WAIT + KILL_SLACK, signal));
        }
    }
}

/// Waits for the end of all patience, and returns the signal that set it.
async fn patience(give_up: Option<(Instant, Signal)>) -> Signal {
    match give_up {
        Some((at, signal)) => {
            sleep_until(at).await;
            signal
        }
        None => std::future::pending().await,
    }
}
