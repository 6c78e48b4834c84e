//! What to launch: a closure, or the plain data that a registered runner understands.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fanin_protocol::spec::{AgentSpec, CommandSpec, millis};
use fanin_protocol::{Cause, GroupId, JobId, JobKind, Policy, SharedLimits, Spec};

use crate::body::Body;
use crate::context::RunContext;
use crate::output::JobOutput;
use crate::runner::Ending;

/// A job to launch. It holds a closure that is called once, so it can be sent but not cloned or shared.
pub struct JobSpec {
    pub(crate) id: Option<JobId>,
    pub(crate) again: bool,
    pub(crate) label: Option<Arc<str>>,
    /// `None` for a closure.
    pub(crate) spec: Option<Arc<Spec>>,
    pub(crate) limits: SharedLimits,
    pub(crate) body: Option<Body>,
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
        let body: Body = Box::new(move |context| {
            let work = body(context);
            Box::pin(async move {
                match work.await {
                    Ok(output) => Ending::completed(output),
                    Err(JobError(message)) => Ending::failed(Cause::Failed, None, message),
                }
            })
        });
        Self::of(label, None, Some(body))
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
        Self::new(label, Spec::Agent(AgentSpec { agent: agent.into(), prompt: prompt.into() }))
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

    fn of(label: impl Into<Arc<str>>, spec: Option<Arc<Spec>>, body: Option<Body>) -> Self {
        let label = Some(label.into()).filter(|label| !label.is_empty());
        Self { id: None, again: false, label, spec, limits: SharedLimits::default(), body }
    }

    /// The job's id; without one chance gives it. A known id answers the existing job (J-21).
    #[must_use]
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
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

    /// The limit of one run. The job is stopped at it and ends `error{timeout run}`; output so far is kept.
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

    /// Time between the polite stop and the forced one; without it the supervisor's.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.limits.edit().grace_ms = Some(millis(grace));
        self
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
