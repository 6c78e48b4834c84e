//! All that the machine knows: facts, which are the fold of the records, and memory, which a crash may take.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fanin_protocol::cause::Exit;
use fanin_protocol::record::{RunOutcome, StopTarget};
use fanin_protocol::{
    About, Bounds, Cause, Code, CombinedResult, Counts, Edges, Fence, GroupId, Hit, JobId, JobKind,
    JobLimits, Left, Lifetime, LogId, MessageId, Output, Policy, RowKind, Seq, SessionId, SharedLimits, Spec,
    Status,
};

use serde::{Deserialize, Serialize};

use crate::activity::Clocks;
use crate::autonomy::Woken;
use crate::circuit::Starts;
use crate::clock::{Clock, Mono};
use crate::command::WaiterId;
use crate::evict::Finished;
use crate::lend::Lending;
use crate::mail::Team;
use crate::plan::Plan;
use crate::quota::Quotas;
use crate::repeats::Repeat;
use crate::rows::Changes;
use crate::sweep::Sweep;
use crate::timers::Timers;
use crate::waiter::Waiter;

mod accounts;
mod arena;
mod index;
mod parts;
mod runs;
mod unreaped;

pub(crate) use accounts::{Ledger, Meters, Payer, is_of_budget, set_budget};
pub(crate) use arena::Arena;
use index::Index;
pub(crate) use parts::Parts;
use runs::Runs;
pub(crate) use unreaped::Unreaped;

macro_rules! key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub(crate) u32);

        impl $name {
            pub(crate) const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

key!(
    /// Where a job is kept.
    JobKey
);
key!(
    /// Where a session is kept.
    SessionKey
);
key!(
    /// Where a group is kept.
    GroupKey
);

/// The whole state.
///
/// `facts` change only in [`Facts::apply`]; `memory` is what a crash takes away: who waits, what is armed, what the
/// host was told.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub(crate) facts: Facts,
    pub(crate) memory: Memory,
}

/// What the records say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Name of the log.
    pub(crate) log: Option<LogId>,
    /// The epoch: the sequence number of the last `store.opened`.
    pub(crate) epoch: Seq,
    /// True after `store.closed`.
    pub(crate) closed: bool,
    /// The last record.
    pub(crate) head: Seq,
    /// Its time.
    pub(crate) ts_ms: u64,
    pub(crate) sessions: Arena<Session>,
    pub(crate) jobs: Arena<Job>,
    pub(crate) groups: Arena<Group>,
    pub(crate) session_index: Index<SessionId, SessionKey>,
    pub(crate) job_index: Index<JobId, JobKey>,
    pub(crate) group_index: Index<GroupId, GroupKey>,
    /// Posted messages that nobody has taken, by whom they are for and by their places.
    pub(crate) posted: BTreeMap<(Node, Seq), Posted>,
    /// Keys of posted messages, the newest ones.
    pub(crate) message_keys: MessageKeys,
    /// Where each open run is.
    pub(crate) runs: Runs,
    /// Open runs of jobs, which are the slots in use. Changed where a run starts or ends, nowhere else.
    pub(crate) running: u32,
    /// Jobs in `queued`. Changed where a job is queued or queued again, starts, or ends from the queue, nowhere else.
    pub(crate) queued: u32,
    /// What a store does not know yet.
    pub(crate) changes: Changes,
}

/// A node of the tree that can have a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Node {
    Session(SessionKey),
    Job(JobKey),
}

/// A parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// What its records are about.
    pub(crate) about: Arc<About>,
    pub(crate) closed: bool,
    /// The open turn.
    pub(crate) turn: Option<OpenRun>,
    pub(crate) turns: u32,
    /// The group that the open turn's launches join; not sealed yet.
    pub(crate) turn_group: Option<GroupKey>,
    pub(crate) below: Below,
    pub(crate) bounds: Bounds,
    /// Jobs that its tree has launched, for life. Changed where one is queued, nowhere else.
    pub(crate) spawned: u32,
    /// Jobs of its tree in `queued`, as in [`Facts::queued`].
    pub(crate) queued: u32,
    /// Open runs of its tree's jobs, as in [`Facts::running`].
    pub(crate) running: u32,
    /// Jobs of its tree that are kept here.
    pub(crate) jobs: u32,
    /// Its account, once there is anything in it.
    pub(crate) ledger: Option<Box<Ledger>>,
}

