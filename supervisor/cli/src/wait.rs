//! `fanin wait`: until runs and jobs of the service are over, and what came of them. It only looks on: that it leaves, or
//! comes again, changes nothing. The result of a run that was detached counts as taken once it was printed.

use std::io::{self, Write};
use std::time::Duration;

use fanin_client::{Client, ClientError, EventFilter, Since, Subscribe};
use fanin_protocol::{GroupId, JobInfo, Named, Status};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::args;
use crate::detach;
use crate::duration;
use crate::exit::Exit;
use crate::look::State;
use crate::plan::FailOn;
use crate::ps;
use crate::reach::{Reach, ReachError, standing};
use crate::show;
use crate::signals::Signals;
use crate::stderr::Stderr;
use crate::stores::{Found, LookError};

/// How long a service that is gone is looked for: one that is started again at once is back by then.
const AGAIN_FOR: Duration = Duration::from_secs(5);

/// How long a result that is there may take to be handed out.
const TAKE_WAIT: Duration = Duration::from_secs(10);

/// The words of `fanin wait`.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitArgs {
    /// Runs or jobs: their ids, or 4 hex digits or more of each
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Until the first of them is over, and not all
    #[arg(long)]
    any: bool,

    /// How long at the most; they go on when it has passed [default: as long as they run]
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_limit)]
    timeout: Option<Duration>,

    /// What makes exit code 1, as of `fanin run`: `partial` or `none-ok`
    #[arg(long, value_name = "WHEN", value_parser = args::fail_on)]
    fail_on: Option<FailOn>,

    /// One JSON document for each: fanin.result/1 of a run, fanin.jobs/1 of a job, or of all where the time has passed
    #[arg(long)]
    pub(crate) json: bool,
}

/// A wait that may begin.
#[derive(Debug)]
pub(crate) struct Prepared {
    args: WaitArgs,
    reach: Reach,
    all: Vec<Found>,
}

impl Prepared {
    pub(crate) const fn is_json(&self) -> bool {
        self.args.json
    }
}

/// Finds what is waited for. It reads disks.
///
/// # Errors
///
/// [`ReachError`], also where somebody else has it, or nobody.
pub(crate) fn prepare(args: WaitArgs, state: &State) -> Result<Prepared, ReachError> {
    let reach = Reach::of(state)?;
    let all = reach.find(&args.ids)?;
    for found in &all {
        if let Named::Session(_) = found.named {
            return Err(LookError::Other(found.named.to_string(), "run or job").into());
        }
        standing(found, |_| {
            let id = id(&found.named);
            format!("it prints the result itself, and `fanin show {id}` shows how it stands")
        })?;
    }
    Ok(Prepared { args, reach, all })
}

/// The id alone.
pub(crate) fn id(named: &Named) -> String {
    match named {
        Named::Session(id) => id.to_string(),
        Named::Job(id) => id.to_string(),
        Named::Group(id) => id.to_string(),
    }
}

