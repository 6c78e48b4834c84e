//! What can be asked of the machine: eleven of the model's twelve commands. `Post` comes with what needs it. Ids and chance come in with the command; the machine makes none.

use std::fmt;
use std::sync::Arc;

use fanin_protocol::cause::Exit;
use fanin_protocol::record::{Level, Usage};
use fanin_protocol::spec::SpecError;
use fanin_protocol::{
    Bounds, BoundsError, Budget, Cause, Code, Containment, Edges, Fence, GroupId, JobId, JobKind, Left,
    Lifetime, LogId, MessageId, Named, Output, PartKind, PartState, Policy, Profile, Promotion, Rights,
    SessionId, SharedLimits, Spec, Status,
};

use crate::clock::Mono;
use crate::foreground::PromoteTarget;
use crate::state::{JobKey, SessionKey};

/// A command. Each is one step, and the order of steps decides every race.
#[derive(Debug, Clone)]
pub enum Command {
    /// Begins an epoch; what older epochs left running is closed.
    Open(Open),
    /// Ends the epoch, by stages.
    Close(Close),
    /// Opens or closes a session, or begins a turn of it.
    Session(SessionCommand),
    /// Creates jobs: all or none.
    Launch(Launch),
    /// A message to an inbox or to a run, or mail between members of a group.
    Post(Post),
    /// Somebody begins to wait.
    Take(Take),
    /// Waiters leave (BAR-12).
    Release(Release),
    /// A waiter has what it was offered.
    Ack(WaiterId),
    /// Stops jobs.
    Stop(Stop),
    /// What a runner or a guard says.
    Report(Report),
    /// Changes a limit while what it binds lives.
    Limit(Limit),
    /// Time has passed.
    Tick,
}

/// `Open`. It is repeated while [`State::is_opening`](crate::State::is_opening) says so.
#[derive(Debug, Clone)]
pub struct Open {
    /// The log's name. An older log keeps its own.
    pub log: LogId,
    /// What the store survives.
    pub level: Level,
    /// Jobs that may run at once; `None` for no bound.
    pub slots: Option<u32>,
    /// Default time between the polite and the forced stop.
    pub grace_ms: u64,
    /// Chance, from which results draw their nonces and retries their gaps.
    pub seed: u64,
    /// How many jobs of a kind may start in a time.
    pub rates: Vec<(JobKind, Rate)>,
    /// How many mails one member of a team may send (T-6).
    pub sends_per_member: u32,
}

/// A bound on starts: at most so many in any span of that length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Starts; at least 1.
    pub starts: usize,
    /// The span in milliseconds; at least 1.
    pub per_ms: u64,
}

/// `Limit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// Jobs that may run at once; `None` for no bound. What runs goes on (SC-11).
    Slots(Option<u32>),
    /// More time for a job that is not over (SC-19).
    Extend {
        /// The job.
        job: JobId,
        /// Its lifetime; `None` for the newest.
        lifetime: Option<Lifetime>,
        /// How much more, in milliseconds.
        by_ms: u64,
    },
    /// Other bounds of a budget, where it has such already.
    Budget {
        /// Whose.
        of: Named,
        /// Those that are to be others.
        to: Budget,
    },
    /// So little space is left for the store that the host launches nothing more. It is only noted (ST-9).
    LowSpace,
}

/// `Close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// Refuse launches and start nothing more; what runs goes on.
    Drain,
    /// And stop all that lives, open turns too.
    Stop {
        /// Grace for each job; `None` for its own.
        grace_ms: Option<u64>,
        /// Another epoch follows: what it can take up stays queued, or is queued again (SH-4).
        keep: bool,
    },
    /// And write the last record. Refused while a run or a turn is open.
    Finish,
}

/// `Session`.
#[derive(Debug, Clone)]
pub enum SessionCommand {
    /// Opens a session, or finds it with the bounds it has.
    Open(SessionOpen),
    /// Begins a turn: the parent is busy until the turn's run ends.
    Turn(SessionId),
    /// Its user has said something: how often it was woken is counted anew (W-7).
    Spoke(SessionId),
    /// Closes it: the parent is gone (BAR-9).
    Close(SessionId),
}

