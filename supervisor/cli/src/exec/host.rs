//! All that is around a parent: its store, the way to its tools, what may cut it short; and in the end what is printed, what is
//! kept, and how the program ends.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use fanin_acp::{AcpRunner, Hosting};
use fanin_mcp::Parent;
use fanin_protocol::limits::{KILL_SLACK, KILL_WAIT};
use fanin_protocol::{
    Cause, CombinedResult, JobId, JobInfo, PARENT_VARIABLE, Profile, SessionId, Status, text,
};
use fanin_supervisor::{JobFilter, StopSignal, StopStage, Supervisor};
use tokio::time::{Instant, sleep};

use super::door::Door;
use super::kept::Folder;
use super::parent::{Count, Hosted, Last, patiently};
use super::report::Report;
use super::warden::{Cut, Warden};
use super::{Prepared, ShownAs, spec};
use crate::drive::{self, DriveError, SELF};
use crate::exit::Exit;
use crate::keep;
use crate::mcp::Served;
use crate::plan::FailOn;
use crate::signals::Signals;
use crate::stderr::Stderr;
use crate::team::Mails;
use crate::warning::Warning;

/// What a program that hosts is called by its agent.
const SERVER: &str = "fanin";

/// How it speaks to people.
#[derive(Clone)]
pub(super) struct Told {
    stderr: Stderr,
    shown: ShownAs,
}

impl Told {
    /// Says how it goes.
    pub(super) fn say(&self, words: &str) {
        if !self.shown.is_quiet && !self.shown.is_json {
            self.stderr.say(&format!("fanin: {words}"));
        }
    }

    /// Says why it did not come to its end. A document says it itself.
    fn error(&self, words: &str) {
        if !self.shown.is_json {
            self.stderr.say(&format!("error: {words}"));
        }
    }

    /// Says what went wrong and does not matter to the parent.
    fn warn(&self, warning: &Warning) {
        warning.tell(&self.stderr, self.shown.is_json);
    }
}

/// Hosts a parent until nothing is to come, and writes its last words.
///
/// # Errors
///
/// [`DriveError`], where fanin could not do its part; a turn that failed is none.
///
/// # Cancel safety
///
/// Not cancel safe: dropping it stops all jobs and loses the result.
pub(crate) async fn run(prepared: Prepared, signals: Signals, stderr: &Stderr) -> Result<Exit, DriveError> {
    let voice = Told { stderr: stderr.clone(), shown: prepared.shown };
    let is_new = prepared.earlier.is_none();
    let folder = folder(&prepared)?;
    let mut has_begun = !is_new;
    let hosted = host(prepared, (folder.as_ref(), &mut has_begun), signals, &voice).await;
    if let (false, Some(folder)) = (has_begun, &folder) {
        // Nothing was started: nobody goes on with it. The first error is told.
        let _ = std::fs::remove_dir_all(folder.path());
    }
    hosted
}

/// The folder of its session, with what it was asked to do; `None` for memory alone.
fn folder(prepared: &Prepared) -> Result<Option<Folder>, DriveError> {
    let Some(state) = &prepared.state else { return Ok(None) };
    if let Some(earlier) = &prepared.earlier {
        return Ok(Some(earlier.folder.clone()));
    }
    let path = keep::session(state, &prepared.objective.session).map_err(DriveError::Folder)?;
    let folder = Folder::new(path);
    folder.begin(&prepared.objective).map_err(DriveError::Folder)?;
    Ok(Some(folder))
}

