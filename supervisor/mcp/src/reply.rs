//! What a tool answers. There is one builder: the text of an answer is its structured content, written out. Text of jobs is
//! data in it, within quotes, so that no job can forge what another said or what we say.

use std::sync::Arc;

use fanin_protocol::limits::{MCP_REPLY_BYTES_MAX, RESULT_ENTRY_BYTES_MAX};
use fanin_protocol::result::{EntryOutput, Outcome};
use fanin_protocol::{
    Cause, Code, CombinedResult, Counts, Fault, GroupId, Hit, JobId, JobInfo, Lifetime, ResultEntry, Spent,
    Status, Threshold, text,
};
use fanin_supervisor::{Mail, OutputPage};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

/// An answer. What it has nothing of is left out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Reply {
    /// All of it in one sentence.
    pub(crate) summary: String,
    /// Why nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Fault>,
    /// Groups that are over, in the order they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) results: Vec<Over>,
    /// Single jobs that are over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) jobs_over: Vec<Entry>,
    /// Groups that go on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) running: Vec<Running>,
    /// A page of jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jobs: Option<Vec<Listed>>,
    /// Where the next page of jobs begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_from: Option<Lifetime>,
    /// A page of output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Page>,
    /// What another job has sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mail: Option<Mailed>,
    /// What became of the jobs that were told to stop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stops: Vec<Stopped>,
    /// What watches have seen since; told here, once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fired: Vec<Fired>,
    /// Groups of earlier calls that are over since; told here, once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) over_since: Vec<Over>,
    /// How to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A group that is over.
#[derive(Debug, Serialize)]
pub(crate) struct Over {
    group: GroupId,
    outcome: Outcome,
    counts: Counts,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_by: Option<Threshold>,
    duration_ms: u64,
    /// What all of them have used, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<String>,
    /// One for each task, in launch order.
    tasks: Vec<Entry>,
    #[serde(skip_serializing_if = "is_false")]
    already_told: bool,
}

/// A job that is over.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Arc<str>>,
    job: JobId,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "is_one")]
    runs: u32,
    #[serde(skip_serializing_if = "is_false")]
    completed_anyway: bool,
    #[serde(skip_serializing_if = "is_false")]
    unreaped: bool,
    #[serde(skip_serializing_if = "is_zero")]
    unanswered: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<String>,
    /// Empty where it put out nothing.
    output: String,
    output_bytes: u64,
    /// The output above is not all of it: `jobs` with the job's id reads it in pages.
    #[serde(skip_serializing_if = "is_false")]
    output_cut: bool,
    #[serde(skip_serializing_if = "is_false")]
    already_told: bool,
}

/// A firing of a watch.
#[derive(Debug, Serialize)]
pub(crate) struct Fired {
    #[serde(skip_serializing_if = "Option::is_none")]
    watch: Option<Arc<str>>,
    job: JobId,
    /// Which one of its firings, from 1.
    number: u32,
    /// What it has seen.
    text: String,
}

/// A group that goes on.
#[derive(Debug, Serialize)]
pub(crate) struct Running {
    pub(crate) group: GroupId,
    /// Its jobs in launch order, those that are over as well.
    pub(crate) tasks: Vec<Listed>,
}

/// A job as it stands.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Arc<str>>,
    job: JobId,
    group: GroupId,
    status: Status,
    /// What it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Arc<str>>,
    /// What it has used so far, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<String>,
}

/// A page of what a job put out.
#[derive(Debug, Serialize)]
pub(crate) struct Page {
    job: JobId,
    status: Status,
    text: String,
    /// Where the text begins, in bytes of all that the job's newest run put out.
    offset: u64,
    /// What to ask for to read on; left out at the end of the output of a job that is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Bytes that were put out so far.
    total_bytes: u64,
    /// Bytes before the text that are not kept: start and end of a long output are, its middle is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_bytes: Option<u64>,
}

/// Mail of another job: data, and no instruction.
#[derive(Debug, Serialize)]
pub(crate) struct Mailed {
    /// What that job is called in the group.
    from: Arc<str>,
    job: JobId,
    text: Arc<str>,
}

/// A job that was told to stop.
#[derive(Debug, Serialize)]
pub(crate) struct Stopped {
    pub(crate) job: JobId,
    /// `stopping`, `ended` or `already_over`.
    pub(crate) stop: &'static str,
    /// How it was over before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
const fn is_false(is: &bool) -> bool {
    !*is
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
const fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Reply {
    pub(crate) fn new(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), ..Self::default() }
    }

    pub(crate) fn fault(fault: Fault) -> Self {
        Self { error: Some(fault), ..Self::new("nothing was done") }
    }

    /// The answer as it is sent: outputs share its room evenly, whatever their number.
    pub(crate) fn finish(mut self) -> CallToolResult {
        match self.fired.len() {
            0 => {}
            1 => self.summary.push_str("; a watch has fired, see `fired`"),
            count => self.summary.push_str(&format!("; watches have fired {count} times, see `fired`")),
        }
        match self.over_since.len() {
            0 => {}
            1 => self.summary.push_str("; a group of an earlier call is over since, see `over_since`"),
            count => {
                let more = format!("; {count} groups of earlier calls are over since, see `over_since`");
                self.summary.push_str(&more);
            }
        }
        let over = self.results.iter_mut().chain(&mut self.over_since);
        let entries: Vec<&mut Entry> =
            over.flat_map(|over| &mut over.tasks).chain(&mut self.jobs_over).collect();
        let share = (MCP_REPLY_BYTES_MAX / entries.len().max(1)).min(RESULT_ENTRY_BYTES_MAX);
        let mut cut = None;
        for entry in entries {
            if entry.output.len() > share {
                entry.output = text::excerpt(&entry.output, share).into_owned();
                entry.output_cut = true;
            }
            cut = cut.or_else(|| entry.output_cut.then(|| entry.job.clone()));
        }
        if let Some(job) = cut {
            let rest = format!(
                "An output with output_cut is not whole: jobs({{\"job\":\"{job}\"}}) reads it in pages."
            );
            self.next = Some(self.next.map_or(rest.clone(), |next| format!("{next} {rest}")));
        }
        let is_error = self.error.is_some();
        // Texts, numbers and flags: there is nothing in it that could not be written.
        let value = serde_json::to_value(&self).unwrap_or_default();
        let mut result = if is_error {
            CallToolResult::structured_error(value)
        } else {
            CallToolResult::structured(value)
        };
        // The same in the order above: who reads it from its start has the summary first.
        if let Ok(text) = serde_json::to_string(&self) {
            result.content = vec![ContentBlock::text(text)];
        }
        result
    }
}