/// A session to be opened.
#[derive(Debug, Clone)]
pub struct SessionOpen {
    /// Its id.
    pub id: SessionId,
    /// Who drives it.
    pub profile: Profile,
    /// What it and all below it may grow to.
    pub bounds: Bounds,
}

/// One job to launch.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its id.
    pub id: JobId,
    /// The host has just drawn the id by chance: nobody can have used it, so nobody needs to look.
    pub is_fresh: bool,
    /// Where the id is known and its job over, a new life of it is asked for (J-14).
    pub again: bool,
    /// What its launcher calls it.
    pub label: Option<Arc<str>>,
    /// What it shall do; `None` for a closure, which the host keeps.
    pub spec: Option<Arc<Spec>>,
    /// Its limits of time.
    pub limits: SharedLimits,
    /// The host's own mark for it, given back with each effect on it.
    pub tag: u64,
}

impl Member {
    /// What its body is.
    pub fn kind(&self) -> JobKind {
        self.spec.as_ref().map_or(JobKind::Closure, |spec| spec.kind())
    }
}

/// Who launches or waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parent {
    /// A session.
    Session(SessionId),
    /// An open run, of a job as a rule. It names the run and not the job, so that a stale run has no say (P5).
    Run(RunRef),
}

/// `Launch`.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The parent.
    pub parent: Parent,
    /// The group's id. Where it is known already, the existing group is the answer.
    pub group: GroupId,
    /// The host has just drawn the group's id by chance, so that the jobs' ids alone say what is known.
    pub is_fresh: bool,
    /// A single job joins the group of an open turn.
    pub joins_turn: bool,
    /// When the rest is stopped.
    pub policy: Policy,
    /// Which of the jobs need others of them, where any does.
    pub edges: Option<Arc<Edges>>,
    /// Who waits for the group from this step on: a foreground call. It joins no turn.
    pub foreground: Option<WaiterId>,
    /// The jobs in launch order.
    pub members: Vec<Member>,
}

/// `Post`.
#[derive(Debug, Clone)]
pub enum Post {
    /// To an inbox or a run; it is recorded, and owed until it is taken.
    Message(Posting),
    /// From one member of a group to another; it lives in memory alone, and there is no record of it (T-7).
    Mail {
        /// The run that sends.
        from: Parent,
        /// The other's id, or else its label.
        to: Arc<str>,
        /// Its text.
        text: Arc<str>,
    },
}

/// A message to be posted.
#[derive(Debug, Clone)]
pub struct Posting {
    /// To whom.
    pub to: PostTarget,
    /// Its key. Where it is known already, nothing is posted.
    pub key: MessageId,
    /// Its text.
    pub text: Arc<str>,
}

/// To whom a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostTarget {
    /// The inbox of a session: a user's words.
    Session(SessionId),
    /// The run of a job in its newest life: a follow-up.
    Job(JobId),
    /// The run of a job in this life and no other.
    Exact(JobId, Lifetime),
}

/// Why a follow-up was not accepted (J-24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotAccepted {
    /// It does not run yet.
    NotStarted,
    /// Its runner takes no follow-ups, does not yet, or does no longer.
    NotListening,
    /// It is being stopped.
    Stopping,
    /// It is over.
    Over,
}

impl fmt::Display for NotAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotStarted => "it has not started",
            Self::NotListening => "its runner takes none now",
            Self::Stopping => "it is being stopped",
            Self::Over => "it is over",
        })
    }
}

/// `Release`: who leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Release {
    /// This waiter; it gives back what it was offered.
    Waiter(WaiterId, Leave),
    /// The foreground calls that wait for this, whoever asks (SC-20).
    Promote(PromoteTarget),
}

/// Names a waiter; the host gives the number and never uses it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u64);

/// Why a waiter leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It is gone: its future was dropped, its connection lost.
    Left,
    /// Its limit passed. An answer that is held for the slot of its run is given now (SC-10).
    Limit,
}

/// `Take`: who waits, and for what. Until when is the host's own timer, so that a limit holds while the machine is
/// busy (R7).
#[derive(Debug, Clone)]
pub struct Take {
    /// The waiter's name.
    pub waiter: WaiterId,
    /// For what.
    pub wanted: Wanted,
}

