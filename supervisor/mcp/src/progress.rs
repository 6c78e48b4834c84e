//! Notes of progress for a client that asked for them, while a call waits (14.3).

use std::time::Duration;

use fanin_protocol::limits::{MCP_BLOCK, MCP_BLOCK_SILENT, MCP_PROGRESS_EVERY};
use fanin_protocol::text;
use fanin_supervisor::Group;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;

use crate::running::Running;

/// What a call may cost in time, and whom it tells how it goes.
pub(crate) struct Patience {
    token: Option<ProgressToken>,
}

impl Patience {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        Self { token: context.meta.get_progress_token() }
    }

    /// How long a call may block.
    pub(crate) const fn limit(&self) -> Duration {
        if self.token.is_some() { MCP_BLOCK } else { MCP_BLOCK_SILENT }
    }

    /// Waits for `work`, telling how far `groups` have come. Nothing is told once it is there.
    ///
    /// # Cancel safety
    ///
    /// As `work`.
    pub(crate) async fn wait<T>(
        &self,
        context: &RequestContext<RoleServer>,
        (running, groups): (&Running, &[Group]),
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        let Some(token) = &self.token else { return work.await };
        let mut seconds = 0;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(MCP_PROGRESS_EVERY) => {}
            }
            seconds += MCP_PROGRESS_EVERY.as_secs();
            // Seconds rise from note to note, whatever the jobs do.
            #[expect(clippy::cast_precision_loss, reason = "a number of seconds is exact")]
            let note = ProgressNotificationParam::new(token.clone(), seconds as f64);
            let note = note.with_message(message(running, groups, seconds));
            tokio::select! {
                biased;
                done = &mut work => return done,
                sent = context.peer.notify_progress(note) => {
                    // A client that is gone is told by the end of its input.
                    if let Err(error) = sent {
                        tracing::debug!(%error, "progress was not written");
                    }
                }
            }
        }
    }
}

/// `1 of 3 over after 20s; running: lint, docs`.
fn message(running: &Running, groups: &[Group], seconds: u64) -> String {
    let looked = groups.iter().filter_map(|group| running.look(group.id()).ok());
    let tasks: Vec<_> = looked.flat_map(|group| group.tasks).collect();
    let open: Vec<_> = tasks.iter().filter(|task| !task.is_over()).collect();
    let names: Vec<_> = open.iter().map(|task| task.name()).collect();
    let message = format!(
        "{} of {} over after {}; running: {}",
        tasks.len() - open.len(),
        tasks.len(),
        text::duration(seconds * 1_000),
        names.join(", ")
    );
    text::cut(&message, fanin_protocol::limits::PROGRESS_BYTES_MAX).to_owned()
}
