//! The gate and the driver: one command at a time through the machine, then its records to the log and its effects
//! to the outside, in order.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fanin_bus::Pages;
use fanin_machine::log::{Herald, Log};
use fanin_machine::pump::{Batch, Pump};
use fanin_machine::{
    Answer, Command, Effect, Ended, Forgotten, KillStage, Launch, Launched, Leave, Mono, Now, Out, Refusal,
    Release, Reply, Report, RunRef, Said, State, WaiterId, step,
};
use fanin_protocol::limits::{
    EFFECTS_ROOM, GATE_PAUSE, GATE_TRY, LOOK_WAIT, LOW_SPACE_BYTES, MESSAGE_BYTES_MAX, OUTPUT_BYTES_MAX,
};
use fanin_protocol::spec::millis;
use fanin_protocol::{JobId, JobKind, Lifetime, MessageId, Seq, Spec, text};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::body::{Body, Start, Work, Works, discard};
use crate::clock::Clocks;
use crate::context::RunCell;
use crate::follow::{Found, Source};
use crate::hosted::Hosted;
use crate::journal::{JournalError, JournalReader, OutputChange};
use crate::output::JobOutput;
use crate::outputs::Outputs;
use crate::pages::JournalPages;
use crate::run_output::RunOutput;
use crate::runner::{Ending, Runner};
use crate::scope::Scope;
use crate::stop::StopStage;
use crate::token::Standing;
use crate::writer::{Store, Taken};

/// Why a call did not reach the machine, or what the machine said to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The machine refused; nothing was done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The gate was not free in time; nothing was done. The same call may work in a moment.
    #[error("the supervisor is busy; nothing was done, try again")]
    Busy,
    /// The supervisor was shut down or dropped.
    #[error("the supervisor is shut down")]
    Closed,
    /// A bug of ours: the machine panicked. Nothing more is decided, so that nothing wrong is (C-5).
    #[error("the supervisor has stopped after an internal error; its log says where")]
    Poisoned,
    /// Little space is left, and what runs needs it; nothing was done (ST-9).
    #[error("nothing new is taken on: less than {} MiB are free for the store; make room and try again", LOW_SPACE_BYTES >> 20)]
    Low,
    /// A commit found no room; nothing was done. What runs goes on, and is recorded once there is room (ST-9).
    #[error("nothing new is taken on: {0}; make room and try again")]
    Full(JournalError),
    /// The store failed. Nothing more is decided, and whether this call was is not known (C-4); what the store holds says
    /// it once it is opened again.
    #[error(transparent)]
    Store(JournalError),
}

impl CallError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Busy => "busy",
            Self::Closed => "closed",
            Self::Poisoned => "poisoned",
            Self::Low => "store_low",
            Self::Full(full) => full.code(),
            Self::Store(error) => error.code(),
        }
    }
}

/// What steps have decided and nobody has carried out yet: records first, then the rest in order.
#[derive(Default)]
pub(crate) struct Released {
    /// The records, and room for a step to write into.
    pub(crate) out: Out,
    /// To the outside.
    pub(crate) acts: VecDeque<Act>,
    /// Outputs of runs that are over, for the journal.
    pub(crate) outputs: Vec<OutputChange>,
    /// There is more to do.
    rest: Rest,
    /// The end: nothing comes after it.
    end: Option<End>,
}

/// What a step has left for a `Tick`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Rest {
    #[default]
    Nothing,
    /// It comes once the runtime has had its turn, with what was started so far.
    Soon,
    /// Stops wait for nobody, a runtime that is blocked least of all.
    Now,
}

impl Rest {
    const fn of(out: &Out) -> Self {
        match out {
            Out { is_urgent: true, .. } => Self::Now,
            Out { unfinished: true, .. } => Self::Soon,
            Out { .. } => Self::Nothing,
        }
    }
}

/// What is over with a supervisor. It holds the core until it is carried out: with a journal that is later, and whoever
/// dropped the supervisor may have been the last to hold it.
struct End {
    hosted: Hosted,
    _core: Arc<Core>,
}

