//! The twenty records. Each is a fact that never changes, and the event of that name.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::budget::Dimension;
use crate::cause::{Cause, Code, Exit, Status};
use crate::envelope::{DecodeError, Encoder};
use crate::id::{Fence, GroupId, JobId, Lifetime, LogId, MessageId, NodeId, Seq, SessionId};
use crate::job::JobKind;
use crate::part::ToolPart;
use crate::plan::Edges;
use crate::policy::{Policy, Threshold};
use crate::private::Private;
use crate::process::{Containment, Left};
use crate::profile::{Bounds, Profile};
use crate::result::{CombinedResult, Counts, Outcome, Output};
use crate::rights::Rights;
use crate::shared_limits::SharedLimits;
use crate::spec::Spec;

/// What a store survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing: it ends with the process.
    Memory,
    /// Power loss.
    Durable,
}

/// `store.opened`: an epoch begins; its number is this record's sequence number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreOpened {
    /// The log's name, for cursors.
    pub log: LogId,
    /// What the store survives.
    pub level: Level,
    /// The epoch before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Seq>,
    /// True where the epoch before was closed in order.
    pub clean: bool,
}

/// `store.closed`: an orderly end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreClosed {
    /// Jobs that stay queued for the next opening.
    pub queued: u64,
}

/// `session.opened`: a parent exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOpened {
    /// The session.
    pub session: SessionId,
    /// Who drives it.
    #[serde(default)]
    pub profile: Profile,
    /// What it and all below it may grow to.
    #[serde(default)]
    pub bounds: Bounds,
}

/// `session.closed`: a parent is gone; its unfired groups are voided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClosed {
    /// The session.
    pub session: SessionId,
}

/// `job.queued`: a job exists; its lifetime is this record's sequence number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobQueued {
    /// The job.
    pub job: JobId,
    /// Its parent.
    pub parent: NodeId,
    /// Its group.
    pub group: GroupId,
    /// Its place in the group, from 0.
    pub index: u32,
    /// What its body is.
    pub kind: JobKind,
    /// What its launcher called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Arc<str>>,
    /// What it shall do; nothing for a closure, which cannot be written down.
    #[serde(default, skip_serializing_if = "Private::is_hidden")]
    pub spec: Private<Arc<Spec>>,
    /// Its limits of time.
    pub limits: SharedLimits,
}

/// Where a stopping job will end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopTarget {
    /// As `cancelled`.
    Cancelled,
    /// As `error`.
    Error,
    /// Back in the queue.
    Requeue,
}

/// `job.stopping`: a running job was told to stop. A later one raises `error` to `cancelled`, never back (J-17).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStopping {
    /// The job.
    pub job: JobId,
    /// Where it will end.
    pub target: StopTarget,
    /// Why.
    pub cause: Cause,
    /// A finer word below the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Time until the forced stop.
    pub grace_ms: u64,
}

/// `job.ended`: the one terminal record of a lifetime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnded {
    /// The job.
    pub job: JobId,
    /// `completed`, `error` or `cancelled`.
    pub status: Status,
    /// Why, unless it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// A finer word below the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What a stop took over (J-17).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Cause>,
    /// Cause `dependency`: the member of its group, by its place, that did not complete and began it (T-4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<u32>,
    /// Its host stopped before it did.
    #[serde(default)]
    pub interrupted: bool,
    /// It may still be alive (J-18).
    #[serde(default)]
    pub unreaped: bool,
    /// It was stopped, but its body had ended well (J-17).
    #[serde(default)]
    pub completed_anyway: bool,
}

/// `run.started`: one try of a job, or one turn of a session; its fence is this record's sequence number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Whose run.
    pub node: NodeId,
    /// Which try, from 1.
    #[serde(rename = "try")]
    pub attempt: u32,
    /// Money set aside for it, in millionths of a US dollar; left out where no budget is above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_usd_micros: Option<u64>,
}

/// `run.bound`: a runner has the run in hand, and here is how to find it from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBound {
    /// The run.
    pub run: Fence,
    /// The process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// When it started, in clock ticks since the machine did: a later process of the same number has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_start: Option<u64>,
    /// Since which start of the machine the two above hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<Arc<str>>,
    /// Its process group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pgid: Option<u32>,
    /// How its processes are held together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containment: Option<Containment>,
    /// The agent's own name of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_session: Option<String>,
    /// What an agent may do in it, at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<Rights>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Its body ended well.
    Completed,
    /// Its body ended badly, or it could not be started.
    Failed,
    /// It was stopped.
    Cancelled,
    /// Its host stopped before it did.
    Interrupted,
}

/// What follows a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// The node settles.
    Settle,
    /// Another try, not before this time.
    Retry {
        /// Milliseconds since the Unix epoch.
        not_before_ms: u64,
    },
    /// Back in the queue.
    Requeue,
}

/// `run.ended`: the run is over and gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The run.
    pub run: Fence,
    /// How.
    pub outcome: RunOutcome,
    /// What follows.
    pub next: Next,
    /// Why, unless it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// A finer word below the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The failure in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
    /// How a command's process left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// What it put out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// What its processes left, where they left anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Arc<Left>>,
}