async fn host(
    mut prepared: Prepared,
    (folder, has_begun): (Option<&Folder>, &mut bool),
    signals: Signals,
    voice: &Told,
) -> Result<Exit, DriveError> {
    let (supervisor, mail) = supervisor(&prepared, folder, voice).await?;
    let session = prepared.objective.session.clone();
    let bounds = (prepared.config.settings.budget(), prepared.wakes);
    let parent = Parent::open(supervisor.clone(), session.clone(), bounds).await?;
    let door = Door::open(folder.map(Folder::path)).map_err(DriveError::Folder)?;
    let stop = Arc::<StopSignal>::default();
    let left = left(&prepared);
    let mut cut = warden(&prepared, (signals, left), (&supervisor, &stop), voice).begin();
    if left == Some(Duration::ZERO) {
        // Its time was over before it went on: it is asked nothing more. The warden ends no earlier than we do.
        let _ = cut.wait_for(Option::is_some).await;
    }
    let (config, rights) = (prepared.config.clone(), prepared.rights);
    let hosted = (session, supervisor.clone(), rights);
    // Its door of the mail stays open until all jobs have ended.
    let served = Arc::new(Served::hosted(hosted, config, prepared.may_launch, mail));
    let earlier = prepared.earlier.take();
    let mut hosting = hosting(&prepared, &door, Arc::clone(&stop))?;
    hosting.session = earlier.as_ref().and_then(|earlier| earlier.agent_session.clone());
    let mut hosted = Hosted {
        hosting,
        runner: AcpRunner::new(prepared.config.agents.clone()).with_shim(SELF),
        objective: &prepared.objective.objective,
        parent: &parent,
        supervisor: &supervisor,
        conversation: None,
        folder,
        voice,
        stop: Arc::clone(&stop),
        cut,
        told: Count::default(),
        results: Vec::new(),
        is_left: false,
        spent: None,
    };
    voice.say(&format!("{} is the parent, as {}", prepared.objective.agent, prepared.objective.session));
    *has_begun = true;
    let last = tokio::select! {
        last = hosted.converse(earlier.map(|earlier| earlier.answer)) => last?,
        // It ends with its drop alone.
        () = door.serve(Arc::clone(&served), parent.clone(), |why| voice.warn(&Warning::Door(why))) => Last::default(),
    };
    hosted.leave().await;
    let cut = *hosted.cut.borrow();
    let Hosted { told, results, is_left, .. } = hosted;
    let is_left = is_left || results.iter().any(|result| result.unreaped > 0);
    let over = Over { last, told, results, is_left, cut };
    let exit = finish(&prepared, folder, &supervisor, (&over, &stop), voice).await?;
    if !over.last.is_owed {
        supervisor.stop_all(None);
    }
    tokio::select! {
        () = supervisor.shutdown() => {}
        () = forced(&stop) => {}
    }
    Ok(exit)
}

/// The supervisor of what it launches, over its store where it has one, and the mail of its jobs.
async fn supervisor(
    prepared: &Prepared,
    folder: Option<&Folder>,
    voice: &Told,
) -> Result<(Supervisor, Mails), DriveError> {
    let mut builder = drive::runners(Some(prepared.config.agents.clone()), Some(drive::mail_tools()?))
        .profile(Profile::Agent)
        .log_content(prepared.config.settings.log().has_content);
    if let Some(folder) = folder {
        let store = keep::open(folder.path()).map_err(|error| {
            let way_out = keep::way_out(folder.path(), &error);
            DriveError::Store { error, way_out }
        })?;
        builder = builder.journal(store);
    }
    let theirs = voice.clone();
    let mut mail = Mails::new(move |why| theirs.warn(&Warning::Door(why)));
    mail.lie_in(folder.map(Folder::path));
    // What goes on from an earlier life may ask for its mail at once.
    if prepared.earlier.as_ref().is_some_and(|earlier| earlier.has_mail) {
        builder = builder.mail_at(mail.prepare().map_err(DriveError::Mail)?);
    }
    let supervisor = builder.start().await?;
    mail.serve_prepared(&supervisor);
    Ok((supervisor, mail))
}

/// What is left of the time that it may take. That counts over a crash, with the time until the resume.
fn left(prepared: &Prepared) -> Option<Duration> {
    let spent_ms = prepared.earlier.as_ref().map_or(0, |earlier| earlier.spent_ms);
    prepared.objective.timeout_ms.map(|limit| Duration::from_millis(limit.saturating_sub(spent_ms)))
}

fn warden(
    prepared: &Prepared,
    (signals, left): (Signals, Option<Duration>),
    (supervisor, stop): (&Supervisor, &Arc<StopSignal>),
    voice: &Told,
) -> Warden {
    let theirs = voice.clone();
    Warden {
        signals,
        supervisor: supervisor.clone(),
        stop: Arc::clone(stop),
        deadline: left.and_then(|left| Instant::now().checked_add(left)),
        drain: prepared.shown.drain,
        is_nested: prepared.parent.is_some(),
        say: Box::new(move |words| theirs.say(words)),
    }
}

/// A parent that is over, or was cut short.
struct Over {
    last: Last,
    told: Count,
    results: Vec<CombinedResult>,
    /// Processes may still be alive.
    is_left: bool,
    cut: Option<Cut>,
}

