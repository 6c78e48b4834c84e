//! The supervisor as its user holds it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fanin_bus::{Filter, Since, Snapshot, SubscribeError, Subscription};
use fanin_machine::{
    Close, Command, GroupInfo, JobFilter, PostTarget, Refusal, SessionCommand, SessionOpen, StopTarget,
    Stopped, Wanted, why,
};
use fanin_protocol::limits::KILL_WAIT;
use fanin_protocol::spec::millis;
use fanin_protocol::{
    About, Cursor, GroupId, IdError, JobId, JobInfo, JobList, Lifetime, ParentMark, Reason, Seq, SessionId,
    Status,
};
use tokio::task::AbortHandle;

use crate::builder::Builder;
use crate::core::{CallError, Core};
use crate::handle::Handle;
use crate::launcher::Launcher;
use crate::mailbox::Mailbox;
use crate::message::Queued;
use crate::output::JobOutput;
use crate::session::{Session, SessionOptions};
use crate::token::{self, KnownRun, Standing};
use crate::wait::Waiter;

/// Why a session could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The text is no id.
    #[error("session: {0}")]
    Id(#[from] IdError),
    /// The supervisor refused.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl SessionError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Id(_) => "bad_id",
            Self::Call(error) => error.code(),
        }
    }
}

/// What a cancel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The job was told to stop and will end.
    Stopping,
    /// It had not started and is over now.
    Ended,
    /// It was over before, as this; that stays.
    AlreadyEnded(Status),
}

impl From<Stopped> for Cancelled {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Stopping => Self::Stopping,
            Stopped::Ended => Self::Ended,
            Stopped::AlreadyEnded(status) => Self::AlreadyEnded(status),
        }
    }
}

/// How a supervisor stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standings {
    /// The newest record.
    pub head: Cursor,
    /// Runs of jobs that are open: the slots in use.
    pub running: u32,
    /// Jobs that wait for their first start.
    pub queued: u32,
    /// Groups that have neither fired nor been voided.
    pub open_groups: usize,
}

/// A supervisor of background jobs. Clones are the same supervisor.
///
/// Without a journal everything is in memory, and ends with the process. With one ([`Builder::journal`]) a later
/// supervisor goes on with what it finds there.
///
/// [`Supervisor::shutdown`] is the orderly end. When the last handle of any kind is dropped without it, all tasks are
/// aborted at once and nothing more is recorded (SC-6).
#[derive(Clone)]
pub struct Supervisor {
    pub(crate) owner: Arc<Owner>,
}

/// What all handles share: its drop is the supervisor's.
pub(crate) struct Owner {
    core: Arc<Core>,
    alarm: AbortHandle,
    /// What a session gets that sets nothing.
    sessions: SessionOptions,
}

impl Owner {
    pub(crate) fn new(core: Arc<Core>, sessions: SessionOptions) -> Self {
        let alarm = core.scope.spawn(Arc::clone(&core).ring());
        // It ends with the log.
        core.scope.spawn(Arc::clone(&core).herald());
        Self { core, alarm, sessions }
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.alarm.abort();
        self.core.abandon();
    }
}

