//! What can be asked about a job.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::{Spent, usd};
use crate::cause::{Cause, Code, Status};
use crate::id::{GroupId, JobId, Lifetime, NodeId, SessionId};

/// What a job's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// A closure of the host program.
    Closure,
    /// A command.
    Command,
    /// A prompt for an agent.
    Agent,
}

impl JobKind {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closure => "closure",
            Self::Command => "command",
            Self::Agent => "agent",
        }
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a thing that is not over waits for, computed when asked and never stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Reason {
    /// Queued: no slot is free.
    Slot {
        /// Place in its session's line, from 1; the lines take turns (SC-9).
        position: u64,
        /// Jobs that hold the slots, the longest-running first, eight at most.
        held_by: Vec<JobId>,
    },
    /// Queued: the supervisor starts nothing more, it is shutting down.
    Draining,
    /// Queued: it needs others of its group, and these are not over (T-3).
    Dependency {
        /// How many of them are not over.
        open: u32,
        /// The first of them in launch order, eight at most.
        first: Vec<JobId>,
    },
    /// Queued: its last run failed, and the next try is not due yet.
    Backoff {
        /// Tries so far.
        tries: u32,
        /// Not before this time, in milliseconds since the Unix epoch.
        not_before_ms: u64,
    },
    /// Queued: as many jobs of its kind as may start in this time have started.
    Rate {
        /// The kind.
        kind: JobKind,
    },
    /// Queued: too many starts of its kind failed, and the kind is paused.
    Circuit {
        /// The kind.
        kind: JobKind,
    },
    /// Queued: what a start of it may cost is set aside for others that run; it starts, or is refused, once they have used
    /// it or ended.
    Budget {
        /// What is to be set aside for it, in millionths of a US dollar.
        asked_usd_micros: u64,
        /// What is left, in part set aside.
        left_usd_micros: u64,
    },
    /// Running: started, and its runner has not yet said that it is up.
    Starting,
    /// Running: its body works.
    Working,
    /// Running: an open question waits for an answer.
    Question {
        /// The call that asks.
        call: Arc<str>,
    },
    /// Running: its body waits, and has lent its slot meanwhile (SC-10).
    Waiting {
        /// What it waits for and is not over, eight jobs at most; empty where nothing that it launched could wake it.
        first: Vec<JobId>,
    },
    /// Running: what its body waited for is there, and is held until it has its slot again.
    Lent {
        /// Place among those of its tree that ask for theirs, from 1; they come before new starts.
        position: u64,
        /// Jobs that hold the slots, the longest-running first, eight at most.
        held_by: Vec<JobId>,
    },
    /// Running: its body is over, and these that it launched are not.
    Children {
        /// How many of its own children are not over.
        open: u32,
        /// The first of them in launch order, eight at most.
        first: Vec<JobId>,
    },
    /// Running: it was told to stop and is not gone yet.
    Stopping {
        /// Why it was told.
        cause: Cause,
        /// The forced stop was sent as well.
        forced: bool,
    },
    /// A group: these members are not over, eight at most.
    Members {
        /// How many are not over.
        open: u32,
        /// The first of them in launch order.
        first: Vec<JobId>,
    },
    /// A group of an open turn: it is sealed when the turn ends.
    Unsealed,
    /// A message: its parent is in a turn.
    Busy,
    /// A message: a waiter or a taker holds it and has not acknowledged it.
    Offered,
    /// A message: its parent was woken as often as it may be without a word of its user (W-7).
    Autonomy {
        /// How often since its user last said something.
        wakes: u32,
        /// It comes by itself at this time, in milliseconds since the Unix epoch; otherwise once the user says something.
        not_before_ms: Option<u64>,
    },
    /// A message: nobody has asked for it yet.
    Untaken,
    /// In a store whose owner died: it ran then, and nothing has closed it yet.
    NotRecovered,
    /// In a store whose owner died: it waits for another one.
    Unowned,
}

