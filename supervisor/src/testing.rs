//! A kit for the tests of harnesses: jobs that follow a script, time that a test moves, checks of what came of it.
//! It has no word in what a supervisor decides, and is built only with the feature `testing`.
#![allow(clippy::panic, reason = "a check that fails is a panic, which is what a test expects")]

mod check;
mod clock;
mod gate;
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
