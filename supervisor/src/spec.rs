//! What to launch: a closure, or the plain data that a registered runner understands.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fanin_protocol::limits::WATCH_LIFE_MAX;
use fanin_protocol::spec::{AgentSpec, CommandSpec, millis};
use fanin_protocol::{
    Budget, Cause, GroupId, JobId, JobKind, JobLimits, OnFailedDependency, Policy, Resume, SharedLimits,
    Spec, WatchSpec,
};

use crate::body::{Body, Start, Work};
use crate::context::RunContext;
use crate::output::JobOutput;
use crate::runner::Ending;

/// A job to launch. It holds a closure that is called once, so it can be sent but not cloned or shared.
pub struct JobSpec {
    pub(crate) id: Option<JobId>,
    pub(crate) again: bool,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) name: Option<Arc<str>>,
    /// `None` for a closure.
    pub(crate) spec: Option<Arc<Spec>>,
    pub(crate) limits: SharedLimits,
    pub(crate) needs: Vec<After>,
    pub(crate) on_failed: OnFailedDependency,
    pub(crate) sends: Vec<After>,
    pub(crate) work: Option<Work>,
}

/// A job of the same call that another one needs, or sends mail to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// By its id, or else its label.
    Name(Arc<str>),
    /// By its place in the call, from 0.
    Place(u32),
}

impl From<&str> for After {
    fn from(name: &str) -> Self {
        Self::Name(name.into())
    }
}

impl From<String> for After {
    fn from(name: String) -> Self {
        Self::Name(name.into())
    }
}

impl From<JobId> for After {
    fn from(id: JobId) -> Self {
        Self::Name(id.to_string().into())
    }
}

impl From<u32> for After {
    fn from(place: u32) -> Self {
        Self::Place(place)
    }
}

/// Why a closure's work did not end well. Whatever is a [`std::error::Error`] turns into one with `?`; for a text, or
/// a boxed error, there is [`JobError::new`].
#[derive(Debug)]
pub struct JobError(String);

impl JobError {
    /// A failure in words, fit after "failed: ".
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Like an error of an application, not of a library: it is the end of the road, so it is no `Error` itself and can
// be made from any.
impl<E: Error> From<E> for JobError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self(message)
    }
}

