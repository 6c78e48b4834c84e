//! Known ids of jobs: they answer what exists, and a new life begins only where one is asked for (J-14, J-21, J-22).
//! Nothing here touches the life before.

use std::sync::Arc;

use fanin_protocol::{JobId, JobKind, Left};

use crate::command::{Ended, Launch, Launched, Member, Refusal, Report, RunNode, RunRef, Said};
use crate::launch::same_request;
use crate::state::{Job, JobKey, Node, State, Unreaped};

/// The jobs that a call names, where all of them are known, and are all that there is to say about it: the one of
/// `start`, or the members of one group in launch order.
///
/// A job that is to be launched again and is over is not known in this sense. One that is alive is: a call that is
/// repeated because its answer was lost finds the life that it began.
pub(crate) fn known_jobs(state: &State, request: &Launch, parent: Node) -> Option<Launched> {
    if !request.is_fresh && !request.joins_turn {
        // The caller named a new group: that is another launch.
        return None;
    }
    let known = |member: &Member| {
        let key = state.facts.job_key(&member.id).filter(|_| !member.is_fresh)?;
        let is_own = state.facts.is_child_of(key, parent);
        state.job(key).filter(|job| is_own && !(member.again && job.ended.is_some()))
    };
    let jobs = request.members.iter().map(known).collect::<Option<Vec<&Job>>>()?;
    let group = state.group(jobs.first()?.group)?;
    let is_single = request.joins_turn && jobs.len() == 1;
    let is_whole = group.members.len() == jobs.len()
        && group
            .members
            .iter()
            .zip(&jobs)
            .all(|(key, job)| state.job(*key).is_some_and(|member| member.lifetime == job.lifetime));
    if !is_single && !is_whole {
        return None;
    }
    let same = jobs.iter().zip(&request.members).all(|(job, member)| same_request(job, member));
    let same_policy = is_single || group.policy == request.policy;
    Some(Launched {
        group: group.id.clone(),
        jobs: jobs.iter().map(|job| (job.id.clone(), job.lifetime)).collect(),
        created: false,
        spec_differs: !(same && same_policy),
    })
}

/// Checks that a member's id is free, or its job over and gone where a new life is asked for.
pub(crate) fn check(state: &State, member: &Member, parent: Node) -> Result<(), Refusal> {
    let key = state.facts.job_key(&member.id).filter(|_| !member.is_fresh);
    let Some((key, job)) = key.and_then(|key| state.job(key).map(|job| (key, job))) else { return Ok(()) };
    let is_own = state.facts.is_child_of(key, parent);
    if !member.again || !is_own || job.ended.is_none() {
        return Err(Refusal::IdInUse(member.id.clone()));
    }
    if may_live(state, key, job) {
        return Err(Refusal::StillReaping { job: job.id.clone(), lifetime: job.lifetime });
    }
    Ok(())
}

/// True where something of a job that is over may still be alive: it was left unreaped, and nobody has said since
/// that it is gone. A closure does not outlive the process that an older epoch was.
fn may_live(state: &State, key: JobKey, job: &Job) -> bool {
    let outlived = job.kind == JobKind::Closure && job.lifetime.0 < state.facts.epoch.0;
    job.ended.is_some_and(|end| end.unreaped)
        && !outlived
        && state.memory.unreaped.get(&key) != Some(&Unreaped::Gone)
}

/// A run that is not open any more says something. Where its job was left unreaped and it says that it is over, what it
/// left is all that may live on: nothing that is recorded changes, but its id may live again once that is gone.
pub(crate) fn late(state: &mut State, report: &Report) {
    let (RunNode::Job(key), Said::Ended(ended)) = (report.run.node, &report.what) else { return };
    let left = match ended {
        Ended::Completed { left, .. } | Ended::Failed { left, .. } => left.clone(),
        Ended::Lost { .. } => None,
    };
    if let Some(known) = state.memory.unreaped.get_mut(&key) {
        known.over(report.run.fence, left);
    }
}

/// Somebody has looked: nothing is alive of what a run left.
pub(crate) fn gone(state: &mut State, run: RunRef) {
    if let RunNode::Job(key) = run.node
        && let Some(known) = state.memory.unreaped.get_mut(&key)
    {
        known.gone(run.fence);
    }
}

impl State {
    /// The last run of an id's newest life and what it left, where that may still be alive and nobody will say so:
    /// whoever wants a new life looks for it first, and says [`Said::Gone`].
    pub fn left_by(&self, id: &JobId) -> Option<(RunRef, JobKind, Arc<Left>)> {
        let key = self.facts.job_key(id)?;
        let Unreaped::Left(fence, left) = self.memory.unreaped.get(&key)? else { return None };
        let run = RunRef { node: RunNode::Job(key), fence: *fence };
        Some((run, self.job(key)?.kind, Arc::clone(left)))
    }
}
