//! A machine with all that is around it in a test: clock, host, parent, and the ledger of its records. Every step is
//! checked.

use fanin_machine::{
    Bound, Close, Command, Effect, Ended, Facts, Forgotten, Launch, Leave, Limit, Member, Mono, Now, Open,
    Out, Parent as By, Post, PostTarget, Posting, PromoteTarget, Promotion, Rate, Release, Reply, Report,
    RunRef, Said, SessionCommand, SessionOpen, State, Stop, StopTarget, Take, WaiterId, Wanted, step,
};
use fanin_protocol::limits::MAIL_SENDS_MAX;
use fanin_protocol::record::{Level, Usage};

use fanin_protocol::{
    AgentSpec, Bounds, Cause, Code, CommandSpec, Entry, Fence, JobId, JobKind, Left, LeftProcess, Lifetime,
    LogId, NodeId, Output, Private, Profile, Spec, WatchSpec, When,
};
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::broken::{Broken, Kept, ensure};
use crate::host::Host;
use crate::invariants;
use crate::ledger::Ledger;
use crate::lending;
use crate::mails;
use crate::op::{Aim, How, Launching, Op, Promoted, Wish};
use crate::parent::Parent;
use crate::rows::Rows;

/// What holds for a whole test.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Jobs that may run at once.
    pub slots: Option<u32>,
    /// Grace of jobs that set none, in milliseconds.
    pub grace_ms: u64,
    /// So many commands may start in so many milliseconds.
    pub rate: Option<(usize, u64)>,
    /// Compare the facts with the fold of the records after every step, not only where a test asks for it.
    pub fold_each: bool,
    /// Keep the whole log.
    pub keep_log: bool,
    /// What holds for a state however it came about is checked by who made the step, and not after each.
    pub states_apart: bool,
    /// Check what costs a look at every job at each step of this many only; 0 and 1 are every step.
    pub sparse: u32,
    /// Keep rows as a store does, and recover from them.
    pub keep_rows: bool,
    /// The wall clock stands still, so that states differ in times of one clock only.
    pub wall_stands: bool,
    /// How many mails a member may send; `None` for what is usual.
    pub sends: Option<u32>,
}

/// The machine and its surroundings.
#[derive(Debug, Clone)]
pub struct World {
    /// The machine.
    pub state: State,
    /// What its records say.
    pub ledger: Ledger,
    /// What its waiters have.
    pub parent: Parent,
    /// What its host was told.
    pub host: Host,
    /// The time of the next step.
    pub now: Now,
    /// Jobs that have left the memory.
    pub gone: BTreeSet<Lifetime>,
    /// What a store would hold, where the test keeps one.
    pub rows: Rows,
    /// What holds for the whole test.
    pub options: Options,
    /// Jobs that may run at once, now.
    pub slots: Option<u32>,
    /// Crashes so far.
    pub crashes: u32,
    /// A step had more to do than fits in one, and has not had its `Tick` yet.
    pub unfinished: bool,
    /// True while this process has the store open.
    pub opened: bool,
    /// 1 once it drains, 2 once all was told to stop.
    pub closing: u8,
    /// Steps so far.
    pub steps: u32,
    /// The records of all steps, where they are kept.
    pub log: Vec<Entry>,
    /// Where in `log` each step ends.
    pub commits: Vec<usize>,
    /// Who is about to wait, and for what.
    asking: Option<(WaiterId, Wish)>,
    /// A mail that is about to be sent.
    sending: Option<(JobId, JobId, Arc<str>)>,
}

/// Where the wall clock of every test begins.
pub const WALL_MS: u64 = 1_000_000_000;

