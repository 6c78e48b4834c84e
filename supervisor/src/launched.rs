//! Handles of what was launched. They wait and cancel; dropping one stops nothing.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use fanin_machine::{Command, Launched, PostTarget, Stop, StopTarget, Wanted};
use fanin_protocol::spec::millis;
use fanin_protocol::{Cause, CombinedResult, GroupId, JobId, JobInfo, Lifetime, ResultEntry};

use crate::core::{CallError, Core};
use crate::launcher::Launcher;
use crate::message::Queued;
use crate::offered::Offered;
use crate::output::JobOutput;
use crate::supervisor::Cancelled;
use crate::wait::{self, WaitError};

/// A launched group. Dropping it stops nothing.
#[derive(Debug, Clone)]
pub struct Group {
    launcher: Launcher,
    id: GroupId,
    jobs: Vec<JobId>,
    lifetimes: Vec<Lifetime>,
    created: bool,
    spec_differs: bool,
}

impl Group {
    pub(crate) fn new(launcher: &Launcher, launched: Launched) -> Self {
        let (jobs, lifetimes) = launched.jobs.into_iter().unzip();
        Self {
            launcher: launcher.clone(),
            id: launched.group,
            jobs,
            lifetimes,
            created: launched.created,
            spec_differs: launched.spec_differs,
        }
    }

    /// The group's id; also the key of its wake.
    pub const fn id(&self) -> &GroupId {
        &self.id
    }

    /// Its jobs in launch order.
    pub fn jobs(&self) -> &[JobId] {
        &self.jobs
    }

    /// Which lives of their ids, in the same order.
    pub fn lifetimes(&self) -> &[Lifetime] {
        &self.lifetimes
    }

    /// False where the group was known already and this launch created nothing (J-21).
    pub const fn is_created(&self) -> bool {
        self.created
    }

    /// True where the known group is not what this launch asked for.
    pub const fn is_different(&self) -> bool {
        self.spec_differs
    }

    /// Waits for the combined result and takes it: no wake follows. Without a limit it waits for as long as the
    /// jobs run.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`] once `limit` has passed; the jobs go on. [`WaitError::Voided`] where its parent
    /// ended first: the session was closed, or the job was stopped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future stops no job; the result then comes as a wake.
    pub async fn wait(&self, limit: impl Into<Option<Duration>>) -> Result<GroupResult, WaitError> {
        self.wait_offered(limit).await.map(Offered::take)
    }

    /// As [`Group::wait`], without taking the result: for those who have to hand it on first.
    ///
    /// # Errors
    ///
    /// As [`Group::wait`].
    ///
    /// # Cancel safety
    ///
    /// As [`Group::wait`].
    pub async fn wait_offered(
        &self,
        limit: impl Into<Option<Duration>>,
    ) -> Result<Offered<GroupResult>, WaitError> {
        self.launcher.wait_group_offered(&self.id, limit).await
    }

    /// Stops the jobs that are not over. The group fires once all are.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor is shut down; [`CallError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone, not for the jobs.
    pub async fn cancel(&self) -> Result<(), CallError> {
        self.stop(Cause::User, None).await
    }

    /// As [`Group::cancel`], because the client for whom the jobs ran is gone: they end `cancelled{client_gone}`, by
    /// force after `grace`.
    ///
    /// # Errors
    ///
    /// As [`Group::cancel`].
    ///
    /// # Cancel safety
    ///
    /// As [`Group::cancel`].
    pub async fn client_gone(&self, grace: Duration) -> Result<(), CallError> {
        self.stop(Cause::ClientGone, Some(millis(grace))).await
    }

    async fn stop(&self, cause: Cause, grace_ms: Option<u64>) -> Result<(), CallError> {
        let target = StopTarget::Group(self.id.clone());
        let stop = Stop { target, cause, grace_ms };
        self.launcher.handle().core().submit(Command::Stop(stop)).await.map(drop)
    }
}

