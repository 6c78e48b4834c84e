//! A parent: it launches, waits, and is woken.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fanin_machine::{
    Answer, Command, Ended, Launch, Member, Refusal, Reply, Report, RunRef, Said, SessionCommand, Stop,
    StopTarget, Stopped, Wanted,
};
use fanin_protocol::{Cause, CombinedResult, GroupId, JobId, Lifetime, ResultEntry, SessionId};

use crate::chance;
use crate::core::CallError;
use crate::spec::{GroupOptions, JobSpec};
use crate::supervisor::{Cancelled, Owner};
use crate::wait::{self, WaitError, Waited, Waiter};

/// Why nothing was launched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No runner is registered for this kind of job.
    #[error("job {index}: no runner for {kind} jobs; register one with Builder::runner")]
    NoRunner {
        /// Its place in the call, from 0.
        index: usize,
        /// The kind.
        kind: &'static str,
    },
    /// The runner refuses the spec, an unknown agent for one.
    #[error("job {index}: {problem}")]
    Rejected {
        /// Its place in the call, from 0.
        index: usize,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The supervisor refused; nothing exists.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl LaunchError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoRunner { .. } => "no_runner",
            Self::Rejected { .. } => "rejected",
            Self::Call(error) => error.code(),
        }
    }
}

/// A parent. Clones are the same session; dropping them all does not close it.
#[derive(Clone)]
pub struct Session {
    owner: Arc<Owner>,
    id: SessionId,
}

impl Session {
    pub(crate) const fn new(owner: Arc<Owner>, id: SessionId) -> Self {
        Self { owner, id }
    }

    /// The session's id.
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// Begins a turn: until it ends, the session is busy and its wakes are held (W-4). Single launches join the
    /// turn's group, which is sealed when the turn ends.
    ///
    /// # Errors
    ///
    /// [`Refusal::TurnOpen`] where a turn is open; [`Refusal::Draining`] once all was told to stop; [`CallError`]
    /// where the session or the supervisor is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it does not wait.
    pub async fn turn(&self) -> Result<Turn, CallError> {
        match self.owner.core().submit(Command::Session(SessionCommand::Turn(self.id.clone())))? {
            Reply::Turn(run) => Ok(Turn { owner: Arc::clone(&self.owner), run, is_over: false }),
            Reply::Done | Reply::Launched(_) | Reply::Stopped(_) | Reply::Refused(_) => {
                Err(CallError::Poisoned)
            }
        }
    }

    /// Launches one job in the background and returns at once. It joins the group of an open turn; without one it is
    /// a group of its own.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; nothing exists then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it does not wait. Once polled the job exists, and dropping the handle does not stop it.
    pub async fn start(&self, spec: JobSpec) -> Result<Job, LaunchError> {
        let launched = self.launch(GroupOptions::default(), vec![spec], true)?;
        let (id, lifetime) =
            launched.jobs.into_iter().next().ok_or(LaunchError::Call(Refusal::Empty.into()))?;
        Ok(Job {
            session: self.clone(),
            id,
            lifetime,
            group: launched.group,
            created: launched.created,
            spec_differs: launched.spec_differs,
        })
    }

    /// Launches a group in the background and returns at once: all of the jobs exist, or none. The session is woken
    /// once, when all are over.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; nothing exists then.
    ///
    /// # Cancel safety
    ///
    /// As [`Session::start`].
    pub async fn fan_out(&self, specs: impl IntoIterator<Item = JobSpec>) -> Result<Group, LaunchError> {
        self.fan_out_with(GroupOptions::default(), specs).await
    }

    /// As [`Session::fan_out`], with a group id or a policy.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; nothing exists then.
    ///
    /// # Cancel safety
    ///
    /// As [`Session::start`].
    pub async fn fan_out_with(
        &self,
        options: GroupOptions,
        specs: impl IntoIterator<Item = JobSpec>,
    ) -> Result<Group, LaunchError> {
        let launched = self.launch(options, specs.into_iter().collect(), false)?;
        Ok(Group {
            session: self.clone(),
            id: launched.group,
            jobs: launched.jobs.into_iter().map(|(id, _)| id).collect(),
            created: launched.created,
            spec_differs: launched.spec_differs,
        })
    }

