//! How often a parent is woken before its user says something (W-7): beyond that, results stay owed. The counts are those of
//! this process; a supervisor that begins anew was begun by somebody.

use std::collections::VecDeque;

use fanin_protocol::limits::WAKES_WINDOW;
use fanin_protocol::spec::millis;
use fanin_protocol::{Reason, SessionId};

use crate::clock::Mono;
use crate::command::{Refusal, Reply};
use crate::session;
use crate::state::{Node, SessionKey, State};
use crate::timers::{Owner, Purpose};

/// The wakes of a session's tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Woken {
    /// Since its user last said something.
    count: u32,
    /// When the last ones were taken, as many as may be in a window.
    last: VecDeque<Mono>,
    /// The turn that was counted: what it takes beside its first result is the same wake.
    turn: Option<u32>,
}

/// A wake of this node was taken.
pub(crate) fn taken(state: &mut State, by: Node) {
    let Some(key) = state.facts.root(by) else { return };
    let Some(session) = state.session(key).filter(|session| !session.closed) else { return };
    let turn = session.turn.is_some().then_some(session.turns);
    let most = session.bounds.wakes_per_minute.and_then(|most| usize::try_from(most).ok());
    if session.bounds.wakes.is_none() && most.is_none() {
        return;
    }
    let now = state.memory.clock.mono();
    let woken = state.memory.woken.entry(key).or_default();
    if turn.is_some() && woken.turn == turn {
        return;
    }
    woken.turn = turn;
    woken.count = woken.count.saturating_add(1);
    woken.last.push_back(now);
    while woken.last.len() > most.unwrap_or_default() {
        woken.last.pop_front();
    }
    if let Some(at) = held_until(state, key) {
        state.memory.timers.rearm(at, Owner::Session(key), Purpose::Woken);
    }
}

/// Why no wake of this node is handed out now; `None` where one may be.
pub(crate) fn held(state: &State, node: Node) -> Option<Reason> {
    let key = state.facts.root(node)?;
    let (woken, bounds) = (state.memory.woken.get(&key)?, state.session(key)?.bounds);
    let wakes = woken.count;
    if bounds.wakes.is_some_and(|most| wakes >= most) {
        return Some(Reason::Autonomy { wakes, not_before_ms: None });
    }
    let clock = &state.memory.clock;
    let left_ms = held_until(state, key)?.since(clock.mono());
    (left_ms > 0)
        .then(|| Reason::Autonomy { wakes, not_before_ms: Some(clock.wall_ms().saturating_add(left_ms)) })
}

/// When the window of a session is over that is full.
fn held_until(state: &State, key: SessionKey) -> Option<Mono> {
    let most = usize::try_from(state.session(key)?.bounds.wakes_per_minute?).ok()?;
    let last = &state.memory.woken.get(&key)?.last;
    let first = last.front().filter(|_| last.len() >= most)?;
    Some(first.after(millis(WAKES_WINDOW)))
}

/// Time has passed, or its user has said something: whoever asks below it is looked at again.
pub(crate) fn look(state: &mut State, key: SessionKey) {
    let asking: Vec<Node> =
        state.memory.takers.keys().copied().filter(|node| state.facts.root(*node) == Some(key)).collect();
    state.memory.dirty.inboxes.extend(asking);
}

/// Its user has said something: wakes are counted anew.
pub(crate) fn spoke(state: &mut State, id: &SessionId) -> Result<Reply, Refusal> {
    let key = session::find(state, id)?;
    forget(state, key);
    look(state, key);
    Ok(Reply::Done)
}

/// Nothing is counted of it any more.
pub(crate) fn forget(state: &mut State, key: SessionKey) {
    if state.memory.woken.remove(&key).is_some() {
        state.memory.timers.disarm(Owner::Session(key), Purpose::Woken);
    }
}