impl Released {
    /// Takes over what was decided after it.
    fn absorb(&mut self, later: &mut Self) {
        self.out.records.append(&mut later.out.records);
        self.acts.append(&mut later.acts);
        self.outputs.append(&mut later.outputs);
        self.rest = self.rest.max(mem::take(&mut later.rest));
        self.end = self.end.take().or(later.end.take());
    }

    /// True where nothing comes after it.
    pub(crate) const fn is_end(&self) -> bool {
        self.end.is_some()
    }
}

impl Batch for Released {
    fn is_empty(&self) -> bool {
        let Self { out, acts, outputs, rest, end } = self;
        let is_all = *rest == Rest::Nothing && end.is_none();
        out.records.is_empty() && acts.is_empty() && outputs.is_empty() && is_all
    }

    fn trim(&mut self) {
        self.out.records.shrink_to(EFFECTS_ROOM);
        self.acts.shrink_to(EFFECTS_ROOM);
    }
}

/// An effect with what the driver needs to carry it out, taken from behind the gate as it was decided: a tag may mean
/// another job by then.
pub(crate) enum Act {
    Spawn { cell: Arc<RunCell>, body: Option<Body>, spec: Option<Arc<Spec>> },
    Kill { cell: Arc<RunCell>, stage: KillStage },
    Probe { run: RunRef, cell: Option<Arc<RunCell>> },
    Deliver { cell: Arc<RunCell>, key: MessageId, text: Arc<str> },
    Answer { waiter: WaiterId, answer: Answer },
    Alarm(Option<Mono>),
    Discard(Work),
    DropOutput(Lifetime),
}

/// What the gate guards.
struct Gated {
    state: State,
    hosted: Hosted,
    /// When the last step was.
    now: Option<Now>,
    /// Set while a step is under way. Found set, a step has panicked.
    in_step: bool,
    /// Set once nothing may be decided or written any more.
    closed: bool,
    /// With a journal: what was decided and is still to be committed.
    decided: Released,
}

/// The supervisor behind all handles to it.
pub(crate) struct Core {
    pump: Pump<Gated, Released>,
    /// How long a call waits for the gate.
    gate_wait: Duration,
    pub(crate) log: Arc<Log>,
    clocks: Clocks,
    pub(crate) scope: Scope,
    runners: Vec<Arc<dyn Runner>>,
    waiting: Mutex<HashMap<WaiterId, oneshot::Sender<Answer>>>,
    next_waiter: AtomicU64,
    outputs: Mutex<Outputs>,
    alarm: watch::Sender<Option<Mono>>,
    store: Option<Arc<Store>>,
}

/// What a supervisor starts from.
pub(crate) struct Origin {
    pub(crate) log: Log,
    pub(crate) state: State,
    /// `None` where everything is in memory.
    pub(crate) store: Option<Arc<Store>>,
}

impl Core {
    pub(crate) fn new(
        origin: Origin,
        clocks: Clocks,
        scope: Scope,
        runners: Vec<Arc<dyn Runner>>,
        gate_wait: Duration,
    ) -> Self {
        let Origin { log, mut state, store } = origin;
        let mut hosted = Hosted::default();
        state.give_tags(|| hosted.keep(None));
        if store.is_some() {
            state.track_rows();
        }
        let decided = Released::default();
        let gated = Gated { state, hosted, now: None, in_step: false, closed: false, decided };
        Self {
            pump: Pump::new(gated),
            gate_wait,
            store,
            log: Arc::new(log),
            clocks,
            scope,
            runners,
            waiting: Mutex::default(),
            next_waiter: AtomicU64::new(1),
            outputs: Mutex::default(),
            alarm: watch::Sender::new(None),
        }
    }

    /// Carries out a command and returns its reply.
    ///
    /// Without a journal the commit point is the step itself; what it released is carried out by whoever is at the pump,
    /// and another caller's step may be answered before its own effects have run. With one the reply waits until all that
    /// the step saw is committed.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`] where the gate was not free within its limit; the command was not carried out.
    /// [`CallError::Store`] where it could not be committed.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for the gate it has done nothing. Dropped while it waits for the commit the command is
    /// carried out, and nobody hears of it.
    pub(crate) async fn submit(self: &Arc<Self>, command: Command) -> Result<Reply, CallError> {
        let stepped = self.enter(move |gated, released| self.step(gated, command, released)).await?;
        self.committed(stepped).await
    }

