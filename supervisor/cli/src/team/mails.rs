//! The mail of a supervisor whose groups come one by one: its door is opened for the first that has mail, and not before.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fanin_supervisor::Supervisor;

use super::door::{Door, OpenDoor};

/// A door that may still have to be opened. Dropped, it is closed.
pub(crate) struct Mails {
    folder: Option<PathBuf>,
    warn: Arc<dyn Fn(String) + Send + Sync>,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed,
    /// Its place is known, and nobody is let in yet.
    Prepared(Door),
    Open {
        _door: OpenDoor,
    },
}

impl fmt::Debug for Mails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mails")
            .field("folder", &self.folder)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Mails {
    /// Mail without a folder; `warn` is told of those who could not come in.
    pub(crate) fn new(warn: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self { folder: None, warn: Arc::new(warn), state: State::Closed }
    }

    /// Its door belongs into this folder, which is ours alone.
    pub(crate) fn lie_in(&mut self, folder: Option<&Path>) {
        self.folder = folder.map(ToOwned::to_owned);
    }

    /// Opens the door before there is a supervisor. Who comes waits in line; where it is, is for the supervisor's jobs.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn prepare(&mut self) -> io::Result<Arc<str>> {
        let door = Door::open(self.folder.as_deref())?;
        let name = door.name();
        self.state = State::Prepared(door);
        Ok(name)
    }

    /// Serves at a door that was prepared, where one was.
    pub(crate) fn serve_prepared(&mut self, supervisor: &Supervisor) {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Prepared(door) => {
                let warn = Arc::clone(&self.warn);
                State::Open { _door: door.serve(supervisor.clone(), move |why| warn(why)) }
            }
            state @ (State::Closed | State::Open { .. }) => state,
        };
    }

    /// Opens the door, where it is closed, and tells the supervisor's jobs from now on.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn open(&mut self, supervisor: &Supervisor) -> io::Result<()> {
        if let State::Closed = self.state {
            supervisor.mail_at(self.prepare()?);
        }
        self.serve_prepared(supervisor);
        Ok(())
    }
}