impl JobSpec {
    /// A closure of this program. It is called on the job's own task, once the job has a slot.
    ///
    /// It must not block its thread, like any task of the runtime: one that does cannot be stopped, and is reported
    /// as `unreaped`.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanin_supervisor::JobSpec;
    ///
    /// let spec = JobSpec::run("scan", |ctx| async move {
    ///     ctx.progress("reading");
    ///     Ok("42 files".into())
    /// });
    /// ```
    pub fn run<F, Fut>(label: impl Into<Arc<str>>, body: F) -> Self
    where
        F: FnOnce(RunContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<JobOutput, JobError>> + Send + 'static,
    {
        let body: Body = Box::new(move |start| {
            start.spawn(move |context| {
                let work = body(context);
                async move { ending(work.await) }
            })
        });
        Self::of(label, None, Some(Work::Once(body)))
    }

    /// As [`JobSpec::run`], for a closure that may run again: each try calls it once more. Only such a closure can have
    /// [`JobSpec::retries`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fanin_supervisor::JobSpec;
    ///
    /// let spec = JobSpec::rerunnable("fetch", |_ctx| async { Ok("200".into()) }).retries(3);
    /// ```
    pub fn rerunnable<F, Fut>(label: impl Into<Arc<str>>, body: F) -> Self
    where
        F: Fn(RunContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<JobOutput, JobError>> + Send + 'static,
    {
        let body = Arc::new(body);
        let again = move |start: Start| {
            let body = Arc::clone(&body);
            start.spawn(move |context| {
                let work = body(context);
                async move { ending(work.await) }
            })
        };
        Self::of(label, None, Some(Work::Again(Arc::new(again))))
    }

    /// A program and its arguments. Needs a runner for commands, `SubprocessRunner` of `fanin-subprocess`.
    pub fn command(label: impl Into<Arc<str>>, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(label, Spec::Command(CommandSpec::argv(argv)))
    }

    /// A line for the shell. Needs a runner for commands, `SubprocessRunner` of `fanin-subprocess`.
    pub fn shell(label: impl Into<Arc<str>>, line: impl Into<String>) -> Self {
        Self::new(label, Spec::Command(CommandSpec::shell(line)))
    }

    /// A prompt for an agent. Needs a runner for agents.
    pub fn agent(label: impl Into<Arc<str>>, agent: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self::new(label, AgentSpec::new(agent, prompt))
    }

    /// A watch: what is looked at again and again, at an interval or as it comes, and tells its session each time it fires
    /// ([`Session::next_hit`](crate::Session::next_hit)). It fires once and lives for a day, unless [`JobSpec::fires`] says
    /// otherwise; what watches changes nothing, so it is started again after a crash of its supervisor. Needs a runner for
    /// commands, `SubprocessRunner` of `fanin-subprocess`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use fanin_supervisor::JobSpec;
    /// use fanin_supervisor::protocol::{CommandSpec, WatchSpec, When};
    ///
    /// let up = WatchSpec::checks(CommandSpec::shell("curl -sf localhost:8080"), When::Succeeds);
    /// let spec = JobSpec::watch("server is up", up).fires(3, Duration::from_secs(3_600));
    /// ```
    pub fn watch(label: impl Into<Arc<str>>, watch: WatchSpec) -> Self {
        Self::new(label, watch).resume(Resume::Rerun).fires(1, WATCH_LIFE_MAX)
    }

    /// The job is a watch: its body may fire so many times ([`RunContext::fire`]), 1 to
    /// [`WATCH_FIRINGS_MAX`](fanin_protocol::limits::WATCH_FIRINGS_MAX), and lives no longer than `life`, a day at the most.
    /// It holds no slot, is a group of its own, and a session is done although it runs.
    #[must_use]
    pub fn fires(mut self, times: u32, life: Duration) -> Self {
        let limits = self.limits.edit();
        (limits.firings, limits.total_ms) = (Some(times), Some(millis(life)));
        self
    }

    /// Plain data for the runner of its kind.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanin_supervisor::JobSpec;
    /// use fanin_supervisor::protocol::CommandSpec;
    ///
    /// let tests = CommandSpec::argv(["cargo", "test"]).cwd("service").env("RUST_BACKTRACE", "1");
    /// let spec = JobSpec::new("tests", tests);
    /// ```
    pub fn new(label: impl Into<Arc<str>>, spec: impl Into<Spec>) -> Self {
        Self::of(label, Some(Arc::new(spec.into())), None)
    }

    fn of(label: impl Into<Arc<str>>, spec: Option<Arc<Spec>>, work: Option<Work>) -> Self {
        let label = Some(label.into()).filter(|label| !label.is_empty());
        Self {
            id: None,
            again: false,
            label,
            name: None,
            spec,
            limits: SharedLimits::default(),
            needs: Vec::new(),
            on_failed: OnFailedDependency::Skip,
            sends: Vec::new(),
            work,
        }
    }

    /// The job's id; without one chance gives it. A known id answers the existing job (J-21).
    #[must_use]
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// What the jobs of its call name it by, where that is not its label: it is free to be the same in another group
    /// (T-9). [`JobSpec::after`], [`JobSpec::sends`] and mail find it by this name first.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// True where it needs other jobs of its call or declares to whom it sends mail: then its group has mail.
    pub const fn is_tied(&self) -> bool {
        !self.needs.is_empty() || !self.sends.is_empty()
    }

    /// A new life under the same id, where the job of that id is over. What its last life left stays readable.
    ///
    /// A job that is alive is answered as it is, so the same call may be made again where its answer was lost. One
    /// whose last life may still be alive is refused with `still_reaping`.
    #[must_use]
    pub const fn again(mut self) -> Self {
        self.again = true;
        self
    }

    /// The limit of one run. The job is stopped at it and ends `error{timeout run}`; output so far is kept. An open
    /// question stops its clock.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limits.edit().run_ms = Some(millis(limit));
        self
    }

    /// The limit from launch to the first start. At it the job ends `error{timeout queue}` and is never started.
    #[must_use]
    pub fn queue_timeout(mut self, limit: Duration) -> Self {
        self.limits.edit().queue_ms = Some(millis(limit));
        self
    }

    /// The limit from the start of a run until its runner has the work in hand, `error{timeout start}`. Without it 60 s
    /// for commands and agents; a closure is in hand at once.
    #[must_use]
    pub fn start_timeout(mut self, limit: Duration) -> Self {
        self.limits.edit().start_ms = Some(millis(limit));
        self
    }

    /// The limit of all runs and the gaps between them, from the first start, `error{timeout total}`.
    #[must_use]
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.limits.edit().total_ms = Some(millis(limit));
        self
    }

    /// The limit of a run without a sign of work, `error{timeout idle}`: a tool call that moves, progress, a
    /// [`RunContext::beat`], output of a command. At half of it a note `stall` is written. An open question, and a
    /// time in which the machine slept, do not count.
    #[must_use]
    pub fn idle(mut self, limit: Duration) -> Self {
        self.limits.edit().idle_ms = Some(millis(limit));
        self
    }

    /// Tries after the first one, where a run fails. Each comes after a gap that grows from 1 s to 60 s, once the run
    /// before is gone. A closure needs [`JobSpec::rerunnable`].
    #[must_use]
    pub fn retries(mut self, tries: u32) -> Self {
        self.limits.edit().retries = Some(tries);
        self
    }

