//! `fanin watch`: looks until what is looked for was seen, and says each time that it is. And what a watch is made of,
//! wherever it is written: here, or in a call of the tool of that name.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use fanin_protocol::limits::{DEPTH_MAX, GRACE, WATCH_EVERY, WATCH_GAP, WATCH_LIFE_MAX};
use fanin_protocol::spec::{SpecError, millis};
use fanin_protocol::{
    CombinedResult, CommandLine, CommandSpec, Hit, JobId, JobLimits, SessionId, Spec, WatchSpec, Watched,
    When, text,
};
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::{JobSpec, Runner as _, Session, Supervisor};
use serde::Serialize;

use crate::drive::{self, DriveError};
use crate::duration;
use crate::exit::Exit;
use crate::nested;
use crate::plan::{self, Refused};
use crate::signals::{Signal, Signals};
use crate::stderr::Stderr;

/// The words of `fanin watch`.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// A line for the shell: each time it is run is one check
    #[arg(value_name = "SHELL LINE", required_unless_present = "command", conflicts_with = "command")]
    line: Option<String>,

    /// Fire where a line of its output matches this regular expression. Without --every the command is run once and its
    /// lines are looked at as they come, as those of `tail -F`
    #[arg(short, long = "match", value_name = "PATTERN")]
    pattern: Option<String>,

    /// Fire where its output is another one than at the check before
    #[arg(long, conflicts_with = "pattern")]
    changes: bool,

    /// Time between two checks, 1s or more [default: 30s]
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_limit)]
    every: Option<Duration>,

    /// How long one check may take; three in a row that cannot be made end the watch [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = duration::parse_limit)]
    check_timeout: Option<Duration>,

    /// How often it fires before it is done, 1 to 10
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    times: u32,

    /// How long it looks, 24h at the most [default: 24h]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_limit)]
    life: Option<Duration>,

    /// Time between two firings; what comes meanwhile is told with the next one [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse_limit)]
    gap: Option<Duration>,

    /// Folder that the command is run in
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Each firing as one line of JSON (fanin.hit/1)
    #[arg(long)]
    pub(crate) json: bool,

    /// A program and its arguments, instead of a line for the shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What somebody wants to be told of.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) label: Option<String>,
    /// What is run to look.
    pub(crate) line: Option<CommandLine>,
    /// The job whose lines are looked at instead.
    pub(crate) job: Option<JobId>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) pattern: Option<String>,
    pub(crate) changes: bool,
    pub(crate) every: Option<Duration>,
    pub(crate) check_timeout: Option<Duration>,
    pub(crate) gap: Option<Duration>,
    pub(crate) times: Option<u32>,
    pub(crate) life: Option<Duration>,
}

impl Wanted {
    /// The watch that this is: of a job the lines it puts out; of a command with a pattern and without an interval its lines
    /// as they come; else one check after the other.
    ///
    /// # Errors
    ///
    /// The key that is wrong, and what would be right.
    pub(crate) fn watch(self) -> Result<(WatchSpec, JobSpec), SpecError> {
        let wrong = |field, problem: &str| SpecError { field, problem: problem.to_owned() };
        let of_checks = [("every", self.every), ("check_timeout", self.check_timeout)];
        let stray = of_checks.into_iter().find(|(_, time)| time.is_some()).map(|(field, _)| field);
        let when = match (self.pattern, self.changes) {
            (Some(_), true) => {
                return Err(wrong("changes", "`pattern` is there as well; keep one of the two"));
            }
            (Some(pattern), false) => Some(When::Matches(pattern)),
            (None, true) => Some(When::Changes),
            (None, false) => None,
        };
        let as_lines = matches!(when, Some(When::Matches(_))) && self.every.is_none();
        let (of, name) = match (self.line, self.job) {
            (Some(_), Some(_)) => {
                return Err(wrong("job", "a command is there as well; keep one of the two"));
            }
            (None, None) => return Err(wrong("", "there is nothing to look at; name a command, or a job")),
            (None, Some(_)) if stray.is_some() => {
                let problem = "a job's lines are looked at as they come; leave it out, or set `gap`";
                return Err(wrong(stray.unwrap_or_default(), problem));
            }
            (None, Some(job)) => {
                let name = job.to_string();
                (Watched::Output { job }, name)
            }
            (Some(line), None) => {
                let name = match &line {
                    CommandLine::Shell(line) => line.clone(),
                    CommandLine::Argv(argv) => argv.join(" "),
                };
                let command = CommandSpec { line, cwd: self.cwd, env: self.env, output_bytes_max: None };
                let of = match (as_lines, self.check_timeout) {
                    (true, Some(_)) => {
                        let problem = "lines are looked at as they come; set `every` for checks that end";
                        return Err(wrong("check_timeout", problem));
                    }
                    (true, None) => Watched::Lines { command },
                    (false, check) => Watched::Checks {
                        command,
                        every_ms: self.every.map(millis),
                        check_ms: check.map(millis),
                    },
                };
                (of, name)
            }
        };
        let watch = WatchSpec { of, when: when.unwrap_or(When::Succeeds), gap_ms: self.gap.map(millis) };
        let label = self.label.unwrap_or_else(|| plan::label(&name, 0));
        let (times, life) = (self.times.unwrap_or(1), self.life.unwrap_or(WATCH_LIFE_MAX));
        let job = JobSpec::watch(label, watch.clone()).fires(times, life);
        let limits = JobLimits { firings: Some(times), total_ms: Some(millis(life)), ..JobLimits::NONE };
        let spec = Spec::Watch(watch.clone());
        spec.check().and_then(|()| limits.check())?;
        SubprocessRunner::new().check(&spec).map_err(|problem| {
            let problem = problem.trim_start_matches("pattern: ").to_owned();
            SpecError { field: "pattern", problem }
        })?;
        Ok((watch, job))
    }
}

