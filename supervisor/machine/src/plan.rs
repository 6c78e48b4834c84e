//! Plans: what starts once others of its group are over, and what follows where one of these did not complete (T-3,
//! T-4). All of it is one walk along the edges of a job that is over, and each edge is walked once.

use std::sync::Arc;

use fanin_protocol::limits::{HANDED_BYTES_MAX, HANDED_JOBS_MAX, REASON_IDS_MAX, RESULT_ENTRY_BYTES_MAX};
use fanin_protocol::{Cause, Dependencies, Need, OnFailedDependency, Reason, Status};

use crate::command::{Launch, Refusal};
use crate::job::{self, Ending};
use crate::out::Out;
use crate::state::{GroupKey, Job, JobKey, Phase, State};
use crate::{dispatch, result};

/// How far the plan of a group has come. It is made of the group's facts, when it is sealed or found again.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Of each member, how many of those that it needs are still to be followed.
    open: Vec<u32>,
    /// Those that need member `n` are `dependants` from `first[n]` on, up to `first[n + 1]`.
    first: Vec<u32>,
    dependants: Vec<u32>,
    /// The members so that each comes after all that it needs.
    order: Vec<u32>,
    /// Where each of them stands there.
    ranks: Vec<u32>,
}

impl Plan {
    fn dependants(&self, member: u32) -> &[u32] {
        let member = member as usize;
        let bound = |at: usize| self.first.get(at).map_or(0, |first| *first as usize);
        self.dependants.get(bound(member)..bound(member + 1)).unwrap_or_default()
    }

    fn rank(&self, member: u32) -> u32 {
        self.ranks.get(member as usize).copied().unwrap_or_default()
    }

    /// Puts the members in an order: those that need nothing, then what can follow.
    fn rank_all(&mut self) {
        let mut open = self.open.clone();
        let is_free = |(place, open): (u32, &u32)| (*open == 0).then_some(place);
        self.order = (0..).zip(&open).filter_map(is_free).collect();
        let mut at = 0;
        while let Some(member) = self.order.get(at).copied() {
            if let Some(rank) = self.ranks.get_mut(member as usize) {
                *rank = u32::try_from(at).unwrap_or(u32::MAX);
            }
            at += 1;
            for dependant in self.dependants(member).to_vec() {
                let Some(open) = open.get_mut(dependant as usize) else { continue };
                *open = open.saturating_sub(1);
                if *open == 0 {
                    self.order.push(dependant);
                }
            }
        }
    }

    /// One that the member needs was followed; true where it was the last.
    fn follow(&mut self, member: u32) -> bool {
        self.open.get_mut(member as usize).is_some_and(|open| {
            *open = open.saturating_sub(1);
            *open == 0
        })
    }
}

/// Refuses edges that are no plan, with all that is wrong with them.
pub(crate) fn check(request: &Launch) -> Result<(), Refusal> {
    let Some(edges) = &request.edges else { return Ok(()) };
    let id = |place: u32| request.members.get(place as usize).map(|member| member.id.to_string());
    let name = |place| id(place).unwrap_or_default();
    let problems = edges.problems(request.members.len());
    let problems: Vec<_> = problems.iter().map(|problem| problem.describe(name)).collect();
    if problems.is_empty() { Ok(()) } else { Err(Refusal::BadPlan(problems)) }
}

