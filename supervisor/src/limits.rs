//! Limits that change while what they bind lives. Nothing that runs is stopped by a call of these.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fanin_machine::{Command, Limit, Named, Reply};
use fanin_protocol::spec::millis;
use fanin_protocol::{Account, Budget, JobId, Lifetime};

use crate::core::{CallError, Core};
use crate::launched::Job;
use crate::supervisor::Supervisor;

impl Supervisor {
    /// Sets how many jobs may run at once; `None` for any number. More start at once; where fewer may run, what runs
    /// goes on and nothing starts until enough of it has ended (SC-11).
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor is shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn set_slots(&self, slots: impl Into<Option<NonZeroU32>>) -> Result<(), CallError> {
        let slots = slots.into().map(NonZeroU32::get);
        self.owner.core().submit(Command::Limit(Limit::Slots(slots))).await.map(drop)
    }

    /// Sets bounds of a budget that a session, a group or a job has, to other amounts; what is not set here stays. Only a
    /// person should raise what is used up. What waits for it may start; what has ended stays over, and a budget that is
    /// used up by its new bound stops what runs below it (BU-7).
    ///
    /// # Errors
    ///
    /// [`Refusal::BadLimit`](crate::Refusal::BadLimit) for what it does not bound, or an amount that is none; a refusal
    /// for an id that is not known; [`CallError::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn set_budget(&self, of: &Named, to: Budget) -> Result<(), CallError> {
        let limit = Limit::Budget { of: of.clone(), to };
        self.owner.core().submit(Command::Limit(limit)).await.map(drop)
    }

    /// How the account of a session, a group or a job stands: what it may use, and what it and all below it have used.
    ///
    /// # Errors
    ///
    /// A refusal for an id that is not known; [`CallError::Busy`], [`CallError::Closed`].
    pub fn account(&self, of: &Named) -> Result<Account, CallError> {
        self.owner.core().look(|state| state.account(of))?.map_err(CallError::Refused)
    }

    /// Gives a job in its newest lifetime more time: moves the limit of its run and that of all its runs, whichever it
    /// has. False where it is over or stopping, or has neither (SC-19).
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`](crate::Refusal::UnknownJob); [`Refusal::BadLimit`](crate::Refusal::BadLimit) for no
    /// time, or a limit that would be longer than ten years; [`CallError::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn extend_time(&self, job: &JobId, by: Duration) -> Result<bool, CallError> {
        extend(self.owner.core(), job, None, by).await
    }
}

impl Job {
    /// As [`Supervisor::extend_time`], for this lifetime of the job and no other.
    ///
    /// # Errors
    ///
    /// As there, and [`Refusal::NotCurrent`](crate::Refusal::NotCurrent) where the id has another lifetime now.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn extend_time(&self, by: Duration) -> Result<bool, CallError> {
        extend(self.core(), self.id(), Some(self.lifetime()), by).await
    }
}

async fn extend(
    core: &Arc<Core>,
    job: &JobId,
    lifetime: Option<Lifetime>,
    by: Duration,
) -> Result<bool, CallError> {
    let limit = Limit::Extend { job: job.clone(), lifetime, by_ms: millis(by) };
    match core.submit(Command::Limit(limit)).await? {
        Reply::Extended(extended) => Ok(extended),
        Reply::Done
        | Reply::Turn(_)
        | Reply::Answered
        | Reply::Launched(_)
        | Reply::Stopped(_)
        | Reply::Posted { .. }
        | Reply::Fired { .. }
        | Reply::Promoted(_)
        | Reply::Refused(_) => Err(CallError::Poisoned),
    }
}
