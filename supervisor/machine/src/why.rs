//! What a thing waits for: computed from the state when somebody asks, and never empty while the thing is not over
//! (G14).

use std::collections::BTreeSet;

use fanin_protocol::limits::REASON_IDS_MAX;
use fanin_protocol::{GroupId, JobId, PartKind, Reason, Status};

use crate::lend::Lent;
use crate::state::{Closing, GroupKey, Job, JobKey, Node, Phase, State};
use crate::waiter::{self, Wants};
use crate::{autonomy, mail, plan, quota, retry, sweep};

/// What a job waits for; empty where it is over or not known.
pub fn job(state: &State, id: &JobId) -> Vec<Reason> {
    let key = state.facts.job_key(id);
    key.map(|key| job_reasons(state, key)).unwrap_or_default()
}

/// What a group or its message waits for; empty where nothing is owed any more or it is not known.
pub fn group(state: &State, id: &GroupId) -> Vec<Reason> {
    let key = state.facts.group_key(id);
    key.map(|key| group_reasons(state, key)).unwrap_or_default()
}

pub(crate) fn job_reasons(state: &State, key: JobKey) -> Vec<Reason> {
    let Some(job) = state.job(key) else { return Vec::new() };
    if job.ended.is_some() {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    // One below a node that goes is stopping with it, also before a record of its own says so.
    let cause =
        job.stop.map(|stop| stop.cause).or_else(|| sweep::inherited(state, key).map(|above| above.cause));
    if let Some(cause) = cause {
        let forced = job.run.as_ref().is_some_and(|run| state.memory.forced.contains(&run.fence));
        reasons.push(Reason::Stopping { cause, forced });
    }
    if job.status() == Status::Queued && reasons.is_empty() {
        reasons.push(queued(state, key, job));
    }
    if job.is_joining() {
        reasons.push(children(state, key));
    }
    let Some(run) = &job.run else { return reasons };
    for part in run.parts.iter().filter(|part| part.kind == PartKind::Question && !part.state.is_terminal()) {
        reasons.push(Reason::Question { call: part.call.clone() });
    }
    match state.memory.lending.lent.get(&key) {
        Some(Lent::Asking) => reasons.push(asking(state, key, job)),
        // It looks; that is its work.
        Some(Lent::Away) if job.is_watch() => {}
        Some(Lent::Away) if reasons.is_empty() => reasons.push(waiting(state, key)),
        Some(Lent::Away) | None => {}
    }
    if reasons.is_empty() {
        reasons.push(if run.bound { Reason::Working } else { Reason::Starting });
    }
    reasons
}

/// A body that is over waits for its children.
fn children(state: &State, key: JobKey) -> Reason {
    let below = state.facts.below(Node::Job(key));
    let groups = below.into_iter().flat_map(|below| &below.open).filter_map(|group| state.group(*group));
    let live = groups
        .clone()
        .flat_map(|group| &group.members)
        .filter_map(|member| state.job(*member))
        .filter(|job| job.ended.is_none());
    let open = groups.map(|group| group.counts.launched - group.counts.ended()).sum();
    Reason::Children { open, first: live.take(REASON_IDS_MAX).map(|job| job.id.clone()).collect() }
}

fn queued(state: &State, key: JobKey, job: &Job) -> Reason {
    if state.memory.closing > Closing::No || state.facts.closed {
        return Reason::Draining;
    }
    if let Some(reason) = plan::reason(state, key) {
        return reason;
    }
    if let Some(not_before_ms) = job.retry_at_ms().filter(|_| retry::is_waiting(state, key)) {
        return Reason::Backoff { tries: job.runs, not_before_ms };
    }
    if let Some(reason) = state.memory.starts.reason(job.kind, key, state.memory.clock.mono()) {
        return reason;
    }
    if let Some(reason) = quota::reason(state, key) {
        return reason;
    }
    let line = state.memory.ready.get(&job.session).into_iter().flatten();
    let before = line.take_while(|waiting| **waiting != key).filter(|waiting| {
        // One that ended in the queue stays in line until it comes up.
        state.job(**waiting).is_some_and(|job| job.ended.is_none())
    });
    Reason::Slot { position: before.count() as u64 + 1, held_by: holders(state) }
}

/// Who holds the slots, the longest-running first.
fn holders(state: &State) -> Vec<JobId> {
    let lent = &state.memory.lending.lent;
    // Open runs, and not all jobs that are kept: it is asked for each queued job of a list.
    let runs = state.facts.runs.nodes().filter_map(|node| match node {
        Node::Job(key) if !lent.contains_key(&key) => Some((state.job(key)?.started_at_ms, key)),
        Node::Job(_) | Node::Session(_) => None,
    });
    let mut held_by: Vec<(Option<u64>, JobKey)> = runs.collect();
    held_by.sort_unstable();
    let jobs = held_by.into_iter().take(REASON_IDS_MAX).filter_map(|(_, key)| state.job(key));
    jobs.map(|job| job.id.clone()).collect()
}

fn asking(state: &State, key: JobKey, job: &Job) -> Reason {
    let lending = &state.memory.lending;
    let line = lending.asking.get(&job.session).into_iter().flatten();
    let before = line.take_while(|other| **other != key);
    let before = before.filter(|other| lending.lent.get(other) == Some(&Lent::Asking)).count() as u64;
    Reason::Lent { position: before + 1, held_by: holders(state) }
}

/// The jobs that a body waits for. For a wake that is what it has launched.
fn waiting(state: &State, key: JobKey) -> Reason {
    let ids = state.memory.waits_of.get(&key).into_iter().flatten();
    let mut jobs: BTreeSet<JobKey> = BTreeSet::new();
    for waiter in ids.filter_map(|id| state.memory.waiters.get(id)).filter(|waiter| waiter.offer.is_none()) {
        match &waiter.wants {
            Wants::Jobs { jobs: wanted, .. } => jobs.extend(wanted),
            Wants::Group { group, .. } => {
                jobs.extend(state.group(*group).into_iter().flat_map(|group| &group.members))
            }
            Wants::Wake(by) | Wants::Message(by) | Wants::Hit(by) => {
                let open = state.facts.below(*by).into_iter().flat_map(|below| &below.open);
                jobs.extend(open.filter_map(|group| state.group(*group)).flat_map(|group| &group.members));
            }
            Wants::Mail { by, from } => jobs.extend(mail::senders(state, *by, *from)),
            Wants::Background { .. } | Wants::Idle => {}
        }
    }
    let open = jobs.into_iter().filter_map(|key| state.job(key)).filter(|job| job.ended.is_none());
    Reason::Waiting { first: open.take(REASON_IDS_MAX).map(|job| job.id.clone()).collect() }
}

pub(crate) fn group_reasons(state: &State, key: GroupKey) -> Vec<Reason> {
    let (Some(group), Some(phase)) = (state.group(key), state.phase(key)) else { return Vec::new() };
    match phase {
        Phase::Open => vec![Reason::Unsealed],
        Phase::Running | Phase::Decided | Phase::Ended => {
            let open = group
                .members
                .iter()
                .filter_map(|member| state.job(*member))
                .filter(|job| job.ended.is_none());
            let first = open.take(REASON_IDS_MAX).map(|job| job.id.clone()).collect();
            vec![Reason::Members { open: group.counts.launched - group.counts.ended(), first }]
        }
        Phase::Fired if group.taken => Vec::new(),
        Phase::Fired => vec![message(state, key)],
        Phase::Voided => Vec::new(),
    }
}

fn message(state: &State, key: GroupKey) -> Reason {
    let busy = state.group(key).is_some_and(|group| state.is_in_turn(group.parent));
    if state.memory.offered.contains_key(&key) || waiter::holds(state, key) {
        Reason::Offered
    } else if busy {
        Reason::Busy
    } else {
        let held = state.group(key).and_then(|group| autonomy::held(state, group.parent));
        held.unwrap_or(Reason::Untaken)
    }
}
