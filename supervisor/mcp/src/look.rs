//! `jobs`: a list, or a page of what one put out. It takes nothing, and stops nothing.

use fanin_protocol::JobId;
use fanin_protocol::limits::{MCP_IDS_MAX, MCP_PAGE_BYTES};
use fanin_supervisor::JobFilter;

use crate::arguments::{self, Jobs};
use crate::fault::ToolError;
use crate::host::Host;
use crate::reply::{Listed, Page, Reply, used};
use crate::running::{Named, Running, patiently};
use crate::server::Server;

/// Looks.
///
/// # Errors
///
/// [`ToolError`] for an id that names no job here, and for output that is not kept.
pub(crate) async fn jobs<H: Host>(server: &Server<H>, jobs: &Jobs) -> Result<Reply, ToolError> {
    let running = server.running();
    match (&jobs.job, running) {
        (Some(id), Some(running)) => output(&running, id, jobs).await,
        (Some(id), None) => Err(ToolError::NotLaunched(arguments::shown(id))),
        (None, Some(running)) => list(&running, jobs).await,
        (None, None) => {
            Ok(Reply { jobs: Some(Vec::new()), ..Reply::new("nothing was launched over this connection") })
        }
    }
}

async fn list(running: &Running, jobs: &Jobs) -> Result<Reply, ToolError> {
    let filter = JobFilter {
        session: Some(running.session.id().clone()),
        status: jobs.status,
        from: jobs.from,
        limit: jobs.limit.unwrap_or(MCP_IDS_MAX),
        ..JobFilter::default()
    };
    let list = patiently(|| running.supervisor.list(&filter)).await?;
    let shown: Vec<_> = list.jobs.iter().map(Listed::new).collect();
    let open = shown.iter().filter(|job| !job.is_over()).count();
    let more = if list.next.is_some() { "; there are more, from `next_from` on" } else { "" };
    let session = fanin_supervisor::Named::Session(running.session.id().clone());
    let account = patiently(|| running.supervisor.account(&session)).await?;
    let used =
        used(Some(account.spent)).map_or_else(String::new, |used| format!("; all used so far: {used}"));
    let summary = format!("{} jobs, of which {open} are not over{more}{used}", shown.len());
    Ok(Reply { jobs: Some(shown), next_from: list.next, ..Reply::new(summary) })
}

async fn output(running: &Running, id: &str, jobs: &Jobs) -> Result<Reply, ToolError> {
    let job = one(running, id).await?;
    let max = jobs.max_bytes.unwrap_or(MCP_PAGE_BYTES);
    let offset = jobs.offset.unwrap_or(0);
    let page = patiently(|| running.supervisor.read_output(&job, offset, max)).await?;
    // After the page: what is said to be over has put out all of it.
    let info = patiently(|| running.supervisor.get(&job)).await?;
    let page = Page::new(job, info.status, &page);
    let summary = match page.place() {
        (Some(next), total) if next < total => format!("output up to byte {next} of {total}; read on there"),
        (Some(_), total) => format!("all of the {total} bytes so far; the job is not over"),
        (None, total) => format!("all of the {total} bytes, and the job is over"),
    };
    Ok(Reply { output: Some(page), ..Reply::new(summary) })
}

/// The one job that an id names: a group of one stands for it.
async fn one(running: &Running, id: &str) -> Result<JobId, ToolError> {
    match running.find(id).await {
        Some(Named::Job(job)) => Ok(job),
        Some(Named::Group(group)) => match group.jobs() {
            [job] => Ok(job.clone()),
            jobs => {
                let jobs: Vec<_> = jobs.iter().map(JobId::to_string).collect();
                let problem = format!("job: `{id}` is a group; name one of its jobs: {}", jobs.join(", "));
                Err(ToolError::Arguments(problem))
            }
        },
        None => Err(ToolError::NotLaunched(arguments::shown(id))),
    }
}

/// As [`one`], for others.
pub(crate) async fn job<H: Host>(
    server: &Server<H>,
    id: &str,
) -> Result<(std::sync::Arc<Running>, JobId), ToolError> {
    let running = server.running().ok_or_else(|| ToolError::NotLaunched(arguments::shown(id)))?;
    let job = one(&running, id).await?;
    Ok((running, job))
}