/// What hangs below a node that has launched: a session has it always, a job from its first launch to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Below {
    /// Groups that have not fired; a voided one until its last member is over. Empty: the subtree is over.
    pub(crate) open: BTreeSet<GroupKey>,
    /// Fired groups whose message nobody has taken, oldest first.
    pub(crate) inbox: VecDeque<GroupKey>,
}

/// A posted message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) key: MessageId,
    pub(crate) text: Arc<str>,
    /// The watch that fired, where it is one's hit.
    pub(crate) hit: Option<Box<Hit>>,
}

/// Keys of posted messages: a known one is not posted again (J-21).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MessageKeys {
    pub(crate) places: BTreeMap<MessageId, (Node, Seq)>,
    /// Oldest first.
    pub(crate) order: VecDeque<MessageId>,
}

impl MessageKeys {
    /// The message of a place, and whom it is for.
    pub(crate) fn at(&self, seq: Seq) -> Option<(&MessageId, Node)> {
        // They stand in the order of their places.
        let place = |key: &MessageId| self.places.get(key).map(|(_, seq)| *seq);
        let index = self.order.partition_point(|key| place(key).is_some_and(|at| at < seq));
        let key = self.order.get(index)?;
        let (node, at) = self.places.get(key)?;
        (*at == seq).then_some((key, *node))
    }
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenRun {
    pub(crate) fence: Fence,
    /// Its runner has it in hand. A closure is in hand as soon as it is started.
    pub(crate) bound: bool,
    pub(crate) parts: Parts,
    /// It has told what it used, so something came of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) used: bool,
    /// What it was given and has told, where it is anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) meters: Option<Box<Meters>>,
}

/// A job in one of its lifetimes. Its id names the newest of them; the others are found by their lifetimes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    /// What its records are about.
    #[serde(skip)]
    pub(crate) about: Arc<About>,
    pub(crate) lifetime: Lifetime,
    /// The session of its tree. Who launched it is its group's parent.
    pub(crate) session: SessionKey,
    pub(crate) group: GroupKey,
    pub(crate) index: u32,
    pub(crate) kind: JobKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<Arc<Spec>>,
    pub(crate) limits: SharedLimits,
    pub(crate) queued_at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_at_ms: Option<u64>,
    pub(crate) runs: u32,
    /// Those of them that a crash interrupted and that were followed by another.
    #[serde(default)]
    pub(crate) crashed: u32,
    /// Those that an orderly stop has queued again.
    #[serde(default)]
    pub(crate) suspended: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<OpenRun>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<StopIntent>,
    /// How its last run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<LastRun>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<End>,
    /// Its result was taken by a wait of its parent.
    pub(crate) taken: bool,
    /// Follow-ups that it had accepted and that are void.
    pub(crate) unanswered: u32,
    /// How often it has fired, of a watch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) fired: u32,
    /// Its account, once there is anything in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ledger: Option<Box<Ledger>>,
    /// What it has launched; apart, since most jobs launch nothing.
    #[serde(default, with = "has_launched")]
    pub(crate) below: Option<Box<Below>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Of what hangs below a job a row says only whether there ever was anything; what it is follows from the groups.
mod has_launched {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Below;

    pub(super) fn serialize<S: Serializer>(
        below: &Option<Box<Below>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        below.is_some().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Box<Below>>, D::Error> {
        Ok(bool::deserialize(deserializer)?.then(Box::default))
    }
}

/// A recorded wish to stop a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StopIntent {
    pub(crate) target: StopTarget,
    pub(crate) cause: Cause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<Code>,
    /// What this one took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Cause>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRun {
    pub(crate) outcome: RunOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<Code>,
    /// What there is to say of it, apart: most runs of a large fan-out have nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<Box<RunDetails>>,
}

/// What a run left to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunDetails {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Output>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<Arc<Left>>,
    /// Another try follows, not before this time (J-7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_at_ms: Option<u64>,
}

