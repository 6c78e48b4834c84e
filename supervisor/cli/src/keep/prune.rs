//! Lets old runs go. It never touches one that a process is at work in or that still owes its result, nor the run that is
//! kept just now.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use fanin_protocol::limits::{KEPT_RUNS_AGE, KEPT_RUNS_MAX};

use super::earlier::{Kept, list};
use super::is_owned;
use crate::resume;

/// What is on its way out has this before its name.
const GOING: &str = ".gone-";

/// Removes the runs that are too old or too many. What cannot be removed stays, and the next run tries again: it harms
/// nobody meanwhile.
pub(super) fn prune(runs: &Path, newest: &Path) {
    finish(runs);
    let Ok(kept) = list(runs) else { return };
    let now = SystemTime::now();
    // A clock that was set back makes a run look younger, and it stays a while longer.
    let is_old = |run: &Kept| now.duration_since(run.at).is_ok_and(|age| age > KEPT_RUNS_AGE);
    let others = kept.iter().filter(|run| run.folder != newest);
    for (place, run) in others.enumerate() {
        if place + 1 < KEPT_RUNS_MAX && !is_old(run) {
            continue;
        }
        // One whose store cannot be read may be mended.
        if !is_owned(&run.folder).unwrap_or(true) && !resume::owes(&run.folder).unwrap_or(true) {
            remove(runs, &run.folder);
        }
    }
}

/// Removes a run in one step, as others see it.
fn remove(runs: &Path, folder: &Path) {
    let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { return };
    let going = runs.join(format!("{GOING}{name}"));
    if fs::rename(folder, &going).is_ok() {
        let _ = fs::remove_dir_all(&going);
    }
}

/// Removes what another process had begun to remove.
fn finish(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(GOING)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