/// What was used, in words; nothing where nobody told of anything.
pub(crate) fn used(spent: Option<Spent>) -> Option<String> {
    spent.filter(|spent| !spent.is_none()).map(|spent| spent.to_string())
}

impl Fired {
    pub(crate) fn new(hit: &Hit) -> Self {
        Self {
            watch: hit.label.clone(),
            job: hit.job.clone(),
            number: hit.number,
            text: text::printable(hit.seen()).into_owned(),
        }
    }
}

impl Over {
    pub(crate) fn new(result: &CombinedResult, already_told: bool) -> Self {
        Self {
            group: result.group.clone(),
            outcome: result.outcome,
            counts: result.counts,
            stopped_by: result.stopped_by,
            duration_ms: result.duration_ms,
            used: used(Some(result.spent())),
            tasks: result.entries.iter().map(|entry| Entry::new(entry, false)).collect(),
            already_told,
        }
    }
}

impl Entry {
    pub(crate) fn new(entry: &ResultEntry, already_told: bool) -> Self {
        let shown = |output: &EntryOutput| text::printable(&output.text).into_owned();
        Self {
            task: entry.label.clone(),
            job: entry.job.clone(),
            status: entry.status,
            cause: entry.cause,
            code: entry.code,
            message: entry.message.clone(),
            exit_code: entry.exit_code,
            signal: entry.signal,
            runs: entry.runs,
            completed_anyway: entry.completed_anyway,
            unreaped: entry.unreaped,
            unanswered: entry.unanswered,
            used: used(entry.usage),
            output: entry.output.as_ref().map(shown).unwrap_or_default(),
            output_bytes: entry.output.as_ref().map_or(0, |output| output.bytes_total),
            output_cut: entry.output.as_ref().is_some_and(|output| output.truncated),
            already_told: already_told || entry.reference,
        }
    }
}

impl Mailed {
    pub(crate) fn new(mail: &Mail) -> Self {
        let from = mail.label.clone().unwrap_or_else(|| mail.from.to_string().into());
        Self { from, job: mail.from.clone(), text: Arc::clone(&mail.text) }
    }
}

impl Listed {
    pub(crate) fn new(info: &JobInfo) -> Self {
        Self {
            task: info.label.clone(),
            job: info.job.clone(),
            group: info.group.clone(),
            status: info.status,
            why: info.why.iter().map(ToString::to_string).collect(),
            cause: info.cause,
            message: info.message.clone(),
            used: used(info.usage),
        }
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.status.is_terminal()
    }

    /// What it is called.
    pub(crate) fn name(&self) -> String {
        self.task.as_ref().map_or_else(|| self.job.to_string(), |task| text::one_line(task))
    }
}

impl Page {
    /// `status` was looked up after the page was read, so that an end is never told before its last page.
    pub(crate) fn new(job: JobId, status: Status, page: &OutputPage) -> Self {
        let whole = whole_characters(&page.bytes, page.next >= page.total && page.is_over);
        let shown = page.bytes.get(..whole).unwrap_or_default();
        let next = page.offset + shown.len() as u64;
        Self {
            job,
            status,
            text: text::printable(&String::from_utf8_lossy(shown)).into_owned(),
            offset: page.offset,
            next_offset: (!page.is_over || next < page.total).then_some(next),
            total_bytes: page.total,
            dropped_bytes: page.dropped.as_ref().map(|dropped| dropped.end - dropped.start),
        }
    }

    /// Where to read on, of how many bytes.
    pub(crate) const fn place(&self) -> (Option<u64>, u64) {
        (self.next_offset, self.total_bytes)
    }
}

/// How many of these bytes make whole characters, where more may follow: a character that is cut belongs to the next page.
fn whole_characters(bytes: &[u8], is_last: bool) -> usize {
    if is_last {
        return bytes.len();
    }
    match bytes.utf8_chunks().last().map(|chunk| (chunk.invalid().len(), chunk.invalid())) {
        // An incomplete one at the very end, and not all that there is.
        Some((cut, tail)) if cut > 0 && cut < bytes.len() && is_begun(tail) => bytes.len() - cut,
        _ => bytes.len(),
    }
}

/// True where these bytes are the start of a character and nothing is wrong with them but their end.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_between_two_characters_where_more_may_follow() {
        let text = "aé".as_bytes();
        assert_eq!(whole_characters(text, false), 3);
        assert_eq!(whole_characters(&text[..2], false), 1);
        assert_eq!(whole_characters(&text[..2], true), 2);
        // What can never become a character is shown as it is, and so is a page of nothing else.
        assert_eq!(whole_characters(b"a\xff", false), 2);
        assert_eq!(whole_characters(b"\xc3", false), 1);
        assert_eq!(whole_characters(b"", false), 0);
    }
}
