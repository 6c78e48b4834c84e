//! The parent's loop: a turn, then nothing until all that it has launched is over, then the turn that is woken with it. It
//! ends once nothing is to come.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use fanin_acp::{AcpRunner, Conversation, Hosting, ToolServer};
use fanin_mcp::Parent;
use fanin_protocol::limits::{GATE_PAUSE, GATE_WAIT, KILL_SLACK, KILL_WAIT, PARENT_TRIES, RETRY_GAP};
use fanin_protocol::{
    Cause, CombinedResult, Fault, GroupId, JobInfo, PARENT_VARIABLE, Profile, Status, text,
};
use fanin_supervisor::{
    CallError, Failure, Filter, JobFilter, Owing, Refusal, Session, Since, StopSignal, StopStage, Supervisor,
    Wake,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::door::Door;
use super::kept::{Answer, Folder};
use super::report::Report;
use super::warden::{Cut, Warden};
use super::words::Told;
use super::{Prepared, ShownAs, spec};
use crate::drive::{self, DriveError, SELF};
use crate::exit::Exit;
use crate::json;
use crate::keep;
use crate::mcp::Served;
use crate::plan::FailOn;
use crate::signals::Signals;
use crate::stderr::Stderr;
use crate::warning::Warning;

/// What a program that hosts is called by its agent.
const SERVER: &str = "fanin";

/// How it speaks to people.
#[derive(Clone)]
struct Voice {
    stderr: Stderr,
    shown: ShownAs,
}

impl Voice {
    /// Says how it goes.
    fn say(&self, words: &str) {
        if !self.shown.is_quiet && !self.shown.is_json {
            self.stderr.say(&format!("fanin: {words}"));
        }
    }

    /// Says what went wrong and does not matter to the parent.
    fn warn(&self, warning: &Warning) {
        if self.shown.is_json {
            self.stderr.document(&json::error(warning.code(), &warning.to_string(), None));
        } else {
            self.stderr.say(&format!("fanin: warning: {warning}"));
        }
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
    let voice = Voice { stderr: stderr.clone(), shown: prepared.shown };
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
    voice: &Voice,
) -> Result<Exit, DriveError> {
    let mut builder = drive::runners(Some(prepared.agents.clone())).profile(Profile::Agent);
    if let Some(folder) = folder {
        let store = keep::open(folder.path()).map_err(|error| {
            let way_out = keep::way_out(folder.path(), &error);
            DriveError::Store { error, way_out }
        })?;
        builder = builder.journal(store);
    }
    let supervisor = builder.start().await?;
    let session = prepared.objective.session.clone();
    let parent = Parent::open(supervisor.clone(), session.clone()).await?;
    let door = Door::open(folder.map(Folder::path), &session).map_err(DriveError::Folder)?;
    let stop = Arc::<StopSignal>::default();
    let limit = prepared.objective.timeout_ms.map(Duration::from_millis);
    let theirs = voice.clone();
    let cut = Warden {
        signals,
        supervisor: supervisor.clone(),
        stop: Arc::clone(&stop),
        deadline: limit.and_then(|limit| Instant::now().checked_add(limit)),
        drain: prepared.shown.drain,
        is_nested: prepared.parent.is_some(),
        say: Box::new(move |words| theirs.say(words)),
    }
    .begin();
    let served = Arc::new(Served::hosted(
        (session.clone(), supervisor.clone()),
        prepared.agents.clone(),
        prepared.rights,
        prepared.may_launch,
    ));
    let serving = door.serve(served, parent.clone(), |why| voice.warn(&Warning::Door(why)));
    let mut hosted = Hosted {
        hosting: hosting(&prepared, &door, Arc::clone(&stop))?,
        runner: AcpRunner::new(prepared.agents.clone()).with_shim(SELF),
        objective: &prepared.objective.objective,
        parent: &parent,
        supervisor: &supervisor,
        conversation: None,
        folder,
        voice,
        stop,
        cut,
        told: Count::default(),
        results: Vec::new(),
        is_left: false,
    };
    let earlier = prepared.earlier.take();
    if let Some(session) = earlier.as_ref().and_then(|earlier| earlier.agent_session.clone()) {
        hosted.hosting.session = Some(session);
    }
    voice.say(&format!("{} is the parent, as {session}", prepared.objective.agent));
    *has_begun = true;
    let last = tokio::select! {
        last = hosted.converse(earlier.map(|earlier| earlier.answer)) => last?,
        // It ends with its drop alone.
        () = serving => Last::default(),
    };
    hosted.leave().await;
    let Hosted { cut, told, results, stop, is_left, .. } = hosted;
    let cut: Option<Cut> = *cut.borrow();
    if cut.is_some() {
        // It was told to stop, and nothing of it stays longer than force leaves it.
        tokio::select! {
            () = supervisor.drained() => {}
            () = forced(&stop) => {}
        }
    }
    let jobs = patiently(|| supervisor.list(&of(&session))).await?.jobs;
    let is_left = is_left || results.iter().any(|result| result.unreaped > 0);
    let exit = exit(&jobs, cut, &last, is_left, prepared.objective.fail_on);
    let unfinished: Vec<_> =
        jobs.iter().filter(|job| job.cause == Some(Cause::Shutdown)).map(|job| job.job.clone()).collect();
    let report = Report {
        session: &session,
        agent: &prepared.objective.agent,
        exit,
        text: &last.text,
        turns: told.turns,
        wakes: told.wakes,
        fault: last.fault.as_ref(),
        results: &results,
        unfinished: &unfinished,
    };
    if let (Some(fault), false) = (&last.fault, prepared.shown.is_json) {
        voice.stderr.say(&format!("error: the closing turn failed ({}): {}", fault.code, fault.message));
    }
    if let (Some(_), false, false) = (cut, unfinished.is_empty(), prepared.shown.is_json) {
        let names: Vec<_> = jobs.iter().filter(|job| unfinished.contains(&job.job)).map(name).collect();
        voice.stderr.say(&format!("fanin: not finished: {}", names.join(", ")));
    }
    print(&report, prepared.shown.is_json).await?;
    if let Some(folder) = folder {
        if last.is_owed && cut.is_none() {
            voice.say(&format!("its wake stays owed: fanin resume {session}"));
        } else {
            folder.result(&report.document().map_err(DriveError::Write)?).map_err(DriveError::Folder)?;
        }
    }
    if !last.is_owed {
        supervisor.stop_all(None);
    }
    tokio::select! {
        () = supervisor.shutdown() => {}
        () = forced(&stop) => {}
    }
    Ok(exit)
}

/// Waits until force had its time.
async fn forced(stop: &StopSignal) {
    stop.reached(StopStage::Forced).await;
    sleep(KILL_WAIT + KILL_SLACK).await;
}

fn of(session: &fanin_protocol::SessionId) -> JobFilter {
    JobFilter { session: Some(session.clone()), limit: usize::MAX, ..JobFilter::default() }
}

fn name(job: &JobInfo) -> String {
    job.label.as_ref().map_or_else(|| job.job.to_string(), |label| text::one_line(label))
}

/// How the agent is started, with the way to our tools.
fn hosting(prepared: &Prepared, door: &Door, stop: Arc<StopSignal>) -> Result<Hosting, DriveError> {
    let mut spec = spec(&prepared.objective);
    // What it starts is as deep as we are.
    if let Some(mark) = env::var_os(PARENT_VARIABLE).and_then(|mark| mark.into_string().ok()) {
        spec.env.insert(PARENT_VARIABLE.to_owned(), mark);
    }
    let path = door.path().to_str().ok_or_else(|| {
        DriveError::Folder(io::Error::other("its path is no UTF-8, and an agent could not be told of it"))
    })?;
    let tools = ToolServer {
        name: SERVER.to_owned(),
        command: env::current_exe().map_err(DriveError::Folder)?,
        args: ["mcp", "--door", path].map(str::to_owned).into(),
        tools: fanin_mcp::TOOLS.map(str::to_owned).into(),
    };
    Ok(Hosting { spec, tools: vec![tools], session: None, stop })
}

/// How often it was told something.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    turns: u32,
    wakes: u32,
}

/// What its last turn came to.
#[derive(Debug, Default)]
struct Last {
    text: String,
    fault: Option<Fault>,
    /// A result that it was woken with was not taken.
    is_owed: bool,
}

/// A parent at work.
struct Hosted<'h> {
    hosting: Hosting,
    runner: AcpRunner,
    objective: &'h str,
    parent: &'h Parent,
    supervisor: &'h Supervisor,
    conversation: Option<Conversation>,
    folder: Option<&'h Folder>,
    voice: &'h Voice,
    stop: Arc<StopSignal>,
    cut: watch::Receiver<Option<Cut>>,
    told: Count,
    /// What it was woken with.
    results: Vec<CombinedResult>,
    /// Processes of its agent may still be alive.
    is_left: bool,
}