impl World {
    /// A machine that has seen nothing.
    pub fn new(options: Options) -> Self {
        Self {
            state: State::default(),
            ledger: Ledger { is_rated: options.rate.is_some(), ..Ledger::default() },
            parent: Parent::default(),
            host: Host::default(),
            now: Now { wall_ms: WALL_MS, mono: Mono(0) },
            gone: BTreeSet::new(),
            rows: Rows::default(),
            options,
            slots: options.slots,
            crashes: 0,
            unfinished: false,
            opened: false,
            closing: 0,
            steps: 0,
            log: Vec::new(),
            commits: Vec::new(),
            asking: None,
            sending: None,
        }
    }

    /// The alarm, but for the one that lets what is over leave the memory.
    pub fn near_alarm(&self) -> Option<Mono> {
        self.host.alarm.and_then(|_| self.state.next_timer())
    }

    /// Lets something happen, and checks all that can be checked after one step.
    ///
    /// # Errors
    ///
    /// [`Broken`] names the promise that does not hold.
    pub fn perform(&mut self, op: &Op) -> Result<Out, Broken> {
        let command = match op {
            Op::Crash => {
                self.crash()?;
                return Ok(Out::default());
            }
            Op::Wall(ms) => {
                self.now.wall_ms = self.now.wall_ms.saturating_add_signed(*ms);
                return Ok(Out::default());
            }
            Op::Beat(id) => {
                if let Some(run) = self.host.runs.get(id) {
                    self.host.beats.insert(run.fence, self.now.mono);
                }
                return Ok(Out::default());
            }
            Op::Why(_) | Op::WhyGroup(_) => return Ok(Out::default()),
            Op::After(ms) => {
                self.pass(*ms);
                Command::Tick
            }
            Op::Alarm => {
                let at = self.near_alarm().unwrap_or(self.now.mono);
                self.pass(at.0.saturating_sub(self.now.mono.0));
                Command::Tick
            }
            op => match self.command(op) {
                Some(command) => command,
                // Nobody is there who could say it.
                None => return Ok(Out::default()),
            },
        };
        if let (Op::Wait(waiter, wish), Command::Take(_)) = (op, &command) {
            self.asking = Some((*waiter, wish.clone()));
        }
        if let Op::Launch(launching) = op
            && let Some(waiter) = launching.foreground
        {
            self.asking = Some((waiter, Wish::Group(launching.parent.clone(), launching.group.clone())));
        }
        match op {
            Op::Promote(promoted) => self.promote(promoted, command),
            Op::Send(..) | Op::Wait(_, Wish::Mail(..)) => self.mail(op, command),
            _ => self.step(command),
        }
    }

    /// A member sends or receives, and is answered as it has to be (T-5 to T-8).
    fn mail(&mut self, op: &Op, command: Command) -> Result<Out, Broken> {
        let due = mails::due(self, op);
        if let Op::Send(from, to, text) = op {
            self.sending = Some((from.clone(), to.clone(), Arc::clone(text)));
        }
        let out = self.step(command)?;
        self.sending = None;
        if let (Some(Err("mailbox_reset")), Op::Wait(_, Wish::Mail(by, ..))) = (due, op) {
            self.parent.mails.was_told(self.ledger.life_of(by).unwrap_or_default());
        }
        mails::is_due(due, self, op, &out)?;
        Ok(out)
    }

    /// How many mails a member may send.
    pub fn sends(&self) -> u32 {
        self.options.sends.unwrap_or(MAIL_SENDS_MAX)
    }

    /// A promotion: it answers what it did, and whoever it sends away is told in the same step.
    fn promote(&mut self, promoted: &Promoted, command: Command) -> Result<Out, Broken> {
        let due = self.parent.promotion(promoted, &self.ledger);
        self.parent.promoted = due.as_ref().map(|(group, _)| group.clone());
        let out = self.step(command)?;
        let group = self.parent.promoted.take();
        if self.opened && self.ledger.open {
            let answered = match &out.reply {
                Some(Reply::Promoted(promotion)) => Some(*promotion),
                _ => None,
            };
            let due = due.map(|(_, promotion)| promotion);
            ensure(answered == due, "SC-20", || {
                format!("{promoted:?} is answered {answered:?}, due is {due:?}")
            })?;
            // One that is answered already may wait for its slot.
            let stays = group.filter(|_| due == Some(Promotion::Promoted));
            let stays = stays.and_then(|group| self.parent.calls(&group).next());
            ensure(stays.is_none(), "SC-20", || format!("{stays:?} waits after {promoted:?}"))?;
        }
        Ok(out)
    }

