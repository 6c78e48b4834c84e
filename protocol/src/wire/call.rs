//! What a client asks. Each call is one of the library's, by its name there.

use serde::{Deserialize, Serialize};

use crate::event::Cursor;
use crate::id::{GroupId, JobId, Lifetime, MessageId, Named, SessionId};
use crate::job::JobFilter;
use crate::job_limits::JobLimits;
use crate::plan::OnFailedDependency;
use crate::policy::Policy;
use crate::profile::{Bounds, Profile};
use crate::spec::Spec;

/// What a client sends once it is welcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// A request.
    Request(Request),
    /// The client does not want the request of this number any more: a call that waits leaves, a stream ends, and what the
    /// request has given is given back: an offer, a turn, a fan-out in parts.
    Cancel(u64),
}

/// A request. It is answered once, by [`Told::Reply`](super::Told::Reply) or [`Told::Fault`](super::Told::Fault), in any order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its number on this connection, never used again there.
    pub id: u64,
    /// What is asked.
    pub call: Call,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Opens a session, or finds it open. Answered `session`.
    OpenSession(OpenSession),
    /// Closes a session: its jobs are stopped, what it is owed is dropped. Answered `done`.
    CloseSession {
        /// Which.
        session: SessionId,
    },
    /// Launches a group: all of its jobs or none. Answered `launched`.
    Launch(LaunchCall),
    /// As `launch`, and waits for the group from the same step on, in the foreground. The item `launched` comes first; then
    /// the answer is `group`, or `background` once the call was promoted or its limit has passed.
    Run {
        /// What is launched.
        launch: LaunchCall,
        /// How long it waits at the most, from the launch on.
        #[serde(default)]
        limit_ms: Option<u64>,
    },
    /// Begins a launch that is too large for one frame. Its jobs come with `fan_out_add`; nothing exists before
    /// `fan_out_commit`. Answered `done`; the number of this request names the fan-out.
    FanOutBegin(LaunchCall),
    /// More jobs for a fan-out. Answered `done`.
    FanOutAdd {
        /// The request that began it.
        of: u64,
        /// The jobs, behind those that came before.
        jobs: Vec<NewJob>,
    },
    /// Launches a fan-out. Answered `launched`.
    FanOutCommit {
        /// The request that began it.
        of: u64,
    },
    /// Waits until all of these jobs are over. Answered `waited`, an offer.
    WaitAll(WaitCall),
    /// Waits until the first of these jobs is over. Answered `waited`, an offer.
    WaitAny(WaitCall),
    /// Waits until a group has fired. Answered `group`, an offer.
    WaitGroup {
        /// Who waits.
        #[serde(default)]
        session: Option<SessionId>,
        /// For what.
        group: GroupId,
        /// How long at the most.
        #[serde(default)]
        limit_ms: Option<u64>,
    },
    /// The next result of a group that nobody has taken. Answered `wake`, an offer.
    NextWake {
        /// Whose.
        #[serde(default)]
        session: Option<SessionId>,
    },
    /// The next message of a session's inbox. Answered `wake` or `words`, an offer.
    NextMessage {
        /// Whose.
        session: SessionId,
    },
    /// Takes what a request was offered: it is delivered, and comes never again. Answered `done`.
    Ack {
        /// The request that was offered it.
        of: u64,
    },
    /// Gives back what a request has been given: an offer, a turn, a fan-out. Answered `done`, also where it has none.
    Release {
        /// The request.
        of: u64,
    },
    /// Begins a turn of a session: its parent is busy, and its wakes are held. Answered `done`; the number of this request
    /// names the turn.
    TurnBegin {
        /// Whose.
        session: SessionId,
    },
    /// Ends a turn. Answered `done`.
    TurnEnd {
        /// The request that began it.
        of: u64,
        /// Why it did not come to its end, where it did not.
        #[serde(default)]
        failed: Option<String>,
    },
    /// Stops jobs. Answered `cancelled`.
    Cancel(CancelCall),
    /// A follow-up to a running job. Answered `posted`.
    Extend {
        /// The job.
        job: JobId,
        /// Which life; the newest without one.
        #[serde(default)]
        lifetime: Option<Lifetime>,
        /// What it is told.
        text: String,
    },
    /// More time for a job. Answered `extended`.
    ExtendTime {
        /// The job.
        job: JobId,
        /// How much, in milliseconds.
        by_ms: u64,
    },
    /// A user's words for a session's inbox. Answered `posted`.
    Post {
        /// Whose inbox.
        session: SessionId,
        /// The words.
        text: String,
        /// Their key; one that is known posts nothing again.
        #[serde(default)]
        key: Option<MessageId>,
    },
    /// Sends the foreground calls that wait for a job's group, or for a group, to the background. Answered `promoted`.
    Promote(Named),
    /// Jobs, oldest first, a page at a time. Answered `jobs`.
    List(JobFilter),
    /// A job as it stands. Answered `job`.
    Get(JobCall),
    /// What a job, or a group or its wake, waits for. Answered `reasons`.
    Why(Named),
    /// A group, with its result once it has one. Answered `group_info`.
    Group {
        /// Which.
        group: GroupId,
    },
    /// What has an id that begins so. Answered `named`.
    Find {
        /// The start of an id.
        start: String,
    },
    /// The latest line of progress of a running job. Answered `progress`.
    Progress {
        /// The job.
        job: JobId,
    },
    /// A part of what a job put out. Answered `page`.
    Output(OutputCall),
    /// What a job puts out, from an offset to the end of the job: items `page`. Answered `done` at the end.
    Follow(OutputCall),
    /// Records as they come, from a place on: items `subscribed`, then `event`, `gap`, `mark`. Answered `done` once the
    /// service ends.
    Subscribe(Subscribe),
    /// What a session, job or group may use, and has used. Answered `account`.
    Account(Named),
    /// How the service stands. Answered `status`.
    Status,
    /// Ends the service: it takes nothing new, waits for what runs for as long, and then stops it. Answered `done` at once.
    Shutdown {
        /// How long what runs may go on, in milliseconds; its own time without one, and 0 to stop it at once.
        #[serde(default)]
        drain_ms: Option<u64>,
    },
}

