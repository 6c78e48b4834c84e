//! `fanin ps`: the jobs of all stores in one list. It shows what a store says, and nothing of a dead owner as running.

use std::io::Write;

use console::{Alignment, pad_str};
use fanin_protocol::{Cause, JobInfo, Status, text};
use fanin_supervisor::JobFilter;
use serde::Serialize;

use crate::exit::Exit;
use crate::look::{State, Where};
use crate::prepare;
use crate::stores::{self, LookError, Place, short};

/// Columns of a label in a list.
const LABEL_COLUMNS: usize = 20;
/// Columns of how a job stands.
const STATE_COLUMNS: usize = 19;

/// The words of `fanin ps`.
#[derive(Debug, clap::Args)]
pub(crate) struct PsArgs {
    /// Jobs that are over as well
    #[arg(short, long)]
    all: bool,

    /// One JSON document (fanin.jobs/1)
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    place: Where,
}

/// The document of a list.
#[derive(Debug, Serialize)]
struct Document<'j> {
    schema: &'static str,
    jobs: &'j [JobInfo],
    next: Option<u64>,
}

/// Writes `fanin.jobs/1`, all jobs on one page.
///
/// # Errors
///
/// The writer's.
pub(crate) fn document(out: &mut dyn Write, jobs: &[JobInfo]) -> Result<(), LookError> {
    let document = Document { schema: "fanin.jobs/1", jobs, next: None };
    serde_json::to_writer(&mut *out, &document).map_err(std::io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

/// Lists the jobs.
///
/// # Errors
///
/// [`LookError`]. A store that cannot be read is told, and makes the exit code 70.
pub(crate) fn run(
    args: &PsArgs,
    state: &State,
    out: &mut dyn Write,
    warn: &dyn Fn(&str),
) -> Result<Exit, LookError> {
    let places = args.place.places(state)?;
    let (mut jobs, mut exit) = (Vec::new(), Exit::Done);
    for place in &places.all {
        match place.read() {
            Ok(stored) => {
                let (lost_in, until_ms) =
                    (stored.is_interrupted().then_some(place), stores::until_ms(&stored));
                let all = stored.list(&JobFilter { limit: usize::MAX, ..JobFilter::default() }).jobs;
                // What ran when its owner died is not over: nothing has closed it yet.
                let is_wanted = |job: &JobInfo| args.all || job.ended_at_ms.is_none();
                jobs.extend(all.into_iter().filter(is_wanted).map(|job| Listed { job, lost_in, until_ms }));
            }
            Err(error) => {
                warn(&format!("{}: {error}", place.name));
                exit = error.exit();
            }
        }
    }
    if args.json {
        let jobs: Vec<JobInfo> = jobs.into_iter().map(|listed| listed.job).collect();
        document(out, &jobs)?;
        return Ok(exit);
    }
    if jobs.is_empty() {
        let more = if args.all { "" } else { "; --all shows what is over" };
        writeln!(out, "no jobs{more}")?;
        return Ok(exit);
    }
    writeln!(out, "{}", row(["JOB", "RUN", "LABEL", "TIME"], "STATUS"))?;
    for listed in &jobs {
        writeln!(out, "{}", line(listed))?;
    }
    let open = jobs.iter().filter(|listed| listed.job.ended_at_ms.is_none());
    let mut lost: Vec<&Place> = open.filter_map(|listed| listed.lost_in).collect();
    let count = lost.len();
    lost.dedup_by_key(|place| &place.dir);
    match lost.as_slice() {
        [] => {}
        [place] => writeln!(out, "{count} of them have lost their supervisor\n{}", place.way_out())?,
        [place, ..] if lost.iter().all(|place| place.is_session()) => {
            writeln!(out, "{count} of them have lost their supervisors\n{}", place.way_out())?;
        }
        _ => writeln!(out, "{count} of them have lost their supervisor; `fanin resume` lists their runs")?,
    }
    Ok(exit)
}

/// Writes a table of jobs that a process has.
///
/// # Errors
///
/// The writer's.
pub(crate) fn table(out: &mut dyn Write, jobs: &[&JobInfo]) -> std::io::Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", row(["JOB", "RUN", "LABEL", "TIME"], "STATUS"))?;
    let until_ms = prepare::now_ms();
    let listed = jobs.iter().map(|job| Listed { job: (*job).clone(), lost_in: None, until_ms });
    listed.into_iter().try_for_each(|listed| writeln!(out, "{}", line(&listed)))
}

/// A job of a list.
struct Listed<'p> {
    job: JobInfo,
    /// The store that its supervisor left open when it died.
    lost_in: Option<&'p Place>,
    /// Until when it lasts where it is not over.
    until_ms: u64,
}

/// How long a job has been at work, or was; `None` where it never began, or waits to be tried again.
pub(crate) fn took_ms(job: &JobInfo, until_ms: u64) -> Option<u64> {
    let is_at_work = job.status == Status::Running || is_lost(job);
    let end_ms = job.ended_at_ms.or(is_at_work.then_some(until_ms))?;
    Some(end_ms.saturating_sub(job.started_at_ms?))
}

fn line(Listed { job, until_ms, .. }: &Listed<'_>) -> String {
    let label = job.label.as_ref().map_or_else(String::new, |label| text::one_line(label));
    let took = took_ms(job, *until_ms).map_or_else(|| "-".to_owned(), text::duration);
    let state = if is_lost(job) { Cause::Interrupted.to_string() } else { state(job) };
    let state = console::truncate_str(&state, STATE_COLUMNS, "…");
    row([&short(&job.job), &short(&job.group), &label, &took], &state)
}

/// Columns that fit 80.
fn row([job, run, label, took]: [&str; 4], status: &str) -> String {
    let label = pad_str(label, LABEL_COLUMNS, Alignment::Left, Some("…"));
    let job = pad_str(job, 12, Alignment::Left, Some("…"));
    let run = pad_str(run, 12, Alignment::Left, Some("…"));
    format!("{job}  {run}  {label}  {took:>7}  {status}").trim_end().to_owned()
}

/// True where it ran when its owner died: nothing has closed it yet.
pub(crate) fn is_lost(job: &JobInfo) -> bool {
    job.ended_at_ms.is_none() && job.status == Status::Error
}

/// A job's status, and what it waits for or why it ended, in a word or two.
pub(crate) fn state(job: &JobInfo) -> String {
    match (&job.phase, job.cause) {
        (Some(phase), _) if is_lost(job) => phase.clone(),
        (Some(phase), _) => format!("{} ({phase})", job.status),
        (None, Some(cause)) => format!("{} ({cause})", job.status),
        (None, None) => job.status.to_string(),
    }
}
