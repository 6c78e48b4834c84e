//! `fanin resume`: goes on with a run whose fanin died. The same launch is made again in the same store, which answers
//! what is there; recovery has closed what ran. It also tells, once, that there is something to go on with.

use std::env;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fanin_protocol::limits::DEPTH_MAX;
use fanin_protocol::{GroupId, JobInfo, Status, layout, text};
use fanin_supervisor::JobFilter;
use fanin_supervisor::stored::Stored;

use crate::args::{Flags, RunArgs};
use crate::config::{self, Config};
use crate::duration;
use crate::exec;
use crate::exit::Exit;
use crate::keep::{Keep, KeptRun, UNPRINTED};
use crate::nested;
use crate::plan::Refused;
use crate::prepare::Prepared;
use crate::ps;
use crate::stores::{LookError, Places};
use crate::warning::Warning;

/// In the folder of a run: that it was interrupted has been told.
const TOLD: &str = "interrupted.told";

/// The words of `fanin resume`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The run: its id, or 4 hex digits or more of it [default: the only one that was interrupted]
    #[arg(value_name = "RUN")]
    run: Option<String>,

    /// No progress on standard error, only the result
    #[arg(short, long)]
    quiet: bool,

    /// The result as one JSON document (fanin.result/1) on standard output
    #[arg(long)]
    pub(crate) json: bool,

    /// After a first Ctrl-C: how long running tasks may go on [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    drain: Option<Duration>,
}

/// A run that was interrupted.
struct Interrupted {
    group: GroupId,
    line: String,
}

/// What to go on with.
pub(crate) enum Resumed {
    /// This run.
    Run(Box<Prepared>),
    /// This parent.
    Exec(Box<exec::Prepared>),
    /// Nothing: no run was interrupted.
    Nothing,
}

/// Prepares to go on with a run.
///
/// # Errors
///
/// [`Refused`], where there is no such run, a process has it, it was not interrupted, or it is not clear which one is
/// meant.
pub(crate) fn prepare(args: &ResumeArgs, config: &Config) -> Result<Resumed, Refused> {
    let state = config.settings.state();
    let state = state.map_err(|error| Refused::one(error.to_string()))?;
    let (name, warnings) = match &args.run {
        Some(name) => (name.clone(), Vec::new()),
        None => {
            let (mut all, warnings) = interrupted(&state).map_err(refused)?;
            match (all.len(), all.pop()) {
                (1, Some(one)) => (one.group.to_string(), warnings),
                (_, None) if warnings.is_empty() => return Ok(Resumed::Nothing),
                (_, None) => return Err(nothing_else(&warnings)),
                (count, Some(last)) => {
                    all.push(last);
                    return Err(several(count, &all, &warnings));
                }
            }
        }
    };
    if let Some(folder) = exec::find(&state, &name)? {
        return resume_exec(args, config, state, folder).map(Box::new).map(Resumed::Exec);
    }
    let run = KeptRun::find(&state, &name).map_err(|error| Refused {
        exit: error.exit(),
        ..Refused::one(error.to_string().replacen("--again", "resume", 1))
    })?;
    if !crate::stores::is_store(&run.folder) {
        let group = &run.group;
        let problem = format!("resume: {group} has no store; `fanin run --again {group}` runs it again");
        return Err(Refused::one(problem));
    }
    let stored = read(&run.folder).map_err(|error| {
        let way_out = way_out(&run.folder, &error);
        Refused { exit: error.exit(), ..Refused::one(format!("{error}{way_out}")) }
    })?;
    if !is_owing(&stored, &run.group) {
        let group = &run.group;
        let problem = format!("resume: {group} is over; `fanin show {group}` shows what came of it");
        return Err(Refused::one(problem));
    }
    let parent = nested::parent_of_tasks(DEPTH_MAX)?;
    // Tasks that say nothing else run where the run was started.
    env::set_current_dir(&run.started_in).map_err(|error| {
        Refused::one(format!("resume: {} cannot be entered: {error}", text::path(&run.started_in)))
    })?;
    let KeptRun { group, folder, plan, .. } = run;
    // Of where it runs.
    let config = Config::resolve()?;
    let agents = config::agents_of(&plan, &config)?;
    let drain = args.drain.unwrap_or(config.settings.drain());
    let log_content = config.settings.log().has_content;
    let keep = Keep::of(&state, &folder);
    let args = words(args);
    let before = left(&stored);
    Ok(Resumed::Run(Box::new(Prepared {
        args,
        plan,
        agents,
        group,
        keep: Some(keep),
        parent,
        drain,
        log_content,
        before,
        warnings,
    })))
}