    /// One command, checked, and the answers of the host to what it asks.
    ///
    /// # Errors
    ///
    /// As [`World::perform`].
    pub fn step(&mut self, command: Command) -> Result<Out, Broken> {
        let mut out = self.step_once(command)?;
        let asked = |effects: &[Effect]| {
            effects
                .iter()
                .filter_map(|effect| match effect {
                    Effect::Probe { run, .. } => Some(*run),
                    _ => None,
                })
                .collect::<Vec<RunRef>>()
        };
        for run in asked(&out.effects) {
            if self.options.states_apart {
                self.holds()?;
            }
            let last = self.host.beats.get(&run.fence).copied().unwrap_or_default();
            let more = self.step_once(Command::Report(Report { run, what: Said::Beat(last) }))?;
            ensure(asked(&more.effects).is_empty(), "SC-14", || format!("{run:?} is asked again at once"))?;
            out.records.extend(more.records);
            out.effects.extend(more.effects);
        }
        Ok(out)
    }

    fn step_once(&mut self, command: Command) -> Result<Out, Broken> {
        let before = self.options.fold_each.then(|| self.state.facts().clone());
        let is_open = (self.opened && self.ledger.open) || matches!(command, Command::Open(_));
        let stale = self.is_stale(&command);
        let mut out = Out::default();
        if self.options.keep_rows {
            self.state.track_rows();
        }
        step(&mut self.state, command.clone(), self.now, &mut out);
        self.rows.take(&mut self.state)?;

        let waited = lending::before(self);
        let answered = lending::answered(self, &waited, &out);
        self.ledger.granted = answered
            .iter()
            .filter_map(|id| self.ledger.jobs.get(id))
            .map(|job| job.session.clone())
            .collect();
        self.ledger.turns_granted();
        out.records.iter().try_for_each(|entry| self.ledger.take_in(entry))?;
        self.follow(&command, &out);
        self.host.take_in(&out.records, &out.effects, &self.ledger)?;
        for effect in &out.effects {
            if let Effect::Forget(Forgotten::Output(lifetime)) = effect {
                self.gone.insert(*lifetime);
            }
            if let Effect::Answer { waiter, answer } = effect {
                self.parent.answered(*waiter, answer, &self.ledger)?;
            }
        }
        lending::taken_once(self, &answered, &command, &out)?;
        out.records.iter().for_each(|entry| self.parent.after(&entry.record, &self.ledger));
        if let Some(before) = before {
            invariants::fold(before, &out.records, self.state.facts())?;
        }
        invariants::reply(&out, stale, is_open)?;
        self.steps += 1;
        self.unfinished = out.unfinished || self.unfinished && !matches!(command, Command::Tick);
        // Once the store is closed nobody is left to be looked at later.
        if !self.options.states_apart || !self.ledger.open {
            self.holds()?;
        }
        if !self.ledger.open {
            // Who waited was told; who holds an answer can acknowledge it no more.
            self.parent.crashed();
        }
        if self.options.keep_log {
            self.log.extend(out.records.iter().cloned());
            self.commits.push(self.log.len());
        }
        Ok(out)
    }

    /// What holds between two steps, however they came about.
    ///
    /// # Errors
    ///
    /// As [`World::perform`].
    pub fn holds(&self) -> Kept {
        if self.opened { invariants::state(self, self.unfinished) } else { Ok(()) }
    }

