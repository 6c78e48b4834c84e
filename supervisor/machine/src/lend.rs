//! Slots, and lending them: a run that waits for others gives its slot back, and has it again before it goes on
//! (SC-9 to SC-11). So slots are held only by runs that wait for nobody, and some holder can always end (P7).
//!
//! Who holds a slot is memory: a crash ends all runs. A run that goes on by itself, because its wait ran out or was
//! dropped, counts as a holder at once, over the limit if need be: it is owed that slot, and nothing starts until one
//! is free.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fanin_protocol::PartKind;

use crate::command::{Refusal, Reply, WaiterId};
use crate::dispatch;
use crate::out::Out;
use crate::quota;
use crate::state::{Job, JobKey, Node, SessionKey, State};
use crate::waiter::{self, Wants};

/// Runs that hold no slot, and who is to have one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lending {
    /// Runs that have given their slot back.
    pub(crate) lent: BTreeMap<JobKey, Lent>,
    /// How many of them each session's tree has.
    by_session: BTreeMap<SessionKey, u32>,
    /// Those that ask for it again, by session, first come. One that does not ask any more is skipped.
    pub(crate) asking: BTreeMap<SessionKey, VecDeque<JobKey>>,
    /// Those that stand there: each once, also where it asks, waits again and asks again.
    in_line: BTreeSet<JobKey>,
    /// Sessions with something in line and no slot of their own free.
    pub(crate) parked: BTreeSet<SessionKey>,
}

/// Where a run is that holds no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lent {
    /// It waits.
    Away,
    /// What it waited for is there, and is held until it has its slot again.
    Asking,
}

/// Runs that hold a slot, or are owed it.
pub(crate) fn in_use(state: &State) -> u32 {
    let lent = u32::try_from(state.memory.lending.lent.len()).unwrap_or(u32::MAX);
    state.facts.running.saturating_sub(lent)
}

/// True where a slot is free for the session's tree, and in all. The limits are read each time (SC-11).
pub(crate) fn is_free(state: &State, session: SessionKey) -> bool {
    let Some(of) = state.session(session) else { return false };
    let lent = state.memory.lending.by_session.get(&session).copied().unwrap_or_default();
    let own = of.running.saturating_sub(lent);
    of.bounds.slots.is_none_or(|slots| own < slots) && is_any_free(state)
}

/// True where a slot is free in all.
pub(crate) fn is_any_free(state: &State) -> bool {
    state.memory.settings.slots.is_none_or(|slots| in_use(state) < slots)
}

/// True where the answer of a waiter has to wait: its run has lent its slot and waits for nothing else, so it would go
/// on. It asks for the slot then, and the waiter is looked at again once it has that.
pub(crate) fn defers(state: &mut State, id: WaiterId) -> bool {
    let by = state.memory.waiters.get(&id).and_then(|waiter| waiter.wants.by());
    let Some(Node::Job(key)) = by.filter(|by| match by {
        Node::Job(key) => state.memory.lending.lent.contains_key(key),
        Node::Session(_) => false,
    }) else {
        return false;
    };
    if let Some(waiter) = state.memory.waiters.get_mut(&id) {
        waiter.due = true;
    }
    if waits(state, key) {
        // Something else is still waited for: one answer is no reason to hold a slot again.
        if let Some(waiter) = state.memory.waiters.get_mut(&id) {
            waiter.due = false;
        }
        return false;
    }
    state.memory.dirty.lends.push_back(key);
    true
}

/// Lends the slot of a run that has begun to wait, and asks for it again once nothing is left to wait for. Does
/// nothing where that is not so yet, or no longer.
pub(crate) fn settle(state: &mut State, key: JobKey, out: &mut Out) {
    let Some(job) = state.job(key).filter(|job| job.run.is_some()) else { return };
    let (session, is_stopping) = (job.session, job.stop.is_some());
    let lent = state.memory.lending.lent.get(&key).copied();
    match (lent, waits(state, key), has_due(state, key)) {
        (None, true, _) => {
            state.memory.lending.lent.insert(key, Lent::Away);
            *state.memory.lending.by_session.entry(session).or_default() += 1;
            dispatch::slot_back(state, session);
            quota::look_again(state);
        }
        (Some(_), true, true) => {
            state.memory.lending.lent.insert(key, Lent::Away);
            look_again(state, key, None, out);
        }
        // A stop has a deadline and waits for no slot.
        (Some(_), false, true) if is_stopping => grant(state, key, session, out),
        (Some(Lent::Away), false, true) => {
            let lending = &mut state.memory.lending;
            lending.lent.insert(key, Lent::Asking);
            if lending.in_line.insert(key) {
                lending.asking.entry(session).or_default().push_back(key);
            }
            dispatch::join_round(state, session);
        }
        // It goes on by itself.
        (Some(_), false, false) => remove(state, key, session),
        (Some(Lent::Asking), true, false) => {
            state.memory.lending.lent.insert(key, Lent::Away);
        }
        (None, false, _) | (Some(Lent::Away), true, false) | (Some(Lent::Asking), false, true) => {}
    }
}

