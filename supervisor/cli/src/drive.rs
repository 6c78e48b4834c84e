//! A plan, run by a supervisor in this process: the only module that knows the library. It launches one group, shows
//! what happens, passes signals on, and hands the group's one result over.

use std::io::{self, Write};
use std::pin::pin;
use std::time::Duration;

use fanin_protocol::GroupId;
use fanin_protocol::limits::{KILL_SLACK, KILL_WAIT, REDRAW_EVERY};
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::{
    CallError, GroupOptions, JobSpec, LaunchError, Session, SessionError, StartError, SubscribeError,
    Supervisor, WaitError, Wake,
};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::args::RunArgs;
use crate::exit::Exit;
use crate::json;
use crate::obey::{Notice, obey};
use crate::plan::{Plan, Task};
use crate::progress::Progress;
use crate::report::Report;
use crate::signals::{Signal, Signals};
use crate::stderr::{self, Stderr};
use crate::style::Style;
use crate::tasks::Tasks;
use crate::watch::Watch;
use crate::words::Words;

/// Why a run could not be brought to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriveError {
    /// Without them a Ctrl-C would leave the tasks behind.
    #[error("signals cannot be caught: {0}")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Watch(#[from] SubscribeError),
    #[error(transparent)]
    Wait(#[from] WaitError),
    #[error(transparent)]
    Call(#[from] CallError),
    /// The kill did not bring the result.
    #[error("tasks did not end after they were killed; processes may still be alive")]
    StillAlive,
    #[error("the result could not be written: {0}")]
    Write(#[source] io::Error),
}

impl DriveError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Signals(_) => "signals",
            Self::Start(error) => error.code(),
            Self::Session(error) => error.code(),
            Self::Launch(error) => error.code(),
            Self::Watch(error) => error.code(),
            Self::Wait(error) => error.code(),
            Self::Call(error) => error.code(),
            Self::StillAlive => "unreaped",
            Self::Write(_) => "write",
        }
    }

    /// What it makes of the run.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::StillAlive => Exit::Unreaped,
            Self::Signals(_)
            | Self::Start(_)
            | Self::Session(_)
            | Self::Launch(_)
            | Self::Watch(_)
            | Self::Wait(_)
            | Self::Call(_)
            | Self::Write(_) => Exit::Internal,
        }
    }
}

/// Runs the plan and writes its result.
///
/// # Errors
///
/// [`DriveError`], where the supervisor could not do its part; a task that failed is no error.
///
/// # Cancel safety
///
/// Not cancel safe: dropping it stops all tasks and loses the result.
pub(crate) async fn run(
    mut plan: Plan,
    args: &RunArgs,
    signals: Signals,
    stderr: &Stderr,
) -> Result<Exit, DriveError> {
    let supervisor =
        Supervisor::builder().runner(SubprocessRunner::new()).slots(plan.concurrency).start().await?;
    let session = supervisor.session("run").await?;
    let options = GroupOptions { policy: plan.policy, ..GroupOptions::default() };
    let words = Words::new(plan.tasks.iter().map(|task| task.limits).collect());
    let ids = (0..).zip(&plan.tasks).filter_map(|(index, task)| Some((index, task.id.clone()?))).collect();
    let specs: Vec<_> = std::mem::take(&mut plan.tasks).into_iter().map(spec).collect();
    let group = session.fan_out_with(options, specs).await?;
    let mut shown = Shown {
        supervisor: &supervisor,
        notices: obey(signals, supervisor.clone(), args.drain),
        progress: Progress::new(args.quiet, words, stderr.clone()),
        signal: None,
        give_up: None,
    };
    let wake = shown.until_fired(&session, group.id()).await?;
    let exit = Exit::of(wake.result(), plan.fail_on, shown.signal);
    let tasks = Tasks { result: wake.result(), ids: &ids, jobs: group.jobs(), supervisor: &supervisor };
    let text = render(&plan, tasks, args, exit, shown.progress.words()).map_err(DriveError::Write)?;
    // The result counts as taken when it was written, not before.
    let exit = match hand_over(text, stderr.clone(), &mut shown).await {
        Handed::Written => {
            wake.ack().await?;
            exit
        }
        Handed::NobodyReads => exit,
        Handed::Interrupted(interrupted) => interrupted,
        // The terminal is gone, and that is why the run ends.
        Handed::Failed(_) if shown.signal == Some(Signal::HangUp) => exit,
        Handed::Failed(error) => return Err(DriveError::Write(error)),
    };
    tokio::select! {
        () = supervisor.shutdown() => {}
        _ = patience(shown.give_up) => {}
    }
    Ok(exit)
}

