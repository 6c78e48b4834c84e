//! Another try after a run that failed: whether there is one, and when (J-7, SC-17). A try starts like any queued job;
//! this never starts one.

use std::hash::{DefaultHasher, Hash, Hasher};

use fanin_protocol::limits::{RETRY_GAP, RETRY_GAP_MAX, RETRY_JITTER, SAFE_RETRIES};
use fanin_protocol::record::{Next, RunEnded, RunOutcome, StopTarget};
use fanin_protocol::spec::millis;
use fanin_protocol::{Fence, JobKind, Lifetime};

use crate::state::{JobKey, Node, State};
use crate::timers::{Owner, Purpose};
use crate::{activity, dispatch};

/// What follows the end of a run: another try where it failed by itself and one is left. A job that was told to stop
/// has none (J-17).
pub(crate) fn next(state: &State, key: JobKey, ended: &RunEnded, is_safe: bool) -> Next {
    let Some(job) = state.job(key) else { return Next::Settle };
    // Two of them must not run at once, and nobody knows that the first does not.
    if ended.left.as_ref().is_some_and(|left| left.is_unreaped()) {
        return Next::Settle;
    }
    if let Some(stop) = job.stop
        && stop.target == StopTarget::Requeue
        && ended.outcome == RunOutcome::Interrupted
    {
        return Next::Requeue;
    }
    if job.stop.is_some() || ended.outcome != RunOutcome::Failed {
        return Next::Settle;
    }
    // What it launched is stopped now, and what that has done is not undone by another try.
    if !state.facts.is_subtree_over(Node::Job(key)) {
        return Next::Settle;
    }
    // What had no effect yet can be tried again without asking; agents fail so while they come up.
    let unasked = if is_safe && job.kind == JobKind::Agent { SAFE_RETRIES } else { 0 };
    // What the end of a supervisor interrupted was no try that failed.
    if job.runs - job.crashed - job.suspended > job.limits().retries.unwrap_or(unasked) {
        return Next::Settle;
    }
    let gap_ms = gap_ms(job.runs, state.memory.settings.seed, ended.run);
    Next::Retry { not_before_ms: state.memory.clock.wall_ms().saturating_add(gap_ms) }
}

/// The gap after the `runs`th try: each is twice the one before, up to a bound, and a little more or less by chance.
fn gap_ms(runs: u32, seed: u64, run: Fence) -> u64 {
    let doubled = 1u64.checked_shl(runs.saturating_sub(1)).unwrap_or(u64::MAX);
    let gap_ms = millis(RETRY_GAP).saturating_mul(doubled).min(millis(RETRY_GAP_MAX));
    let mut hasher = DefaultHasher::new();
    (seed, run).hash(&mut hasher);
    let percent = 100 - RETRY_JITTER + hasher.finish() % (2 * RETRY_JITTER + 1);
    gap_ms * percent / 100
}

/// Waits for the next try of a job, if there is one.
pub(crate) fn arm(state: &mut State, key: JobKey) {
    let Some(job) = state.job(key) else { return };
    let (Some(at_ms), lifetime) = (job.retry_at_ms(), job.lifetime) else { return };
    // Between two openings the wall clock may have gone anywhere; a try is never further away than its gap can be.
    let longest = millis(RETRY_GAP_MAX) * (100 + RETRY_JITTER) / 100;
    let wait_ms = at_ms.saturating_sub(state.memory.clock.wall_ms()).min(longest);
    let at = state.memory.clock.mono().after(wait_ms);
    state.memory.timers.rearm(at, Owner::Job(key), Purpose::Backoff(lifetime));
}

/// Takes up a job whose next try outlived a crash.
pub(crate) fn restore(state: &mut State, key: JobKey) {
    activity::restore(state, key);
    arm(state, key);
}

/// The next try is due: the job stands in line like any other.
pub(crate) fn due(state: &mut State, key: JobKey, lifetime: Lifetime) {
    if state.job(key).is_some_and(|job| job.lifetime == lifetime && job.awaits_start()) {
        dispatch::enqueue(state, key);
    }
}

/// True while a job waits for its next try to be due.
pub(crate) fn is_waiting(state: &State, key: JobKey) -> bool {
    state.memory.timers.is_armed(Owner::Job(key), Purpose::Backoff(Lifetime(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_grow_to_a_bound_and_differ_by_a_fifth_at_the_most() {
        for (runs, plain) in [(1, 1_000), (2, 2_000), (3, 4_000), (6, 32_000), (7, 60_000), (80, 60_000)] {
            for fence in 1..200 {
                let gap = gap_ms(runs, 7, Fence(fence));
                assert!((plain * 8 / 10..=plain * 12 / 10).contains(&gap), "try {runs}: {gap} ms");
            }
        }
    }

    #[test]
    fn gaps_are_drawn_from_the_seed_alone() {
        let drawn = |seed| (1..20).map(|fence| gap_ms(5, seed, Fence(fence))).collect::<Vec<_>>();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn tries_in_ten_minutes_are_bounded() {
        let shortest =
            |runs| gap_ms(runs, 0, Fence(1)).min(millis(RETRY_GAP).saturating_mul(1 << (runs - 1).min(6)));
        let gaps = (1..100u32).map(|runs| shortest(runs).min(60_000) * 8 / 12);
        let starts = gaps
            .scan(0, |at, gap| {
                *at += gap;
                Some(*at)
            })
            .take_while(|at| *at < 600_000)
            .count();
        assert!(starts <= 24, "{starts} starts");
    }
}
