//! What a server needs from the program that it is part of.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use fanin_protocol::{Budget, JobId};
use fanin_supervisor::{JobSpec, Supervisor};
use serde::Deserialize;
use serde_json::Number;

/// A task as a model wrote it: the keys of a manifest's `[[task]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its name in the call.
    pub id: Option<String>,
    /// Its name for people; the id unless set.
    pub label: Option<String>,
    /// A program and its arguments.
    pub command: Option<Vec<String>>,
    /// A line for the shell.
    pub shell: Option<String>,
    /// An agent by its name, which is given the prompt.
    pub agent: Option<String>,
    /// What it shall do.
    pub prompt: Option<String>,
    /// What it may do at the most: `read-only`, `edit` or `full`.
    pub rights: Option<String>,
    /// The folder it runs in.
    pub cwd: Option<String>,
    /// Variables beside the present environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// How long one run of it may take, as `30s`.
    pub timeout: Option<String>,
    /// How long it may show no sign of work.
    pub idle: Option<String>,
    /// How long it may wait for its start.
    pub queue_timeout: Option<String>,
    /// How long its start may take.
    pub start_timeout: Option<String>,
    /// How long all of its runs may take.
    pub total_timeout: Option<String>,
    /// Tries after the first one.
    pub retries: Option<u64>,
    /// Output that is kept of it.
    pub output_bytes_max: Option<u64>,
    /// Tasks of the call that it needs, by their ids.
    #[serde(default)]
    pub depends: Vec<String>,
    /// What becomes of it where one of them does not complete: `skip`, `run` or `fail_team`.
    pub on_failed_dependency: Option<String>,
    /// What it alone may use.
    pub budget: Option<Amounts>,
    /// Tasks of the call that it may send mail to, by their ids.
    #[serde(default)]
    pub sends: Vec<String>,
}

/// A watch as a model wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchTask {
    /// Its name for people.
    pub label: Option<String>,
    /// A program and its arguments, run to look.
    pub command: Option<Vec<String>>,
    /// A line for the shell, run to look.
    pub shell: Option<String>,
    /// A job of this connection, whose lines are looked at instead.
    pub job: Option<String>,
    /// The folder it runs in.
    pub cwd: Option<String>,
    /// Variables beside the present environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// It fires at a line that matches.
    pub pattern: Option<String>,
    /// It fires where the output is another one.
    #[serde(default)]
    pub changes: bool,
    /// Time between two checks, as `30s`.
    pub every: Option<String>,
    /// How long one check may take.
    pub check_timeout: Option<String>,
    /// Time between two firings.
    pub gap: Option<String>,
    /// How often it may fire.
    pub times: Option<u64>,
    /// How long it looks.
    pub life: Option<String>,
}

/// A budget as a model wrote it: the keys of a manifest's `[budget]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    /// US dollars.
    pub usd: Option<Number>,
    /// Tokens of models.
    pub tokens: Option<Number>,
    /// Calls of models.
    pub steps: Option<Number>,
    /// The times of all runs, added up, as `2h`.
    pub time: Option<String>,
    /// US dollars that one start is expected to cost.
    pub estimate: Option<Number>,
}

impl Amounts {
    /// What stands at a key, as it was written.
    pub fn at(&self, key: &str) -> Option<String> {
        let number = match key {
            "usd" => &self.usd,
            "tokens" => &self.tokens,
            "steps" => &self.steps,
            "estimate" => &self.estimate,
            "time" => return self.time.clone(),
            _ => return None,
        };
        number.as_ref().map(Number::to_string)
    }
}

/// What is launched by one call.
#[derive(Debug, Default)]
pub struct Made {
    /// Its jobs, in order.
    pub jobs: Vec<JobSpec>,
    /// What they may use together.
    pub budget: Budget,
}

/// What is wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which task, from 0; `None` for the call as a whole.
    pub index: Option<usize>,
    /// The key; empty for the task as a whole.
    pub key: String,
    /// What is wrong and what would be right.
    pub what: String,
}

/// Why there is no supervisor to launch with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StartFailed {
    /// The code of what failed.
    pub code: &'static str,
    /// What failed, and the way out.
    pub message: String,
}

/// The program that a server is part of.
pub trait Host: Send + Sync + 'static {
    /// Makes the jobs of a call from its tasks, in order, and what they may use together. Nothing is started.
    ///
    /// # Errors
    ///
    /// All that is wrong with them.
    fn jobs(&self, tasks: Vec<Task>, budget: Option<Amounts>) -> Result<Made, Vec<Problem>>;

    /// Makes the watch of a call; `job` is the one that it names, looked up. Nothing is started.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    fn watch(&self, watch: WatchTask, job: Option<JobId>) -> Result<JobSpec, Vec<Problem>>;

    /// Starts the supervisor of this server: before its first launch, and once. It knows the session's id, under which
    /// its jobs can be found.
    ///
    /// # Errors
    ///
    /// [`StartFailed`]; the next launch tries again.
    fn start(&self) -> impl Future<Output = Result<Supervisor, StartFailed>> + Send;

    /// Called before each launch with what is launched, once there is a supervisor: for what these jobs need beside it.
    ///
    /// # Errors
    ///
    /// [`StartFailed`]; nothing is launched then.
    fn launching(&self, supervisor: &Supervisor, jobs: &[JobSpec]) -> Result<(), StartFailed> {
        let _ = (supervisor, jobs);
        Ok(())
    }

    /// The id of the session whose jobs these are.
    fn session(&self) -> fanin_protocol::SessionId;

    /// What the session, and all that it launches, may use; asked once, after the start.
    fn session_budget(&self) -> Budget {
        Budget::NONE
    }

    /// False where jobs may not be launched from here: the program is itself part of a job at the depth limit. The tools
    /// that launch are not listed then, and refuse.
    fn may_launch(&self) -> bool;

    /// True where the parent is woken: what runs in the background is told to it as its next prompt once its turn is over,
    /// and not with the answers of other calls.
    fn is_woken(&self) -> bool {
        false
    }
}

impl<H: Host> Host for Arc<H> {
    fn jobs(&self, tasks: Vec<Task>, budget: Option<Amounts>) -> Result<Made, Vec<Problem>> {
        H::jobs(self, tasks, budget)
    }

    fn watch(&self, watch: WatchTask, job: Option<JobId>) -> Result<JobSpec, Vec<Problem>> {
        H::watch(self, watch, job)
    }

    fn start(&self) -> impl Future<Output = Result<Supervisor, StartFailed>> + Send {
        H::start(self)
    }

    fn launching(&self, supervisor: &Supervisor, jobs: &[JobSpec]) -> Result<(), StartFailed> {
        H::launching(self, supervisor, jobs)
    }

    fn session(&self) -> fanin_protocol::SessionId {
        H::session(self)
    }

    fn session_budget(&self) -> Budget {
        H::session_budget(self)
    }

    fn may_launch(&self) -> bool {
        H::may_launch(self)
    }

    fn is_woken(&self) -> bool {
        H::is_woken(self)
    }
}
