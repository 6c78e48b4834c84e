//! What a job shall do, as plain data that only its runner understands.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::JobKind;
pub use crate::job_limits::JobLimits;
use crate::limits::{COMMAND_BYTES_MAX, OUTPUT_BYTES_MAX_MAX};
use crate::rights::Rights;
pub use crate::watch::{WatchSpec, Watched, When};

/// What a job shall do. A closure has no spec: it cannot be written down and never survives the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spec {
    /// A command.
    Command(CommandSpec),
    /// A prompt for an agent.
    Agent(AgentSpec),
    /// A condition that is looked at again and again. Its limits say how often it fires.
    Watch(WatchSpec),
}

impl Spec {
    /// The kind of job that this makes.
    pub const fn kind(&self) -> JobKind {
        match self {
            // What looks is a command, or the runner of commands itself.
            Self::Command(_) | Self::Watch(_) => JobKind::Command,
            Self::Agent(_) => JobKind::Agent,
        }
    }

    /// Checks what needs no look at the outside.
    ///
    /// # Errors
    ///
    /// [`SpecError`] names the field and what is wrong with it.
    pub fn check(&self) -> Result<(), SpecError> {
        match self {
            Self::Command(command) => command.check(),
            Self::Agent(agent) => agent.check(),
            Self::Watch(watch) => watch.check(),
        }
    }

    /// Output of it that is kept at the most, where it says so.
    pub const fn output_bytes_max(&self) -> Option<u64> {
        match self {
            Self::Command(command) => command.output_bytes_max,
            Self::Agent(agent) => agent.output_bytes_max,
            Self::Watch(_) => None,
        }
    }
}

impl From<WatchSpec> for Spec {
    fn from(watch: WatchSpec) -> Self {
        Self::Watch(watch)
    }
}

impl From<CommandSpec> for Spec {
    fn from(command: CommandSpec) -> Self {
        Self::Command(command)
    }
}

impl From<AgentSpec> for Spec {
    fn from(agent: AgentSpec) -> Self {
        Self::Agent(agent)
    }
}

/// Why a spec or its limits cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct SpecError {
    /// The field, by its name in a manifest.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl SpecError {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

/// The program of a command job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandLine {
    /// A line for `/bin/sh -c`.
    Shell(String),
    /// A program and its arguments, passed on as they are.
    Argv(Vec<String>),
}

/// A command job. Its standard input is closed: reading it gives end of file at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// What is run.
    pub line: CommandLine,
    /// The working folder; without one the supervisor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Variables added to the supervisor's environment; they win over it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Output kept, head and tail together, in bytes; without a value
    /// [`OUTPUT_BYTES_MAX`](crate::limits::OUTPUT_BYTES_MAX).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes_max: Option<u64>,
}

impl CommandSpec {
    /// A line for the shell.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(CommandLine::Shell(line.into()))
    }

    /// A program and its arguments.
    pub fn argv(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(CommandLine::Argv(argv.into_iter().map(Into::into).collect()))
    }

    const fn new(line: CommandLine) -> Self {
        Self { line, cwd: None, env: BTreeMap::new(), output_bytes_max: None }
    }

    /// With another working folder than the supervisor's.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// With a variable more; it wins over the supervisor's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// With another bound on the output that is kept, head and tail together.
    #[must_use]
    pub const fn output_bytes_max(mut self, bytes: u64) -> Self {
        self.output_bytes_max = Some(bytes);
        self
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let field = match &self.line {
            CommandLine::Shell(_) => "shell",
            CommandLine::Argv(_) => "command",
        };
        let texts: Vec<&str> = match &self.line {
            CommandLine::Shell(line) if line.trim().is_empty() => {
                return Err(SpecError::new(field, "the command line is empty"));
            }
            CommandLine::Argv(argv) if argv.first().is_none_or(String::is_empty) => {
                return Err(SpecError::new(field, "the program is missing"));
            }
            CommandLine::Shell(line) => vec![line],
            CommandLine::Argv(argv) => argv.iter().map(String::as_str).collect(),
        };
        if texts.iter().any(|text| text.contains('\0')) {
            return Err(SpecError::new(field, "a NUL byte cannot be part of a command line"));
        }
        check_env(&self.env)?;
        let total = texts.iter().map(|text| text.len()).sum::<usize>() + env_bytes(&self.env);
        if total > COMMAND_BYTES_MAX {
            return Err(SpecError::new(
                field,
                format!(
                    "command and environment have {total} bytes; at most {COMMAND_BYTES_MAX} are allowed"
                ),
            ));
        }
        check_output_max(self.output_bytes_max)
    }
}

/// A prompt for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// The agent's name in the configuration.
    pub agent: String,
    /// What it is asked.
    pub prompt: String,
    /// The folder it works in; without one the supervisor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Variables beside those that the agent is given by its configuration; they win over these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it may do, where that is not left to the configuration. It never widens what that, or a job above, says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<Rights>,
    /// Output kept, head and tail together, in bytes; without a value
    /// [`OUTPUT_BYTES_MAX`](crate::limits::OUTPUT_BYTES_MAX).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes_max: Option<u64>,
}

impl AgentSpec {
    /// A prompt, and nothing that the configuration does not say.
    pub fn new(agent: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            prompt: prompt.into(),
            cwd: None,
            env: BTreeMap::new(),
            rights: None,
            output_bytes_max: None,
        }
    }

    /// With another working folder than the supervisor's.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// With rights of its own, which narrow those of its configuration.
    #[must_use]
    pub const fn rights(mut self, rights: Rights) -> Self {
        self.rights = Some(rights);
        self
    }

    fn check(&self) -> Result<(), SpecError> {
        if self.agent.is_empty() {
            return Err(SpecError::new("agent", "the name is empty"));
        }
        if self.prompt.trim().is_empty() {
            return Err(SpecError::new("prompt", "the prompt is empty; write what the agent shall do"));
        }
        check_env(&self.env)?;
        let bytes = env_bytes(&self.env);
        if bytes > COMMAND_BYTES_MAX {
            let problem =
                format!("the environment has {bytes} bytes; at most {COMMAND_BYTES_MAX} are allowed");
            return Err(SpecError::new("env", problem));
        }
        check_output_max(self.output_bytes_max)
    }
}

fn check_env(env: &BTreeMap<String, String>) -> Result<(), SpecError> {
    let is_none = |(name, value): &(&String, &String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    match env.iter().find(is_none) {
        Some((name, _)) => {
            let problem = format!("{name:?} is no name of a variable, or its value holds a NUL byte");
            Err(SpecError::new("env", problem))
        }
        None => Ok(()),
    }
}

fn env_bytes(env: &BTreeMap<String, String>) -> usize {
    env.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn check_output_max(max: Option<u64>) -> Result<(), SpecError> {
    match max {
        Some(0) => Err(SpecError::new("output_bytes_max", "must be at least 1")),
        Some(max) if max > OUTPUT_BYTES_MAX_MAX => {
            Err(SpecError::new("output_bytes_max", format!("{max} is more than {OUTPUT_BYTES_MAX_MAX}")))
        }
        _ => Ok(()),
    }
}

/// Milliseconds of a limit, never rounded down to "none": half a millisecond is 1.
pub fn millis(limit: Duration) -> u64 {
    let ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    if limit.is_zero() || Duration::from_millis(ms) == limit { ms } else { ms.saturating_add(1) }
}
