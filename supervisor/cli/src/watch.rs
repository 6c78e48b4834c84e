//! What happens in a group, from the bus to the display. Being late loses nothing: what events it missed it finds by
//! looking at the jobs themselves.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fanin_protocol::limits::GATE_WAIT;
use fanin_protocol::{GroupId, JobInfo};
use fanin_supervisor::{CallError, Delivery, Filter, JobFilter, Since, Subscription, Supervisor};

use crate::drive::DriveError;
use crate::progress::Progress;
use crate::view::{Change, View};

/// The events of a group, and the view they make.
pub(crate) struct Watch<'s> {
    supervisor: &'s Supervisor,
    group: GroupId,
    view: View,
    events: Subscription,
}

impl<'s> Watch<'s> {
    /// Begins to watch, and shows what has happened since the jobs were as in `before`.
    ///
    /// # Errors
    ///
    /// [`DriveError`], where the events or the jobs cannot be had.
    pub(crate) async fn begin(
        supervisor: &'s Supervisor,
        group: &GroupId,
        before: View,
        progress: &Progress,
    ) -> Result<Self, DriveError> {
        // Before the first look at the jobs: an event may then tell what is known, and none is missed.
        let events = supervisor.subscribe(Filter::group(group), Since::Now).await?;
        let mut watch = Self { supervisor, group: group.clone(), view: before, events };
        watch.catch_up(progress)?;
        Ok(watch)
    }

    /// What comes next.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what a dropped future did not return comes with the next call.
    pub(crate) async fn next(&mut self) -> Delivery {
        match self.events.next().await {
            Some(delivery) => delivery,
            // The supervisor has ended; its last word is the group's result, or the error of waiting for it.
            None => std::future::pending().await,
        }
    }

    /// Takes in what came and shows it.
    ///
    /// # Errors
    ///
    /// As [`Watch::catch_up`].
    pub(crate) fn take(&mut self, came: &Delivery, progress: &Progress) -> Result<(), CallError> {
        match came {
            Delivery::Event(event) => {
                if let Some(change) = self.view.apply(event.record(), event.ts_ms()) {
                    self.explain(change);
                    progress.changed(&self.view, change);
                }
                Ok(())
            }
            Delivery::Lagged { .. } | Delivery::Unreadable { .. } => self.catch_up(progress),
        }
    }

    /// Shows all that has happened, whether its events have come or not.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`] where the jobs cannot be looked at for [`GATE_WAIT`].
    pub(crate) fn catch_up(&mut self, progress: &Progress) -> Result<(), CallError> {
        let now = View::new(self.jobs()?);
        let older = std::mem::replace(&mut self.view, now);
        for change in self.view.since(&older) {
            progress.changed(&self.view, change);
        }
        Ok(())
    }

    /// Fetches the words of a failure.
    fn explain(&mut self, change: Change) {
        let Change::Ended(place) = change else { return };
        let Some(line) = self.view.get(place) else { return };
        // Were the job gone, its end would be told without them.
        let message = self.supervisor.get(&line.job).ok().and_then(|job| job.message);
        self.view.explain(place, message);
    }

    fn jobs(&self) -> Result<Vec<JobInfo>, CallError> {
        let mut filter = JobFilter { group: Some(self.group.clone()), ..JobFilter::default() };
        let mut jobs = Vec::new();
        let begun = Instant::now();
        loop {
            let page = match self.supervisor.list(&filter) {
                // A group of a million that fires takes longer than one look waits.
                Err(CallError::Busy) if begun.elapsed() < GATE_WAIT => continue,
                page => page?,
            };
            jobs.extend(page.jobs);
            filter.from = page.next;
            if filter.from.is_none() {
                return Ok(jobs);
            }
        }
    }

    /// Draws how things stand.
    pub(crate) fn draw(&self, progress: &Progress) {
        // A clock before 1970 shows wrong times and does no other harm.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        progress.draw(&self.view, now_ms, |line| {
            self.supervisor.progress(&line.job).map(|said| said.to_string())
        });
    }
}
