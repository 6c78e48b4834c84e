//! What a fake job does, written down before it runs, and the playing of it.

use std::future::{Future, pending};
use std::time::Duration;

use fanin_protocol::cause::Exit;
use fanin_protocol::{Cause, Code};

use super::gate::Gate;
use crate::context::RunContext;
use crate::runner::Ending;

/// A script without a line: its job completes at once and puts out nothing.
pub fn script() -> Script {
    Script { runs: vec![Vec::new()], is_over: false }
}

/// What fake jobs do, step by step.
///
/// An ending ends a run; what comes after it is the script of the next run, so that `.fails("busy").completes("ok")`
/// fails once and then completes. The last run is played for all later ones as well. A run without an ending completes
/// with what it wrote.
///
/// A job that is told to stop leaves at its next wait and keeps what it wrote, unless the script says otherwise.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fanin_supervisor::testing::{FakeRunner, script, start_with, summary, texts, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let reads = script().says("reading").tool_call("read").after(Duration::from_secs(40)).completes("42 files");
/// let hangs = script().writes("so far").hangs();
/// let agents = FakeRunner::agents().on("scan", reads).on("docs", hangs).on("lint", script().panics("no rules"));
/// let (_supervisor, session) = start_with(&agents).await;
/// let job = |label: &'static str| JobSpec::agent(label, "worker", "Go").timeout(Duration::from_secs(60));
/// session.fan_out(["scan", "docs", "lint"].map(job)).await?;
/// let wake = woken(&session).await;
/// assert_eq!(summary(&wake.entries), ["scan: completed", "docs: error{timeout run}", "lint: error{panic}"]);
/// assert_eq!(texts(&wake.entries), ["42 files", "so far", "no rules"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a script is played once a FakeRunner has it"]
pub struct Script {
    runs: Vec<Vec<Step>>,
    /// The last run has its ending.
    is_over: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    After(Duration),
    HeldBy(Gate),
    Says(String),
    Writes(String),
    Calls(String),
    Hears(Hears),
    Hangs,
    End(End),
}

/// Which stop a run still follows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hears {
    Polite,
    Forced,
    Nothing,
}

#[derive(Debug, Clone)]
pub(super) enum End {
    Completes,
    Echoes,
    Exits(i32),
    Fails(String),
    Panics(String),
}

impl Script {
    /// Lets time pass, on the runtime's clock.
    pub fn after(self, time: Duration) -> Self {
        self.step(Step::After(time))
    }

    /// Waits until a gate is open.
    pub fn held_by(self, gate: &Gate) -> Self {
        self.step(Step::HeldBy(gate.clone()))
    }

    /// Says how far it has come, in one line of progress.
    pub fn says(self, line: impl Into<String>) -> Self {
        self.step(Step::Says(line.into()))
    }

    /// Puts out text. It is kept however the run ends.
    pub fn writes(self, text: impl Into<String>) -> Self {
        self.step(Step::Writes(text.into()))
    }

    /// Calls a tool, which completes at once.
    pub fn tool_call(self, name: impl Into<String>) -> Self {
        self.step(Step::Calls(name.into()))
    }

    /// From here on it does not follow a polite stop, only a forced one.
    pub fn ignores_stop(self) -> Self {
        self.step(Step::Hears(Hears::Forced))
    }

    /// From here on it follows no stop at all: a job that is stopped then ends as `unreaped`.
    pub fn ignores_force(self) -> Self {
        self.step(Step::Hears(Hears::Nothing))
    }

    /// Ends well, with this text after what it wrote. An agent that leaves without text and tool calls has failed
    /// (`no_output`).
    pub fn completes(self, text: impl Into<String>) -> Self {
        self.writes(text).end(End::Completes)
    }

    /// Ends well, with what it was asked as its text: the prompt or the command line.
    pub fn echoes(self) -> Self {
        self.end(End::Echoes)
    }

    /// Leaves as a command does, with an exit status. 0 is well.
    pub fn exits(self, status: i32) -> Self {
        self.end(End::Exits(status))
    }

    /// Ends badly, with a message in words.
    pub fn fails(self, message: impl Into<String>) -> Self {
        self.end(End::Fails(message.into()))
    }

    /// Panics. What it wrote is lost.
    pub fn panics(self, message: impl Into<String>) -> Self {
        self.end(End::Panics(message.into()))
    }

    /// Never ends by itself.
    pub fn hangs(self) -> Self {
        self.step(Step::Hangs).over()
    }

    fn step(mut self, step: Step) -> Self {
        match self.runs.last_mut() {
            Some(run) if !self.is_over => run.push(step),
            _ => self.runs.push(vec![step]),
        }
        self.is_over = false;
        self
    }

    fn end(self, end: End) -> Self {
        self.step(Step::End(end)).over()
    }

    fn over(self) -> Self {
        Self { is_over: true, ..self }
    }

    /// The steps of a run, counted from 0.
    pub(super) fn run(&self, number: usize) -> Vec<Step> {
        self.runs.get(number).or(self.runs.last()).cloned().unwrap_or_default()
    }
}

/// Plays one run. `asked` is the prompt or the command line.
pub(super) async fn play(steps: Vec<Step>, asked: String, context: RunContext) -> Ending {
    let mut output = String::new();
    let mut hears = Hears::Polite;
    for (place, step) in steps.into_iter().enumerate() {
        let goes_on = match step {
            Step::After(time) => heeds(&context, hears, tokio::time::sleep(time)).await,
            Step::HeldBy(gate) => heeds(&context, hears, gate.passed()).await,
            Step::Hangs => heeds(&context, hears, pending()).await,
            Step::End(end) => return ending(end, output, asked),
            Step::Says(line) => {
                context.progress(line);
                true
            }
            Step::Writes(text) => {
                output.push_str(&text);
                true
            }
            Step::Calls(name) => {
                let call = context.tool(format!("call_{place}"), name);
                call.begin();
                call.complete();
                true
            }
            Step::Hears(less) => {
                hears = less;
                true
            }
        };
        if !goes_on {
            return ending(End::Fails("stopped".into()), output, asked);
        }
    }
    ending(End::Completes, output, asked)
}

/// Waits for `work`; false where a stop that is heard came first.
async fn heeds(context: &RunContext, hears: Hears, work: impl Future<Output = ()>) -> bool {
    let stopped = async {
        match hears {
            Hears::Polite => context.cancelled().await,
            Hears::Forced => context.forced().await,
            Hears::Nothing => pending().await,
        }
    };
    tokio::select! {
        biased;
        () = stopped => false,
        () = work => true,
    }
}

fn ending(end: End, output: String, asked: String) -> Ending {
    let failed = |code, message| Ending::failed(Cause::Failed, code, message);
    let ending = match end {
        End::Completes => Ending::completed(().into()),
        End::Echoes => return Ending::completed((output + &asked).into()),
        End::Exits(0) => Ending { exit: Some(Exit::Status(0)), ..Ending::completed(().into()) },
        End::Exits(status) => Ending {
            exit: Some(Exit::Status(status)),
            ..failed(Some(Code::ExitStatus), format!("exit status {status}"))
        },
        End::Fails(message) => failed(None, message),
        End::Panics(message) => panic!("{message}"),
    };
    Ending { output: output.into(), ..ending }
}
