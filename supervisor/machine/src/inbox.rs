//! Messages: a fired group's result is owed to its parent until it is taken, by a waiter or by one wake.

use std::collections::BTreeSet;
use std::sync::Arc;

use fanin_protocol::record::{MessageTaken, TakenBy};
use fanin_protocol::{CombinedResult, GroupId, Seq};

use crate::command::{Refusal, Reply, WaiterId};
use crate::effect::{Answer, Effect};
use crate::out::Out;
use crate::state::{GroupKey, JobKey, Node, Posted, State};
use crate::waiter::{self, Offer, Wants};
use crate::{autonomy, lend, mail};

/// The next thing for a taker.
#[derive(Debug, Clone, Copy)]
enum Next {
    Group(GroupKey),
    Post((Node, Seq)),
}

/// Hands owed messages to those who ask for them, oldest first: results, and to those who ask for whatever comes also
/// what was posted, in the one order in which they came (S-2).
///
/// A busy parent's messages stay owed until its turn ends (W-4); one that a waiter covers or holds waits for it.
pub(crate) fn settle(state: &mut State, key: Node, out: &mut Out) {
    while let Some((taker, next)) = next_offer(state, key) {
        if lend::defers(state, taker) {
            return;
        }
        let (offer, answer) = match next {
            Next::Group(group) => {
                let Some(result) = with_references(state, group) else { return };
                state.memory.offered.insert(group, taker);
                (Offer { message: Some(group), ..Offer::default() }, Answer::Wake(result))
            }
            Next::Post(place) => {
                let Some(posted) = state.facts.posted.get(&place) else { return };
                let answer = match &posted.hit {
                    Some(hit) => Answer::Hit((**hit).clone()),
                    None => Answer::Words { key: posted.key.clone(), text: Arc::clone(&posted.text) },
                };
                state.memory.offered_posts.insert(place, taker);
                (Offer { post: Some(place), ..Offer::default() }, answer)
            }
        };
        if let Some(takers) = state.memory.takers.get_mut(&key) {
            takers.retain(|id| *id != taker);
        }
        if let Some(waiter) = state.memory.waiters.get_mut(&taker) {
            waiter.offer = Some(offer);
        }
        out.effect(Effect::Answer { waiter: taker, answer });
    }
}

/// The first taker for whom something is there, and what that is.
fn next_offer(state: &State, key: Node) -> Option<(WaiterId, Next)> {
    if state.facts.is_going(key) || state.is_in_turn(key) {
        return None;
    }
    let takers = state.memory.takers.get(&key)?;
    let may_be_woken = autonomy::held(state, key).is_none();
    let group = state
        .facts
        .below(key)
        .filter(|_| may_be_woken)
        .into_iter()
        .flat_map(|below| below.inbox.iter().copied())
        .find(|message| !state.memory.offered.contains_key(message) && !waiter::holds(state, *message));
    let posts =
        || state.facts.posts(key).filter(|(place, _)| !state.memory.offered_posts.contains_key(place));
    // A firing wakes like a result.
    let may_go = |posted: &Posted| may_be_woken || posted.hit.is_none();
    let post = || posts().find(|(_, posted)| may_go(posted)).map(|(place, _)| place);
    let is_hit = |posted: &Posted| posted.hit.is_some() && may_go(posted);
    let hit = || posts().find(|(_, posted)| is_hit(posted)).map(|(place, _)| place);
    takers.iter().find_map(|taker| {
        let (group, post) = match state.memory.waiters.get(taker)?.wants {
            Wants::Message(_) => (group, post()),
            Wants::Hit(_) => (None, hit()),
            Wants::Wake(_)
            | Wants::Jobs { .. }
            | Wants::Group { .. }
            | Wants::Mail { .. }
            | Wants::Background { .. }
            | Wants::Idle => (group, None),
        };
        let fired_at = |group: GroupKey| state.group(group).map(|group| group.fired_at);
        let next = match (group, post) {
            (Some(group), Some(post)) if fired_at(group).is_some_and(|at| at < post.1) => Next::Group(group),
            (_, Some(post)) => Next::Post(post),
            (Some(group), None) => Next::Group(group),
            (None, None) => return None,
        };
        Some((*taker, next))
    })
}