    /// As [`Core::submit`], without waiting for the commit: what the reply says may not be shown before
    /// [`Core::committed`]. For a caller whose guard has to exist as soon as the command is carried out.
    pub(crate) async fn submit_early(self: &Arc<Self>, command: Command) -> Result<Stepped, CallError> {
        self.enter(move |gated, released| self.step(gated, command, released)).await
    }

    /// Waits until what a step saw is committed, and gives its reply.
    pub(crate) async fn committed(&self, stepped: Stepped) -> Result<Reply, CallError> {
        if let Some(store) = &self.store {
            store.committed.reaches(stepped.head).await?;
        }
        stepped.reply
    }

    /// As [`Core::submit`], for a launch with the bodies of its jobs, one each.
    pub(crate) async fn launch(
        self: &Arc<Self>,
        mut launch: Launch,
        works: Works,
    ) -> Result<Launched, CallError> {
        if let Some(no_room) = self.store.as_ref().and_then(|store| store.committed.no_room())
            // A launch that is known takes nothing new on; it is answered once what is there is committed.
            && !self.look_behind(|gated| gated.state.knows(&launch))?
        {
            return Err(no_room);
        }
        let change = move |gated: &mut Gated, released: &mut Released| {
            let works = works.take();
            gated.hosted.reserve(works.len());
            let mut tags = Vec::with_capacity(works.len());
            for (member, work) in launch.members.iter_mut().zip(works) {
                member.tag = gated.hosted.keep(work);
                tags.push(member.tag);
            }
            let stepped = self.step(gated, Command::Launch(launch), released);
            if !matches!(&stepped, Ok(Some(Reply::Launched(launched))) if launched.created) {
                // Nothing of this call exists, so nothing of it is kept. Dropped outside, with the other effects.
                let unused = tags.into_iter().filter_map(|tag| gated.hosted.forget(tag));
                released.acts.extend(unused.map(Act::Discard));
            }
            stepped
        };
        let stepped = self.enter(change).await?;
        match self.committed(stepped).await? {
            Reply::Launched(launched) => Ok(launched),
            Reply::Done
            | Reply::Turn(_)
            | Reply::Answered
            | Reply::Stopped(_)
            | Reply::Extended(_)
            | Reply::Promoted(_)
            | Reply::Posted { .. }
            | Reply::Refused(_) => Err(CallError::Poisoned),
        }
    }

    /// Makes a change at the gate, as soon as that is free.
    async fn enter<F>(self: &Arc<Self>, change: F) -> Result<Stepped, CallError>
    where
        F: FnOnce(&mut Gated, &mut Released) -> Result<Option<Reply>, CallError>,
    {
        let mut change = |gated: &mut Gated, released: &mut Released| {
            let reply = reply_of(change(gated, released));
            self.hold(gated, released);
            Stepped { reply, head: gated.state.facts().head() }
        };
        let until = self.now().after(millis(self.gate_wait));
        loop {
            // A thread of the runtime is held for a moment only; whoever is at the gate as a rule needs less.
            change = match self.pump.enter(GATE_TRY, change, |released| self.release(released)) {
                Ok(stepped) => return Ok(stepped),
                Err(change) => change,
            };
            if self.now() >= until {
                return Err(CallError::Busy);
            }
            tokio::time::sleep(GATE_PAUSE).await;
        }
    }

    /// Carries out a command whose reply nobody needs: now, or by whoever is at the gate. It is never lost, never waits,
    /// and comes before what its thread asks for later.
    pub(crate) fn post(self: &Arc<Self>, command: Command) {
        self.post_with(command, None);
    }

    /// As [`Core::post`], with what is to be committed with it.
    fn post_with(self: &Arc<Self>, command: Command, output: Option<OutputChange>) {
        let core = Arc::clone(self);
        let change = move |gated: &mut Gated, released: &mut Released| {
            released.outputs.extend(output);
            // A reply that says no means that the supervisor is closed, or that the thing it is about is over.
            drop(core.step(gated, command, released));
            core.hold(gated, released);
        };
        self.pump.post(change, |released| self.release(released));
    }

