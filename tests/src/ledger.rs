//! What an outsider learns from the records alone (G1, G2, G4, G5, G7).
//!
//! It shares no code with the machine's fold, so that a mistake there cannot hide here, and it never looks at the
//! machine's state.

mod plans;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fanin_protocol::record::{JobEnded, RunOutcome, StopTarget, TakenBy};
use fanin_protocol::{
    Bounds, Cause, CombinedResult, Edges, Fence, GroupId, JobId, JobKind, Lifetime, NodeId, Policy,
    SessionId, Status, ToolPart,
};

/// All that was learned.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Place of the last record.
    pub head: u64,
    /// Its time.
    pub ts_ms: u64,
    /// The last `store.opened`.
    pub epoch: u64,
    /// True between `store.opened` and `store.closed`; also after a crash, which nobody records.
    pub open: bool,
    /// By id.
    pub sessions: BTreeMap<SessionId, SessionSeen>,
    /// By id, in its newest life.
    pub jobs: BTreeMap<JobId, JobSeen>,
    /// The lives before, by lifetime.
    pub past: BTreeMap<Lifetime, JobSeen>,
    /// By id.
    pub groups: BTreeMap<GroupId, GroupSeen>,
    /// All runs there ever were.
    pub runs: BTreeMap<Fence, RunSeen>,
    /// What was used, and may be.
    pub accounts: crate::accounts::Accounts,
    /// Whose lifetime it is.
    pub lifetimes: BTreeMap<Lifetime, JobId>,
    /// Posted messages.
    pub posts: crate::posts::Posts,
    /// Where each group fired.
    pub fired_at: BTreeMap<GroupId, u64>,
    /// Fired groups, oldest first.
    pub fired: Vec<GroupId>,
    /// Open runs of jobs.
    pub running: u32,
    /// Jobs that wait for a start, their first or one more.
    pub queued: u32,
    /// Lives of jobs that have never been started and are not over.
    pub unstarted: BTreeSet<Lifetime>,
    /// Sessions whose turn for a slot went, in this step, to a run that had lent its own.
    pub granted: BTreeSet<SessionId>,
    /// Only the records are known: whose turn went to a run that had lent its slot cannot be told.
    pub from_records: bool,
    /// Those of them that were started before.
    pub retrying: u32,
    /// How often jobs were given more time.
    pub extended: u32,
    /// Groups with edges, ever: jobs of a session may pass one that waits for others.
    pub plans: u32,
    /// A rate holds jobs aside, so that they pass each other.
    pub is_rated: bool,
    /// Runs that may count as failed starts, ever: more than 20 may pause a kind.
    pub failed_starts: u32,
}

/// A session.
#[derive(Debug, Clone, Default)]
pub struct SessionSeen {
    /// It was closed.
    pub closed: bool,
    /// The open turn.
    pub turn: Option<Fence>,
    /// Turns so far.
    pub turns: u32,
    /// Its jobs that have not started and are not over.
    pub queued: u32,
    /// What it and all below it may grow to.
    pub bounds: Bounds,
    /// Wakes that were taken in its tree.
    pub woken: u32,
    /// Jobs of its tree so far.
    pub spawned: u32,
    /// Open runs of its tree's jobs.
    pub running: u32,
    /// Sessions that had a start while this one waits for its next.
    pub passed_by: BTreeSet<SessionId>,
}

/// A job.
#[derive(Debug, Clone)]
pub struct JobSeen {
    /// The session of its tree.
    pub session: SessionId,
    /// Its parent.
    pub parent: NodeId,
    /// Its group.
    pub group: GroupId,
    /// Its lifetime.
    pub lifetime: Lifetime,
    /// What its body is.
    pub kind: JobKind,
    /// What a run of it is expected to cost.
    pub estimate: Option<u64>,
    /// The open run.
    pub run: Option<Fence>,
    /// Runs so far.
    pub runs: u32,
    /// How the last run ended.
    pub last: Option<RunOutcome>,
    /// The next try is not before this time, where the last run is followed by one.
    pub retry_at_ms: Option<u64>,
    /// Runs that a crash interrupted and that another follows.
    pub crashed: u32,
    /// The last wish to stop it.
    pub stop: Option<(StopTarget, Cause)>,
    /// How it ended.
    pub ended: Option<JobEnded>,
    /// Its single result was taken.
    pub taken: bool,
    /// How often it may fire, where it is a watch.
    pub firings: Option<u32>,
    /// How often it has.
    pub fired: u32,
}

impl JobSeen {
    /// The status, from the records.
    pub fn status(&self) -> Status {
        match (&self.ended, self.run) {
            (Some(ended), _) => ended.status,
            (None, Some(_)) => Status::Running,
            (None, None) if self.runs > 0 && self.retry_at_ms.is_none() => Status::Running,
            (None, None) => Status::Queued,
        }
    }
}