/// Prepares to go on with a parent that was hosted.
fn resume_exec(
    args: &ResumeArgs,
    config: &Config,
    state: PathBuf,
    folder: PathBuf,
) -> Result<exec::Prepared, Refused> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unread = |error: LookError| {
        let way_out = way_out(&folder, &error);
        Refused { exit: error.exit(), ..Refused::one(format!("{error}{way_out}")) }
    };
    let stored = read(&folder).map_err(unread)?;
    if stored.is_owned() {
        let problem = format!("resume: {name} is still at work; wait for its end");
        return Err(Refused { exit: Exit::Owned, ..Refused::one(problem) });
    }
    if folder.join(layout::RESULT).exists() {
        let problem = format!("resume: {name} is over; `fanin ps --all` shows what came of its jobs");
        return Err(Refused::one(problem));
    }
    let drain = args.drain.unwrap_or(config.settings.drain());
    let shown = exec::ShownAs { is_quiet: args.quiet, is_json: args.json, drain };
    exec::resume(state, folder, &stored, shown)
}

/// The jobs as their supervisor left them when it died: what ran then has not ended yet.
fn left(stored: &Stored) -> Vec<JobInfo> {
    let mut jobs = stored.list(&JobFilter { limit: usize::MAX, ..JobFilter::default() }).jobs;
    for job in jobs.iter_mut().filter(|job| ps::is_lost(job)) {
        (job.status, job.cause) = (Status::Running, None);
    }
    jobs
}

/// No run is known to be interrupted, and some could not be looked at.
fn nothing_else(warnings: &[Warning]) -> Refused {
    let problems = warnings.iter().map(|warning| format!("resume: {warning}")).collect();
    Refused { problems, exit: Exit::Internal, ..Refused::one(String::new()) }
}

fn several(count: usize, all: &[Interrupted], warnings: &[Warning]) -> Refused {
    let mut problem = format!("resume: {count} runs were interrupted; name the one to go on with");
    all.iter().for_each(|run| problem.push_str(&format!("\n{}", run.line)));
    warnings.iter().for_each(|warning| problem.push_str(&format!("\n{warning}")));
    Refused::one(problem)
}

fn refused(error: LookError) -> Refused {
    Refused { exit: error.exit(), ..Refused::one(error.to_string()) }
}

/// Those of `fanin run` with the same meaning.
fn words(args: &ResumeArgs) -> RunArgs {
    RunArgs {
        lines: Vec::new(),
        tasks: Vec::new(),
        each: None,
        file: None,
        again: None,
        flags: Flags::default(),
        quiet: args.quiet,
        json: args.json,
        junit: None,
        on_done: None,
        notify: false,
        no_notify: false,
        no_github: false,
        detach: false,
        key: None,
        no_keep: false,
        no_store: false,
        drain: args.drain,
    }
}

fn read(folder: &Path) -> Result<Stored, LookError> {
    Places::of(Some(folder), Ok(folder.to_owned()))?.newest()?.read()
}

/// All runs that were interrupted, the newest first, and those of which that cannot be told.
fn interrupted(state: &Path) -> Result<(Vec<Interrupted>, Vec<Warning>), LookError> {
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    for folder in crate::keep::folders(state)? {
        match look(&folder) {
            Ok(found) => all.extend(found),
            Err(error) => {
                let run = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let problem = format!("{error}{}", way_out(&folder, &error));
                unread.push(Warning::PassedOver { run, problem });
            }
        }
    }
    Ok((all, unread))
}

