//! `wait_for_subagents`: waits for what runs, and takes the results. Neither its limit nor its cancel stops anything.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use fanin_protocol::{Hit, JobId, spec, text};
use fanin_supervisor::{Group, GroupResult, Offered, WaitError, Waited};
use rmcp::RoleServer;
use rmcp::service::RequestContext;

use crate::arguments::{self, Wait};
use crate::calls::{Delivery, Owed};
use crate::fault::ToolError;
use crate::host::Host;
use crate::launch;
use crate::progress::Patience;
use crate::reply::{Entry, Fired, Listed, Over, Reply, Running as Goes};
use crate::running::{Named, Running, patiently};
use crate::server::Server;

/// What came of one thing that was waited for.
enum Got {
    Group(Group, Result<Offered<GroupResult>, WaitError>),
    Job(JobId, Result<Offered<Waited>, WaitError>),
}

type Waiting = Pin<Box<dyn Future<Output = Got> + Send>>;

/// Waits until all that is named is over, or the limit has passed: then it says what is over, and what goes on.
///
/// # Errors
///
/// [`ToolError`] for an id that names nothing here.
pub(crate) async fn wait<H: Host>(
    server: &Server<H>,
    wait: Wait,
    context: &RequestContext<RoleServer>,
    delivery: &mut Delivery,
) -> Result<Reply, ToolError> {
    let Some(running) = server.running() else {
        return match wait.ids.first() {
            Some(id) => Err(ToolError::NotLaunched(arguments::shown(id))),
            None => Ok(Reply::new("nothing was launched, so there is nothing to wait for")),
        };
    };
    let (groups, jobs) = wanted(&running, &wait.ids).await?;
    if groups.is_empty() && jobs.is_empty() {
        return Ok(Reply::new("nothing runs, and every result was handed over"));
    }
    let patience = Patience::of(context);
    let asked = wait.timeout_seconds.map(Duration::from_secs);
    let limit = asked.map_or(patience.limit(), |asked| asked.min(patience.limit()));
    let each = waits(&running, &groups, &jobs, limit);
    // A parent that is woken hears of it with its next prompt.
    let is_woken = server.host().is_woken();
    let mut fired: Option<Offered<Hit>> = None;
    let work = async {
        tokio::select! {
            biased;
            // Before the results: nobody would hear them here.
            () = running.turn_over() => Err("the turn is over, and the wait with it; nothing was stopped"),
            got = all(each) => Ok(got),
            hit = running.session.next_hit(), if !is_woken => {
                fired = Some(hit.map_err(|_| "the server is about to end, and the wait with it")?);
                Ok(Vec::new())
            }
            () = context.ct.cancelled() => Err("the wait was cancelled; nothing was stopped"),
        }
    };
    let waited = patience.wait(context, || running.tasks(&groups, &jobs), work).await;
    match (waited, fired) {
        (Ok(_), Some(hit)) => {
            // What is over by now comes with this answer as well, and the rest goes on.
            let reply = Reply::new("the wait is over before all was, and nothing was stopped");
            let next = "Call wait_for_subagents again to wait on, or go on with other work.".to_owned();
            let reply = Reply { fired: vec![Fired::new(&hit)], next: Some(next), ..reply };
            delivery.push(Owed::Hit(hit));
            Ok(reply)
        }
        (Ok(got), None) => answer(&running, got, (limit, is_woken), delivery).await,
        (Err(why), _) => Ok(Reply::new(why)),
    }
}

/// What the ids name, each once; without any, all that is still to come.
async fn wanted(running: &Running, ids: &[String]) -> Result<(Vec<Group>, Vec<JobId>), ToolError> {
    if ids.is_empty() {
        let (mut watches, mut others) = (Vec::new(), Vec::new());
        for group in running.owing().await? {
            if running.is_watch(&group).await? { watches.push(group) } else { others.push(group) }
        }
        // Nobody waits for the end of a watch, unless there is nothing else.
        return Ok((if others.is_empty() { watches } else { others }, Vec::new()));
    }
    let (mut groups, mut jobs): (Vec<Group>, Vec<JobId>) = (Vec::new(), Vec::new());
    for id in ids {
        match running.find(id).await.ok_or_else(|| ToolError::NotLaunched(arguments::shown(id)))? {
            Named::Group(group) if groups.iter().all(|known| known.id() != group.id()) => groups.push(group),
            Named::Job(job) if !jobs.contains(&job) => jobs.push(job),
            Named::Group(_) | Named::Job(_) => {}
        }
    }
    Ok((groups, jobs))
}

fn waits(running: &Running, groups: &[Group], jobs: &[JobId], limit: Duration) -> Vec<Waiting> {
    let group = |group: &Group| -> Waiting {
        let group = group.clone();
        Box::pin(async move {
            let got = group.wait_offered(limit).await;
            Got::Group(group, got)
        })
    };
    let job = |job: &JobId| -> Waiting {
        let (session, job) = (running.session.clone(), job.clone());
        Box::pin(async move {
            let got = session.wait_all_offered(std::slice::from_ref(&job), limit).await;
            Got::Job(job, got)
        })
    };
    groups.iter().map(group).chain(jobs.iter().map(job)).collect()
}

/// Waits for all of them at once: each of them waits from now on.
async fn all(mut waits: Vec<Waiting>) -> Vec<Got> {
    let mut got: Vec<Option<Got>> = waits.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (wait, got) in waits.iter_mut().zip(&mut got).filter(|(_, got)| got.is_none()) {
            if let Poll::Ready(done) = wait.as_mut().poll(context) {
                *got = Some(done);
            }
        }
        if got.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    got.into_iter().flatten().collect()
}

async fn answer(
    running: &Running,
    got: Vec<Got>,
    (limit, is_woken): (Duration, bool),
    delivery: &mut Delivery,
) -> Result<Reply, ToolError> {
    let mut reply = Reply::default();
    let (mut told, mut open) = (Vec::new(), Vec::new());
    for got in got {
        match got {
            Got::Group(_, Ok(result)) => {
                told.push(launch::summary(&result));
                reply.results.push(Over::new(&result, result.already_delivered));
                delivery.push(Owed::Group(result));
            }
            Got::Job(_, Ok(waited)) => {
                for entry in &waited.entries {
                    told.push(format!("`{}` is over ({})", entry.job, entry.status));
                    reply.jobs_over.push(Entry::new(entry, waited.already_delivered));
                }
                delivery.push(Owed::Jobs(waited));
            }
            Got::Group(group, Err(WaitError::TimedOut { .. })) => {
                open.push(group.id().to_string());
                reply.running.push(running.look(group.id()).await?);
            }
            Got::Job(job, Err(WaitError::TimedOut { .. })) => {
                let info = patiently(|| running.supervisor.get(&job)).await?;
                open.push(job.to_string());
                reply.running.push(Goes { group: info.group.clone(), tasks: vec![Listed::new(&info)] });
            }
            Got::Group(_, Err(error)) | Got::Job(_, Err(error)) => return Err(error.into()),
        }
    }
    if !open.is_empty() {
        let limit = text::duration(spec::millis(limit));
        told.push(format!("{} still run after {limit}; nothing was stopped", open.join(", ")));
        let ids = serde_json::to_string(&open).unwrap_or_default();
        let later = if is_woken {
            "or end your turn: the result comes once, as your next prompt, when all that you have launched is over."
        } else {
            "or go on with other work: the result comes once, with the answer of your next fanin call after they are over."
        };
        reply.next = Some(format!("Call wait_for_subagents({{\"ids\":{ids}}}) to wait on, {later}"));
    }
    reply.summary = told.join("; ");
    Ok(reply)
}