    /// What becomes of the job where its supervisor ends before it does, and a store is kept: it has failed unless this
    /// says otherwise. A closure cannot be started again by another process.
    #[must_use]
    pub fn resume(mut self, resume: Resume) -> Self {
        self.limits.edit().resume = Some(resume);
        self
    }

    /// Calls of one tool with the same arguments in a row at which the job is stopped, `error{failed no_progress}`.
    /// Without it 50 for agents, and no bound for others.
    #[must_use]
    pub fn repeats(mut self, calls: u32) -> Self {
        self.limits.edit().repeats = Some(calls);
        self
    }

    /// What the job, and all below it, may use. Once that is used up it is stopped and ends `error{budget}`; what it has
    /// put out is kept.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.limits.edit().budget = budget;
        self
    }

    /// What a run of it is expected to cost, in millionths of a US dollar. Below a budget of money it starts only where so
    /// much is left; without it half a dollar is set aside for an agent, or what is left, and nothing for others.
    #[must_use]
    pub fn estimate_usd_micros(mut self, micros: u64) -> Self {
        self.limits.edit().estimate_usd_micros = Some(micros);
        self
    }

    /// All limits at once, as plain data, in place of those that were set before.
    #[must_use]
    pub fn limits(mut self, limits: JobLimits) -> Self {
        self.limits = limits.into();
        self
    }

    /// The job needs others of the same call: it starts once they are over, and is told how they ended and what they put
    /// out ([`RunContext::dependencies`]). Called again it adds to them. Members that need each other in a circle, or one
    /// that is not there, are refused with all that is wrong.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanin_supervisor::JobSpec;
    ///
    /// # async fn launch(session: &fanin_supervisor::Session) -> Result<(), fanin_supervisor::LaunchError> {
    /// session
    ///     .fan_out([
    ///         JobSpec::run("schema", |_| async { Ok("id, name".into()) }),
    ///         JobSpec::run("reader", |ctx| async move {
    ///             let needed = ctx.dependencies().expect("it needs one");
    ///             let schema = needed.entries[0].output.as_ref().map_or("", |output| &output.text);
    ///             Ok(format!("reads {schema}").into())
    ///         })
    ///         .after(["schema"]),
    ///     ])
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn after(mut self, jobs: impl IntoIterator<Item = impl Into<After>>) -> Self {
        self.needs.extend(jobs.into_iter().map(Into::into));
        self
    }

    /// What becomes of the job where one that it needs did not complete: it is skipped, unless this says otherwise.
    #[must_use]
    pub const fn on_failed_dependency(mut self, then: OnFailedDependency) -> Self {
        self.on_failed = then;
        self
    }

    /// The job may send mail to these jobs of the same call ([`RunContext::team_send`]). Called again it adds to them.
    ///
    /// Where any job of a call declares this, mail goes the declared ways and no other. Where none does, and jobs need
    /// others, it goes from jobs that come earlier in the order of the plan to those that come later, with ties in launch
    /// order. Ways and needs that together lead in a circle are refused: whoever may get mail may wait for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use fanin_supervisor::JobSpec;
    ///
    /// # async fn launch(session: &fanin_supervisor::Session) -> Result<(), fanin_supervisor::LaunchError> {
    /// session
    ///     .fan_out([
    ///         JobSpec::run("search", |ctx| async move {
    ///             ctx.team_send("summary", "found it in src/model").await?;
    ///             Ok("done".into())
    ///         })
    ///         .sends(["summary"]),
    ///         JobSpec::run("summary", |ctx| async move {
    ///             let mail = ctx.team_recv(None, Duration::from_secs(10)).await?;
    ///             Ok(mail.map_or_else(String::new, |mail| mail.text.to_string()).into())
    ///         }),
    ///     ])
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn sends(mut self, to: impl IntoIterator<Item = impl Into<After>>) -> Self {
        self.sends.extend(to.into_iter().map(Into::into));
        self
    }

    /// True where it can be tried more than once, if that is asked for.
    pub(crate) fn is_rerunnable(&self) -> bool {
        !matches!(self.work, Some(Work::Once(_)))
    }

    /// Time between the polite stop and the forced one; without it the supervisor's.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.limits.edit().grace_ms = Some(millis(grace));
        self
    }
}

fn ending(result: Result<JobOutput, JobError>) -> Ending {
    match result {
        Ok(output) => Ending::completed(output),
        Err(JobError(message)) => Ending::failed(Cause::Failed, None, message),
    }
}

impl fmt::Debug for JobSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No command line and no prompt: those are content (SEC-6).
        f.debug_struct("JobSpec")
            .field("id", &self.id)
            .field("label", &self.label)
            .field("kind", &self.spec.as_ref().map_or(JobKind::Closure, |spec| spec.kind()))
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// How a group is launched.
#[derive(Debug, Clone, Default)]
pub struct GroupOptions {
    /// The group's id; without one chance gives it. A known id answers the existing group (J-21).
    pub id: Option<GroupId>,
    /// When the rest is stopped.
    pub policy: Policy,
}
