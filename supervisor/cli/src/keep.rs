//! What is kept of a run, so that it can be run again: its plan before the first task starts, its result at the end. A
//! run without a result was killed, or is still at work. Values of variables are in the plan: nobody else may read it.

mod document;
mod earlier;
mod prune;

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fanin_protocol::limits::KEPT_BYTES_MAX;
use fanin_protocol::{GroupId, SessionId, layout, text};
use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::journal::JournalError;

use crate::exec;
use crate::file;
use crate::plan::Plan;
use crate::stores::DATABASE;

/// In the folder of a run that has a result: that was not printed and taken yet.
pub(crate) const UNPRINTED: &str = "result.unprinted";

pub(crate) use earlier::{Earlier, KeptRun, folders};

/// A run's own folder. It is owned for as long as this lives.
#[derive(Debug)]
pub(crate) struct Keep {
    /// The state folder.
    state: PathBuf,
    folder: PathBuf,
    /// The lock of its folder; the store's own where there is one.
    owner: Option<File>,
}

impl Keep {
    /// Keeps the plan of a run, and lets runs go that are too old or too many. `started_in` is the folder that tasks run
    /// in unless they say otherwise.
    ///
    /// # Errors
    ///
    /// The system's; nothing of the run is there then.
    pub(crate) fn begin(
        state: &Path,
        group: &GroupId,
        plan: &Plan,
        started_in: &Path,
        now_ms: u64,
    ) -> io::Result<Self> {
        let (runs, folder) = (layout::runs(state), layout::run(state, group));
        DirBuilder::new().recursive(true).mode(0o700).create(&runs)?;
        DirBuilder::new().mode(0o700).create(&folder)?;
        let begun = own(&folder, now_ms).and_then(|owner| {
            let document = document::Plan::new(group, plan, started_in, now_ms);
            let file = folder.join(layout::PLAN);
            file::replace(&file, 0o600, KEPT_BYTES_MAX, |out| Ok(serde_json::to_writer(out, &document)?))?;
            Ok(Self { state: state.to_owned(), folder: folder.clone(), owner: Some(owner) })
        });
        match begun {
            Ok(keep) => {
                prune::prune(&runs, &folder);
                Ok(keep)
            }
            Err(error) => {
                // The first error is told; a folder without a plan is no run, and goes once it is old.
                let _ = std::fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    /// The folder, where the run is a new one and has no store yet.
    pub(crate) fn begun(&self) -> Option<Begun> {
        self.owner.as_ref().map(|_| Begun { folder: self.folder.clone() })
    }

    /// The folder of a run that was interrupted. Its store is what owns it.
    pub(crate) fn of(state: &Path, folder: &Path) -> Self {
        Self { state: state.to_owned(), folder: folder.to_owned(), owner: None }
    }

    /// Opens the store of the run, which owns the folder from then on.
    ///
    /// # Errors
    ///
    /// [`JournalError`].
    pub(crate) fn store(&mut self) -> Result<SqliteJournal, JournalError> {
        // Whoever comes between the two locks finds a run that nobody is at work in, and the newest, which stays.
        self.owner = None;
        open(&self.folder)
    }

    /// True until the store of a run that begins is opened; never for one that was interrupted.
    pub(crate) const fn is_new(&self) -> bool {
        self.owner.is_some()
    }

    /// What helps where its store is refused, beside what the error says.
    pub(crate) fn way_out(&self, error: &JournalError) -> String {
        way_out(&self.folder, error)
    }

    /// The folder of the run.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The state folder that it is in.
    pub(crate) fn state(&self) -> PathBuf {
        self.state.clone()
    }

    /// The mark that its result was not printed yet. Whoever has printed it removes this.
    pub(crate) fn unprinted(&self) -> PathBuf {
        self.folder.join(UNPRINTED)
    }

    /// Keeps the result of the run: a document that lists all of its tasks.
    ///
    /// # Errors
    ///
    /// The system's; the run counts as killed then, and can be run again as a whole.
    pub(crate) fn result(&self, document: &[u8]) -> io::Result<()> {
        // First: at no time is there a result that looks as if it had been printed.
        let unprinted = self.unprinted();
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(unprinted)?;
        let file = self.folder.join(layout::RESULT);
        file::replace(&file, 0o600, KEPT_BYTES_MAX, |out| out.write_all(document))
    }
}

/// True for the folder of a session whose client is gone with it, so that it cannot be resumed or run again. A hosted
/// parent's can.
pub(crate) fn is_session(folder: &Path) -> bool {
    !exec::is_exec(folder)
        && folder.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("ses_"))
}

/// Makes the folder for the store of a session, and lets runs go that are too old or too many. Whoever opens the store
/// there owns it.
///
/// # Errors
///
/// The system's; the folder is not there then.
pub(crate) fn session(state: &Path, session: &SessionId) -> io::Result<PathBuf> {
    let (runs, folder) = (layout::runs(state), layout::session(state, session));
    DirBuilder::new().recursive(true).mode(0o700).create(&runs)?;
    DirBuilder::new().mode(0o700).create(&folder)?;
    prune::prune(&runs, &folder);
    Ok(folder)
}

/// Opens the store in a folder, which owns it from then on.
///
/// # Errors
///
/// [`JournalError`].
pub(crate) fn open(folder: &Path) -> Result<SqliteJournal, JournalError> {
    SqliteJournal::open(folder, &Options::default())
}

/// The folder of a new run, of which no task was launched yet.
#[derive(Debug)]
pub(crate) struct Begun {
    folder: PathBuf,
}

impl Begun {
    /// Forgets the store of a run that was not launched, so that nobody goes on with it. Its plan can be run again.
    pub(crate) fn forget(&self) {
        // First: without it the rest is no store.
        let _ = std::fs::remove_file(self.folder.join(DATABASE));
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let is_kept = |name: &OsStr| [layout::PLAN, layout::OWNER_LOCK].iter().any(|kept| name == *kept);
        for entry in entries.flatten().filter(|entry| !is_kept(&entry.file_name())) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// What helps where the store in a folder cannot be read, beside what the error says.
pub(crate) fn way_out(folder: &Path, error: &JournalError) -> String {
    match error {
        JournalError::Damaged { .. } => {
            format!("; `fanin store repair {}` says how to go on", text::path(folder))
        }
        _ => String::new(),
    }
}

/// Takes a new folder as this process's own. The lock goes with the process, however it ends.
fn own(folder: &Path, now_ms: u64) -> io::Result<File> {
    let path = folder.join(layout::OWNER_LOCK);
    let mut owner = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    owner.try_lock().map_err(io::Error::from)?;
    writeln!(owner, "{} {now_ms}", std::process::id())?;
    Ok(owner)
}

/// True where a process is at work in the folder of a run.
fn is_owned(folder: &Path) -> io::Result<bool> {
    match File::open(folder.join(layout::OWNER_LOCK)) {
        // Shared, so that two who look do not take each other for the owner.
        Ok(owner) => match owner.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
