//! The way to the core from a handle. A user's handle keeps the supervisor alive; one that a job holds does not, or a
//! body that waits would keep the one that has to end it.

use std::sync::Arc;

use fanin_machine::{Command, Post, PostTarget, Posting, Refusal, Reply, Stop, StopTarget, Stopped};
use fanin_protocol::{Cause, JobId, MessageId};

use crate::chance;
use crate::core::{CallError, Core};
use crate::message::Queued;
use crate::supervisor::{Cancelled, Owner};

/// The core, and a share of the supervisor where its user holds it.
#[derive(Clone)]
pub(crate) struct Handle {
    core: Arc<Core>,
    owner: Option<Arc<Owner>>,
}

impl Handle {
    /// A handle of the supervisor's user.
    pub(crate) fn of(owner: Arc<Owner>) -> Self {
        Self { core: Arc::clone(owner.core()), owner: Some(owner) }
    }

    /// A handle of a job.
    pub(crate) const fn inside(core: Arc<Core>) -> Self {
        Self { core, owner: None }
    }

    /// True for a handle of a job.
    pub(crate) const fn is_inside(&self) -> bool {
        self.owner.is_none()
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Posts a message.
    pub(crate) async fn post(
        &self,
        to: PostTarget,
        key: Option<MessageId>,
        text: Arc<str>,
    ) -> Result<Queued, CallError> {
        let key = key.unwrap_or_else(chance::message_id);
        let post = Post::Message(Posting { to, key: key.clone(), text });
        match self.core.submit(Command::Post(post)).await? {
            Reply::Posted { created } => Ok(Queued { key, created }),
            Reply::Done
            | Reply::Turn(_)
            | Reply::Answered
            | Reply::Launched(_)
            | Reply::Stopped(_)
            | Reply::Extended(_)
            | Reply::Fired { .. }
            | Reply::Promoted(_)
            | Reply::Refused(_) => Err(CallError::Poisoned),
        }
    }

    pub(crate) async fn cancel(&self, target: StopTarget) -> Result<Cancelled, CallError> {
        let stopped = self.stop(target, None).await?;
        stopped.first().map(|(_, stopped)| (*stopped).into()).ok_or_else(|| Refusal::Empty.into())
    }

    pub(crate) async fn stop(
        &self,
        target: StopTarget,
        grace_ms: Option<u64>,
    ) -> Result<Vec<(JobId, Stopped)>, CallError> {
        let stop = Stop { target, cause: Cause::User, grace_ms };
        match self.core.submit(Command::Stop(stop)).await? {
            Reply::Stopped(stopped) => Ok(stopped),
            Reply::Done
            | Reply::Turn(_)
            | Reply::Answered
            | Reply::Launched(_)
            | Reply::Posted { .. }
            | Reply::Extended(_)
            | Reply::Fired { .. }
            | Reply::Promoted(_)
            | Reply::Refused(_) => Err(CallError::Poisoned),
        }
    }
}
