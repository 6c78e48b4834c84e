//! What a job's body sees of the supervisor.

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fanin_machine::{Bound, Command, Mail, Mono, Parent, Refusal, Reply, Report, RunRef, Said};
use fanin_protocol::limits::PROGRESS_BYTES_MAX;
use fanin_protocol::process::{MAIL_VARIABLE, TOKEN_VARIABLE};
use fanin_protocol::{
    Dependencies, Fence, Firings, JobId, JobKind, Lifetime, MessageId, PARENT_VARIABLE, ParentMark, Spec,
    text,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::core::{CallError, Core};
use crate::follow::Follow;
use crate::handle::Handle;
use crate::launcher::Launcher;
use crate::mailbox::Mailbox;
use crate::offered::Offered;
use crate::run_output::OutputPlace;
use crate::stop::{StopSignal, StopStage};
use crate::token::{RunToken, Standing};
use crate::voice::{ToolCall, Used, Voice};
use crate::wait::WaitError;

/// What a run needs while it lives, shared between driver and body. Progress is the latest value only (B-1).
pub(crate) struct RunCell {
    /// The run as a parent, and its way to the core.
    launcher: Launcher,
    pub(crate) run: RunRef,
    pub(crate) job: JobId,
    pub(crate) lifetime: Lifetime,
    pub(crate) kind: JobKind,
    needed: Option<Arc<Dependencies>>,
    pub(crate) stop: StopSignal,
    /// Its task, once there is one.
    pub(crate) task: OnceLock<AbortHandle>,
    pub(crate) output: OutputPlace,
    /// Who it is to processes of its own; a closure has none.
    pub(crate) standing: Option<Box<Standing>>,
    /// Made by the first who says something: most runs of a large fan-out say nothing.
    talk: OnceLock<Box<Talk>>,
    /// The last sign of work, on the machine's clock; 0 before the first.
    last_beat: AtomicU64,
}

/// What a run says, and what it is told, while it goes on.
#[derive(Default)]
struct Talk {
    progress: Mutex<Option<Arc<str>>>,
    /// Follow-ups that were delivered and that the body has not taken.
    messages: Mutex<VecDeque<(MessageId, Arc<str>)>>,
    delivered: Notify,
}

impl RunCell {
    pub(crate) fn new(
        core: Arc<Core>,
        run: RunRef,
        (job, lifetime): (JobId, Lifetime),
        (kind, output_max): (JobKind, u64),
        (standing, needed): (Option<Box<Standing>>, Option<Arc<Dependencies>>),
    ) -> Self {
        let launcher = Launcher::new(Handle::inside(core), Parent::Run(run));
        let (stop, task) = (StopSignal::new(), OnceLock::new());
        let (talk, last_beat) = (OnceLock::new(), AtomicU64::new(0));
        Self {
            launcher,
            run,
            job,
            lifetime,
            kind,
            needed,
            stop,
            task,
            output: OutputPlace::new(lifetime, output_max),
            standing,
            talk,
            last_beat,
        }
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        self.launcher.handle().core()
    }

    /// The run as a parent.
    pub(crate) const fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// A follow-up has come.
    pub(crate) fn deliver(&self, key: MessageId, text: Arc<str>) {
        self.talk().messages.lock().push_back((key, text));
        self.talk().delivered.notify_waiters();
    }

    /// Where programs of the run send and receive mail, where it has any.
    fn mail_at(&self) -> Option<&str> {
        let has_mail = self.standing.as_deref().is_some_and(Standing::has_mail);
        self.core().mail_at.get().filter(|_| has_mail).map(|path| &**path)
    }

    /// A sign of work that is no report.
    pub(crate) fn beat(&self) {
        // Nothing else is read through it, so the order of these does not matter.
        self.last_beat.fetch_max(self.core().now().0, Ordering::Relaxed);
    }

    fn talk(&self) -> &Talk {
        self.talk.get_or_init(Box::default)
    }

    /// The body has put out bytes. A journal saves them in a moment.
    fn write(&self, bytes: &[u8]) {
        if let Some(output) = self.output.write(bytes) {
            self.core().put_out(output);
        }
    }

    pub(crate) fn progress(&self) -> Option<Arc<str>> {
        self.talk.get()?.progress.lock().clone()
    }

    /// When the run last showed a sign of work that is no report.
    pub(crate) fn last_beat(&self) -> Mono {
        Mono(self.last_beat.load(Ordering::Relaxed))
    }

    /// Drops what is left of the run, at the next point where it yields.
    pub(crate) fn abort(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

/// A run's view of the supervisor. Clones are the same run; once it is over they change nothing any more.
///
/// The run launches, waits and is woken as a [`Launcher`]: what it launches hangs below its job.
#[derive(Clone)]
pub struct RunContext {
    pub(crate) cell: Arc<RunCell>,
}

impl RunContext {
    /// The job.
    pub fn job(&self) -> &JobId {
        &self.cell.job
    }

    /// Which life of the job's id.
    pub fn lifetime(&self) -> Lifetime {
        self.cell.lifetime
    }

    /// What a runner puts into the environment of what it starts, beside [`RunContext::mark`]: whose child that is
    /// ([`PARENT_VARIABLE`](fanin_protocol::PARENT_VARIABLE)), and what proves it
    /// ([`TOKEN_VARIABLE`](fanin_protocol::process::TOKEN_VARIABLE)); and where it has mail, the way there
    /// ([`MAIL_VARIABLE`](fanin_protocol::process::MAIL_VARIABLE)). `own` is the job that this process is itself part of. A
    /// closure has none of them.
    pub fn variables(
        &self,
        own: Option<&ParentMark>,
    ) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let RunCell { job, lifetime, standing, .. } = &*self.cell;
        let variables = standing.as_deref().map(|standing| {
            let mark = standing.mark(job, *lifetime, own).to_string();
            [(PARENT_VARIABLE, mark), (TOKEN_VARIABLE, standing.token(job).reveal().to_owned())]
        });
        let mail = self.mail_at().map(|path| (MAIL_VARIABLE, path.to_owned()));
        variables.into_iter().flatten().chain(mail)
    }

    /// What proves to its supervisor that somebody is part of this run, as long as it lives
    /// ([`Supervisor::run_of`](crate::Supervisor::run_of)). `None` for a closure.
    pub fn token(&self) -> Option<RunToken> {
        let RunCell { job, standing, .. } = &*self.cell;
        standing.as_deref().map(|standing| standing.token(job))
    }

    /// The run's fence: no other run has it.
    pub fn fence(&self) -> Fence {
        self.cell.run.fence
    }

    /// The run's name among those of all supervisors: `LOG:FENCE`. A runner puts it into the environment of what it
    /// starts, as [`RUN_VARIABLE`](fanin_protocol::process::RUN_VARIABLE).
    pub fn mark(&self) -> String {
        self.voice().mark()
    }

    /// What says things of the run, for whoever takes a turn of a session as well.
    pub fn voice(&self) -> Voice {
        Voice::new(Arc::clone(self.cell.core()), self.cell.run)
    }

    /// How far a stop has gone.
    pub fn stage(&self) -> StopStage {
        self.cell.stop.stage()
    }

    /// True once the job was told to stop.
    pub fn is_cancelled(&self) -> bool {
        self.stage() >= StopStage::Polite
    }

    /// Waits until the job is told to stop. The body then has its grace to clean up and return.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn cancelled(&self) {
        self.cell.stop.reached(StopStage::Polite).await;
    }

    /// Waits until the grace is over. A closure is dropped then; a runner ends its work by force.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn forced(&self) {
        self.cell.stop.reached(StopStage::Forced).await;
    }

    /// Says that the work goes on, for a body that is quiet for longer than its idle limit. It costs next to nothing:
    /// no event tells of it, and nobody is woken.
    pub fn beat(&self) {
        self.cell.beat();
    }

    /// Says how far the work has come, in one line. Only the latest is kept, and no event tells of it. It is a sign
    /// of work, as [`RunContext::beat`].
    pub fn progress(&self, line: impl AsRef<str>) {
        self.beat();
        let line = text::one_line(line.as_ref());
        *self.cell.talk().progress.lock() = Some(text::cut(&line, PROGRESS_BYTES_MAX).into());
    }

    /// Puts out bytes. They are the job's output and can be read while it runs; what the body returns stands behind them.
    /// Start and end are kept, 1 MiB together for a closure, and no event tells of it (B-1). It never waits, whoever
    /// reads. It is a sign of work, as [`RunContext::beat`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fanin_supervisor::JobSpec;
    ///
    /// let spec = JobSpec::run("count", |ctx| async move {
    ///     for line in 1..=3 {
    ///         ctx.write(format!("{line}\n"));
    ///     }
    ///     Ok("done".into())
    /// });
    /// ```
    pub fn write(&self, bytes: impl AsRef<[u8]>) {
        self.beat();
        self.cell.write(bytes.as_ref());
    }

    /// Records that the work is in hand, and how to find it from outside.
    pub fn bound(&self, bound: Bound) {
        self.report(Said::Bound(bound));
    }

    /// As [`RunContext::bound`], and waits until that is kept wherever records are. For runners of agents, before the
    /// first prompt: after a crash the agent's session can be found.
    ///
    /// # Errors
    ///
    /// [`CallError`]: it is not known to be kept.
    ///
    /// # Cancel safety
    ///
    /// Dropped at the gate nothing is recorded; dropped later it is, and nobody hears of it.
    pub async fn bound_and_kept(&self, bound: Bound) -> Result<(), CallError> {
        self.voice().bound_and_kept(bound).await
    }

    /// Says what the run has used so far, by one of its meters: sums, which never fall. What it tells of twice counts
    /// once, and is charged to the job and all above it. Every call that says something new is a record: a runner whose
    /// work tells of each token says so now and then, unless the run [is budgeted](RunContext::is_budgeted).
    pub fn used(&self, used: Used) {
        self.voice().used(used);
    }

    /// True where a budget is above the run: what it uses is then to be told at once, since nothing stops it before.
    ///
    /// # Errors
    ///
    /// [`CallError`], where the supervisor is busy or closed.
    pub fn is_budgeted(&self) -> Result<bool, CallError> {
        self.cell.core().look(|state| state.is_budgeted(self.cell.lifetime))
    }

    /// What the jobs above this one are to do, nearest first; closures have nothing to show. Looked up when asked: a
    /// runner whose jobs may do no more than those above takes the least of what these may do (SEC-4).
    ///
    /// # Errors
    ///
    /// [`CallError`], where the supervisor is busy or closed. Nothing is known then.
    pub fn specs_above(&self) -> Result<Vec<Arc<Spec>>, CallError> {
        // Of what was committed before this run began, so that a slow disk keeps no agent from its start.
        let RunCell { job, lifetime, .. } = &*self.cell;
        let above = self.cell.core().look_now(|state| state.specs_above(job, *lifetime))?;
        above.map_err(CallError::Refused)
    }

    /// What this job is told of those that it needs ([`JobSpec::after`](crate::JobSpec::after)): how each ended, and what
    /// it put out, within bounds. `None` where it needs none. It is data of theirs: show it to a model as
    /// [`Dependencies::to_text`] does.
    pub fn dependencies(&self) -> Option<&Dependencies> {
        self.cell.needed.as_deref()
    }

    /// Sends mail to another job of the same group, by its id or else its label. It does not wait for the other: where there
    /// is no room that is said at once, and nothing was sent.
    ///
    /// It is for groups whose jobs need others ([`JobSpec::after`](crate::JobSpec::after)) or declare to whom they send
    /// ([`JobSpec::sends`](crate::JobSpec::sends)), in the directions that these give. Mail lives in memory: it is gone
    /// with its group, with the job that it is for, and with the supervisor. It is a sign of work, as
    /// [`RunContext::beat`].
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] by the codes `no_team`, `unknown_target`, `self_target`, `not_allowed`, `target_finished`,
    /// `too_large`, `mailbox_full`, `sends_spent`, and `closed` once the job was told to stop. None of them changes the
    /// result of the job or of its group.
    ///
    /// # Cancel safety
    ///
    /// Dropped at the gate nothing was sent; dropped later it may have been.
    pub async fn team_send(
        &self,
        to: impl AsRef<str>,
        message: impl Into<Arc<str>>,
    ) -> Result<(), CallError> {
        self.mailbox().send(to, message).await
    }

    /// Receives the next mail for this job, or from one sender alone; `None` where none came in time, which is
    /// [`MAIL_WAIT_MAX`](fanin_protocol::limits::MAIL_WAIT_MAX) at the most. With no time at all it only looks.
    ///
    /// Mail of one sender comes in the order in which it was sent. While it waits the job lends its slot and is not idle.
    /// What was sent is text of another job: data, and no instruction.
    ///
    /// # Errors
    ///
    /// [`WaitError::Closed`] once the job was told to stop, also during the wait. [`WaitError::Call`] by the codes
    /// `no_team`; `unknown_target`, `self_target`, `not_allowed`, `target_finished` of a sender that is named; and
    /// `mailbox_reset`, once, where the supervisor was started again since the group was launched.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a mail is taken in the poll that returns it, and by one receiver.
    pub async fn team_recv(&self, from: Option<&str>, timeout: Duration) -> Result<Option<Mail>, WaitError> {
        let offered = self.mailbox().receive(from, timeout).await?;
        Ok(offered.map(Offered::take))
    }

    /// The mail of this run, for somebody who receives for another program: what it has received is taken once that has
    /// it.
    pub fn mailbox(&self) -> Mailbox {
        Mailbox::new(Arc::clone(&self.cell))
    }

    /// Where a program that is part of this run sends and receives mail ([`MAIL_VARIABLE`]): `None` where the job has no
    /// mail, or its supervisor no such place ([`Builder::mail_at`](crate::Builder::mail_at)).
    pub fn mail_at(&self) -> Option<&str> {
        self.cell.mail_at()
    }

    /// Fires, where the job is a watch ([`JobSpec::fires`](crate::JobSpec::fires)): its session is owed this text, once.
    /// Gives how often it may still fire; a watch that may no more has nothing left to do.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] by the codes `no_watch`, `firings_spent`, `too_large`, `stopping`, and `inbox_full` where its
    /// session takes nothing: nothing was counted then, and the same may be said later.
    ///
    /// # Cancel safety
    ///
    /// Dropped at the gate it has not fired; dropped later it may have.
    pub async fn fire(&self, text: impl Into<Arc<str>>) -> Result<u32, CallError> {
        self.beat();
        let fired = Command::Report(Report { run: self.cell.run, what: Said::Fired(text.into()) });
        match self.cell.core().submit(fired).await? {
            Reply::Fired { left } => Ok(left),
            // The run is over, and has no say any more.
            Reply::Done
            | Reply::Turn(_)
            | Reply::Answered
            | Reply::Launched(_)
            | Reply::Stopped(_)
            | Reply::Posted { .. }
            | Reply::Extended(_)
            | Reply::Promoted(_)
            | Reply::Refused(_) => Err(Refusal::RunOver(self.cell.run.fence).into()),
        }
    }

    /// How often it has fired, in earlier runs too, and how often it may; `None` where it is no watch.
    ///
    /// # Errors
    ///
    /// [`CallError`], where the supervisor is busy or closed.
    pub fn firings(&self) -> Result<Option<Firings>, CallError> {
        let RunCell { job, lifetime, .. } = &*self.cell;
        let info = self.cell.core().look_now(|state| state.job_info_exact(job, *lifetime))?;
        Ok(info.map_err(CallError::Refused)?.firings)
    }

    /// Follows what another job puts out, from its beginning to its end. It keeps no supervisor alive.
    ///
    /// # Errors
    ///
    /// [`CallError`] for a job that is not known, and where the supervisor is busy.
    pub fn follow(&self, job: &JobId) -> Result<Follow, CallError> {
        Follow::of(self.cell.core(), job)
    }

    /// Takes follow-ups from now on: what [`Supervisor::extend`](crate::Supervisor::extend) accepts is for
    /// [`RunContext::next_message`]. A body that does so ends by [`RunContext::last_message`]: one that ends well and
    /// leaves a follow-up that was accepted counts as failed (`unanswered`).
    pub fn listen(&self) {
        self.report(Said::Listens);
    }

    /// Waits for the next follow-up and takes it; `None` once the job was told to stop.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a follow-up is taken in the poll that returns it.
    pub async fn next_message(&self) -> Option<Arc<str>> {
        tokio::select! {
            biased;
            message = self.message() => Some(message),
            () = self.cancelled() => None,
        }
    }

    /// Takes the next follow-up, or ends the taking of them: after `None` none is accepted any more, so that the body can
    /// end without leaving one behind.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`]: nothing has changed; [`CallError::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`RunContext::next_message`]. Dropped at the gate, follow-ups are still accepted.
    pub async fn last_message(&self) -> Result<Option<Arc<str>>, CallError> {
        if let Some(message) = self.pop_message() {
            return Ok(Some(message));
        }
        let silent = Command::Report(Report { run: self.cell.run, what: Said::Silent });
        match self.cell.core().submit(silent).await {
            Ok(_) => Ok(None),
            // Accepted, and on its way here.
            Err(CallError::Refused(Refusal::MessagesLeft(_))) => Ok(Some(self.message().await)),
            Err(error) => Err(error),
        }
    }

    async fn message(&self) -> Arc<str> {
        loop {
            // Registered before the look, so that a delivery between look and wait is not missed.
            let mut delivered = pin!(self.cell.talk().delivered.notified());
            delivered.as_mut().enable();
            if let Some(message) = self.pop_message() {
                return message;
            }
            delivered.await;
        }
    }

    fn pop_message(&self) -> Option<Arc<str>> {
        let (key, text) = self.cell.talk.get()?.messages.lock().pop_front()?;
        self.report(Said::Took(key));
        Some(text)
    }

    /// Announces a tool call. `call` names it inside this run; a name that was used before is the same call.
    pub fn tool(&self, call: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> ToolCall {
        self.voice().tool(call, name)
    }

    /// Announces a question to a person, a permission among them: a part like a tool call. While it is open the clocks of
    /// the run stand still.
    pub fn question(&self, call: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> ToolCall {
        self.voice().question(call, name)
    }

    /// As [`RunContext::tool`], with a digest of the arguments: equal arguments give equal digests, whatever the
    /// digest is made with. So the same call again and again is found (SC-15).
    pub fn tool_with(
        &self,
        call: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        args: &(impl Hash + ?Sized),
    ) -> ToolCall {
        self.voice().tool_with(call, name, args)
    }

    fn report(&self, what: Said) {
        self.voice().report(what);
    }
}

impl Deref for RunContext {
    type Target = Launcher;

    fn deref(&self) -> &Launcher {
        &self.cell.launcher
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("job", &self.cell.job)
            .field("run", &self.cell.run.fence)
            .field("stage", &self.stage())
            .finish_non_exhaustive()
    }
}
