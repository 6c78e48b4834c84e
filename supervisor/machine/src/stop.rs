//! Stopping: a wish is recorded once, and the stages that follow run by timers.

use fanin_protocol::record::{JobStopping, StopTarget as Target};
use fanin_protocol::{Cause, Code, Fence};

use crate::command::{Refusal, Reply, RunNode, RunRef, Stop, StopTarget, Stopped};
use crate::effect::{Effect, KillStage};
use crate::job::{self, Ending};
use crate::launch;
use crate::out::Out;
use crate::run;
use crate::state::{JobKey, Node, State};
use crate::timers::{Owner, Purpose};

/// A wish to stop a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intent {
    pub(crate) target: Target,
    pub(crate) cause: Cause,
    pub(crate) code: Option<Code>,
    /// Time until the forced stop; `None` for the job's own.
    pub(crate) grace_ms: Option<u64>,
}

/// Stops a job or a group on somebody's word.
pub(crate) fn stop(state: &mut State, request: &Stop, out: &mut Out) -> Result<Reply, Refusal> {
    let targets: Vec<JobKey> = match &request.target {
        StopTarget::Job(id) => {
            vec![state.facts.job_key(id).ok_or_else(|| Refusal::UnknownJob(id.clone()))?]
        }
        StopTarget::Exact(id, lifetime) => {
            let key = state.facts.job_key(id).ok_or_else(|| Refusal::UnknownJob(id.clone()))?;
            let current = state.job(key).map_or(*lifetime, |job| job.lifetime);
            if current != *lifetime {
                return Err(Refusal::NotCurrent { job: id.clone(), current, asked: *lifetime });
            }
            vec![key]
        }
        StopTarget::Group(id) => {
            let key = launch::find_group(state, id)?;
            state.group(key).map(|group| group.members.clone()).unwrap_or_default()
        }
    };
    let mut stopped = Vec::with_capacity(targets.len());
    for key in targets {
        let intent = Intent {
            target: Target::Cancelled,
            cause: request.cause,
            code: None,
            grace_ms: request.grace_ms,
        };
        let outcome = stop_job(state, key, intent, out);
        if let Some(job) = state.job(key) {
            stopped.push((job.id.clone(), outcome));
        }
    }
    Ok(Reply::Stopped(stopped))
}

/// Stops one job. A queued one is over at once; a running one is told, and ends once it is gone (J-9 to J-11).
///
/// A cancel raises a stop with another target; nothing lowers one (J-17).
pub(crate) fn stop_job(state: &mut State, key: JobKey, intent: Intent, out: &mut Out) -> Stopped {
    let Some(job) = state.job(key) else { return Stopped::Ended };
    if let Some(end) = job.ended {
        return Stopped::AlreadyEnded(end.status);
    }
    let Some(fence) = run::open_fence(state, Node::Job(key)) else {
        let ending = match intent.target {
            Target::Cancelled | Target::Requeue => Ending::cancelled(intent.cause),
            Target::Error => Ending::error(intent.cause, intent.code),
        };
        job::end(state, key, ending, out);
        return Stopped::Ended;
    };
    let grace_ms = intent.grace_ms.or(job.limits.grace_ms).unwrap_or(state.memory.settings.grace_ms);
    let raises = match job.stop {
        None => true,
        Some(stop) => intent.target == Target::Cancelled && stop.target != Target::Cancelled,
    };
    let is_first = job.stop.is_none();
    if raises {
        let (job, Intent { target, cause, code, .. }) = (job.id.clone(), intent);
        out.record_of(state, key, JobStopping { job, target, cause, code, grace_ms });
    }
    if is_first {
        kill(state, key, fence, KillStage::Polite, out);
    }
    // A later stop with a shorter grace brings the forced one forward; a longer one changes nothing, since the
    // first timer that is due decides.
    if raises || intent.grace_ms.is_some() {
        arm_force(state, key, fence, grace_ms, out);
    }
    Stopped::Stopping
}

fn arm_force(state: &mut State, key: JobKey, fence: Fence, grace_ms: u64, out: &mut Out) {
    if grace_ms == 0 {
        force(state, key, fence, out);
    } else {
        let at = state.memory.clock.mono().after(grace_ms);
        state.memory.timers.arm(at, Owner::Job(key), Purpose::Force(fence));
    }
}

/// The grace is over: stop by force, once.
pub(crate) fn force(state: &mut State, key: JobKey, fence: Fence, out: &mut Out) {
    if run::open_fence(state, Node::Job(key)) != Some(fence) || !state.memory.forced.insert(fence) {
        return;
    }
    kill(state, key, fence, KillStage::Forced, out);
    let wait_ms = u64::try_from(fanin_protocol::limits::KILL_WAIT.as_millis()).unwrap_or(u64::MAX);
    let at = state.memory.clock.mono().after(wait_ms);
    state.memory.timers.arm(at, Owner::Job(key), Purpose::Unreaped(fence));
}

/// The forced stop had no effect in time.
pub(crate) fn give_up(state: &mut State, key: JobKey, fence: Fence, out: &mut Out) {
    if run::open_fence(state, Node::Job(key)) != Some(fence) {
        return;
    }
    kill(state, key, fence, KillStage::Abandoned, out);
    job::abandon(state, key, out);
}

fn kill(state: &State, key: JobKey, fence: Fence, stage: KillStage, out: &mut Out) {
    let run = RunRef { node: RunNode::Job(key), fence };
    out.effect(Effect::Kill { run, stage, tag: state.tag(key) });
}