/// What helps where a store cannot be read, beside what the error says.
fn way_out(folder: &Path, error: &LookError) -> String {
    match error {
        LookError::Store(damage) => crate::keep::way_out(folder, damage),
        _ => String::new(),
    }
}

/// True where nobody is at work in a run, and it did not come to its end. It is the one group of its store; one that
/// was cut short before it was launched has none.
fn is_owing(stored: &Stored, group: &GroupId) -> bool {
    let is_owed = || stored.group(group).is_none_or(|group| !group.is_taken && group.voided.is_none());
    stored.is_interrupted() && is_owed()
}

/// True where the run of this folder was interrupted, and its result is still to come.
///
/// # Errors
///
/// [`LookError`], where its store cannot be read.
pub(crate) fn owes(folder: &Path) -> Result<bool, LookError> {
    Ok(owing(folder)?.is_some())
}

fn owing(folder: &Path) -> Result<Option<(GroupId, Stored)>, LookError> {
    // Cheap to see, and so for all but a few: it ended, and its result was printed.
    let is_over = folder.join(layout::RESULT).exists() && !folder.join(UNPRINTED).exists();
    if exec::is_exec(folder) {
        return owing_exec(folder);
    }
    if is_over || crate::keep::is_session(folder) || !crate::stores::is_store(folder) {
        return Ok(None);
    }
    let stored = read(folder)?;
    let group = folder.file_name().and_then(|name| GroupId::parse(name.to_str()?).ok());
    Ok(group.filter(|group| is_owing(&stored, group)).map(|group| (group, stored)))
}

/// As [`owing`], of a parent that was hosted: without a result it did not come to its end.
fn owing_exec(folder: &Path) -> Result<Option<(GroupId, Stored)>, LookError> {
    if folder.join(layout::RESULT).exists() || !crate::stores::is_store(folder) {
        return Ok(None);
    }
    let stored = read(folder)?;
    let id = folder.file_name().and_then(|name| GroupId::parse(name.to_str()?).ok());
    Ok(id.filter(|_| !stored.is_owned()).map(|id| (id, stored)))
}

/// What there is to say of a folder where a run was interrupted.
fn look(folder: &Path) -> Result<Option<Interrupted>, LookError> {
    let Some((group, stored)) = owing(folder)? else { return Ok(None) };
    if !folder.join(layout::PLAN).exists() && !exec::is_exec(folder) {
        let problem = format!("its plan is gone; `fanin show {group}` shows what is left of it");
        return Err(LookError::NoStore(problem));
    }
    let jobs = stored.list(&JobFilter { limit: usize::MAX, ..JobFilter::default() }).jobs;
    let count = |is: fn(&JobInfo) -> bool| jobs.iter().filter(|job| is(job)).count();
    let ran = count(|job| job.ended_at_ms.is_none() && job.status.is_terminal());
    let waited = count(|job| !job.status.is_terminal());
    let were = if ran == 1 { "job was" } else { "jobs were" };
    let more = if waited == 0 { String::new() } else { format!(", {waited} waited") };
    let was = if jobs.iter().all(|job| job.ended_at_ms.is_some()) && !jobs.is_empty() {
        "its jobs were over and its result was not printed".to_owned()
    } else {
        format!("{ran} {were} running{more}")
    };
    let what = if exec::is_exec(folder) { "parent" } else { "run" };
    let line = format!("{what} {group} was interrupted: {was}; `fanin resume {group}`");
    Ok(Some(Interrupted { group, line }))
}

/// Tells of runs that were interrupted, each once. What cannot be read is told by who asks for it.
pub(crate) fn tell(state: &Path, say: impl Fn(&str)) {
    let Ok(folders) = crate::keep::folders(state) else { return };
    for folder in folders.iter().filter(|folder| !folder.join(TOLD).exists()) {
        let Ok(Some(found)) = look(folder) else { continue };
        let told = OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(TOLD));
        // Another process may have told it meanwhile; where it cannot be noted, it is told again.
        if !told.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
            say(&format!("fanin: {}", found.line));
        }
    }
}
