//! `fanin status --line`: what is at work and what is owed, in one line for a prompt. It reads the stores that can have
//! anything of that, and changes none.

use std::io::Write;

use fanin_protocol::Status;
use fanin_supervisor::JobFilter;
use fanin_supervisor::stored::GroupInfo;
use serde::Serialize;

use crate::config::Config;
use crate::exit::Exit;
use crate::resume;
use crate::stores::{LookError, Places};

/// The words of `fanin status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Nothing at all where there is nothing to tell: for a prompt
    #[arg(long)]
    line: bool,

    /// One JSON document (fanin.status/1)
    #[arg(long, conflicts_with = "line")]
    pub(crate) json: bool,
}

/// What there is.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Count {
    /// Jobs at work.
    running: usize,
    /// Jobs that wait.
    queued: usize,
    /// Results that are there and that nobody has taken.
    owed: usize,
    /// Runs whose fanin died, and that can be gone on with.
    interrupted: usize,
}

impl Count {
    fn line(&self) -> String {
        let words = [
            (self.running, "running"),
            (self.queued, "queued"),
            (self.owed, "owed"),
            (self.interrupted, "interrupted"),
        ];
        let words = words.into_iter().filter(|(count, _)| *count > 0);
        words.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }
}

#[derive(Debug, Serialize)]
struct Document<'c> {
    schema: &'static str,
    #[serde(flatten)]
    count: &'c Count,
}

/// Counts, and writes it.
///
/// # Errors
///
/// [`LookError`], where the state folder or a store that somebody is at work in cannot be read.
pub(crate) fn run(args: &StatusArgs, config: &Config, out: &mut dyn Write) -> Result<Exit, LookError> {
    let count = count(&Places::of(None, config.settings.state())?)?;
    if args.json {
        let document = Document { schema: "fanin.status/1", count: &count };
        serde_json::to_writer(&mut *out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else if !count.line().is_empty() {
        writeln!(out, "{}", count.line())?;
    } else if !args.line {
        writeln!(out, "nothing is at work")?;
    }
    Ok(Exit::Done)
}

fn count(places: &Places) -> Result<Count, LookError> {
    let mut count = Count::default();
    for place in &places.all {
        // Of what nobody has and nobody goes on with nothing is told, and it is not read: most stores are so.
        if !place.is_owned()? {
            count.interrupted += usize::from(resume::owes(&place.dir)?);
            continue;
        }
        let stored = place.read()?;
        let jobs = stored.list(&JobFilter { limit: usize::MAX, ..JobFilter::default() }).jobs;
        for job in jobs.iter().filter(|job| job.ended_at_ms.is_none()) {
            match job.status {
                Status::Running => count.running += 1,
                Status::Queued => count.queued += 1,
                Status::Completed | Status::Error | Status::Cancelled => {}
            }
        }
        let is_owed = |group: &GroupInfo| group.result.is_some() && group.voided.is_none() && !group.is_taken;
        count.owed += stored.groups().filter(is_owed).count();
    }
    Ok(count)
}