/// Says what came of it: prints it, and keeps it.
async fn finish(
    prepared: &Prepared,
    folder: Option<&Folder>,
    supervisor: &Supervisor,
    (over, stop): (&Over, &StopSignal),
    voice: &Told,
) -> Result<Exit, DriveError> {
    let Over { last, told, results, is_left, cut } = over;
    let session = &prepared.objective.session;
    if cut.is_none() && !last.is_owed {
        // What is left of it only watches (SH-3).
        supervisor.stop_all(None);
        tokio::select! {
            () = supervisor.drained() => {}
            () = forced(stop) => {}
        }
    }
    if cut.is_some() {
        // It was told to stop, and nothing of it stays longer than force leaves it.
        tokio::select! {
            () = supervisor.drained() => {}
            () = forced(stop) => {}
        }
    }
    let jobs = patiently(|| supervisor.list(&of(session))).await?.jobs;
    // Watches are no work of it: nobody waits for their end.
    let jobs: Vec<JobInfo> = jobs.into_iter().filter(|job| job.firings.is_none()).collect();
    let exit = exit(&jobs, *cut, last, *is_left, prepared.objective.fail_on);
    let is_unfinished = |job: &&JobInfo| job.cause == Some(Cause::Shutdown);
    let unfinished: Vec<JobId> = jobs.iter().filter(is_unfinished).map(|job| job.job.clone()).collect();
    let report = Report {
        session,
        agent: &prepared.objective.agent,
        exit,
        text: &last.text,
        turns: told.turns,
        wakes: told.wakes,
        fault: last.fault.as_ref(),
        results,
        unfinished: &unfinished,
    };
    match (&last.fault, cut) {
        (Some(fault), None) if last.is_spent => voice.error(&fault.message),
        (Some(fault), None) => {
            voice.error(&format!("the closing turn failed ({}): {}", fault.code, fault.message));
        }
        (Some(_), Some(_)) | (None, _) => {}
    }
    if cut.is_some() && !unfinished.is_empty() {
        let names: Vec<_> = jobs.iter().filter(is_unfinished).map(name).collect();
        voice.error(&format!("not finished: {}", names.join(", ")));
    }
    print(&report, prepared.shown.is_json).await?;
    if let Some(folder) = folder {
        if last.is_owed && cut.is_none() {
            voice.say(&format!("its wake stays owed: fanin resume {session}"));
        } else {
            folder.result(&report.document().map_err(DriveError::Write)?).map_err(DriveError::Folder)?;
        }
    }
    Ok(exit)
}

/// Waits until force had its time.
async fn forced(stop: &StopSignal) {
    stop.reached(StopStage::Forced).await;
    sleep(KILL_WAIT + KILL_SLACK).await;
}

fn of(session: &SessionId) -> JobFilter {
    JobFilter { session: Some(session.clone()), limit: usize::MAX, ..JobFilter::default() }
}

fn name(job: &JobInfo) -> String {
    job.label.as_ref().map_or_else(|| job.job.to_string(), |label| text::one_line(label))
}

/// How the agent is started, with the way to our tools.
fn hosting(prepared: &Prepared, door: &Door, stop: Arc<StopSignal>) -> Result<Hosting, DriveError> {
    let mut spec = spec(&prepared.objective);
    // What it starts is as deep as we are.
    if let Some(mark) = fanin_process::own_mark() {
        spec.env.insert(PARENT_VARIABLE.to_owned(), mark.to_string());
    }
    let path = door.name().map_err(DriveError::Folder)?;
    let tools = drive::tool_server(SERVER, &["mcp", "--door", path], &fanin_mcp::TOOLS);
    let tools = tools.map_err(DriveError::Folder)?;
    Ok(Hosting { spec, tools: vec![tools], session: None, stop })
}

/// How the program ends: the first that applies of 70, 130 or 143, 3, 1, 0 (SH-5).
fn exit(jobs: &[JobInfo], cut: Option<Cut>, last: &Last, is_left: bool, fail_on: Option<FailOn>) -> Exit {
    let is_open = |job: &JobInfo| !job.status.is_terminal();
    if is_left || jobs.iter().any(is_open) {
        return Exit::Unreaped;
    }
    // What came once all was done has changed nothing.
    match cut.filter(|_| !last.is_done) {
        Some(Cut::Signal(signal)) => Exit::Signal(signal),
        Some(Cut::Deadline) => Exit::Deadline,
        None if last.is_spent => Exit::Autonomy,
        None if last.fault.is_some() => Exit::TurnFailed,
        None if fail_on.is_some() && jobs.iter().any(|job| job.status != Status::Completed) => {
            Exit::SomeNotCompleted
        }
        None => Exit::Done,
    }
}

/// Writes the result, beside the runtime: a full pipe may block for ever.
async fn print(report: &Report<'_>, is_json: bool) -> Result<(), DriveError> {
    let out = if is_json { report.document().map_err(DriveError::Write)? } else { report.words() };
    let is_shown = !is_json && io::stdout().is_terminal();
    let write = tokio::task::spawn_blocking(move || {
        let out =
            if is_shown { text::printable(&String::from_utf8_lossy(&out)).into_owned().into() } else { out };
        let mut stdout = io::stdout().lock();
        stdout.write_all(&out).and_then(|()| stdout.flush())
    });
    match write.await {
        Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(DriveError::Write(error)),
        Ok(_) => Ok(()),
        Err(panic) => Err(DriveError::Write(io::Error::other(panic))),
    }
}
