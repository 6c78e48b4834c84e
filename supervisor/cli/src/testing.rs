//! Results made by hand, for the unit tests of this crate.

use fanin_protocol::result::EntryOutput;
use fanin_protocol::{
    Cause, Code, CombinedResult, Counts, GroupId, JobId, JobInfo, JobKind, Lifetime, Outcome, ResultEntry,
    SessionId, Status,
};

/// A member that ran for a second.
pub(crate) fn entry(label: &str, status: Status, why: Option<(Cause, Option<Code>)>) -> ResultEntry {
    ResultEntry {
        index: 0,
        job: JobId::parse(label).unwrap_or_else(|_| JobId::from_uuid([7; 16])),
        lifetime: Lifetime(1),
        label: Some(label.into()),
        status,
        cause: why.map(|(cause, _)| cause),
        code: why.and_then(|(_, code)| code),
        after: None,
        root: None,
        message: None,
        runs: 1,
        interrupted: false,
        completed_anyway: false,
        unreaped: false,
        queued_at_ms: 1_000,
        started_at_ms: Some(2_000),
        ended_at_ms: Some(3_000),
        exit_code: None,
        signal: None,
        output: None,
        unanswered: 0,
        usage: None,
        reference: false,
    }
}

/// `entry` with this output.
pub(crate) fn with_output(entry: ResultEntry, text: &str) -> ResultEntry {
    let output = EntryOutput {
        text: text.into(),
        bytes_total: text.len() as u64,
        truncated: false,
        invalid_utf8: false,
        handle: entry.job.clone(),
    };
    ResultEntry { output: Some(output), ..entry }
}

/// The result of these members, in this order.
pub(crate) fn result(mut entries: Vec<ResultEntry>) -> CombinedResult {
    let mut counts = Counts::default();
    for (index, entry) in (0..).zip(&mut entries) {
        entry.index = index;
        counts.launched += 1;
        counts.add(entry.status);
    }
    CombinedResult {
        group: GroupId::from_uuid([1; 16]),
        session: SessionId::from_uuid([2; 16]),
        outcome: Outcome::of(counts),
        counts,
        stopped_by: None,
        duration_ms: 2_000,
        cost_usd_micros: None,
        cost_unknown: 0,
        tokens: None,
        entries,
        entries_omitted: 0,
        unreaped: 0,
        nonce: 3,
    }
}

/// A queued job.
pub(crate) fn job(id: &str, index: u32) -> JobInfo {
    JobInfo {
        job: JobId::parse(id).unwrap(),
        lifetime: Lifetime(u64::from(index) + 1),
        session: SessionId::from_uuid([2; 16]),
        group: GroupId::from_uuid([1; 16]),
        index,
        kind: JobKind::Command,
        label: Some(id.into()),
        status: Status::Queued,
        phase: None,
        cause: None,
        code: None,
        message: None,
        why: Vec::new(),
        runs: 0,
        queued_at_ms: 0,
        started_at_ms: None,
        ended_at_ms: None,
        usage: None,
        firings: None,
    }
}
