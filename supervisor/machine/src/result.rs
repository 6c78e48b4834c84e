//! Builds entries and combined results from the facts. Deterministic: the same facts give the same result.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fanin_protocol::limits::{RESULT_BYTES_MAX, RESULT_ENTRIES_MAX, RESULT_ENTRY_BYTES_MAX};
use fanin_protocol::result::EntryOutput;
use fanin_protocol::{
    Cause, CombinedResult, Counts, Outcome, Output, Policy, ResultEntry, Status, Threshold, text,
};

use crate::plan;
use crate::quota;
use crate::state::{Barrier, GroupKey, Job, JobKey, Payer, State};

/// The combined result of a group.
pub(crate) fn combine(state: &State, key: GroupKey, barrier: Option<Barrier>) -> Option<CombinedResult> {
    let group = state.group(key)?;
    let members = group.members.len();
    let share = RESULT_BYTES_MAX / members.max(1);
    let Counts { error, cancelled, .. } = group.counts;
    // The parent waits meanwhile: where all have completed nobody is looked at for what went wrong.
    let not_ok: &[JobKey] = if error + cancelled > 0 { &group.members } else { &[] };
    // A list that nobody can read is no result: a large group names who did not complete.
    let listed = if members <= RESULT_ENTRIES_MAX { &group.members } else { not_ok };
    let entries: Vec<ResultEntry> = listed
        .iter()
        .filter(|member| {
            members <= RESULT_ENTRIES_MAX
                || state.job(**member).is_some_and(|job| job.status() != Status::Completed)
        })
        .take(RESULT_ENTRIES_MAX)
        .filter_map(|member| entry(state, *member, share))
        .collect();
    // Of the epochs before this one only the times of their records are left.
    let duration_ms = match barrier {
        Some(barrier) => {
            let earlier_ms = state.memory.opened_ms.saturating_sub(group.sealed_at_ms);
            earlier_ms + state.memory.clock.mono().since(barrier.sealed_at)
        }
        None => state.facts.ts_ms.saturating_sub(group.sealed_at_ms),
    };
    let is_unreaped =
        |member: &&JobKey| state.job(**member).and_then(|job| job.ended).is_some_and(|end| end.unreaped);
    let unreaped = not_ok.iter().filter(is_unreaped).count();
    let spent = quota::spent(state, Payer::Group(key));
    let omitted = members.saturating_sub(entries.len());
    Some(CombinedResult {
        group: group.id.clone(),
        session: state.session(state.facts.root(group.parent)?)?.id.clone(),
        outcome: Outcome::of(group.counts),
        counts: group.counts,
        stopped_by: stopped_by(state, key, not_ok),
        duration_ms,
        cost_usd_micros: spent.cost_usd_micros,
        cost_unknown: spent.cost_unknown,
        tokens: spent.tokens,
        entries,
        entries_omitted: u32::try_from(omitted).unwrap_or(u32::MAX),
        unreaped: u32::try_from(unreaped).unwrap_or(u32::MAX),
        nonce: nonce(state),
    })
}

/// The rule that stopped the rest, where it stopped anybody. It is read from how the members ended, so a crash between
/// the stop and the fire does not change it.
fn stopped_by(state: &State, key: GroupKey, not_ok: &[JobKey]) -> Option<Threshold> {
    let group = state.group(key)?;
    let ends = not_ok.iter().filter_map(|member| state.job(*member)?.ended);
    let stopped = ends.filter(|end| end.cause == Some(Cause::Group)).count();
    if stopped == 0 {
        return None;
    }
    // None of those that were stopped counts for a rule: it had come true before.
    let Counts { completed, error, cancelled, .. } = group.counts;
    let not_ok = (error + cancelled).saturating_sub(u32::try_from(stopped).unwrap_or(u32::MAX));
    let Policy { ok, not_ok: not_ok_max, at_ms, .. } = group.policy;
    if ok.is_some_and(|n| completed >= n) {
        Some(Threshold::Ok)
    } else if not_ok_max.is_some_and(|n| not_ok >= n) {
        Some(Threshold::NotOk)
    } else if plan::has_failed(state, key) {
        Some(Threshold::Dependency)
    } else {
        at_ms.map(|_| Threshold::Deadline)
    }
}

/// The entry of a job, its output cut to `share` bytes and to the bound of an entry.
pub(crate) fn entry(state: &State, key: JobKey, share: usize) -> Option<ResultEntry> {
    let job = state.job(key)?;
    let end = job.ended.as_ref();
    let last = job.last.as_ref().and_then(|last| last.details.as_deref());
    let mut entry = ResultEntry {
        index: job.index,
        job: job.id.clone(),
        lifetime: job.lifetime,
        label: job.label.clone(),
        status: job.status(),
        cause: end.and_then(|end| end.cause),
        code: end.and_then(|end| end.code),
        after: end.and_then(|end| end.after),
        root: end.and_then(|end| end.root),
        message: message(state, job),
        runs: job.runs,
        interrupted: end.is_some_and(|end| end.interrupted),
        completed_anyway: end.is_some_and(|end| end.completed_anyway),
        unreaped: end.is_some_and(|end| end.unreaped),
        queued_at_ms: job.queued_at_ms,
        started_at_ms: job.started_at_ms,
        ended_at_ms: end.map(|end| end.at_ms),
        exit_code: None,
        signal: None,
        output: last
            .and_then(|last| last.output.as_ref())
            .map(|output| entry_output(job, output, share.min(RESULT_ENTRY_BYTES_MAX))),
        unanswered: job.unanswered,
        usage: quota::usage(state, key),
        reference: false,
    };
    entry.set_exit(last.and_then(|last| last.exit));
    Some(entry)
}

/// The failure of a job in words.
pub(crate) fn message(state: &State, job: &Job) -> Option<Arc<str>> {
    let said = job.last.as_ref().and_then(|last| last.details.as_ref()?.message.clone());
    said.or_else(|| plan::message(state, job))
}

fn entry_output(job: &Job, output: &Output, max: usize) -> EntryOutput {
    let (text, cut) = match output.text.reveal() {
        Some(text) if text.len() <= max => (text.clone(), false),
        Some(text) => (text::excerpt(text, max).into(), true),
        None => ("".into(), output.bytes_total > 0),
    };
    EntryOutput {
        text,
        bytes_total: output.bytes_total,
        truncated: output.truncated || cut,
        invalid_utf8: output.invalid_utf8,
        handle: job.id.clone(),
    }
}

/// A number that no member can guess: drawn from the epoch's seed and the place of the record to come.
pub(crate) fn nonce(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    (state.memory.settings.seed, state.facts.head.0).hash(&mut hasher);
    hasher.finish()
}
