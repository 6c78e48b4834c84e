//! What went wrong beside a run that goes on. It never changes the result, and is told once.

use std::io;
use std::path::PathBuf;

use fanin_protocol::{LayoutError, text};

use crate::exit::Exit;
use crate::json;
use crate::on_done::OnDoneError;
use crate::stderr::Stderr;

/// Something beside the run that did not work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Warning {
    /// Nothing says where runs are kept.
    #[error("this run cannot be run again: {0}; --no-keep says that this is meant")]
    NoState(#[source] LayoutError),
    /// The plan or the result could not be kept.
    #[error("this run is not kept in {folder}, so what fails cannot be run again: {error}; --no-keep says that this is meant", folder = text::path(.folder))]
    Keep {
        /// The state folder.
        folder: PathBuf,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
    /// A run that may have to be gone on with cannot be looked at.
    #[error("{run} is passed over: {problem}")]
    PassedOver {
        /// Its folder's name.
        run: String,
        /// Why.
        problem: String,
    },
    /// The report that was asked for is not there.
    #[error("the JUnit report {path} could not be written: {error}", path = text::path(.path))]
    Junit {
        /// Where it belongs.
        path: PathBuf,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
    /// GitHub's page of the step lacks it.
    #[error("the summary of the step could not be added to {path}: {error}", path = text::path(.path))]
    Summary {
        /// Where it belongs.
        path: PathBuf,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
    /// The command did not do its work.
    #[error("the command of --on-done: {0}")]
    OnDone(#[from] OnDoneError),
    /// Somebody who wanted the tools of a hosted parent, or the mail of a job, does not have them.
    #[error("{0}")]
    Door(String),
}

impl Warning {
    /// Tells it, to people or to programs.
    pub(crate) fn tell(&self, stderr: &Stderr, is_json: bool) {
        if is_json {
            stderr.document(&json::error(self.code(), &self.to_string(), None));
        } else {
            stderr.say(&format!("fanin: warning: {self}"));
        }
    }

    /// A stable name; each has a row in `docs/errors.md`.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::NoState(_) => "no_state",
            Self::Keep { .. } => "keep",
            Self::PassedOver { .. } => "passed_over",
            Self::Junit { .. } => "junit",
            Self::Summary { .. } => "summary",
            Self::OnDone(_) => "on_done",
            Self::Door(_) => "door",
        }
    }

    /// How the program ends because of it, where it would end so without: what was asked for and did not work is our
    /// failure.
    pub(crate) const fn exit(&self, without: Exit) -> Exit {
        match (self, without) {
            (Self::Junit { .. } | Self::PassedOver { .. }, Exit::Unreaped)
            | (
                Self::NoState(_) | Self::Keep { .. } | Self::Summary { .. } | Self::OnDone(_) | Self::Door(_),
                _,
            ) => without,
            (Self::Junit { .. } | Self::PassedOver { .. }, _) => Exit::Internal,
        }
    }
}
