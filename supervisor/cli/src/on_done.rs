//! The command of `--on-done`: run once when all tasks are over, with the result on its standard input. It is a job like a
//! task, with a limit of its own; what becomes of it changes neither the result nor the exit code.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fanin_protocol::limits::{
    KILL_SLACK, KILL_WAIT, ON_DONE_GRACE, ON_DONE_OUTPUT_BYTES_MAX, ON_DONE_TIME, ON_DONE_TIME_STOPPED,
    SHOWN_LINE_BYTES_MAX,
};
use fanin_protocol::spec::{SpecError, millis};
use fanin_protocol::{CommandSpec, JobLimits, Spec, Status, text};
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::{JobSpec, Session, Supervisor};
use tokio::time::timeout;

use crate::over::Over;
use crate::shown::Shown;
use crate::words::Words;

/// The variable that takes the result to the shell, which opens it and forgets it.
const FILE_VARIABLE: &str = "FANIN_RESULT_FILE";

/// What stands before the command: the result is its standard input.
const OPENING: &str = "exec <\"$FANIN_RESULT_FILE\" || exit\nunset FANIN_RESULT_FILE\n";

/// Lines at the end of its output that are told where it failed.
const LINES: usize = 5;

/// Why it did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OnDoneError {
    /// Its result could not be written for it.
    #[error("its input could not be written: {0}")]
    Input(#[source] io::Error),
    /// The library's word.
    #[error("{0}")]
    NotStarted(String),
    /// It ended otherwise than well.
    #[error("{0}")]
    Failed(String),
    /// This run is nested, and was told to stop.
    #[error("not run: the job that this run is in was told to stop")]
    NoTime,
    /// A signal ended the program while it ran.
    #[error("a signal came before it was over")]
    Interrupted,
}

/// Whether this is a command that could be run.
///
/// # Errors
///
/// [`SpecError`] says why not.
pub(crate) fn check(line: &str) -> Result<(), SpecError> {
    Spec::Command(CommandSpec::shell(line)).check()
}

/// Runs the command. A signal ends it at once.
///
/// # Errors
///
/// [`OnDoneError`].
pub(crate) async fn run(
    line: &str,
    document: Vec<u8>,
    over: &Over<'_>,
    shown: &mut Shown<'_>,
) -> Result<(), OnDoneError> {
    let is_stopped = shown.signal().is_some();
    if is_stopped && over.parent.is_some() {
        // The job that this run is in has been told to stop, and waits for it.
        return Err(OnDoneError::NoTime);
    }
    let file = env::temp_dir().join(format!("fanin-{}.json", uuid::Uuid::new_v4().simple()));
    let input = Input { file };
    let theirs = input.file.clone();
    let written = shown.aside(move || put(&theirs, &document)).await;
    written.map_err(|_| OnDoneError::Interrupted)?.map_err(OnDoneError::Input)?;
    let time = if is_stopped { ON_DONE_TIME_STOPPED } else { ON_DONE_TIME };
    let command = CommandSpec {
        env: variables(over, &input.file),
        output_bytes_max: Some(ON_DONE_OUTPUT_BYTES_MAX),
        ..CommandSpec::shell(format!("{OPENING}{line}"))
    };
    let not_started = |error: &dyn std::fmt::Display| OnDoneError::NotStarted(error.to_string());
    // The one of the tasks may be told to stop, and starts nothing then.
    let builder = Supervisor::builder().runner(SubprocessRunner::new()).grace(ON_DONE_GRACE);
    let supervisor = builder.start().await.map_err(|error| not_started(&error))?;
    let session = supervisor.session("on_done").await.map_err(|error| not_started(&error))?;
    let spec = JobSpec::new("on-done", command).timeout(time);
    session.start(spec).await.map_err(|error| not_started(&error))?;
    let ended = tokio::select! {
        ended = ended(&session, time) => ended,
        _ = shown.next_signal() => Err(OnDoneError::Interrupted),
    };
    supervisor.stop_all(Duration::ZERO);
    // It was killed, or is over; what a kernel cannot end must not keep the program.
    let _ = timeout(KILL_WAIT + KILL_SLACK, supervisor.shutdown()).await;
    ended
}

/// Waits for its end.
async fn ended(session: &Session, time: Duration) -> Result<(), OnDoneError> {
    let lost = || OnDoneError::Failed("its end was not reported".to_owned());
    let wake = session.next_wake().await.map_err(|_| lost())?;
    let entry = wake.result().entries.first().ok_or_else(lost)?;
    if entry.status == Status::Completed {
        return Ok(());
    }
    let limits = JobLimits { run_ms: Some(millis(time)), ..JobLimits::default() };
    let mut said = Words::new(vec![limits]).brief(&entry.into());
    let output = entry.output.as_ref().map(|output| text::printable(&output.text));
    let lines: Vec<_> = output.iter().flat_map(|output| output.trim_end().lines()).collect();
    for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
        said.push_str(&format!("\n    {}", text::cut(line, SHOWN_LINE_BYTES_MAX)));
    }
    Err(OnDoneError::Failed(said))
}

/// What came of the run, as variables.
fn variables(over: &Over<'_>, file: &Path) -> BTreeMap<String, String> {
    let (result, exit) = (over.tasks.result, over.exit);
    let counts = result.counts;
    let pairs = [
        ("FANIN_OUTCOME", result.outcome.to_string()),
        ("FANIN_GROUP", result.group.to_string()),
        ("FANIN_EXIT_CODE", exit.code().to_string()),
        ("FANIN_LAUNCHED", counts.launched.to_string()),
        ("FANIN_COMPLETED", counts.completed.to_string()),
        ("FANIN_FAILED", counts.error.to_string()),
        ("FANIN_CANCELLED", counts.cancelled.to_string()),
        (FILE_VARIABLE, file.to_string_lossy().into_owned()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The file of the result. It goes with this.
struct Input {
    file: PathBuf,
}

impl Drop for Input {
    fn drop(&mut self) {
        // Not there yet, or gone already: nothing is left either way.
        let _ = fs::remove_file(&self.file);
    }
}

fn put(file: &Path, document: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(document)
}
