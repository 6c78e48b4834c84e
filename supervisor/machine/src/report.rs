//! What runners and guards say of a run that is open.

use std::sync::Arc;

use fanin_protocol::limits::{CALL_BYTES_MAX, PARTS_PER_RUN_MAX};
use fanin_protocol::record::{RunBound, RunEnded, RunOutcome, StopTarget};
use fanin_protocol::{Cause, Code, JobKind, PartKind, PartState, ToolPart, text};

use crate::command::{Bound, Ended, Refusal, Reply, Report, RunNode, Said};
use crate::out::Out;
use crate::state::{JobKey, Node, State};
use crate::timers::Owner;
use crate::{job, run, session};

/// Takes in a report; its fence was checked.
pub(crate) fn report(state: &mut State, report: Report, out: &mut Out) -> Result<Reply, Refusal> {
    let node = match report.run.node {
        RunNode::Job(key) => Node::Job(key),
        RunNode::Turn(key) => Node::Session(key),
    };
    match report.what {
        Said::Bound(bound) => {
            let Bound { pid, pid_start, boot_id, pgid, containment, external_session } = bound;
            let run = report.run.fence;
            out.record(state, RunBound { run, pid, pid_start, boot_id, pgid, containment, external_session });
        }
        Said::Part { call, name, kind, state: moved } => part(state, node, (call, name, kind, moved), out),
        Said::Ended(ended) => match node {
            Node::Job(key) => run_ended(state, key, ended, out),
            Node::Session(key) => {
                let outcome = match ended {
                    Ended::Completed { .. } => RunOutcome::Completed,
                    Ended::Failed { .. } => RunOutcome::Failed,
                    Ended::Lost => RunOutcome::Cancelled,
                };
                session::end_turn(state, key, outcome, out);
            }
        },
    }
    Ok(Reply::Done)
}

/// Moves a part. What may not follow is dropped: a part that is over stays, and none goes back.
fn part(
    state: &mut State,
    node: Node,
    (call, name, kind, moved): (Arc<str>, Arc<str>, PartKind, PartState),
    out: &mut Out,
) {
    let now_ms = state.memory.clock.wall_ms();
    let Some(run) = run::open(state, node) else { return };
    let call = shortened(call);
    let next = match run.parts.iter().find(|part| part.call == call) {
        Some(part) => part.moved(moved, now_ms),
        None if run.parts.len() >= PARTS_PER_RUN_MAX => None,
        None => {
            let pending = ToolPart::pending(run.fence, call, shortened(name), kind, now_ms);
            if moved == PartState::Pending { Some(pending) } else { pending.moved(moved, now_ms) }
        }
    };
    if let Some(part) = next {
        out.record(state, part);
    }
}

fn shortened(text: Arc<str>) -> Arc<str> {
    if text.len() <= CALL_BYTES_MAX { text } else { text::cut(&text, CALL_BYTES_MAX).into() }
}

/// A run of a job is over and gone. What was wished before it ended decides how it counts (J-17, J-19).
fn run_ended(state: &mut State, key: JobKey, ended: Ended, out: &mut Out) {
    run::close_parts(state, Node::Job(key), out);
    let Some(job) = state.job(key) else { return };
    let Some(open) = &job.run else { return };
    let plain = run::ended(open.fence);
    let by_itself = match ended {
        Ended::Completed { output, exit, left }
            if job.kind == JobKind::Agent && output.is_none() && open.parts.is_empty() =>
        {
            // The prompt was taken and nothing came of it: that is no success (J-23).
            let message = Some("the agent ended without any output or tool call".into());
            let (cause, code) = (Some(Cause::Failed), Some(Code::NoOutput));
            RunEnded { outcome: RunOutcome::Failed, cause, code, message, exit, output, left, ..plain }
        }
        Ended::Completed { output, exit, left } => RunEnded { output, exit, left, ..plain },
        Ended::Failed { cause, code, message, output, exit, left } => RunEnded {
            outcome: RunOutcome::Failed,
            cause: Some(cause),
            code,
            message: Some(message),
            output,
            exit,
            left,
            ..plain
        },
        Ended::Lost => RunEnded {
            outcome: RunOutcome::Interrupted,
            cause: Some(Cause::Interrupted),
            message: Some("the task was dropped before it ended".into()),
            ..plain
        },
    };
    let record = match job.stop {
        None => by_itself,
        // A run that ended well although it was told to stop keeps that outcome: its effects happened. The job's
        // status follows the wish all the same.
        Some(_) if by_itself.outcome == RunOutcome::Completed => by_itself,
        Some(stop) => RunEnded {
            outcome: match stop.target {
                StopTarget::Cancelled | StopTarget::Requeue => RunOutcome::Cancelled,
                StopTarget::Error => RunOutcome::Failed,
            },
            cause: Some(stop.cause),
            code: stop.code,
            ..by_itself
        },
    };
    let fence = record.run;
    let unreaped = record.left.as_ref().is_some_and(|left| left.is_unreaped()).then(|| job.id.clone());
    out.record_of(state, key, record);
    if let Some(id) = unreaped {
        job::note_unreaped(state, id, fence, out);
    }
    state.memory.forced.remove(&fence);
    state.memory.timers.clear(Owner::Job(key));
    state.memory.dirty.jobs.push_back(key);
}
