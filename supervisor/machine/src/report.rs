//! What runners and guards say of a run that is open.

use std::sync::Arc;

use fanin_protocol::limits::{CALL_BYTES_MAX, PARTS_PER_RUN_MAX};
use fanin_protocol::record::{RunBound, RunEnded, RunOutcome, StopTarget, Usage};
use fanin_protocol::{Cause, Code, JobKind, PartKind, PartState, ToolPart, text};

use crate::command::{Bound, Ended, Refusal, Reply, Report, Said};
use crate::out::Out;
use crate::state::{JobKey, Node, State, StopIntent, Unreaped};
use crate::timers::{Owner, Purpose};
use crate::{
    activity, circuit, job, message, quota, repeats, retry, run, session, sweep, tree, waiter, watch,
};

/// Takes in a report; its fence was checked.
pub(crate) fn report(state: &mut State, report: Report, out: &mut Out) -> Result<Reply, Refusal> {
    let node = tree::node_of(report.run.node);
    match report.what {
        Said::Bound(bound) => {
            let Bound { pid, pid_start, boot_id, pgid, containment, external_session, rights } = bound;
            let run = report.run.fence;
            let record =
                RunBound { run, pid, pid_start, boot_id, pgid, containment, external_session, rights };
            match node {
                Node::Job(key) => {
                    out.record_of(state, key, record);
                    state.memory.timers.disarm(Owner::Job(key), Purpose::Start(report.run.fence));
                }
                Node::Session(_) => out.record(state, record),
            }
        }
        Said::Part { call, name, kind, state: moved, args_hash } => {
            part(state, node, (call, name, kind, moved), args_hash, out);
        }
        Said::Beat(at) => {
            if let Node::Job(key) = node {
                activity::beat(state, key, report.run.fence, at, out);
            }
        }
        // No run speaks for another.
        Said::Used(usage) => {
            quota::used(state, node, Usage { run: report.run.fence, ms: None, ..usage }, out)
        }
        Said::Listens => message::listen(state, report.run),
        Said::Silent => return message::silence(state, report.run),
        Said::Took(key) => message::took(state, report.run, key, out),
        Said::Fired(text) => return watch::fired(state, node, text, out),
        // Of a run that is open nothing was left.
        Said::Gone => {}
        Said::Ended(ended) => match node {
            Node::Job(key) => run_ended(state, key, ended, out),
            Node::Session(key) => {
                let outcome = match ended {
                    Ended::Completed { .. } => RunOutcome::Completed,
                    Ended::Failed { .. } => RunOutcome::Failed,
                    Ended::Lost { .. } => RunOutcome::Cancelled,
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
    args_hash: Option<u64>,
    out: &mut Out,
) {
    let now_ms = state.memory.clock.wall_ms();
    let Some(run) = run::open(state, node) else { return };
    let (fence, call, name) = (run.fence, shortened(call), shortened(name));
    let known = run.parts.iter().find(|part| part.call == call);
    let is_new = known.is_none();
    let next = match known {
        Some(part) => part.moved(moved, now_ms),
        None if run.parts.len() >= PARTS_PER_RUN_MAX => None,
        None => {
            let pending = ToolPart::pending(fence, call, Arc::clone(&name), kind, now_ms);
            if moved == PartState::Pending { Some(pending) } else { pending.moved(moved, now_ms) }
        }
    };
    let Some(part) = next else { return };
    let Node::Job(key) = node else { return out.record(state, part) };
    if part.kind == PartKind::Question {
        state.memory.dirty.lends.push_back(key);
    }
    out.record_of(state, key, part);
    activity::part_moved(state, key);
    if is_new && kind == PartKind::Tool {
        repeats::called(state, key, fence, (&name, args_hash), out);
    }
}

fn shortened(text: Arc<str>) -> Arc<str> {
    if text.len() <= CALL_BYTES_MAX { text } else { text::cut(&text, CALL_BYTES_MAX).into() }
}

/// A run of a job is over and gone. What was wished before it ended decides how it counts (J-17, J-19).
fn run_ended(state: &mut State, key: JobKey, ended: Ended, out: &mut Out) {
    sweep::catch_up(state, key, out);
    run::close_some(state, Node::Job(key), usize::MAX, out);
    let unanswered = message::run_over(state, key, out);
    quota::run_over(state, key, out);
    let Some(job) = state.job(key) else { return };
    let Some(open) = &job.run else { return };
    let is_safe = matches!(ended, Ended::Failed { is_safe: true, .. });
    let plain = run::ended(open.fence);
    let by_itself = match ended {
        Ended::Completed { output, exit, left }
            if job.kind == JobKind::Agent && output.is_none() && open.parts.is_empty() && !open.used =>
        {
            // The prompt was taken and nothing came of it: that is no success (J-23).
            let message = Some("the agent ended without any output or tool call".into());
            let (cause, code) = (Some(Cause::Failed), Some(Code::NoOutput));
            RunEnded { outcome: RunOutcome::Failed, cause, code, message, exit, output, left, ..plain }
        }
        Ended::Completed { output, exit, left } if unanswered > 0 => {
            // It had accepted them: the job does not end well before they are taken (J-6, J-24).
            let message =
                Some(format!("it ended and left {unanswered} accepted follow-ups unanswered").into());
            let (cause, code) = (Some(Cause::Failed), Some(Code::Unanswered));
            RunEnded { outcome: RunOutcome::Failed, cause, code, message, exit, output, left, ..plain }
        }
        Ended::Completed { output, exit, left } => RunEnded { output, exit, left, ..plain },
        Ended::Failed { cause, code, message, output, exit, left, is_safe: _ } => RunEnded {
            outcome: RunOutcome::Failed,
            cause: Some(cause),
            code,
            message: Some(message),
            output,
            exit,
            left,
            ..plain
        },
        Ended::Lost { output } => RunEnded {
            output,
            outcome: RunOutcome::Interrupted,
            cause: Some(Cause::Interrupted),
            message: Some("the task was dropped before it ended".into()),
            ..plain
        },
    };
    let record = as_wished(state, key, job.stop, by_itself);
    let record = RunEnded { next: retry::next(state, key, &record, is_safe), ..record };
    let (fence, kind) = (record.run, job.kind);
    let start_failed = is_failed_start(&record, is_safe);
    let has_failed = record.outcome != RunOutcome::Completed;
    let unreaped = record.left.clone().filter(|left| left.is_unreaped()).map(|left| (job.id.clone(), left));
    out.record_of(state, key, record);
    if let Some((id, left)) = unreaped {
        job::note_unreaped(state, id, fence, out);
        state.memory.unreaped.insert(key, Unreaped::Left(fence, left));
    }
    state.memory.forced.remove(&fence);
    state.memory.overdue.remove(&fence);
    activity::run_over(state, key);
    quota::look_again(state);
    retry::arm(state, key);
    waiter::run_over(state, key, out);
    if has_failed && state.job(key).is_some_and(|job| job.stop.is_none()) {
        // Its children are stopped first (J-8), and what is owed to this try is not owed to the next.
        sweep::begin(state, Node::Job(key), None, out);
    }
    if start_failed {
        circuit::failed(state, kind, out);
    }
    state.memory.dirty.jobs.push_back(key);
}

/// How a run counts whose job was told to stop.
fn as_wished(state: &State, key: JobKey, stop: Option<StopIntent>, by_itself: RunEnded) -> RunEnded {
    match stop {
        None => by_itself,
        // A run that ended well although it was told to stop keeps that outcome: its effects happened. The job's
        // status follows the wish all the same.
        Some(_) if by_itself.outcome == RunOutcome::Completed => by_itself,
        Some(stop) => RunEnded {
            outcome: match stop.target {
                StopTarget::Cancelled => RunOutcome::Cancelled,
                StopTarget::Error => RunOutcome::Failed,
                StopTarget::Requeue => RunOutcome::Interrupted,
            },
            cause: Some(stop.cause),
            code: stop.code,
            message: match stop.target {
                StopTarget::Error => activity::message(state, key, by_itself.message),
                StopTarget::Cancelled | StopTarget::Requeue => by_itself.message,
            },
            ..by_itself
        },
    }
}

/// True where the start failed and the job's own spec is not to blame: only then does it say something of its kind.
fn is_failed_start(ended: &RunEnded, is_safe: bool) -> bool {
    let by_system = match (ended.cause, ended.code) {
        (Some(Cause::Spawn), code) => matches!(code, None | Some(Code::Os | Code::Handshake)),
        (Some(Cause::Timeout), code) => code == Some(Code::Start),
        _ => false,
    };
    by_system || is_safe && ended.outcome == RunOutcome::Failed && ended.cause != Some(Cause::Spawn)
}
