//! Keeps out reports of runs that are over: a stale runner cannot change any recorded state (P5, J-16).

use fanin_protocol::limits::STALE_RUNS_MAX;
use fanin_protocol::record::{Note, NoteCode};

use crate::again;
use crate::command::{Command, RunNode, RunRef, Said};
use crate::epoch;
use crate::out::Out;
use crate::state::State;

/// The command, unless it is a report of a run that is not open: that is dropped, and noted once in an open epoch.
pub(crate) fn admit(state: &mut State, command: Command, out: &mut Out) -> Option<Command> {
    let Command::Report(report) = &command else { return Some(command) };
    if is_open(state, report.run) {
        return Some(command);
    }
    // The answer to a question of ours, which may cross the end of the run, is nothing to note.
    if matches!(report.what, Said::Beat(_)) {
        return None;
    }
    if matches!(report.what, Said::Gone) {
        again::gone(state, report.run);
        return None;
    }
    again::late(state, report);
    let run = report.run.fence;
    if !epoch::is_open(state) || !state.memory.noted.insert(run) {
        return None;
    }
    if state.memory.noted.len() > STALE_RUNS_MAX {
        state.memory.noted.pop_first();
    }
    let job = match report.run.node {
        RunNode::Job(key) => state.job(key).map(|job| job.id.clone()),
        RunNode::Turn(_) => None,
    };
    out.record(state, Note { job, run: Some(run), ..Note::new(NoteCode::StaleReport) });
    None
}

/// True where the run that a report names is the open run of its node.
pub(crate) fn is_open(state: &State, run: RunRef) -> bool {
    let open = match run.node {
        RunNode::Job(key) => state.job(key).and_then(|job| job.run.as_ref()).map(|open| open.fence),
        RunNode::Turn(key) => {
            state.session(key).and_then(|session| session.turn.as_ref()).map(|open| open.fence)
        }
    };
    open == Some(run.fence)
}
