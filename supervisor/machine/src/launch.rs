//! Creating jobs: all or none, and a known id answers what exists (J-1, J-21, BAR-2).

use std::collections::HashSet;

use fanin_protocol::limits::LABEL_BYTES_MAX;
use fanin_protocol::record::JobQueued;
use fanin_protocol::spec::SpecError;
use fanin_protocol::{GroupId, Private};

use crate::again;
use crate::bounds;
use crate::command::{Launch, Launched, Member, Refusal, Reply};
use crate::dispatch;
use crate::fold::Near;
use crate::out::Out;
use crate::plan;
use crate::quota;
use crate::session;
use crate::state::{Closing, GroupKey, Job, JobKey, Node, State};
use crate::timer;
use crate::timers::{Owner, Purpose};
use crate::tree;
use crate::watch;

/// Creates the jobs of a call, or answers what is known under its ids.
pub(crate) fn launch(state: &mut State, request: Launch, out: &mut Out) -> Result<Reply, Refusal> {
    let parent = tree::find(state, &request.parent)?;
    tree::check_stays(state, parent)?;
    bounds::check_depth(state, parent)?;
    if let Some(known) = known_group(state, &request, parent)? {
        return Ok(Reply::Launched(known));
    }
    if let Some(known) = again::known_jobs(state, &request, parent) {
        return Ok(Reply::Launched(known));
    }
    check(state, &request, parent)?;
    Ok(Reply::Launched(create(state, request, parent, out)))
}

/// The group of this id, where there is one.
fn known_group(state: &State, request: &Launch, parent: Node) -> Result<Option<Launched>, Refusal> {
    let Some(key) = state.facts.group_key(&request.group) else { return Ok(None) };
    let Some(group) = state.group(key) else { return Ok(None) };
    if group.parent != parent {
        return Err(Refusal::ForeignGroup(request.group.clone()));
    }
    let jobs: Vec<&Job> = group.members.iter().filter_map(|member| state.job(*member)).collect();
    // Ids that the caller left to chance differ at each call, so only what was asked for is compared.
    let same = group.policy == request.policy
        && group.edges == request.edges
        && jobs.len() == request.members.len()
        && jobs.iter().zip(&request.members).all(|(job, member)| same_request(job, member));
    Ok(Some(Launched {
        group: group.id.clone(),
        jobs: jobs.iter().map(|job| (job.id.clone(), job.lifetime)).collect(),
        created: false,
        spec_differs: !same,
    }))
}

pub(crate) fn same_request(job: &Job, member: &Member) -> bool {
    job.spec == member.spec && job.limits == member.limits && job.label == member.label
}

/// Checks everything before anything exists (B56).
fn check(state: &State, request: &Launch, parent: Node) -> Result<(), Refusal> {
    if state.memory.closing > Closing::No {
        return Err(Refusal::Draining);
    }
    let members = request.members.len();
    if members == 0 {
        return Err(Refusal::Empty);
    }
    bounds::check(state, request, parent)?;
    watch::check(request, parent)?;
    request.policy.check(members).map_err(Refusal::BadPolicy)?;
    plan::check(request)?;
    quota::check(state, request, parent)?;
    let mut seen = HashSet::new();
    for (index, member) in request.members.iter().enumerate() {
        if !member.is_fresh && !seen.insert(&member.id) {
            return Err(Refusal::DuplicateId(member.id.clone()));
        }
        again::check(state, member, parent)?;
        check_member(member).map_err(|error| Refusal::BadSpec { index, job: member.id.clone(), error })?;
    }
    Ok(())
}

fn check_member(member: &Member) -> Result<(), SpecError> {
    if let Some(label) = member.label.as_ref().filter(|label| label.len() > LABEL_BYTES_MAX) {
        let problem = format!("{} bytes; at most {LABEL_BYTES_MAX} are allowed", label.len());
        return Err(SpecError { field: "label", problem });
    }
    member.spec.as_ref().map_or(Ok(()), |spec| spec.check())?;
    member.limits.check()
}

/// Writes the records of a launch. An explicit group is born sealed.
fn create(state: &mut State, request: Launch, parent: Node, out: &mut Out) -> Launched {
    let session = match parent {
        Node::Session(key) => state.session(key),
        Node::Job(_) => None,
    };
    let in_turn = request.joins_turn
        && request.edges.is_none()
        && request.members.iter().all(|member| member.limits.firings.is_none())
        && session.is_some_and(|session| session.turn.is_some());
    let joined = session
        .and_then(|session| session.turn_group)
        .filter(|_| in_turn)
        .and_then(|key| state.group(key))
        .map(|group| (group.id.clone(), group.counts.launched));
    let (group, first) = joined.unwrap_or_else(|| (request.group.clone(), 0));

    let members = request.members.len();
    state.facts.job_index.reserve(members);
    out.records.reserve(members.saturating_add(1));
    let spawned = bounds::spawned(state, parent);
    let mut jobs = Vec::with_capacity(members);
    let (mut hint, mut newest) = (Near::Unknown, None);
    let waits = |index| request.edges.as_ref().is_some_and(|edges| edges.of(index).is_some());
    for (index, member) in (first..).zip(request.members) {
        let Some(key) = queue(state, (parent, hint), &group, index, member, out) else { continue };
        let Some(job) = state.job(key) else { continue };
        jobs.push((job.id.clone(), job.lifetime));
        (hint, newest) = (Near::Group(job.group), Some(key));
        // What needs others stands in line once they are over.
        if !waits(index) {
            dispatch::enqueue(state, key);
        }
    }
    if !in_turn && let Some(key) = state.facts.group_key(&group) {
        session::seal(state, key, (request.policy, request.edges), None, out);
    }
    if let Some(key) = state.facts.group_key(&group) {
        quota::launched(state, key);
    }
    if let Some(newest) = newest {
        bounds::note_total(state, newest, spawned, out);
    }
    Launched { group, jobs, created: true, spec_differs: false }
}

fn queue(
    state: &mut State,
    (parent, hint): (Node, Near),
    group: &GroupId,
    index: u32,
    member: Member,
    out: &mut Out,
) -> Option<JobKey> {
    let parent = state.facts.node_id(parent)?;
    let key = JobKey(u32::try_from(state.facts.jobs.next()).unwrap_or(u32::MAX));
    let kind = member.kind();
    if member.again
        && let Some(before) = state.facts.job_key(&member.id)
    {
        state.memory.unreaped.remove(&before);
    }
    out.record_near(
        state,
        hint,
        JobQueued {
            job: member.id,
            parent,
            group: group.clone(),
            index,
            kind,
            label: member.label,
            spec: Private::of(member.spec),
            limits: member.limits,
        },
    );
    state.memory.tags.insert(key.index(), member.tag);
    arm_queue_limit(state, key);
    Some(key)
}

/// Arms the limit of a queued job, which counts from its launch.
pub(crate) fn arm_queue_limit(state: &mut State, key: JobKey) {
    let Some(job) = state.job(key) else { return };
    let purpose = Purpose::Queue(job.lifetime);
    if let Some(limit) = job.limits.queue_ms {
        let at = timer::limit_at(state, job.queued_at_ms, limit);
        state.memory.timers.arm(at, Owner::Job(key), purpose);
    }
}

/// Where the group of an id is kept.
pub(crate) fn find_group(state: &State, id: &GroupId) -> Result<GroupKey, Refusal> {
    state.facts.group_key(id).ok_or_else(|| Refusal::UnknownGroup(id.clone()))
}
