//! Sessions and their turns.

use std::sync::Arc;

use fanin_protocol::record::{GroupSealed, RunEnded, RunOutcome, RunStarted, SessionClosed, SessionOpened};
use fanin_protocol::{Edges, Fence, JobId, NodeId, Policy, SessionId};

use crate::command::{Refusal, Reply, RunNode, RunRef, SessionOpen};
use crate::out::Out;
use crate::state::{Closing, GroupKey, Node, SessionKey, State};
use crate::{autonomy, group, run, sweep};

/// Finds a session that is open.
pub(crate) fn find(state: &State, id: &SessionId) -> Result<SessionKey, Refusal> {
    let key = state.facts.session_key(id).ok_or_else(|| Refusal::UnknownSession(id.clone()))?;
    match state.session(key) {
        Some(session) if !session.closed => Ok(key),
        _ => Err(Refusal::SessionClosed(id.clone())),
    }
}

/// Opens a session, or finds it open.
pub(crate) fn open(state: &mut State, open: SessionOpen, out: &mut Out) -> Result<Reply, Refusal> {
    let SessionOpen { id: session, profile, bounds } = open;
    match find(state, &session) {
        Ok(_) => Ok(Reply::Done),
        Err(Refusal::UnknownSession(_)) if state.memory.closing > Closing::No => Err(Refusal::Draining),
        Err(Refusal::UnknownSession(_)) => {
            bounds.check().map_err(Refusal::BadBounds)?;
            bounds.budget.check().map_err(Refusal::BadLimit)?;
            out.record(state, SessionOpened { session, profile, bounds });
            Ok(Reply::Done)
        }
        Err(refusal) => Err(refusal),
    }
}

/// Begins a turn: until it ends the parent is busy and its wake is held (W-4). While it drains the supervisor still
/// takes turns, since a last wake may need one.
pub(crate) fn turn(state: &mut State, id: &SessionId, out: &mut Out) -> Result<Reply, Refusal> {
    let key = find(state, id)?;
    let Some(session) = state.session(key) else { return Err(Refusal::UnknownSession(id.clone())) };
    if state.memory.closing == Closing::Stopping {
        return Err(Refusal::Draining);
    }
    if session.turn.is_some() {
        return Err(Refusal::TurnOpen(id.clone()));
    }
    let attempt = session.turns.saturating_add(1);
    out.record(state, RunStarted { node: NodeId::Session(id.clone()), attempt, reserved_usd_micros: None });
    let fence = Fence(state.facts.head.0);
    Ok(Reply::Turn(RunRef { node: RunNode::Turn(key), fence }))
}

/// Ends a turn that its holder is done with.
pub(crate) fn end_turn(state: &mut State, key: SessionKey, outcome: RunOutcome, out: &mut Out) {
    let Some(fence) = run::open_fence(state, Node::Session(key)) else { return };
    run::close_some(state, Node::Session(key), usize::MAX, out);
    out.record(state, RunEnded { outcome, ..run::ended(fence) });
    seal_turn_group(state, key, Some(fence), out);
    state.memory.dirty.inboxes.push_back(Node::Session(key));
}

/// Seals the group of a turn that is over (BAR-6).
pub(crate) fn seal_turn_group(state: &mut State, key: SessionKey, turn: Option<Fence>, out: &mut Out) {
    if let Some(open) = state.session(key).and_then(|session| session.turn_group) {
        seal(state, open, (Policy::ALL, None), turn, out);
    }
}

/// Seals a group with the members it has.
pub(crate) fn seal(
    state: &mut State,
    key: GroupKey,
    (policy, edges): (Policy, Option<Arc<Edges>>),
    turn: Option<Fence>,
    out: &mut Out,
) {
    let Some(group) = state.group(key) else { return };
    let members: Arc<[JobId]> =
        group.members.iter().filter_map(|member| state.job(*member)).map(|job| job.id.clone()).collect();
    let Some(parent) = state.facts.node_id(group.parent) else { return };
    let group = group.id.clone();
    out.record(state, GroupSealed { group, parent, members, policy, edges, turn });
    group::arm(state, key);
    state.memory.dirty.groups.push_back(key);
}

/// Closes a session (BAR-9): unfired groups are voided and their members stopped, owed messages are void.
pub(crate) fn close(state: &mut State, id: &SessionId, out: &mut Out) -> Result<Reply, Refusal> {
    let key = match find(state, id) {
        Ok(key) => key,
        Err(Refusal::SessionClosed(_)) => return Ok(Reply::Done),
        Err(refusal) => return Err(refusal),
    };
    end_turn(state, key, RunOutcome::Cancelled, out);
    out.record(state, SessionClosed { session: id.clone() });
    autonomy::forget(state, key);
    sweep::begin(state, Node::Session(key), None, out);
    Ok(Reply::Done)
}