/// What a wait for a group returns. It reads as the combined result itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupResult {
    /// The combined result, as it was fixed when the group fired.
    pub result: Arc<CombinedResult>,
    /// The parent had it before, from another wait or a wake.
    pub already_delivered: bool,
}

impl Deref for GroupResult {
    type Target = CombinedResult;

    fn deref(&self) -> &CombinedResult {
        &self.result
    }
}

/// A launched job in this lifetime. Dropping it stops nothing.
#[derive(Debug, Clone)]
pub struct Job {
    launcher: Launcher,
    id: JobId,
    lifetime: Lifetime,
    group: GroupId,
    created: bool,
    spec_differs: bool,
}

impl Job {
    /// The first job of a launch.
    pub(crate) fn new(launcher: &Launcher, launched: Launched) -> Option<Self> {
        let (id, lifetime) = launched.jobs.into_iter().next()?;
        Some(Self {
            launcher: launcher.clone(),
            id,
            lifetime,
            group: launched.group,
            created: launched.created,
            spec_differs: launched.spec_differs,
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.launcher.handle().core()
    }

    /// The job's id.
    pub const fn id(&self) -> &JobId {
        &self.id
    }

    /// Which life of that id.
    pub const fn lifetime(&self) -> Lifetime {
        self.lifetime
    }

    /// Its group.
    pub const fn group(&self) -> &GroupId {
        &self.group
    }

    /// False where the job was known already and this launch created nothing (J-21).
    pub const fn is_created(&self) -> bool {
        self.created
    }

    /// True where the known job is not what this launch asked for.
    pub const fn is_different(&self) -> bool {
        self.spec_differs
    }

    /// This life of the job as it stands, also where its id has another one by now.
    ///
    /// # Errors
    ///
    /// [`CallError`] where the supervisor is busy.
    pub fn info(&self) -> Result<JobInfo, CallError> {
        self.core().job_info(&self.id, Some(self.lifetime))
    }

    /// What is kept of the output of this life. See [`Supervisor::output`](crate::Supervisor::output).
    ///
    /// # Errors
    ///
    /// As [`Job::info`].
    pub fn output(&self) -> Result<JobOutput, CallError> {
        Ok(self.core().find_output(&self.id, self.lifetime)?.source.output())
    }

    /// A follow-up to a running job (J-24): more for its body to do, before it ends. Accepted is `Ok`: the job does not
    /// end well before it has taken it, and where it ends otherwise first, its result counts it as `unanswered`.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotAccepted`](crate::Refusal::NotAccepted) where it does not run, is being stopped, or takes none;
    /// [`CallError`] for others: `too_large`, `inbox_full`, `busy`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone. Dropped there nothing is posted.
    pub async fn extend(&self, text: impl Into<Arc<str>>) -> Result<Queued, CallError> {
        let to = PostTarget::Exact(self.id.clone(), self.lifetime);
        self.launcher.handle().post(to, None, text.into()).await
    }

    /// Waits until this life of the job is over and takes its result.
    ///
    /// # Errors
    ///
    /// As [`Launcher::wait_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`Launcher::wait_all`].
    pub async fn wait(&self, limit: impl Into<Option<Duration>>) -> Result<ResultEntry, WaitError> {
        let wanted = Wanted::Exact(self.launcher.parent().clone(), self.id.clone(), self.lifetime);
        let waited = wait::jobs(self.launcher.handle(), wanted, limit.into()).await?;
        waited.entries.into_iter().next().ok_or(WaitError::Closed)
    }

    /// Stops this lifetime of the job and no other.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotCurrent`](crate::Refusal::NotCurrent) where the id has another lifetime now; [`CallError::Closed`];
    /// [`CallError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone, not for the job.
    pub async fn cancel(&self) -> Result<Cancelled, CallError> {
        self.launcher.handle().cancel(StopTarget::Exact(self.id.clone(), self.lifetime)).await
    }
}
