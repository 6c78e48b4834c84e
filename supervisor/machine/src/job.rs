//! How a job comes to its one end.

use fanin_protocol::record::{JobEnded, Note, NoteCode, RunEnded, RunOutcome, StopTarget};
use fanin_protocol::{Cause, Code, Fence, JobId, Record, Status};

use crate::effect::{Effect, Forgotten};
use crate::out::Out;
use crate::state::{JobKey, Node, State, Unreaped};
use crate::timers::Owner;
use crate::{activity, mail, message, plan, quota, run, stop, sweep, waiter};

/// How a job ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    status: Status,
    cause: Option<Cause>,
    code: Option<Code>,
    after: Option<Cause>,
    root: Option<u32>,
    interrupted: bool,
    unreaped: bool,
    completed_anyway: bool,
}

impl Ending {
    const fn new(status: Status, cause: Option<Cause>, code: Option<Code>) -> Self {
        Self {
            status,
            cause,
            code,
            after: None,
            root: None,
            interrupted: false,
            unreaped: false,
            completed_anyway: false,
        }
    }

    pub(crate) const fn error(cause: Cause, code: Option<Code>) -> Self {
        Self::new(Status::Error, Some(cause), code)
    }

    pub(crate) const fn cancelled(cause: Cause) -> Self {
        Self::new(Status::Cancelled, Some(cause), None)
    }

    /// One that it needs did not complete, and the member at this place began it (T-4).
    pub(crate) const fn skipped(root: u32) -> Self {
        Self { root: Some(root), ..Self::error(Cause::Dependency, None) }
    }

    pub(crate) const fn interrupted(self) -> Self {
        Self { interrupted: true, ..self }
    }
}

/// A group below the node fired, or the last member of a voided one is over: a job that waits for it may be over too.
pub(crate) fn child_over(state: &mut State, parent: Node) {
    if let Node::Job(key) = parent
        && state.facts.is_subtree_over(parent)
    {
        state.memory.dirty.jobs.push_back(key);
    }
}

/// Ends a job whose last run is over and gone, and all below it too. Does nothing where that is not so yet, or no longer: calling it twice
/// is calling it once.
pub(crate) fn settle(state: &mut State, key: JobKey, out: &mut Out) {
    let Some(job) = state.job(key) else { return };
    // One that waits for its next try is not at its end.
    if job.ended.is_some() || job.awaits_start() || !state.facts.is_subtree_over(Node::Job(key)) {
        return;
    }
    if let Some(run) = &job.run {
        let fence = run.fence;
        if state.memory.overdue.remove(&fence) {
            stop::give_up(state, key, fence, out);
        }
        return;
    }
    sweep::catch_up(state, key, out);
    let Some(job) = state.job(key) else { return };
    let Some(last) = &job.last else { return };
    let completed = last.outcome == RunOutcome::Completed;
    let interrupted = last.outcome == RunOutcome::Interrupted;
    let unreaped = last.is_unreaped();
    // One that was to run once more and has done its work has done it.
    let ending = match job.stop.filter(|stop| !completed || stop.target != StopTarget::Requeue) {
        Some(stop) => {
            let status = match stop.target {
                StopTarget::Cancelled | StopTarget::Requeue => Status::Cancelled,
                StopTarget::Error => Status::Error,
            };
            Ending {
                after: stop.after,
                completed_anyway: completed,
                interrupted,
                unreaped,
                ..Ending::new(status, Some(stop.cause), stop.code)
            }
        }
        None if completed => Ending { unreaped, ..Ending::new(Status::Completed, None, None) },
        None => {
            let cause = last.cause.unwrap_or(Cause::Failed);
            Ending { interrupted, unreaped, ..Ending::error(cause, last.code) }
        }
    };
    end(state, key, ending, out);
}

/// Writes the one terminal record, and tells whoever looks at the job.
pub(crate) fn end(state: &mut State, key: JobKey, ending: Ending, out: &mut Out) {
    let Some(job) = state.job(key) else { return };
    let (id, group) = (job.id.clone(), job.group);
    sweep::void_owed(state, Node::Job(key), out);
    let Ending { status, cause, code, after, root, interrupted, unreaped, completed_anyway } = ending;
    out.record_of(
        state,
        key,
        JobEnded { job: id, status, cause, code, after, root, interrupted, unreaped, completed_anyway },
    );
    state.memory.timers.clear(Owner::Job(key));
    state.memory.force_at.remove(&key);
    waiter::run_over(state, key, out);
    state.memory.clocks.remove(&key);
    mail::ended(state, key, group);
    plan::ended(state, key, group);
    state.memory.dirty.groups.push_back(group);
    if let Some(parent) = state.facts.parent(Node::Job(key)) {
        child_over(state, parent);
    }
    out.effect(Effect::Forget(Forgotten::Work { tag: state.tag(key) }));
    waiter::job_ended(state, key, out);
}

/// Ends a job whose run did not go in time after the forced stop (J-18): it may still be alive, and says so.
pub(crate) fn abandon(state: &mut State, key: JobKey, out: &mut Out) {
    let Some(fence) = run::open_fence(state, Node::Job(key)) else { return };
    sweep::catch_up(state, key, out);
    run::close_some(state, Node::Job(key), usize::MAX, out);
    message::run_over(state, key, out);
    quota::run_over(state, key, out);
    let Some(job) = state.job(key) else { return };
    let (id, Some(stop)) = (job.id.clone(), job.stop) else { return };
    let status = match stop.target {
        StopTarget::Cancelled | StopTarget::Requeue => Status::Cancelled,
        StopTarget::Error => Status::Error,
    };
    let outcome = match status {
        Status::Cancelled => RunOutcome::Cancelled,
        Status::Queued | Status::Running | Status::Completed | Status::Error => RunOutcome::Failed,
    };
    let message = "it did not end after the forced stop and may still be alive".into();
    let message = match stop.target {
        StopTarget::Error => activity::message(state, key, Some(message)),
        StopTarget::Cancelled | StopTarget::Requeue => Some(message),
    };
    let plain = run::ended(fence);
    out.record(state, RunEnded { outcome, cause: Some(stop.cause), code: stop.code, message, ..plain });
    note_unreaped(state, id, fence, out);
    state.memory.forced.remove(&fence);
    state.memory.overdue.remove(&fence);
    activity::run_over(state, key);
    quota::look_again(state);
    state.memory.unreaped.insert(key, Unreaped::Runs(fence));
    let ending =
        Ending { after: stop.after, unreaped: true, ..Ending::new(status, Some(stop.cause), stop.code) };
    end(state, key, ending, out);
}

/// Says that something of a run may still be alive.
pub(crate) fn note_unreaped(state: &mut State, job: JobId, run: Fence, out: &mut Out) {
    let note = Note { job: Some(job), run: Some(run), ..Note::new(NoteCode::Unreaped) };
    out.record(state, Record::Note(note));
}