/// Lays the plan of a sealed group out, where it is one. What is over already, as a recovery finds it, is followed in
/// this step like what will be over.
pub(crate) fn arm(state: &mut State, key: GroupKey) {
    let Some(group) = state.group(key) else { return };
    let Some(edges) = group.edges.clone() else { return };
    let members = group.members.len();
    let (mut open, mut first) = (vec![0; members], vec![0_u32; members + 1]);
    for need in edges.needs() {
        if let Some(open) = open.get_mut(need.member as usize) {
            *open = u32::try_from(need.on.len()).unwrap_or(u32::MAX);
        }
        for place in &need.on {
            // Counted one place further on, so that the sums below are where each begins.
            if let Some(count) = first.get_mut(*place as usize + 1) {
                *count += 1;
            }
        }
    }
    let mut sum = 0;
    for begins in &mut first {
        sum += *begins;
        *begins = sum;
    }
    let (mut next, mut dependants) = (first.clone(), vec![0; edges.count()]);
    for (need, place) in edges.needs().iter().flat_map(|need| need.on.iter().map(move |place| (need, place)))
    {
        if let Some(at) = next.get_mut(*place as usize)
            && let Some(dependant) = dependants.get_mut(*at as usize)
        {
            *dependant = need.member;
            *at += 1;
        }
    }
    let is_over = |key: &&JobKey| state.job(**key).is_some_and(|job| job.ended.is_some());
    let over: Vec<JobKey> = group.members.iter().filter(is_over).copied().collect();
    let plan_failed = has_failed(state, key);
    let mut plan = Plan { open, first, dependants, order: Vec::new(), ranks: vec![0; members] };
    plan.rank_all();
    state.memory.plans.insert(key, plan);
    state.memory.dirty.needed.extend(over);
    if let Some(barrier) = state.memory.barriers.get_mut(&key) {
        barrier.plan_failed = plan_failed;
    }
}

/// A member of the group is over: those that need it are looked at before the step ends.
pub(crate) fn ended(state: &mut State, key: JobKey, group: GroupKey) {
    if state.memory.plans.contains_key(&group) {
        state.memory.dirty.needed.push_back(key);
    }
}

/// Follows the edges of a job that is over: who needs it is ready, or is to be skipped. Several that become ready are in
/// launch order.
pub(crate) fn settle(state: &mut State, key: JobKey) {
    let Some(job) = state.job(key) else { return };
    let (group, index, failed) = (job.group, job.index, has_failed_itself(job));
    let Some(plan) = state.memory.plans.get(&group) else { return };
    for member in plan.dependants(index).to_vec() {
        let Some(plan) = state.memory.plans.get_mut(&group) else { return };
        let (is_last, rank) = (plan.follow(member), plan.rank(member));
        let Some((dependant, need)) = waiting(state, group, member) else { continue };
        let runs = need.on_failed == OnFailedDependency::Run;
        if failed && !runs {
            state.memory.dirty.skips.insert((group, rank));
        } else if is_last && (runs || are_met(state, group, need)) && is_running(state, group) {
            dispatch::enqueue(state, dependant);
        }
    }
}

/// Skips the next of those that are to be; false where there is none. They go in the order of the plan, once all ends are
/// followed: what a job needs is decided before it is, so a recovery that was cut short says the same as one that was not
/// (RE-8). What a policy stops comes after it.
pub(crate) fn skip_next(state: &mut State, out: &mut Out) -> bool {
    let Some((group, rank)) = state.memory.dirty.skips.pop_first() else { return false };
    let member = state.memory.plans.get(&group).and_then(|plan| plan.order.get(rank as usize)).copied();
    let Some((key, need)) = member.and_then(|member| waiting(state, group, member)) else { return true };
    let is_vital = need.on_failed == OnFailedDependency::FailTeam;
    let root = |place: &u32| {
        let needed = state.job(*state.group(group)?.members.get(*place as usize)?)?;
        has_failed_itself(needed).then(|| needed.ended.and_then(|end| end.root).unwrap_or(*place))
    };
    let Some(root) = need.on.iter().filter_map(root).min() else { return true };
    job::end(state, key, Ending::skipped(root), out);
    if let Some(barrier) = state.memory.barriers.get_mut(&group) {
        barrier.plan_failed |= is_vital;
    }
    true
}

/// True where a job is over and did not complete, but for one that was stopped with the rest of its group: what needs
/// that is stopped as well.
fn has_failed_itself(job: &Job) -> bool {
    job.ended.is_some_and(|end| end.status != Status::Completed && end.cause != Some(Cause::Group))
}

fn are_met(state: &State, group: GroupKey, need: &Need) -> bool {
    let Some(group) = state.group(group) else { return false };
    let needed = |place: &u32| state.job(*group.members.get(*place as usize)?);
    need.on.iter().all(|place| needed(place).is_some_and(|job| job.status() == Status::Completed))
}