impl Call {
    /// The name of the call on the wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::OpenSession(_) => "open_session",
            Self::CloseSession { .. } => "close_session",
            Self::Launch(_) => "launch",
            Self::Run { .. } => "run",
            Self::FanOutBegin(_) => "fan_out_begin",
            Self::FanOutAdd { .. } => "fan_out_add",
            Self::FanOutCommit { .. } => "fan_out_commit",
            Self::WaitAll(_) => "wait_all",
            Self::WaitAny(_) => "wait_any",
            Self::WaitGroup { .. } => "wait_group",
            Self::NextWake { .. } => "next_wake",
            Self::NextMessage { .. } => "next_message",
            Self::Ack { .. } => "ack",
            Self::Release { .. } => "release",
            Self::TurnBegin { .. } => "turn_begin",
            Self::TurnEnd { .. } => "turn_end",
            Self::Cancel(_) => "cancel",
            Self::Extend { .. } => "extend",
            Self::ExtendTime { .. } => "extend_time",
            Self::Post { .. } => "post",
            Self::Promote(_) => "promote",
            Self::List(_) => "list",
            Self::Get(_) => "get",
            Self::Why(_) => "why",
            Self::Group { .. } => "group",
            Self::Find { .. } => "find",
            Self::Progress { .. } => "progress",
            Self::Output(_) => "output",
            Self::Follow(_) => "follow",
            Self::Subscribe(_) => "subscribe",
            Self::Account(_) => "account",
            Self::Status => "status",
            Self::Shutdown { .. } => "shutdown",
        }
    }
}

/// A session to be opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    /// Its id; without one the service draws it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Who drives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// What it and all below it may grow to; those of its profile without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
}

/// A launch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchCall {
    /// The session that launches, which is open; `None` for the job that the client is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The group's id. A known one answers the group that is there, so a launch whose answer was lost can be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// When the rest is stopped.
    #[serde(default)]
    pub policy: Policy,
    /// A single job joins the group of the session's open turn.
    #[serde(default)]
    pub joins_turn: bool,
    /// The jobs in launch order.
    #[serde(default)]
    pub jobs: Vec<NewJob>,
}

/// A job to launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// Its id; without one the service draws it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
    /// A new life under that id, where its job is over.
    #[serde(default)]
    pub again: bool,
    /// What its launcher calls it.
    pub label: String,
    /// What it shall do. A folder in it is an absolute path.
    pub spec: Spec,
    /// Its limits.
    #[serde(default)]
    pub limits: JobLimits,
    /// The jobs of the same launch that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
    /// What becomes of it where one of those did not complete.
    #[serde(default)]
    pub on_failed_dependency: OnFailedDependency,
    /// The jobs of the same launch that it may send mail to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<After>,
}

impl NewJob {
    /// A job that does this, with nothing else set.
    pub fn new(label: impl Into<String>, spec: impl Into<Spec>) -> Self {
        Self {
            id: None,
            again: false,
            label: label.into(),
            spec: spec.into(),
            limits: JobLimits::default(),
            after: Vec::new(),
            on_failed_dependency: OnFailedDependency::default(),
            sends: Vec::new(),
        }
    }
}

/// A job of the same launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum After {
    /// By its place, from 0.
    Place(u32),
    /// By its id, or else its label.
    Name(String),
}

/// A wait for jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitCall {
    /// Who waits; `None` for the job that the client is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// For what.
    pub jobs: Vec<JobId>,
    /// How long at the most; without it for as long as they run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
}

/// What is to be stopped, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelCall {
    /// What.
    pub what: StopWhat,
    /// Time until the forced stop, in milliseconds: each job's own without one, and 0 to stop by force at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// What a cancel is aimed at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopWhat {
    /// A job; in this life and no other where one is named.
    Job(JobCall),
    /// All jobs of a group.
    Group(GroupId),
}

/// A job, in one of its lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCall {
    /// Its id.
    pub job: JobId,
    /// Which life; the newest without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lifetime>,
}

impl From<JobId> for JobCall {
    fn from(job: JobId) -> Self {
        Self { job, lifetime: None }
    }
}

/// A place in what a job put out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputCall {
    /// The job.
    pub job: JobId,
    /// Which life; the newest without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lifetime>,
    /// From this byte on.
    #[serde(default)]
    pub offset: u64,
    /// Bytes at the most; without it as many as a page has.
    #[serde(default)]
    pub max: u64,
}

/// Records that are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// Which.
    #[serde(default)]
    pub filter: EventFilter,
    /// From where on.
    #[serde(default)]
    pub since: Since,
}

/// Which events are wanted. What is `None` does not restrict them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFilter {
    /// About this, and what is below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Named>,
    /// Of these kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
}

/// Where a stream of records begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// At the oldest record that is kept.
    #[default]
    Start,
    /// With the next one.
    Now,
    /// Behind a place that was seen, written `log:seq`.
    After(Cursor),
    /// With how things stand: items `jobs` and `groups` first, and then what follows, without a hole between.
    Snapshot,
}
