//! Foreground calls: launch and wait in one, until the result is there or the call is promoted. Neither a limit nor a
//! promotion stops a job.

use std::fmt;
use std::time::Duration;

use fanin_machine::{Answer, Background, Command, PromoteTarget, Promotion, Release, Reply, Wanted};
use fanin_protocol::{GroupId, JobId, Lifetime};

use crate::context::RunContext;
use crate::core::CallError;
use crate::handle::Handle;
use crate::launched::{Group, GroupResult};
use crate::launcher::{LaunchError, Launcher};
use crate::offered::Offered;
use crate::spec::{GroupOptions, JobSpec};
use crate::supervisor::Supervisor;
use crate::wait::{WaitError, Waiter};

/// How a foreground call came back.
#[derive(Debug, Clone)]
pub enum Foreground {
    /// All of its jobs are over, and the result is taken: no wake follows.
    Over(GroupResult),
    /// Its jobs go on in the background; the result comes as a wake, unless a wait takes it before.
    Backgrounded(Group, Backgrounded),
}

/// Why a foreground call came back before its jobs were over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backgrounded {
    /// Somebody promoted it.
    Promoted,
    /// Its limit passed.
    Limit,
}

/// Why a foreground call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Nothing was launched.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The jobs exist, and their result will not come here.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

impl RunError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Launch(error) => error.code(),
            Self::Wait(error) => error.code(),
        }
    }
}

impl Launcher {
    /// Launches a group in the foreground: launches and waits, in one step, so that no job ever runs without its waiter.
    /// It comes back with the result, or once it is promoted by [`Supervisor::promote`], or at `limit`, which counts from
    /// the launch. A known group is waited for, and not launched again (J-21).
    ///
    /// # Errors
    ///
    /// [`RunError::Launch`]; nothing exists then. [`RunError::Wait`] where the parent ended first, or the supervisor was
    /// closed; never for the limit.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped at the gate nothing exists. Dropped later it stops no job; the result then comes as a wake.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fanin_supervisor::{Foreground, JobSpec, Supervisor};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let supervisor = Supervisor::builder().start().await?;
    /// # let session = supervisor.session("main").await?;
    /// match session.run([JobSpec::run("scan", |_| async { Ok("42 files".into()) })], None).await? {
    ///     Foreground::Over(result) => assert_eq!(result.counts.completed, 1),
    ///     Foreground::Backgrounded(group, _) => println!("{} goes on", group.id()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(
        &self,
        specs: impl IntoIterator<Item = JobSpec>,
        limit: impl Into<Option<Duration>>,
    ) -> Result<Foreground, RunError> {
        self.run_with(GroupOptions::default(), specs, limit).await
    }

    /// As [`Launcher::run`], with a group id, by which others can promote the call, or a policy.
    ///
    /// # Errors
    ///
    /// As [`Launcher::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Launcher::run`].
    pub async fn run_with(
        &self,
        options: GroupOptions,
        specs: impl IntoIterator<Item = JobSpec>,
        limit: impl Into<Option<Duration>>,
    ) -> Result<Foreground, RunError> {
        let call = self.call(options, specs).await?;
        let group = call.group().clone();
        Ok(match call.returned(limit).await? {
            Returned::Over(result) => Foreground::Over(result.take()),
            Returned::Backgrounded(why) => Foreground::Backgrounded(group, why),
        })
    }

    /// The first half of [`Launcher::run_with`]: the jobs exist and the call waits for them, since one and the same step.
    /// For those who show the jobs while they wait, stop them where the call itself is cancelled, or have to hand the
    /// result on before it counts as delivered.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; nothing exists then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped at the gate nothing exists.
    pub async fn call(
        &self,
        options: GroupOptions,
        specs: impl IntoIterator<Item = JobSpec>,
    ) -> Result<Call, LaunchError> {
        // Made before the launch, so that the answer of the same step finds it, and a refusal forgets it.
        let waiter = Waiter::expect(self.handle());
        let specs: Vec<JobSpec> = specs.into_iter().collect();
        let launched = self.launch(options, specs, false, Some(waiter.id())).await?;
        Ok(Call { group: Group::new(self, launched), waiter })
    }
}

/// A foreground call whose jobs exist. Dropping it stops none of them; their result then comes as a wake.
#[must_use = "a call that is dropped is in the background"]
pub struct Call {
    group: Group,
    waiter: Waiter,
}

/// How a [`Call`] came back.
#[derive(Debug)]
pub enum Returned {
    /// All of its jobs are over; the result is taken once it was handed on.
    Over(Offered<GroupResult>),
    /// Its jobs go on in the background, as in [`Foreground::Backgrounded`].
    Backgrounded(Backgrounded),
}

