//! What follows below a node that goes: its groups are voided, its owed messages too, and its children are stopped
//! (BAR-9, SC-2). In slices, so that no step holds the gate for long; the one record above counts for all until then.

use std::ops::Bound;

use fanin_protocol::Cause;
use fanin_protocol::limits::STOPS_PER_STEP;
use fanin_protocol::record::{GroupVoided, MessageTaken, StopTarget, TakenBy};

use crate::clock::Mono;
use crate::out::Out;
use crate::state::{GroupKey, JobKey, Node, State};
use crate::stop::{self, Intent};
use crate::{group, inbox, job, message};

/// Something to be told to many, and how far that has come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sweep {
    /// Void the groups of a node from this one on, then stop their members; all by this time, where it has one.
    Node { node: Node, after: Option<GroupKey>, force_at: Option<Mono> },
    /// Stop the members of a group from this place on.
    Members { group: GroupKey, next: usize, intent: Intent },
}

/// A node goes: takers of its inbox are told, and all below it follows.
pub(crate) fn begin(state: &mut State, node: Node, force_at: Option<Mono>, out: &mut Out) {
    inbox::close(state, node, out);
    if state.facts.below(node).is_some() {
        state.memory.sweeps.push_back(Sweep::Node { node, after: None, force_at });
    }
}

/// Stops the members of a group, beginning in this step.
pub(crate) fn members(state: &mut State, group: GroupKey, intent: Intent) {
    state.memory.sweeps.push_back(Sweep::Members { group, next: 0, intent });
}

/// Goes on with what is to be told; false where nothing is left of it, or of this step's share.
pub(crate) fn next(state: &mut State, done: &mut usize, out: &mut Out) -> bool {
    if *done >= STOPS_PER_STEP {
        return false;
    }
    let Some(sweep) = state.memory.sweeps.pop_front() else { return false };
    *done += 1;
    let rest = match sweep {
        Sweep::Node { node, after, force_at } => void_next(state, node, after, force_at, out),
        Sweep::Members { group, next, intent } => stop_next(state, group, next, intent, out),
    };
    if let Some(rest) = rest {
        state.memory.sweeps.push_front(rest);
    }
    true
}

/// Voids the next group of a node; after the last one, what is owed to the node.
fn void_next(
    state: &mut State,
    node: Node,
    after: Option<GroupKey>,
    force_at: Option<Mono>,
    out: &mut Out,
) -> Option<Sweep> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let next = state.facts.below(node)?.open.range((from, Bound::Unbounded)).next().copied();
    let Some(key) = next else {
        void_owed(state, node, out);
        return None;
    };
    let open = state.group(key)?;
    if open.voided.is_none() {
        let id = open.id.clone();
        out.record(state, GroupVoided { group: id, cause: Cause::Parent });
        group::voided(state, key, out);
        job::child_over(state, node);
    }
    members(state, key, Intent { force_at, ..Intent::PARENT });
    Some(Sweep::Node { node, after: Some(key), force_at })
}

fn stop_next(state: &mut State, key: GroupKey, next: usize, intent: Intent, out: &mut Out) -> Option<Sweep> {
    let member = *state.group(key)?.members.get(next)?;
    stop::stop_job(state, member, intent, out);
    Some(Sweep::Members { group: key, next: next + 1, intent })
}

/// Nobody will take what is owed to a node that goes; the results stay readable.
pub(crate) fn void_owed(state: &mut State, node: Node, out: &mut Out) {
    let owed = state.facts.below(node).into_iter().flat_map(|below| &below.inbox);
    let keys: Vec<_> = owed.filter_map(|key| state.group(*key)).map(|group| group.id.clone()).collect();
    let messages = message::keys(state, node);
    if !keys.is_empty() || !messages.is_empty() {
        out.record(state, MessageTaken { keys, results: Vec::new(), messages, by: TakenBy::Void });
    }
}

/// What a job is told because of a node above it that goes, where it was not told yet.
pub(crate) fn inherited(state: &State, key: JobKey) -> Option<Intent> {
    let job = state.job(key)?;
    if job.ended.is_some() || job.stop.is_some_and(|stop| stop.target == StopTarget::Cancelled) {
        return None;
    }
    let force_at = match state.facts.going_above(key)? {
        Node::Job(above) => state.memory.force_at.get(&above).copied(),
        Node::Session(_) => None,
    };
    Some(Intent { force_at, ..Intent::PARENT })
}

/// Writes down what a node above was told before this job's run ends: the end comes after that, whether the job's own
/// record did or not (SC-2). One that a crash interrupted told nothing: those below it were interrupted with it, also
/// where a recovery was cut short.
pub(crate) fn catch_up(state: &mut State, key: JobKey, out: &mut Out) {
    if let Some(intent) = inherited(state, key).filter(|_| state.facts.is_told_above(key)) {
        let force_at = intent.force_at.unwrap_or_else(|| state.memory.clock.mono());
        stop::say(state, key, intent, force_at, out);
    }
}

/// After a crash: begins again below every node that was going.
pub(crate) fn resume(state: &mut State, out: &mut Out) {
    let sessions = state.facts.sessions.iter().map(|(key, _)| Node::Session(crate::state::SessionKey(key)));
    let jobs = state
        .facts
        .jobs
        .iter()
        .filter(|(_, job)| job.below.is_some() && job.ended.is_none())
        .map(|(key, _)| Node::Job(JobKey(key)));
    let going: Vec<Node> = sessions.chain(jobs).filter(|node| state.facts.is_going(*node)).collect();
    for node in going {
        begin(state, node, None, out);
    }
}