/// A group.
#[derive(Debug, Clone)]
pub struct GroupSeen {
    /// Its parent, and which life of it where that is a job.
    pub parent: NodeId,
    /// See there.
    pub parent_life: Option<Lifetime>,
    /// Its members in launch order.
    pub members: Vec<JobId>,
    /// Their lifetimes, in the same order.
    pub lives: Vec<Lifetime>,
    /// Its policy, once sealed.
    pub policy: Option<Policy>,
    /// Its result.
    pub fired: Option<Arc<CombinedResult>>,
    /// It never fires.
    pub voided: bool,
    /// Its message was taken.
    pub taken: Option<TakenBy>,
    /// Which of its members need others of them, once sealed.
    pub edges: Edges,
}

/// A run.
#[derive(Debug, Clone)]
pub struct RunSeen {
    /// Whose.
    pub node: NodeId,
    /// A runner has it.
    pub bound: bool,
    /// It is over.
    pub over: bool,
    /// Its parts in the order they came.
    pub parts: Vec<ToolPart>,
}

impl Ledger {
    /// The job of this id, which a test has launched.
    ///
    /// # Panics
    ///
    /// Where there is none.
    pub fn job(&self, id: &JobId) -> &JobSeen {
        self.jobs.get(id).unwrap_or_else(|| panic!("no job {id} in the records"))
    }

    /// True where jobs may stand aside or behind their launch order.
    pub fn has_asides(&self, rated: bool) -> bool {
        rated || self.is_rated || self.retrying > 0 || self.failed_starts > 20 || self.plans > 0
    }

    /// The job in this life.
    pub fn life(&self, lifetime: Lifetime) -> Option<&JobSeen> {
        let newest = || self.jobs.get(self.lifetimes.get(&lifetime)?).filter(|job| job.lifetime == lifetime);
        self.past.get(&lifetime).or_else(newest)
    }

    /// All jobs there ever were.
    pub fn lives(&self) -> impl Iterator<Item = &JobSeen> {
        self.past.values().chain(self.jobs.values())
    }

    /// The members of a group, in the lives in which they belong to it.
    pub fn members<'a>(&'a self, group: &'a GroupSeen) -> impl Iterator<Item = &'a JobSeen> {
        group.lives.iter().filter_map(|lifetime| self.life(*lifetime))
    }

    /// Which life a node is in, where that is a job.
    pub fn life_of(&self, node: &NodeId) -> Option<Lifetime> {
        match node {
            NodeId::Session(_) => None,
            NodeId::Job(id) => self.jobs.get(id).map(|job| job.lifetime),
        }
    }

    /// The turn of a session went to a run that had lent its slot: whoever had one before that passed it by no more.
    pub(crate) fn turns_granted(&mut self) {
        for id in &self.granted {
            if let Some(session) = self.sessions.get_mut(id) {
                session.passed_by.clear();
            }
        }
    }

    /// True where the run is open.
    pub fn is_open(&self, fence: Fence) -> bool {
        self.runs.get(&fence).is_some_and(|run| !run.over)
    }

    /// A node and all above it, up to its session.
    pub fn chain(&self, node: &NodeId) -> Vec<NodeId> {
        let above = |node: &NodeId| match node {
            NodeId::Session(_) => None,
            NodeId::Job(id) => self.jobs.get(id).map(|job| job.parent.clone()),
        };
        std::iter::successors(Some(node.clone()), above).collect()
    }

    /// True where a wake of the node may come later, as it was woken so often (W-7).
    pub fn may_be_spent(&self, node: &NodeId) -> bool {
        let Some(NodeId::Session(root)) = self.chain(node).pop() else { return false };
        let Some(session) = self.sessions.get(&root) else { return false };
        let bounds = [session.bounds.wakes, session.bounds.wakes_per_minute];
        bounds.into_iter().flatten().any(|most| session.woken >= most)
    }

    /// True where the node takes its children with it: it was closed or stopped, is over, or ended badly.
    pub fn is_going(&self, node: &NodeId) -> bool {
        match node {
            NodeId::Session(id) => self.sessions.get(id).is_none_or(|session| session.closed),
            NodeId::Job(id) => self.jobs.get(id).is_none_or(|job| {
                let failed = job.last.is_some_and(|last| last != RunOutcome::Completed);
                job.stop.is_some() || job.ended.is_some() || (job.run.is_none() && failed)
            }),
        }
    }

    /// True where the node, or one above it, takes its children with it.
    pub fn is_going_down(&self, node: &NodeId) -> bool {
        self.chain(node).iter().any(|node| self.is_going(node))
    }

    /// True where somebody can be woken there: an open session in no turn, or an open run.
    pub fn is_idle(&self, node: &NodeId) -> bool {
        !self.is_going(node)
            && match node {
                NodeId::Session(id) => self.sessions.get(id).is_some_and(|session| session.turn.is_none()),
                NodeId::Job(id) => self.jobs.get(id).is_some_and(|job| job.run.is_some()),
            }
    }

    /// True where every member is over.
    pub fn all_over(&self, group: &GroupSeen) -> bool {
        self.members(group).all(|job| job.ended.is_some())
    }

    /// Groups whose message nobody has taken, oldest first.
    pub fn owed(&self) -> impl Iterator<Item = (&GroupId, &GroupSeen)> {
        self.fired
            .iter()
            .filter_map(|id| self.groups.get(id).map(|group| (id, group)))
            .filter(|(_, group)| group.taken.is_none())
    }
}
