//! How often one client may call a tool that launches: a model in a loop is slowed down before it costs anything (SEC-8).

use std::collections::VecDeque;
use std::time::Duration;

use fanin_protocol::limits::{MCP_LAUNCHES_MAX, MCP_LAUNCHES_PER};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The launch calls of the last while, those that were refused for something else among them.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// When each came, oldest first; [`MCP_LAUNCHES_MAX`] at the most.
    calls: Mutex<VecDeque<Instant>>,
}

impl Rate {
    /// A call has come. What is refused counts for nothing: the next one is let in at the same time, however many ask.
    ///
    /// # Errors
    ///
    /// How long it takes until the next one is let in.
    pub(crate) fn enter(&self) -> Result<(), Duration> {
        let now = Instant::now();
        let mut calls = self.calls.lock();
        while calls.front().is_some_and(|at| *at + MCP_LAUNCHES_PER <= now) {
            calls.pop_front();
        }
        match calls.front() {
            Some(oldest) if calls.len() >= MCP_LAUNCHES_MAX => Err(*oldest + MCP_LAUNCHES_PER - now),
            Some(_) | None => {
                calls.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_calls_are_let_in_and_the_next_one_when_the_oldest_is_old() {
        let rate = Rate::default();
        let first = Duration::from_secs(20);
        assert_eq!(rate.enter(), Ok(()));
        tokio::time::advance(first).await;
        for _ in 1..MCP_LAUNCHES_MAX {
            assert_eq!(rate.enter(), Ok(()));
        }
        for _ in 0..2 * MCP_LAUNCHES_MAX {
            assert_eq!(rate.enter(), Err(MCP_LAUNCHES_PER - first));
        }
        tokio::time::advance(MCP_LAUNCHES_PER - first).await;
        assert_eq!(rate.enter(), Ok(()));
        assert_eq!(rate.enter(), Err(first), "one was old, and no other");
        tokio::time::advance(first).await;
        for _ in 1..MCP_LAUNCHES_MAX {
            assert_eq!(rate.enter(), Ok(()));
        }
        assert!(rate.enter().is_err());
        assert!(rate.calls.lock().len() <= MCP_LAUNCHES_MAX);
    }
}
