//! `fanin cancel`, `extend` and `promote`: what a person asks of the service about a run or a job. Each says what became of
//! it, one line each, and waits for no end.

use std::time::Duration;

use fanin_client::{CancelCall, Cancelled, Client, JobCall, StopWhat};
use fanin_protocol::{JobId, JobInfo, Named, Promotion, text};

use crate::duration;
use crate::exit::Exit;
use crate::look::State;
use crate::ps;
use crate::reach::{Reach, ReachError, Standing, standing};
use crate::show;
use crate::stores::{Found, LookError};
use crate::wait::{self, id};

/// What to ask.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Ask {
    /// Stop runs or jobs of the service; `fanin wait` has what came of them
    Cancel(CancelArgs),
    /// Tell a running agent something more, or give a job more time
    Extend(ExtendArgs),
    /// Send to the background what waits for a run or a job in the foreground; the jobs go on
    Promote(PromoteArgs),
}

/// The words of `fanin cancel`.
#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    /// Runs or jobs: their ids, or 4 hex digits or more of each
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Kill them at once, without time to end by themselves
    #[arg(long)]
    force: bool,
}

/// The words of `fanin extend`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExtendArgs {
    /// The job: its id, or 4 hex digits or more of it
    #[arg(value_name = "JOB")]
    job: String,

    /// What its agent is told when its turn is over
    #[arg(value_name = "MESSAGE", required_unless_present = "by", conflicts_with = "by")]
    message: Option<String>,

    /// How much longer it may run than it might: 30s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration::parse_limit)]
    by: Option<Duration>,
}

/// The words of `fanin promote`.
#[derive(Debug, clap::Args)]
pub(crate) struct PromoteArgs {
    /// A run or a job: its id, or 4 hex digits or more of it
    #[arg(value_name = "ID")]
    id: String,
}

/// What may be asked.
#[derive(Debug)]
pub(crate) struct Prepared {
    ask: Ask,
    reach: Reach,
    all: Vec<Found>,
}

/// Finds what is meant. It reads disks, and asks nothing.
///
/// # Errors
///
/// [`ReachError`], where one of them is not there for us: then nothing is asked about the others.
pub(crate) fn prepare(ask: Ask, state: &State) -> Result<Prepared, ReachError> {
    let reach = Reach::of(state)?;
    let all = match &ask {
        Ask::Cancel(args) => reach.find(&args.ids)?,
        Ask::Extend(args) => reach.find(std::slice::from_ref(&args.job))?,
        Ask::Promote(args) => reach.find(std::slice::from_ref(&args.id))?,
    };
    for found in &all {
        let is_fit = match &ask {
            Ask::Cancel(_) | Ask::Promote(_) => !matches!(found.named, Named::Session(_)),
            Ask::Extend(_) => matches!(found.named, Named::Job(_)),
        };
        if !is_fit {
            let what = if matches!(ask, Ask::Extend(_)) { "job" } else { "run or job" };
            return Err(LookError::Other(found.named.to_string(), what).into());
        }
        let standing = standing(found, |pid| elsewhere(&ask, pid))?;
        if let (Standing::Over, Ask::Extend(_)) = (standing, &ask) {
            return Err(ReachError::Over { what: found.named.to_string(), how: how(found) });
        }
    }
    Ok(Prepared { ask, reach, all })
}

/// What can be done about a thing that another process has.
fn elsewhere(ask: &Ask, pid: Option<&str>) -> String {
    match (ask, pid) {
        (Ask::Cancel(_), Some(pid)) => {
            format!("Ctrl-C there stops all of its run, and so does: kill -INT {pid}")
        }
        (Ask::Cancel(_), None) => "Ctrl-C there stops all of its run".to_owned(),
        (Ask::Extend(_) | Ask::Promote(_), _) => "jobs of `fanin run --detach` can be asked this".to_owned(),
    }
}

/// How something ended that is over.
fn how(found: &Found) -> String {
    let states = show::jobs(found);
    match (&found.named, states.as_slice()) {
        (Named::Job(_), [job]) => said(job),
        _ => {
            let completed = states.iter().filter(|job| job.status == fanin_protocol::Status::Completed);
            format!("{} of {} jobs completed", completed.count(), states.len())
        }
    }
}

