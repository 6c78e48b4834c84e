//! Finds an earlier run and reads it. The text that names it is compared with what is there, and never becomes a path
//! (SEC-7).

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fanin_protocol::limits::{ID_PREFIX_DIGITS_MIN, KEPT_BYTES_MAX, KNOWN_RUNS_SHOWN_MAX};
use fanin_protocol::{GroupId, ResultEntry, Status, layout, text};

use super::document::{self, DocumentError};
use super::is_owned;
use crate::exec;
use crate::exit::Exit;
use crate::plan::{Carried, Plan};
use crate::stores::DATABASE;

/// How random ids of groups begin.
const PREFIX: &str = "grp_";

/// What to do where runs cannot be looked for.
const STATE_WAY_OUT: &str = "set FANIN_STATE_DIR to a folder that can be";

/// An earlier run.
#[derive(Debug)]
pub(crate) struct Earlier {
    /// Its group.
    pub(crate) group: GroupId,
    /// Where its tasks run that say nothing else.
    pub(crate) started_in: PathBuf,
    /// Its plan; each task that has completed by now is carried.
    pub(crate) plan: Plan,
}

/// Why an earlier run cannot be run again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EarlierError {
    /// Too short, or no start of an id.
    #[error(
        "--again: `{0}` is no id of a run; write {ID_PREFIX_DIGITS_MIN} or more of its hex digits, with or without `{PREFIX}`"
    )]
    NoId(String),
    /// None of this name.
    #[error("--again: no run `{name}` is kept in {folder}; {known}", folder = text::path(.folder))]
    Unknown {
        /// What was asked for.
        name: String,
        /// All runs.
        folder: PathBuf,
        /// Those that are there, in words.
        known: String,
    },
    /// Several of this start.
    #[error("--again: `{name}` is the start of {count} runs: {ids}; write more of it")]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// How many.
        count: usize,
        /// Some of them.
        ids: String,
    },
    /// It is not over.
    #[error("--again: {0} is still at work; wait for its end")]
    Owned(GroupId),
    /// Its plan was taken away.
    #[error(
        "--again: the plan of {0} is gone, so nobody knows its tasks; `fanin show {0}` shows what is left of it"
    )]
    NoPlan(GroupId),
    /// What it left cannot be used.
    #[error("--again: {0}")]
    Document(#[from] DocumentError),
    /// The system's word.
    #[error("--again: {path} cannot be read: {error}; {STATE_WAY_OUT}", path = text::path(.path))]
    Runs {
        /// The folder of all runs.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The system's word.
    #[error("--again: {path} cannot be read: {error}", path = text::path(.path))]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// A run as it was planned, whatever came of it.
#[derive(Debug)]
pub(crate) struct KeptRun {
    /// Its group.
    pub(crate) group: GroupId,
    /// Where it is kept.
    pub(crate) folder: PathBuf,
    /// Where its tasks run that say nothing else.
    pub(crate) started_in: PathBuf,
    /// What it was to run.
    pub(crate) plan: Plan,
}

impl KeptRun {
    /// Finds a run that no process is at work in, as [`Earlier::find`].
    ///
    /// # Errors
    ///
    /// [`EarlierError`].
    pub(crate) fn find(state: &Path, name: &str) -> Result<Self, EarlierError> {
        let (group, folder) = look_up(&layout::runs(state), name)?;
        if is_owned(&folder).map_err(|error| failed(&folder.join(layout::OWNER_LOCK), error))? {
            return Err(EarlierError::Owned(group));
        }
        let path = folder.join(layout::PLAN);
        let bytes = load(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => EarlierError::NoPlan(group.clone()),
            _ => failed(&path, error),
        })?;
        let document: document::Plan<'static> = document::read(&path, "fanin.plan", &bytes)?;
        let (started_in, plan) = (document.started_in.into_owned(), document.plan.into_owned());
        Ok(Self { group, folder, started_in, plan })
    }
}

fn failed(path: &Path, error: io::Error) -> EarlierError {
    EarlierError::Read { path: path.to_owned(), error }
}

/// The folders of all runs, the newest first.
///
/// # Errors
///
/// The system's, with the folder and the way out.
pub(crate) fn folders(state: &Path) -> io::Result<Vec<PathBuf>> {
    let runs = layout::runs(state);
    let named = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("{} cannot be read: {error}; {STATE_WAY_OUT}", text::path(&runs)),
        )
    };
    Ok(list(&runs).map_err(named)?.into_iter().map(|run| run.folder).collect())
}

impl EarlierError {
    /// What it makes of the program's end.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Owned(_) => Exit::Owned,
            Self::NoId(_)
            | Self::NoPlan(_)
            | Self::Unknown { .. }
            | Self::Ambiguous { .. }
            | Self::Document(_)
            | Self::Runs { .. }
            | Self::Read { .. } => Exit::Usage,
        }
    }
}