    /// With a journal, what was decided waits for its commit before anything of it gets out.
    fn hold(&self, gated: &mut Gated, released: &mut Released) {
        if let Some(store) = &self.store
            && !released.is_empty()
        {
            gated.decided.absorb(released);
            store.ring();
        }
    }

    /// One step, behind the gate.
    fn step(
        self: &Arc<Self>,
        gated: &mut Gated,
        command: Command,
        released: &mut Released,
    ) -> Result<Option<Reply>, CallError> {
        if gated.closed {
            return Err(self.failure().unwrap_or(CallError::Closed));
        }
        if gated.in_step {
            return Err(CallError::Poisoned);
        }
        gated.in_step = true;
        let (state, last, out) = (&mut gated.state, &mut gated.now, &mut released.out);
        let before = out.records.len();
        // The time is read at the gate, so that it rises in the order of the steps; the clock is anybody's code.
        if let Err(panic) =
            catch_unwind(AssertUnwindSafe(|| step(state, command, self.clocks.now(last), out)))
        {
            tracing::error!(?panic, "the machine panicked; nothing more is decided");
            out.records.truncate(before);
            out.effects.clear();
            return Err(CallError::Poisoned);
        }
        gated.in_step = false;
        released.rest = released.rest.max(Rest::of(out));
        (out.unfinished, out.is_urgent) = (false, false);
        if self.store.is_some() {
            let changed = out.effects.iter().filter_map(|effect| output_change(&gated.state, effect));
            released.outputs.extend(changed);
        }
        let (state, hosted) = (&gated.state, &mut gated.hosted);
        released.acts.extend(out.effects.drain(..).filter_map(|effect| self.act(state, hosted, effect)));
        Ok(out.reply.take())
    }

    /// What the driver has to do for an effect, if anything; behind the gate.
    fn act(self: &Arc<Self>, state: &State, hosted: &mut Hosted, effect: Effect) -> Option<Act> {
        match effect {
            Effect::Spawn { run, job, lifetime, spec, needed, tag } => {
                let output_max = match spec.as_deref() {
                    Some(Spec::Command(command)) => command.output_bytes_max,
                    Some(Spec::Agent(agent)) => agent.output_bytes_max,
                    None => None,
                };
                let kind = spec.as_ref().map_or(JobKind::Closure, |spec| spec.kind());
                let kind = (kind, output_max.unwrap_or(OUTPUT_BYTES_MAX));
                let place = spec.as_ref().and_then(|_| state.place_of(&job, lifetime).ok());
                let standing = place.map(|place| Box::new(Standing::new(place)));
                let told = (standing, needed);
                let cell = Arc::new(RunCell::new(Arc::clone(self), run, (job, lifetime), kind, told));
                let body = hosted.start(tag, Arc::clone(&cell));
                Some(Act::Spawn { cell, body, spec })
            }
            Effect::Kill { stage, tag, .. } => {
                hosted.find(tag).map(|cell| Act::Kill { cell: Arc::clone(cell), stage })
            }
            Effect::Probe { run, tag } => Some(Act::Probe { run, cell: hosted.find(tag).map(Arc::clone) }),
            Effect::Deliver { tag, key, text, .. } => {
                hosted.find(tag).map(|cell| Act::Deliver { cell: Arc::clone(cell), key, text })
            }
            Effect::Answer { waiter, answer } => Some(Act::Answer { waiter, answer }),
            Effect::Alarm(at) => Some(Act::Alarm(at)),
            // The run is over or lost; its task ends by itself or was aborted.
            Effect::Forget(Forgotten::Work { tag }) => hosted.forget(tag).map(Act::Discard),
            Effect::Forget(Forgotten::Output(job)) => Some(Act::DropOutput(job)),
        }
    }

