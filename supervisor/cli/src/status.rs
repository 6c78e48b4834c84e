//! `fanin status --line`: what is at work and what is owed, in one line for a prompt. It reads the stores that can have
//! anything of that, and changes none.

use std::io::Write;

use fanin_client::ServiceState;
use fanin_protocol::{Status, text};
use fanin_supervisor::JobFilter;
use fanin_supervisor::stored::GroupInfo;
use serde::Serialize;
use tokio::runtime::Handle;

use crate::config::Config;
use crate::exit::Exit;
use crate::look::State;
use crate::prepare;
use crate::reach::{Reach, ReachError};
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
    service: Option<Served>,
}

/// The service of the state folder.
#[derive(Debug, Serialize)]
struct Served {
    pid: u32,
    since_ms: u64,
    store: String,
    state: ServiceState,
    clients: u32,
    running: u32,
    queued: u32,
}

impl Served {
    /// In words, at this time. The client that asks is none that counts.
    fn line(&self, now_ms: u64) -> String {
        let Self { pid, since_ms, store, state, clients, running, queued } = self;
        let since = text::duration(now_ms.saturating_sub(*since_ms));
        let state = match state {
            ServiceState::Serving => "serves",
            ServiceState::Draining => "ends, and takes nothing new:",
            ServiceState::Unknown => "is at work in",
        };
        let clients = if *clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        format!("process {pid} {state} {store} for {since}: {clients}, {running} running, {queued} queued")
    }
}

/// The service, where one answers.
fn served(state: &State) -> Result<Option<Served>, LookError> {
    let reach = match Reach::of(state) {
        Ok(reach) => reach,
        Err(ReachError::Look(error)) => return Err(error),
        Err(_) => return Ok(None),
    };
    let asked = async {
        let client = reach.connect().await.ok()?;
        client.status().await.ok()
    };
    let Some(status) = Handle::current().block_on(asked) else { return Ok(None) };
    Ok(Some(Served {
        pid: status.pid,
        since_ms: status.since_ms,
        store: text::path(&reach.store()),
        state: status.state,
        clients: status.clients.saturating_sub(1),
        running: status.running,
        queued: status.queued,
    }))
}

/// Counts, and writes it.
///
/// # Errors
///
/// [`LookError`], where the state folder or a store that somebody is at work in cannot be read.
pub(crate) fn run(args: &StatusArgs, config: &Config, out: &mut dyn Write) -> Result<Exit, LookError> {
    let state = config.settings.state();
    let count = count(&Places::of(None, state.clone())?)?;
    let service = if args.line { None } else { served(&state)? };
    if args.json {
        let document = Document { schema: "fanin.status/1", count: &count, service };
        serde_json::to_writer(&mut *out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(Exit::Done);
    }
    if !count.line().is_empty() {
        writeln!(out, "{}", count.line())?;
    } else if !args.line {
        writeln!(out, "nothing is at work")?;
    }
    if let Some(service) = service {
        writeln!(out, "{}", service.line(prepare::now_ms()))?;
    }
    Ok(Exit::Done)
}

fn count(places: &Places) -> Result<Count, LookError> {
    let mut count = Count::default();
    for place in &places.all {
        // Of what nobody has and nobody goes on with nothing is told, and it is not read: most stores are so.
        if !place.is_owned()? {
            if place.is_shared {
                count.interrupted += usize::from(place.read()?.is_interrupted());
                continue;
            }
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