    /// The process dies between two steps. All that its records say stays, and nothing else.
    fn crash(&mut self) -> Kept {
        let facts = if self.options.keep_rows {
            self.rows.restored(self.state.facts())?
        } else {
            self.state.facts().clone()
        };
        self.restart(facts);
        Ok(())
    }

    /// Goes on from recovered facts.
    pub fn restart(&mut self, facts: Facts) {
        self.state = State::recovered(facts);
        self.parent.crashed();
        self.host.crashed();
        self.crashes += 1;
        self.opened = false;
        self.unfinished = false;
        self.slots = self.options.slots;
        self.closing = 0;
    }

    /// Time passes on both clocks.
    pub fn pass(&mut self, ms: u64) {
        self.now.mono = self.now.mono.after(ms);
        if !self.options.wall_stands {
            self.now.wall_ms = self.now.wall_ms.saturating_add(ms);
        }
    }

    /// Takes in what the command and its reply say to those around the machine.
    fn follow(&mut self, command: &Command, out: &Out) {
        let accepted = !matches!(out.reply, Some(Reply::Refused(_)));
        self.parent.void_now.clear();
        match command {
            Command::Open(_) => self.opened = true,
            Command::Take(_) if accepted => {
                if let Some((waiter, wish)) = self.asking.take() {
                    // One that only looked, and found nothing, waits for nothing.
                    let has_left = matches!(wish, Wish::Mail(_, _, true)) && out.reply == Some(Reply::Done);
                    if !has_left {
                        self.parent.asked(waiter, wish, &self.ledger);
                    }
                }
            }
            Command::Post(Post::Mail { .. }) if accepted => {
                if let Some((from, to, text)) = self.sending.take() {
                    self.parent.mails.sent(&from, &to, text, &self.ledger);
                }
            }
            Command::Release(Release::Waiter(_, Leave::Limit)) if out.reply == Some(Reply::Answered) => {}
            Command::Release(Release::Waiter(waiter, _)) => self.parent.left(*waiter),
            Command::Ack(waiter) if accepted => self.parent.acknowledged(*waiter, &self.ledger),
            Command::Session(SessionCommand::Close(id)) if accepted => {
                self.parent.closed(&NodeId::Session(id.clone()), &self.ledger);
            }
            Command::Session(SessionCommand::Turn(id)) => {
                if let Some(Reply::Turn(run)) = out.reply {
                    self.host.turns.insert(id.clone(), run);
                }
            }
            Command::Launch(launch) => {
                if let Some(Reply::Launched(launched)) = &out.reply {
                    if launched.created {
                        launched.jobs.iter().for_each(|(id, _)| self.host.launched(id));
                    }
                    // The group that answers may be a known one of another id.
                    if launch.foreground.is_some()
                        && let Some((waiter, Wish::Group(by, _))) = self.asking.take()
                    {
                        self.parent.called(waiter, by, launched.group.clone(), &self.ledger);
                    }
                }
            }
            Command::Limit(Limit::Slots(slots)) if accepted => self.slots = *slots,
            Command::Close(Close::Drain) if accepted => self.closing = self.closing.max(1),
            Command::Close(Close::Stop { .. }) if accepted => self.closing = 2,
            _ => {}
        }
        for entry in &out.records {
            self.parent.follow(&entry.record, &self.ledger);
        }
    }

    fn is_stale(&self, command: &Command) -> bool {
        let Command::Report(report) = command else { return false };
        // The run is over, or it is another's: a fence is good at its own place only.
        let Host { runs, old_runs, turns, .. } = &self.host;
        let mut reporters = runs.values().chain(old_runs.values()).chain(turns.values());
        let is_own = reporters.any(|run| *run == report.run);
        !is_own || !self.ledger.is_open(report.run.fence)
    }

