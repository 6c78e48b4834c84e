//! `fanin show` and `fanin why`: a run over time, and what a thing waits for. It reads a store and decides nothing.

use std::io::{self, Write};

use fanin_protocol::{CombinedResult, JobInfo, JobLimits, Reason, Record, ResultEntry, text};
use fanin_supervisor::stored::{GroupInfo, Stored, StoredRecord};
use fanin_supervisor::{JobFilter, Named};

use crate::budget;
use crate::exit::Exit;
use crate::json::{self, Beside};
use crate::look::{State, Where};
use crate::ps;
use crate::report::{Kept, Report};
use crate::stores::{self, Found, LookError};
use crate::style::Style;
use crate::tasks::{self, Member, Origin};
use crate::timeline::{Span, Timeline};
use crate::words::Words;

/// The words of `fanin show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// A run or a job: its id, or 4 hex digits or more of it [default: the newest run]
    #[arg(value_name = "JOB|GROUP|RUN")]
    id: Option<String>,

    /// One JSON document: fanin.result/1 of a run that is over, else fanin.jobs/1
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    place: Where,
}

/// The words of `fanin why`.
#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    /// A job or a run: its id, or 4 hex digits or more of it
    #[arg(value_name = "ID")]
    id: String,

    /// One JSON document (fanin.jobs/1)
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    place: Where,
}

/// Shows a run or a job.
///
/// # Errors
///
/// [`LookError`].
pub(crate) fn run(args: &ShowArgs, state: &State, out: &mut dyn Write) -> Result<Exit, LookError> {
    let found = args.place.places(state)?.find_or_newest(args.id.as_deref())?;
    let jobs = jobs(&found);
    match (&found.named, args.json) {
        (Named::Group(_), true) => match found.stored.group(found.group()?).and_then(|group| group.result) {
            Some(result) => {
                let result = with_saved(&found.stored, &result);
                document(&result, Exit::of(&result, None, None), out)?;
            }
            None => ps::document(out, &jobs)?,
        },
        (Named::Job(_) | Named::Session(_), true) => ps::document(out, &jobs)?,
        (Named::Group(id), false) => {
            if let Some(group) = found.stored.group(id) {
                show_group(&found, &group, &jobs, out)?;
            }
        }
        (Named::Job(_), false) => {
            for job in &jobs {
                show_job(&found.stored, job, out)?;
            }
        }
        (Named::Session(id), false) => {
            writeln!(out, "session {id}: {} jobs", jobs.len())?;
            timeline(&found.stored, &jobs, None).write(out)?;
            if let Some(account) = found.stored.account(&found.named) {
                for line in budget::stands(account.budget, &account.spent) {
                    writeln!(out, "budget {line}")?;
                }
                if !account.spent.is_none() {
                    writeln!(out, "used so far: {}", account.spent)?;
                }
            }
        }
    }
    Ok(Exit::Done)
}

/// Says what a job or a run waits for.
///
/// # Errors
///
/// [`LookError`].
pub(crate) fn why(args: &WhyArgs, state: &State, out: &mut dyn Write) -> Result<Exit, LookError> {
    let found = args.place.places(state)?.find(&args.id)?;
    let jobs = jobs(&found);
    if args.json {
        ps::document(out, &jobs)?;
        return Ok(Exit::Done);
    }
    match &found.named {
        Named::Group(id) => {
            let reasons = found.stored.why_group(id);
            match reasons.is_empty() {
                true => writeln!(out, "{id} waits for nothing: {}", standing(&found, id))?,
                false => reasons.iter().try_for_each(|reason| writeln!(out, "{id}: {}", in_words(reason)))?,
            }
        }
        Named::Job(_) | Named::Session(_) => {
            for job in &jobs {
                write_why(job, out)?;
            }
        }
    }
    Ok(Exit::Done)
}

fn standing(found: &Found, id: &fanin_protocol::GroupId) -> &'static str {
    match found.stored.group(id) {
        Some(GroupInfo { voided: Some(_), .. }) => "it is void",
        Some(GroupInfo { is_taken: true, .. }) => "its result was taken",
        Some(_) | None => "nothing is owed",
    }
}

/// A reason in words; some name what a job or an agent has named.
fn in_words(reason: &Reason) -> String {
    text::one_line(&reason.to_string())
}

fn write_why(job: &JobInfo, out: &mut dyn Write) -> io::Result<()> {
    if job.why.is_empty() {
        return writeln!(out, "{} waits for nothing: {}", job.job, ps::state(job));
    }
    job.why.iter().try_for_each(|reason| writeln!(out, "{}: {}", job.job, in_words(reason)))
}

/// The jobs that are meant, in launch order.
pub(crate) fn jobs(found: &Found) -> Vec<JobInfo> {
    let mut filter = JobFilter { limit: usize::MAX, ..JobFilter::default() };
    match &found.named {
        Named::Job(job) => return found.stored.get(job).into_iter().collect(),
        Named::Group(group) => filter.group = Some(group.clone()),
        Named::Session(session) => filter.session = Some(session.clone()),
    }
    found.stored.list(&filter).jobs
}

fn timeline(stored: &Stored, jobs: &[JobInfo], marks: Option<Marks>) -> Timeline {
    let until_ms = stores::until_ms(stored);
    Timeline::new(jobs.iter().map(|job| Span::of(job, until_ms)).collect(), marks)
}

