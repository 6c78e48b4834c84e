//! What is common to the runs of jobs and the turns of sessions.

use fanin_protocol::Fence;
use fanin_protocol::record::{Next, RunEnded, RunOutcome};

use crate::out::Out;
use crate::state::{Job, Node, OpenRun, State};

/// The open run of a node.
pub(crate) fn open(state: &State, node: Node) -> Option<&OpenRun> {
    match node {
        Node::Job(key) => state.job(key)?.run.as_ref(),
        Node::Session(key) => state.session(key)?.turn.as_ref(),
    }
}

/// True where a runner has the open run of a job in hand.
pub(crate) fn is_bound(job: &Job) -> bool {
    job.run.as_ref().is_some_and(|run| run.bound)
}

/// Its fence.
pub(crate) fn open_fence(state: &State, node: Node) -> Option<Fence> {
    open(state, node).map(|run| run.fence)
}

/// Closes what the run left open, so many at the most: nobody reported the end of these calls, so each may or may not
/// have taken effect. How many it closed.
pub(crate) fn close_some(state: &mut State, node: Node, max: usize, out: &mut Out) -> usize {
    let now_ms = state.memory.clock.wall_ms();
    let Some(run) = open(state, node) else { return 0 };
    let orphans: Vec<_> = run.parts.iter().filter_map(|part| part.interrupt(now_ms)).take(max).collect();
    let closed = orphans.len();
    for part in orphans {
        out.record(state, part);
    }
    closed
}

/// A plain end, to be filled in.
pub(crate) const fn ended(run: Fence) -> RunEnded {
    RunEnded {
        run,
        outcome: RunOutcome::Completed,
        next: Next::Settle,
        cause: None,
        code: None,
        message: None,
        exit: None,
        output: None,
        left: None,
    }
}
