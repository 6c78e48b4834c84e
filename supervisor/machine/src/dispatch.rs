//! Giving out free slots: round robin over session trees, launch order inside one (SC-9).

use std::sync::Arc;

use fanin_protocol::record::RunStarted;
use fanin_protocol::{Cause, Fence, NodeId};

use crate::command::{RunNode, RunRef};
use crate::effect::Effect;
use crate::job::{self, Ending};
use crate::lend;
use crate::out::Out;
use crate::quota::{self, Room};
use crate::state::{Closing, Job, JobKey, Memory, SessionKey, State};
use crate::{activity, circuit, plan, watch};

/// Puts a queued job in line.
pub(crate) fn enqueue(state: &mut State, key: JobKey) {
    let Some((session, is_watch)) = state.job(key).map(|job| (job.session, job.is_watch())) else { return };
    if is_watch {
        state.memory.watches.push_back(key);
        return;
    }
    state.memory.ready.entry(session).or_default().push_back(key);
    join_round(state, session);
}

/// The session has something in line: it takes part in the round, once.
pub(crate) fn join_round(state: &mut State, session: SessionKey) {
    if !state.memory.lending.parked.contains(&session) && state.memory.in_round.insert(session) {
        state.memory.round.push_back(session);
    }
}

/// A slot of the session's tree may be free again.
pub(crate) fn slot_back(state: &mut State, session: SessionKey) {
    if state.memory.lending.parked.remove(&session) {
        join_round(state, session);
    }
}

/// Gives a free slot to the next in turn; false where no slot is free or nobody waits. In one session those that have
/// lent theirs come before new starts (SC-10). Nothing starts once the end has begun.
pub(crate) fn next(state: &mut State, out: &mut Out) -> bool {
    if let Some(key) = next_watch(state) {
        begin(state, key, out);
        return true;
    }
    if !lend::is_any_free(state) {
        return false;
    }
    if state.memory.closing == Closing::No
        && let Some(key) = next_aside(state).or_else(|| quota::next(state))
    {
        begin(state, key, out);
        return true;
    }
    while let Some(session) = state.memory.round.pop_front() {
        state.memory.in_round.remove(&session);
        if !lend::is_free(state, session) {
            state.memory.lending.parked.insert(session);
            continue;
        }
        if let Some(key) = lend::next_asking(state, session) {
            join_round(state, session);
            lend::grant(state, key, session, out);
            return true;
        }
        if state.memory.closing == Closing::No
            && let Some(key) = next_queued(state, session)
        {
            begin(state, key, out);
            return true;
        }
    }
    circuit::arm(state);
    false
}

/// The next watch that may start. It stands in no line: it holds no slot, and has to look at those that do (SC-22).
fn next_watch(state: &mut State) -> Option<JobKey> {
    let Memory { watches, closing, .. } = &mut state.memory;
    let facts = &state.facts;
    let may_start = |key: &JobKey| {
        facts.jobs.get(key.index()).is_some_and(Job::awaits_start) && facts.going_above(*key).is_none()
    };
    if *closing > Closing::No { None } else { std::iter::from_fn(|| watches.pop_front()).find(may_start) }
}

/// The next of those that stood aside because of their kind. They had their turn; one whose tree has no slot for it, or
/// owes one, stands in line again.
fn next_aside(state: &mut State) -> Option<JobKey> {
    let now = state.memory.clock.mono();
    loop {
        let facts = &state.facts;
        let may_start = |key: JobKey| {
            facts.jobs.get(key.index()).is_some_and(Job::awaits_start) && facts.going_above(key).is_none()
        };
        let key = state.memory.starts.pop(now, may_start)?;
        let session = state.job(key)?.session;
        if lend::is_free(state, session) && !state.memory.lending.asking.contains_key(&session) {
            return Some(key);
        }
        enqueue(state, key);
    }
}

/// The next job of a session to be started; the session goes to the end of the round where it has more.
fn next_queued(state: &mut State, session: SessionKey) -> Option<JobKey> {
    let now = state.memory.clock.mono();
    let line = state.memory.ready.get_mut(&session)?;
    // Those that ended in the queue cost their session no turn, nor do those whose kind may not start now. One below a
    // node that goes is over as soon as its record comes.
    let (starts, facts) = (&mut state.memory.starts, &state.facts);
    let may_start = |key: &JobKey| {
        let job = facts.jobs.get(key.index()).filter(|job| job.awaits_start());
        job.is_some_and(|job| facts.going_above(*key).is_none() && !starts.hold(job.kind, *key, now))
    };
    let key = std::iter::from_fn(|| line.pop_front()).find(may_start);
    if line.is_empty() {
        state.memory.ready.remove(&session);
    } else {
        join_round(state, session);
    }
    key
}

/// Starts a job that has its turn, where its budget bears it (BU-3). One that stood aside for that may be in no slot's
/// turn any more, and stands in line again.
fn begin(state: &mut State, key: JobKey, out: &mut Out) {
    let Some(job) = state.job(key) else { return };
    let (session, kind, is_watch) = (job.session, job.kind, job.is_watch());
    let has_slot = is_watch || lend::is_free(state, session);
    if !has_slot || !is_watch && state.memory.lending.asking.contains_key(&session) {
        state.memory.ready.entry(session).or_default().push_front(key);
        join_round(state, session);
        return;
    }
    // One that stood aside for its budget has had its kind's turn a while ago.
    let now = state.memory.clock.mono();
    if state.memory.starts.hold(kind, key, now) {
        return;
    }
    match quota::room(state, key) {
        Room::Free(reserved) => start(state, key, reserved, out),
        Room::Wait { at, .. } => quota::hold(state, at, key),
        Room::Refuse(dimension) => {
            let ending = Ending::error(Cause::Budget, Some(dimension.into()));
            job::end(state, key, ending, out);
        }
    }
}

/// Writes `run.started` before anything is spawned (J-2).
fn start(state: &mut State, key: JobKey, reserved: Option<u64>, out: &mut Out) {
    let Some(job) = state.job(key) else { return };
    let (id, lifetime, kind, spec) = (job.id.clone(), job.lifetime, job.kind, job.spec.clone());
    let attempt = job.runs.saturating_add(1);
    out.record_of(
        state,
        key,
        RunStarted { node: NodeId::Job(id.clone()), attempt, reserved_usd_micros: reserved },
    );
    let fence = Fence(state.facts.head.0);
    activity::start(state, key, fence);
    if reserved.is_some() {
        quota::started(state, key);
    }
    circuit::started(state, kind);
    watch::started(state, key);
    let run = RunRef { node: RunNode::Job(key), fence };
    let needed = plan::dependencies(state, key).map(Arc::new);
    out.effect(Effect::Spawn { run, job: id, lifetime, spec, needed, tag: state.tag(key) });
}