    /// The command that an operation stands for; `None` where a report has no run to come from.
    pub fn command(&self, op: &Op) -> Option<Command> {
        Some(match op {
            Op::Open => Command::Open(Open {
                log: LogId::parse("log").expect("a name"),
                level: Level::Memory,
                slots: self.options.slots,
                grace_ms: self.options.grace_ms,
                seed: 7,
                rates: self
                    .options
                    .rate
                    .map(|(starts, per_ms)| (JobKind::Command, Rate { starts, per_ms }))
                    .into_iter()
                    .collect(),
                sends_per_member: self.sends(),
            }),
            Op::Drain => Command::Close(Close::Drain),
            Op::StopAll(grace_ms) => Command::Close(Close::Stop { grace_ms: *grace_ms, keep: false }),
            Op::Suspend(grace_ms) => Command::Close(Close::Stop { grace_ms: *grace_ms, keep: true }),
            Op::Finish => Command::Close(Close::Finish),
            Op::Session(id) => Command::Session(SessionCommand::Open(SessionOpen {
                id: id.clone(),
                profile: Profile::Operator,
                bounds: Bounds::default(),
            })),
            Op::Bounded(id, bounds) => Command::Session(SessionCommand::Open(SessionOpen {
                id: id.clone(),
                profile: Profile::Agent,
                bounds: **bounds,
            })),
            Op::CloseSession(id) => Command::Session(SessionCommand::Close(id.clone())),
            Op::Turn(id) => Command::Session(SessionCommand::Turn(id.clone())),
            Op::Launch(launching) => Command::Launch(launch(launching, self.by(&launching.parent)?)),
            Op::Wait(waiter, wish) => Command::Take(Take { waiter: *waiter, wanted: self.wanted(wish)? }),
            Op::Leave(waiter) => Command::Release(Release::Waiter(*waiter, Leave::Left)),
            Op::Expire(waiter) => Command::Release(Release::Waiter(*waiter, Leave::Limit)),
            Op::Promote(Promoted::Job(id)) => {
                Command::Release(Release::Promote(PromoteTarget::Job(id.clone())))
            }
            Op::Promote(Promoted::Group(id)) => {
                Command::Release(Release::Promote(PromoteTarget::Group(id.clone())))
            }
            Op::Ack(waiter) => Command::Ack(*waiter),
            Op::Stop(aim, grace_ms, cause) => {
                Command::Stop(Stop { target: self.aim(aim), cause: *cause, grace_ms: *grace_ms })
            }
            Op::Bind(id) => report(self.host.runs.get(id), Said::Bound(Bound::default()))?,
            Op::Part(id, call, kind, state) => report(
                self.host.runs.get(id),
                Said::Part {
                    call: format!("c{call}").into(),
                    name: "tool".into(),
                    kind: *kind,
                    state: *state,
                    args_hash: None,
                },
            )?,
            Op::Call(id, call, args) => report(
                self.host.runs.get(id),
                Said::Part {
                    call: format!("c{call}").into(),
                    name: "tool".into(),
                    kind: fanin_protocol::PartKind::Tool,
                    state: fanin_protocol::PartState::Running,
                    args_hash: Some(*args),
                },
            )?,
            Op::Used(id, meter, sums) => report(self.host.runs.get(id), Said::Used(usage(*meter, *sums)))?,
            Op::TurnUsed(id, meter, sums) => {
                report(self.host.turns.get(id), Said::Used(usage(*meter, *sums)))?
            }
            Op::Budget(of, to) => Command::Limit(Limit::Budget { of: of.clone(), to: *to }),
            Op::Slots(slots) => Command::Limit(Limit::Slots(*slots)),
            Op::Extend(id, by_ms) => {
                Command::Limit(Limit::Extend { job: id.clone(), lifetime: None, by_ms: *by_ms })
            }
            Op::TurnPart(id, call, state) => report(
                self.host.turns.get(id),
                Said::Part {
                    call: format!("c{call}").into(),
                    name: "tool".into(),
                    kind: fanin_protocol::PartKind::Tool,
                    state: *state,
                    args_hash: None,
                },
            )?,
            Op::End(id, how) => report(self.host.runs.get(id), Said::Ended(ended(id, *how)))?,
            Op::Post(to, key) => Command::Post(Post::Message(Posting {
                to: match to {
                    NodeId::Session(id) => PostTarget::Session(id.clone()),
                    NodeId::Job(id) => PostTarget::Job(id.clone()),
                },
                key: key.clone(),
                text: format!("words of {key}").into(),
            })),
            Op::Fire(id) => report(self.host.runs.get(id), Said::Fired(format!("{id} saw it").into()))?,
            Op::Listen(id) => report(self.host.runs.get(id), Said::Listens)?,
            Op::Silent(id) => report(self.host.runs.get(id), Said::Silent)?,
            Op::Send(from, to, text) => Command::Post(Post::Mail {
                from: self.host.runs.get(from).copied().map(By::Run)?,
                to: to.to_string().into(),
                text: Arc::clone(text),
            }),
            Op::Took(id, key) => report(self.host.runs.get(id), Said::Took(key.clone()))?,
            Op::Late(id, how) => report(self.host.old_runs.get(id), Said::Ended(ended(id, *how)))?,
            Op::Gone(id) => report(self.host.runs.get(id), Said::Gone)?,
            Op::Forged(run, at) => {
                let (run, at) = (self.host.runs.get(run)?, self.host.runs.get(at)?);
                let forged = RunRef { node: at.node, fence: run.fence };
                report(Some(&forged), Said::Ended(Ended::Lost { output: None }))?
            }
            Op::TurnEnd(id, how) => {
                report(self.host.turns.get(id), Said::Ended(ended(&crate::op::job("turn"), *how)))?
            }
            Op::Crash
            | Op::Beat(_)
            | Op::After(_)
            | Op::Alarm
            | Op::Wall(_)
            | Op::Why(_)
            | Op::WhyGroup(_) => Command::Tick,
        })
    }

