//! Who launches, waits and is woken: what a session and the run of a job have in common, once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fanin_machine::{Answer, Launch, Launched, Member, Parent, Refusal, WaiterId, Wanted};
use fanin_protocol::{Edges, GroupId, JobId, Resume, Spec};

use crate::body::Works;
use crate::chance;
use crate::core::{CallError, Core};
use crate::handle::Handle;
use crate::launched::{Group, GroupResult, Job};
use crate::needs::Needs;
use crate::offered::Offered;
use crate::spec::{GroupOptions, JobSpec};
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

/// A parent: a [`Session`](crate::Session), or the run of a job through its [`RunContext`](crate::RunContext). Both
/// are one of these, so a job launches, waits and is woken as a session is.
///
/// What a job launches hangs below it: the job is over only when all of that is, and a job that is stopped, or whose
/// body fails, takes it along.
#[derive(Clone)]
pub struct Launcher {
    handle: Handle,
    parent: Parent,
}

impl Launcher {
    pub(crate) const fn new(handle: Handle, parent: Parent) -> Self {
        Self { handle, parent }
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) const fn parent(&self) -> &Parent {
        &self.parent
    }

    /// Launches one job in the background and returns at once. It joins the group of a session's open turn; else it is
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
        let launched = self.launch(GroupOptions::default(), [spec], true, None).await?;
        Job::new(self, launched).ok_or(LaunchError::Call(Refusal::Empty.into()))
    }

    /// Launches a group in the background and returns at once: all of the jobs exist, or none. The launcher is
    /// woken once, when all are over.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; nothing exists then.
    ///
    /// # Cancel safety
    ///
    /// As [`Launcher::start`].
    pub async fn fan_out(&self, specs: impl IntoIterator<Item = JobSpec>) -> Result<Group, LaunchError> {
        self.fan_out_with(GroupOptions::default(), specs).await
    }

    /// As [`Launcher::fan_out`], with a group id or a policy.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; nothing exists then.
    ///
    /// # Cancel safety
    ///
    /// As [`Launcher::start`].
    pub async fn fan_out_with(
        &self,
        options: GroupOptions,
        specs: impl IntoIterator<Item = JobSpec>,
    ) -> Result<Group, LaunchError> {
        let launched = self.launch(options, specs, false, None).await?;
        Ok(Group::new(self, launched))
    }

    pub(crate) async fn launch(
        &self,
        options: GroupOptions,
        specs: impl IntoIterator<Item = JobSpec>,
        joins_turn: bool,
        foreground: Option<WaiterId>,
    ) -> Result<Launched, LaunchError> {
        let (members, works, edges) = self.prepare(specs)?;
        let launch = Launch {
            parent: self.parent.clone(),
            is_fresh: options.id.is_none(),
            group: options.id.unwrap_or_else(chance::group_id),
            joins_turn,
            policy: options.policy,
            edges,
            foreground,
            members,
        };
        Ok(self.handle.core().launch(launch, works).await?)
    }

    /// Looks at specs before anything exists of them, each as it comes: of very many there is never a second list.
    fn prepare(&self, specs: impl IntoIterator<Item = JobSpec>) -> Result<Prepared, LaunchError> {
        let core = self.handle.core();
        let specs = specs.into_iter();
        let mut members = Vec::with_capacity(specs.size_hint().0);
        let mut works = Works::default();
        let mut needs = Needs::default();
        for (index, job) in specs.enumerate() {
            if job.limits.retries.is_some_and(|retries| retries > 0) && !job.is_rerunnable() {
                let problem =
                    "retries: this closure can run once only; make it with JobSpec::rerunnable".to_owned();
                return Err(LaunchError::Rejected { index, problem });
            }
            if job.limits.resume == Some(Resume::Rerun) && job.spec.is_none() {
                let problem = "resume: a closure is gone with its process, so nothing can start it again; make it a \
                               command or an agent";
                return Err(LaunchError::Rejected { index, problem: problem.to_owned() });
            }
            if let Some(spec) = &job.spec {
                check(core, index, spec)?;
            }
            if let Some(id) = job.id.as_ref().filter(|_| job.again) {
                core.look_for_left(id)?;
            }
            needs.add(index, job.needs, job.on_failed);
            needs.sends(index, job.sends);
            needs.called(index, job.name);
            members.push(Member {
                is_fresh: job.id.is_none(),
                again: job.again,
                id: job.id.unwrap_or_else(chance::job_id),
                label: job.label,
                spec: job.spec,
                limits: job.limits,
                tag: 0,
            });
            works.push(job.work);
        }
        let edges =
            needs.edges(&members).map_err(|problems| CallError::Refused(Refusal::BadPlan(problems)))?;
        Ok((members, works, edges))
    }

    /// Waits until all of these jobs are over, and takes their results: they will not be part of a wake again. Jobs
    /// of another parent are looked at, and their results stay owed to it.
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
        let wanted = Wanted::All(self.parent.clone(), jobs.to_vec());
        wait::jobs(&self.handle, wanted, limit.into()).await
    }

    /// As [`Launcher::wait_all`], without taking the results: for those who have to hand them on first.
    ///
    /// # Errors
    ///
    /// As [`Launcher::wait_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`Launcher::wait_all`].
    pub async fn wait_all_offered(
        &self,
        jobs: &[JobId],
        limit: impl Into<Option<Duration>>,
    ) -> Result<Offered<Waited>, WaitError> {
        let wanted = Wanted::All(self.parent.clone(), jobs.to_vec());
        wait::jobs_offered(&self.handle, wanted, limit.into()).await
    }

    /// Waits until the first of these jobs is over, and takes the results of those that are. Not a wait for all:
    /// that is [`Launcher::wait_all`].
    ///
    /// # Errors
    ///
    /// As [`Launcher::wait_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`Launcher::wait_all`].
    pub async fn wait_any(
        &self,
        jobs: &[JobId],
        limit: impl Into<Option<Duration>>,
    ) -> Result<Waited, WaitError> {
        let wanted = Wanted::Any(self.parent.clone(), jobs.to_vec());
        wait::jobs(&self.handle, wanted, limit.into()).await
    }

    /// Waits until a group has fired, by its id, without taking its result. See [`Group::wait_offered`].
    ///
    /// # Errors
    ///
    /// As [`Group::wait`]; [`Refusal::UnknownGroup`] and [`Refusal::ForeignGroup`] in [`WaitError::Call`].
    ///
    /// # Cancel safety
    ///
    /// As [`Group::wait`].
    pub async fn wait_group_offered(
        &self,
        group: &GroupId,
        limit: impl Into<Option<Duration>>,
    ) -> Result<Offered<GroupResult>, WaitError> {
        let wanted = Wanted::Group(self.parent.clone(), group.clone());
        let answered = match wait::answer_within(&self.handle, wanted, limit.into()).await {
            Err(WaitError::Call(CallError::Refused(gone @ Refusal::UnknownGroup(_)))) => {
                let group = self.handle.core().past_group(group, gone).await?;
                let result = group.result.ok_or(WaitError::Voided)?;
                return Ok(Offered::past(GroupResult { result, already_delivered: true }));
            }
            answered => answered,
        };
        let (answer, waiter) = answered?;
        match answer {
            Answer::Group { result, already_delivered } => {
                Ok(Offered::new(GroupResult { result, already_delivered }, waiter))
            }
            Answer::Voided => Err(WaitError::Voided),
            Answer::Jobs { .. }
            | Answer::Wake(_)
            | Answer::Words { .. }
            | Answer::Hit(_)
            | Answer::Mail(_)
            | Answer::Promoted
            | Answer::Background(_)
            | Answer::Idle
            | Answer::Closed => Err(WaitError::Closed),
        }
    }

    /// As [`Launcher::wait_any`], without taking the results: for those who have to hand them on first.
    ///
    /// # Errors
    ///
    /// As [`Launcher::wait_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`Launcher::wait_all`].
    pub async fn wait_any_offered(
        &self,
        jobs: &[JobId],
        limit: impl Into<Option<Duration>>,
    ) -> Result<Offered<Waited>, WaitError> {
        let wanted = Wanted::Any(self.parent.clone(), jobs.to_vec());
        wait::jobs_offered(&self.handle, wanted, limit.into()).await
    }

    /// The next wake: the result of a group whose jobs are all over, once. `tokio::time::timeout` gives it a limit.
    /// While a session is in a turn it waits for the end of the turn.
    ///
    /// # Errors
    ///
    /// [`WaitError::Closed`] where the session or the supervisor is closed, or the job is being stopped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future, or the wake without [`Wake::ack`], leaves the wake owed.
    pub async fn next_wake(&self) -> Result<Wake, WaitError> {
        let mut waiter = Waiter::begin(&self.handle, Wanted::Wake(self.parent.clone())).await?;
        match waiter.answer().await? {
            Answer::Wake(result) => Ok(Wake::new(result, waiter)),
            Answer::Jobs { .. }
            | Answer::Group { .. }
            | Answer::Words { .. }
            | Answer::Hit(_)
            | Answer::Mail(_)
            | Answer::Voided
            | Answer::Promoted
            | Answer::Background(_)
            | Answer::Idle
            | Answer::Closed => Err(WaitError::Closed),
        }
    }
}

/// What a launch is made of.
type Prepared = (Vec<Member>, Works, Option<Arc<Edges>>);

/// Looks at a spec before anything exists of it.
fn check(core: &Core, index: usize, spec: &Spec) -> Result<(), LaunchError> {
    let kind = spec.kind();
    let runner = core.runner(kind).ok_or(LaunchError::NoRunner { index, kind: kind.as_str() })?;
    spec.check().map_err(|error| LaunchError::Rejected { index, problem: error.to_string() })?;
    runner.check(spec).map_err(|problem| LaunchError::Rejected { index, problem })
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Launcher").field(&self.parent).finish()
    }
}