/// True where the rest of the group is not stopped.
fn is_running(state: &State, group: GroupKey) -> bool {
    state.phase(group) == Some(Phase::Running)
}

/// A member that waits for its first start, and what it needs.
fn waiting(state: &State, group: GroupKey, member: u32) -> Option<(JobKey, &Need)> {
    let group = state.group(group)?;
    let key = *group.members.get(member as usize)?;
    let need = group.edges.as_ref()?.of(member)?;
    state.job(key).filter(|job| job.awaits_start() && job.last.is_none())?;
    Some((key, need))
}

/// True where a recovered job waits for others; it stands in line once they were followed.
pub(crate) fn holds(state: &State, key: JobKey) -> bool {
    let Some(job) = state.job(key) else { return false };
    let plan = state.memory.plans.get(&job.group);
    plan.and_then(|plan| plan.open.get(job.index as usize)).is_some_and(|open| *open > 0)
}

/// True where a member that the group cannot do without was not started. It is read from how the members ended, so that
/// a crash does not change it.
pub(crate) fn has_failed(state: &State, key: GroupKey) -> bool {
    let Some(group) = state.group(key) else { return false };
    let needs = group.edges.iter().flat_map(|edges| edges.needs());
    let mut vital = needs.filter(|need| need.on_failed == OnFailedDependency::FailTeam);
    vital.any(|need| {
        let member = group.members.get(need.member as usize).and_then(|key| state.job(*key)?.ended);
        member.is_some_and(|end| end.cause == Some(Cause::Dependency))
    })
}

/// What a job needs, where that is anything.
fn need(state: &State, job: &Job) -> Option<Need> {
    state.group(job.group)?.edges.as_ref()?.of(job.index).cloned()
}

/// The member at a place of the job's group. What was read of a store may have gaps.
fn member(state: &State, job: &Job, place: u32) -> Option<JobKey> {
    let members = &state.group(job.group)?.members;
    let index = |key: &JobKey| state.job(*key).map_or(0, |job| job.index);
    members.get(members.binary_search_by_key(&place, index).ok()?).copied()
}

/// Why a queued job is not in line: what it needs is not over.
pub(crate) fn reason(state: &State, key: JobKey) -> Option<Reason> {
    let job = state.job(key)?;
    let need = need(state, job)?;
    let needed = need.on.iter().filter_map(|place| state.job(member(state, job, *place)?));
    let open: Vec<&Job> = needed.filter(|job| job.ended.is_none()).collect();
    let first = open.iter().take(REASON_IDS_MAX).map(|job| job.id.clone()).collect();
    (!open.is_empty())
        .then(|| Reason::Dependency { open: u32::try_from(open.len()).unwrap_or(u32::MAX), first })
}

/// Why a job was skipped, in words.
pub(crate) fn message(state: &State, job: &Job) -> Option<Arc<str>> {
    let root_key = member(state, job, job.ended?.root?)?;
    let root = state.job(root_key)?;
    let how = result::entry(state, root_key, 0)?.summary();
    let name = root.label.as_ref().map_or_else(|| root.id.to_string(), ToString::to_string);
    Some(format!("needs `{name}`, which ended {how}").into())
}

/// What a job is told of those that it needs, where it needs any. Of very many those that did not complete come first.
pub(crate) fn dependencies(state: &State, key: JobKey) -> Option<Dependencies> {
    let job = state.job(key)?;
    let need = need(state, job)?;
    let mut needed: Vec<JobKey> = need.on.iter().filter_map(|place| member(state, job, *place)).collect();
    let omitted = needed.len().saturating_sub(HANDED_JOBS_MAX);
    if omitted > 0 {
        needed.sort_by_key(|key| state.job(*key).is_some_and(|job| job.status() == Status::Completed));
        needed.truncate(HANDED_JOBS_MAX);
        needed.sort_unstable();
    }
    let share = (HANDED_BYTES_MAX / needed.len().max(1)).min(RESULT_ENTRY_BYTES_MAX);
    Some(Dependencies {
        entries: needed.into_iter().filter_map(|key| result::entry(state, key, share)).collect(),
        omitted: u32::try_from(omitted).unwrap_or(u32::MAX),
        nonce: result::nonce(state),
    })
}