fn spec(task: Task) -> JobSpec {
    let mut spec = JobSpec::new(task.label, task.spec);
    if let Some(ms) = task.limits.run_ms {
        spec = spec.timeout(Duration::from_millis(ms));
    }
    if let Some(ms) = task.limits.queue_ms {
        spec = spec.queue_timeout(Duration::from_millis(ms));
    }
    spec
}

/// A run as it is shown while it goes on.
struct Shown<'s> {
    supervisor: &'s Supervisor,
    notices: Receiver<Notice>,
    progress: Progress,
    /// The last signal that came in.
    signal: Option<Signal>,
    /// After a third signal, which is kept with it: when the program ends whatever holds it up.
    give_up: Option<(Instant, Signal)>,
}

impl Shown<'_> {
    /// Shows what happens until the group fires.
    async fn until_fired(&mut self, session: &Session, group: &GroupId) -> Result<Wake, DriveError> {
        let mut watch = Watch::begin(self.supervisor, group, &self.progress).await?;
        let mut wake = pin!(session.next_wake());
        let mut redraw = interval(REDRAW_EVERY);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                wake = &mut wake => {
                    // The last notices and endings are told before the result is.
                    self.notices();
                    watch.catch_up(&self.progress)?;
                    self.progress.clear();
                    return Ok(wake?);
                }
                Some(notice) = self.notices.recv() => self.notice(notice),
                _ = patience(self.give_up) => {
                    self.progress.clear();
                    return Err(DriveError::StillAlive);
                }
                came = watch.next() => {
                    // A notice comes before what it brought about.
                    self.notices();
                    watch.take(&came, &self.progress)?;
                }
                _ = redraw.tick(), if self.progress.is_live() => watch.draw(&self.progress),
            }
        }
    }

    /// Shows what notices have come.
    fn notices(&mut self) {
        while let Ok(notice) = self.notices.try_recv() {
            self.notice(notice);
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.signal = notice.signal().or(self.signal);
        if let Some(words) = notice.words() {
            self.progress.note(&words, notice.signal());
        }
        if let Notice::Killing(signal) = notice {
            self.give_up = Some((Instant::now() + KILL_WAIT + KILL_SLACK, signal));
        }
    }
}

/// Waits for the end of all patience, and returns the signal that set it.
async fn patience(give_up: Option<(Instant, Signal)>) -> Signal {
    match give_up {
        Some((at, signal)) => {
            sleep_until(at).await;
            signal
        }
        None => std::future::pending().await,
    }
}

fn render(plan: &Plan, tasks: Tasks<'_>, args: &RunArgs, exit: Exit, words: &Words) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if args.json {
        json::write(&mut text, tasks.result, tasks.ids, exit)?;
    } else {
        let report = Report {
            description: plan.description.as_deref(),
            result: tasks.result,
            policy: plan.policy,
            words,
            style: Style::of(&io::stdout()),
        };
        report.write(&mut text, tasks.entries(), |entry| tasks.kept(&entry.job))?;
    }
    Ok(text)
}

/// What became of the written result.
enum Handed {
    Written,
    /// The reader went away; that is its own choice.
    NobodyReads,
    /// A signal came while a reader took its time.
    Interrupted(Exit),
    Failed(io::Error),
}

/// Writes the result, beside the runtime: a full pipe may block for ever, and a signal must still end the program.
async fn hand_over(text: Vec<u8>, stderr: Stderr, shown: &mut Shown<'_>) -> Handed {
    let write = tokio::task::spawn_blocking(move || {
        // One reader has both, and is as quick with the one as with the other.
        if stderr::is_beside_stdout() {
            stderr.settle(None);
        }
        let mut out = io::stdout().lock();
        out.write_all(&text)?;
        out.flush()
    });
    let written = tokio::select! {
        written = write => written,
        Some(signal) = signal(&mut shown.notices) => return Handed::Interrupted(Exit::Signal(signal)),
        signal = patience(shown.give_up) => return Handed::Interrupted(Exit::Signal(signal)),
    };
    match written {
        Ok(Ok(())) => Handed::Written,
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Handed::NobodyReads,
        Ok(Err(error)) => Handed::Failed(error),
        Err(panic) => Handed::Failed(io::Error::other(panic)),
    }
}

/// The next signal.
async fn signal(notices: &mut Receiver<Notice>) -> Option<Signal> {
    loop {
        if let Some(signal) = notices.recv().await?.signal() {
            return Some(signal);
        }
    }
}
