//! A plan, run by a supervisor in this process. It launches one group, shows
//! what happens, passes signals on, and hands the group's one result over.

use std::env;
use std::io;

use fanin_acp::{AcpRunner, Agents, ToolServer};
use fanin_protocol::{CombinedResult, GroupId, JobId};
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::journal::JournalError;
use fanin_supervisor::{
    Builder, CallError, GroupOptions, JobSpec, LaunchError, Named, Session, SessionError, StartError,
    SubscribeError, Supervisor, WaitError, Wake,
};

use crate::again;
use crate::budget;
use crate::exit::Exit;
use crate::github::GitHub;
use crate::hand::{Undone, Ways};
use crate::keep::{Begun, Keep};
use crate::obey::{Patience, obey};
use crate::over::Over;
use crate::plan::{self, Carried, Plan, Task};
use crate::prepare::Prepared;
use crate::progress::Progress;
use crate::shown::Shown;
use crate::signals::Signals;
use crate::stderr::Stderr;
use crate::tasks::{self, Member, Origin, Tasks};
use crate::team;
use crate::warning::Warning;
use crate::words::Words;

/// This program, also where its file was replaced since: it holds each task as a shim.
pub(crate) const SELF: &str = "/proc/self/exe";

/// The job of the task at this place of its group (from 0), whoever wrote it.
pub(crate) fn job(task: Task, place: usize) -> JobSpec {
    // What it is called in its group; a label is a name as well.
    let name = task.id.unwrap_or_else(|| plan::generated_id(place));
    let name = Some(name).filter(|name| *name != task.label);
    let job = JobSpec::new(task.label, task.spec)
        .limits(task.limits)
        .after(task.depends)
        .on_failed_dependency(task.on_failed_dependency)
        .sends(task.sends);
    match name {
        Some(name) => job.name(name),
        None => job,
    }
}

/// Why a run could not be brought to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriveError {
    /// Without them a Ctrl-C would leave the tasks behind.
    #[error("signals cannot be caught: {0}")]
    Signals(#[source] io::Error),
    /// Nothing was started.
    #[error("{error}{way_out}")]
    Store {
        /// What is wrong with it.
        #[source]
        error: JournalError,
        /// What helps beside that, in words of the command that was given.
        way_out: String,
    },
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
    /// What a hosted parent is kept in, or the way to its tools.
    #[error("the folder of the parent cannot be used: {0}")]
    Folder(#[source] io::Error),
    /// Nothing was started.
    #[error("the jobs would have no mail, its socket cannot be opened: {0}")]
    Mail(#[source] io::Error),
}

impl DriveError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Signals(_) => "signals",
            Self::Store { error, .. } => error.code(),
            Self::Start(error) => error.code(),
            Self::Session(error) => error.code(),
            Self::Launch(error) => error.code(),
            Self::Watch(error) => error.code(),
            Self::Wait(error) => error.code(),
            Self::Call(error) => error.code(),
            Self::StillAlive => "unreaped",
            Self::Write(_) => "write",
            Self::Folder(_) => "exec_folder",
            Self::Mail(_) => "mail_door",
        }
    }

    /// True where it came before any task, so that there is nothing to go on with.
    const fn is_before_launch(&self) -> bool {
        match self {
            // Whose store it is, or what it holds by now, is not known.
            Self::Store { error: JournalError::Owned { .. }, .. }
            | Self::Start(StartError::Store(JournalError::Owned { .. }))
            | Self::Launch(LaunchError::Call(CallError::Store(_) | CallError::Poisoned)) => false,
            Self::Store { .. } | Self::Start(_) | Self::Session(_) | Self::Launch(_) | Self::Mail(_) => true,
            Self::Signals(_)
            | Self::Watch(_)
            | Self::Wait(_)
            | Self::Call(_)
            | Self::StillAlive
            | Self::Write(_)
            | Self::Folder(_) => false,
        }
    }

    /// What it makes of the run.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::StillAlive => Exit::Unreaped,
            Self::Store { error: JournalError::Owned { .. }, .. }
            | Self::Start(StartError::Store(JournalError::Owned { .. })) => Exit::Owned,
            Self::Signals(_)
            | Self::Store { .. }
            | Self::Start(_)
            | Self::Session(_)
            | Self::Launch(_)
            | Self::Watch(_)
            | Self::Wait(_)
            | Self::Call(_)
            | Self::Write(_)
            | Self::Folder(_)
            | Self::Mail(_) => Exit::Internal,
        }
    }
}

/// What became of a run.
#[derive(Debug)]
pub(crate) struct Driven {
    /// How the program ends, or why the result could not be handed over.
    pub(crate) exit: Result<Exit, DriveError>,
    /// True where every task completed, now or in an earlier run.
    pub(crate) is_complete: bool,
}