/// The message as it is delivered now: what a wait took before is a reference (BAR-15).
fn with_references(state: &State, key: GroupKey) -> Option<Arc<CombinedResult>> {
    let group = state.group(key)?;
    let result = Arc::clone(group.fired.as_ref()?);
    if !group.taken && group.results_taken == 0 {
        return Some(result);
    }
    let mut result = (*result).clone();
    for entry in &mut result.entries {
        let taken = group.members.get(entry.index as usize).is_some_and(|key| waiter::is_taken(state, *key));
        if taken {
            entry.reference = true;
            entry.output = None;
        }
    }
    Some(Arc::new(result))
}

/// A waiter has what it was offered: it is taken, once.
pub(crate) fn ack(state: &mut State, id: WaiterId, out: &mut Out) -> Result<Reply, Refusal> {
    let Some(waiter) = waiter::forget(state, id) else { return Ok(Reply::Done) };
    if let (Wants::Mail { by, .. }, Some(number)) =
        (&waiter.wants, waiter.offer.as_ref().and_then(|o| o.mail))
    {
        mail::taken(state, *by, number);
    }
    let Some(offer) = &waiter.offer else {
        // Nothing was offered: the acknowledgement means nothing, and the waiter is gone.
        waiter::wake_inbox(state, &waiter);
        return Ok(Reply::Done);
    };
    let by = if matches!(waiter.wants, Wants::Wake(_) | Wants::Message(_) | Wants::Hit(_)) {
        TakenBy::Inbox
    } else {
        TakenBy::Waiter
    };
    let taken: BTreeSet<JobKey> =
        offer.results.iter().copied().filter(|key| !waiter::is_taken(state, *key)).collect();
    let mut groups: BTreeSet<GroupKey> =
        taken.iter().filter_map(|key| state.job(*key)).map(|job| job.group).collect();
    groups.retain(|group| closes(state, *group, &taken));
    if let Some(message) =
        offer.message.filter(|message| state.group(*message).is_some_and(|group| !group.taken))
    {
        groups.insert(message);
    }
    // A closed group stands for its results; they are not named one by one.
    let results: Vec<_> = taken
        .iter()
        .filter_map(|key| state.job(*key))
        .filter(|job| !groups.contains(&job.group))
        .map(|job| job.lifetime)
        .collect();
    let keys: Vec<GroupId> =
        groups.iter().filter_map(|key| state.group(*key)).map(|group| group.id.clone()).collect();
    let posted = offer.post.and_then(|place| state.facts.posted.get(&place));
    let is_hit = posted.is_some_and(|posted| posted.hit.is_some());
    let messages: Vec<_> = posted.map(|posted| posted.key.clone()).into_iter().collect();
    let is_wake = (!keys.is_empty() || is_hit) && by == TakenBy::Inbox;
    if !keys.is_empty() || !results.is_empty() || !messages.is_empty() {
        out.record(state, MessageTaken { keys, results, messages, by });
    }
    if let Some(node) = waiter.wants.by().filter(|_| is_wake) {
        autonomy::taken(state, node);
    }
    waiter::wake_inbox(state, &waiter);
    Ok(Reply::Done)
}

/// True where the group has fired and these results are the last that nobody had taken.
fn closes(state: &State, key: GroupKey, taken: &BTreeSet<JobKey>) -> bool {
    state.group(key).is_some_and(|group| {
        // None of those were taken before.
        let more =
            taken.iter().filter(|taken| state.job(**taken).is_some_and(|job| job.group == key)).count();
        group.fired.is_some() && !group.taken && group.results_taken as usize + more == group.members.len()
    })
}

/// Answers those who wait until no run is open.
pub(crate) fn settle_idle(state: &mut State, out: &mut Out) {
    if state.facts.running == 0 {
        for id in std::mem::take(&mut state.memory.idle_waiters) {
            waiter::forget(state, id);
            out.effect(Effect::Answer { waiter: id, answer: Answer::Idle });
        }
    }
}

/// The node goes: nothing will come for those who ask.
pub(crate) fn close(state: &mut State, key: Node, out: &mut Out) {
    for id in state.memory.takers.get(&key).cloned().unwrap_or_default() {
        waiter::forget(state, id);
        out.effect(Effect::Answer { waiter: id, answer: Answer::Closed });
    }
    mail::close(state, key, out);
}

/// The epoch ends: all who still wait are told, and nobody is kept. What a waiter holds and has not acknowledged
/// stays owed.
pub(crate) fn close_all(state: &mut State, out: &mut Out) {
    let all: Vec<WaiterId> = state.memory.waiters.keys().copied().collect();
    for id in all {
        if waiter::forget(state, id).is_some_and(|waiter| waiter.offer.is_none()) {
            out.effect(Effect::Answer { waiter: id, answer: Answer::Closed });
        }
    }
}
