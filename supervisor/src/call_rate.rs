//! How often one client may make a call that launches: a model in a loop is slowed down before it costs anything (SEC-8).

use std::collections::VecDeque;
use std::time::Duration;

use fanin_protocol::limits::{LAUNCH_CALLS_MAX, LAUNCH_CALLS_PER};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::clock;

/// The launch calls of the last while, those that were refused for something else among them.
#[derive(Debug, Default)]
pub struct CallRate {
    /// When each came, oldest first; [`LAUNCH_CALLS_MAX`] at the most.
    calls: Mutex<VecDeque<Instant>>,
}

impl CallRate {
    /// A call has come. What is refused counts for nothing: the next one is let in at the same time, however many ask.
    ///
    /// # Errors
    ///
    /// How long it takes until the next one is let in.
    pub fn enter(&self) -> Result<(), Duration> {
        let now = clock::now();
        let mut calls = self.calls.lock();
        while calls.front().is_some_and(|at| *at + LAUNCH_CALLS_PER <= now) {
            calls.pop_front();
        }
        match calls.front() {
            Some(oldest) if calls.len() >= LAUNCH_CALLS_MAX => Err(*oldest + LAUNCH_CALLS_PER - now),
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
        let rate = CallRate::default();
        let first = Duration::from_secs(20);
        assert_eq!(rate.enter(), Ok(()));
        tokio::time::advance(first).await;
        for _ in 1..LAUNCH_CALLS_MAX {
            assert_eq!(rate.enter(), Ok(()));
        }
        for _ in 0..2 * LAUNCH_CALLS_MAX {
            assert_eq!(rate.enter(), Err(LAUNCH_CALLS_PER - first));
        }
        tokio::time::advance(LAUNCH_CALLS_PER - first).await;
        assert_eq!(rate.enter(), Ok(()));
        assert_eq!(rate.enter(), Err(first), "one was old, and no other");
        tokio::time::advance(first).await;
        for _ in 1..LAUNCH_CALLS_MAX {
            assert_eq!(rate.enter(), Ok(()));
        }
        assert!(rate.enter().is_err());
        assert!(rate.calls.lock().len() <= LAUNCH_CALLS_MAX);
    }
}