impl Call {
    /// What it launched, or found (J-21).
    pub const fn group(&self) -> &Group {
        &self.group
    }

    /// Waits until its jobs are over, it is promoted, or `limit` has passed.
    ///
    /// # Errors
    ///
    /// [`WaitError`] where the parent ended first, or the supervisor was closed; never for the limit.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped it stops no job; the result then comes as a wake.
    pub async fn returned(self, limit: impl Into<Option<Duration>>) -> Result<Returned, WaitError> {
        let mut waiter = self.waiter;
        match waiter.answer_before(limit.into()).await {
            Ok(Answer::Group { result, already_delivered }) => {
                Ok(Returned::Over(Offered::new(GroupResult { result, already_delivered }, waiter)))
            }
            Ok(Answer::Promoted) => Ok(Returned::Backgrounded(Backgrounded::Promoted)),
            // The waiter is dropped here and leaves.
            Err(WaitError::TimedOut { .. }) => Ok(Returned::Backgrounded(Backgrounded::Limit)),
            Ok(Answer::Voided) => Err(WaitError::Voided),
            Ok(
                Answer::Jobs { .. }
                | Answer::Wake(_)
                | Answer::Words { .. }
                | Answer::Hit(_)
                | Answer::Mail(_)
                | Answer::Background(_)
                | Answer::Idle
                | Answer::Closed,
            ) => Err(WaitError::Closed),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Call").field(&self.group).finish()
    }
}

impl Supervisor {
    /// Sends the foreground calls that wait for a job's group to the background: each comes back as
    /// [`Foreground::Backgrounded`], once and for good, and its jobs go on (SC-20). Other waits stay.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`](crate::Refusal::UnknownJob); [`CallError::Closed`]; [`CallError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone. Dropped there nothing is promoted.
    pub async fn promote(&self, job: &JobId) -> Result<Promotion, CallError> {
        promote(&self.handle(), PromoteTarget::Job(job.clone())).await
    }

    /// As [`Supervisor::promote`], by the id of the group.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownGroup`](crate::Refusal::UnknownGroup); else as [`Supervisor::promote`].
    ///
    /// # Cancel safety
    ///
    /// As [`Supervisor::promote`].
    pub async fn promote_group(&self, group: &GroupId) -> Result<Promotion, CallError> {
        promote(&self.handle(), PromoteTarget::Group(group.clone())).await
    }

    /// Waits until no foreground call waits for a job, in its newest life: the call was promoted, its limit passed, its
    /// future was dropped, or there never was one; or until the job is over. What is to be done on promotion is done
    /// after this (decision 0030).
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownJob`](crate::Refusal::UnknownJob) in [`WaitError::Call`]; [`WaitError::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn wait_for_promotion(&self, job: &JobId) -> Result<Background, WaitError> {
        let handle = self.handle();
        let lifetime = handle.core().look(|state| state.lifetime_of(job))??;
        background(&handle, job, lifetime).await
    }
}

impl RunContext {
    /// As [`Supervisor::wait_for_promotion`], for the job of this run: for a body that behaves otherwise once nobody
    /// watches it. A stop of the job does not end it before the job is over.
    ///
    /// # Errors
    ///
    /// [`WaitError::Closed`] where the supervisor is closed; [`CallError::Busy`] in [`WaitError::Call`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn wait_for_promotion(&self) -> Result<Background, WaitError> {
        background(self.handle(), self.job(), self.lifetime()).await
    }
}

async fn promote(handle: &Handle, target: PromoteTarget) -> Result<Promotion, CallError> {
    match handle.core().submit(Command::Release(Release::Promote(target))).await? {
        Reply::Promoted(promotion) => Ok(promotion),
        Reply::Done
        | Reply::Turn(_)
        | Reply::Launched(_)
        | Reply::Posted { .. }
        | Reply::Stopped(_)
        | Reply::Answered
        | Reply::Extended(_)
        | Reply::Fired { .. }
        | Reply::Refused(_) => Err(CallError::Poisoned),
    }
}

async fn background(handle: &Handle, job: &JobId, lifetime: Lifetime) -> Result<Background, WaitError> {
    let mut waiter = Waiter::begin(handle, Wanted::Background(job.clone(), lifetime)).await?;
    match waiter.answer().await? {
        Answer::Background(background) => Ok(background),
        Answer::Jobs { .. }
        | Answer::Group { .. }
        | Answer::Wake(_)
        | Answer::Words { .. }
        | Answer::Hit(_)
        | Answer::Mail(_)
        | Answer::Promoted
        | Answer::Voided
        | Answer::Idle
        | Answer::Closed => Err(WaitError::Closed),
    }
}
