//! A turn of a session: while it is open, its parent is busy.

use std::fmt;
use std::sync::Arc;

use fanin_machine::{Command, Ended, Report, RunRef, Said};
use fanin_protocol::Cause;

use crate::core::CallError;
use crate::handle::Handle;
use crate::voice::{Used, Voice};

/// An open turn: its session is busy. Its drop ends it.
pub struct Turn {
    handle: Handle,
    run: RunRef,
    is_over: bool,
}

impl Turn {
    pub(crate) const fn new(handle: Handle, run: RunRef) -> Self {
        Self { handle, run, is_over: false }
    }

    /// What says things of the turn: which tools its parent calls, what it uses, where the parent is found.
    pub fn voice(&self) -> Voice {
        Voice::new(Arc::clone(self.handle.core()), self.run)
    }

    /// Ends the turn. The same as dropping it, with an answer.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor is shut down; [`CallError::Busy`], and the turn ends all the same, as
    /// with a drop.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a drop ends the turn as well.
    pub async fn end(mut self) -> Result<(), CallError> {
        self.handle.core().submit(self.over()).await?;
        self.is_over = true;
        Ok(())
    }

    /// Ends the turn as one that failed: its parent did not come to the end of it.
    ///
    /// # Errors
    ///
    /// As [`Turn::end`].
    ///
    /// # Cancel safety
    ///
    /// As [`Turn::end`]: dropped, the turn ends, and not as one that failed.
    pub async fn fail(mut self, message: impl Into<Arc<str>>) -> Result<(), CallError> {
        let what = Said::Ended(Ended::Failed {
            cause: Cause::Failed,
            code: None,
            message: message.into(),
            output: None,
            exit: None,
            left: None,
            is_safe: false,
        });
        self.handle.core().submit(Command::Report(Report { run: self.run, what })).await?;
        self.is_over = true;
        Ok(())
    }

    /// Says what the turn has used so far, by one of its meters, as [`RunContext::used`](crate::RunContext::used): it is
    /// charged to the session.
    pub fn used(&self, used: Used) {
        self.voice().used(used);
    }

    fn over(&self) -> Command {
        let what = Said::Ended(Ended::Completed { output: None, exit: None, left: None });
        Command::Report(Report { run: self.run, what })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            self.handle.core().post(self.over());
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("run", &self.run.fence).finish_non_exhaustive()
    }
}