impl LastRun {
    /// True where something of it may still be alive.
    pub(crate) fn is_unreaped(&self) -> bool {
        self.details.as_ref().and_then(|details| details.left.as_ref()).is_some_and(|left| left.is_unreaped())
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<Code>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<u32>,
    pub(crate) interrupted: bool,
    pub(crate) unreaped: bool,
    pub(crate) completed_anyway: bool,
    pub(crate) at_ms: u64,
}

impl Job {
    /// The public status, derived.
    pub(crate) fn status(&self) -> Status {
        match (&self.ended, &self.run) {
            (Some(end), _) => end.status,
            (None, Some(_)) => Status::Running,
            (None, None) if self.is_joining() => Status::Running,
            (None, None) => Status::Queued,
        }
    }

    /// True where it looks for something and tells its parent of it; nobody waits for its end (SC-22).
    pub(crate) fn is_watch(&self) -> bool {
        self.limits.firings.is_some()
    }

    /// True where its body is over and its children are not, so it is not over either (J-5).
    pub(crate) fn is_joining(&self) -> bool {
        self.run.is_none() && self.ended.is_none() && !self.awaits_start()
    }

    /// True where its last run did not end well.
    pub(crate) fn has_failed(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.outcome != RunOutcome::Completed)
    }

    /// True where it waits for a start: its first, or one more after a run that failed.
    pub(crate) fn awaits_start(&self) -> bool {
        self.ended.is_none() && self.run.is_none() && (self.last.is_none() || self.retry_at_ms().is_some())
    }

    /// When the next try is due, where its last run is followed by one.
    pub(crate) fn retry_at_ms(&self) -> Option<u64> {
        let last = self.last.as_ref().filter(|_| self.run.is_none() && self.ended.is_none())?;
        last.details.as_ref()?.retry_at_ms
    }

    /// Its limits, with the defaults of its kind.
    pub(crate) fn limits(&self) -> JobLimits {
        self.limits.or(JobLimits::of_kind(self.kind))
    }
}

/// Jobs launched together, and the rule that fires once all of them are over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    /// What its records are about.
    pub(crate) about: Arc<About>,
    pub(crate) parent: Node,
    pub(crate) members: Vec<JobKey>,
    pub(crate) policy: Policy,
    pub(crate) edges: Option<Arc<Edges>>,
    pub(crate) sealed: bool,
    pub(crate) sealed_at_ms: u64,
    /// Cached from the members, changed only where one settles (BAR-1); `launched` is their number.
    pub(crate) counts: Counts,
    pub(crate) fired: Option<Arc<CombinedResult>>,
    /// Where: its message comes after what was posted before, and before what was posted later.
    pub(crate) fired_at: Seq,
    pub(crate) voided: Option<Cause>,
    /// Members whose results were taken one by one. Changed where one is taken, nowhere else.
    pub(crate) results_taken: u32,
    /// The message of the fired group was taken, or is void.
    pub(crate) taken: bool,
    /// It is void: its parent went first.
    pub(crate) void: bool,
    /// Its account, once there is anything in it.
    pub(crate) ledger: Option<Box<Ledger>>,
}

/// Where a group is, derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Members may still join.
    Open,
    /// Sealed, members alive.
    Running,
    /// Sealed, members alive, and a rule of the policy has come true.
    Decided,
    /// Sealed and all members over: it fires in this step.
    Ended,
    /// The result is fixed.
    Fired,
    /// Its parent ended first.
    Voided,
}

