//! The combined result of a group: what its parent gets, once.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::Spent;
use crate::cause::{Cause, Code, Exit, Status};
use crate::id::{GroupId, JobId, Lifetime, SessionId};
use crate::policy::Threshold;
use crate::private::Private;
use crate::text;

/// What a run put out, cut to what a record may hold. The full text is kept apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The text, or its head and tail around a marker.
    #[serde(default, skip_serializing_if = "Private::is_hidden")]
    pub text: Private<Arc<str>>,
    /// Bytes that were put out in all.
    pub bytes_total: u64,
    /// True where `text` is not all of it.
    pub truncated: bool,
    /// True where bytes were no UTF-8 and are shown as U+FFFD.
    #[serde(default)]
    pub invalid_utf8: bool,
}

/// How a group ended as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every member completed.
    AllOk,
    /// Some completed, some did not.
    Partial,
    /// None completed.
    NoneOk,
    /// There was no member.
    Empty,
}

impl Outcome {
    /// Derives the outcome from the counts; it is never stored beside them.
    pub const fn of(counts: Counts) -> Self {
        match (counts.launched, counts.completed) {
            (0, _) => Self::Empty,
            (_, 0) => Self::NoneOk,
            (launched, completed) if launched == completed => Self::AllOk,
            _ => Self::Partial,
        }
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllOk => "all_ok",
            Self::Partial => "partial",
            Self::NoneOk => "none_ok",
            Self::Empty => "empty",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Members by how they ended. In a fired group the last three add up to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// All members.
    pub launched: u32,
    /// Those that ended well.
    pub completed: u32,
    /// Those that failed.
    pub error: u32,
    /// Those that were stopped.
    pub cancelled: u32,
}

impl Counts {
    /// Members that are over.
    pub const fn ended(self) -> u32 {
        self.completed + self.error + self.cancelled
    }

    /// Counts one more member that ended as `status`; a status that is not over counts nothing.
    pub const fn add(&mut self, status: Status) {
        match status {
            Status::Completed => self.completed += 1,
            Status::Error => self.error += 1,
            Status::Cancelled => self.cancelled += 1,
            Status::Queued | Status::Running => {}
        }
    }
}

/// The output of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryOutput {
    /// The text, or its head and tail around a marker.
    pub text: Arc<str>,
    /// Bytes that were put out in all.
    pub bytes_total: u64,
    /// True where `text` is not all of it.
    pub truncated: bool,
    /// True where bytes were no UTF-8 and are shown as U+FFFD.
    pub invalid_utf8: bool,
    /// What to ask for to read all that was kept: the job's id.
    pub handle: JobId,
}

/// One member of a group, or one job of a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultEntry {
    /// Its place in launch order, from 0.
    pub index: u32,
    /// The job.
    pub job: JobId,
    /// Which life of that id.
    pub lifetime: Lifetime,
    /// What its launcher called it.
    pub label: Option<Arc<str>>,
    /// How it ended.
    pub status: Status,
    /// Why, unless it completed.
    pub cause: Option<Cause>,
    /// A finer word below the cause.
    pub code: Option<Code>,
    /// What a stop took over: a job cancelled while a timeout was stopping it says `timeout` here (J-17).
    pub after: Option<Cause>,
    /// Of one that was never started because of its plan: the place of the job that did not complete (T-4).
    #[serde(default)]
    pub root: Option<u32>,
    /// The failure in words.
    pub message: Option<Arc<str>>,
    /// Tries that were started.
    pub runs: u32,
    /// Its host stopped before it did.
    pub interrupted: bool,
    /// It was stopped, but its body had ended well: the effects happened (J-17).
    pub completed_anyway: bool,
    /// It did not end in time after the forced stop and may still be alive (J-18).
    pub unreaped: bool,
    /// Launch, in milliseconds since the Unix epoch.
    pub queued_at_ms: u64,
    /// First start.
    pub started_at_ms: Option<u64>,
    /// End.
    pub ended_at_ms: Option<u64>,
    /// Exit status of a command.
    pub exit_code: Option<i32>,
    /// Signal that ended a command.
    pub signal: Option<i32>,
    /// What it put out. `None` says that it put out nothing or that nothing was kept.
    pub output: Option<EntryOutput>,
    /// Follow-ups that it had accepted and that nobody will answer: it ended first (J-24).
    #[serde(default)]
    pub unanswered: u32,
    /// What it, and all below it, has used; left out where nobody told of anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Spent>,
    /// Its parent had this result before, from a wait or a wake (BAR-15). In a wake its output is then not repeated; a
    /// wait always answers in full.
    pub reference: bool,
}