    /// Looks at the state. It holds its thread for [`LOOK_WAIT`] at the most.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`] where the gate was not free in time.
    pub(crate) fn look<R>(self: &Arc<Self>, look: impl FnOnce(&State) -> R) -> Result<R, CallError> {
        let (looked, head) = self.look_behind(|gated| (look(&gated.state), gated.state.facts().head()))?;
        // What is shown is committed (C-3).
        if let Some(store) = &self.store {
            store.committed.reaches_within(head, self.gate_wait.min(LOOK_WAIT))?;
        }
        Ok(looked)
    }

    /// Why nothing is decided any more, where the store failed.
    pub(crate) fn failure(&self) -> Option<CallError> {
        self.store.as_ref()?.committed.failure()
    }

    /// The newest run of a job that is not over, where there is one.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`] where the gate was not free in time.
    pub(crate) fn run_of(self: &Arc<Self>, job: &JobId) -> Result<Option<Arc<RunCell>>, CallError> {
        self.look_behind(|gated| gated.hosted.find(gated.state.tag_of(job)?).map(Arc::clone))
    }

    /// As [`Core::look`], of what its caller knows to be committed: it does not wait for what came later.
    pub(crate) fn look_now<R>(self: &Arc<Self>, look: impl FnOnce(&State) -> R) -> Result<R, CallError> {
        self.look_behind(|gated| look(&gated.state))
    }

    fn look_behind<R>(self: &Arc<Self>, look: impl FnOnce(&Gated) -> R) -> Result<R, CallError> {
        let wait = self.gate_wait.min(LOOK_WAIT);
        let looked = self.pump.enter(wait, |gated, _| look(gated), |released| self.release(released));
        looked.map_err(|_| CallError::Busy)
    }

    /// Lets out what was decided.
    pub(crate) fn release(self: &Arc<Self>, released: &mut Released) {
        released.outputs.clear();
        self.log.append(&mut released.out.records);
        while let Some(act) = released.acts.pop_front() {
            self.carry_out(act);
        }
        match mem::take(&mut released.rest) {
            Rest::Nothing => {}
            Rest::Soon => {
                let core = Arc::clone(self);
                self.scope.spawn(async move { core.post(Command::Tick) });
            }
            Rest::Now => self.post(Command::Tick),
        }
        if let Some(end) = released.end.take() {
            self.end(end.hosted);
        }
    }

    /// Carries out an act.
    pub(crate) fn carry_out(self: &Arc<Self>, act: Act) {
        match act {
            Act::Spawn { cell, body, spec } => self.spawn(cell, body, spec),
            Act::Kill { cell, stage } => kill(&cell, stage),
            Act::Probe { run, cell } => {
                self.probe(run, cell.map_or(Mono(0), |cell| cell.last_beat()));
            }
            Act::Deliver { cell, key, text } => cell.deliver(key, text),
            Act::Answer { waiter, answer } => self.answer(waiter, answer),
            Act::Alarm(at) => {
                self.alarm.send_replace(at);
            }
            Act::Discard(work) => discard(work),
            Act::DropOutput(job) => self.outputs.lock().keep(job, None),
        }
    }

    fn spawn(self: &Arc<Self>, cell: Arc<RunCell>, body: Option<Body>, spec: Option<Arc<Spec>>) {
        let Some(body) = body.or_else(|| self.body(spec?)) else {
            debug_assert!(false, "job {} was launched without a body or a runner", cell.job);
            return cell.ended(None);
        };
        let task = body(Start { cell: Arc::clone(&cell), scope: &self.scope });
        debug_assert!(cell.task.get().is_none(), "one run, two tasks");
        cell.task.get_or_init(|| task);
        if self.runner(cell.kind).is_some_and(|runner| runner.takes_messages()) {
            self.post(Command::Report(Report { run: cell.run, what: Said::Listens }));
        }
    }

    fn body(&self, spec: Arc<Spec>) -> Option<Body> {
        let runner = Arc::clone(self.runner(spec.kind())?);
        Some(Box::new(move |start| start.spawn(move |context| runner.run(spec, context))))
    }

    /// The runner for a kind of job.
    pub(crate) fn runner(&self, kind: JobKind) -> Option<&Arc<dyn Runner>> {
        self.runners.iter().find(|runner| runner.kind() == kind)
    }