impl Group {
    /// Where the group is. `is_told` is what it cannot see in its own facts: a deadline passed, or the plan failed as a whole.
    pub(crate) fn phase(&self, is_told: bool) -> Phase {
        let launched = self.counts.launched;
        let not_ok = self.counts.error + self.counts.cancelled;
        if self.voided.is_some() {
            Phase::Voided
        } else if self.fired.is_some() {
            Phase::Fired
        } else if !self.sealed {
            Phase::Open
        } else if self.counts.ended() == launched {
            Phase::Ended
        } else if self.policy.ok.is_some_and(|n| self.counts.completed >= n)
            || self.policy.not_ok.is_some_and(|n| not_ok >= n)
            || is_told
        {
            Phase::Decided
        } else {
            Phase::Running
        }
    }
}

/// What a crash takes away.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// This process has opened the log.
    pub(crate) opened: bool,
    /// The time of the record that says so.
    pub(crate) opened_ms: u64,
    /// The time of the last record before that.
    pub(crate) died_ms: u64,
    /// Runs of older epochs that are still to be closed, oldest first; `None` once nothing of them is left.
    pub(crate) opening: Option<VecDeque<Node>>,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) closing: Closing,
    pub(crate) timers: Timers,
    /// The alarm that the host was last told.
    pub(crate) alarm: Option<Mono>,
    /// Watches that are to start: they need no slot.
    pub(crate) watches: VecDeque<JobKey>,
    /// Queued jobs by session in launch order; one that is not queued any more is skipped when it comes up.
    pub(crate) ready: BTreeMap<SessionKey, VecDeque<JobKey>>,
    /// Sessions with something in line, in the order of their turns (SC-9), and the same without an order.
    pub(crate) round: VecDeque<SessionKey>,
    pub(crate) in_round: BTreeSet<SessionKey>,
    /// Slots that are lent.
    pub(crate) lending: Lending,
    /// The host's mark of each job, by its key.
    pub(crate) tags: Arena<u64>,
    pub(crate) waiters: BTreeMap<WaiterId, Waiter>,
    /// Waiters of a job's run: it takes them with it.
    pub(crate) waits_of: BTreeMap<JobKey, Vec<WaiterId>>,
    /// Waiters by the job they look at.
    pub(crate) job_waiters: BTreeMap<JobKey, Vec<WaiterId>>,
    /// Waiters by the group they look at.
    pub(crate) group_waiters: BTreeMap<GroupKey, Vec<WaiterId>>,
    /// Takers of an inbox, first come first served.
    pub(crate) takers: BTreeMap<Node, VecDeque<WaiterId>>,
    /// Messages that a taker holds and has not acknowledged, and which taker.
    pub(crate) offered: BTreeMap<GroupKey, WaiterId>,
    /// Waiters for the time when no run is open.
    pub(crate) idle_waiters: Vec<WaiterId>,
    /// When each sealed group was sealed, and whether its deadline passed.
    pub(crate) barriers: BTreeMap<GroupKey, Barrier>,
    /// How far the plans of such groups have come.
    pub(crate) plans: BTreeMap<GroupKey, Plan>,
    /// Mail of such groups, from the first time that a member asks for it.
    pub(crate) teams: BTreeMap<GroupKey, Team>,
    /// How often the parents of sessions were woken.
    pub(crate) woken: BTreeMap<SessionKey, Woken>,
    /// Posted messages that a taker holds and has not acknowledged.
    pub(crate) offered_posts: BTreeMap<(Node, Seq), WaiterId>,
    /// Runs whose runner takes follow-ups.
    pub(crate) listening: BTreeSet<Fence>,
    /// The clocks of jobs that have limits of time and have been started.
    pub(crate) clocks: BTreeMap<JobKey, Clocks>,
    /// The last call of each run whose calls are counted.
    pub(crate) repeats: BTreeMap<JobKey, Repeat>,
    /// How starts go, by kind.
    pub(crate) starts: Starts,
    /// What waits for a budget, and times that count.
    pub(crate) quotas: Quotas,
    /// Runs that were told to end by force.
    pub(crate) forced: BTreeSet<Fence>,
    /// Runs whose time to go is over and that wait for those below them to be given up first.
    pub(crate) overdue: BTreeSet<Fence>,
    /// When all below a stopped job is stopped by force: the one deadline of its subtree (SC-2).
    pub(crate) force_at: BTreeMap<JobKey, Mono>,
    /// What is still to be told below nodes that go.
    pub(crate) sweeps: VecDeque<Sweep>,
    /// Jobs of this epoch of whose last run something may have lived on.
    pub(crate) unreaped: BTreeMap<JobKey, Unreaped>,
    /// Stale runs that a note was written for, the newest ones.
    pub(crate) noted: BTreeSet<Fence>,
    /// What is over and may leave the memory.
    pub(crate) finished: Finished,
    /// What may have to move on, in this step.
    pub(crate) dirty: Dirty,
    /// A step left something for the next `Tick` and has asked for it.
    pub(crate) asked_for_tick: bool,
}

