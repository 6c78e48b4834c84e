//! What a store holds, as a state to go on from. What follows from it is decided by the machine when it opens.

use std::sync::Arc;

use fanin_machine::{Facts, State};
use fanin_protocol::LogId;
use tokio::runtime::Handle;

use crate::journal::{JournalError, Opened};
use crate::runner::Runner;

/// The state that the rows say.
pub(crate) fn state(opened: &Opened) -> Result<State, JournalError> {
    let rows = || opened.rows.iter().map(|row| (row.kind, row.key, &*row.body));
    let facts = Facts::restore(opened.log.clone(), opened.head, opened.ts_ms, rows()).or_else(|error| {
        // A store is as it was committed, but for what a repair has given up.
        tracing::error!(%error, "what is left of a store that was repaired is gone on with");
        Facts::restore_seen(opened.log.clone(), opened.head, opened.ts_ms, rows())
    });
    let facts = facts.map_err(|error| JournalError::Damaged {
        store: opened.log.as_ref().map(ToString::to_string).unwrap_or_default(),
        damage: error.to_string(),
    })?;
    Ok(State::recovered(facts))
}

/// Has all runners stop what an earlier supervisor of the log left alive: two runs of a job must never be at work at once
/// . What cannot be stopped is named in the log lines, and nothing is refused for it.
pub(crate) async fn stop_survivors(
    runtime: &Handle,
    runners: &[Arc<dyn Runner>],
    log: Option<&LogId>,
) -> Result<(), JournalError> {
    let Some(log) = log else { return Ok(()) };
    for runner in runners {
        let (runner, log) = (Arc::clone(runner), log.clone());
        let stop = runtime.spawn_blocking(move || runner.stop_survivors(&log)).await;
        let left =
            stop.map_err(|error| JournalError::Io(format!("survivors could not be looked for: {error}")))?;
        for process in left {
            let (pid, program) = (process.pid, process.program);
            tracing::error!(pid, program, "a process of an earlier run could not be stopped");
        }
    }
    Ok(())
}
