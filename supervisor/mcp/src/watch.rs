//! `watch`: a watch in the background. What it sees is told with later answers, or is the next prompt of a parent that is
//! woken.

use fanin_supervisor::GroupOptions;

use crate::arguments::{self, Watch};
use crate::fault::ToolError;
use crate::host::Host;
use crate::launch;
use crate::look;
use crate::reply::Reply;
use crate::server::Server;

/// Launches a watch.
///
/// # Errors
///
/// [`ToolError`]; nothing is watched then.
pub(crate) async fn watch<H: Host>(server: &Server<H>, watch: Watch) -> Result<Reply, ToolError> {
    let Watch { mut task, key } = watch;
    let of = match task.job.take() {
        Some(id) => Some(look::job(server, &id).await?.1),
        None => None,
    };
    let spec = server.host().watch(task, of).map_err(|problems| launch::refused(problems, true))?;
    let running = server.start().await?;
    let options = GroupOptions { id: key, ..GroupOptions::default() };
    let group = running.launch(running.session.fan_out_with(options, [spec]), |group| group).await?;
    let job = group.jobs().first().map_or_else(|| group.id().to_string(), ToString::to_string);
    let summary = if group.is_created() {
        format!("`{job}` is watching")
    } else {
        format!("key `{}` is that of an earlier call, and nothing was launched", arguments::shown(&job))
    };
    let next = if server.host().is_woken() {
        format!(
            "Go on with other work, or end your turn; do not poll. What it sees is your next prompt. \
             job_cancel({{\"ids\":[\"{job}\"]}}) ends it."
        )
    } else {
        format!(
            "Go on with other work; do not poll. What it sees comes as `fired` with the answer of your next fanin call after \
             that; wait_for_subagents() returns at that moment. job_cancel({{\"ids\":[\"{job}\"]}}) ends it."
        )
    };
    let looked = running.look(group.id()).await.into_iter().collect();
    Ok(Reply { running: looked, next: Some(next), ..Reply::new(summary) })
}
