//! What happens when a timer is due. A timer whose fence is not current any more does nothing (SC-16).

use fanin_protocol::{Cause, Code};

use crate::command::{Refusal, Reply};
use crate::job::{self, Ending};
use crate::out::Out;
use crate::state::{GroupKey, JobKey, State};
use crate::timers::{Owner, Purpose};
use crate::{activity, evict, quiet, retry, stop, sweep};

/// Carries out all timers that are due.
pub(crate) fn tick(state: &mut State, out: &mut Out) -> Result<Reply, Refusal> {
    let now = state.memory.clock.mono();
    while let Some((owner, purpose)) = state.memory.timers.pop(now) {
        match owner {
            Owner::Job(key) => job_due(state, key, purpose, out),
            Owner::Group(key) => deadline(state, key),
            // The step goes on to start them.
            Owner::Kind(_) => {}
            Owner::All => quiet::look(state, out),
        }
    }
    evict::tick(state);
    Ok(Reply::Done)
}

fn job_due(state: &mut State, key: JobKey, purpose: Purpose, out: &mut Out) {
    match purpose {
        Purpose::Queue(lifetime) => {
            let waits = state
                .job(key)
                .is_some_and(|job| job.lifetime == lifetime && job.runs == 0 && job.ended.is_none());
            if waits {
                let above = sweep::inherited(state, key).map(|above| Ending::cancelled(above.cause));
                let ending = above.unwrap_or(Ending::error(Cause::Timeout, Some(Code::Queue)));
                job::end(state, key, ending, out);
            }
        }
        Purpose::Start(_) | Purpose::Run(_) | Purpose::Idle(_) => activity::run_due(state, key, purpose, out),
        Purpose::Total(lifetime) => activity::total_due(state, key, lifetime, out),
        Purpose::Backoff(lifetime) => retry::due(state, key, lifetime),
        Purpose::Force(fence) => stop::force(state, key, fence, out),
        Purpose::Unreaped(fence) => stop::give_up(state, key, fence, out),
        Purpose::Deadline | Purpose::Refill | Purpose::Look => {}
    }
}

fn deadline(state: &mut State, key: GroupKey) {
    if let Some(barrier) = state.memory.barriers.get_mut(&key) {
        barrier.deadline_passed = true;
        state.memory.dirty.groups.push_back(key);
    }
}
