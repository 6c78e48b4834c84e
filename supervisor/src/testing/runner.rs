//! A runner whose jobs follow scripts. It starts no process and talks to no model.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use fanin_machine::Bound;
use fanin_protocol::spec::CommandLine;
use fanin_protocol::{JobKind, Spec, Watched};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::check::limit;
use super::script::{Script, Step, play};
use crate::context::RunContext;
use crate::runner::{RunFuture, Runner};

/// A runner for agents or commands whose jobs follow scripts. Clones are the same runner: register one, keep the other
/// to ask what was started.
///
/// Of its scripts the first that fits a job is played. A script counts its runs over all jobs that it fits, in the order
/// of their starts. A job that none fits panics, so that a test with a hole says so.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, script, start_with, summary, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agents = FakeRunner::agents()
///     .on("lint", script().fails("2 warnings"))
///     .on_prompt("files", script().completes("42 files"));
/// let (_supervisor, session) = start_with(&agents).await;
/// session
///     .fan_out([
///         JobSpec::agent("scan", "worker", "Count the files"),
///         JobSpec::agent("lint", "worker", "Look for warnings"),
///     ])
///     .await?;
/// assert_eq!(summary(&woken(&session).await.entries), ["scan: completed", "lint: error{failed}"]);
/// assert_eq!(agents.started(), ["scan", "lint"]);
/// assert_eq!(agents.asked(), ["Count the files", "Look for warnings"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FakeRunner(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    kind: JobKind,
    scripts: Mutex<Vec<Scripted>>,
    /// Names of agents or programs that exist; empty for all.
    known: Mutex<Vec<String>>,
    starts: watch::Sender<Vec<Start>>,
}

#[derive(Debug)]
struct Scripted {
    fits: Fits,
    script: Script,
    /// Runs that were started with it.
    played: usize,
}

#[derive(Debug)]
enum Fits {
    Label(String),
    Name(String),
    Asked(String),
    All,
}

/// A run that was started.
#[derive(Debug)]
struct Start {
    label: String,
    asked: String,
    is_over: bool,
}

impl FakeRunner {
    /// A runner for agents, for jobs of [`JobSpec::agent`](crate::JobSpec::agent).
    pub fn agents() -> Self {
        Self::of(JobKind::Agent)
    }

    /// A runner for commands, for jobs of [`JobSpec::command`](crate::JobSpec::command) and
    /// [`JobSpec::shell`](crate::JobSpec::shell).
    pub fn commands() -> Self {
        Self::of(JobKind::Command)
    }

    fn of(kind: JobKind) -> Self {
        let (scripts, known) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { kind, scripts, known, starts: watch::Sender::default() }))
    }

    /// The script of jobs with this label.
    #[must_use]
    pub fn on(self, label: impl Into<String>, script: Script) -> Self {
        self.with(Fits::Label(label.into()), script)
    }

    /// The script of jobs for this agent, or of this program; a shell line is one of `sh`.
    #[must_use]
    pub fn on_name(self, name: impl Into<String>, script: Script) -> Self {
        self.with(Fits::Name(name.into()), script)
    }

    /// The script of jobs whose prompt or command line has this in it.
    #[must_use]
    pub fn on_prompt(self, part: impl Into<String>, script: Script) -> Self {
        self.with(Fits::Asked(part.into()), script)
    }

    /// The script of all jobs that come to it.
    #[must_use]
    pub fn otherwise(self, script: Script) -> Self {
        self.with(Fits::All, script)
    }

    fn with(self, fits: Fits, script: Script) -> Self {
        self.0.scripts.lock().push(Scripted { fits, script, played: 0 });
        self
    }

    /// Knows these agents or programs and no others: a launch that names another one is refused, as it would be by a
    /// real runner.
    #[must_use]
    pub fn knows(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0.known.lock().extend(names.into_iter().map(Into::into));
        self
    }

    /// The labels of runs that were started, in the order of their starts; a job that was started twice is in it
    /// twice. A job without a label is in it by its id.
    pub fn started(&self) -> Vec<String> {
        self.0.starts.borrow().iter().map(|start| start.label.clone()).collect()
    }

    /// The labels of runs that are not over, in the order of their starts.
    pub fn running(&self) -> Vec<String> {
        let starts = self.0.starts.borrow();
        starts.iter().filter(|start| !start.is_over).map(|start| start.label.clone()).collect()
    }

    /// What was asked of the runs that were started, in the order of their starts: prompts or command lines.
    pub fn asked(&self) -> Vec<String> {
        self.0.starts.borrow().iter().map(|start| start.asked.clone()).collect()
    }

    /// Waits until a job with this label was started; it may be over already.
    ///
    /// # Panics
    ///
    /// Where none is started within a day of a paused clock, or 20 seconds of a real one.
    #[track_caller]
    pub fn until_started(&self, label: &str) -> impl Future<Output = ()> + use<> {
        let (at, label, mut starts) = (Location::caller(), label.to_owned(), self.0.starts.subscribe());
        async move {
            let started = starts.wait_for(|starts| starts.iter().any(|start| start.label == label));
            let is_late = tokio::time::timeout(limit(), started).await.is_err();
            assert!(!is_late, "`{label}` was not started at {at}");
        }
    }
}