/// What became of one turn.
enum Turned {
    /// It came to its end, with this last message.
    Well(String),
    /// It did not; whether the agent had its prompt.
    Badly(Failure, bool),
}

impl Hosted<'_> {
    fn session(&self) -> &Session {
        self.parent.session()
    }

    fn is_cut(&self) -> bool {
        self.cut.borrow().is_some()
    }

    /// Turn after turn, until nothing is to come. `earlier` is there of a parent that was interrupted, with what it said
    /// where its last turn had come to its end.
    async fn converse(&mut self, earlier: Option<Option<Answer>>) -> Result<Last, DriveError> {
        let mut last = Last::default();
        let is_resumed = earlier.is_some();
        // One that has no session was never asked.
        let mut is_first = self.hosting.session.is_none();
        let mut wakes = Vec::new();
        let mut was_interrupted = false;
        if is_resumed {
            was_interrupted = !is_first;
            wakes = self.woken().await?;
        }
        if let Some(answer) = earlier.flatten() {
            was_interrupted = false;
            self.told = Count { turns: answer.turns, wakes: answer.wakes };
            for wake in std::mem::take(&mut wakes) {
                // Its turn has come to its end: what it was woken with then is not told again.
                if answer.taken.contains(&wake.result().group) {
                    self.take(wake).await?;
                } else {
                    wakes.push(wake);
                }
            }
            last.text = answer.text;
            if wakes.is_empty() && self.is_done().await? {
                return Ok(last);
            }
        }
        let mut tries = 0;
        loop {
            if self.is_cut() {
                return Ok(Last { is_owed: !wakes.is_empty(), ..last });
            }
            let mut is_safe = false;
            match self.turn((is_first, was_interrupted), wakes).await? {
                Turned::Well(text) => {
                    (last, tries) = (Last { text, ..Last::default() }, 0);
                    (is_first, was_interrupted) = (false, false);
                }
                Turned::Badly(failure, was_asked) => {
                    tries += 1;
                    (is_first, was_interrupted) = (is_first && !was_asked, was_interrupted || was_asked);
                    is_safe = failure.is_safe;
                    last.fault = Some(fault(failure));
                }
            }
            wakes = self.woken().await?;
            if self.is_cut() {
                return Ok(last);
            }
            if last.fault.is_some() {
                // What is owed drives it (W-3); what it was never asked can be asked again.
                if tries >= PARENT_TRIES || wakes.is_empty() && !(is_first && is_safe) {
                    return Ok(Last { is_owed: !wakes.is_empty(), ..last });
                }
                self.pause(RETRY_GAP * 2_u32.saturating_pow(tries - 1)).await;
                continue;
            }
            while wakes.is_empty() {
                if self.is_done().await? {
                    return Ok(last);
                }
                // A call that was still open has launched something since.
                wakes = self.woken().await?;
                if self.is_cut() {
                    return Ok(last);
                }
            }
        }
    }

    /// Waits, unless it is cut short.
    async fn pause(&self, gap: Duration) {
        tokio::select! {
            () = sleep(gap) => {}
            () = self.stop.reached(StopStage::Polite) => {}
        }
    }

    /// One turn: it is given what it is woken with, and has taken that once it has answered.
    async fn turn(
        &mut self,
        (is_first, was_interrupted): (bool, bool),
        wakes: Vec<Wake>,
    ) -> Result<Turned, DriveError> {
        if let Some(folder) = self.folder {
            folder.unanswered().map_err(DriveError::Folder)?;
        }
        let turn = match self.session().turn().await {
            Ok(turn) => turn,
            // It was cut short meanwhile.
            Err(CallError::Refused(Refusal::Draining)) => {
                let failure = Failure::new(Cause::Failed, None, "it was stopped before its turn");
                return Ok(Turned::Badly(failure, false));
            }
            Err(error) => return Err(error.into()),
        };
        let opened = match self.begin(turn.voice()).await {
            Ok(opened) => opened,
            Err(failure) => {
                drop(wakes);
                turn.fail(failure.message.as_str()).await?;
                return Ok(Turned::Badly(failure, false));
            }
        };
        self.told.turns += 1;
        self.told.wakes += u32::from(!wakes.is_empty());
        let results = wakes.iter().map(Wake::result).collect();
        let prompt = Told { objective: self.objective, results, was_interrupted, is_first }.prompt(opened);
        let Some(conversation) = &mut self.conversation else {
            return Ok(Turned::Badly(Failure::new(Cause::Failed, None, "no conversation"), false));
        };
        let answered = conversation.prompt(prompt).await;
        if let Some(failure) = answered.failure {
            // Given back: they come again.
            drop(wakes);
            if !answered.is_answered {
                // It may be at work on it for ever, or gone.
                self.leave().await;
            }
            turn.fail(failure.message.as_str()).await?;
            return Ok(Turned::Badly(failure, true));
        }
        let text = answered.output.map(|output| output.text().into_owned()).unwrap_or_default();
        if let Some(folder) = self.folder {
            let taken: Vec<GroupId> = wakes.iter().map(|wake| wake.result().group.clone()).collect();
            let Count { turns, wakes } = self.told;
            let answer = Answer { text: text.clone(), taken, turns, wakes };
            folder.answer(&answer).map_err(DriveError::Folder)?;
        }
        for wake in wakes {
            self.take(wake).await?;
        }
        turn.end().await?;
        Ok(Turned::Well(text))
    }

    async fn take(&mut self, wake: Wake) -> Result<(), DriveError> {
        let result = wake.ack().await?;
        self.results.push((*result).clone());
        Ok(())
    }

    /// Begins a turn of the agent, which is started where it does not run.
    async fn begin(&mut self, turn: fanin_supervisor::Voice) -> Result<fanin_acp::Opened, Failure> {
        let conversation = match self.conversation.take() {
            Some(conversation) => conversation,
            None => self.runner.host(self.hosting.clone(), &turn).await?,
        };
        let conversation = self.conversation.insert(conversation);
        let opened = conversation.begin(turn).await;
        match conversation.session() {
            Some(session) => self.hosting.session = Some(session.to_owned()),
            // Whatever keeps it from that: the next one begins anew.
            None => self.leave().await,
        }
        opened
    }

    /// Ends the agent's program. The next turn starts it again, and goes on with its session.
    async fn leave(&mut self) {
        if let Some(conversation) = self.conversation.take() {
            self.is_left |= conversation.end().await.is_some();
        }
    }

    /// Waits until nothing that it has launched is left, and holds all results that are owed to it. Empty where it is cut
    /// short.
    async fn woken(&self) -> Result<Vec<Wake>, DriveError> {
        let changes = Filter::session(self.session().id()).kinds(["job.ended", "message.taken"]);
        // Before the first look: what changes since then is seen.
        let mut changes = self.supervisor.subscribe(changes, Since::Now).await?;
        let (mut held, mut is_told): (Vec<Wake>, bool) = (Vec::new(), false);
        loop {
            let Owing { jobs, groups } = patiently(|| self.session().owing()).await?;
            if jobs.is_empty() && groups.len() <= held.len() {
                let place = |wake: &Wake| groups.iter().position(|group| *group == wake.result().group);
                held.sort_by_key(place);
                held.iter().for_each(|wake| self.voice.say(&format!("woken: {}", over(wake.result()))));
                return Ok(held);
            }
            if !jobs.is_empty() && !is_told {
                is_told = true;
                let jobs = if jobs.len() == 1 { "1 job".to_owned() } else { format!("{} jobs", jobs.len()) };
                self.voice.say(&format!("its turn is over; it is woken when {jobs} are over"));
            }
            tokio::select! {
                biased;
                () = self.stop.reached(StopStage::Polite) => return Ok(Vec::new()),
                wake = self.session().next_wake() => held.push(wake?),
                _ = changes.next() => {}
            }
        }
    }

    /// True where nothing is to come, and nothing is launched any more.
    async fn is_done(&self) -> Result<bool, DriveError> {
        let until = Instant::now() + GATE_WAIT;
        loop {
            match self.parent.close_when_done().await {
                Err(CallError::Busy) if Instant::now() < until => sleep(GATE_PAUSE).await,
                done => return Ok(done?),
            }
        }
    }
}