/// What a waiter waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// All of these jobs, in the order of the answer.
    All(Parent, Vec<JobId>),
    /// The first of these jobs.
    Any(Parent, Vec<JobId>),
    /// This life of a job, whether or not the id has another one by now.
    Exact(Parent, JobId, Lifetime),
    /// A group's result.
    Group(Parent, GroupId),
    /// The next message in the inbox of the one who waits.
    Wake(Parent),
    /// The next message in a session's inbox, a result or a user's words.
    Message(SessionId),
    /// The next firing of a watch in a session's inbox, and nothing else of it.
    Hit(SessionId),
    /// The next mail for a member of a group. Where one is there the reply is [`Reply::Answered`].
    Mail {
        /// The run that receives.
        by: Parent,
        /// From this member alone, by its id or else its label.
        from: Option<Arc<str>>,
        /// It does not wait: where nothing is there the waiter has left, and the reply is [`Reply::Done`].
        at_once: bool,
    },
    /// No foreground call waits for this life of a job, or the job is over.
    Background(JobId, Lifetime),
    /// No run of a job is open any more.
    Idle,
}

/// What a stop is aimed at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopTarget {
    /// The newest lifetime of an id.
    Job(JobId),
    /// This lifetime and no other.
    Exact(JobId, Lifetime),
    /// All members of a group.
    Group(GroupId),
}

/// `Stop`.
#[derive(Debug, Clone)]
pub struct Stop {
    /// What is stopped.
    pub target: StopTarget,
    /// Why.
    pub cause: Cause,
    /// Time until the forced stop; `None` for the job's own.
    pub grace_ms: Option<u64>,
}

/// Where an open run is, so that a report finds it at once. The fence still decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunRef {
    /// Whose run.
    pub node: RunNode,
    /// The run's fence.
    pub fence: Fence,
}

/// Whose run it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunNode {
    /// A try of a job.
    Job(JobKey),
    /// A turn of a session.
    Turn(SessionKey),
}

/// `Report`.
#[derive(Debug, Clone)]
pub struct Report {
    /// Which run it is about.
    pub run: RunRef,
    /// What is said.
    pub what: Said,
}

/// What a runner or a guard may say of its run.
#[derive(Debug, Clone)]
pub enum Said {
    /// The work is in hand.
    Bound(Bound),
    /// A tool call moved.
    Part {
        /// The call's id inside the run.
        call: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// Tool or question.
        kind: PartKind,
        /// Where it is now.
        state: PartState,
        /// A digest of its arguments, where it is known: equal arguments, equal digests.
        args_hash: Option<u64>,
    },
    /// What it has used so far, by one of its meters.
    Used(Usage),
    /// It takes follow-ups from now on.
    Listens,
    /// It takes no more follow-ups; refused while one is left.
    Silent,
    /// It has taken a follow-up.
    Took(MessageId),
    /// It is a watch and has seen what it looks for: its parent is owed this text.
    Fired(Arc<str>),
    /// The answer to [`Effect::Probe`](crate::Effect::Probe): when the run last showed a sign of work.
    Beat(Mono),
    /// What it left when it was over is gone by now: somebody has looked.
    Gone,
    /// The run is over and all of it is gone, task joined and process reaped, but for what is named as left.
    Ended(Ended),
}

/// How to find a run from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bound {
    /// Its process.
    pub pid: Option<u32>,
    /// When that started, in clock ticks since the machine did.
    pub pid_start: Option<u64>,
    /// Since which start of the machine.
    pub boot_id: Option<Arc<str>>,
    /// Its process group.
    pub pgid: Option<u32>,
    /// How its processes are held together.
    pub containment: Option<Containment>,
    /// The agent's own name of its session.
    pub external_session: Option<String>,
    /// What an agent may do in it, at the most.
    pub rights: Option<Rights>,
}

/// How a run ended, by the word of its body or of its guard.
#[derive(Debug, Clone)]
pub enum Ended {
    /// The body ended well.
    Completed {
        /// What it put out.
        output: Option<Output>,
        /// How its process left.
        exit: Option<Exit>,
        /// What its processes left.
        left: Option<Arc<Left>>,
    },
    /// The body ended badly, or could not be started.
    Failed {
        /// `failed`, `panic` or `spawn`.
        cause: Cause,
        /// A finer word.
        code: Option<Code>,
        /// In words.
        message: Arc<str>,
        /// What it put out until then.
        output: Option<Output>,
        /// How its process left.
        exit: Option<Exit>,
        /// What its processes left.
        left: Option<Arc<Left>>,
        /// Nothing of the job had taken effect yet (SC-17).
        is_safe: bool,
    },
    /// The guard was dropped without a word of the body.
    Lost {
        /// What it had put out.
        output: Option<Output>,
    },
}

