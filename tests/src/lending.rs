//! Who holds a slot (G8, P7), told from records, waits and answers alone.

use std::collections::BTreeSet;

use fanin_machine::{Command, Effect, Out};
use fanin_protocol::{JobId, NodeId, PartKind, Record, SessionId};

use crate::broken::{Kept, ensure};
use crate::ledger::JobSeen;
use crate::world::World;

/// True where the job's run waits for others: it has no answer yet, or a question of it is open.
pub fn waits(world: &World, id: &JobId, job: &JobSeen) -> bool {
    // It looks, and does nothing else (SC-22).
    if job.run.is_some() && job.firings.is_some() {
        return true;
    }
    let Some(run) = job.run.and_then(|fence| world.ledger.runs.get(&fence)) else { return false };
    let asks = run.parts.iter().any(|part| part.kind == PartKind::Question && !part.state.is_terminal());
    let is_own = |by: &NodeId| matches!(by, NodeId::Job(by) if by == id);
    let own = world.parent.waits.values().filter(|wait| wait.wish.by().is_some_and(is_own));
    asks || own.clone().any(|wait| wait.offer.is_none())
}

/// Runs that hold a slot: of one tree, or of all.
pub fn holders(world: &World, session: Option<&SessionId>) -> u32 {
    let jobs = world.ledger.jobs.iter().filter(|(_, job)| job.run.is_some());
    let jobs = jobs.filter(|(_, job)| session.is_none_or(|session| job.session == *session));
    jobs.filter(|(id, job)| !waits(world, id, job)).count() as u32
}

/// True where a slot is free for the session's tree.
pub fn is_free(world: &World, session: &SessionId) -> bool {
    let own = world.ledger.sessions.get(session).and_then(|seen| seen.bounds.slots);
    world.slots.is_none_or(|slots| holders(world, None) < slots)
        && own.is_none_or(|slots| holders(world, Some(session)) < slots)
}

/// What is compared with the state after the next step.
#[derive(Debug, Clone, Default)]
pub struct Before {
    /// Jobs that wait and hold no slot.
    waiting: Vec<JobId>,
}

/// Looks at who waits before a step.
pub fn before(world: &World) -> Before {
    let jobs = world.ledger.jobs.iter().filter(|(id, job)| waits(world, id, job));
    Before { waiting: jobs.map(|(id, _)| id.clone()).collect() }
}

/// Jobs that this step answers and that waited before it, by the answers alone.
pub fn answered(world: &World, before: &Before, out: &Out) -> Vec<JobId> {
    let by = |effect: &Effect| match effect {
        Effect::Answer { waiter, .. } => match world.parent.waits.get(waiter)?.wish.by()? {
            NodeId::Job(id) => Some(id.clone()),
            NodeId::Session(_) => None,
        },
        _ => None,
    };
    out.effects.iter().filter_map(by).filter(|id| before.waiting.contains(id)).collect()
}

/// G8: a start takes a free slot, and so does a run that goes on with its answer. Only one that left its wait by
/// itself is owed a slot.
///
/// # Errors
///
/// [`Broken`](crate::Broken) where a slot is used twice.
pub fn taken_once(world: &World, answered: &[JobId], command: &Command, out: &Out) -> Kept {
    let started = out.records.iter().filter_map(|entry| match &entry.record {
        Record::RunStarted(body) => match &body.node {
            NodeId::Job(id) => Some(id),
            NodeId::Session(_) => None,
        },
        _ => None,
    });
    let leaves = matches!(command, Command::Release(..));
    let goes_on = |id: &&JobId| {
        let job = world.ledger.jobs.get(*id);
        job.is_some_and(|job| job.run.is_some() && job.stop.is_none() && !waits(world, id, job))
    };
    let resumed = answered.iter().filter(goes_on).filter(|_| !leaves);
    let taken: BTreeSet<&SessionId> =
        started.chain(resumed).filter_map(|id| world.ledger.jobs.get(id)).map(|job| &job.session).collect();
    if taken.is_empty() {
        return Ok(());
    }
    let held = holders(world, None);
    ensure(world.slots.is_none_or(|slots| held <= slots), "G8", || {
        format!("{held} hold a slot of {:?}", world.slots)
    })?;
    for id in taken {
        let held = holders(world, Some(id));
        let slots = world.ledger.sessions.get(id).and_then(|session| session.bounds.slots);
        ensure(slots.is_none_or(|slots| held <= slots), "G8", || {
            format!("{held} hold a slot of {slots:?} of {id}")
        })?;
    }
    Ok(())
}
