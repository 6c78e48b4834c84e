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
        let what = Said::Ended(Ended::Completed { output: None, exit: None, left: None });
        self.handle.core().submit(Command::Report(Report { run: self.run, what })).map(drop)
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
