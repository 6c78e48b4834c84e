//! `fanin demo`: five fake agents, a supervisor that is killed half way, and another that goes on. What is printed is
//! compared with what happened; the program fails where that is not so. It needs no key and no configuration.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fanin_process::Table;
use fanin_protocol::limits::DEMO_WAIT;
use fanin_protocol::{LogId, Resume, Status, text};
use fanin_sqlite::{Options, SqliteJournal};
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::journal::JournalError;
use fanin_supervisor::{Delivery, Filter, JobSpec, Session, Since, Supervisor};

/// Why the demo did not come out as it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// A part of it could not be carried out.
    #[error("{what}: {error}")]
    Failed {
        /// Which part.
        what: &'static str,
        /// Why.
        error: String,
    },
    /// What happened is not what is promised.
    #[error("{what}: {found}, and not {wanted}")]
    Broken {
        /// Which promise.
        what: &'static str,
        /// What was found.
        found: String,
        /// What should have been.
        wanted: String,
    },
}

fn failed<E: ToString>(what: &'static str) -> impl FnOnce(E) -> DemoError {
    move |error| DemoError::Failed { what, error: error.to_string() }
}

fn ensure<T: PartialEq + std::fmt::Debug>(what: &'static str, found: T, wanted: T) -> Result<(), DemoError> {
    if found == wanted {
        return Ok(());
    }
    Err(DemoError::Broken { what, found: format!("{found:?}"), wanted: format!("{wanted:?}") })
}

/// The agents: what each says, after how long, and what becomes of it in a crash.
const AGENTS: [(&str, &str, &str, Resume); 5] = [
    ("scan", "0.2", "42 files", Resume::Fail),
    ("lint", "0.3", "2 warnings", Resume::Fail),
    ("docs", "1.5", "3 pages", Resume::Rerun),
    ("build", "1.5", "ok", Resume::Rerun),
    ("deploy", "30", "live", Resume::Fail),
];
/// How many have finished when the supervisor is killed.
const FINISHED: usize = 2;

/// What the parts are called among the processes that play them.
pub(crate) const PARTS: [&str; 2] = ["first", "second"];

/// Which part of it a process plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Launches, and is killed.
    First,
    /// Goes on.
    Second,
}

/// The demo, or one part of it where `words` name it.
///
/// # Errors
///
/// [`DemoError`] where something failed, or is not as it is promised.
pub(crate) async fn run(words: &[String]) -> Result<(), DemoError> {
    match words {
        [part, dir] if part == "first" => play(Part::First, Path::new(dir)).await,
        [part, dir] if part == "second" => play(Part::Second, Path::new(dir)).await,
        _ => tokio::task::spawn_blocking(tell).await.map_err(failed("the demo"))?,
    }
}

/// A store of the demo's own, gone with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            // Nothing of the demo depends on it.
            let _ = writeln!(io::stderr(), "{} is left: {error}", text::path(&self.0));
        }
    }
}

/// Plays both parts, and tells what happens.
fn tell() -> Result<(), DemoError> {
    let mut told = Told::default();
    play_both(&mut told)?;
    told.end()
}

/// What the demo tells to whoever started it. It goes on where that cannot be written: what it started has to end.
#[derive(Default)]
struct Told {
    /// The first line that was lost, by its error.
    lost: Option<io::Error>,
}

impl Told {
    fn line(&mut self, text: &str) {
        let mut out = io::stdout();
        if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
            self.lost.get_or_insert(error);
        }
    }

    /// That nobody reads any more is no failure.
    fn end(self) -> Result<(), DemoError> {
        match self.lost {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failed("standard output")(error)),
            _ => Ok(()),
        }
    }
}