/// A watch that may begin.
pub(crate) struct Prepared {
    job: JobSpec,
    said: String,
    pub(crate) is_json: bool,
}

/// Makes a watch of the words. Nothing is started.
///
/// # Errors
///
/// [`Refused`] with what is wrong.
pub(crate) fn prepare(args: WatchArgs) -> Result<Prepared, Refused> {
    nested::parent_of_tasks(DEPTH_MAX)?;
    let line = match args.line {
        Some(line) => CommandLine::Shell(line),
        None => CommandLine::Argv(args.command),
    };
    let wanted = Wanted {
        line: Some(line),
        cwd: args.cwd,
        pattern: args.pattern,
        changes: args.changes,
        every: args.every,
        check_timeout: args.check_timeout,
        gap: args.gap,
        times: Some(args.times),
        life: args.life,
        ..Wanted::default()
    };
    let (watch, job) = wanted.watch().map_err(|error| {
        let flag = match error.field {
            "pattern" => "--match".to_owned(),
            "total_timeout" => "--for".to_owned(),
            "shell" | "command" | "" => "watch".to_owned(),
            field => format!("--{}", field.replace('_', "-")),
        };
        Refused::one(format!("{flag}: {}", error.problem))
    })?;
    Ok(Prepared { job, said: said(&watch, args.times), is_json: args.json })
}

/// What it looks at and how often, in words.
fn said(watch: &WatchSpec, times: u32) -> String {
    let how = match &watch.of {
        Watched::Checks { every_ms, .. } => {
            format!("every {}", text::duration(every_ms.unwrap_or(millis(WATCH_EVERY))))
        }
        Watched::Lines { .. } | Watched::Output { .. } => {
            format!(
                "as lines come, telling at most every {}",
                text::duration(watch.gap_ms.unwrap_or(millis(WATCH_GAP)))
            )
        }
    };
    let until = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    format!("looking {how}, until it fired {until}")
}

/// Watches to the end, and writes each firing as it comes.
///
/// # Errors
///
/// [`DriveError`], where fanin could not do its part; a watch that saw nothing is none.
///
/// # Cancel safety
///
/// Not cancel safe: dropping it stops the watch.
pub(crate) async fn run(
    prepared: Prepared,
    mut signals: Signals,
    stderr: &Stderr,
) -> Result<Exit, DriveError> {
    let Prepared { job, said, is_json } = prepared;
    let supervisor = drive::runners(None, None).start().await?;
    let session = supervisor.session(SessionId::from_uuid(uuid::Uuid::new_v4().into_bytes())).await?;
    session.fan_out([job]).await?;
    if !is_json {
        stderr.say(&format!("fanin: {said}"));
    }
    let (result, signal) = until_over(&supervisor, &session, &mut signals, is_json).await?;
    supervisor.shutdown().await;
    if let Some(entry) = result.entries.first().filter(|entry| entry.cause.is_some())
        && !is_json
    {
        let why =
            entry.message.as_deref().map_or_else(String::new, |why| format!(": {}", text::one_line(why)));
        stderr.say(&format!("fanin: the watch ended as {}{why}", entry.summary()));
    }
    Ok(Exit::of(&result, None, signal))
}