/// Shows a job: how it stands, its time line, and how to see its output.
///
/// # Errors
///
/// [`LookError`].
pub(crate) fn show_job(stored: &Stored, job: &JobInfo, out: &mut dyn Write) -> Result<(), LookError> {
    writeln!(out, "{}  {}", job.job, ps::state(job))?;
    let label = job.label.as_ref().map(|label| text::one_line(label));
    let message = job.message.as_ref().map(|message| text::one_line(message));
    let told = [("label", label), ("said", message), ("run", Some(job.group.to_string()))];
    for (name, value) in told.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        writeln!(out, "  {name:<6} {value}")?;
    }
    writeln!(out, "  {:<6} {}", "tries", job.runs)?;
    if let Some(usage) = &job.usage {
        writeln!(out, "  {:<6} {usage}", "used")?;
    }
    for reason in &job.why {
        writeln!(out, "  {:<6} {}", "why", in_words(reason))?;
    }
    timeline(stored, std::slice::from_ref(job), None).write(out)?;
    let bytes = stored.output(&job.job)?.map_or(0, |output| output.bytes_total());
    if bytes > 0 {
        writeln!(out, "{bytes} bytes of output: fanin output {}", job.job)?;
    }
    Ok(())
}

fn show_group(
    found: &Found,
    group: &GroupInfo,
    jobs: &[JobInfo],
    out: &mut dyn Write,
) -> Result<(), LookError> {
    let marks = marks(&found.stored, group)?;
    writeln!(out, "run {}", group.group)?;
    timeline(&found.stored, jobs, Some(marks)).write(out)?;
    for line in budget::stands(group.policy.budget, &group.spent) {
        writeln!(out, "budget {line}")?;
    }
    if group.result.is_none() && !group.spent.is_none() {
        writeln!(out, "used so far: {}", group.spent)?;
    }
    let Some(result) = &group.result else {
        for reason in found.stored.why_group(&group.group) {
            match reason {
                Reason::Unowned => {
                    writeln!(out, "its supervisor died; {}", found.place.way_out())?;
                }
                reason => writeln!(out, "no result yet: {}", in_words(&reason))?,
            }
        }
        return Ok(());
    };
    if !group.is_taken && found.stored.is_interrupted() && !found.place.is_session() {
        writeln!(out, "its result was not taken; this prints it: fanin resume {}", group.group)?;
    }
    writeln!(out)?;
    write_result(&found.stored, group, &with_saved(&found.stored, result), out)
}

/// A result with what interrupted jobs had put out.
pub(crate) fn with_saved(stored: &Stored, result: &CombinedResult) -> CombinedResult {
    // Where it cannot be read, the result says as much as its records.
    tasks::with_saved(result.clone(), |job| stored.output(job).ok().flatten())
}

/// When the barrier fired and when the wake was taken, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    pub(crate) barrier_ms: Option<u64>,
    pub(crate) wake_ms: Option<u64>,
}

fn marks(stored: &Stored, group: &GroupInfo) -> Result<Marks, LookError> {
    let (mut records, mut marks) = (stored.records(), Marks::default());
    if group.result.is_none() {
        return Ok(marks);
    }
    loop {
        let page = records.page()?;
        if page.is_empty() {
            return Ok(marks);
        }
        for record in page {
            let StoredRecord::Known(entry) = record else { continue };
            if matches!(&entry.record, Record::GroupFired(fired) if fired.group == group.group) {
                marks.barrier_ms = Some(entry.ts_ms);
            }
            if matches!(&entry.record, Record::MessageTaken(taken) if taken.keys.contains(&group.group)) {
                marks.wake_ms = Some(entry.ts_ms);
            }
        }
    }
}

/// Writes the combined result as the run itself did.
///
/// # Errors
///
/// [`LookError`].
pub(crate) fn write_result(
    stored: &Stored,
    group: &GroupInfo,
    result: &CombinedResult,
    mut out: &mut dyn Write,
) -> Result<(), LookError> {
    let members = members(result);
    let words = Words::new(vec![JobLimits::default(); members.len()]);
    let style = Style::of(&io::stdout());
    let report =
        Report { description: None, result, policy: group.policy, words: &words, style, members: &members };
    let kept = |entry: &ResultEntry| {
        let output = stored.output(&entry.job).ok()??;
        Some(Kept { text: output.text().into_owned(), is_whole: !output.is_truncated() })
    };
    Ok(report.write(&mut out, result.entries.iter().map(std::borrow::Cow::Borrowed), kept)?)
}

/// Writes `fanin.result/1` of a run that ends the program so.
///
/// # Errors
///
/// The writer's.
pub(crate) fn document(
    result: &CombinedResult,
    exit: Exit,
    mut out: &mut dyn Write,
) -> Result<(), LookError> {
    let members = members(result);
    let beside = Beside { members: &members, parent: None, again_of: None, exit };
    Ok(json::write(&mut out, result, beside)?)
}

/// The tasks that a result lists, as far as it knows them.
fn members(result: &CombinedResult) -> Vec<Member> {
    let member = |entry: &ResultEntry| Member { id: None, origin: Origin::Ran(entry.job.clone()) };
    result.entries.iter().map(member).collect()
}