    /// Who speaks; `None` for a job that has never run.
    fn by(&self, node: &NodeId) -> Option<By> {
        match node {
            NodeId::Session(id) => Some(By::Session(id.clone())),
            NodeId::Job(id) => self.host.runs.get(id).copied().map(By::Run),
        }
    }

    fn wanted(&self, wish: &Wish) -> Option<Wanted> {
        Some(match wish {
            Wish::All(by, jobs) => Wanted::All(self.by(by)?, jobs.clone()),
            Wish::Any(by, jobs) => Wanted::Any(self.by(by)?, jobs.clone()),
            Wish::Exact(by, id, lifetime) => Wanted::Exact(self.by(by)?, id.clone(), *lifetime),
            Wish::Group(by, group) => Wanted::Group(self.by(by)?, group.clone()),
            Wish::Wake(by) => Wanted::Wake(self.by(by)?),
            Wish::Message(NodeId::Session(id)) => Wanted::Message(id.clone()),
            Wish::Hit(NodeId::Session(id)) => Wanted::Hit(id.clone()),
            Wish::Message(NodeId::Job(_)) | Wish::Hit(NodeId::Job(_)) => return None,
            Wish::Mail(by, from, at_once) => Wanted::Mail {
                by: self.by(by)?,
                from: from.as_ref().map(|from| from.to_string().into()),
                at_once: *at_once,
            },
            Wish::Background(id) => Wanted::Background(
                id.clone(),
                self.ledger.jobs.get(id).map_or(Lifetime(0), |job| job.lifetime),
            ),
            Wish::Idle => Wanted::Idle,
        })
    }

