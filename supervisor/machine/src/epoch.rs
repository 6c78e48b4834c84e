//! The beginning and the end of an epoch. Recovery has no rules of its own: it closes older runs, and the ordinary
//! settle loop does the rest.

use fanin_protocol::limits::{CRASHED_RUNS_MAX, ORPHANS_PER_STEP};
use fanin_protocol::record::{Next, RunEnded, RunOutcome, StopTarget, StoreClosed, StoreOpened};
use fanin_protocol::{Cause, Code, Fence, JobKind, Resume, Seq};

use crate::command::{Open, Refusal, Reply};
use crate::job::Ending;
use crate::out::Out;
use crate::state::{Closing, GroupKey, Job, JobKey, Node, Payer, SessionKey, Settings, State};
use crate::stop::Intent;
use crate::{
    dispatch, evict, group, job, launch, message, plan, quota, retry, run, session, stop, sweep, timer, watch,
};

/// True between `store.opened` and `store.closed`, once this process has opened it.
pub(crate) fn is_open(state: &State) -> bool {
    state.memory.opened && !state.facts.closed
}

impl State {
    /// True while runs of older epochs are still to be closed: nothing else is decided meanwhile, nothing starts, and the
    /// host repeats its `Open`.
    pub const fn is_opening(&self) -> bool {
        self.memory.opening.is_some()
    }
}

/// Begins an epoch, or goes on with that (RE-1, RE-3, RE-4). Where more parts are open than one step closes, the host
/// asks again until nothing [is left](State::is_opening).
///
/// A recovery may itself have been cut short at any record, so each part asks for what is still in the old state and
/// not for what the last epoch left (RE-8).
pub(crate) fn open(state: &mut State, open: &Open, out: &mut Out) -> Result<Reply, Refusal> {
    if !state.memory.opened {
        state.memory.opened = true;
        begin(state, open, out);
    }
    let Some(mut older) = state.memory.opening.take() else { return Ok(Reply::Done) };
    let mut left = ORPHANS_PER_STEP;
    while left > 0
        && let Some(node) = older.pop_front()
    {
        left -= run::close_some(state, node, left, out);
        if left == 0 {
            // Of this one there may be more.
            older.push_front(node);
        } else {
            left -= 1;
            end_run(state, node, out);
        }
    }
    if older.is_empty() {
        go_on(state, out);
    } else {
        state.memory.opening = Some(older);
    }
    Ok(Reply::Done)
}

fn begin(state: &mut State, open: &Open, out: &mut Out) {
    let Open { slots, grace_ms, seed, sends_per_member, .. } = *open;
    state.memory.settings = Settings { slots, grace_ms, seed, sends_per_member };
    state.memory.starts.set_rates(&open.rates);
    state.memory.died_ms = state.facts.ts_ms;
    let previous = (state.facts.epoch > Seq(0)).then_some(state.facts.epoch);
    let clean = previous.is_none() || state.facts.closed;
    out.record(state, StoreOpened { log: open.log.clone(), level: open.level, previous, clean });
    state.memory.opened_ms = state.facts.ts_ms;

    let older = older_runs(state);
    for node in &older {
        let Node::Job(key) = *node else { continue };
        // What a node above was told before the crash counts for this one too (SC-2).
        sweep::catch_up(state, key, out);
    }
    state.memory.opening = Some(older.into());
}

/// All older runs are over: what they were part of is settled, and what waits is in line again.
fn go_on(state: &mut State, out: &mut Out) {
    for key in state.facts.sessions.places().into_iter().map(SessionKey) {
        if state.session(key).is_some_and(|session| session.turn.is_none()) {
            session::seal_turn_group(state, key, None, out);
        }
        state.memory.dirty.inboxes.push_back(Node::Session(key));
        quota::opened(state, Payer::Session(key));
    }
    for key in state.facts.groups.places().into_iter().map(GroupKey) {
        group::close_taken(state, key, out);
        rearm(state, key);
        quota::opened(state, Payer::Group(key));
    }
    for key in state.facts.jobs.places().into_iter().map(JobKey) {
        requeue(state, key, out);
        quota::opened(state, Payer::Job(key));
    }
    // What was due by now is due before anything starts.
    timer::due(state, out);
    sweep::resume(state, out);
    evict::begin(state);
}

/// Runs that an older epoch left open, oldest first.
fn older_runs(state: &State) -> Vec<Node> {
    let epoch = Fence(state.facts.epoch.0);
    let fence = |node: &Node| run::open_fence(state, *node);
    let is_older = |node: &Node| fence(node).is_some_and(|run| run < epoch);
    let mut older: Vec<Node> = state.facts.runs.nodes().filter(is_older).collect();
    older.sort_unstable_by_key(fence);
    older
}

/// Ends a run whose host is gone: its parts are closed, so that no settled job ever has an open part (RE-3).
fn end_run(state: &mut State, node: Node, out: &mut Out) {
    let Some(fence) = run::open_fence(state, node) else { return };
    if let Node::Job(key) = node {
        message::run_over(state, key, out);
        quota::interrupted(state, key, out);
    }
    let (next, code) = resumed(state, node);
    out.record(
        state,
        RunEnded {
            outcome: RunOutcome::Interrupted,
            cause: Some(Cause::Interrupted),
            message: Some("the supervisor stopped before the job did".into()),
            next,
            code,
            ..run::ended(fence)
        },
    );
    match node {
        Node::Job(key) => state.memory.dirty.jobs.push_back(key),
        Node::Session(key) => session::seal_turn_group(state, key, Some(fence), out),
    }
}

