//! All tasks of a group as entries, with what its combined result leaves out. It only reads.

use std::borrow::Cow;

use fanin_protocol::result::EntryOutput;
use fanin_protocol::{CombinedResult, GroupId, JobId, ResultEntry, text};
use fanin_supervisor::{JobOutput, Supervisor};

use crate::again;
use crate::plan::{Carried, generated_id};
use crate::report::Kept;

/// A task once all is over.
#[derive(Debug)]
pub(crate) struct Member {
    /// The id that somebody gave it.
    pub(crate) id: Option<String>,
    /// Where its result is from.
    pub(crate) origin: Origin,
}

/// Where the result of a task is from.
#[derive(Debug)]
pub(crate) enum Origin {
    /// It was run by this job.
    Ran(JobId),
    /// It completed in an earlier run.
    Carried(Box<Carried>),
}

impl Member {
    /// What it is called in its manifest, at place `index` (from 0).
    pub(crate) fn name(&self, index: u32) -> Cow<'_, str> {
        match &self.id {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(generated_id(usize::try_from(index).unwrap_or(usize::MAX))),
        }
    }

    /// The earlier run in which it completed.
    pub(crate) fn carried_from(&self) -> Option<&GroupId> {
        match &self.origin {
            Origin::Carried(carried) => Some(&carried.from),
            Origin::Ran(_) => None,
        }
    }
}

/// The tasks of a group that has fired.
#[derive(Clone, Copy)]
pub(crate) struct Tasks<'r> {
    /// The result of all of them.
    pub(crate) result: &'r CombinedResult,
    /// The tasks in launch order.
    pub(crate) members: &'r [Member],
    /// Who still has the jobs.
    pub(crate) supervisor: &'r Supervisor,
}

/// A result with what interrupted tasks had put out: no record of theirs has it, and a store may.
pub(crate) fn with_saved(
    mut result: CombinedResult,
    saved: impl Fn(&JobId) -> Option<JobOutput>,
) -> CombinedResult {
    let share = again::share(result.entries.len());
    let is_cut_short = |entry: &&mut ResultEntry| entry.interrupted && entry.output.is_none();
    for entry in result.entries.iter_mut().filter(is_cut_short) {
        let Some(output) = saved(&entry.job).filter(|output| output.bytes_total() > 0) else { continue };
        let text = output.text();
        entry.output = Some(EntryOutput {
            text: text::excerpt(&text, share).into(),
            bytes_total: output.bytes_total(),
            truncated: output.is_truncated() || text.len() > share,
            invalid_utf8: std::str::from_utf8(output.bytes()).is_err(),
            handle: entry.job.clone(),
        });
    }
    result
}

impl<'r> Tasks<'r> {
    /// One entry for each task in launch order: the result's where it lists the task, else one made of what is known.
    /// Without the text of a task that ran and is not listed: [`Tasks::kept`] has it.
    pub(crate) fn entries(self) -> impl Iterator<Item = Cow<'r, ResultEntry>> + Clone {
        self.members.iter().zip(0..).filter_map(move |(member, index)| {
            match (self.result.entries.binary_search_by_key(&index, |entry| entry.index), &member.origin) {
                (Ok(listed), _) => self.result.entries.get(listed).map(Cow::Borrowed),
                (Err(_), Origin::Ran(job)) => self.unlisted(job, index).map(Cow::Owned),
                (Err(_), Origin::Carried(carried)) => {
                    Some(Cow::Owned(ResultEntry { index, ..carried.entry.clone() }))
                }
            }
        })
    }

    /// The member of an entry.
    pub(crate) fn member(self, entry: &ResultEntry) -> Option<&'r Member> {
        self.members.get(usize::try_from(entry.index).ok()?)
    }

    /// All that was kept of a task's output.
    pub(crate) fn kept(self, job: &JobId) -> Option<Kept> {
        let output = self.supervisor.output(job).ok()?;
        Some(Kept { text: output.text().into_owned(), is_whole: !output.is_truncated() })
    }

    /// The result with an entry for each task, whatever their number, each with its share of output.
    pub(crate) fn whole(self) -> CombinedResult {
        let share = again::share(self.members.len());
        let entries = self.entries().map(|entry| {
            let is_listed = matches!(entry, Cow::Borrowed(_));
            let mut entry = entry.into_owned();
            if !is_listed
                && let Some(kept) = self.kept(&entry.job)
                && let Some(output) = &mut entry.output
            {
                output.truncated = !kept.is_whole || kept.text.len() > share;
                output.text = text::excerpt(&kept.text, share).into();
            }
            entry.shorten(share);
            entry
        });
        CombinedResult { entries: entries.collect(), entries_omitted: 0, ..self.result.clone() }
    }

    fn unlisted(self, job: &JobId, index: u32) -> Option<ResultEntry> {
        let info = self.supervisor.get(job).ok()?;
        let bytes_total = self.supervisor.output(job).ok()?.bytes_total();
        let output = (bytes_total > 0).then(|| EntryOutput {
            text: "".into(),
            bytes_total,
            truncated: true,
            invalid_utf8: false,
            handle: info.job.clone(),
        });
        Some(ResultEntry {
            index,
            job: info.job,
            lifetime: info.lifetime,
            label: info.label,
            status: info.status,
            cause: info.cause,
            code: info.code,
            after: None,
            root: None,
            message: info.message,
            runs: info.runs,
            interrupted: false,
            completed_anyway: false,
            unreaped: false,
            queued_at_ms: info.queued_at_ms,
            started_at_ms: info.started_at_ms,
            ended_at_ms: info.ended_at_ms,
            exit_code: None,
            signal: None,
            output,
            unanswered: 0,
            usage: info.usage,
            reference: false,
        })
    }
}
