//! Command jobs: a program or a shell line, run with all that it starts held together.
//!
//! [`SubprocessRunner`] starts the command with its standard input closed, puts out what it writes as it comes, hands a polite stop on as SIGTERM and a forced one as SIGKILL, and ends only when nothing of it is left, or
//! with the name of what is.
//!
//! Given the path of a [`shim`] it holds all that descends from the command, whatever session that is in, and nothing
//! of it outlives the supervisor. Without one it holds the command's process group: a process that leaves the group
//! (`setsid`) is out of its reach, and a supervisor that is killed leaves its commands behind.
//!
//! ```
//! use fanin_subprocess::SubprocessRunner;
//! use fanin_supervisor::{JobSpec, Supervisor};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let supervisor = Supervisor::builder().runner(SubprocessRunner::new()).start().await?;
//! let session = supervisor.session("main").await?;
//! session.fan_out([JobSpec::command("greet", ["echo", "hello"]), JobSpec::shell("fail", "exit 3")]).await?;
//! let wake = session.next_wake().await?;
//! let [greeted, failed] = &wake.result().entries[..] else { panic!("two were launched") };
//! assert_eq!(&*greeted.output.as_ref().unwrap().text, "hello\n");
//! assert_eq!(failed.exit_code, Some(3));
//! wake.ack().await?;
//! supervisor.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod capture;
#[cfg(test)]
mod capture_tests;
mod ending;
mod host;
mod pipes;
mod run;
#[cfg(test)]
mod run_tests;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use fanin_process::shim;
use fanin_protocol::limits::HANDED_JSON_BYTES_MAX;
use fanin_protocol::{
    Cause, CommandSpec, DEPENDENCIES_VARIABLE, Dependencies, JobKind, Left, LeftProcess, LogId, Spec,
};
use fanin_supervisor::{Ending, RunContext, RunFuture, Runner};

/// Runs command jobs. It needs a tokio runtime with I/O and time enabled.
///
/// A command ends with its leader's exit status, [`PIPE_DRAIN`](fanin_protocol::limits::PIPE_DRAIN) later at the
/// latest: it does not wait for others that hold its pipes. What it left is told to stop, and killed after
/// [`LEFTOVER_GRACE`](fanin_protocol::limits::LEFTOVER_GRACE); in a stop it has the rest of the stop's grace.
#[derive(Debug, Clone, Default)]
pub struct SubprocessRunner {
    shim: Option<Arc<Path>>,
}

impl SubprocessRunner {
    /// A runner that holds commands by their process group alone, and says so in their `run.bound`.
    pub const fn new() -> Self {
        Self { shim: None }
    }

    /// A runner that holds each command by a shim, which is the program at `path`: one whose `main` begins with
    ///
    /// ```
    /// # use std::process::ExitCode;
    /// fn main() -> ExitCode {
    ///     if fanin_subprocess::shim::is_called() {
    ///         return fanin_subprocess::shim::main();
    ///     }
    ///     // ... what the program is for, a runtime first of all
    /// #   ExitCode::SUCCESS
    /// }
    /// ```
    ///
    /// A program that does so gives `/proc/self/exe`, which stays itself where its file is replaced. Systems other
    /// than Linux have no shim; there it is as [`SubprocessRunner::new`].
    pub fn with_shim(path: impl Into<PathBuf>) -> Self {
        Self { shim: Some(path.into().into()) }
    }
}

impl Runner for SubprocessRunner {
    fn kind(&self) -> JobKind {
        JobKind::Command
    }

    fn check(&self, spec: &Spec) -> Result<(), String> {
        match spec {
            Spec::Command(_) => Ok(()),
            Spec::Watch(spec) => watch::check(spec),
            Spec::Agent(_) => Err(not_a_command(spec)),
        }
    }

    fn stop_survivors(&self, log: &LogId) -> Vec<LeftProcess> {
        fanin_process::stop_survivors(&fanin_process::Table::default(), log)
    }

    fn may_live(&self, left: &Left) -> bool {
        fanin_process::may_live(left)
    }

    fn run(&self, spec: Arc<Spec>, context: RunContext) -> RunFuture {
        let shim = self.shim.clone();
        Box::pin(async move {
            match &*spec {
                Spec::Command(command) => match marked(command, &context) {
                    Ok(command) => run::run(&command, shim.as_deref(), &context).await,
                    Err(error) => Ending::failed(Cause::Spawn, None, format!("what it needs: {error}")),
                },
                Spec::Watch(spec) => {
                    match spec.command().map(|command| marked(command, &context)).transpose() {
                        Ok(command) => watch::run(spec, command.as_ref(), shim.as_deref(), &context).await,
                        Err(error) => Ending::failed(Cause::Spawn, None, format!("what it needs: {error}")),
                    }
                }
                Spec::Agent(_) => Ending::failed(Cause::Spawn, None, not_a_command(&spec)),
            }
        })
    }
}

/// The command with what tells it, and what it starts, whose child it is, and with what it is told of the jobs that it needs.
fn marked(command: &CommandSpec, context: &RunContext) -> Result<CommandSpec, String> {
    let mut command = command.clone();
    let earlier = command.env.get(DEPENDENCIES_VARIABLE).map(String::as_str);
    if let Some(needed) = Dependencies::and_earlier(context.dependencies(), earlier) {
        command.env.insert(DEPENDENCIES_VARIABLE.to_owned(), needed.to_json(HANDED_JSON_BYTES_MAX)?);
    } else if earlier.is_none() && std::env::var_os(DEPENDENCIES_VARIABLE).is_some() {
        // What we were told ourselves is not for our jobs.
        command.env.insert(DEPENDENCIES_VARIABLE.to_owned(), String::new());
    }
    let variables = context.variables(fanin_process::own_mark());
    command.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    Ok(command)
}

fn not_a_command(spec: &Spec) -> String {
    format!("a job of kind {} is no command; give it to the runner of its kind", spec.kind().as_str())
}
