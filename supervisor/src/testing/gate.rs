//! What holds jobs until a test lets them go on.

use std::sync::Arc;

use tokio::sync::watch;

/// Holds whoever comes to it until a test opens it. It is opened once and stays open. Clones are the same gate.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, Gate, script, start_with, texts, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate = Gate::new();
/// let agents = FakeRunner::agents().otherwise(script().held_by(&gate).completes("at last"));
/// let (_supervisor, session) = start_with(&agents).await;
/// session.start(JobSpec::agent("slow", "worker", "Count the files")).await?;
/// agents.until_started("slow").await;
/// gate.open();
/// assert_eq!(texts(&woken(&session).await.entries), ["at last"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Opens it for good.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// True once it was opened.
    pub fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is open.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn passed(&self) {
        // It ends early only with the sender, which is held here.
        drop(self.0.subscribe().wait_for(|is_open| *is_open).await);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
