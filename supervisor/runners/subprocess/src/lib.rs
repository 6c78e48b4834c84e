//! Command jobs: a program or a shell line, run as a process group of its own.
//!
//! [`SubprocessRunner`] starts the command with its standard input closed, keeps the start and the end of what it
//! writes, hands a polite stop on as SIGTERM and a forced one as SIGKILL, and ends only when nothing of the group is
//! left. A process that leaves the group (`setsid`) is out of its reach.
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
mod group;
mod head_tail;
mod host;
mod pipes;
mod run;
#[cfg(test)]
mod run_tests;
mod spawn;
mod tree;
mod watch;

use std::sync::{Arc, LazyLock};

use fanin_protocol::{Cause, CommandSpec, JobKind, PARENT_VARIABLE, ParentMark, Spec};
use fanin_supervisor::{Ending, RunContext, RunFuture, Runner};

/// Runs command jobs. It needs a tokio runtime with I/O and time enabled.
///
/// A command ends with its leader's exit status, [`PIPE_DRAIN`](fanin_protocol::limits::PIPE_DRAIN) later at the
/// latest: it does not wait for others that hold its pipes. What it left in its group is told to stop, and killed
/// after [`LEFTOVER_GRACE`](fanin_protocol::limits::LEFTOVER_GRACE); in a stop it has the rest of the stop's grace.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubprocessRunner {
    _private: (),
}

impl SubprocessRunner {
    /// A runner; it holds nothing, and one is enough for all jobs.
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl Runner for SubprocessRunner {
    fn kind(&self) -> JobKind {
        JobKind::Command
    }

    fn check(&self, spec: &Spec) -> Result<(), String> {
        match spec {
            Spec::Command(_) => Ok(()),
            Spec::Agent(_) => Err(not_a_command(spec)),
        }
    }

    fn run(&self, spec: Arc<Spec>, context: RunContext) -> RunFuture {
        Box::pin(async move {
            match &*spec {
                Spec::Command(command) => run::run(&marked(command, &context), &context).await,
                Spec::Agent(_) => Ending::failed(Cause::Spawn, None, not_a_command(&spec)),
            }
        })
    }
}

/// The command with the mark of its job in its environment, so that what it starts knows whose child it is.
fn marked(command: &CommandSpec, context: &RunContext) -> CommandSpec {
    static DEPTH: LazyLock<u32> = LazyLock::new(|| {
        // A mark that is none says nothing; a program that minds refuses it before it launches.
        let ours = ParentMark::read(std::env::var_os(PARENT_VARIABLE).as_deref());
        ours.ok().flatten().map_or(0, |mark| mark.depth)
    });
    let mut command = command.clone();
    if let Some(mark) = context.parent_mark(*DEPTH) {
        command.env.insert(PARENT_VARIABLE.to_owned(), mark.to_string());
    }
    command
}

fn not_a_command(spec: &Spec) -> String {
    format!("a job of kind {} is no command; give it to the runner of its kind", spec.kind().as_str())
}
