//! A parent: it launches, waits, and is woken.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fanin_machine::{Answer, Command, Launch, Launched, Member, Refusal, Reply, SessionCommand, Wanted};
use fanin_protocol::{JobId, SessionId};

use crate::body::discard;
use crate::chance;
use crate::core::{CallError, Core};
use crate::launched::{Group, Job};
use crate::spec::{GroupOptions, JobSpec};
use crate::supervisor::Owner;
use crate::turn::Turn;
use crate::wait::{self, WaitError, Waited, Waiter};
use crate::wake::Wake;

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

    pub(crate) const fn owner(&self) -> &Arc<Owner> {
        &self.owner
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
    /// where the session or the supervisor is closed, or busy.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn turn(&self) -> Result<Turn, CallError> {
        match self.owner.core().submit(Command::Session(SessionCommand::Turn(self.id.clone()))).await? {
            Reply::Turn(run) => Ok(Turn::new(Arc::clone(&self.owner), run)),
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
    /// Cancel safe: it waits for the gate alone. Dropped there nothing exists; once it has returned, dropping the handle
    /// does not stop the job.
    pub async fn start(&self, spec: JobSpec) -> Result<Job, LaunchError> {
        let launched = self.launch(GroupOptions::default(), vec![spec], true).await?;
        Job::new(self, launched).ok_or(LaunchError::Call(Refusal::Empty.into()))
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
        let launched = self.launch(options, specs.into_iter().collect(), false).await?;
        Ok(Group::new(self, launched))
    }

    async fn launch(
        &self,
        options: GroupOptions,
        specs: Vec<JobSpec>,
        joins_turn: bool,
    ) -> Result<Launched, LaunchError> {
        let core = self.owner.core();
        for (index, job) in specs.iter().enumerate() {
            let Some(spec) = &job.spec else { continue };
            let kind = spec.kind();
            let runner = core.runner(kind).ok_or(LaunchError::NoRunner { index, kind: kind.as_str() })?;
            spec.check().map_err(|error| LaunchError::Rejected { index, problem: error.to_string() })?;
            runner.check(spec).map_err(|problem| LaunchError::Rejected { index, problem })?;
        }
        let (mut kept, members) = Kept::of(core, specs);
        let launch = Launch {
            session: self.id.clone(),
            is_fresh: options.id.is_none(),
            group: options.id.unwrap_or_else(chance::group_id),
            joins_turn,
            policy: options.policy,
            members,
        };
        match core.submit(Command::Launch(launch)).await? {
            Reply::Launched(launched) => {
                if launched.created {
                    kept.tags.clear();
                }
                Ok(launched)
            }
            Reply::Done | Reply::Turn(_) | Reply::Stopped(_) | Reply::Refused(_) => {
                Err(CallError::Poisoned.into())
            }
        }
    }

    /// Waits until all of these jobs are over, and takes their results: they will not be part of a wake again. Jobs
    /// of another session are looked at, and their results stay owed to it.
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

    /// The next wake: the result of a group whose jobs are all over, once. `tokio::time::timeout` gives it a limit. While a turn is open it waits for the end
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
        let mut waiter = Waiter::begin(&self.owner, Wanted::Wake(self.id.clone())).await?;
        match waiter.answer().await? {
            Answer::Wake(result) => Ok(Wake::new(result, waiter)),
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
    /// [`CallError::Closed`] where the supervisor is shut down; [`CallError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone, not for the jobs.
    pub async fn close(&self) -> Result<(), CallError> {
        let close = SessionCommand::Close(self.id.clone());
        self.owner.core().submit(Command::Session(close)).await.map(drop)
    }
}

/// Bodies that the host keeps for a launch that is not accepted yet. Where nothing comes of it, or it is dropped at the
/// gate, nothing of it is kept.
struct Kept {
    core: Arc<Core>,
    tags: Vec<u64>,
}

impl Kept {
    fn of(core: &Arc<Core>, specs: Vec<JobSpec>) -> (Self, Vec<Member>) {
        let mut hosted = core.hosted.lock();
        let members: Vec<Member> = specs
            .into_iter()
            .map(|job| Member {
                is_fresh: job.id.is_none(),
                again: job.again,
                id: job.id.unwrap_or_else(chance::job_id),
                label: job.label,
                spec: job.spec,
                limits: job.limits,
                tag: hosted.keep(job.body),
            })
            .collect();
        let tags = members.iter().map(|member| member.tag).collect();
        (Self { core: Arc::clone(core), tags }, members)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let unused: Vec<_> = {
            let mut hosted = self.core.hosted.lock();
            self.tags.drain(..).map(|tag| hosted.forget(tag)).collect()
        };
        unused.into_iter().for_each(discard);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}