impl Supervisor {
    /// A supervisor to be set up. Nothing set: in memory, closures only, no files.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle::of(Arc::clone(&self.owner))
    }

    /// Opens a session, or finds it open.
    ///
    /// # Errors
    ///
    /// [`SessionError`] where the id is none, the session or the supervisor is closed, or the supervisor is busy.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn session<I>(&self, id: I) -> Result<Session, SessionError>
    where
        I: TryInto<SessionId>,
        IdError: From<I::Error>,
    {
        self.session_with(id, SessionOptions::default()).await
    }

    /// As [`Supervisor::session`], with a profile or bounds of its own. A session that is open already keeps those it
    /// has.
    ///
    /// # Errors
    ///
    /// As [`Supervisor::session`]; [`Refusal::BadBounds`](crate::Refusal::BadBounds) where nothing could be launched under these.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn session_with<I>(&self, id: I, options: SessionOptions) -> Result<Session, SessionError>
    where
        I: TryInto<SessionId>,
        IdError: From<I::Error>,
    {
        let id = id.try_into().map_err(IdError::from)?;
        let (profile, bounds) = options.or(self.owner.sessions);
        let open = SessionOpen { id: id.clone(), profile, bounds };
        self.owner.core().submit(Command::Session(SessionCommand::Open(open))).await?;
        Ok(Session::new(Arc::clone(&self.owner), id))
    }

    /// A handle of a session that was opened before, whoever did. Nothing is opened: where it is not known, or is closed,
    /// each call of the handle says so.
    pub fn opened(&self, id: SessionId) -> Session {
        Session::new(Arc::clone(&self.owner), id)
    }

    /// The newest record, and how much there is to do: all in one look.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`].
    pub fn standings(&self) -> Result<Standings, CallError> {
        let core = self.owner.core();
        core.look(|state| Standings {
            head: Cursor { log: core.log.id().clone(), seq: state.facts().head() },
            running: state.running(),
            queued: state.queued(),
            open_groups: state.open_groups().count(),
        })
    }

    /// The newest place of the log that is kept: what a call did that has returned is in the records up to here.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`].
    pub fn newest(&self) -> Result<Seq, CallError> {
        let core = self.owner.core();
        match core.committed_head() {
            Some(head) => Ok(head),
            None => core.look_now(|state| state.facts().head()),
        }
    }

    /// A job as it stands.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`](crate::Refusal::UnknownJob); [`CallError::Busy`].
    pub fn get(&self, job: &JobId) -> Result<JobInfo, CallError> {
        self.owner.core().job_info(job, None)
    }

    /// A job in one of its lives, also where its id has another one by now.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`](crate::Refusal::UnknownJob) where the id is not known, or never had this life; [`CallError::Busy`].
    pub fn get_exact(&self, job: &JobId, lifetime: Lifetime) -> Result<JobInfo, CallError> {
        self.owner.core().job_info(job, Some(lifetime))
    }

    /// Jobs, oldest first, a page at a time: all lives of each id. A page that follows another by its `next` repeats
    /// none of it and skips nothing, whatever begins or ends meanwhile.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`].
    pub fn list(&self, filter: &JobFilter) -> Result<JobList, CallError> {
        self.owner.core().look(|state| state.jobs(filter))
    }

    /// What a job waits for; empty once it is over.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`](crate::Refusal::UnknownJob); [`CallError::Busy`].
    pub fn why(&self, job: &JobId) -> Result<Vec<Reason>, CallError> {
        self.get(job).map(|info| info.why)
    }

    /// A group as it stands, also where it has left the memory for the store.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownGroup`](crate::Refusal::UnknownGroup); [`CallError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn group(&self, group: &GroupId) -> Result<GroupInfo, CallError> {
        let core = self.owner.core();
        match core.look(|state| state.group_info(group))? {
            Some(info) => Ok(info),
            None => core.past_group(group, Refusal::UnknownGroup(group.clone())).await,
        }
    }

    /// What a group or its wake waits for; empty once nothing is owed.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`].
    pub fn why_group(&self, group: &GroupId) -> Result<Vec<Reason>, CallError> {
        self.owner.core().look(|state| why::group(state, group))
    }

    /// What is kept of a job's output, so far where it is not over: that of its newest run, start and end up to its
    /// bound; of old jobs, where it would be too much, the excerpt of their record. [`Supervisor::read_output`] reads it
    /// in parts, and [`Supervisor::follow`] as it comes.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`](crate::Refusal::UnknownJob); [`CallError::Busy`].
    pub fn output(&self, job: &JobId) -> Result<JobOutput, CallError> {
        let core = self.owner.core();
        let lifetime = core.lifetime_of(job)?;
        Ok(core.find_output(job, lifetime)?.source.output())
    }

    /// The latest line of progress of a running job; `None` as well where the supervisor is busy.
    pub fn progress(&self, job: &JobId) -> Option<Arc<str>> {
        self.owner.core().run_of(job).ok()??.progress()
    }

    /// The run that a token is of, while that run lives ([`RunContext::token`](crate::RunContext::token)): `None` for every
    /// other text, also for the token of a run that has ended, or that another has followed.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`]: whether it is a token is not known.
    pub fn run_of(&self, token: &str) -> Result<Option<KnownRun>, CallError> {
        let Some(job) = token::job_of(token) else { return Ok(None) };
        self.living(&job, |standing, _| standing.is_proven_by(&job, token))
    }

    /// The run of a job that a mark names, while one lives: for a caller without a token that is known by its process. The
    /// mark proves nothing, so it has to come from where nobody can have forged it.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`].
    pub fn run_in(&self, mark: &ParentMark) -> Result<Option<KnownRun>, CallError> {
        self.living(&mark.job, |standing, lifetime| {
            (standing.session(), lifetime) == (&mark.session, mark.lifetime)
        })
    }

    /// The parent that a run is: what is launched by it hangs below the run's job. `None` once the run is over.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`].
    pub fn launcher_of(&self, run: &KnownRun) -> Result<Option<Launcher>, CallError> {
        let cell = self.owner.core().run_of(&run.job)?.filter(|cell| cell.lifetime == run.lifetime);
        Ok(cell.map(|cell| cell.launcher().clone()))
    }

    /// The mail of a run, while it lives: for whoever lets in a program that is part of it. `None` where it is over or has
    /// no mail.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`].
    pub fn mailbox(&self, run: &KnownRun) -> Result<Option<Mailbox>, CallError> {
        let cell = self.owner.core().run_of(&run.job)?;
        Ok(cell.filter(|cell| cell.run.fence == run.fence && run.has_mail).map(Mailbox::new))
    }

    /// As [`Builder::mail_at`], for a host whose first jobs with mail came later. The first word holds: true where this was
    /// it. Runs that have begun before do not know of it.
    pub fn mail_at(&self, path: impl Into<Arc<str>>) -> bool {
        self.owner.core().mail_at.set(path.into()).is_ok()
    }

    /// The run of this job that lives, where it is the one that is looked for.
    fn living(
        &self,
        job: &JobId,
        is_it: impl FnOnce(&Standing, Lifetime) -> bool,
    ) -> Result<Option<KnownRun>, CallError> {
        let Some(cell) = self.owner.core().run_of(job)? else { return Ok(None) };
        let standing = cell.standing.as_deref().filter(|standing| is_it(standing, cell.lifetime));
        // After it was compared: one that ends meanwhile has ended.
        let living = standing.filter(|standing| !standing.is_over());
        Ok(living.map(|standing| standing.known(job, cell.lifetime, cell.run.fence)))
    }

    /// Follows the records: those that the filter lets through, in order, from a place of the subscriber's own. A slow
    /// one costs only itself: with a journal it catches up from there and misses nothing that is kept, without one it is
    /// told exactly how many it missed.
    ///
    /// # Errors
    ///
    /// [`SubscribeError`] for a cursor of another log or above the newest record, or a filter that cannot be used.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it does not wait.
    pub async fn subscribe(&self, filter: Filter, since: Since) -> Result<Subscription, SubscribeError> {
        let core = self.owner.core();
        let log = Arc::clone(&core.log);
        let pages = core.pages();
        let subscription = match since {
            // What was decided is a place of the log, also where it is still on its way there.
            Since::Cursor(Cursor { log: id, seq })
                if id == *log.id()
                    && seq > log.head()
                    && seq
                        <= core.look(|state| state.facts().head()).map_err(|_| SubscribeError::Busy)? =>
            {
                Subscription::after(log, seq, filter)
            }
            since => Subscription::new(log, filter, since),
        };
        Ok(subscription?.over(pages))
    }

    /// How things stand now, and what follows: jobs that are not over and groups that have not fired, and a
    /// subscription to each later record, without a hole or a duplicate between the two (B46).
    ///
    /// # Errors
    ///
    /// [`SubscribeError::Filter`] where the filter cannot be used; [`SubscribeError::Busy`].
    pub fn snapshot(&self, filter: Filter) -> Result<(Snapshot, Subscription), SubscribeError> {
        filter.check()?;
        let core = self.owner.core();
        let looked = core.look(|state| {
            let jobs = state.live_jobs().filter(|job| filter.covers(&about(job))).collect();
            let groups = state.open_groups().filter(|group| filter.covers(group));
            (state.facts().head(), jobs, groups.filter_map(|group| group.group().cloned()).collect())
        });
        let (head, jobs, groups) = looked.map_err(|_| SubscribeError::Busy)?;
        let at = Cursor { log: core.log.id().clone(), seq: head };
        let events = Subscription::after(Arc::clone(&core.log), head, filter)?.over(core.pages());
        Ok((Snapshot { at, jobs, groups }, events))
    }

    /// Stops a job in its newest lifetime: politely, and by force once its grace is over. A job that has not started
    /// is over at once; one that is over stays as it is.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`](crate::Refusal::UnknownJob); [`CallError::Closed`] where the supervisor is shut down; [`CallError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone, not for the job.
    pub async fn cancel(&self, job: &JobId) -> Result<Cancelled, CallError> {
        self.handle().cancel(StopTarget::Job(job.clone())).await
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
    pub async fn extend(&self, job: &JobId, text: impl Into<Arc<str>>) -> Result<Queued, CallError> {
        self.handle().post(PostTarget::Job(job.clone()), None, text.into()).await
    }

    /// As [`Supervisor::cancel`], for this life of the job and no other: a late call cannot hit the next one.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotCurrent`](crate::Refusal::NotCurrent) where the id has another life now; else as [`Supervisor::cancel`].
    ///
    /// # Cancel safety
    ///
    /// As [`Supervisor::cancel`].
    pub async fn cancel_exact(&self, job: &JobId, lifetime: Lifetime) -> Result<Cancelled, CallError> {
        self.handle().cancel(StopTarget::Exact(job.clone(), lifetime)).await
    }

    /// As [`Supervisor::extend`], for this life of the job and no other.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotCurrent`](crate::Refusal::NotCurrent) where the id has another life now; else as [`Supervisor::extend`].
    ///
    /// # Cancel safety
    ///
    /// As [`Supervisor::extend`].
    pub async fn extend_exact(
        &self,
        job: &JobId,
        lifetime: Lifetime,
        text: impl Into<Arc<str>>,
    ) -> Result<Queued, CallError> {
        self.handle().post(PostTarget::Exact(job.clone(), lifetime), None, text.into()).await
    }

    /// Stops a job, one life of a job, or all members of a group: what became of each, in launch order. `grace` stands in
    /// for each job's own; zero stops by force at once.
    ///
    /// # Errors
    ///
    /// As [`Supervisor::cancel_exact`]; [`Refusal::UnknownGroup`](crate::Refusal::UnknownGroup).
    ///
    /// # Cancel safety
    ///
    /// As [`Supervisor::cancel`].
    pub async fn stop(
        &self,
        what: StopTarget,
        grace: impl Into<Option<Duration>>,
    ) -> Result<Vec<(JobId, Cancelled)>, CallError> {
        let stopped = self.handle().stop(what, grace.into().map(millis)).await?;
        Ok(stopped.into_iter().map(|(job, stopped)| (job, stopped.into())).collect())
    }

    /// Refuses launches and starts nothing more from now on; what runs goes on. [`Supervisor::drained`] waits for it.
    pub fn drain(&self) {
        self.owner.core().post(Command::Close(Close::Drain));
    }

    /// Waits until no job runs.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn drained(&self) {
        loop {
            match Waiter::begin(&self.handle(), Wanted::Idle).await {
                Err(CallError::Busy) => {}
                // An answer, and the end of the supervisor, are both the time when nothing runs.
                Err(_) => return,
                Ok(mut waiter) => return drop(waiter.answer().await),
            }
        }
    }

    /// Drains, ends open turns, and stops all that lives with the cause `shutdown`. `grace` stands in for each job's
    /// own; zero stops by force at once. A later call with a shorter grace brings the forced stop forward.
    pub fn stop_all(&self, grace: impl Into<Option<Duration>>) {
        let grace_ms = grace.into().map(millis);
        self.owner.core().post(Command::Close(Close::Stop { grace_ms, keep: false }));
    }

    /// As the stop of [`Supervisor::shutdown`], which it does not wait for, with another grace: what a later supervisor
    /// can go on with is left to it.
    pub fn stop_and_keep(&self, grace: impl Into<Option<Duration>>) {
        let core = self.owner.core();
        let grace_ms = grace.into().map(millis);
        core.post(Command::Close(Close::Stop { grace_ms, keep: core.has_store() }));
    }

    /// Shuts down in order: nothing new starts, what lives is stopped, its endings are recorded, subscribers see the
    /// end. Calling it again waits for the same end.
    ///
    /// Bounded by the longest grace and [`KILL_WAIT`]: what does not end by then is recorded as `unreaped`. Wakes
    /// that nobody took are gone with the memory they are in.
    ///
    /// Over a store the next supervisor goes on: what is owed stays owed, queued jobs stay queued, and running ones with
    /// [`Resume::Rerun`](crate::protocol::Resume::Rerun) are queued again, but for closures, and what is below a job. To leave nothing to it, call
    /// [`Supervisor::stop_all`] before.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: once polled the jobs are stopped; dropping the future only leaves the last record to a later
    /// call.
    pub async fn shutdown(&self) {
        let core = self.owner.core();
        let keep = core.has_store();
        core.post(Command::Close(Close::Stop { grace_ms: None, keep }));
        self.drained().await;
        // Refused only where another call has written the last record before.
        core.post(Command::Close(Close::Finish));
        self.owner.alarm.abort();
        core.abandon();
        // What settled as `unreaped` may hold its thread for ever; its task is aborted and nothing waits for it.
        if tokio::time::timeout(KILL_WAIT, core.scope.wait()).await.is_err() {
            tracing::warn!(tasks = core.scope.len(), "tasks that do not yield outlive the supervisor");
        }
        core.store_over().await;
    }
}

/// What a filter sees of a job.
fn about(job: &JobInfo) -> About {
    let within = About::of(Some(job.session.clone()), Some(job.group.clone()));
    About { job: Some(job.job.clone()), ..within }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Supervisor").field(self.owner.core()).finish()
    }
}
