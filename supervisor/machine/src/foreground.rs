//! Foreground calls: a launch that waits for its jobs, in one step. What ends such a wait from outside is promotion; it
//! touches no job (BAR-12, SC-20).

use fanin_protocol::{Background, GroupId, JobId, Promotion};

use crate::command::{Launch, Refusal, Reply, WaiterId};
use crate::effect::{Answer, Effect};
use crate::launch;
use crate::out::Out;
use crate::state::{GroupKey, State};
use crate::tree;
use crate::waiter::{self, Wants};

/// Whose foreground calls are promoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromoteTarget {
    /// Those that wait for the group of a job in its newest life.
    Job(JobId),
    /// Those that wait for a group.
    Group(GroupId),
}

/// Launches. A foreground call waits from the same step on, so that its jobs never run without it.
pub(crate) fn launch(state: &mut State, request: Launch, out: &mut Out) -> Result<Reply, Refusal> {
    let Some(id) = request.foreground else { return launch::launch(state, request, out) };
    waiter::check_new(state, id)?;
    let by = tree::find(state, &request.parent)?;
    let reply = launch::launch(state, request, out)?;
    if let Reply::Launched(launched) = &reply
        && let Some(group) = state.facts.group_key(&launched.group)
    {
        waiter::begin(state, id, Wants::Group { by, group, is_foreground: true }, out);
    }
    Ok(reply)
}

/// Lets the foreground calls of a group leave, and tells them so.
pub(crate) fn promote(state: &mut State, target: &PromoteTarget, out: &mut Out) -> Result<Reply, Refusal> {
    let key = match target {
        PromoteTarget::Group(id) => launch::find_group(state, id)?,
        PromoteTarget::Job(id) => {
            let job = state.facts.job_key(id).and_then(|key| state.job(key));
            job.map(|job| job.group).ok_or_else(|| state.no_job(id))?
        }
    };
    if state.group(key).is_some_and(|group| group.fired.is_some() || group.voided.is_some()) {
        return Ok(Reply::Promoted(Promotion::AlreadyDone));
    }
    let calls = calls(state, key);
    let is_waiting = !calls.is_empty();
    for id in calls {
        waiter::release(state, id)?;
        out.effect(Effect::Answer { waiter: id, answer: Answer::Promoted });
    }
    Ok(Reply::Promoted(if is_waiting { Promotion::Promoted } else { Promotion::NotWaiting }))
}

/// Answers one who waits for a job to be in the background, where it is or is over.
pub(crate) fn look(state: &mut State, id: WaiterId, out: &mut Out) {
    let Some(Wants::Background { job, group }) = state.memory.waiters.get(&id).map(|waiter| &waiter.wants)
    else {
        return;
    };
    let (job, group) = (*job, *group);
    let background = if state.job(job).is_none_or(|job| job.ended.is_some()) {
        Background::Over
    } else if calls(state, group).is_empty() {
        Background::Left
    } else {
        return;
    };
    waiter::forget(state, id);
    out.effect(Effect::Answer { waiter: id, answer: Answer::Background(background) });
}

/// Foreground calls have left: whoever waits for that looks again.
pub(crate) fn settle(state: &mut State, out: &mut Out) {
    for group in std::mem::take(&mut state.memory.dirty.calls) {
        for id in state.memory.group_waiters.get(&group).cloned().unwrap_or_default() {
            look(state, id, out);
        }
    }
}

/// The foreground calls that wait for a group.
fn calls(state: &State, key: GroupKey) -> Vec<WaiterId> {
    let is_call = |id: &&WaiterId| {
        let wants = state.memory.waiters.get(id).map(|waiter| &waiter.wants);
        matches!(wants, Some(Wants::Group { is_foreground: true, .. }))
    };
    let ids = state.memory.group_waiters.get(&key);
    ids.into_iter().flatten().filter(is_call).copied().collect()
}