fn said(job: &JobInfo) -> String {
    match &job.message {
        Some(message) => format!("{}: {}", ps::state(job), text::one_line(message)),
        None => ps::state(job),
    }
}

/// Asks, and prints what became of it.
///
/// # Errors
///
/// [`ReachError`]. What was asked before stays asked.
pub(crate) async fn run(prepared: Prepared) -> Result<Exit, ReachError> {
    let Prepared { ask, reach, all } = prepared;
    let mut client = None;
    let mut lines = String::new();
    for found in &all {
        let line = if found.is_over() {
            format!("{} was over: {}", id(&found.named), how(found))
        } else {
            let client = match &client {
                Some(client) => client,
                None => client.insert(reach.connect().await?),
            };
            line(client, &ask, &found.named).await?
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    match wait::print(lines.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(ReachError::Write(error)),
        Ok(()) | Err(_) => Ok(Exit::Done),
    }
}

async fn line(client: &Client, ask: &Ask, named: &Named) -> Result<String, ReachError> {
    let shown = id(named);
    let done = match (ask, named) {
        (Ask::Cancel(args), Named::Group(group)) => {
            let grace_ms = args.force.then_some(0);
            let cancel = CancelCall { what: StopWhat::Group(group.clone()), grace_ms };
            client.cancel(cancel).await.map(|became| format!("{shown}: {}", counted(&became)))
        }
        (Ask::Cancel(args), Named::Job(job)) => {
            let grace_ms = args.force.then_some(0);
            let cancel = CancelCall { what: StopWhat::Job(JobCall::from(job.clone())), grace_ms };
            client.cancel(cancel).await.map(|became| format!("{shown}: {}", counted(&became)))
        }
        (Ask::Extend(ExtendArgs { by: Some(by), .. }), Named::Job(job)) => {
            client.extend_time(job, *by).await.map(|is_extended| match is_extended {
                true => format!("{shown} may run {} longer", duration::show(*by)),
                false => format!("{shown} has no limit of time that could be moved, or is being stopped"),
            })
        }
        (Ask::Extend(args), Named::Job(job)) => {
            let message = args.message.clone().unwrap_or_default();
            client.extend(job, None, message).await.map(|_| format!("{shown} is told when its turn is over"))
        }
        (Ask::Promote(_), Named::Job(_) | Named::Group(_)) => {
            client.promote(named.clone()).await.map(|promotion| match promotion {
                Promotion::Promoted => format!("{shown} goes on in the background"),
                Promotion::AlreadyDone => format!("{shown} was over before"),
                Promotion::NotWaiting => {
                    format!("{shown} is in the background: nothing waits for it in the foreground")
                }
            })
        }
        (Ask::Extend(_), Named::Group(_)) | (_, Named::Session(_)) => {
            return Err(LookError::Other(named.to_string(), "job").into());
        }
    };
    done.map_err(ReachError::Client)
}

/// What became of jobs that were cancelled, in words.
fn counted(became: &[(JobId, Cancelled)]) -> String {
    let count = |is: fn(&Cancelled) -> bool| became.iter().filter(|(_, became)| is(became)).count();
    let words = [
        (count(|became| matches!(became, Cancelled::Stopping)), "being stopped"),
        (count(|became| matches!(became, Cancelled::Ended)), "cancelled before it began"),
        (count(|became| matches!(became, Cancelled::AlreadyEnded(_))), "over before"),
    ];
    let is_one = became.len() == 1;
    let words = words.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| match is_one {
        true => word.to_owned(),
        false => format!("{count} {}", word.replace("it began", "they began")),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fanin_protocol::Status;

    #[test]
    fn what_became_of_jobs_is_counted() {
        let job = |n: u8| JobId::from_uuid([n; 16]);
        assert_eq!(counted(&[(job(1), Cancelled::Stopping)]), "being stopped");
        let all = [
            (job(1), Cancelled::Stopping),
            (job(2), Cancelled::Ended),
            (job(3), Cancelled::Ended),
            (job(4), Cancelled::AlreadyEnded(Status::Completed)),
        ];
        assert_eq!(counted(&all), "1 being stopped, 2 cancelled before they began, 1 over before");
    }
}