    fn launch(
        &self,
        options: GroupOptions,
        specs: Vec<JobSpec>,
        joins_turn: bool,
    ) -> Result<fanin_machine::Launched, LaunchError> {
        let core = self.owner.core();
        for (index, job) in specs.iter().enumerate() {
            let Some(spec) = &job.spec else { continue };
            let kind = spec.kind();
            let runner = core.runner(kind).ok_or(LaunchError::NoRunner { index, kind: kind.as_str() })?;
            spec.check().map_err(|error| LaunchError::Rejected { index, problem: error.to_string() })?;
            runner.check(spec).map_err(|problem| LaunchError::Rejected { index, problem })?;
        }
        let members: Vec<Member> = {
            let mut hosted = core.hosted.lock();
            specs
                .into_iter()
                .map(|job| Member {
                    is_fresh: job.id.is_none(),
                    id: job.id.unwrap_or_else(chance::job_id),
                    label: job.label,
                    spec: job.spec,
                    limits: job.limits,
                    tag: hosted.keep(job.body),
                })
                .collect()
        };
        let tags: Vec<u64> = members.iter().map(|member| member.tag).collect();
        let launch = Launch {
            session: self.id.clone(),
            group: options.id.unwrap_or_else(chance::group_id),
            joins_turn,
            policy: options.policy,
            members,
        };
        let launched = match core.submit(Command::Launch(launch)) {
            Ok(Reply::Launched(launched)) => Ok(launched),
            Ok(Reply::Done | Reply::Turn(_) | Reply::Stopped(_) | Reply::Refused(_)) => {
                Err(CallError::Poisoned)
            }
            Err(error) => Err(error),
        };
        if launched.as_ref().map_or(true, |launched| !launched.created) {
            // Nothing of this call exists, so nothing of it is kept.
            let unused: Vec<_> = {
                let mut hosted = core.hosted.lock();
                tags.into_iter().map(|tag| hosted.forget(tag)).collect()
            };
            drop(unused);
        }
        Ok(launched?)
    }

    /// Waits until all of these jobs are over, and takes their results: they will not be part of a wake again.
    /// Without a limit it waits for as long as they run.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`] once `limit` has passed; the jobs go on. [`WaitError::Call`] for an unknown or
    /// repeated id or an empty list.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future stops no job; the results then come as a wake.
    pub async fn wait_all(
        &self,
        jobs: &[JobId],
        limit: impl Into<Option<Duration>>,
    ) -> Result<Waited, WaitError> {
        let wanted = Wanted::All(self.id.clone(), jobs.to_vec());
        wait::jobs(&self.owner, wanted, limit.into()).await
    }

    /// Waits until the first of these jobs is over, and takes the results of those that are. Not a wait for all:
    /// that is [`Session::wait_all`].
    ///
    /// # Errors
    ///
    /// As [`Session::wait_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`Session::wait_all`].
    pub async fn wait_any(
        &self,
        jobs: &[JobId],
        limit: impl Into<Option<Duration>>,
    ) -> Result<Waited, WaitError> {
        let wanted = Wanted::Any(self.id.clone(), jobs.to_vec());
        wait::jobs(&self.owner, wanted, limit.into()).await
    }

    /// The next wake: the result of a group whose jobs are all over, once. While a turn is open it waits for the end
    /// of the turn.
    ///
    /// # Errors
    ///
    /// [`WaitError::Closed`] where the session or the supervisor is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future, or the wake without [`Wake::ack`], leaves the wake owed.
    pub async fn next_wake(&self) -> Result<Wake, WaitError> {
        let mut waiter = Waiter::begin(&self.owner, Wanted::Wake(self.id.clone()))?;
        match waiter.answer().await? {
            Answer::Wake(result) => Ok(Wake { result, waiter }),
            Answer::Jobs { .. } | Answer::Group { .. } | Answer::Voided | Answer::Idle | Answer::Closed => {
                Err(WaitError::Closed)
            }
        }
    }

