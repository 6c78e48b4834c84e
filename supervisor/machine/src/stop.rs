//! Stopping: a wish is recorded once, and the stages that follow run by timers.

use fanin_protocol::record::{JobStopping, StopTarget as Target};
use fanin_protocol::{Cause, Code, Fence};

use crate::clock::Mono;
use crate::command::{Refusal, Reply, RunNode, RunRef, Stop, StopTarget, Stopped};
use crate::effect::{Effect, KillStage};
use crate::job::{self, Ending};
use crate::launch;
use crate::out::Out;
use crate::run;
use crate::state::{JobKey, Node, State};
use crate::sweep;
use crate::timers::{Owner, Purpose};

/// A wish to stop a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intent {
    pub(crate) target: Target,
    pub(crate) cause: Cause,
    pub(crate) code: Option<Code>,
    /// When it is stopped by force at the latest; `None` for its own grace from now on.
    pub(crate) force_at: Option<Mono>,
}

impl Intent {
    /// A node above goes.
    pub(crate) const PARENT: Self =
        Self { target: Target::Cancelled, cause: Cause::Parent, code: None, force_at: None };
}

/// Stops a job or a group on somebody's word.
pub(crate) fn stop(state: &mut State, request: &Stop, out: &mut Out) -> Result<Reply, Refusal> {
    let targets: Vec<JobKey> = match &request.target {
        StopTarget::Job(id) => {
            vec![state.facts.job_key(id).ok_or_else(|| state.no_job(id))?]
        }
        StopTarget::Exact(id, lifetime) => {
            let key = state.facts.job_key(id).ok_or_else(|| state.no_job(id))?;
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
    let force_at = request.grace_ms.map(|grace_ms| state.memory.clock.mono().after(grace_ms));
    let intent = Intent { cause: request.cause, force_at, ..Intent::PARENT };
    let mut stopped = Vec::with_capacity(targets.len());
    for key in targets {
        let outcome = stop_job(state, key, intent, out);
        if let Some(job) = state.job(key) {
            stopped.push((job.id.clone(), outcome));
        }
    }
    Ok(Reply::Stopped(stopped))
}

/// Stops one job. A queued one is over at once; a running one is told, and ends once it is gone (J-9 to J-11).
///
/// A cancel raises a stop with another target; nothing lowers one (J-17). Where a node above goes the job has been
/// told already, only its record comes now: that is its cause, and at most that much time is left.
pub(crate) fn stop_job(state: &mut State, key: JobKey, intent: Intent, out: &mut Out) -> Stopped {
    let intent = match sweep::inherited(state, key) {
        Some(above) => Intent { force_at: above.force_at.into_iter().chain(intent.force_at).min(), ..above },
        None => intent,
    };
    tell(state, key, intent, out)
}

/// As [`stop_job`], whatever is above: where everything is stopped, each job has the true cause.
pub(crate) fn tell(state: &mut State, key: JobKey, intent: Intent, out: &mut Out) -> Stopped {
    let Some(job) = state.job(key) else { return Stopped::Ended };
    if let Some(end) = job.ended {
        return Stopped::AlreadyEnded(end.status);
    }
    if job.awaits_start() {
        let ending = match intent.target {
            Target::Cancelled | Target::Requeue => Ending::cancelled(intent.cause),
            Target::Error => Ending::error(intent.cause, intent.code),
        };
        job::end(state, key, ending, out);
        return Stopped::Ended;
    }
    let now = state.memory.clock.mono();
    let grace_ms = job.limits.grace_ms.unwrap_or(state.memory.settings.grace_ms);
    let force_at = intent.force_at.unwrap_or_else(|| now.after(grace_ms));
    let raises = match job.stop {
        None => true,
        Some(stop) => intent.target == Target::Cancelled && stop.target != Target::Cancelled,
    };
    let is_first = job.stop.is_none();
    if raises {
        say(state, key, intent, force_at, out);
        state.memory.dirty.lends.push_back(key);
    }
    let fence = run::open_fence(state, Node::Job(key));
    if let Some(fence) = fence.filter(|_| is_first) {
        kill(state, key, fence, KillStage::Polite, out);
    }
    // A later stop with a shorter grace brings the forced one forward; a longer one changes nothing, since the
    // first timer that is due decides.
    if raises || intent.force_at.is_some() {
        if let Some(fence) = fence {
            arm_force(state, key, fence, force_at, out);
        }
        stop_below(state, key, force_at, out);
    }
    Stopped::Stopping
}

/// Writes the wish down.
pub(crate) fn say(state: &mut State, key: JobKey, intent: Intent, force_at: Mono, out: &mut Out) {
    let Some(job) = state.job(key).map(|job| job.id.clone()) else { return };
    let grace_ms = force_at.0.saturating_sub(state.memory.clock.mono().0);
    let Intent { target, cause, code, .. } = intent;
    out.record_of(state, key, JobStopping { job, target, cause, code, grace_ms });
}

/// All below has the same deadline, and one that is nearer than before comes down as well.
fn stop_below(state: &mut State, key: JobKey, force_at: Mono, out: &mut Out) {
    let before = state.memory.force_at.get(&key).copied();
    if state.facts.is_subtree_over(Node::Job(key)) {
        sweep::begin(state, Node::Job(key), None, out);
    } else if before.is_none_or(|before| force_at < before) {
        state.memory.force_at.insert(key, force_at);
        sweep::begin(state, Node::Job(key), Some(force_at), out);
    }
}

fn arm_force(state: &mut State, key: JobKey, fence: Fence, force_at: Mono, out: &mut Out) {
    if force_at <= state.memory.clock.mono() {
        force(state, key, fence, out);
    } else {
        state.memory.timers.arm(force_at, Owner::Job(key), Purpose::Force(fence));
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
    if !state.facts.is_subtree_over(Node::Job(key)) {
        // Those below have the same deadline, and each is given up before what it hangs on.
        state.memory.overdue.insert(fence);
        return;
    }
    kill(state, key, fence, KillStage::Abandoned, out);
    job::abandon(state, key, out);
}

fn kill(state: &State, key: JobKey, fence: Fence, stage: KillStage, out: &mut Out) {
    let run = RunRef { node: RunNode::Job(key), fence };
    out.effect(Effect::Kill { run, stage, tag: state.tag(key) });
}
