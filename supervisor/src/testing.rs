//! A kit for the tests of harnesses: jobs that follow a script, time that a test moves, checks of what came of it.
//! It has no word in what a supervisor decides, and is built only with the feature `testing`.
//!
//! A harness has a parent loop: it launches, goes on, is woken, and acts on the result. Its tests need no agent, no
//! process and no waiting. In the harness's `Cargo.toml`:
//!
//! ```toml
//! [dev-dependencies]
//! fanin-supervisor = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt"] }
//! ```
//!
//! Each test below is the body of a `#[tokio::test(start_paused = true)]`: tokio's clock stands still, and moves to the
//! next moment at which anything is due once all others wait. Half an hour passes in no time, and the order of things
//! is the same in every run. What is launched here by hand is launched by your loop in your tests;
//! `examples/parent_loop.rs` has such a loop with its tests.
//!
//! **One wake for three jobs of which one fails.** [`FakeRunner`] stands in for the agents, [`script`] says what they do.
//!
//! ```
//! # use std::time::Duration;
//! # use fanin_supervisor::{JobSpec, testing::*};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agents = FakeRunner::agents()
//!     .on("lint", script().after(Duration::from_secs(60)).fails("2 warnings"))
//!     .otherwise(script().after(Duration::from_secs(90)).completes("ok"));
//! let (supervisor, session) = start_with(&agents).await;
//! session.fan_out(["scan", "lint", "docs"].map(|label| JobSpec::agent(label, "worker", "Go"))).await?;
//! let wake = woken(&session).await;
//! assert_eq!(summary(&wake.entries), ["scan: completed", "lint: error{failed}", "docs: completed"]);
//! assert_woken(&session, 1);
//! assert_nothing_lives(&supervisor);
//! # Ok(())
//! # }
//! ```
//!
//! **A wake while the parent is busy** is held until its turn ends. [`over`] waits for jobs and takes nothing from them.
//!
//! ```
//! # use fanin_supervisor::{JobSpec, testing::*};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agents = FakeRunner::agents().otherwise(script().completes("ok"));
//! let (supervisor, session) = start_with(&agents).await;
//! let turn = session.turn().await?;
//! let group = session.fan_out(["scan", "lint"].map(|label| JobSpec::agent(label, "worker", "Go"))).await?;
//! over(&supervisor, group.jobs()).await;
//! assert_no_wake_now(&session);
//! turn.end().await?;
//! assert_eq!(woken(&session).await.group, *group.id());
//! # Ok(())
//! # }
//! ```
//!
//! **A wait that runs out, and the wake that follows.** The job goes on, and its result comes once.
//!
//! ```
//! # use std::time::Duration;
//! # use fanin_supervisor::{JobSpec, testing::*};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agents = FakeRunner::agents().on("slow", script().after(Duration::from_secs(600)).completes("at last"));
//! let (_supervisor, session) = start_with(&agents).await;
//! let job = session.start(JobSpec::agent("slow", "worker", "Go")).await?;
//! assert_eq!(job.wait(Duration::from_secs(60)).await.unwrap_err().code(), "wait_timed_out");
//! assert_eq!(texts(&woken(&session).await.entries), ["at last"]);
//! no_wake(&session).await;
//! # Ok(())
//! # }
//! ```
//!
//! **A cancelled job, and one that is stopped after half an hour.** Both are entries like any other.
//!
//! ```
//! # use std::time::Duration;
//! # use fanin_supervisor::{JobSpec, testing::*};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agents = FakeRunner::agents().otherwise(script().writes("so far").hangs());
//! let (supervisor, session) = start_with(&agents).await;
//! let limit = Duration::from_secs(30 * 60);
//! let job = |label: &'static str| JobSpec::agent(label, "worker", "Go").timeout(limit).idle(limit);
//! let group = session.fan_out(["scan", "lint"].map(job)).await?;
//! agents.until_started("scan").await;
//! supervisor.cancel(&group.jobs()[0]).await?;
//! let wake = woken(&session).await;
//! assert_eq!(summary(&wake.entries), ["scan: cancelled{user}", "lint: error{timeout run}"]);
//! assert_eq!(texts(&wake.entries), ["so far", "so far"]);
//! # Ok(())
//! # }
//! ```
//!
//! **What a wrong loop looks like.** One that polls, or forgets [`ack`](crate::Wake::ack), leaves its wake: see
//! [`assert_nothing_owed`]. One that launches each job for itself is woken by each: see [`assert_woken`]. One that acts
//! twice on a wake has a turn too many in its [`story`], which is also what a failed check shows.
//!
//! A test on a real clock works too, with [`woken`] and [`assert_no_wake_now`]; [`no_wake`] needs the paused one. What a
//! process does outside, such as a real command, does not follow a paused clock.
#![allow(clippy::panic, reason = "a check that fails is a panic, which is what a test expects")]

mod check;
mod clock;
mod gate;
pub mod journal;
mod runner;
mod script;
mod tell;

pub use check::{
    assert_no_wake_now, assert_nothing_lives, assert_nothing_owed, assert_woken, no_wake, over, woken,
    woken_within,
};
pub use clock::TestClock;
pub use gate::Gate;
pub use runner::FakeRunner;
pub use script::{Script, script};
pub use tell::{story, summary, texts};

use crate::session::Session;
use crate::supervisor::Supervisor;

/// A supervisor with this runner and a [`TestClock`], and a parent named `parent`.
///
/// # Panics
///
/// Outside of a tokio runtime.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, script, start_with};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let agents = FakeRunner::agents().otherwise(script().completes("ok"));
/// let (supervisor, session) = start_with(&agents).await;
/// assert_eq!(session.id().to_string(), "parent");
/// supervisor.shutdown().await;
/// # }
/// ```
pub async fn start_with(runner: &FakeRunner) -> (Supervisor, Session) {
    let builder = Supervisor::builder().clock(TestClock::new()).runner(runner.clone());
    let supervisor = builder.start().await.unwrap_or_else(|error| panic!("{error}"));
    let session = supervisor.session("parent").await.unwrap_or_else(|error| panic!("{error}"));
    (supervisor, session)
}