impl Earlier {
    /// Finds the run that `name` is the id of, or the start of its id, and reads it.
    ///
    /// # Errors
    ///
    /// [`EarlierError`].
    pub(crate) fn find(state: &Path, name: &str) -> Result<Self, EarlierError> {
        let KeptRun { group, folder, started_in, mut plan } = KeptRun::find(state, name)?;
        let path = folder.join(layout::RESULT);
        match load(&path) {
            Ok(bytes) => {
                let result: document::Result = document::read(&path, "fanin.result", &bytes)?;
                carry(&mut plan, &group, result);
            }
            // It was killed: what it carried itself stays carried, and the rest is not known.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&path, error)),
        }
        Ok(Self { group, started_in, plan })
    }
}

/// Notes what completed. What was carried into that run is in its plan already.
fn carry(plan: &mut Plan, group: &GroupId, result: document::Result) {
    let from = |index: u32| {
        let of = result.tasks.binary_search_by_key(&index, |task| task.index).ok();
        of.and_then(|place| result.tasks.get(place)?.carried_from.clone())
    };
    let completed = |entry: &ResultEntry| entry.status == Status::Completed;
    for entry in result.entries.iter().filter(|entry| completed(entry)) {
        let task = usize::try_from(entry.index).ok().and_then(|index| plan.tasks.get_mut(index));
        let Some(task) = task else { continue };
        let from = from(entry.index).unwrap_or_else(|| group.clone());
        task.carried.get_or_insert_with(|| Box::new(Carried { from, entry: entry.clone() }));
    }
}

fn load(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(KEPT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > KEPT_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The one run whose id begins so.
fn look_up(runs: &Path, name: &str) -> Result<(GroupId, PathBuf), EarlierError> {
    let shown = || text::cut(&text::one_line(name), fanin_protocol::limits::ID_BYTES_MAX).to_owned();
    let digits = name.strip_prefix(PREFIX).unwrap_or(name);
    let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    if digits.len() < ID_PREFIX_DIGITS_MIN || !digits.chars().all(is_hex) {
        return Err(EarlierError::NoId(shown()));
    }
    let known = list(runs).map_err(|error| EarlierError::Runs { path: runs.to_owned(), error })?;
    let begins = |run: &&Kept| run.digits().is_some_and(|id| id.starts_with(digits));
    let found: Vec<_> = known.iter().filter(begins).collect();
    match found.as_slice() {
        [run] => Ok((run.group.clone(), run.folder.clone())),
        [] => {
            let known: Vec<_> = known.iter().filter(|run| run.digits().is_some()).collect();
            Err(EarlierError::Unknown { name: shown(), folder: runs.to_owned(), known: told(&known) })
        }
        several => Err(EarlierError::Ambiguous {
            name: shown(),
            count: several.len(),
            ids: ids(several.iter().copied()),
        }),
    }
}

/// A run that is kept.
#[derive(Debug)]
pub(super) struct Kept {
    group: GroupId,
    name: String,
    pub(super) folder: PathBuf,
    /// When it began.
    pub(super) at: SystemTime,
}

impl Kept {
    fn digits(&self) -> Option<&str> {
        self.name.strip_prefix(PREFIX)
    }
}

/// All runs that have a plan or a store, the newest first. No folder at all is no run.
///
/// # Errors
///
/// The system's.
pub(super) fn list(runs: &Path) -> io::Result<Vec<Kept>> {
    let entries = match fs::read_dir(runs) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut kept = Vec::new();
    for entry in entries {
        let entry = entry?;
        // What has another name, or goes away while we look, is no run.
        let Some(name) = entry.file_name().to_str().map(ToOwned::to_owned) else { continue };
        let Ok(group) = GroupId::parse(&name) else { continue };
        // A store whose plan somebody took away is shown, and can be looked at.
        let is_there = |name: &str| fs::metadata(entry.path().join(name)).ok();
        let Some(begun) = [layout::PLAN, DATABASE, exec::OBJECTIVE].iter().find_map(|name| is_there(name))
        else {
            continue;
        };
        kept.push(Kept { group, name, folder: entry.path(), at: begun.modified()? });
    }
    kept.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.name.cmp(&b.name)));
    Ok(kept)
}

fn told(known: &[&Kept]) -> String {
    match known.len() {
        0 => "none is kept there".to_owned(),
        n => format!("there {}: {}", if n == 1 { "is" } else { "are" }, ids(known.iter().copied())),
    }
}

fn ids<'k>(runs: impl ExactSizeIterator<Item = &'k Kept>) -> String {
    let more = runs.len().saturating_sub(KNOWN_RUNS_SHOWN_MAX);
    let mut ids = runs.take(KNOWN_RUNS_SHOWN_MAX).map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
    if more > 0 {
        ids.push_str(&format!(" and {more} older ones"));
    }
    ids
}
