//! What a tree may grow to: all is checked before anything of a launch exists (SC-8, SC-12, SC-21, 14.14).

use fanin_protocol::Spec;
use fanin_protocol::record::{Note, NoteCode};

use crate::command::{Launch, Refusal};
use crate::out::Out;
use crate::state::{JobKey, Node, SessionKey, State};

/// Refuses a launch that would be too deep, also one that names what is known: nothing can be there (SEC-5).
pub(crate) fn check_depth(state: &State, parent: Node) -> Result<(), Refusal> {
    let Some(session) = root(state, parent) else { return Ok(()) };
    let max = state.session(session).map_or(0, |session| session.bounds.depth);
    let depth = state.facts.depth(parent).saturating_add(1);
    if depth > max { Err(Refusal::Depth { depth, max }) } else { Ok(()) }
}

/// Refuses a launch that is too large by itself, or together with what its tree has and had.
pub(crate) fn check(state: &State, request: &Launch, parent: Node) -> Result<(), Refusal> {
    let Some(session) = root(state, parent).and_then(|key| state.session(key)) else { return Ok(()) };
    let (bounds, asked) = (session.bounds, request.members.len());
    let is_watch = request.members.iter().any(|member| member.limits.firings.is_some());
    if asked > bounds.group_max {
        return Err(Refusal::TooMany { members: asked, max: bounds.group_max });
    }
    if !request.joins_turn && asked < bounds.group_min && !is_watch {
        return Err(Refusal::TooFew { members: asked, min: bounds.group_min });
    }
    for (index, member) in request.members.iter().enumerate() {
        let Some(Spec::Agent(agent)) = member.spec.as_deref() else { continue };
        let (bytes, max) = (agent.prompt.len(), bounds.prompt_bytes);
        if bytes > max {
            return Err(Refusal::TooLarge { index: Some(index), bytes, max });
        }
    }
    if let Some(max) = bounds.spawn_total {
        let spawned = session.spawned;
        let total = u64::from(spawned) + asked as u64;
        if total > u64::from(max) {
            return Err(Refusal::SpawnTotal { spawned, asked, max });
        }
    }
    for (queued, max) in
        [(session.queued as usize, bounds.queue), (state.facts.queued as usize, bounds.queue_all)]
    {
        if queued.saturating_add(asked) > max {
            return Err(Refusal::QueueFull { queued, asked, max });
        }
    }
    Ok(())
}

/// Notes once that four fifths of a tree's total are used up (SC-21).
pub(crate) fn note_total(state: &mut State, newest: JobKey, before: u32, out: &mut Out) {
    let Some(job) = state.job(newest) else { return };
    let Some(session) = state.session(job.session) else { return };
    let Some(max) = session.bounds.spawn_total else { return };
    let (spawned, mark) = (session.spawned, max.saturating_sub(max / 5));
    if before < mark && spawned >= mark {
        let (job, value) = (Some(job.id.clone()), Some(i64::from(spawned)));
        out.record(state, Note { job, value, ..Note::new(NoteCode::SpawnTotal) });
    }
}

/// Jobs that the tree has launched so far.
pub(crate) fn spawned(state: &State, parent: Node) -> u32 {
    root(state, parent).and_then(|key| state.session(key)).map_or(0, |session| session.spawned)
}

fn root(state: &State, node: Node) -> Option<SessionKey> {
    state.facts.root(node)
}
