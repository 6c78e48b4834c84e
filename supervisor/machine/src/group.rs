//! The barrier: launched against finished, from one member list; it fires once.

use std::sync::Arc;

use fanin_protocol::record::{GroupFired, MessageTaken, TakenBy};
use fanin_protocol::{Cause, Outcome, Private};

use crate::effect::Answer;
use crate::out::Out;
use crate::result;
use crate::state::{Barrier, GroupKey, Phase, State};
use crate::stop::Intent;
use crate::timers::{Owner, Purpose};
use crate::{job, plan, quiet, sweep, timer, waiter};

/// Remembers from when on this epoch knows of a sealed group, and arms its deadline.
pub(crate) fn arm(state: &mut State, key: GroupKey) {
    let sealed_at = state.memory.clock.mono();
    let barrier = Barrier {
        sealed_at,
        quiet_at: quiet::quiet_at(sealed_at),
        is_quiet: false,
        deadline_passed: false,
        plan_failed: false,
        is_stopped: false,
    };
    state.memory.barriers.insert(key, barrier);
    quiet::watch(state);
    plan::arm(state, key);
    let Some(group) = state.group(key) else { return };
    let sealed_at_ms = group.sealed_at_ms;
    if let Some(at_ms) = group.policy.at_ms {
        let at = timer::limit_at(state, sealed_at_ms, at_ms);
        state.memory.timers.arm(at, Owner::Group(key), Purpose::Deadline);
    }
}

/// Fires the group once it is sealed and every member has ended.
///
/// Does nothing where that is not so yet, or no longer: calling it twice is calling it once.
pub(crate) fn settle(state: &mut State, key: GroupKey, out: &mut Out) {
    debug_assert!(
        state.group(key).is_none_or(|group| group.members.len() > 64) || state.facts.counts_hold(key),
        "the counts of a group are not those of its members"
    );
    match state.phase(key) {
        Some(Phase::Decided) => stop_rest(state, key),
        Some(Phase::Ended) => fire(state, key, out),
        Some(Phase::Open | Phase::Running | Phase::Fired | Phase::Voided) | None => {}
    }
}

/// Tells the members still alive to stop; their endings bring the group back here.
fn stop_rest(state: &mut State, key: GroupKey) {
    let Some(barrier) = state.memory.barriers.get_mut(&key) else { return };
    if barrier.is_stopped {
        return;
    }
    barrier.is_stopped = true;
    sweep::members(state, key, Intent { cause: Cause::Group, ..Intent::PARENT });
}

/// Fixes the result. From here on it is owed to the parent (BAR-4).
fn fire(state: &mut State, key: GroupKey, out: &mut Out) {
    debug_assert!(state.facts.counts_hold(key), "the counts of a group are not those of its members");
    let barrier = state.memory.barriers.remove(&key);
    state.memory.plans.remove(&key);
    state.memory.teams.remove(&key);
    let Some(payload) = result::combine(state, key, barrier) else { return };
    let payload = Arc::new(payload);
    let (group, counts) = (payload.group.clone(), payload.counts);
    out.record(
        state,
        GroupFired {
            group,
            outcome: Outcome::of(counts),
            counts,
            stopped_by: payload.stopped_by,
            payload: Private::new(payload),
        },
    );
    state.memory.timers.clear(Owner::Group(key));
    close_taken(state, key, out);
    waiter::group_over(state, key, out);
    if let Some(parent) = state.group(key).map(|group| group.parent) {
        state.memory.dirty.inboxes.push_back(parent);
        job::child_over(state, parent);
    }
}

/// Closes the message of a fired group where waits of the parent took every single result before: there is nothing
/// left to wake it for (BAR-15).
pub(crate) fn close_taken(state: &mut State, key: GroupKey, out: &mut Out) {
    let Some(group) = state.group(key) else { return };
    if group.fired.is_some() && !group.taken && waiter::all_taken(state, key) {
        let keys = vec![group.id.clone()];
        out.record(
            state,
            MessageTaken { keys, results: Vec::new(), messages: Vec::new(), by: TakenBy::Results },
        );
    }
}

/// What follows from a group that will never fire.
pub(crate) fn voided(state: &mut State, key: GroupKey, out: &mut Out) {
    state.memory.barriers.remove(&key);
    state.memory.plans.remove(&key);
    state.memory.teams.remove(&key);
    state.memory.timers.clear(Owner::Group(key));
    waiter::group_over(state, key, out);
    debug_assert!(!matches!(waiter::group_answer(state, key), Some(Answer::Group { .. })));
}
