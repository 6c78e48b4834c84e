//! A session: a parent outside of all jobs, with turns.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use fanin_machine::{Command, Parent, Reply, SessionCommand};
use fanin_protocol::{Bounds, Profile, SessionId};

use crate::core::CallError;
use crate::handle::Handle;
use crate::launcher::Launcher;
use crate::supervisor::Owner;
use crate::turn::Turn;

/// Who drives a session, and what it and all below it may grow to (14.14). What is not set is as the supervisor's
/// builder has it.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::SessionOptions;
/// use fanin_supervisor::protocol::{Bounds, Profile};
///
/// // A model drives it, and its workers may have workers.
/// let bounds = Bounds { depth: 2, ..Profile::Agent.bounds() };
/// let options = SessionOptions { profile: Some(Profile::Agent), bounds: Some(bounds) };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionOptions {
    /// Who drives it; without bounds, its are used.
    pub profile: Option<Profile>,
    /// What it and all below it may grow to.
    pub bounds: Option<Bounds>,
}

impl SessionOptions {
    /// These, else those.
    pub(crate) fn or(self, others: Self) -> (Profile, Bounds) {
        let profile = self.profile.or(others.profile).unwrap_or_default();
        let others = others.bounds.filter(|_| self.profile.is_none());
        (profile, self.bounds.or(others).unwrap_or(profile.bounds()))
    }
}

/// A parent that is no job: the root of a tree. Clones are the same session; dropping them all does not close it.
///
/// It launches, waits and is woken as a [`Launcher`].
#[derive(Clone)]
pub struct Session {
    launcher: Launcher,
    id: SessionId,
}

impl Session {
    pub(crate) fn new(owner: Arc<Owner>, id: SessionId) -> Self {
        Self { launcher: Launcher::new(Handle::of(owner), Parent::Session(id.clone())), id }
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
    /// [`Refusal::TurnOpen`](crate::Refusal::TurnOpen) where a turn is open; [`Refusal::Draining`](crate::Refusal::Draining) once all was told to stop; [`CallError`]
    /// where the session or the supervisor is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it does not wait.
    pub async fn turn(&self) -> Result<Turn, CallError> {
        match self.launcher.handle().core().submit(Command::Session(SessionCommand::Turn(self.id.clone())))? {
            Reply::Turn(run) => Ok(Turn::new(self.launcher.handle().clone(), run)),
            Reply::Done
            | Reply::Answered
            | Reply::Launched(_)
            | Reply::Stopped(_)
            | Reply::Extended(_)
            | Reply::Refused(_) => Err(CallError::Poisoned),
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
        self.launcher
            .handle()
            .core()
            .submit(Command::Session(SessionCommand::Close(self.id.clone())))
            .map(drop)
    }
}

impl Deref for Session {
    type Target = Launcher;

    fn deref(&self) -> &Launcher {
        &self.launcher
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}