/// `group.sealed`: nobody joins any more; the member list is final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSealed {
    /// The group.
    pub group: GroupId,
    /// Its parent.
    pub parent: NodeId,
    /// Its members in launch order.
    pub members: Arc<[JobId]>,
    /// When the rest is stopped.
    pub policy: Policy,
    /// Which of its members need others, where it is a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Arc<Edges>>,
    /// The turn whose end sealed it, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Fence>,
}

/// `group.fired`: all members are over; the result is owed to the parent under the group's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFired {
    /// The group.
    pub group: GroupId,
    /// How it ended as a whole.
    pub outcome: Outcome,
    /// Members by how they ended.
    pub counts: Counts,
    /// The rule that stopped the rest, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Threshold>,
    /// The result, fixed now.
    #[serde(default, skip_serializing_if = "Private::is_hidden")]
    pub payload: Private<Arc<CombinedResult>>,
}

/// `group.voided`: its parent ended first; it never fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupVoided {
    /// The group.
    pub group: GroupId,
    /// Why.
    pub cause: Cause,
}

/// What kind of message goes to an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageClass {
    /// A user's words.
    User,
    /// More for a running job.
    FollowUp,
    /// A watch's hit.
    Watch,
}

/// `message.posted`: a message other than a group's result is owed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagePosted {
    /// Its key.
    pub key: MessageId,
    /// Whose inbox.
    pub to: NodeId,
    /// Of what kind.
    pub class: MessageClass,
    /// The watch that fired, where it is one's hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<JobId>,
    /// Its text.
    #[serde(default, skip_serializing_if = "Private::is_hidden")]
    pub body: Private<Arc<str>>,
}

/// `message.sent`: a sink has it durably under its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSent {
    /// Its key.
    pub key: String,
    /// Entries that it shows as references.
    pub references: Vec<Lifetime>,
}

/// Who took a result, or why nobody will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakenBy {
    /// A wait of the parent.
    Waiter,
    /// The parent's `next_wake`, acknowledged.
    Inbox,
    /// All its results had been taken by waits before it fired.
    Results,
    /// The run of a job, of a follow-up.
    Run,
    /// Nobody: whom it was for ended.
    Void,
}

/// `message.taken`: these messages and results are delivered; nothing more is owed for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageTaken {
    /// Fired groups whose message is closed.
    pub keys: Vec<GroupId>,
    /// Single results that were taken.
    pub results: Vec<Lifetime>,
    /// Posted messages that are closed.
    #[serde(default)]
    pub messages: Vec<MessageId>,
    /// By whom.
    pub by: TakenBy,
}

/// `usage`: what a run has used so far, by its own source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The run.
    pub run: Fence,
    /// Which meter.
    pub source: String,
    /// Cost so far, in millionths of a US dollar; `None` where it is unknown.
    pub cost_usd_micros: Option<u64>,
    /// Tokens so far.
    pub tokens: Option<u64>,
    /// Model calls so far.
    pub steps: Option<u64>,
    /// How long it has run, where a budget of time is above it: the supervisor's own meter says so at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

/// `limits.set`: limits changed while what they bind lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsSet {
    /// Whose; left out where it is the supervisor as a whole, or a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The group, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// Dimension to its new value; `None` is no limit.
    pub limits: BTreeMap<LimitName, Option<u64>>,
}

/// A dimension that can be set while it binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// Jobs that run at once.
    Slots,
    /// One run of a job.
    RunMs,
    /// All runs of a job.
    TotalMs,
    /// Of a budget: money in millionths of a US dollar.
    BudgetUsdMicros,
    /// Of a budget: tokens.
    BudgetTokens,
    /// Of a budget: calls of models.
    BudgetSteps,
    /// Of a budget: the times of runs, added up.
    BudgetMs,
    /// A dimension that a newer writer knows and this reader does not.
    #[serde(other)]
    Unknown,
}

/// What a note is about. Readers may ignore any note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteCode {
    /// The wall clock moved against the monotonic one; the value is the step in milliseconds.
    ClockJump,
    /// A report came from a run that is over, once per run (J-16).
    StaleReport,
    /// A run did not end in time after the forced stop (J-18).
    Unreaped,
    /// Four fifths of the jobs that a tree may launch for life are launched; the value is their number (SC-21).
    SpawnTotal,
    /// A run or a group shows no sign of work, and the value is for how many milliseconds; or a run makes the same
    /// call again and again (SC-14, SC-15, BAR-14).
    Stall,
    /// Too many starts of one kind of job failed, and the kind is paused; the value is for how many milliseconds
    /// (SC-18).
    Circuit,
    /// So little space is left for the store that nothing new is taken on (ST-9).
    LowSpace,
    /// Four fifths of a budget are used up; the value is what is used of it, in hundredths (BU-7).
    Budget,
    /// A code that a newer writer knows and this reader does not.
    #[serde(other)]
    Unknown,
}

