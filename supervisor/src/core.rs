//! The gate and the driver: one command at a time through the machine, then its records to the log and its effects
//! to the outside, in order.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fanin_machine::guard::Guard;
use fanin_machine::log::Log;
use fanin_machine::pump::Pump;
use fanin_machine::{
    Answer, Command, Effect, Ended, KillStage, Leave, Mono, Out, Refusal, Reply, Report, RunRef, Said, State,
    WaiterId, step,
};
use fanin_protocol::limits::MESSAGE_BYTES_MAX;
use fanin_protocol::{Entry, JobId, JobKind, Lifetime, Spec, text};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use crate::body::{Body, Run, discard};
use crate::clock::Clocks;
use crate::context::{RunCell, RunContext};
use crate::hosted::Hosted;
use crate::output::JobOutput;
use crate::outputs::Outputs;
use crate::runner::{Ending, Runner};
use crate::scope::Scope;
use crate::stop::StopStage;

/// Why a call did not reach the machine, or what the machine said to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The machine refused; nothing was done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The supervisor was shut down or dropped.
    #[error("the supervisor is shut down")]
    Closed,
    /// A bug of ours: the machine panicked. Nothing more is decided, so that nothing wrong is (C-5).
    #[error("the supervisor has stopped after an internal error; its log says where")]
    Poisoned,
}

impl CallError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Closed => "closed",
            Self::Poisoned => "poisoned",
        }
    }
}

/// What is released once the records of a step are committed, in this order.
enum Released {
    /// To the log, and so to subscribers.
    Records(Vec<Entry>),
    /// To the outside.
    Effect(Effect),
    /// The rest of a step that went in slices.
    Rest,
    /// The end: nothing comes after it.
    End,
}

/// What the gate guards.
struct Gated {
    state: State,
    out: Out,
    /// Set while a step is under way. Found set, a step has panicked.
    in_step: bool,
    /// Set once nothing may be decided or written any more.
    closed: bool,
}

/// The supervisor behind all handles to it.
pub(crate) struct Core {
    pump: Pump<Gated, Released>,
    pub(crate) log: Arc<Log>,
    clocks: Clocks,
    pub(crate) scope: Scope,
    runners: Vec<Arc<dyn Runner>>,
    pub(crate) hosted: Mutex<Hosted>,
    waiting: Mutex<HashMap<WaiterId, oneshot::Sender<Answer>>>,
    next_waiter: AtomicU64,
    outputs: Mutex<Outputs>,
    alarm: watch::Sender<Option<Mono>>,
}

impl Core {
    pub(crate) fn new(log: Log, clocks: Clocks, scope: Scope, runners: Vec<Arc<dyn Runner>>) -> Self {
        let gated = Gated { state: State::default(), out: Out::default(), in_step: false, closed: false };
        Self {
            pump: Pump::new(gated),
            log: Arc::new(log),
            clocks,
            scope,
            runners,
            hosted: Mutex::default(),
            waiting: Mutex::default(),
            next_waiter: AtomicU64::new(1),
            outputs: Mutex::default(),
            alarm: watch::Sender::new(None),
        }
    }

    /// Carries out a command and returns its reply.
    ///
    /// There is no journal, so the commit point is the step itself; what it released is carried out by whoever is
    /// at the pump, and another caller's step may be answered before its own effects have run.
    pub(crate) fn submit(self: &Arc<Self>, command: Command) -> Result<Reply, CallError> {
        let now = self.clocks.now();
        let reply = self.pump.enter(
            |gated, queue| {
                if gated.closed {
                    return Err(CallError::Closed);
                }
                if gated.in_step {
                    return Err(CallError::Poisoned);
                }
                gated.in_step = true;
                let Gated { state, out, .. } = gated;
                let stepped = catch_unwind(AssertUnwindSafe(|| step(state, command, now, out)));
                if let Err(panic) = stepped {
                    tracing::error!(?panic, "the machine panicked; nothing more is decided");
                    gated.out.clear();
                    return Err(CallError::Poisoned);
                }
                gated.in_step = false;
                let records = std::mem::take(&mut gated.out.records);
                if !records.is_empty() {
                    queue.push(Released::Records(records));
                }
                queue.extend(gated.out.effects.drain(..).map(Released::Effect));
                if std::mem::take(&mut gated.out.unfinished) {
                    queue.push(Released::Rest);
                }
                Ok(gated.out.reply.take())
            },
            |released| self.release(released),
        );
        match reply? {
            // It was opened before anybody had a handle: the machine has written its last record, and this is late.
            Some(Reply::Refused(Refusal::NotOpen)) => Err(CallError::Closed),
            Some(Reply::Refused(refusal)) => Err(refusal.into()),
            Some(reply) => Ok(reply),
            None => Ok(Reply::Done),
        }
    }

