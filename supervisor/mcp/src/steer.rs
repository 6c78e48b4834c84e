//! `message` and `job_cancel`: a follow-up to a job that runs, and its stop.

use fanin_protocol::JobId;
use fanin_supervisor::{CallError, Cancelled, Refusal};

use crate::arguments::{self, Cancel, Message};
use crate::fault::ToolError;
use crate::host::Host;
use crate::look;
use crate::reply::{Reply, Stopped};
use crate::running::Named;
use crate::server::Server;

/// What became of a job that was over before.
const OVER: &str = "already_over";

/// Posts a follow-up (J-24).
///
/// # Errors
///
/// [`ToolError`] where the job does not take it.
pub(crate) async fn message<H: Host>(server: &Server<H>, message: Message) -> Result<Reply, ToolError> {
    let (running, job) = look::job(server, &message.job).await?;
    running.supervisor.extend(&job, message.text).await?;
    Ok(Reply::new(format!("`{job}` has it, and does not end before it was answered")))
}

/// Tells jobs to stop. All ids are looked up before the first of them is stopped.
///
/// # Errors
///
/// [`ToolError`] for an id that names nothing here; nothing is stopped then.
pub(crate) async fn cancel<H: Host>(server: &Server<H>, cancel: Cancel) -> Result<Reply, ToolError> {
    let mut jobs: Vec<JobId> = Vec::new();
    let running = server.running();
    for id in &cancel.ids {
        let named = match &running {
            Some(running) => running.find(id).await,
            None => None,
        };
        match named.ok_or_else(|| ToolError::NotLaunched(arguments::shown(id)))? {
            Named::Group(group) => jobs.extend_from_slice(group.jobs()),
            Named::Job(job) => jobs.push(job),
        }
    }
    let mut stops: Vec<Stopped> = Vec::new();
    for job in jobs {
        let Some(running) = running.as_ref().filter(|_| stops.iter().all(|stop| stop.job != job)) else {
            continue;
        };
        let (stop, status) = match running.supervisor.cancel(&job).await {
            Ok(Cancelled::Stopping) => ("stopping", None),
            Ok(Cancelled::Ended) => ("ended", None),
            Ok(Cancelled::AlreadyEnded(status)) => (OVER, Some(status)),
            // Over for so long that it has left the memory.
            Err(CallError::Refused(Refusal::Expired(_))) => (OVER, None),
            Err(error) => return Err(error.into()),
        };
        stops.push(Stopped { job, stop, status });
    }
    let told = stops.iter().filter(|stop| stop.stop != OVER).count();
    let over = stops.len() - told;
    let summary = format!("{told} told to stop, {over} were over before");
    let next = (told > 0).then(|| {
        "What a job has put out until then comes with its group's result, once all of the group is over."
            .to_owned()
    });
    Ok(Reply { stops, next, ..Reply::new(summary) })
}