/// The agent or the program that a spec names, and what is asked of it.
fn parts(spec: &Spec) -> (&str, String) {
    match spec {
        Spec::Agent(agent) => (&agent.agent, agent.prompt.clone()),
        Spec::Command(command) => line_parts(&command.line),
        Spec::Watch(watch) => match (watch.command(), &watch.of) {
            (Some(command), _) => line_parts(&command.line),
            (None, Watched::Output { job }) => ("watch", job.to_string()),
            (None, Watched::Checks { .. } | Watched::Lines { .. }) => ("watch", String::new()),
        },
    }
}

fn line_parts(line: &CommandLine) -> (&str, String) {
    match line {
        CommandLine::Shell(line) => ("sh", line.clone()),
        CommandLine::Argv(argv) => (argv.first().map_or("", String::as_str), argv.join(" ")),
    }
}

/// Marks a run as over, also where it is only dropped.
struct Running {
    shared: Arc<Shared>,
    place: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.starts.send_modify(|starts| {
            if let Some(start) = starts.get_mut(self.place) {
                start.is_over = true;
            }
        });
    }
}

impl Runner for FakeRunner {
    fn kind(&self) -> JobKind {
        self.0.kind
    }

    fn check(&self, spec: &Spec) -> Result<(), String> {
        let (known, (name, _)) = (self.0.known.lock(), parts(spec));
        if known.is_empty() || known.iter().any(|known| known == name) {
            return Ok(());
        }
        Err(format!("no {} `{name}`; there are {}", self.0.kind, known.join(", ")))
    }

    fn run(&self, spec: Arc<Spec>, context: RunContext) -> RunFuture {
        let (name, asked) = parts(&spec);
        // Its launch is committed, or it would not run.
        let info = context.handle().core().look_now(|state| state.job_info(context.job())).ok().flatten();
        let label = info.and_then(|info| info.label);
        let label = label.map_or_else(|| context.job().to_string(), |label| label.to_string());
        let steps = self.0.next(&label, name, &asked);
        let running = self.0.begin(label.clone(), asked.clone());
        Box::pin(async move {
            // Held as a whole: it is over when the future is.
            let running = running;
            let Some(steps) = steps else {
                panic!("no script for `{label}`: give the FakeRunner one with `on` or `otherwise`")
            };
            let external_session = Some(format!("fake_{}", running.place));
            context.bound(Bound { external_session, ..Bound::default() });
            play(steps, asked, context).await
        })
    }
}

impl Shared {
    /// What the next run of the first script that fits does.
    fn next(&self, label: &str, name: &str, asked: &str) -> Option<Vec<Step>> {
        let mut scripts = self.scripts.lock();
        let scripted = scripts.iter_mut().find(|scripted| scripted.fits.fits(label, name, asked))?;
        scripted.played += 1;
        Some(scripted.script.run(scripted.played - 1))
    }

    /// Notes a start.
    fn begin(self: &Arc<Self>, label: String, asked: String) -> Running {
        let mut place = 0;
        self.starts.send_modify(|starts| {
            place = starts.len();
            starts.push(Start { label, asked, is_over: false });
        });
        Running { shared: Arc::clone(self), place }
    }
}

impl Fits {
    fn fits(&self, label: &str, name: &str, asked: &str) -> bool {
        match self {
            Self::Label(wanted) => wanted == label,
            Self::Name(wanted) => wanted == name,
            Self::Asked(part) => asked.contains(part.as_str()),
            Self::All => true,
        }
    }
}
