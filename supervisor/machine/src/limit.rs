//! Changing a limit while what it binds lives: slots of the supervisor, time of a job (SC-11, SC-19). What runs is never
//! stopped by it.

use std::collections::BTreeMap;
use std::time::Duration;

use fanin_protocol::limits::LIMIT_MAX;
use fanin_protocol::record::{LimitName, LimitsSet, Note, NoteCode};
use fanin_protocol::spec::SpecError;
use fanin_protocol::{JobId, Lifetime, NodeId};

use crate::activity;
use crate::command::{Limit, Refusal, Reply};
use crate::out::Out;
use crate::quota;
use crate::state::State;

/// Carries out a change.
pub(crate) fn limit(state: &mut State, limit: Limit, out: &mut Out) -> Result<Reply, Refusal> {
    match limit {
        Limit::Slots(slots) => set_slots(state, slots, out),
        Limit::Extend { job, lifetime, by_ms } => extend(state, &job, lifetime, by_ms, out),
        Limit::Budget { of, to } => quota::set(state, &of, to, out),
        Limit::LowSpace => {
            out.record(state, Note::new(NoteCode::LowSpace));
            Ok(Reply::Done)
        }
    }
}

/// The next dispatch reads it: more may start at once, or nothing until enough has ended.
fn set_slots(state: &mut State, slots: Option<u32>, out: &mut Out) -> Result<Reply, Refusal> {
    if slots == Some(0) {
        let problem = "with 0 slots nothing would ever start; use 1 or more".to_owned();
        return Err(Refusal::BadLimit(SpecError { field: "slots", problem }));
    }
    if state.memory.settings.slots != slots {
        let limits = BTreeMap::from([(LimitName::Slots, slots.map(u64::from))]);
        out.record(state, LimitsSet { node: None, group: None, limits });
        state.memory.settings.slots = slots;
    }
    Ok(Reply::Done)
}

/// Moves the limits of a run and of all runs, whichever the job has. A limit that came due first has stopped it.
fn extend(
    state: &mut State,
    id: &JobId,
    lifetime: Option<Lifetime>,
    by_ms: u64,
    out: &mut Out,
) -> Result<Reply, Refusal> {
    let key = state.facts.job_key(id).ok_or_else(|| state.no_job(id))?;
    let Some(job) = state.job(key) else { return Err(state.no_job(id)) };
    if let Some(asked) = lifetime.filter(|asked| *asked != job.lifetime) {
        return Err(Refusal::NotCurrent { job: id.clone(), current: job.lifetime, asked });
    }
    if by_ms == 0 {
        let problem = "0 ms is no more time; use 1 ms or more".to_owned();
        return Err(Refusal::BadLimit(SpecError { field: "time", problem }));
    }
    let limits = job.limits();
    let bound = [(LimitName::RunMs, limits.run_ms), (LimitName::TotalMs, limits.total_ms)];
    let moved: BTreeMap<LimitName, Option<u64>> =
        bound.into_iter().filter_map(|(name, ms)| Some((name, Some(ms?.saturating_add(by_ms))))).collect();
    if job.ended.is_some() || job.stop.is_some() || moved.is_empty() {
        return Ok(Reply::Extended(false));
    }
    if moved.values().flatten().any(|ms| Duration::from_millis(*ms) > LIMIT_MAX) {
        let problem = format!("{by_ms} ms more would make it longer than ten years");
        return Err(Refusal::BadLimit(SpecError { field: "time", problem }));
    }
    out.record_of(state, key, LimitsSet { node: Some(NodeId::Job(id.clone())), group: None, limits: moved });
    activity::extend(state, key, by_ms);
    Ok(Reply::Extended(true))
}