/// What a command is answered at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Done, or nothing to do.
    Done,
    /// A turn began.
    Turn(RunRef),
    /// The waiter whose limit passed has its answer, or is given it now.
    Answered,
    /// The jobs exist.
    Launched(Launched),
    /// The message is posted.
    Posted {
        /// False where it was known and nothing was posted (J-21).
        created: bool,
    },
    /// The watch has fired.
    Fired {
        /// How often it may still.
        left: u32,
    },
    /// What became of each stopped job, in launch order.
    Stopped(Vec<(JobId, Stopped)>),
    /// True where the job has more time now; false where it is over or stopping, or has no limit that could move.
    Extended(bool),
    /// What became of the foreground calls.
    Promoted(Promotion),
    /// Nothing was done.
    Refused(Refusal),
}

/// The answer to a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// The group the jobs are in.
    pub group: GroupId,
    /// Job and lifetime of each member of the call, in launch order.
    pub jobs: Vec<(JobId, Lifetime)>,
    /// False where the id was known and nothing was created (J-21).
    pub created: bool,
    /// True where what is known differs from what was asked for.
    pub spec_differs: bool,
}

/// What a stop did to one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It was told to stop and will end.
    Stopping,
    /// It had not started and is over now.
    Ended,
    /// It was over before, as this.
    AlreadyEnded(Status),
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No such session.
    #[error("session `{0}` is not known; open it first")]
    UnknownSession(SessionId),
    /// The session is closed.
    #[error("session `{0}` is closed")]
    SessionClosed(SessionId),
    /// The job, or one that it hangs below, is being stopped.
    #[error("job `{0}` is being stopped: nothing more is launched below it, and no wake comes")]
    Stopping(JobId),
    /// The run that asks is over.
    #[error("run {0} is over and has no say any more")]
    RunOver(Fence),
    /// A job would wait for itself, or for one that cannot end before it.
    #[error("the job would wait for `{0}`, which is the job itself or hangs above it and ends only after it")]
    OwnAncestor(JobId),
    /// It would hang too deep.
    #[error(
        "a job here would be at depth {depth}; at most {max} is allowed: launch it from a node higher up, or raise `depth`"
    )]
    Depth {
        /// How far below its session it would be.
        depth: u32,
        /// The bound.
        max: u32,
    },
    /// The session has an open turn.
    #[error("session `{0}` is in a turn already; one turn at a time")]
    TurnOpen(SessionId),
    /// No such job.
    #[error("job `{0}` is not known here")]
    UnknownJob(JobId),
    /// The job is over, and was kept for as long as finished jobs are.
    #[error("job `{0}` is over and no longer kept in memory")]
    Expired(JobId),
    /// The job has another lifetime now.
    #[error("job `{job}` is in lifetime {current}, not {asked}")]
    NotCurrent {
        /// The job.
        job: JobId,
        /// Its lifetime now.
        current: Lifetime,
        /// The lifetime that was asked for.
        asked: Lifetime,
    },
    /// No such group.
    #[error("group `{0}` is not known here")]
    UnknownGroup(GroupId),
    /// The group has another parent.
    #[error("group `{0}` belongs to another parent")]
    ForeignGroup(GroupId),
    /// Nothing to launch or to wait for.
    #[error("the list is empty; name at least one job")]
    Empty,
    /// Too many members.
    #[error("{members} members; a group has at most {max}")]
    TooMany {
        /// How many were given.
        members: usize,
        /// The bound.
        max: usize,
    },
    /// Too few members.
    #[error("{members} members; a group here has at least {min}: launch a single job by itself")]
    TooFew {
        /// How many were given.
        members: usize,
        /// The bound.
        min: usize,
    },
    /// The tree has launched all that it may.
    #[error(
        "{asked} jobs more, after {spawned}; a session's tree has at most {max} for life: open another session"
    )]
    SpawnTotal {
        /// Jobs of the tree so far.
        spawned: u32,
        /// Jobs of the call.
        asked: usize,
        /// The bound.
        max: u32,
    },
    /// A session's bounds make no sense.
    #[error("{0}")]
    BadBounds(BoundsError),
    /// An id stands twice in one call.
    #[error("job id `{0}` stands twice in one call")]
    DuplicateId(JobId),
    /// An id of the call is taken by a job of another group.
    #[error("job id `{0}` is in use by another group; choose another id, or leave it out")]
    IdInUse(JobId),
    /// A new life was asked for, and something of the last one may still be alive.
    #[error(
        "job `{job}`: its lifetime {lifetime} was left unreaped and may still be alive; a new one has to wait"
    )]
    StillReaping {
        /// The job.
        job: JobId,
        /// Its lifetime now.
        lifetime: Lifetime,
    },
    /// A spec, label or limit is not acceptable.
    #[error("job {index}: {error}")]
    BadSpec {
        /// Its place in the call, from 0.
        index: usize,
        /// The job.
        job: JobId,
        /// What is wrong.
        error: SpecError,
    },
    /// A follow-up cannot be answered any more, or not yet.
    #[error("job `{job}` did not accept it: {why}")]
    NotAccepted {
        /// The job.
        job: JobId,
        /// Why.
        why: NotAccepted,
    },
    /// A prompt or a message is too long.
    #[error("{}{bytes} bytes; at most {max} are allowed: put the rest into a file", of_job(.index))]
    TooLarge {
        /// The job's place in the call, from 0; none of a message.
        index: Option<usize>,
        /// Its length.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// Too many messages wait there.
    #[error("{max} messages wait there already; let some be taken first")]
    InboxFull {
        /// The bound.
        max: usize,
    },
    /// Mail is for members of a group with edges.
    #[error(
        "this job has no mail: it is in no group whose jobs need others of it or declare to whom they send"
    )]
    NoTeam,
    /// No member of the group is called so.
    #[error("no job of this group is called `{name}`, or several are; {}", reachable(.known))]
    UnknownTarget {
        /// What was asked for.
        name: Arc<str>,
        /// Those with whom mail can be exchanged so, eight at most.
        known: Vec<Arc<str>>,
    },
    /// A member would send to itself, or receive from itself.
    #[error("`{0}` is this job itself")]
    SelfTarget(Arc<str>),
    /// Mail does not go that way.
    #[error(
        "`{from}` may not send to `{to}`: mail goes as it was declared, else only to jobs later in the plan"
    )]
    NotAllowed {
        /// Who would send.
        from: Arc<str>,
        /// To whom.
        to: Arc<str>,
    },
    /// The other member is over.
    #[error("`{0}` is over or is being stopped: it receives nothing any more, and no mail of it is left")]
    TargetFinished(Arc<str>),
    /// Too much mail waits.
    #[error("{0} already; let some be received first")]
    MailboxFull(String),
    /// The member has sent all that it may.
    #[error("{0} mails were sent, and a member may send no more (`sends_per_member`)")]
    SendsSpent(u32),
    /// The supervisor was started again since the group was launched.
    #[error("mail that waited is gone, the supervisor was started again; receive again to go on (told once)")]
    MailboxReset,
    /// The job is being stopped, or its group will have no result.
    #[error("the mailbox is closed: this job is being stopped")]
    MailboxClosed,
    /// A run that takes no more follow-ups has some left.
    #[error("{0} follow-ups are left to be taken")]
    MessagesLeft(usize),
    /// Only a watch fires.
    #[error("job `{0}` is no watch: give it the number of its firings")]
    NoWatch(JobId),
    /// The watch has fired as often as it may.
    #[error("watch `{job}` has fired {max} times and may fire no more")]
    FiringsSpent {
        /// The watch.
        job: JobId,
        /// The bound.
        max: u32,
    },
    /// A watch cannot be launched so.
    #[error("job {index} is a watch: {problem}")]
    BadWatch {
        /// Its place in the call, from 0.
        index: usize,
        /// What is wrong and what would be right.
        problem: &'static str,
    },
    /// A limit cannot be set to this.
    #[error("{0}")]
    BadLimit(SpecError),
    /// A budget bounds nothing that its jobs could ever tell of (BU-6).
    #[error("{}nothing that it bounds is told of by such jobs; add `time`, which is always known", of_budget(.index))]
    UnboundBudget {
        /// The job's place in the call, from 0; none of a group's budget.
        index: Option<usize>,
    },
    /// The policy cannot be met.
    #[error("{0}")]
    BadPolicy(String),
    /// Members need what they cannot need. All that is wrong is named.
    #[error("{}", .0.join("; "))]
    BadPlan(Vec<String>),
    /// Too many jobs wait for a slot.
    #[error("queue full: {queued} jobs wait and {asked} more were asked for; at most {max} may wait")]
    QueueFull {
        /// Jobs that wait.
        queued: usize,
        /// Jobs of the call.
        asked: usize,
        /// The bound.
        max: usize,
    },
    /// The supervisor is shutting down.
    #[error("the supervisor is shutting down and takes no new work")]
    Draining,
    /// The epoch is over, or none has begun.
    #[error("the supervisor is not open")]
    NotOpen,
    /// A run is open where none may be.
    #[error("{0} runs are still open")]
    RunsOpen(u32),
    /// The waiter's name was used before.
    #[error("waiter {0:?} is known already")]
    DuplicateWaiter(WaiterId),
}