fn fault(failure: Failure) -> Fault {
    let code = failure.code.map_or_else(|| failure.cause.to_string(), |code| code.to_string());
    Fault { code, message: failure.message, hint: None, retryable: failure.is_safe }
}

/// A group that is over, in a few words.
fn over(result: &CombinedResult) -> String {
    let counts = result.counts;
    format!(
        "{} of {} completed, in {}",
        counts.completed,
        counts.launched,
        text::duration(result.duration_ms)
    )
}

/// Looks, and again while the supervisor is busy.
async fn patiently<T>(look: impl Fn() -> Result<T, CallError>) -> Result<T, DriveError> {
    let until = Instant::now() + GATE_WAIT;
    loop {
        match look() {
            Err(CallError::Busy) if Instant::now() < until => sleep(GATE_PAUSE).await,
            looked => return Ok(looked?),
        }
    }
}

/// How the program ends: the first that applies of 70, 130 or 143, 3, 1, 0 (SH-5).
fn exit(jobs: &[JobInfo], cut: Option<Cut>, last: &Last, is_left: bool, fail_on: Option<FailOn>) -> Exit {
    let is_open = |job: &JobInfo| !job.status.is_terminal();
    if is_left || jobs.iter().any(is_open) {
        return Exit::Unreaped;
    }
    match cut {
        Some(Cut::Signal(signal)) => Exit::Signal(signal),
        Some(Cut::Deadline) => Exit::Deadline,
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