    /// The time on the machine's clock.
    pub(crate) fn now(&self) -> Mono {
        self.clocks.mono()
    }

    /// Looks whether what the last life of a job left is gone, and says so where it is: a new one may begin then (J-14).
    pub(crate) fn look_for_left(self: &Arc<Self>, job: &JobId) -> Result<(), CallError> {
        if let Some((run, kind, left)) = self.look(|state| state.left_by(job))?
            && self.runner(kind).is_some_and(|runner| !runner.may_live(&left))
        {
            self.post(Command::Report(Report { run, what: Said::Gone }));
        }
        Ok(())
    }

    /// Says when a run last showed a sign of work that was no report.
    fn probe(self: &Arc<Self>, run: RunRef, last: Mono) {
        self.post(Command::Report(Report { run, what: Said::Beat(last) }));
    }

    fn answer(self: &Arc<Self>, waiter: WaiterId, answer: Answer) {
        let sender = self.waiting.lock().remove(&waiter);
        // A waiter whose future is gone gives back what it was offered; its own drop may have come before.
        if sender.is_none_or(|sender| sender.send(answer).is_err()) {
            self.post(Command::Release(Release::Waiter(waiter, Leave::Left)));
        }
    }

    /// A name for a new waiter, and where its answer will come.
    pub(crate) fn expect_answer(&self) -> (WaiterId, oneshot::Receiver<Answer>) {
        let waiter = WaiterId(self.next_waiter.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(waiter, sender);
        (waiter, receiver)
    }

    /// Nobody expects that answer any more.
    pub(crate) fn forget_answer(&self, waiter: WaiterId) {
        self.waiting.lock().remove(&waiter);
    }

    /// Where the output of a life of a job is: with its newest run until the job is over, then among those that are
    /// kept, else in its record.
    pub(crate) fn find_output(self: &Arc<Self>, job: &JobId, lifetime: Lifetime) -> Result<Found, CallError> {
        let found = self.look_behind(|gated| {
            let state = &gated.state;
            let info = state.job_info_exact(job, lifetime)?;
            let is_over = info.status.is_terminal();
            let tag = state.tag_of(job).filter(|_| !is_over);
            let cell = tag.and_then(|tag| gated.hosted.find(tag)).filter(|cell| cell.lifetime == lifetime);
            Ok::<_, Refusal>((info.runs, is_over, cell.map(Arc::clone), state.output_of(lifetime)))
        });
        let (run, is_over, cell, excerpt) = match found? {
            Ok(found) => found,
            Err(gone) => {
                let (past, info) = self.past(job, Some(lifetime), gone)?;
                (info.runs, true, None, past.state.output_of(lifetime))
            }
        };
        let source = match cell {
            Some(cell) => cell.output.source(),
            None => Source::Kept(
                match self.outputs.lock().get(lifetime).or_else(|| self.stored_output(lifetime)) {
                    Some(kept) => kept,
                    None => excerpt.as_ref().map(JobOutput::of_excerpt).unwrap_or_default(),
                },
            ),
        };
        Ok(Found { run, is_over, source })
    }

    /// A run has put out something: a journal saves it in a moment.
    pub(crate) fn put_out(&self, output: &Arc<RunOutput>) {
        if let Some(store) = &self.store {
            store.put_out(output);
        }
    }

    /// Where records are that are no longer in memory.
    pub(crate) fn pages(&self) -> Option<Arc<dyn Pages>> {
        let reader = Arc::clone(&self.store.as_ref()?.reader);
        Some(Arc::new(JournalPages::new(reader, self.scope.runtime().clone())))
    }

    /// Reads the store, where there is one.
    pub(crate) fn reader(&self) -> Option<&Arc<dyn JournalReader>> {
        self.store.as_ref().map(|store| &store.reader)
    }

    /// What the store kept of an output, where it kept more than the record.
    fn stored_output(&self, lifetime: Lifetime) -> Option<JobOutput> {
        match self.store.as_ref()?.reader.output(lifetime) {
            Ok(stored) => stored.as_ref().map(JobOutput::of_stored),
            Err(error) => {
                tracing::warn!(%error, "an output cannot be read; the excerpt of its record stands in");
                None
            }
        }
    }

    /// Calls `Tick` when the machine asked for it, until the supervisor is gone.
    pub(crate) async fn ring(self: Arc<Self>) {
        let mut alarm = self.alarm.subscribe();
        loop {
            let at = *alarm.borrow_and_update();
            let due = async {
                match at {
                    Some(at) => tokio::time::sleep_until(self.clocks.moment(at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {
                    // All that was due is carried out, so another alarm follows; it may still be on its way.
                    self.post(Command::Tick);
                    if alarm.changed().await.is_err() {
                        return;
                    }
                    alarm.mark_changed();
                }
                changed = alarm.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Wakes subscribers, until the log is closed: however many there are, what they cost the pump is one wake.
    pub(crate) async fn herald(self: Arc<Self>) {
        let mut herald = Herald::new(Arc::clone(&self.log));
        drop(self);
        std::future::poll_fn(|cx| herald.poll(cx)).await;
    }

    /// Nothing is decided from now on, and all tasks are dropped (SC-6).
    ///
    /// The end goes through the pump like all that was released before it: a record is never written after the log
    /// is closed, an answer that was decided still comes, and a run that was started is aborted with the others.
    pub(crate) fn abandon(self: &Arc<Self>) {
        let core = Arc::clone(self);
        let end = move |gated: &mut Gated, released: &mut Released| {
            if !mem::replace(&mut gated.closed, true) {
                let hosted = mem::take(&mut gated.hosted);
                released.end = Some(End { hosted, _core: Arc::clone(&core) });
            }
            core.hold(gated, released);
        };
        self.pump.post(end, |released| self.release(released));
    }

    /// What was decided since the last time, to be committed; `None` where there is nothing. For the writer.
    ///
    /// # Errors
    ///
    /// [`CallError::Poisoned`] after a step that panicked: what it left half done must not be committed.
    pub(crate) fn take_decided(self: &Arc<Self>) -> Result<Option<Taken>, CallError> {
        self.at_gate(|gated| {
            if gated.in_step {
                return Err(CallError::Poisoned);
            }
            let released = mem::take(&mut gated.decided);
            let rows = gated.state.take_rows();
            let epoch = gated.state.facts().epoch();
            Ok((!released.is_empty() || !rows.is_empty()).then_some(Taken { released, rows, epoch }))
        })
    }

    /// Stops and alarms among what waits for its commit. Stopping early loses nothing that a crash would keep, and a
    /// limit has to be seen to stop its job (ST-9).
    pub(crate) fn take_stops(self: &Arc<Self>) -> VecDeque<Act> {
        self.at_gate(|gated| gated.decided.take_stops())
    }

    /// Nothing can be committed any more: nothing is decided, nothing of what waited gets out, and all tasks are dropped.
    pub(crate) fn fail(self: &Arc<Self>) {
        let (hosted, decided) = self.at_gate(|gated| {
            gated.closed = true;
            (mem::take(&mut gated.hosted), mem::take(&mut gated.decided))
        });
        drop(decided);
        self.end(hosted);
    }

    /// Makes a change behind the gate from a thread that has nothing else to do.
    fn at_gate<R>(self: &Arc<Self>, change: impl FnOnce(&mut Gated) -> R) -> R {
        let mut change = |gated: &mut Gated, _: &mut Released| change(gated);
        loop {
            change = match self.pump.enter(self.gate_wait, change, |released| self.release(released)) {
                Ok(made) => return made,
                Err(change) => change,
            };
        }
    }

    /// Waits until the store is closed, or has failed; at once where there is none.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn store_over(&self) {
        if let Some(store) = &self.store {
            store.committed.is_over().await;
        }
    }

    /// True where what was recorded outlives this supervisor.
    pub(crate) const fn has_store(&self) -> bool {
        self.store.is_some()
    }

    fn end(&self, hosted: Hosted) {
        hosted.runs().for_each(|run| run.abort());
        hosted.into_jobs().for_each(discard);
        // Taken out in a statement of its own and dropped without the lock: an answer that will not come wakes who
        // waits.
        let waiting = mem::take(&mut *self.waiting.lock());
        drop(waiting);
        self.log.close();
    }
}

/// What a command came to.
pub(crate) struct Stepped {
    pub(crate) reply: Result<Reply, CallError>,
    /// The newest record that the step saw.
    head: Seq,
}

impl Released {
    /// Takes out what stops things.
    pub(crate) fn take_stops(&mut self) -> VecDeque<Act> {
        let (stops, rest) = mem::take(&mut self.acts)
            .into_iter()
            .partition(|act| matches!(act, Act::Kill { .. } | Act::Alarm(_)));
        self.acts = rest;
        stops
    }
}

impl RunCell {
    /// Reports the end of the run: by the word of its body, or `None` by its guard.
    pub(crate) fn ended(&self, ending: Option<Ending>) {
        if let Some(standing) = &self.standing {
            standing.end();
        }
        let core = self.core();
        let (ending, last) = match ending {
            None => (None, JobOutput::default()),
            Some(Ending { failure, exit, output, left }) => (Some((failure, exit, left)), output),
        };
        let whole = self.output.end(last);
        let output = whole.excerpt();
        let is_more = output.as_ref().is_some_and(|excerpt| excerpt.truncated || excerpt.invalid_utf8);
        let stored = core.store.is_some().then(|| stored(self.lifetime, is_more.then_some(&whole)));
        core.outputs.lock().keep(self.lifetime, is_more.then_some(whole));
        let said = match ending {
            None => Ended::Lost { output },
            Some((None, exit, left)) => Ended::Completed { output, exit, left: left.map(Arc::new) },
            Some((Some(failure), exit, left)) => Ended::Failed {
                cause: failure.cause,
                code: failure.code,
                message: text::cut(&failure.message, MESSAGE_BYTES_MAX).into(),
                output,
                exit,
                left: left.map(Arc::new),
                is_safe: failure.is_safe,
            },
        };
        core.post_with(Command::Report(Report { run: self.run, what: Said::Ended(said) }), stored);
    }
}

/// What an effect changes in what a store keeps of outputs.
fn output_change(state: &State, effect: &Effect) -> Option<OutputChange> {
    match effect {
        // An output is that of the newest run. Also where the run before was never heard of again, it may have left one.
        Effect::Spawn { lifetime, .. } if state.runs_of(*lifetime) > 1 => Some(stored(*lifetime, None)),
        Effect::Forget(Forgotten::Output(job)) => Some(OutputChange::Retire { job: *job }),
        Effect::Spawn { .. }
        | Effect::Kill { .. }
        | Effect::Probe { .. }
        | Effect::Deliver { .. }
        | Effect::Answer { .. }
        | Effect::Alarm(_)
        | Effect::Forget(Forgotten::Work { .. }) => None,
    }
}

/// What a store keeps of an output, where its record has not all of it.
fn stored(job: Lifetime, whole: Option<&JobOutput>) -> OutputChange {
    let pieces = whole.map(JobOutput::pieces).unwrap_or_default();
    OutputChange::Replace { job, pieces, total: whole.map_or(0, JobOutput::bytes_total) }
}

fn reply_of(stepped: Result<Option<Reply>, CallError>) -> Result<Reply, CallError> {
    match stepped? {
        // It was opened before anybody had a handle: the machine has written its last record, and this is late.
        Some(Reply::Refused(Refusal::NotOpen)) => Err(CallError::Closed),
        Some(Reply::Refused(refusal)) => Err(refusal.into()),
        Some(reply) => Ok(reply),
        None => Ok(Reply::Done),
    }
}

fn kill(cell: &RunCell, stage: KillStage) {
    match stage {
        KillStage::Polite => cell.stop.raise(StopStage::Polite),
        KillStage::Forced => {
            cell.stop.raise(StopStage::Forced);
            // A runner still has to kill and reap what it owns; a closure has nothing but its task.
            if cell.kind == JobKind::Closure {
                cell.abort();
            }
        }
        KillStage::Abandoned => cell.abort(),
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("log", &self.log).finish_non_exhaustive()
    }
}
