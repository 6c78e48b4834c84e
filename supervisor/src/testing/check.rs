//! Checks of what came to a parent and what is left. A check that fails panics, at the line of its caller.

use std::future::Future;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fanin_machine::JobFilter;
use fanin_protocol::{CombinedResult, JobId, Status};

use super::tell::Told;
use crate::clock;
use crate::session::Session;
use crate::supervisor::Supervisor;
use crate::wait::WaitError;

/// How long a check waits on a real clock: longer than any good test takes.
const REAL_LIMIT: Duration = Duration::from_secs(20);

/// How long a check waits on a paused clock, where that costs nothing.
const PAUSED_LIMIT: Duration = Duration::from_secs(24 * 3600);

pub(super) fn limit() -> Duration {
    if clock::is_paused() { PAUSED_LIMIT } else { REAL_LIMIT }
}

/// The next wake of a parent, acknowledged.
///
/// # Panics
///
/// Where none comes within a day of a paused clock, or 20 seconds of a real one.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, script, start_with, texts, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agents = FakeRunner::agents().otherwise(script().completes("42 files"));
/// let (_supervisor, session) = start_with(&agents).await;
/// session.start(JobSpec::agent("scan", "worker", "Count the files")).await?;
/// assert_eq!(texts(&woken(&session).await.entries), ["42 files"]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn woken(session: &Session) -> impl Future<Output = Arc<CombinedResult>> + use<> {
    woken_within(limit(), session)
}

/// As [`woken`], with a limit of its own.
///
/// # Panics
///
/// Where none comes within `limit`.
#[track_caller]
pub fn woken_within(limit: Duration, session: &Session) -> impl Future<Output = Arc<CombinedResult>> + use<> {
    let (at, session) = (Location::caller(), session.clone());
    async move {
        let woken = async { session.next_wake().await?.ack().await.map_err(WaitError::Call) };
        match tokio::time::timeout(limit, woken).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => panic!("no wake at {at}: {error}"),
            Err(_) => panic!("no wake within {limit:?} at {at}{}", Told::of(&session)),
        }
    }
}

/// Checks that no wake comes to a parent, however long one waits: for a day of the paused clock.
///
/// # Panics
///
/// Where one comes, and on a clock that is not paused; there [`assert_no_wake_now`] looks without waiting.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, no_wake, script, start_with};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (_supervisor, session) = start_with(&FakeRunner::agents().otherwise(script().completes("ok"))).await;
/// let job = session.start(JobSpec::agent("scan", "worker", "Count the files")).await?;
/// job.wait(None).await?; // has taken the result
/// no_wake(&session).await;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn no_wake(session: &Session) -> impl Future<Output = ()> + use<> {
    let (at, session) = (Location::caller(), session.clone());
    async move {
        assert!(
            clock::is_paused(),
            "no_wake at {at} needs a paused clock: #[tokio::test(start_paused = true)]"
        );
        if let Ok(wake) = tokio::time::timeout(PAUSED_LIMIT, session.next_wake()).await {
            panic!("a wake that nobody expects at {at}: {wake:?}{}", Told::of(&session));
        }
    }
}

/// Checks that no wake is there for a parent now, without waiting. On any clock.
///
/// # Panics
///
/// Where one is.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, assert_no_wake_now, script, start_with};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (_supervisor, session) = start_with(&FakeRunner::agents().otherwise(script().hangs())).await;
/// session.start(JobSpec::agent("scan", "worker", "Count the files")).await?;
/// assert_no_wake_now(&session);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn assert_no_wake_now(session: &Session) {
    let wake = pin!(session.next_wake());
    if let Poll::Ready(wake) = wake.poll(&mut Context::from_waker(Waker::noop())) {
        panic!("a wake that nobody expects: {wake:?}{}", Told::of(session));
    }
}

/// Checks how often a parent was woken: how many results it took from its inbox, each acknowledged. What it took by a
/// wait is none.
///
/// # Panics
///
/// Where that is another number; it shows the [`story`](super::story).
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, assert_woken, script, start_with};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (_supervisor, session) = start_with(&FakeRunner::agents().otherwise(script().completes("ok"))).await;
/// session.fan_out(["scan", "lint", "docs"].map(|label| JobSpec::agent(label, "worker", "Go"))).await?;
/// session.next_wake().await?.ack().await?; // a parent loop does this
/// assert_woken(&session, 1);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn assert_woken(session: &Session, times: usize) {
    let told = Told::of(session);
    assert!(told.wakes == times, "woken {} times, not {times}{told}", told.wakes);
}

/// Checks that a parent has all that was launched for it: each of its groups has fired, and each result was taken, by a
/// wake or a wait.
///
/// # Panics
///
/// Where a group has not fired, or its wake is still owed; it shows the [`story`](super::story).
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, assert_nothing_owed, script, start_with, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (_supervisor, session) = start_with(&FakeRunner::agents().otherwise(script().completes("ok"))).await;
/// session.start(JobSpec::agent("scan", "worker", "Count the files")).await?;
/// woken(&session).await;
/// assert_nothing_owed(&session);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn assert_nothing_owed(session: &Session) {
    let told = Told::of(session);
    let owed: Vec<_> = told.owed.values().collect();
    assert!(owed.is_empty(), "still owed: {owed:?}{told}");
}

/// Checks that no job is queued or runs.
///
/// # Panics
///
/// Where one does.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, assert_nothing_lives, script, start_with, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (supervisor, session) = start_with(&FakeRunner::agents().otherwise(script().hangs())).await;
/// session.start(JobSpec::agent("scan", "worker", "Count the files")).await?.cancel().await?;
/// woken(&session).await;
/// assert_nothing_lives(&supervisor);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn assert_nothing_lives(supervisor: &Supervisor) {
    for status in [Status::Queued, Status::Running] {
        let live = supervisor.list(&JobFilter { status: Some(status), ..JobFilter::default() });
        let live = live.unwrap_or_else(|error| panic!("{error}"));
        assert!(live.jobs.is_empty(), "still {status}: {:#?}", live.jobs);
    }
}

/// Waits until these jobs are over, and takes no result: what their parent is owed stays owed to it. It asks as a parent
/// of its own, `observer`.
///
/// # Panics
///
/// Where one is not over within a day of a paused clock, or 20 seconds of a real one, or is not known.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, over, script, start_with, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (supervisor, session) = start_with(&FakeRunner::agents().otherwise(script().completes("ok"))).await;
/// let turn = session.turn().await?;
/// let group = session.fan_out([JobSpec::agent("scan", "worker", "Count the files")]).await?;
/// over(&supervisor, group.jobs()).await; // while the parent is busy
/// turn.end().await?;
/// woken(&session).await;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn over(supervisor: &Supervisor, jobs: &[JobId]) -> impl Future<Output = ()> + use<> {
    let (at, supervisor, jobs) = (Location::caller(), supervisor.clone(), jobs.to_vec());
    async move {
        let waited = match supervisor.session("observer").await {
            Ok(observer) => {
                observer.wait_all(&jobs, limit()).await.map(drop).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        waited.unwrap_or_else(|error| panic!("at {at}: {error}"));
    }
}
