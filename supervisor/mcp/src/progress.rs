//! Notes of progress for a client that asked for them, while a call waits (14.3).

use std::time::Duration;

use fanin_protocol::limits::{MCP_BLOCK, MCP_BLOCK_SILENT, MCP_PROGRESS_EVERY};
use fanin_protocol::text;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;

use crate::reply::Listed;

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

    /// Waits for `work`, telling how far the jobs have come that `look` shows. Nothing is told once it is there.
    ///
    /// # Cancel safety
    ///
    /// As `work`.
    pub(crate) async fn wait<T>(
        &self,
        context: &RequestContext<RoleServer>,
        look: impl Fn() -> Vec<Listed>,
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
            let note = note.with_message(message(&look(), seconds));
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
fn message(tasks: &[Listed], seconds: u64) -> String {
    if tasks.is_empty() {
        // They cannot be looked at now.
        return format!("waiting for {}", text::duration(seconds * 1_000));
    }
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
