//! What can happen to a machine in a test, as values: scripts are parsed to them, the search and the random
//! sequences make them, and all print as a script that gives them again.

mod parse;
mod print;

use std::sync::Arc;

use fanin_machine::{Named, WaiterId};
use fanin_protocol::{
    Bounds, Budget, Cause, Edges, GroupId, JobId, JobKind, JobLimits, Lifetime, MessageId, NodeId,
    OnFailedDependency, PartKind, PartState, Policy, SessionId,
};

pub use parse::{Script, script};
pub(crate) use parse::{job, session};
pub(crate) use print::moved;

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The process begins an epoch.
    Open,
    /// The process dies: facts stay, memory goes.
    Crash,
    /// Launches are refused, nothing more starts.
    Drain,
    /// All that lives is told to stop.
    StopAll(Option<u64>),
    /// The same, and what another epoch can take up waits for it.
    Suspend(Option<u64>),
    /// The last record.
    Finish,
    /// A parent comes.
    Session(SessionId),
    /// A parent comes that is driven by a model, with these bounds.
    Bounded(SessionId, Box<Bounds>),
    /// A parent goes.
    CloseSession(SessionId),
    /// A turn begins.
    Turn(SessionId),
    /// The holder of the last turn says that it is over.
    TurnEnd(SessionId, How),
    /// Jobs are launched.
    Launch(Box<Launching>),
    /// Somebody begins to wait.
    Wait(WaiterId, Wish),
    /// A waiter leaves.
    Leave(WaiterId),
    /// The foreground calls of a job's group, or of a group, are promoted.
    Promote(Promoted),
    /// Its limit passes.
    Expire(WaiterId),
    /// A waiter acknowledges.
    Ack(WaiterId),
    /// A job, a group or an exact lifetime is stopped.
    Stop(Aim, Option<u64>, Cause),
    /// The last run of a job says that it is up.
    Bind(JobId),
    /// The last run of a job says that a call moved.
    Part(JobId, u8, PartKind, PartState),
    /// The last turn of a session says so.
    TurnPart(SessionId, u8, PartState),
    /// The last run of a job announces a call of a tool with these arguments.
    Call(JobId, u8, u64),
    /// The last run of a job shows a sign of work that only the host sees.
    Beat(JobId),
    /// The last run of a job says what it has used so far, by the meter of this number.
    Used(JobId, u8, Sums),
    /// The last turn of a session says so.
    TurnUsed(SessionId, u8, Sums),
    /// A person sets other bounds of a budget.
    Budget(Named, Budget),
    /// So many jobs may run at once.
    Slots(Option<u32>),
    /// A job is given more time.
    Extend(JobId, u64),
    /// The last run of a job says that it is over.
    End(JobId, How),
    /// The last run of a job says that it has seen what it watches for.
    Fire(JobId),
    /// Somebody posts a message: a user's words, or a follow-up.
    Post(NodeId, MessageId),
    /// The last run of a job takes follow-ups from now on.
    Listen(JobId),
    /// It takes no more.
    Silent(JobId),
    /// It has taken one.
    Took(JobId, MessageId),
    /// The last run of a job sends a mail to another job, with this text.
    Send(JobId, JobId, Arc<str>),
    /// The last run of a job's life before this one says that it is over.
    Late(JobId, How),
    /// Somebody sees that what the last run of a job left is gone.
    Gone(JobId),
    /// Somebody says that the last run of the one job is over, at the place of the other.
    Forged(JobId, JobId),
    /// Time passes on both clocks, and the machine is told.
    After(u64),
    /// Time passes up to the alarm, and the machine is told.
    Alarm,
    /// The wall clock alone is set; the machine is not told.
    Wall(i64),
    /// Somebody asks what a job waits for.
    Why(JobId),
    /// Or a group.
    WhyGroup(GroupId),
}

/// What a meter tells: money in millionths of a dollar, tokens, calls of a model.
pub type Sums = [Option<u64>; 3];

/// A launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launching {
    /// The parent: a session, or the last run of a job.
    pub parent: NodeId,
    /// The group's id.
    pub group: GroupId,
    /// The group's id was drawn by chance.
    pub is_fresh: bool,
    /// A new life is asked for where a job is known and over.
    pub again: bool,
    /// Joins the group of the turn.
    pub joins: bool,
    /// Who waits for it in the foreground.
    pub foreground: Option<WaiterId>,
    /// When the rest is stopped.
    pub policy: Policy,
    /// Which of the jobs need others of them, by their places, and what becomes of them where one did not complete.
    pub needs: Vec<(u32, Vec<u32>, OnFailedDependency)>,
    /// What the bodies are.
    pub kind: JobKind,
    /// Limits of each job.
    pub limits: JobLimits,
    /// The jobs.
    pub jobs: Vec<JobId>,
}

/// What somebody waits for. Of a job it is its last run that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// All of these jobs.
    All(NodeId, Vec<JobId>),
    /// The first of these jobs.
    Any(NodeId, Vec<JobId>),
    /// This life of a job.
    Exact(NodeId, JobId, Lifetime),
    /// A group's result.
    Group(NodeId, GroupId),
    /// The next wake.
    Wake(NodeId),
    /// The next message of a session, whatever it is.
    Message(NodeId),
    /// The next firing of a watch of a session.
    Hit(NodeId),
    /// The next mail of a member, from this one alone where that is said, and at once or not at all.
    Mail(NodeId, Option<JobId>, bool),
    /// That nobody waits for a job in the foreground, in the life it has.
    Background(JobId),
    /// That no run is open.
    Idle,
}

/// Whose calls are promoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Promoted {
    /// Those of a job's group.
    Job(JobId),
    /// Those of a group.
    Group(GroupId),
}

impl Launching {
    /// Its edges, where it has any.
    pub fn edges(&self) -> Option<Edges> {
        let mut all = vec![(Vec::new(), OnFailedDependency::Skip); self.jobs.len()];
        for (member, on, then) in &self.needs {
            if let Some(of) = all.get_mut(*member as usize) {
                *of = (on.clone(), *then);
            }
        }
        Some(Edges::new(all)).filter(|edges| !edges.is_empty())
    }
}

impl Wish {
    /// Who waits.
    pub const fn by(&self) -> Option<&NodeId> {
        match self {
            Self::All(by, _)
            | Self::Any(by, _)
            | Self::Exact(by, ..)
            | Self::Group(by, _)
            | Self::Wake(by)
            | Self::Message(by)
            | Self::Hit(by)
            | Self::Mail(by, ..) => Some(by),
            Self::Background(_) | Self::Idle => None,
        }
    }
}

/// What a stop is aimed at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aim {
    /// The newest lifetime.
    Job(JobId),
    /// The lifetime it has.
    Exact(JobId),
    /// The lifetime before the one it has.
    Old(JobId),
    /// A lifetime that it does not have.
    Other(JobId),
    /// All members.
    Group(GroupId),
}

/// How a run or a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// Well, with a text.
    Ok,
    /// Well, with nothing to show.
    Empty,
    /// Badly.
    Failed,
    /// In a panic.
    Panic,
    /// It could not be started.
    Spawn,
    /// It could not be started, and the system is to blame.
    Os,
    /// It failed before anything had an effect.
    Safe,
    /// Its guard was dropped.
    Lost,
    /// Badly, and something of it cannot be stopped.
    Left,
    /// Well, and what it left behind was stopped.
    Stopped,
}