    /// Looks at the state.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        self.pump.look(|gated| look(&gated.state))
    }

    fn release(self: &Arc<Self>, released: Released) {
        match released {
            Released::Records(mut records) => self.log.append(&mut records),
            // Refused only where the supervisor is closed: then nothing more is started.
            Released::Rest => drop(self.submit(Command::Tick)),
            Released::Effect(Effect::Spawn { run, job, lifetime, spec, tag }) => {
                self.spawn(run, (job, lifetime), spec, tag);
            }
            Released::Effect(Effect::Kill { stage, tag, .. }) => self.kill(stage, tag),
            Released::Effect(Effect::Answer { waiter, answer }) => self.answer(waiter, answer),
            Released::Effect(Effect::Alarm(at)) => {
                self.alarm.send_replace(at);
            }
            Released::Effect(Effect::Forget { tag }) => {
                // The run is over or lost; its task ends by itself or was aborted. A body that never started is
                // dropped in a statement of its own, without the lock: its destructor is anybody's code.
                let forgotten = self.hosted.lock().forget(tag);
                discard(forgotten);
            }
            Released::End => self.end(),
        }
    }

    /// Starts a run. The guard is made here, before the task exists.
    fn spawn(
        self: &Arc<Self>,
        run: RunRef,
        (job, lifetime): (JobId, Lifetime),
        spec: Option<Arc<Spec>>,
        tag: u64,
    ) {
        let kind = spec.as_ref().map_or(JobKind::Closure, |spec| spec.kind());
        let own = self.hosted.lock().take_body(tag);
        let Some(body) = own.or_else(|| self.body(spec?)) else {
            debug_assert!(false, "job {job} was launched without a body or a runner");
            return self.ended(run, lifetime, None);
        };
        let cell = Arc::new(RunCell::default());
        let context = RunContext::new(Arc::clone(self), Arc::clone(&cell), run, (job, lifetime));
        let core = Arc::clone(self);
        let guard = Guard::new(move |ending| core.ended(run, lifetime, ending));
        let task = self.scope.spawn(Run::new(body, context, guard));
        self.hosted.lock().running(tag, cell, task, kind);
    }

    fn body(&self, spec: Arc<Spec>) -> Option<Body> {
        let runner = Arc::clone(self.runner(spec.kind())?);
        Some(Box::new(move |context| runner.run(spec, context)))
    }

    /// The runner for a kind of job.
    pub(crate) fn runner(&self, kind: JobKind) -> Option<&Arc<dyn Runner>> {
        self.runners.iter().find(|runner| runner.kind() == kind)
    }

    /// Reports the end of a run: by the word of its body, or `None` by its guard.
    fn ended(self: &Arc<Self>, run: RunRef, lifetime: Lifetime, ending: Option<Ending>) {
        let said = match ending {
            None => Ended::Lost,
            Some(Ending { failure, exit, output }) => {
                let excerpt = output.excerpt();
                if excerpt.as_ref().is_some_and(|excerpt| excerpt.truncated || excerpt.invalid_utf8) {
                    self.outputs.lock().keep(lifetime, output);
                }
                match failure {
                    None => Ended::Completed { output: excerpt, exit },
                    Some(failure) => Ended::Failed {
                        cause: failure.cause,
                        code: failure.code,
                        message: text::cut(&failure.message, MESSAGE_BYTES_MAX).into(),
                        output: excerpt,
                        exit,
                    },
                }
            }
        };
        // Refused only where the supervisor is closed: then nobody asks any more.
        drop(self.submit(Command::Report(Report { run, what: Said::Ended(said) })));
    }

    fn kill(&self, stage: KillStage, tag: u64) {
        let Some((cell, abort, kind)) = self.hosted.lock().find(tag) else { return };
        match stage {
            KillStage::Polite => cell.stop.raise(StopStage::Polite),
            KillStage::Forced => {
                cell.stop.raise(StopStage::Forced);
                // A runner still has to kill and reap what it owns; a closure has nothing but its task.
                if kind == JobKind::Closure {
                    abort.abort();
                }
            }
            KillStage::Abandoned => abort.abort(),
        }
    }

    fn answer(self: &Arc<Self>, waiter: WaiterId, answer: Answer) {
        let sender = self.waiting.lock().remove(&waiter);
        // A waiter whose future is gone gives back what it was offered; its own drop may have come before.
        if sender.is_none_or(|sender| sender.send(answer).is_err()) {
            drop(self.submit(Command::Release(waiter, Leave::Left)));
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

    /// What is kept of a job's output: all of it, or the excerpt in its record.
    pub(crate) fn output(&self, lifetime: Lifetime) -> Option<JobOutput> {
        let kept = self.outputs.lock().get(lifetime);
        kept.or_else(|| self.look(|state| state.output_of(lifetime)).as_ref().map(JobOutput::of_excerpt))
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
                    if self.submit(Command::Tick).is_err() || alarm.changed().await.is_err() {
                        return;
                    }
                    alarm.mark_changed();
                }
                changed = alarm.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Nothing is decided from now on, and all tasks are dropped (SC-6).
    ///
    /// The end goes through the pump like all that was released before it: a record is never written after the log
    /// is closed, an answer that was decided still comes, and a run that was started is aborted with the others.
    pub(crate) fn abandon(self: &Arc<Self>) {
        let end = |gated: &mut Gated, queue: &mut Vec<Released>| {
            if !std::mem::replace(&mut gated.closed, true) {
                queue.push(Released::End);
            }
        };
        self.pump.enter(end, |released| self.release(released));
    }

    fn end(&self) {
        // Both are taken out in statements of their own and dropped without the lock: the body of a job that never
        // started is anybody's code, and an answer that will not come wakes who waits.
        let hosted = std::mem::take(&mut *self.hosted.lock());
        hosted.tasks().for_each(AbortHandle::abort);
        hosted.into_jobs().for_each(discard);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        drop(waiting);
        self.log.close();
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("log", &self.log)
            .field("jobs", &self.hosted.lock().len())
            .finish_non_exhaustive()
    }
}