impl Reason {
    /// A name for the reason, as a phase of the thing.
    pub const fn phase(&self) -> &'static str {
        match self {
            Self::Slot { .. } => "slot",
            Self::Draining => "draining",
            Self::Dependency { .. } => "dependency",
            Self::Backoff { .. } => "backoff",
            Self::Rate { .. } => "rate",
            Self::Circuit { .. } => "circuit",
            Self::Budget { .. } => "budget",
            Self::Starting => "starting",
            Self::Working => "working",
            Self::Question { .. } => "question",
            Self::Waiting { .. } => "waiting",
            Self::Lent { .. } => "lent",
            Self::Children { .. } => "joining",
            Self::Stopping { .. } => "stopping",
            Self::Members { .. } => "members",
            Self::Unsealed => "unsealed",
            Self::Busy => "busy",
            Self::Offered => "offered",
            Self::Autonomy { .. } => "autonomy",
            Self::Untaken => "untaken",
            Self::NotRecovered => "interrupted, not recovered yet",
            Self::Unowned => "unowned",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot { position, held_by } => {
                write!(f, "waits for a slot, place {position} in the queue; slots are held by ")?;
                list(f, held_by)
            }
            Self::Draining => f.write_str("the supervisor is shutting down and starts nothing more"),
            Self::Dependency { open, first } => {
                write!(f, "waits for {open} that it needs: ")?;
                list(f, first)
            }
            Self::Backoff { tries, .. } => {
                write!(f, "waits before its next try; {tries} so far")
            }
            Self::Rate { kind } => write!(f, "waits for the rate of {kind} jobs"),
            Self::Circuit { kind } => {
                write!(f, "{kind} jobs are paused, since too many of their starts failed")
            }
            Self::Budget { asked_usd_micros, left_usd_micros } => {
                let (asked, left) = (usd(*asked_usd_micros), usd(*left_usd_micros));
                write!(
                    f,
                    "waits for its budget: {asked} for a start, and {left} is left, part of it set aside for what runs"
                )
            }
            Self::Starting => f.write_str("starting"),
            Self::Working => f.write_str("working"),
            Self::Question { call } => write!(f, "waits for an answer to question {call}"),
            Self::Waiting { first } if first.is_empty() => {
                f.write_str("waits, and nothing that it launched is open")
            }
            Self::Waiting { first } => {
                f.write_str("waits for ")?;
                list(f, first)
            }
            Self::Lent { position, held_by } => {
                write!(f, "waits for its slot again, place {position}; slots are held by ")?;
                list(f, held_by)
            }
            Self::Children { open, first } => {
                write!(f, "its body is over; waits for {open} of its children: ")?;
                list(f, first)
            }
            Self::Stopping { cause, forced: false } => write!(f, "stopping ({cause})"),
            Self::Stopping { cause, forced: true } => write!(f, "stopping by force ({cause})"),
            Self::Members { open, first } => {
                write!(f, "waits for {open} members: ")?;
                list(f, first)
            }
            Self::Unsealed => f.write_str("its turn is still open"),
            Self::Busy => f.write_str("its parent is in a turn"),
            Self::Offered => f.write_str("offered, not acknowledged yet"),
            Self::Autonomy { wakes, not_before_ms: None } => {
                write!(f, "its parent was woken {wakes} times without a word of its user, and waits for one")
            }
            Self::Autonomy { wakes, not_before_ms: Some(_) } => {
                write!(
                    f,
                    "its parent was woken as often as it may be in a minute, {wakes} times by now; it comes later"
                )
            }
            Self::Untaken => f.write_str("nobody has asked for it yet"),
            Self::NotRecovered => {
                f.write_str("its supervisor died while it ran; the next opening of the store closes it")
            }
            Self::Unowned => f.write_str("its supervisor died; it waits until the store is opened again"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, ids: &[JobId]) -> fmt::Result {
    ids.iter().enumerate().try_for_each(|(n, id)| write!(f, "{}{id}", if n == 0 { "" } else { ", " }))
}

/// One job as it stands. Times are milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// The job.
    pub job: JobId,
    /// Which life of that id.
    pub lifetime: Lifetime,
    /// The session it belongs to.
    pub session: SessionId,
    /// Its group.
    pub group: GroupId,
    /// Its place in the group, from 0.
    pub index: u32,
    /// What its body is.
    pub kind: JobKind,
    /// What its launcher called it.
    pub label: Option<Arc<str>>,
    /// Its public status.
    pub status: Status,
    /// What it waits for, in one word; `None` once it is over.
    pub phase: Option<String>,
    /// Why it ended, unless it completed.
    pub cause: Option<Cause>,
    /// A finer word below the cause.
    pub code: Option<Code>,
    /// The failure in words.
    pub message: Option<Arc<str>>,
    /// What it waits for; empty once it is over.
    pub why: Vec<Reason>,
    /// Tries that were started.
    pub runs: u32,
    /// Launch.
    pub queued_at_ms: u64,
    /// First start.
    pub started_at_ms: Option<u64>,
    /// End.
    pub ended_at_ms: Option<u64>,
    /// What it, and all below it, has used so far; left out where nobody told of anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Spent>,
    /// How often it has fired, where it is a watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firings: Option<Firings>,
}

/// How often a watch has fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firings {
    /// So far.
    pub fired: u32,
    /// At the most.
    pub max: u32,
}

impl Firings {
    /// How often it may still fire.
    pub const fn left(self) -> u32 {
        self.max.saturating_sub(self.fired)
    }
}

/// A page of jobs, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobList {
    /// The jobs of this page.
    pub jobs: Vec<JobInfo>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Lifetime>,
}

/// Which jobs a list shows. What is `None` does not restrict it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobFilter {
    /// Of this session.
    pub session: Option<SessionId>,
    /// Below this session or job, at any depth; below a job means below any of its lives.
    pub below: Option<NodeId>,
    /// With a label that begins so.
    pub label_prefix: Option<String>,
    /// Of this group.
    pub group: Option<GroupId>,
    /// In this status.
    pub status: Option<Status>,
    /// Of this kind.
    pub kind: Option<JobKind>,
    /// From this lifetime on; where the page before left off.
    pub from: Option<Lifetime>,
    /// Entries of a page at the most; 0 is read as [`PAGE_JOBS`](crate::limits::PAGE_JOBS).
    pub limit: usize,
}

/// What a promotion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promotion {
    /// Every call that waited in the foreground returned; the jobs go on, and their result comes as a wake.
    Promoted,
    /// The group has fired or is void: a call that waited was answered before.
    AlreadyDone,
    /// No call waits for it in the foreground, or not any more.
    NotWaiting,
}

impl Promotion {
    /// A stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::AlreadyDone => "already_done",
            Self::NotWaiting => "not_waiting",
        }
    }
}

/// Why nobody waits for a job in the foreground.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Background {
    /// The call was promoted, ran out or was dropped, or there was none.
    Left,
    /// The job is over.
    Over,
}
