//! What happens when a timer is due. A timer whose fence is not current any more does nothing (SC-16).

use fanin_protocol::{Cause, Code};

use crate::clock::Mono;
use crate::command::{Refusal, Reply};
use crate::job::{self, Ending};
use crate::out::Out;
use crate::state::{GroupKey, JobKey, State};
use crate::timers::{Owner, Purpose};
use crate::{activity, autonomy, evict, quiet, retry, stop, sweep};

/// Time has passed: carries out all timers that are due, and begins to let go of what is over.
pub(crate) fn tick(state: &mut State, out: &mut Out) -> Result<Reply, Refusal> {
    due(state, out);
    evict::tick(state);
    Ok(Reply::Done)
}

/// Carries out all timers that are due.
pub(crate) fn due(state: &mut State, out: &mut Out) {
    let now = state.memory.clock.mono();
    while let Some((owner, purpose)) = state.memory.timers.pop(now) {
        match owner {
            Owner::Job(key) => job_due(state, key, purpose, out),
            Owner::Group(key) => deadline(state, key),
            // The step goes on to start them.
            Owner::Kind(_) => {}
            Owner::Payer(payer) => state.memory.dirty.quotas.push_back(payer),
            Owner::Session(key) => autonomy::look(state, key),
            Owner::All => quiet::look(state, out),
        }
    }
}

/// When a limit is due that began with a record of `since_ms`. An epoch knows nothing of the clock of the one before,
/// so what passed until now is told by the times of records: it is counted over a crash, down time included, and never
/// makes a limit longer than it is (0048).
pub(crate) fn limit_at(state: &State, since_ms: u64, limit_ms: u64) -> Mono {
    let now_ms = state.facts.ts_ms.max(state.memory.clock.wall_ms());
    let left_ms = limit_ms.saturating_sub(now_ms.saturating_sub(since_ms));
    state.memory.clock.mono().after(left_ms)
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
        Purpose::Deadline | Purpose::Refill | Purpose::Look | Purpose::Spent | Purpose::Woken => {}
    }
}

fn deadline(state: &mut State, key: GroupKey) {
    if let Some(barrier) = state.memory.barriers.get_mut(&key) {
        barrier.deadline_passed = true;
        state.memory.dirty.groups.push_back(key);
    }
}