/// What is known of an unfired group in this epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Barrier {
    pub(crate) sealed_at: Mono,
    /// When it counts as quiet, unless there is a record about one of its members; and whether that was noted.
    pub(crate) quiet_at: Mono,
    pub(crate) is_quiet: bool,
    pub(crate) deadline_passed: bool,
    /// A member that the whole group cannot do without was not started (T-4).
    pub(crate) plan_failed: bool,
    /// The rest was told to stop.
    pub(crate) is_stopped: bool,
}

/// Settings of an epoch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) slots: Option<u32>,
    pub(crate) grace_ms: u64,
    pub(crate) seed: u64,
    pub(crate) sends_per_member: u32,
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Closing {
    /// Not at all.
    #[default]
    No,
    /// Nothing new starts.
    Draining,
    /// What lived was told to stop.
    Stopping,
}

/// Things whose facts changed, to be settled before the step ends. Jobs come before groups and groups before
/// inboxes, so that waiters are answered before a message goes to an inbox (BAR-10). First come, first settled: a
/// recovery that ends many owes their messages in the order of their launches (S-2).
#[derive(Debug, Clone, Default)]
pub(crate) struct Dirty {
    pub(crate) jobs: VecDeque<JobKey>,
    /// Jobs that are over, for those that need them.
    pub(crate) needed: VecDeque<JobKey>,
    /// Members of plans that are to be skipped, by their place in the order of the plan.
    pub(crate) skips: BTreeSet<(GroupKey, u32)>,
    pub(crate) groups: VecDeque<GroupKey>,
    pub(crate) inboxes: VecDeque<Node>,
    /// Budgets that may be used up.
    pub(crate) quotas: VecDeque<Payer>,
    /// Runs that may have begun or ended to wait.
    pub(crate) lends: VecDeque<JobKey>,
    /// Groups that a foreground call has left.
    pub(crate) calls: Vec<GroupKey>,
}

impl State {
    /// The facts.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// A state that starts from recovered facts; `Open` is its first command.
    pub fn recovered(facts: Facts) -> Self {
        Self { facts, memory: Memory::default() }
    }

    /// Gives each recovered job that is not over the host's mark that `tag` makes for it.
    pub fn give_tags(&mut self, mut tag: impl FnMut() -> u64) {
        for (place, job) in self.facts.jobs.iter() {
            if job.ended.is_none() {
                self.memory.tags.insert(place as usize, tag());
            }
        }
    }

    pub(crate) fn job(&self, key: JobKey) -> Option<&Job> {
        self.facts.jobs.get(key.index())
    }

    pub(crate) fn group(&self, key: GroupKey) -> Option<&Group> {
        self.facts.groups.get(key.index())
    }

    pub(crate) fn session(&self, key: SessionKey) -> Option<&Session> {
        self.facts.sessions.get(key.index())
    }

    /// True where the node is a session in a turn: it is busy, and its wakes are held (W-4).
    pub(crate) fn is_in_turn(&self, node: Node) -> bool {
        match node {
            Node::Session(key) => self.session(key).is_some_and(|session| session.turn.is_some()),
            Node::Job(_) => false,
        }
    }

    /// The group's phase with what this epoch knows of its deadline and its plan.
    pub(crate) fn phase(&self, key: GroupKey) -> Option<Phase> {
        let barrier = self.memory.barriers.get(&key);
        let is_told = barrier.is_some_and(|barrier| barrier.deadline_passed || barrier.plan_failed);
        self.group(key).map(|group| group.phase(is_told))
    }