/// What a group's parent gets: fixed when the group fires, one entry per member in launch order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CombinedResult {
    /// The group; also the key of its message.
    pub group: GroupId,
    /// The session it belongs to.
    pub session: SessionId,
    /// How it ended as a whole.
    pub outcome: Outcome,
    /// Members by how they ended.
    pub counts: Counts,
    /// The rule that stopped the rest, if one did.
    pub stopped_by: Option<Threshold>,
    /// From the seal to the last end.
    pub duration_ms: u64,
    /// What the members, and all below them, have cost, in millionths of a US dollar; `None` where nobody told. `Some(0)`
    /// was told to cost nothing.
    #[serde(default)]
    pub cost_usd_micros: Option<u64>,
    /// Runs whose cost nobody told: they are not in the sum.
    #[serde(default)]
    pub cost_unknown: u32,
    /// Tokens of models that they have used; `None` where nobody told.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// The members in launch order. Above [`RESULT_ENTRIES_MAX`](crate::limits::RESULT_ENTRIES_MAX) members only
    /// those that did not complete.
    pub entries: Vec<ResultEntry>,
    /// Members that `entries` leaves out.
    pub entries_omitted: u32,
    /// Members, listed or not, that may still be alive (J-18).
    pub unreaped: u32,
    /// Frames the members' text in [`CombinedResult::to_text`]; chance, so that no member can guess it.
    /// On the wire 16 hex digits: not every reader has whole numbers of this size.
    #[serde(with = "hex")]
    pub nonce: u64,
}

pub(crate) mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{number:016x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let digits = String::deserialize(deserializer)?;
        u64::from_str_radix(&digits, 16).map_err(D::Error::custom)
    }
}

impl CombinedResult {
    /// The result as text for a model or a person.
    ///
    /// Members' text stands between marks with this result's nonce, and a line of it that looks like a mark is
    /// escaped, so that a member can neither forge another's entry nor close its own.
    pub fn to_text(&self) -> String {
        let Counts { launched, completed, error, cancelled } = self.counts;
        let mut out = format!(
            "group {}: {} ({launched} launched: {completed} completed, {error} error, {cancelled} cancelled) in {}\n",
            self.group,
            self.outcome.as_str(),
            text::duration(self.duration_ms),
        );
        let used = self.spent();
        if !used.is_none() {
            let _ = writeln!(out, "used: {used}");
        }
        for entry in &self.entries {
            entry.write_framed(self.nonce, &mut out);
        }
        if self.entries_omitted > 0 {
            let _ = writeln!(out, "({} more members are not listed)", self.entries_omitted);
        }
        out
    }

    /// What its members have used together, as far as the header says.
    pub fn spent(&self) -> Spent {
        let Self { cost_usd_micros, cost_unknown, tokens, .. } = *self;
        Spent { cost_usd_micros, cost_unknown, tokens, ..Spent::default() }
    }
}

/// As [`CombinedResult::to_text`].
impl fmt::Display for CombinedResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl ResultEntry {
    /// Status, cause and code in one word or two: `completed`, `error{timeout run}`, `cancelled{user}`.
    pub fn summary(&self) -> String {
        match (self.cause, self.code) {
            (None, _) => self.status.to_string(),
            (Some(cause), None) => format!("{}{{{cause}}}", self.status),
            (Some(cause), Some(code)) => format!("{}{{{cause} {code}}}", self.status),
        }
    }

    /// Writes the entry, with its output between marks that hold this number.
    pub(crate) fn write_framed(&self, nonce: u64, out: &mut String) {
        let _ = write!(out, "[{}] {} {}", self.index, self.job, self.summary());
        if let Some(label) = &self.label {
            let _ = write!(out, " ({})", text::printable(label));
        }
        if let Some(message) = &self.message {
            let _ = write!(out, ": {}", text::one_line(message));
        }
        out.push('\n');
        match &self.output {
            _ if self.reference => out.push_str("(already delivered by a wait)\n"),
            None => out.push_str("(no output)\n"),
            Some(output) => {
                text::frame(out, &output.text, nonce, &format!("output of [{}]", self.index));
            }
        }
    }

    /// Cuts its output to this many bytes.
    pub fn shorten(&mut self, bytes: usize) {
        let Some(output) = &mut self.output else { return };
        if let Cow::Owned(cut) = text::excerpt(&output.text, bytes) {
            output.text = cut.into();
            output.truncated = true;
        } else if output.text.len() > bytes {
            // An excerpt too short for a mark is borrowed.
            output.text = text::cut_front(&output.text, bytes).into();
            output.truncated = true;
        }
    }

    /// Sets exit code or signal.
    pub const fn set_exit(&mut self, exit: Option<Exit>) {
        match exit {
            Some(Exit::Status(code)) => self.exit_code = Some(code),
            Some(Exit::Signal(signal)) => self.signal = Some(signal),
            None => {}
        }
    }
}