/// The next run of a session that asks for its slot.
pub(crate) fn next_asking(state: &mut State, session: SessionKey) -> Option<JobKey> {
    let Lending { lent, asking, in_line, .. } = &mut state.memory.lending;
    let line = asking.get_mut(&session)?;
    let pop = || {
        let key = line.pop_front()?;
        in_line.remove(&key);
        Some(key)
    };
    let next = std::iter::from_fn(pop).find(|key| lent.get(key) == Some(&Lent::Asking));
    if line.is_empty() {
        asking.remove(&session);
    }
    next
}

/// A run has its slot again, and goes on with what it waited for.
pub(crate) fn grant(state: &mut State, key: JobKey, session: SessionKey, out: &mut Out) {
    remove(state, key, session);
    look_again(state, key, None, out);
    // What it waited for may have gone to another meanwhile.
    state.memory.dirty.lends.push_back(key);
}

/// The limit of a wait has passed: an answer that is held is given now, and the slot is owed. Without one the waiter
/// leaves (BAR-12).
pub(crate) fn limit(state: &mut State, id: WaiterId, out: &mut Out) -> Result<Reply, Refusal> {
    let waiter = state.memory.waiters.get(&id);
    if let Some(Node::Job(key)) = waiter.filter(|waiter| waiter.due).and_then(|waiter| waiter.wants.by())
        && let Some(session) = state.job(key).map(|job| job.session)
    {
        grant(state, key, session, out);
        // An answer without a result is given, and nobody is left to acknowledge it.
        if !state.memory.waiters.contains_key(&id) {
            return Ok(Reply::Answered);
        }
    }
    if state.memory.waiters.get(&id).is_some_and(|waiter| waiter.offer.is_some()) {
        Ok(Reply::Answered)
    } else {
        waiter::release(state, id)
    }
}

/// A run is over, with or without a slot.
pub(crate) fn run_over(state: &mut State, key: JobKey) {
    let Some(session) = state.job(key).map(|job| job.session) else { return };
    if state.memory.lending.lent.contains_key(&key) {
        remove(state, key, session);
    }
    dispatch::slot_back(state, session);
}

fn remove(state: &mut State, key: JobKey, session: SessionKey) {
    let Lending { lent, by_session, .. } = &mut state.memory.lending;
    if lent.remove(&key).is_some()
        && let Some(count) = by_session.get_mut(&session)
    {
        *count -= 1;
        if *count == 0 {
            by_session.remove(&session);
        }
    }
}

/// Looks again at the held answers of a run, and at a new wait: waits first, since what they cover does not go to the
/// inbox (BAR-10).
pub(crate) fn look_again(state: &mut State, key: JobKey, new: Option<WaiterId>, out: &mut Out) {
    let (mut waits, mut takers) = (Vec::new(), Vec::new());
    for id in state.memory.waits_of.get(&key).cloned().unwrap_or_default() {
        let Some(waiter) = state.memory.waiters.get_mut(&id) else { continue };
        if waiter.due || new == Some(id) {
            waiter.due = false;
            if matches!(waiter.wants, Wants::Wake(_)) { takers.push(id) } else { waits.push(id) }
        }
    }
    for id in waits.into_iter().chain(takers) {
        waiter::look_again(state, id, out);
    }
}

/// True where the run waits for others: a live waiter without an answer, or an open question. A watch does nothing else.
pub(crate) fn waits(state: &State, key: JobKey) -> bool {
    if state.job(key).is_some_and(Job::is_watch) {
        return true;
    }
    let ids = state.memory.waits_of.get(&key).into_iter().flatten();
    let mut live = ids.filter_map(|id| state.memory.waiters.get(id));
    live.any(|waiter| waiter.offer.is_none() && !waiter.due) || asks(state, key)
}

fn asks(state: &State, key: JobKey) -> bool {
    let run = state.job(key).and_then(|job| job.run.as_ref());
    run.is_some_and(|run| {
        run.parts.iter().any(|part| part.kind == PartKind::Question && !part.state.is_terminal())
    })
}

fn has_due(state: &State, key: JobKey) -> bool {
    let ids = state.memory.waits_of.get(&key).into_iter().flatten();
    ids.filter_map(|id| state.memory.waiters.get(id)).any(|waiter| waiter.due && waiter.offer.is_none())
}

/// Entries in memory, for what must be empty at the end (G12).
pub(crate) fn len(state: &State) -> usize {
    let Lending { lent, by_session, asking, in_line, parked } = &state.memory.lending;
    lent.len() + by_session.len() + asking.len() + in_line.len() + parked.len()
}
