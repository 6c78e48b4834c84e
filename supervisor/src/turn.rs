//! A turn of a session: while it is open, its parent is busy.

use std::fmt;

use fanin_machine::{Command, Ended, Report, RunRef, Said};

use crate::core::CallError;
use crate::handle::Handle;

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
