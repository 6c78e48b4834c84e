//! BAR-1, PERF 3: a parent is polled when its group has fired, and not for its members.
// A helper that panics is a failed test.
#![allow(clippy::unwrap_used)]

use std::future::{Future, poll_fn};
use std::pin::pin;

use fanin_supervisor::{JobSpec, Supervisor};

const JOBS: usize = 100_000;

/// The result of a future, and how often it was polled.
async fn polls<T>(future: impl Future<Output = T>) -> (T, usize) {
    let mut future = pin!(future);
    let mut polls = 0;
    let result = poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx)
    });
    (result.await, polls)
}

fn jobs() -> impl Iterator<Item = JobSpec> {
    (0..JOBS).map(|_| JobSpec::run("", |_| async { Ok(().into()) }))
}

// On one thread, where nobody else is at the gate: with several a call that finds it held is polled again for each try
// to pass, which is the gate's and not the barrier's.
#[tokio::test]
async fn a_parent_of_many_is_polled_twice_at_the_most() {
    let supervisor = Supervisor::builder().start().await.unwrap();
    let session = supervisor.session("main").await.unwrap();
    let group = session.fan_out(jobs()).await.unwrap();
    let (result, waits) = polls(group.wait(None)).await;
    assert_eq!(result.unwrap().counts.completed as usize, JOBS);
    assert!(waits <= 2, "{waits} polls of a wait");

    session.fan_out(jobs()).await.unwrap();
    let (wake, wakes) = polls(session.next_wake()).await;
    assert_eq!(wake.unwrap().result().counts.completed as usize, JOBS);
    assert!(wakes <= 2, "{wakes} polls for a wake");
    supervisor.shutdown().await;
}