/// Runs what was prepared and writes its result.
///
/// # Errors
///
/// [`DriveError`], where the supervisor could not do its part; a task that failed is no error.
///
/// # Cancel safety
///
/// Not cancel safe: dropping it stops all tasks and loses the result.
pub(crate) async fn run(prepared: Prepared, signals: Signals, stderr: &Stderr) -> Result<Driven, DriveError> {
    let begun = prepared.keep.as_ref().and_then(Keep::begun);
    let driven = drive(prepared, signals, stderr).await;
    if driven.as_ref().is_err_and(DriveError::is_before_launch) {
        begun.iter().for_each(Begun::forget);
    }
    driven
}

async fn drive(mut prepared: Prepared, signals: Signals, stderr: &Stderr) -> Result<Driven, DriveError> {
    let (plan, args) = (&mut prepared.plan, &prepared.args);
    let github = GitHub::of_environment().filter(|_| !args.no_github && prepared.parent.is_none());
    let ways = Ways { args, github, stderr };
    prepared.warnings.iter().for_each(|warning| ways.tell(warning));
    let mut builder = runners(prepared.agents.take(), Some(mail_tools()?))
        .slots(plan.concurrency)
        .log_content(prepared.log_content);
    // Here and not before: a run that was refused has left nothing.
    if let Some(keep) = prepared.keep.as_mut().filter(|_| !args.no_store) {
        let is_new = keep.is_new();
        let store = keep.store().map_err(|error| {
            let way_out =
                if is_new { "; --no-store runs without one".to_owned() } else { keep.way_out(&error) };
            DriveError::Store { error, way_out }
        })?;
        builder = builder.journal(store);
    }
    let (supervisor, _mail) = start(builder, (plan, prepared.keep.as_ref()), (stderr, args.json)).await?;
    let patience = Patience::new(prepared.drain, prepared.parent.as_ref());
    let notices = obey(signals, supervisor.clone(), patience);
    let words = Words::new(plan.left().map(|task| task.limits).collect());
    let mut shown = Shown::new(&supervisor, notices, Progress::new(args.quiet, words, stderr.clone()))
        .going_on(std::mem::take(&mut prepared.before));
    if let (Some(words), false) = (shown.goes_on(), args.quiet) {
        shown.say(&format!("fanin: goes on with {}: {words}", prepared.group));
    }
    let session = supervisor.session("run").await?;
    let limits = plan.tasks.iter().map(|task| task.limits).collect();
    let Fired { result, members, wake } =
        fire(&mut shown, (&supervisor, &session), &prepared.group, plan).await?;
    // Where it cannot be read, the result says as much as its records.
    let saved = |job: &JobId| supervisor.output(job).ok();
    let result = tasks::with_saved(again::merge(result, &members), saved);
    let words = shown.progress().words().about(limits);
    let mut over = Over {
        description: plan.description.as_deref(),
        policy: plan.policy,
        again_of: plan.again_of.as_ref(),
        parent: prepared.parent.as_ref(),
        tasks: Tasks { result: &result, members: &members, supervisor: &supervisor },
        words: &words,
        exit: prepared
            .warnings
            .iter()
            .fold(Exit::of(&result, plan.fail_on, shown.signal()), |exit, warning| warning.exit(exit)),
    };
    let is_complete = result.counts.completed == result.counts.launched;
    let is_fired = wake.is_some();
    let unprinted = prepared.keep.as_ref().map(Keep::unprinted);
    let exit = match ways.leave(&mut over, prepared.keep.take(), &mut shown).await {
        Ok(()) => ways.hand_over(&over, wake, &mut shown).await,
        Err(signal) => Err(Undone::Interrupted(signal)),
    };
    let exit = match exit {
        Ok(()) => Ok(over.exit),
        Err(Undone::Failed(error)) => Err(error),
        // Whoever wants the end so much gets nothing more.
        Err(Undone::Interrupted(signal)) => {
            return Ok(Driven { exit: Ok(Exit::Signal(signal)), is_complete });
        }
    };
    // Where this fails the store still knows that it was taken.
    unprinted.into_iter().for_each(|mark| drop(std::fs::remove_file(mark)));
    if is_fired {
        ways.afterwards(&over, &mut shown).await?;
    }
    // The run is over with its result: nothing of it waits for another supervisor (SH-4).
    supervisor.stop_all(None);
    tokio::select! {
        () = supervisor.shutdown() => {}
        _ = shown.patience() => {}
    }
    Ok(Driven { exit, is_complete })
}

