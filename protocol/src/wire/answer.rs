//! What a service answers.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::budget::{Account, Spent};
use crate::cause::{Cause, Status};
use crate::envelope::Envelope;
use crate::event::Cursor;
use crate::fault::Fault;
use crate::id::{GroupId, JobId, Lifetime, LogId, MessageId, Named, NodeId, Seq, SessionId};
use crate::job::{JobInfo, JobList, Promotion, Reason};
use crate::policy::Policy;
use crate::result::{CombinedResult, ResultEntry};
use crate::watch::Hit;

/// What a service sends once a client is welcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The answer to a request; nothing more comes of it.
    Reply {
        /// The request.
        id: u64,
        /// The answer.
        answer: Answer,
        /// Of a call that changes something: what it did is in the records up to this place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seq: Option<Seq>,
    },
    /// The request was refused or failed; nothing more comes of it.
    Fault {
        /// The request.
        id: u64,
        /// Why.
        fault: Fault,
    },
    /// One of many answers to a request; more may come.
    Item {
        /// The request.
        id: u64,
        /// It.
        item: Item,
    },
    /// The last frame: the service ends the connection, and says why.
    Goodbye(Fault),
}

/// The answer to a request. Each call says which it is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done, and there is nothing to tell.
    Done,
    /// A session is open.
    Session(SessionId),
    /// The jobs exist.
    Launched(Launched),
    /// Jobs that are over, offered.
    Waited(Waited),
    /// The result of a group, offered.
    Group {
        /// It.
        result: Arc<CombinedResult>,
        /// The parent had it before.
        already_delivered: bool,
    },
    /// A foreground call came back before its jobs were over; they go on.
    Background {
        /// True where it was promoted, and false where its limit passed.
        promoted: bool,
    },
    /// The result of a group that nobody has taken, offered.
    Wake(Arc<CombinedResult>),
    /// A user's words, offered.
    Words {
        /// Their key.
        key: MessageId,
        /// They.
        text: Arc<str>,
    },
    /// A firing of a watch, offered.
    Hit(Hit),
    /// What became of each, in launch order.
    Cancelled(Vec<(JobId, Cancelled)>),
    /// A message is owed until it is taken.
    Posted {
        /// Its key.
        key: MessageId,
        /// False where it was known, and nothing was posted.
        created: bool,
    },
    /// True where the job has more time now.
    Extended(bool),
    /// What became of the foreground calls.
    Promoted(Promotion),
    /// A page of jobs.
    Jobs(JobList),
    /// A job.
    Job(Box<JobInfo>),
    /// What it waits for; nothing where it is over.
    Reasons(Vec<Reason>),
    /// A group.
    GroupInfo(Box<GroupInfo>),
    /// What has the id.
    Named(Named),
    /// The latest line, where there is one.
    Progress(Option<Arc<str>>),
    /// A part of an output.
    Page(OutputPage),
    /// Budget and use.
    Account(Account),
    /// How the service stands.
    Status(Box<StatusInfo>),
}

/// One of many answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// Of a foreground call: the jobs exist.
    Launched(Launched),
    /// Jobs that are not over, as they stand.
    Jobs(Vec<JobInfo>),
    /// Groups that have not fired.
    Groups(Vec<GroupId>),
    /// The stream begins behind this place.
    Subscribed(Cursor),
    /// A record, without prompts and outputs.
    Event(Envelope),
    /// These records are kept nowhere any more; the stream goes on behind them.
    Gap {
        /// The first.
        from: Seq,
        /// The last.
        to: Seq,
        /// How many.
        missed: u64,
    },
    /// All up to here was looked at, and nothing of it was wanted.
    Mark(Seq),
    /// The store could not be read from here on; nothing follows.
    Unreadable {
        /// The first record that could not be read.
        at: Seq,
        /// Why.
        problem: Arc<str>,
    },
    /// More of an output.
    Page(OutputPage),
}

/// What a launch made, or found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    /// The group.
    pub group: GroupId,
    /// Its jobs, in launch order.
    pub jobs: Vec<JobId>,
    /// Which lives of their ids, in the same order.
    pub lifetimes: Vec<Lifetime>,
    /// False where the id was known, and nothing was launched.
    pub created: bool,
    /// True where what is known is not what was asked for.
    pub spec_differs: bool,
}

/// What a wait for jobs found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// One a job, in the order in which they were named; of a wait for any, those that are over.
    pub entries: Vec<ResultEntry>,
    /// The parent had all of these before.
    pub already_delivered: bool,
}

/// What a cancel did to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancelled {
    /// It was told to stop and will end.
    Stopping,
    /// It had not started and is over now.
    Ended,
    /// It was over before, as this.
    AlreadyEnded(Status),
}

/// A group as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupInfo {
    /// The group.
    pub group: GroupId,
    /// The session at the root of it, as long as that is known.
    pub session: Option<SessionId>,
    /// Who launched it, as long as that is known.
    pub parent: Option<NodeId>,
    /// The rule that may stop the rest.
    pub policy: Policy,
    /// What its jobs, and all below them, have used.
    pub spent: Spent,
    /// How many jobs it has.
    pub members: u32,
    /// The first of its jobs, in launch order.
    pub first: Vec<JobId>,
    /// The combined result, once it has fired.
    pub result: Option<Arc<CombinedResult>>,
    /// Why there will be no result.
    pub voided: Option<Cause>,
    /// Its result was taken.
    pub is_taken: bool,
}

/// A part of what a job put out, by offsets into all that its run put out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPage {
    /// The bytes from `offset` up to `next`, as they came.
    #[serde(with = "crate::envelope::raw")]
    pub bytes: Bytes,
    /// Where they begin: where it was asked, or behind what was dropped there.
    pub offset: u64,
    /// Where the next page begins.
    pub next: u64,
    /// Bytes that were put out so far.
    pub total: u64,
    /// Which run of the job put it out, counted from 1.
    pub run: u32,
    /// The job is over: `total` is final.
    pub is_over: bool,
}

impl OutputPage {
    /// True where nothing comes behind this page.
    pub const fn is_last(&self) -> bool {
        self.is_over && self.next >= self.total
    }
}

/// How a service stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusInfo {
    /// Its name and version, for people.
    pub program: String,
    /// Its process.
    pub pid: u32,
    /// Since when it serves, in milliseconds since 1970.
    pub since_ms: u64,
    /// What it does.
    pub state: ServiceState,
    /// The newest record.
    pub head: Cursor,
    /// Jobs that run.
    pub running: u32,
    /// Jobs that wait for their first start.
    pub queued: u32,
    /// Groups that have not fired.
    pub open_groups: u32,
    /// Clients that are connected, this one among them.
    pub clients: u32,
}

impl StatusInfo {
    /// The log of its records.
    pub const fn log(&self) -> &LogId {
        &self.head.log
    }
}

/// What a service does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// It serves.
    Serving,
    /// It takes nothing new, and will end.
    Draining,
    /// A newer service says what this program does not know.
    #[serde(other)]
    Unknown,
}
