//! Agent jobs: programs that speak the Agent Client Protocol, and commands that take a prompt.
//!
//! [`AcpRunner`] starts an agent's program held like a command, opens a session, gives it one prompt and waits for its
//! answer. Tool calls that it tells of are parts of the run, its last message is the job's output, and what it asks
//! permission for is answered by the rights of the job. How its turn stopped decides how the job ends; an agent that is
//! quiet is not one that is done.
//!
//! ```no_run
//! use fanin_acp::{AcpRunner, Agent, Agents};
//! use fanin_protocol::Rights;
//! use fanin_supervisor::{JobSpec, Supervisor};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let agents = Agents::default().with("mine", Agent::acp(["my-agent", "--acp"]).rights(Rights::Edit));
//! let supervisor = Supervisor::builder().runner(AcpRunner::new(agents)).start().await?;
//! let session = supervisor.session("main").await?;
//! session.fan_out([JobSpec::agent("a", "mine", "Review src/a"), JobSpec::agent("b", "opencode", "Review src/b")]).await?;
//! let wake = session.next_wake().await?;
//! println!("{}", wake.result());
//! wake.ack().await?;
//! # Ok(())
//! # }
//! ```

mod agents;
mod ending;
mod greeting;
mod hosted;
mod life;
mod listener;
mod program;
mod run;
mod talk;
mod wire;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use agents::{Agent, Agents, PROMPT, Way};
use fanin_protocol::limits::{AGENT_ANSWER_WAIT, VARIABLE_BYTES_MAX};
use fanin_protocol::{
    AgentSpec, Cause, CommandSpec, DEPENDENCIES_VARIABLE, Dependencies, JobKind, Left, LeftProcess, LogId,
    Spec,
};
use fanin_supervisor::{Ending, Failure, RunContext, RunFuture, Runner};
pub use greeting::{Greeting, greet_agent};
pub use hosted::{Answered, Conversation, Hosting, Opened, ToolServer};

/// Runs agent jobs. It needs a tokio runtime with I/O and time enabled.
#[derive(Debug, Clone)]
pub struct AcpRunner {
    agents: Arc<Agents>,
    shim: Option<Arc<Path>>,
    commands: Option<Arc<dyn Runner>>,
    mail: Option<Arc<ToolServer>>,
    answer_wait: Duration,
}

impl AcpRunner {
    /// A runner for these agents. It holds each by its process group alone; see [`AcpRunner::with_shim`].
    pub fn new(agents: Agents) -> Self {
        let answer_wait = AGENT_ANSWER_WAIT;
        Self { agents: Arc::new(agents), shim: None, commands: None, mail: None, answer_wait }
    }

    /// As [`AcpRunner::new`], with each agent held by a shim: the program at `path`, as `SubprocessRunner` of
    /// `fanin-subprocess` takes it.
    #[must_use]
    pub fn with_shim(mut self, path: impl Into<PathBuf>) -> Self {
        self.shim = Some(path.into().into());
        self
    }

    /// With a runner of commands, which runs the agents of kind [`Way::Command`]. Without one those are refused.
    #[must_use]
    pub fn with_commands(mut self, runner: impl Runner) -> Self {
        self.commands = Some(Arc::new(runner));
        self
    }

    /// With the tools of a job that may have mail ([`RunContext::mail_at`]): each such agent that speaks ACP is given this
    /// server. Where its mail is stands behind the arguments as a last one.
    #[must_use]
    pub fn with_mail(mut self, tools: ToolServer) -> Self {
        self.mail = Some(Arc::new(tools));
        self
    }

    /// The tools of a job.
    fn tools(&self, context: &RunContext) -> Vec<ToolServer> {
        let mail = self.mail.as_deref().zip(context.mail_at());
        mail.map(|(tools, path)| tools.with_argument(path)).into_iter().collect()
    }

    /// With another limit for each answer before the prompt than [`AGENT_ANSWER_WAIT`].
    #[must_use]
    pub const fn answer_within(mut self, limit: Duration) -> Self {
        self.answer_wait = limit;
        self
    }