/// Its result, and the last signal that came.
async fn until_over(
    supervisor: &Supervisor,
    session: &Session,
    signals: &mut Signals,
    is_json: bool,
) -> Result<(CombinedResult, Option<Signal>), DriveError> {
    let mut signal = None;
    loop {
        tokio::select! {
            biased;
            hit = session.next_hit() => {
                let hit = hit?;
                print(&hit, is_json).await?;
                hit.take();
            }
            wake = session.next_wake() => {
                let wake = wake?;
                // What it saw comes before its end.
                if session.owing()?.hits == 0 {
                    return Ok(((*wake.ack().await?).clone(), signal));
                }
            }
            came = signals.next() => {
                supervisor.stop_all(if signal.is_some() { Duration::ZERO } else { GRACE });
                signal = Some(came);
            }
        }
    }
}

/// A firing, as a document.
#[derive(Serialize)]
struct Document<'h> {
    schema: &'static str,
    job: &'h JobId,
    label: Option<&'h str>,
    number: u32,
    text: &'h str,
}

/// Writes a firing, beside the runtime: a full pipe may block for ever.
async fn print(hit: &Hit, is_json: bool) -> Result<(), DriveError> {
    let mut out = if is_json {
        let document = Document {
            schema: "fanin.hit/1",
            job: &hit.job,
            label: hit.label.as_deref(),
            number: hit.number,
            text: hit.seen(),
        };
        serde_json::to_vec(&document).map_err(|error| DriveError::Write(error.into()))?
    } else {
        text::printable(hit.seen()).into_owned().into_bytes()
    };
    out.push(b'\n');
    let write = tokio::task::spawn_blocking(move || {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&out).and_then(|()| stdout.flush())
    });
    match write.await {
        Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(DriveError::Write(error)),
        Ok(_) => Ok(()),
        Err(panic) => Err(DriveError::Write(io::Error::other(panic))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Option<CommandLine> {
        Some(CommandLine::Shell("tail -F log".into()))
    }

    fn watch(wanted: Wanted) -> Result<WatchSpec, String> {
        wanted.watch().map(|(watch, _)| watch).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_looked_at_follows_from_what_is_said() {
        let pattern = || Some("ERROR".to_owned());
        let checks = watch(Wanted { line: line(), ..Wanted::default() }).unwrap();
        assert!(matches!((&checks.of, &checks.when), (Watched::Checks { .. }, When::Succeeds)));
        let lines = watch(Wanted { line: line(), pattern: pattern(), ..Wanted::default() }).unwrap();
        assert!(matches!((&lines.of, &lines.when), (Watched::Lines { .. }, When::Matches(_))));
        let every = Some(Duration::from_secs(5));
        let checks = watch(Wanted { line: line(), pattern: pattern(), every, ..Wanted::default() }).unwrap();
        assert!(matches!(&checks.of, Watched::Checks { every_ms: Some(5_000), .. }));
        let job = Some(JobId::parse("a").unwrap());
        let output = watch(Wanted { job, pattern: pattern(), ..Wanted::default() }).unwrap();
        assert!(matches!(&output.of, Watched::Output { .. }));
    }

    #[test]
    fn what_contradicts_is_refused_by_its_key() {
        let every = Some(Duration::from_secs(5));
        let job = || Some(JobId::parse("a").unwrap());
        let pattern = || Some("x".to_owned());
        for (wanted, key) in [
            (Wanted::default(), ""),
            (Wanted { line: line(), job: job(), ..Wanted::default() }, "job"),
            (Wanted { job: job(), ..Wanted::default() }, "pattern"),
            (Wanted { job: job(), pattern: pattern(), every, ..Wanted::default() }, "every"),
            (Wanted { line: line(), pattern: pattern(), changes: true, ..Wanted::default() }, "changes"),
            (
                Wanted { line: line(), pattern: pattern(), check_timeout: every, ..Wanted::default() },
                "check_timeout",
            ),
            (Wanted { line: line(), times: Some(11), ..Wanted::default() }, "times"),
            (
                Wanted { line: line(), life: Some(Duration::from_hours(25)), ..Wanted::default() },
                "total_timeout",
            ),
        ] {
            let error = watch(wanted).unwrap_err();
            assert!(error.starts_with(&format!("{key}: ")), "{key}: {error}");
        }
    }
}