/// Starts the supervisor, and serves at the door of the mail of its tasks where they have any. Who owns the store owns its
/// folder, and those that go on may ask for their mail at once.
async fn start(
    builder: Builder,
    (plan, keep): (&Plan, Option<&Keep>),
    (stderr, is_json): (&Stderr, bool),
) -> Result<(Supervisor, Option<team::OpenDoor>), DriveError> {
    if !plan.has_mail() {
        return Ok((builder.start().await?, None));
    }
    let door = team::Door::open(keep.map(Keep::folder)).map_err(DriveError::Mail)?;
    let supervisor = builder.mail_at(door.name()).start().await?;
    let stderr = stderr.clone();
    let open = door.serve(supervisor.clone(), move |why| Warning::Door(why).tell(&stderr, is_json));
    Ok((supervisor, Some(open)))
}

/// A supervisor of commands, and of agents where there are any. `mail` is for those of them that have mail.
pub(crate) fn runners(agents: Option<Agents>, mail: Option<ToolServer>) -> Builder {
    let commands = SubprocessRunner::with_shim(SELF);
    let builder = Supervisor::builder().runner(commands.clone());
    let Some(agents) = agents else { return builder };
    let runner = AcpRunner::new(agents).with_shim(SELF).with_commands(commands);
    builder.runner(match mail {
        Some(mail) => runner.with_mail(mail),
        None => runner,
    })
}

/// The tools of an agent that has mail.
///
/// # Errors
///
/// Where our own file has no name, so that no agent could be told of it.
pub(crate) fn mail_tools() -> Result<ToolServer, DriveError> {
    let tools = tool_server("fanin_team", &["mcp", "--member", "--door"], &fanin_mcp::MEMBER_TOOLS);
    tools.map_err(DriveError::Mail)
}

/// This program, as an agent starts it for tools.
///
/// # Errors
///
/// Where its own file has no name.
pub(crate) fn tool_server(name: &str, args: &[&str], tools: &[&str]) -> io::Result<ToolServer> {
    let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Ok(ToolServer {
        name: name.to_owned(),
        command: env::current_exe()?,
        args: texts(args),
        tools: texts(tools),
    })
}

/// A group that has fired, or one that never was.
struct Fired {
    /// The result of the tasks that were run.
    result: CombinedResult,
    /// All tasks in launch order.
    members: Vec<Member>,
    /// What is acknowledged once the result was handed over.
    wake: Option<Wake>,
}

/// Launches the tasks that are left, and waits for all of them.
async fn fire(
    shown: &mut Shown<'_>,
    (supervisor, session): (&Supervisor, &Session),
    group: &GroupId,
    plan: &mut Plan,
) -> Result<Fired, DriveError> {
    let (mut specs, mut seats) = (Vec::new(), Vec::new());
    again::renumber(&mut plan.tasks).map_err(|(index, problem)| LaunchError::Rejected { index, problem })?;
    for (place, mut task) in std::mem::take(&mut plan.tasks).into_iter().enumerate() {
        seats.push((task.id.clone(), task.carried.take()));
        if seats.last().is_some_and(|(_, carried)| carried.is_none()) {
            specs.push(job(task, place));
        }
    }
    if specs.is_empty() {
        shown.say(&nothing_left(plan));
        let result = again::nothing(group, session.id());
        return Ok(Fired { result, members: members(seats, Vec::new()), wake: None });
    }
    let options = GroupOptions { id: Some(group.clone()), policy: plan.policy };
    let group = session.fan_out_with(options, specs).await?;
    if !plan.policy.budget.is_none() {
        let account = supervisor.account(&Named::Group(group.id().clone()))?;
        shown.say(&format!("fanin: {}", budget::allows(&account)));
    }
    let wake = shown.until_fired(session, group.id()).await?;
    let members = members(seats, group.jobs().to_vec());
    Ok(Fired { result: wake.result().clone(), members, wake: Some(wake) })
}

fn nothing_left(plan: &Plan) -> String {
    let of = plan.again_of.as_ref().map(|group| format!(" of {group}")).unwrap_or_default();
    format!("fanin: all tasks{of} completed; there is nothing to run again")
}

/// The tasks, each with the job that ran it: all of those that were not carried were launched, or none was.
fn members(tasks: Vec<(Option<String>, Option<Box<Carried>>)>, jobs: Vec<JobId>) -> Vec<Member> {
    let mut jobs = jobs.into_iter();
    let member = |(id, carried)| {
        let origin = match carried {
            Some(carried) => Origin::Carried(carried),
            None => Origin::Ran(jobs.next()?),
        };
        Some(Member { id, origin })
    };
    tasks.into_iter().filter_map(member).collect()
}