/// `note`: something worth knowing that changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// About what.
    pub code: NoteCode,
    /// The job, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The run, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Fence>,
    /// A number, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
    /// More of it, apart: most notes have nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<NoteDetails>>,
}

/// What few notes have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NoteDetails {
    /// The group, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// The kind of jobs, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<JobKind>,
    /// How often the same call was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Of which dimension of a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<Dimension>,
    /// Of a group: its first members that are not over, and what each waits for, as a phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<(JobId, Arc<str>)>,
}

impl Note {
    /// A note that says no more than its code.
    pub const fn new(code: NoteCode) -> Self {
        Self { code, job: None, run: None, value: None, details: None }
    }
}

macro_rules! records {
    ($($variant:ident$(($held:ty))? $kind:literal $ignorable:literal,)*) => {
        /// A fact. The typed form of an envelope's kind and body. What is large and rare is held apart, since each record
        /// takes the room of the largest.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Record {
            $(
                #[doc = concat!("`", $kind, "`")]
                $variant(records!(@held $variant $($held)?)),
            )*
        }

        /// All kinds in the order of the model, with their `ignorable` bit.
        pub const KINDS: &[(&str, bool)] = &[$(($kind, $ignorable),)*];

        impl Record {
            /// Its kind, which is also the event's name.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $kind,)* }
            }

            /// True where a reader that does not know the kind may go on without it (ST-6).
            pub const fn is_ignorable(&self) -> bool {
                match self { $(Self::$variant(_) => $ignorable,)* }
            }

            /// The body in MessagePack with field names.
            ///
            /// # Errors
            ///
            /// [`rmp_serde::encode::Error`] where a value cannot be encoded, such as a path that is no UTF-8.
            pub fn encode_body(&self) -> Result<Vec<u8>, rmp_serde::encode::Error> {
                match self { $(Self::$variant(body) => rmp_serde::to_vec_named(body),)* }
            }

            /// As [`Record::encode_body`], for one of many.
            ///
            /// # Errors
            ///
            /// As [`Record::encode_body`].
            pub fn encode_body_with(&self, encoder: &mut Encoder) -> Result<Bytes, rmp_serde::encode::Error> {
                match self { $(Self::$variant(body) => encoder.encode(body),)* }
            }

            /// The body in JSON.
            ///
            /// # Errors
            ///
            /// As [`Record::encode_body`].
            pub fn json_body(&self) -> Result<serde_json::Value, serde_json::Error> {
                match self { $(Self::$variant(body) => serde_json::to_value(body),)* }
            }

            /// The record of a kind and its body; `None` where the kind is not known here.
            ///
            /// # Errors
            ///
            /// [`DecodeError::Body`] where the kind is known and the body is broken: that is never passed over.
            pub fn decode(kind: &str, body: &Bytes) -> Result<Option<Self>, DecodeError> {
                match kind {
                    $($kind => crate::envelope::decode_body(kind, body).map(|body| Some(Self::$variant(body))),)*
                    _ => Ok(None),
                }
            }
        }

        $(impl From<$variant> for Record {
            fn from(body: $variant) -> Self { Self::$variant(body.into()) }
        })*
    };
    (@held $variant:ident) => { $variant };
    (@held $variant:ident $held:ty) => { $held };
}

records! {
    StoreOpened "store.opened" false,
    StoreClosed "store.closed" false,
    SessionOpened(Box<SessionOpened>) "session.opened" false,
    SessionClosed "session.closed" false,
    JobQueued "job.queued" false,
    JobStopping "job.stopping" false,
    JobEnded "job.ended" false,
    RunStarted "run.started" false,
    RunBound "run.bound" false,
    RunEnded "run.ended" false,
    ToolPart "part" false,
    GroupSealed(Box<GroupSealed>) "group.sealed" false,
    GroupFired "group.fired" false,
    GroupVoided "group.voided" false,
    MessagePosted "message.posted" false,
    MessageSent "message.sent" false,
    MessageTaken "message.taken" false,
    Usage "usage" false,
    LimitsSet "limits.set" false,
    Note "note" true,
}

impl Record {
    /// The record without prompts, command lines, outputs and failure texts: what an event shows (B-10).
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut record = self.clone();
        match &mut record {
            Self::JobQueued(body) => body.spec = Private::hidden(),
            Self::RunEnded(body) => {
                body.message = None;
                if let Some(output) = &mut body.output {
                    output.text = Private::hidden();
                }
            }
            Self::GroupFired(body) => body.payload = Private::hidden(),
            Self::MessagePosted(body) => body.body = Private::hidden(),
            Self::StoreOpened(_)
            | Self::StoreClosed(_)
            | Self::SessionOpened(_)
            | Self::SessionClosed(_)
            | Self::JobStopping(_)
            | Self::JobEnded(_)
            | Self::RunStarted(_)
            | Self::RunBound(_)
            | Self::ToolPart(_)
            | Self::GroupSealed(_)
            | Self::GroupVoided(_)
            | Self::MessageSent(_)
            | Self::MessageTaken(_)
            | Self::Usage(_)
            | Self::LimitsSet(_)
            | Self::Note(_) => {}
        }
        record
    }
}