/// Waits, and prints what came of it.
///
/// # Errors
///
/// [`ReachError`]. What is waited for goes on.
pub(crate) async fn run(
    prepared: Prepared,
    mut signals: Signals,
    stderr: &Stderr,
) -> Result<Exit, ReachError> {
    let Prepared { args, reach, all } = prepared;
    let limit = args.timeout;
    let say = |named: &Named| {
        if !args.json {
            stderr.say(&format!("fanin: waiting for {}", id(named)));
        }
    };
    let passed = async {
        match limit {
            Some(limit) => sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let over = tokio::select! {
        over = until_over(&reach, &all, args.any, say) => over?,
        () = passed => return ran_out(&args, &all, stderr),
        signal = signals.next() => {
            if !args.json {
                stderr.say("fanin: no longer waiting; the jobs go on");
            }
            return Ok(Exit::Signal(signal));
        }
    };
    let mut exit = Exit::Done;
    for place in over {
        let Some(found) = all.get(place) else { continue };
        let found = found.again()?;
        let (text, of_this) = printed(&found, &args)?;
        exit = graver(exit, of_this);
        let written = tokio::select! {
            written = tokio::task::spawn_blocking(move || print(&text)) => written,
            signal = signals.next() => return Ok(Exit::Signal(signal)),
        };
        match written.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(()) => take(&reach, &found).await?,
            // Nobody reads it: that is their own choice, and it stays owed.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(exit),
            Err(error) => return Err(ReachError::Write(error)),
        }
    }
    Ok(exit)
}

/// Writes to standard output.
///
/// # Errors
///
/// The system's.
pub(crate) fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

/// Waits until all of them are over, or the first, and returns the places of those.
async fn until_over(
    reach: &Reach,
    all: &[Found],
    is_any: bool,
    say: impl Fn(&Named),
) -> Result<Vec<usize>, ReachError> {
    let (over, open): (Vec<_>, Vec<_>) = (0..).zip(all).partition(|(_, found)| found.is_over());
    if open.is_empty() || is_any && !over.is_empty() {
        let over = over.into_iter().map(|(place, _)| place);
        return Ok(if is_any { over.take(1).collect() } else { over.collect() });
    }
    let client = reach.client()?;
    let mut waits = JoinSet::new();
    let (begun, mut begins) = mpsc::channel(open.len());
    for (place, found) in open {
        let (client, named, begun) = (client.clone(), found.named.clone(), begun.clone());
        waits.spawn(async move { until_one_is_over(&client, &named, begun).await.map(|()| place) });
    }
    drop(begun);
    loop {
        let ended = tokio::select! {
            Some(named) = begins.recv() => {
                say(&named);
                continue;
            }
            Some(ended) = waits.join_next() => ended,
            else => break,
        };
        let ended = ended.unwrap_or_else(|panic| Err(ClientError::Lost(panic.to_string())));
        let place = match ended {
            Ok(place) => place,
            Err(error) if error.is_retryable() => return Err(gone(all, error)),
            Err(error) => return Err(ReachError::Client(error)),
        };
        if is_any {
            return Ok(vec![place]);
        }
    }
    Ok((0..all.len()).collect())
}

/// The service has ended, and no other took its place.
fn gone(all: &[Found], error: ClientError) -> ReachError {
    let again = all.iter().map(Found::again).collect::<Result<Vec<_>, _>>();
    let open = again.map(|again| again.into_iter().find(|found| !found.is_over()));
    match open {
        Err(error) => error.into(),
        // It was the connection alone.
        Ok(None) => ReachError::Client(error),
        Ok(Some(found)) => match standing(&found, |_| String::new()) {
            Err(error) => error,
            Ok(_) => ReachError::Client(error),
        },
    }
}

/// Waits until one is over. A service that is started again is asked again.
/// Once it is sure that nothing is missed, `begun` is told.
async fn until_one_is_over(
    client: &Client,
    named: &Named,
    begun: mpsc::Sender<Named>,
) -> Result<(), ClientError> {
    let kinds: &[&str] = match named {
        Named::Group(_) => &["group.fired", "group.voided"],
        Named::Job(_) | Named::Session(_) => &["job.ended"],
    };
    let kinds = Some(kinds.iter().map(|kind| (*kind).to_owned()).collect());
    let filter = EventFilter { about: Some(named.clone()), kinds };
    let mut events = client.subscribe(Subscribe { filter, since: Since::Now }).again_for(AGAIN_FOR);
    // The first that comes says that nothing is missed from here on: it is looked at then, and whenever something came.
    let mut begun = Some(begun);
    while events.next().await?.is_some() {
        match is_over(client, named).await {
            Ok(true) => return Ok(()),
            Ok(false) => {
                if let Some(begun) = begun.take() {
                    // Nobody minds where it is not said any more.
                    let _ = begun.send(named.clone()).await;
                }
            }
            // It went in between; its records say whether for good.
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(error),
        }
    }
    Err(ClientError::Lost("the service has ended".to_owned()))
}

async fn is_over(client: &Client, named: &Named) -> Result<bool, ClientError> {
    match named {
        Named::Group(group) => {
            let group = client.group(group).await?;
            Ok(group.result.is_some() || group.voided.is_some())
        }
        Named::Job(job) => Ok(client.get(job.clone()).await?.status.is_terminal()),
        Named::Session(_) => Ok(false),
    }
}

/// The time has passed: says how things stand. Nothing was taken.
fn ran_out(args: &WaitArgs, all: &[Found], stderr: &Stderr) -> Result<Exit, ReachError> {
    let mut jobs: Vec<JobInfo> = Vec::new();
    for found in all {
        jobs.extend(show::jobs(&found.again()?));
    }
    let mut text = Vec::new();
    if args.json {
        ps::document(&mut text, &jobs)?;
    } else {
        let open: Vec<_> = jobs.iter().filter(|job| job.ended_at_ms.is_none()).collect();
        ps::table(&mut text, &open).map_err(ReachError::Write)?;
        let limit = duration::show(args.timeout.unwrap_or_default());
        stderr.say(&format!("fanin: not over after {limit}; the jobs go on"));
    }
    match print(&text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(ReachError::Write(error)),
        Ok(()) | Err(_) => Ok(Exit::WaitTimedOut),
    }
}

/// What came of one that is over, as it is printed, and what that makes of the program's end.
fn printed(found: &Found, args: &WaitArgs) -> Result<(Vec<u8>, Exit), ReachError> {
    let mut text = Vec::new();
    let exit = match &found.named {
        Named::Group(id) => printed_group(found, id, args, &mut text)?,
        Named::Job(_) | Named::Session(_) => {
            let jobs = show::jobs(found);
            if args.json {
                ps::document(&mut text, &jobs)?;
            } else {
                for job in &jobs {
                    show::show_job(&found.stored, job, &mut text)?;
                }
            }
            let is_done = jobs.iter().all(|job| job.status == Status::Completed);
            if is_done { Exit::Done } else { Exit::SomeNotCompleted }
        }
    };
    Ok((text, exit))
}

fn printed_group(
    found: &Found,
    id: &GroupId,
    args: &WaitArgs,
    text: &mut Vec<u8>,
) -> Result<Exit, ReachError> {
    let group = found.stored.group(id);
    let Some((group, result)) = group.and_then(|group| Some((group.clone(), group.result?))) else {
        let how = "its session was closed before all of its jobs were over, so it has no result".to_owned();
        return Err(ReachError::Over { what: found.named.to_string(), how });
    };
    let result = show::with_saved(&found.stored, &result);
    let exit = Exit::of(&result, args.fail_on, None);
    if args.json {
        show::document(&result, exit, text)?;
    } else {
        show::write_result(&found.stored, &group, &result, text)?;
    }
    Ok(exit)
}

/// The one of two that says more, in the order of SH-5.
fn graver(one: Exit, other: Exit) -> Exit {
    let order = [Exit::Done, Exit::SomeNotCompleted, Exit::Deadline];
    // What is not named here is graver than all that is.
    let place = |exit| order.iter().position(|known| *known == exit).unwrap_or(order.len());
    if place(other) > place(one) { other } else { one }
}

/// The result of a run that was detached is taken, now that it was printed, and its session is of no use any more. What
/// belongs to others stays theirs.
async fn take(reach: &Reach, found: &Found) -> Result<(), ReachError> {
    let Named::Group(id) = &found.named else { return Ok(()) };
    let Some(group) = found.stored.group(id).filter(|group| !group.is_taken) else { return Ok(()) };
    let Some(session) = group.session.filter(detach::is_ours).filter(|_| found.place.is_shared) else {
        return Ok(());
    };
    let client = match reach.connect().await {
        Ok(client) => client,
        // Nobody has it, and nobody is told of it again but who asks.
        Err(ReachError::NotRunning(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let taken = async {
        client.wait_group(Some(&session), id, TAKE_WAIT).await?.ack().await?;
        match detach::has_key(id) {
            // Whoever launches it again has to find it.
            true => Ok(()),
            false => client.close_session(&session).await,
        }
    };
    match timeout(TAKE_WAIT, taken).await {
        Ok(taken) => taken.map_err(ReachError::Client),
        Err(_) => Err(ReachError::Client(ClientError::Lost("it does not answer".to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::Signal;

    #[test]
    fn of_several_the_gravest_end_counts() {
        assert_eq!(graver(Exit::Done, Exit::SomeNotCompleted), Exit::SomeNotCompleted);
        assert_eq!(graver(Exit::Deadline, Exit::SomeNotCompleted), Exit::Deadline);
        assert_eq!(graver(Exit::Unreaped, Exit::Deadline), Exit::Unreaped);
        assert_eq!(graver(Exit::Done, Exit::Signal(Signal::Terminate)), Exit::Signal(Signal::Terminate));
    }
}