fn play_both(told: &mut Told) -> Result<(), DemoError> {
    let started = Instant::now();
    let folder = Folder(std::env::temp_dir().join(format!("fanin-demo-{}", uuid::Uuid::new_v4().simple())));
    let names: Vec<&str> = AGENTS.iter().map(|(name, ..)| *name).collect();
    told.line(&format!("launch    {} agents as one group: {}", names.len(), names.join(", ")));

    let (mut first, mut heard) = begin(Part::First, &folder.0)?;
    let mut log = None;
    let mut finished = Vec::new();
    while finished.len() < FINISHED {
        match heard.next()?.split_once(' ') {
            Some(("log", name)) => log = LogId::parse(name).ok(),
            Some(("finished", name)) => {
                told.line(&format!("finished  {name}"));
                finished.push(name.to_owned());
            }
            _ => {}
        }
    }
    let log = log.ok_or("it named none").map_err(failed("the log"))?;
    let table = Table::default();
    let alive = table.of_log(&log).len();
    first.kill().and_then(|()| first.wait()).map_err(failed("the kill"))?;
    told.line(&format!("kill -9   the supervisor, with {} agents at work", AGENTS.len() - FINISHED));
    if alive == 0 {
        return Err(failed("the agents")("none was at work when the supervisor was killed"));
    }

    told.line("resume    another supervisor opens the store");
    let (mut second, mut heard) = begin(Part::Second, &folder.0)?;
    let mut woken = Vec::new();
    let mut outcomes = BTreeMap::new();
    loop {
        let said = heard.next()?;
        match said.split_once(' ') {
            Some(("again", name)) => {
                told.line(&format!("again     {name} is started once more (resume = rerun)"))
            }
            Some(("wake", group)) => woken.push(group.to_owned()),
            Some(("result", rest)) => {
                let (name, summary) = rest.split_once(' ').unwrap_or((rest, ""));
                outcomes.insert(name.to_owned(), summary.to_owned());
            }
            _ if said == "over" => break,
            _ => {}
        }
    }
    let ended = second.wait().map_err(failed("the second supervisor"))?;
    ensure("the end of the second supervisor", ended.code(), Some(0))?;
    told.line(&format!("woken     {} time, with one result in the order of the launch:", woken.len()));
    for (name, _, _, _) in AGENTS {
        told.line(&format!("            {name:<8}{}", outcomes.get(name).map_or("missing", String::as_str)));
    }
    let left = table.of_log(&log).into_iter().filter(|entry| !entry.is_defunct).count();
    check(&finished, &woken, &outcomes, left)?;
    told.line(&format!(
        "\nlaunched {}, finished {}, woken {}, left running {left}  ({:.1} s)",
        AGENTS.len(),
        outcomes.len(),
        woken.len(),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// What was printed is what is promised.
fn check(
    finished: &[String],
    woken: &[String],
    outcomes: &BTreeMap<String, String>,
    left: usize,
) -> Result<(), DemoError> {
    ensure("finished before the kill", finished.len(), FINISHED)?;
    ensure("wakes", woken.len(), 1)?;
    for (name, _, says, resume) in AGENTS {
        let is_kept = finished.iter().any(|known| known == name) || resume == Resume::Rerun;
        let wanted = if is_kept { format!("completed: {says}") } else { "error{interrupted}".to_owned() };
        ensure("the result of an agent", outcomes.get(name).cloned(), Some(wanted))?;
    }
    ensure("processes that are left running", left, 0)
}

/// Says something to the process that plays the other parts.
fn line(text: &str) {
    // Nobody is left to read it where this fails.
    let _ = writeln!(io::stdout(), "{text}");
}

/// What a part says, line by line.
struct Heard(std::sync::mpsc::Receiver<String>);

impl Heard {
    fn next(&mut self) -> Result<String, DemoError> {
        self.0.recv_timeout(DEMO_WAIT).map_err(failed("a part of the demo said nothing more"))
    }
}

fn begin(part: Part, dir: &Path) -> Result<(Child, Heard), DemoError> {
    let program = std::env::current_exe().map_err(failed("this program"))?;
    let name = if part == Part::First { "first" } else { "second" };
    let child = Command::new(program).arg("demo").arg(name).arg(dir).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(failed("a supervisor"))?;
    let out = child.stdout.take().ok_or("it is closed").map_err(failed("the output of a supervisor"))?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.all(|line| sender.send(line).is_ok())
    });
    Ok((child, Heard(receiver)))
}

/// One supervisor over the demo's store. It says what it sees.
async fn play(part: Part, dir: &Path) -> Result<(), DemoError> {
    let journal = open(dir).await?;
    let runner = SubprocessRunner::with_shim("/proc/self/exe");
    let supervisor = Supervisor::builder().journal(journal).runner(runner).start().await;
    let supervisor = supervisor.map_err(failed("a supervisor"))?;
    let session = supervisor.session("parent").await.map_err(failed("its session"))?;
    match part {
        Part::First => launch(&supervisor, &session).await,
        Part::Second => go_on(&supervisor, &session).await,
    }
}

/// Opens the store; the one that was killed may hold it for a moment.
async fn open(dir: &Path) -> Result<SqliteJournal, DemoError> {
    let started = Instant::now();
    loop {
        match SqliteJournal::open(dir, &Options::default()) {
            Err(JournalError::Owned { .. }) if started.elapsed() < DEMO_WAIT => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            opened => return opened.map_err(failed("the store")),
        }
    }
}

async fn launch(supervisor: &Supervisor, session: &Session) -> Result<(), DemoError> {
    let filter = Filter::all().kinds(["job.ended"]);
    let events = supervisor.subscribe(filter, Since::Now).await;
    let mut events = events.map_err(failed("its events"))?;
    let mut specs = Vec::new();
    for (name, seconds, says, resume) in AGENTS {
        let spec = JobSpec::shell(name, format!("sleep {seconds}; echo '{says}'")).resume(resume);
        specs.push(spec.id(fanin_protocol::JobId::parse(name).map_err(failed("a name"))?));
    }
    session.fan_out(specs).await.map_err(failed("the launch"))?;
    line(&format!("log {}", events.log()));
    // Until it is killed.
    while let Some(delivery) = events.next().await {
        if let Delivery::Event(event) = delivery
            && let Some(job) = event.job()
        {
            line(&format!("finished {job}"));
        }
    }
    Ok(())
}

async fn go_on(supervisor: &Supervisor, session: &Session) -> Result<(), DemoError> {
    for (name, ..) in AGENTS {
        let id = fanin_protocol::JobId::parse(name).map_err(failed("a name"))?;
        let info = supervisor.get(&id).map_err(failed("an agent"))?;
        if !info.status.is_terminal() {
            line(&format!("again {name}"));
        }
    }
    let mut is_first = true;
    while let Some(wake) = next(session, is_first).await? {
        is_first = false;
        let result = wake.ack().await.map_err(failed("the wake"))?;
        line(&format!("wake {}", result.group));
        for entry in &result.entries {
            let text = entry.output.as_ref().map_or("", |output| output.text.trim());
            let summary = match entry.status {
                Status::Completed => format!("completed: {text}"),
                _ => entry.summary(),
            };
            line(&format!("result {} {summary}", entry.job));
        }
    }
    supervisor.shutdown().await;
    line("over");
    Ok(())
}

/// The wake, and then whatever should not come any more: all jobs are over by then, so it would be there.
async fn next(session: &Session, is_first: bool) -> Result<Option<fanin_supervisor::Wake>, DemoError> {
    let wait = if is_first { DEMO_WAIT } else { Duration::from_millis(100) };
    match tokio::time::timeout(wait, session.next_wake()).await {
        Ok(wake) => wake.map(Some).map_err(failed("the wake")),
        Err(_) if is_first => Err(failed("the wake")("it did not come")),
        Err(_) => Ok(None),
    }
}
