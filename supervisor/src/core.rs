//! The gate: one command at a time through the machine. `released.rs` holds what it decided, `driver.rs` carries it out.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fanin_bus::Pages;
use fanin_machine::log::Log;
use fanin_machine::pump::{Batch, Pump};
use fanin_machine::{
    Answer, Command, Launch, Launched, Mono, Now, Refusal, Reply, Report, Said, State, WaiterId, step,
};
use fanin_protocol::limits::{GATE_PAUSE, GATE_TRY, LOOK_WAIT, LOW_SPACE_BYTES};
use fanin_protocol::spec::millis;
use fanin_protocol::{JobId, JobKind, Seq};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::body::Works;
use crate::clock::Clocks;
use crate::context::RunCell;
use crate::hosted::Hosted;
use crate::journal::{JournalError, JournalReader, OutputChange};
use crate::outputs::Outputs;
use crate::pages::JournalPages;
use crate::runner::Runner;
use crate::scope::Scope;
use crate::writer::{Store, Taken};

pub(crate) use released::{Act, Released};
use released::{End, Rest, output_change};

mod driver;
mod outputs;
mod released;

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
    /// Log lines tell what records hold as well.
    pub(crate) log_content: bool,
    /// Where programs of jobs send and receive mail, once there is such a place.
    pub(crate) mail_at: OnceLock<Arc<str>>,
}

/// What a supervisor starts from.
pub(crate) struct Origin {
    pub(crate) log: Log,
    pub(crate) state: State,
    /// `None` where everything is in memory.
    pub(crate) store: Option<Arc<Store>>,
    /// Log lines tell what records hold as well.
    pub(crate) log_content: bool,
}

impl Core {
    pub(crate) fn new(
        origin: Origin,
        clocks: Clocks,
        scope: Scope,
        runners: Vec<Arc<dyn Runner>>,
        gate_wait: Duration,
    ) -> Self {
        let Origin { log, mut state, store, log_content } = origin;
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
            log_content,
            log: Arc::new(log),
            clocks,
            scope,
            runners,
            waiting: Mutex::default(),
            next_waiter: AtomicU64::new(1),
            outputs: Mutex::default(),
            alarm: watch::Sender::new(None),
            mail_at: OnceLock::new(),
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
            | Reply::Fired { .. }
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
        let mut until = None;
        loop {
            // A thread of the runtime is held for a moment only; whoever is at the gate as a rule needs less.
            change = match self.pump.enter(GATE_TRY, change, |released| self.release(released)) {
                Ok(stepped) => return Ok(stepped),
                Err(change) => change,
            };
            // Read where the gate was not free at once, which is rare.
            let now = self.now();
            if now >= *until.get_or_insert(now.after(millis(self.gate_wait))) {
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

    /// Up to where all is committed; `None` without a store.
    pub(crate) fn committed_head(&self) -> Option<Seq> {
        self.store.as_ref().map(|store| store.committed.head())
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

    /// Where records are that are no longer in memory.
    pub(crate) fn pages(&self) -> Option<Arc<dyn Pages>> {
        let reader = Arc::clone(&self.store.as_ref()?.reader);
        Some(Arc::new(JournalPages::new(reader, self.scope.runtime().clone())))
    }

    /// Reads the store, where there is one.
    pub(crate) fn reader(&self) -> Option<&Arc<dyn JournalReader>> {
        self.store.as_ref().map(|store| &store.reader)
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
}

/// What a command came to.
pub(crate) struct Stepped {
    pub(crate) reply: Result<Reply, CallError>,
    /// The newest record that the step saw.
    head: Seq,
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

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("log", &self.log).finish_non_exhaustive()
    }
}
