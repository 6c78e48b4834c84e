//! Scan, backup, plan, apply, in the one order in which nothing can be lost: at any moment a store is as it was, or
//! repaired. It knows no format.

use std::path::{Path, PathBuf};

use crate::backup;
use crate::error::SanitizeError;
use crate::format::{Format, Store};
use crate::orphan::{Counts, Only, Scan};
use crate::plan::plan;

/// How a repair is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Which sessions.
    pub only: Only<'a>,
    /// Also where a process has the store open.
    pub force: bool,
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
}

/// What a repair came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The store before it.
    pub before: Scan,
    /// What is open after it, in the sessions that were asked for.
    pub after: Counts,
    /// The store as it was; `None` where there was nothing to repair, and nothing was written.
    pub backup: Option<PathBuf>,
}

/// What came of taking a repair back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// Rows that are as they were before the repair.
    pub restored: usize,
    /// Rows that somebody changed after the repair; they stay.
    pub kept: usize,
    /// Where the backup is now.
    pub backup: PathBuf,
}

/// All that is open in the sessions that are asked for. It changes nothing.
///
/// # Errors
///
/// [`SanitizeError`].
pub fn report(format: &dyn Format, path: &Path, only: &Only<'_>) -> Result<Scan, SanitizeError> {
    filtered(format.scan(path)?, path, only)
}

/// Closes all that is open in the sessions that are asked for, with a copy of the store made first.
///
/// It is all or nothing, also where the process is killed, and doing it twice is doing it once.
///
/// # Errors
///
/// [`SanitizeError`]; the store is as it was then.
pub fn repair(format: &dyn Format, path: &Path, options: &Options<'_>) -> Result<Repaired, SanitizeError> {
    let before = report(format, path, &options.only)?;
    if before.counts().total() == 0 {
        return Ok(Repaired { before, after: Counts::default(), backup: None });
    }
    let store = format.open(path, options.force)?;
    // Only from here on is it known that nobody else writes.
    let before = filtered(store.scan()?, path, &options.only)?;
    let at_ms = backup::free(path, options.now_ms);
    let made = backup::make(&*store, path, at_ms)?;
    match write(&*store, path, &before, options, at_ms) {
        Ok(after) => Ok(Repaired { before, after, backup: Some(made) }),
        Err(error) => {
            // Nothing was changed, so there is nothing to go back to. The first error is told.
            drop(store);
            let _ = std::fs::remove_file(made);
            Err(error)
        }
    }
}

fn write(
    store: &dyn Store,
    path: &Path,
    before: &Scan,
    options: &Options<'_>,
    at_ms: u64,
) -> Result<Counts, SanitizeError> {
    store.begin()?;
    // With `force` others may have written since.
    if options.force && filtered(store.scan()?, path, &options.only)? != *before {
        return Err(SanitizeError::Changed(path.to_owned()));
    }
    store.apply(&plan(before, at_ms))?;
    let after = filtered(store.scan()?, path, &options.only)?.counts();
    if after.total() > 0 {
        return Err(SanitizeError::NotRepaired { path: path.to_owned(), left: after.total() });
    }
    store.commit()?;
    Ok(after)
}

/// Takes the newest repair of a store back that has changed something. Rows that somebody changed since stay.
///
/// # Errors
///
/// [`SanitizeError`]; the store is as it was then.
pub fn undo(format: &dyn Format, path: &Path, force: bool) -> Result<Undone, SanitizeError> {
    let store = format.open(path, force)?;
    for (at_ms, copy) in backup::list(path)? {
        let plan = plan(&format.scan(&copy)?, at_ms);
        store.begin()?;
        let (restored, kept) = store.take_back(&copy, &plan)?;
        store.commit()?;
        let backup = backup::retire(path, &copy, at_ms)?;
        // A backup whose repair was cut short has nothing to give back.
        if restored + kept > 0 {
            return Ok(Undone { restored, kept, backup });
        }
    }
    Err(SanitizeError::NoBackup(path.to_owned()))
}

fn filtered(scan: Scan, path: &Path, only: &Only<'_>) -> Result<Scan, SanitizeError> {
    match (scan.only(only), only) {
        (Some(scan), _) => Ok(scan),
        (None, Only::Session(session)) => {
            Err(SanitizeError::NoSession { path: path.to_owned(), session: (*session).to_owned() })
        }
        // Everything is never nothing.
        (None, Only::All) => Err(SanitizeError::None(path.to_owned())),
    }
}