    /// Closes the session: groups that have not fired are void, their jobs are stopped, and owed wakes are dropped.
    /// Closing it again does nothing.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor is shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it does not wait for the jobs.
    pub async fn close(&self) -> Result<(), CallError> {
        self.owner.core().submit(Command::Session(SessionCommand::Close(self.id.clone()))).map(drop)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An open turn: its session is busy. Its drop ends it.
pub struct Turn {
    owner: Arc<Owner>,
    run: RunRef,
    is_over: bool,
}

impl Turn {
    /// Ends the turn. The same as dropping it, with an answer.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor is shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it does not wait, and a drop ends the turn as well.
    pub async fn end(mut self) -> Result<(), CallError> {
        self.is_over = true;
        self.report()
    }

    fn report(&self) -> Result<(), CallError> {
        let what = Said::Ended(Ended::Completed { output: None, exit: None });
        self.owner.core().submit(Command::Report(Report { run: self.run, what })).map(drop)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            // Refused only where the supervisor is closed: then no turn is open.
            drop(self.report());
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("run", &self.run.fence).finish_non_exhaustive()
    }
}

/// A launched group. Dropping it stops nothing.
#[derive(Debug, Clone)]
pub struct Group {
    session: Session,
    id: GroupId,
    jobs: Vec<JobId>,
    created: bool,
    spec_differs: bool,
}

impl Group {
    /// The group's id; also the key of its wake.
    pub const fn id(&self) -> &GroupId {
        &self.id
    }

    /// Its jobs in launch order.
    pub fn jobs(&self) -> &[JobId] {
        &self.jobs
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
    /// [`WaitError::TimedOut`] once `limit` has passed; the jobs go on. [`WaitError::Voided`] where the session was
    /// closed first.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future stops no job; the result then comes as a wake.
    pub async fn wait(&self, limit: impl Into<Option<Duration>>) -> Result<Arc<CombinedResult>, WaitError> {
        let mut waiter = Waiter::begin(&self.session.owner, Wanted::Group(self.id.clone()))?;
        match waiter.answer_within(limit.into()).await? {
            Answer::Group { result, .. } => {
                waiter.take()?;
                Ok(result)
            }
            Answer::Voided => Err(WaitError::Voided),
            Answer::Jobs { .. } | Answer::Wake(_) | Answer::Idle | Answer::Closed => Err(WaitError::Closed),
        }
    }

    /// Stops the jobs that are not over. The group fires once all are.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor is shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it does not wait for the jobs.
    pub async fn cancel(&self) -> Result<(), CallError> {
        let target = StopTarget::Group(self.id.clone());
        let stop = Stop { target, cause: Cause::User, grace_ms: None };
        self.session.owner.core().submit(Command::Stop(stop)).map(drop)
    }
}

/// A launched job in this lifetime. Dropping it stops nothing.
#[derive(Debug, Clone)]
pub struct Job {
    session: Session,
    id: JobId,
    lifetime: Lifetime,
    group: GroupId,
    created: bool,
    spec_differs: bool,
}

impl Job {
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

    /// Waits until the job is over and takes its result.
    ///
    /// # Errors
    ///
    /// As [`Session::wait_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`Session::wait_all`].
    pub async fn wait(&self, limit: impl Into<Option<Duration>>) -> Result<ResultEntry, WaitError> {
        let waited = self.session.wait_all(std::slice::from_ref(&self.id), limit).await?;
        waited.entries.into_iter().next().ok_or(WaitError::Closed)
    }

    /// Stops this lifetime of the job and no other.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotCurrent`] where the id has another lifetime now; [`CallError::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it does not wait for the job.
    pub async fn cancel(&self) -> Result<Cancelled, CallError> {
        self.session.owner.cancel(StopTarget::Exact(self.id.clone(), self.lifetime))
    }
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

/// A wake: the result of a group, handed to its parent. Dropped without [`Wake::ack`] it is given back and comes
/// again.
#[must_use = "a wake that is not acknowledged comes again"]
pub struct Wake {
    result: Arc<CombinedResult>,
    waiter: Waiter,
}

impl Wake {
    /// The combined result, in launch order. What a wait took before is marked as a reference.
    pub fn result(&self) -> &CombinedResult {
        &self.result
    }

    /// Takes the wake: it is delivered, and never comes again.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor was shut down meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it does not wait.
    pub async fn ack(self) -> Result<Arc<CombinedResult>, CallError> {
        let Self { result, waiter } = self;
        waiter.acknowledge()?;
        Ok(result)
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake").field("group", &self.result.group).finish_non_exhaustive()
    }
}
