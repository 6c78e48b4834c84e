//! Starting queued jobs while slots are free: round robin over sessions, launch order inside one (SC-9).

use fanin_protocol::record::RunStarted;
use fanin_protocol::{Fence, NodeId};

use crate::command::{RunNode, RunRef};
use crate::effect::Effect;
use crate::out::Out;
use crate::state::{Job, JobKey, State};
use crate::{activity, circuit};

/// Puts a queued job in line.
pub(crate) fn enqueue(state: &mut State, key: JobKey) {
    let Some(session) = state.job(key).map(|job| job.session) else { return };
    let line = state.memory.ready.entry(session).or_default();
    if line.is_empty() {
        state.memory.round.push_back(session);
    }
    line.push_back(key);
}

/// Starts the next job; false where no slot is free or nobody waits.
pub(crate) fn next(state: &mut State, out: &mut Out) -> bool {
    let free = state.memory.settings.slots.is_none_or(|slots| state.facts.running < slots);
    if !free {
        return false;
    }
    let now = state.memory.clock.mono();
    let facts = &state.facts;
    let may_start = |key: JobKey| {
        facts.jobs.get(key.index()).is_some_and(Job::awaits_start) && facts.going_above(key).is_none()
    };
    if let Some(key) = state.memory.starts.pop(now, may_start) {
        start(state, key, out);
        return true;
    }
    while let Some(session) = state.memory.round.pop_front() {
        let Some(line) = state.memory.ready.get_mut(&session) else { continue };
        // Those that ended in the queue cost their session no turn, nor do those whose kind may not start now. One
        // below a node that goes is over as soon as its record comes.
        let starts = &mut state.memory.starts;
        let facts = &state.facts;
        let may_start = |key: &JobKey| {
            let job = facts.jobs.get(key.index()).filter(|job| job.awaits_start());
            job.is_some_and(|job| facts.going_above(*key).is_none() && !starts.hold(job.kind, *key, now))
        };
        let key = std::iter::from_fn(|| line.pop_front()).find(may_start);
        if line.is_empty() {
            state.memory.ready.remove(&session);
        } else {
            state.memory.round.push_back(session);
        }
        if let Some(key) = key {
            start(state, key, out);
            return true;
        }
    }
    circuit::arm(state);
    false
}

/// Writes `run.started` before anything is spawned (J-2).
fn start(state: &mut State, key: JobKey, out: &mut Out) {
    let Some(job) = state.job(key) else { return };
    let (id, lifetime, kind, spec) = (job.id.clone(), job.lifetime, job.kind, job.spec.clone());
    let attempt = job.runs.saturating_add(1);
    out.record_of(state, key, RunStarted { node: NodeId::Job(id.clone()), attempt });
    let fence = Fence(state.facts.head.0);
    activity::start(state, key, fence);
    circuit::started(state, kind);
    let run = RunRef { node: RunNode::Job(key), fence };
    out.effect(Effect::Spawn { run, job: id, lifetime, spec, tag: state.tag(key) });
}