    fn aim(&self, aim: &Aim) -> StopTarget {
        let lifetime = |id: &JobId| self.ledger.jobs.get(id).map_or(Lifetime(0), |job| job.lifetime);
        match aim {
            Aim::Job(id) => StopTarget::Job(id.clone()),
            Aim::Exact(id) => StopTarget::Exact(id.clone(), lifetime(id)),
            Aim::Old(id) => {
                let lives = self.ledger.lifetimes.iter().rev().filter(|(_, known)| *known == id);
                StopTarget::Exact(id.clone(), lives.map(|(life, _)| *life).nth(1).unwrap_or_default())
            }
            Aim::Other(id) => StopTarget::Exact(id.clone(), Lifetime(lifetime(id).0 + 1)),
            Aim::Group(id) => StopTarget::Group(id.clone()),
        }
    }

    /// All promises that are asked for at the end of a phase.
    ///
    /// # Errors
    ///
    /// As [`World::perform`].
    pub fn fold_holds(&self) -> Kept {
        invariants::whole_fold(&self.log, self.state.facts())
    }
}

fn launch(launching: &Launching, parent: By) -> Launch {
    let spec = match launching.kind {
        JobKind::Closure => None,
        JobKind::Command if launching.limits.firings.is_some() => {
            Some(Spec::Watch(WatchSpec::checks(CommandSpec::shell("true"), When::Succeeds)))
        }
        JobKind::Command => Some(Spec::Command(CommandSpec::shell("true"))),
        JobKind::Agent => Some(Spec::Agent(AgentSpec::new("worker", "look"))),
    }
    .map(Arc::new);
    let members = launching.jobs.iter().map(|id| Member {
        id: id.clone(),
        label: None,
        spec: spec.clone(),
        limits: launching.limits.into(),
        is_fresh: false,
        again: launching.again,
        tag: Host::tag(id),
    });
    Launch {
        members: members.collect(),
        parent,
        group: launching.group.clone(),
        is_fresh: launching.is_fresh,
        joins_turn: launching.joins,
        policy: launching.policy,
        edges: launching.edges().map(Arc::new),
        foreground: launching.foreground,
    }
}

fn usage(meter: u8, [cost_usd_micros, tokens, steps]: [Option<u64>; 3]) -> Usage {
    Usage { run: Fence(0), source: format!("m{meter}"), cost_usd_micros, tokens, steps, ms: None }
}

fn report(run: Option<&RunRef>, what: Said) -> Option<Command> {
    run.map(|run| Command::Report(Report { run: *run, what }))
}

fn ended(id: &JobId, how: How) -> Ended {
    let output = || {
        let text: Arc<str> = format!("output of {id}").into();
        Some(Output {
            bytes_total: text.len() as u64,
            text: Private::new(text),
            truncated: false,
            invalid_utf8: false,
        })
    };
    let ended_badly = |cause, code, message: &str, left: Option<Left>| Ended::Failed {
        cause,
        code,
        message: message.into(),
        output: output(),
        exit: None,
        left: left.map(Arc::new),
        is_safe: how == How::Safe,
    };
    let failed = |cause, code, message| ended_badly(cause, code, message, None);
    let survivor = || LeftProcess { pid: 7, pid_start: 70, program: "stubborn".into() };
    match how {
        How::Ok => Ended::Completed { output: output(), exit: None, left: None },
        How::Empty => Ended::Completed { output: None, exit: None, left: None },
        How::Failed => failed(Cause::Failed, None, "it failed"),
        How::Panic => failed(Cause::Panic, None, "it panicked"),
        How::Spawn => failed(Cause::Spawn, Some(Code::ProgramNotFound), "no such program"),
        How::Os => failed(Cause::Spawn, Some(Code::Os), "no more processes"),
        How::Safe => failed(Cause::Failed, None, "it did not come up"),
        How::Lost => Ended::Lost { output: None },
        How::Left => {
            let left = Left { alive: [survivor()].into(), ..Left::default() };
            ended_badly(Cause::Failed, Some(Code::Os), "it left something", Some(left))
        }
        How::Stopped => Ended::Completed {
            output: output(),
            exit: None,
            left: Some(Left { stopped: 1, ..Left::default() }.into()),
        },
    }
}