    fn checked<'s>(&self, spec: &'s Spec) -> Result<&'s AgentSpec, String> {
        let Spec::Agent(spec) = spec else {
            return Err(format!("a job of kind {} is no prompt for an agent", spec.kind().as_str()));
        };
        self.agents.check(spec)?;
        let is_command = self.agents.find(&spec.agent)?.way == Way::Command;
        match &self.commands {
            None if is_command => {
                Err(format!("agent `{}` is a command, and this supervisor runs none for agents", spec.agent))
            }
            Some(_) | None => Ok(spec),
        }
    }

    /// Starts with the least of all rights: who cannot look does not guess.
    async fn run(self, spec: Arc<Spec>, context: RunContext) -> Ending {
        let refused = |why: String| Ending::from(Failure::new(Cause::Spawn, None, why));
        let agent_spec = match self.checked(&spec) {
            Ok(spec) => spec,
            // It was known at its launch; the configuration of a later start can be another.
            Err(why) => return refused(why),
        };
        let above = match context.specs_above() {
            Ok(above) => above,
            Err(error) => return refused(format!("the rights of the jobs above are not known: {error}")),
        };
        let above = above.iter().filter_map(|spec| match &**spec {
            Spec::Agent(agent) => Some(agent),
            Spec::Command(_) | Spec::Watch(_) => None,
        });
        let rights = self.agents.rights(agent_spec, above);
        let agent = match self.agents.find(&agent_spec.agent) {
            Ok(agent) => agent,
            Err(why) => return refused(why),
        };
        let agent_spec = &*told(agent_spec, agent.way, &context);
        let started = agent.started(agent_spec, rights, std::env::vars_os());
        match (agent.way, &self.commands) {
            (Way::Acp, _) => {
                let started = marked(started, &context);
                let held = (self.shim.as_deref(), self.answer_wait);
                let (tools, task) = (self.tools(&context), (agent, agent_spec));
                run::run(task, &started, (rights, tools), held, context).await
            }
            (Way::Command, Some(commands)) => {
                let commands = Arc::clone(commands);
                commands.run(Arc::new(Spec::Command(started)), context).await
            }
            // Refused above.
            (Way::Command, None) => refused("this supervisor runs no commands for agents".to_owned()),
        }
    }
}

impl Runner for AcpRunner {
    fn kind(&self) -> JobKind {
        JobKind::Agent
    }

    fn check(&self, spec: &Spec) -> Result<(), String> {
        self.checked(spec).map(drop)
    }

    fn stop_survivors(&self, log: &LogId) -> Vec<LeftProcess> {
        fanin_process::stop_survivors(&fanin_process::Table::default(), log)
    }

    fn may_live(&self, left: &Left) -> bool {
        fanin_process::may_live(left)
    }

    fn run(&self, spec: Arc<Spec>, context: RunContext) -> RunFuture {
        Box::pin(self.clone().run(spec, context))
    }
}

/// The task with what it is told of the jobs that it needs, behind its own words. What is given to a command has to fit
/// into one of its arguments.
fn told<'s>(spec: &'s AgentSpec, way: Way, context: &RunContext) -> Cow<'s, AgentSpec> {
    let earlier = spec.env.get(DEPENDENCIES_VARIABLE).map(String::as_str);
    let Some(needed) = Dependencies::and_earlier(context.dependencies(), earlier) else {
        return Cow::Borrowed(spec);
    };
    let room = match way {
        Way::Acp => usize::MAX,
        Way::Command => (VARIABLE_BYTES_MAX - ARGUMENT_ROOM).saturating_sub(spec.prompt.len()),
    };
    let prompt = format!("{}\n\n{}", spec.prompt, needed.to_text(room));
    Cow::Owned(AgentSpec { prompt, ..spec.clone() })
}

/// What an argument may hold beside a prompt.
const ARGUMENT_ROOM: usize = 4 * 1024;

/// The program with what tells it, and what it starts, whose child it is.
fn marked(mut started: CommandSpec, context: &RunContext) -> CommandSpec {
    let variables = context.variables(fanin_process::own_mark());
    started.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    started
}