/// Ends a text that says whom a member can reach.
fn reachable(known: &[Arc<str>]) -> String {
    if known.is_empty() {
        "there is nobody".to_owned()
    } else {
        format!("there are `{}`", known.join("`, `"))
    }
}

/// Begins a text that is about one job of a call.
fn of_job(index: &Option<usize>) -> String {
    index.map_or_else(String::new, |index| format!("job {index}: a prompt of "))
}

/// Begins a text that is about a budget of a call.
fn of_budget(index: &Option<usize>) -> String {
    index.map_or_else(|| "budget: ".to_owned(), |index| format!("job {index}: budget: "))
}

impl Refusal {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownSession(_) => "unknown_session",
            Self::SessionClosed(_) => "session_closed",
            Self::Stopping(_) => "stopping",
            Self::RunOver(_) => "run_over",
            Self::OwnAncestor(_) => "own_ancestor",
            Self::Depth { .. } => "depth",
            Self::TurnOpen(_) => "turn_open",
            Self::UnknownJob(_) => "unknown_job",
            Self::Expired(_) => "expired",
            Self::NotCurrent { .. } => "not_current",
            Self::UnknownGroup(_) => "unknown_group",
            Self::ForeignGroup(_) => "foreign_group",
            Self::Empty => "empty",
            Self::TooMany { .. } => "too_many",
            Self::TooFew { .. } => "too_few",
            Self::SpawnTotal { .. } => "spawn_total",
            Self::BadBounds(_) => "bad_bounds",
            Self::DuplicateId(_) => "duplicate_id",
            Self::IdInUse(_) => "id_in_use",
            Self::StillReaping { .. } => "still_reaping",
            Self::BadSpec { .. } => "bad_spec",
            Self::NotAccepted { .. } => "not_accepted",
            Self::TooLarge { .. } => "too_large",
            Self::InboxFull { .. } => "inbox_full",
            Self::NoTeam => "no_team",
            Self::UnknownTarget { .. } => "unknown_target",
            Self::SelfTarget(_) => "self_target",
            Self::NotAllowed { .. } => "not_allowed",
            Self::TargetFinished(_) => "target_finished",
            Self::MailboxFull(_) => "mailbox_full",
            Self::SendsSpent(_) => "sends_spent",
            Self::MailboxReset => "mailbox_reset",
            Self::MailboxClosed => "closed",
            Self::MessagesLeft(_) => "messages_left",
            Self::NoWatch(_) => "no_watch",
            Self::FiringsSpent { .. } => "firings_spent",
            Self::BadWatch { .. } => "bad_watch",
            Self::BadLimit(_) => "bad_limit",
            Self::UnboundBudget { .. } => "unbound_budget",
            Self::BadPolicy(_) => "bad_policy",
            Self::BadPlan(_) => "bad_plan",
            Self::QueueFull { .. } => "queue_full",
            Self::Draining => "draining",
            Self::NotOpen => "not_open",
            Self::RunsOpen(_) => "runs_open",
            Self::DuplicateWaiter(_) => "duplicate_waiter",
        }
    }
}
