//! A wall clock for tests. It moves with the runtime's clock, and jumps only where it is told to.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::clock::{self, Clock};

/// Where a [`TestClock`] begins: some time in 2026, in milliseconds since the Unix epoch.
const START_MS: u64 = 1_780_000_000_000;

/// A wall clock that moves with tokio's clock: paused with it, advanced with it. Clones are the same clock.
///
/// With it the times in records and results are those of the test, to the millisecond. It can be set like any wall
/// clock; limits of jobs never follow that, since they run on the runtime's clock.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fanin_supervisor::testing::TestClock;
/// use fanin_supervisor::{Clock, JobSpec, Supervisor};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = TestClock::new();
/// let supervisor = Supervisor::builder().clock(clock.clone()).start().await?;
/// let session = supervisor.session("main").await?;
/// let begun = clock.wall_ms();
/// let nap = JobSpec::run("nap", |_| async {
///     tokio::time::sleep(Duration::from_secs(90)).await;
///     Ok("rested".into())
/// });
/// let entry = session.start(nap).await?.wait(None).await?;
/// assert_eq!(entry.queued_at_ms, begun);
/// assert_eq!(entry.ended_at_ms, Some(begun + 90_000));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TestClock(Arc<Mutex<Reading>>);

/// What the clock showed at a moment.
#[derive(Debug)]
struct Reading {
    at: Instant,
    ms: u64,
}

impl Reading {
    fn now(&self) -> u64 {
        let passed = clock::now().saturating_duration_since(self.at);
        self.ms.saturating_add(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX))
    }
}

impl TestClock {
    /// A clock that begins some time in 2026.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Reading { at: clock::now(), ms: START_MS })))
    }

    /// Sets it to a time in milliseconds since the Unix epoch. It goes on from there.
    pub fn set(&self, ms: u64) {
        *self.0.lock() = Reading { at: clock::now(), ms };
    }

    /// Sets it ahead, as a machine does that slept: no working time passes.
    pub fn jump_ahead(&self, by: Duration) {
        self.jump(|now| now.saturating_add(millis(by)));
    }

    /// Sets it back, as a person or a time server does.
    pub fn jump_back(&self, by: Duration) {
        self.jump(|now| now.saturating_sub(millis(by)));
    }

    fn jump(&self, to: impl FnOnce(u64) -> u64) {
        let mut reading = self.0.lock();
        let ms = to(reading.now());
        *reading = Reading { at: clock::now(), ms };
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn wall_ms(&self) -> u64 {
        self.0.lock().now()
    }
}

fn millis(by: Duration) -> u64 {
    u64::try_from(by.as_millis()).unwrap_or(u64::MAX)
}
