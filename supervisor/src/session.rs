//! A session: a parent outside of all jobs, with turns.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use fanin_machine::{Command, Parent, Reply, SessionCommand};
use fanin_protocol::SessionId;

use crate::core::CallError;
use crate::handle::Handle;
use crate::launcher::Launcher;
use crate::supervisor::Owner;
use crate::turn::Turn;

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
    /// [`Refusal::TurnOpen`](crate::Refusal::TurnOpen) where a turn is open;
    /// [`Refusal::Draining`](crate::Refusal::Draining) once all was told to stop;
    /// [`CallError`] where the session or the supervisor is closed, or busy.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn turn(&self) -> Result<Turn, CallError> {
        match self
            .launcher
            .handle()
            .core()
            .submit(Command::Session(SessionCommand::Turn(self.id.clone())))
            .await?
        {
            Reply::Turn(run) => Ok(Turn::new(self.launcher.handle().clone(), run)),
            Reply::Done | Reply::Launched(_) | Reply::Stopped(_) | Reply::Refused(_) => {
                Err(CallError::Poisoned)
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
        self.launcher.handle().core().submit(Command::Session(close)).await.map(drop)
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
