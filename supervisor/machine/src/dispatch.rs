//! Giving out free slots: round robin over session trees, launch order inside one (SC-9).

use fanin_protocol::record::RunStarted;
use fanin_protocol::{Fence, NodeId};

use crate::command::{RunNode, RunRef};
use crate::effect::Effect;
use crate::lend;
use crate::out::Out;
use crate::state::{Closing, JobKey, SessionKey, State};
use crate::timers::{Owner, Purpose};

/// Puts a queued job in line.
pub(crate) fn enqueue(state: &mut State, key: JobKey) {
    let Some(session) = state.job(key).map(|job| job.session) else { return };
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
    if !lend::is_any_free(state) {
        return false;
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
        if let Some(key) = next_queued(state, session).filter(|_| state.memory.closing == Closing::No) {
            start(state, key, out);
            return true;
        }
    }
    false
}

/// The next job of a session to be started; the session goes to the end of the round where it has more.
fn next_queued(state: &mut State, session: SessionKey) -> Option<JobKey> {
    let line = state.memory.ready.get_mut(&session)?;
    // Those that ended in the queue cost their session no turn.
    let is_queued = |key: &JobKey| {
        let job = state.facts.jobs.get(key.index());
        // One below a node that goes is over as soon as its record comes.
        job.is_some_and(|job| job.ended.is_none() && job.run.is_none())
            && state.facts.going_above(*key).is_none()
    };
    let key = std::iter::from_fn(|| line.pop_front()).find(is_queued);
    if line.is_empty() {
        state.memory.ready.remove(&session);
    } else {
        join_round(state, session);
    }
    key
}

/// Writes `run.started` before anything is spawned (J-2).
fn start(state: &mut State, key: JobKey, out: &mut Out) {
    let Some(job) = state.job(key) else { return };
    let (id, lifetime) = (job.id.clone(), job.lifetime);
    let (limits, spec) = (job.limits.clone(), job.spec.clone());
    let attempt = job.runs.saturating_add(1);
    out.record_of(state, key, RunStarted { node: NodeId::Job(id.clone()), attempt });
    let fence = Fence(state.facts.head.0);
    let owner = Owner::Job(key);
    state.memory.timers.clear(owner);
    if let Some(limit) = limits.run_ms {
        let at = state.memory.clock.mono().after(limit);
        state.memory.timers.arm(at, owner, Purpose::Run(fence));
    }
    let run = RunRef { node: RunNode::Job(key), fence };
    out.effect(Effect::Spawn { run, job: id, lifetime, spec, tag: state.tag(key) });
}
