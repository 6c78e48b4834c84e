//! The seam to the outside: what runs a job that is plain data.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use fanin_protocol::cause::Exit;
use fanin_protocol::{Cause, Code, JobKind, Left, LeftProcess, LogId, Spec};

use crate::context::RunContext;
use crate::output::JobOutput;

/// The future of a run.
pub type RunFuture = Pin<Box<dyn Future<Output = Ending> + Send>>;

/// Runs the jobs of one kind. It knows one outside thing, and no other runner.
///
/// The supervisor makes the completion guard outside [`Runner::run`]'s future: a panic in it, its abort, and its
/// drop before the first poll all end the job.
pub trait Runner: Send + Sync + fmt::Debug + 'static {
    /// The kind of jobs this runner runs.
    fn kind(&self) -> JobKind;

    /// Looks at a spec at launch, before any record of it exists, without waiting: an unknown agent or model is
    /// refused here (B55).
    ///
    /// # Errors
    ///
    /// A sentence that names the input and the way out.
    fn check(&self, spec: &Spec) -> Result<(), String>;

    /// True where its runs take follow-ups (J-24): it then asks [`RunContext::next_message`], and ends by
    /// [`RunContext::last_message`].
    fn takes_messages(&self) -> bool {
        false
    }

    /// Stops what an earlier supervisor of this log started and did not outlive it: called once, on a thread that may
    /// block, before anything of a store that was used before is started (RE-2). What it could not stop it names.
    fn stop_survivors(&self, log: &LogId) -> Vec<LeftProcess> {
        let _ = log;
        Vec::new()
    }

    /// True where something of what a run left may still be alive. It is asked before the job's id begins a new life, and
    /// looks without waiting (J-14); a runner that cannot look does not vouch for anything.
    fn may_live(&self, left: &Left) -> bool {
        left.is_unreaped()
    }

    /// The run. When the future is over, all that it started is gone, but for what its ending names as left.
    ///
    /// The runner calls [`RunContext::bound`] once it has the work in hand, and ends soon after
    /// [`RunContext::cancelled`], at once after [`RunContext::forced`]. A future that goes on after that is dropped:
    /// its drop must kill what it owns.
    fn run(&self, spec: Arc<Spec>, context: RunContext) -> RunFuture;
}

/// How a run ended, by its own word. Whether the job counts as completed is decided by the machine: a recorded stop
/// wins over it (J-17).
#[derive(Debug, Clone)]
pub struct Ending {
    /// `None` where the body ended well.
    pub failure: Option<Failure>,
    /// How a command's process left.
    pub exit: Option<Exit>,
    /// What it put out, behind what it has written with [`RunContext::write`].
    pub output: JobOutput,
    /// What its processes left, where they left anything. The job is `unreaped` where that may still be alive.
    pub left: Option<Left>,
}

/// Why a run did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The cause: `failed`, `panic` or `spawn`.
    pub cause: Cause,
    /// A finer word.
    pub code: Option<Code>,
    /// In words, fit after "failed: ".
    pub message: String,
    /// Nothing of the job has taken effect yet, so that another try cannot do anything twice. Set it with
    /// [`Failure::before_start`].
    pub is_safe: bool,
}

impl Failure {
    /// A failure in words.
    pub fn new(cause: Cause, code: Option<Code>, message: impl Into<String>) -> Self {
        Self { cause, code, message: message.into(), is_safe: false }
    }

    /// Says that nothing of the job had taken effect: its program did not come up, or refused the work before it was
    /// begun. Agents are then tried again without asking (SC-17).
    #[must_use]
    pub fn before_start(mut self) -> Self {
        self.is_safe = true;
        self
    }
}

impl From<Failure> for Ending {
    fn from(failure: Failure) -> Self {
        Self { failure: Some(failure), exit: None, output: JobOutput::default(), left: None }
    }
}

impl Ending {
    /// The body ended well.
    pub const fn completed(output: JobOutput) -> Self {
        Self { failure: None, exit: None, output, left: None }
    }

    /// The body ended badly.
    pub fn failed(cause: Cause, code: Option<Code>, message: impl Into<String>) -> Self {
        Failure::new(cause, code, message).into()
    }
}