/// What follows a run that a crash interrupted (RE-4, RE-5). What was told to stop is not started again, unless to be
/// queued again; that was an orderly stop, and does not count as a crash.
fn resumed(state: &State, node: Node) -> (Next, Option<Code>) {
    let Node::Job(key) = node else { return (Next::Settle, None) };
    let Some(job) = state.job(key) else { return (Next::Settle, None) };
    let is_requeued = job.stop.is_some_and(|stop| stop.target == StopTarget::Requeue);
    let is_going = job.stop.is_some() && !is_requeued || sweep::inherited(state, key).is_some();
    if !may_rerun(job) || is_going {
        (Next::Settle, None)
    } else if !is_requeued && job.crashed + 1 >= CRASHED_RUNS_MAX {
        (Next::Settle, Some(Code::Exhausted))
    } else {
        (Next::Requeue, None)
    }
}

/// True where a run of the job may be followed by another one of a later epoch. What its children did is not undone.
fn may_rerun(job: &Job) -> bool {
    let is_wanted = job.limits().resume == Some(Resume::Rerun) && job.kind != JobKind::Closure;
    is_wanted && job.below.is_none()
}

fn rearm(state: &mut State, key: GroupKey) {
    let Some(group) = state.group(key) else { return };
    if group.sealed && group.fired.is_none() && group.voided.is_none() {
        group::arm(state, key);
        state.memory.dirty.groups.push_back(key);
    }
}

/// A queued job waits on; a closure cannot, its body is gone (RE-7). One whose run is over ends.
fn requeue(state: &mut State, key: JobKey, out: &mut Out) {
    let Some(job) = state.job(key) else { return };
    if job.ended.is_some() || job.run.is_some() {
        return;
    }
    if let Some(above) = sweep::inherited(state, key).filter(|_| job.awaits_start()) {
        job::end(state, key, Ending::cancelled(above.cause), out);
    } else if job.last.is_some() && !job.awaits_start() {
        state.memory.dirty.jobs.push_back(key);
    } else if job.kind == JobKind::Closure {
        job::end(state, key, Ending::error(Cause::Interrupted, None).interrupted(), out);
    } else if job.last.is_some() {
        retry::restore(state, key);
    } else {
        launch::arm_queue_limit(state, key);
        if !plan::holds(state, key) {
            dispatch::enqueue(state, key);
        }
    }
}

/// Refuses launches from now on, starts nothing more, and stops what only looks.
pub(crate) fn drain(state: &mut State, out: &mut Out) -> Result<Reply, Refusal> {
    state.memory.closing = state.memory.closing.max(Closing::Draining);
    // It would hold up the end of what is waited for.
    for key in watch::live(state) {
        let may_rerun = state.job(key).is_some_and(may_rerun);
        let target = if may_rerun { StopTarget::Requeue } else { StopTarget::Cancelled };
        stop::tell(state, key, Intent { target, cause: Cause::Shutdown, ..Intent::PARENT }, out);
    }
    Ok(Reply::Done)
}

/// Stops all that lives: queued jobs and turns at once. An orderly end writes what a recovery would (S-3): with `keep`
/// what another epoch can take up waits for it.
pub(crate) fn stop(
    state: &mut State,
    grace_ms: Option<u64>,
    keep: bool,
    out: &mut Out,
) -> Result<Reply, Refusal> {
    state.memory.closing = Closing::Stopping;
    for key in state.facts.sessions.places().into_iter().map(SessionKey) {
        session::end_turn(state, key, RunOutcome::Interrupted, out);
    }
    let force_at = grace_ms.map(|grace_ms| state.memory.clock.mono().after(grace_ms));
    for key in state.facts.jobs.places().into_iter().map(JobKey) {
        let target = match state.job(key).filter(|_| keep && !is_below_a_job(state, key)) {
            Some(job) if job.awaits_start() && job.kind != JobKind::Closure => continue,
            Some(job) if may_rerun(job) && job.stop.is_none() => StopTarget::Requeue,
            Some(_) | None => StopTarget::Cancelled,
        };
        stop::tell(state, key, Intent { target, cause: Cause::Shutdown, force_at, ..Intent::PARENT }, out);
    }
    Ok(Reply::Done)
}

/// True where a job hangs below another one, which another epoch does not take up: it has launched.
fn is_below_a_job(state: &State, key: JobKey) -> bool {
    matches!(state.facts.parent(Node::Job(key)), Some(Node::Job(_)))
}

/// Writes the last record. Waiters that are still there are told that nothing will come.
pub(crate) fn finish(state: &mut State, out: &mut Out) -> Result<Reply, Refusal> {
    let open = state.facts.runs.len();
    if open > 0 {
        return Err(Refusal::RunsOpen(u32::try_from(open).unwrap_or(u32::MAX)));
    }
    crate::inbox::close_all(state, out);
    state.memory.sweeps.clear();
    state.memory.teams.clear();
    out.record(state, StoreClosed { queued: u64::from(state.facts.queued) });
    state.memory.timers = crate::timers::Timers::default();
    Ok(Reply::Done)
}