    pub(crate) fn tag(&self, key: JobKey) -> u64 {
        self.memory.tags.get(key.index()).copied().unwrap_or_default()
    }
}

impl Facts {
    /// The open run of a node.
    pub(crate) fn fence_of(jobs: &Arena<Job>, sessions: &Arena<Session>, node: Node) -> Option<Fence> {
        let run = match node {
            Node::Job(key) => jobs.get(key.index())?.run.as_ref(),
            Node::Session(key) => sessions.get(key.index())?.turn.as_ref(),
        };
        run.map(|run| run.fence)
    }

    /// Lets a job go that is over; what names it must be gone, or not mind.
    pub(crate) fn forget_job(&mut self, key: JobKey) -> Option<Job> {
        let job = self.jobs.remove(key.index())?;
        self.retire_job(key, &job);
        // Where the id has a newer life, that one stays.
        self.job_index.remove(&job.id, |known| known == key);
        if let Some(session) = self.sessions.get_mut(job.session.index()) {
            session.jobs = session.jobs.saturating_sub(1);
        }
        Some(job)
    }

    /// Lets a group go whose jobs are gone.
    pub(crate) fn forget_group(&mut self, key: GroupKey) -> Option<Group> {
        let group = self.groups.remove(key.index())?;
        self.retire_group(key, &group);
        self.group_index.remove(&group.id, |known| known == key);
        Some(group)
    }

    /// Lets a session go of which nothing is left.
    pub(crate) fn forget_session(&mut self, key: SessionKey) -> Option<Session> {
        self.retire_row(RowKind::Session, key.0.into());
        let session = self.sessions.remove(key.index())?;
        self.session_index.remove(&session.id, |known| known == key);
        Some(session)
    }

    /// Lets go what others have let go, for a comparison: what leaves the memory leaves no record.
    pub fn forget_absent(&mut self, others: &Self) {
        let absent = |place: &u32, is_there: bool| (!is_there).then_some(*place);
        let jobs = self.jobs.places();
        for place in jobs.iter().filter_map(|place| absent(place, others.jobs.get(*place as usize).is_some()))
        {
            self.forget_job(JobKey(place));
        }
        let groups = self.groups.places();
        for place in
            groups.iter().filter_map(|place| absent(place, others.groups.get(*place as usize).is_some()))
        {
            self.forget_group(GroupKey(place));
        }
        let sessions = self.sessions.places();
        let gone =
            sessions.iter().filter_map(|place| absent(place, others.sessions.get(*place as usize).is_some()));
        for place in gone {
            self.forget_session(SessionKey(place));
        }
    }

    /// Where the job of an id is, in its newest lifetime.
    pub(crate) fn job_key(&self, id: &JobId) -> Option<JobKey> {
        self.job_index.get(id, |key| self.jobs.get(key.index()).is_some_and(|job| job.id == *id))
    }

    /// Where the group of an id is.
    pub(crate) fn group_key(&self, id: &GroupId) -> Option<GroupKey> {
        self.group_index.get(id, |key| self.groups.get(key.index()).is_some_and(|group| group.id == *id))
    }

    /// Where the session of an id is.
    pub(crate) fn session_key(&self, id: &SessionId) -> Option<SessionKey> {
        self.session_index.get(id, |key| self.sessions.get(key.index()).is_some_and(|kept| kept.id == *id))
    }

    /// The last record's time, in milliseconds since the Unix epoch.
    pub const fn ts_ms(&self) -> u64 {
        self.ts_ms
    }

    /// The number of the epoch.
    pub const fn epoch(&self) -> Seq {
        self.epoch
    }

    /// The last record's place.
    pub const fn head(&self) -> Seq {
        self.head
    }

    /// The name of the log; `None` before the first `store.opened`.
    pub const fn log(&self) -> Option<&LogId> {
        self.log.as_ref()
    }
}
