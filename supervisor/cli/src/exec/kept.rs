//! What is kept of a hosted parent beside its store: what it was asked to do, and what it last said. It knows their form and
//! their place, and decides nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fanin_protocol::limits::KEPT_BYTES_MAX;
use fanin_protocol::{GroupId, Lifetime, Rights, SessionId, layout};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::file;
use crate::plan::FailOn;
use crate::prepare;

/// What it was asked to do, in the folder of its session.
pub(crate) const OBJECTIVE: &str = "exec.json";

/// What it said in its last turn, where that came to its end.
const ANSWER: &str = "answer.json";

/// Its document. The number grows only when a field changes its meaning or goes.
const SCHEMA: &str = "fanin.exec-plan/1";

/// What a parent was asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Objective {
    schema: String,
    pub(crate) session: SessionId,
    pub(crate) agent: String,
    pub(crate) objective: String,
    /// What it may do at the most, where somebody said so.
    pub(crate) rights: Option<Rights>,
    /// Where it works, and what starts there reads its configuration.
    pub(crate) cwd: PathBuf,
    /// How long all of it may take, and from when on: its first start, in milliseconds since the Unix epoch.
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default = "prepare::now_ms")]
    pub(crate) began_ms: u64,
    pub(crate) fail_on: Option<FailOn>,
}

impl Objective {
    pub(crate) fn new(session: SessionId, agent: String, objective: String, cwd: PathBuf) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            session,
            agent,
            objective,
            rights: None,
            cwd,
            timeout_ms: None,
            began_ms: prepare::now_ms(),
            fail_on: None,
        }
    }
}

/// What a parent said, and which results it had been woken with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// They are taken, also where the store does not know it yet.
    pub(crate) taken: Vec<GroupId>,
    /// And which firings of watches, by their lives and numbers.
    #[serde(default)]
    pub(crate) fired: Vec<(Lifetime, u32)>,
    pub(crate) turns: u32,
    pub(crate) wakes: u32,
}

/// The folder of a hosted parent.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps what it was asked to do, before anything of it begins.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn begin(&self, objective: &Objective) -> io::Result<()> {
        self.write(OBJECTIVE, objective)
    }

    /// Keeps what it said.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn answer(&self, answer: &Answer) -> io::Result<()> {
        self.write(ANSWER, answer)
    }

    /// A turn begins: what it said before is not the last word any more.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn unanswered(&self) -> io::Result<()> {
        match fs::remove_file(self.path.join(ANSWER)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Keeps the result: it is over.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn result(&self, document: &[u8]) -> io::Result<()> {
        let path = self.path.join(layout::RESULT);
        file::replace(&path, 0o600, KEPT_BYTES_MAX, |out| out.write_all(document))
    }

    /// What it was asked to do; `None` where this is no folder of one.
    ///
    /// # Errors
    ///
    /// The system's, and that the document cannot be read.
    pub(crate) fn objective(&self) -> io::Result<Option<Objective>> {
        let objective: Option<Objective> = self.read(OBJECTIVE)?;
        match objective {
            Some(objective) if objective.schema != SCHEMA => Err(io::Error::other(format!(
                "{OBJECTIVE} says that it is {:?}; this fanin reads {SCHEMA}",
                objective.schema
            ))),
            objective => Ok(objective),
        }
    }

    /// What it said in its last turn; `None` where that did not come to its end.
    ///
    /// # Errors
    ///
    /// As [`Folder::objective`].
    pub(crate) fn answered(&self) -> io::Result<Option<Answer>> {
        self.read(ANSWER)
    }

    fn write(&self, name: &str, document: &impl Serialize) -> io::Result<()> {
        let path = self.path.join(name);
        file::replace(&path, 0o600, KEPT_BYTES_MAX, |out| Ok(serde_json::to_writer(out, document)?))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.path.join(name)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// True for the folder of a hosted parent.
pub(crate) fn is_exec(folder: &Path) -> bool {
    folder.join(OBJECTIVE).exists()
}
