//! All tasks of a group as entries, with what its combined result leaves out. It only reads.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fanin_protocol::result::EntryOutput;
use fanin_protocol::{CombinedResult, JobId, ResultEntry};
use fanin_supervisor::Supervisor;

use crate::report::Kept;

/// The tasks of a group that has fired.
#[derive(Clone, Copy)]
pub(crate) struct Tasks<'r> {
    /// The group's result.
    pub(crate) result: &'r CombinedResult,
    /// The ids that somebody gave to tasks, by their index.
    pub(crate) ids: &'r BTreeMap<u32, String>,
    /// Its jobs in launch order.
    pub(crate) jobs: &'r [JobId],
    /// Who still has them.
    pub(crate) supervisor: &'r Supervisor,
}

impl<'r> Tasks<'r> {
    /// One entry for each task in launch order: the result's where it lists the task, else one made of what the
    /// supervisor knows. Without the task's text: [`Tasks::kept`] has it.
    pub(crate) fn entries(self) -> impl Iterator<Item = Cow<'r, ResultEntry>> + Clone {
        self.jobs.iter().zip(0..).filter_map(move |(job, index)| {
            match self.result.entries.binary_search_by_key(&index, |entry| entry.index) {
                Ok(listed) => self.result.entries.get(listed).map(Cow::Borrowed),
                Err(_) => self.unlisted(job).map(Cow::Owned),
            }
        })
    }

    /// All that was kept of a task's output.
    pub(crate) fn kept(self, job: &JobId) -> Option<Kept> {
        let output = self.supervisor.output(job).ok()?;
        Some(Kept { text: output.text().into_owned(), is_whole: !output.is_truncated() })
    }

    fn unlisted(self, job: &JobId) -> Option<ResultEntry> {
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
            index: info.index,
            job: info.job,
            lifetime: info.lifetime,
            label: info.label,
            status: info.status,
            cause: info.cause,
            code: info.code,
            after: None,
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
            reference: false,
        })
    }
}
