//! Bodies whose destructors panic: the panic is theirs, and neither a caller nor a sibling sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fanin_supervisor::{Cancelled, JobSpec, Session, Supervisor};

/// Panics when it is dropped, and counts that.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a bomb went off");
    }
}

/// A supervisor with one slot that is taken for good, and bombs behind it.
async fn with_bombs(count: usize) -> (Supervisor, Session, fanin_supervisor::Group, Arc<AtomicUsize>) {
    let supervisor = Supervisor::builder().slots(1).start().await.unwrap();
    let session = supervisor.session("main").await.unwrap();
    let gone = Arc::new(AtomicUsize::new(0));
    let holder = JobSpec::run("holder", |_| std::future::pending());
    let bombs = (0..count).map(|_| {
        let bomb = Bomb(Arc::clone(&gone));
        JobSpec::run("bomb", move |_| async move {
            drop(bomb);
            Ok(().into())
        })
    });
    let group = session.fan_out(std::iter::once(holder).chain(bombs)).await.unwrap();
    (supervisor, session, group, gone)
}

// SC-6, P2: a cancel of a job that never started answers, whatever its destructor does.
#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_queue_does_not_panic() {
    let (supervisor, session, group, gone) = with_bombs(3).await;
    assert_eq!(supervisor.cancel(&group.jobs()[1]).await.unwrap(), Cancelled::Ended);
    assert_eq!(gone.load(Ordering::SeqCst), 1);
    group.cancel().await.unwrap();
    assert_eq!(gone.load(Ordering::SeqCst), 3);
    let wake = session.next_wake().await.unwrap();
    assert_eq!(wake.result().counts.cancelled, 4);
}

// SH-1: a shutdown comes to its end, and subscribers see it.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_panic() {
    let (supervisor, _, _, gone) = with_bombs(2).await;
    let mut events =
        supervisor.subscribe(fanin_supervisor::Filter::all(), fanin_supervisor::Since::Now).await.unwrap();
    supervisor.shutdown().await;
    assert_eq!(gone.load(Ordering::SeqCst), 2);
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.to_string());
    }
    assert!(last.unwrap().ends_with("store.closed"));
}

// SC-6: a plain drop never panics, also one that is part of another panic.
#[tokio::test]
async fn a_drop_does_not_panic_even_while_something_else_does() {
    let (supervisor, session, group, gone) = with_bombs(3).await;
    drop((session, group));
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _supervisor = supervisor;
        panic!("the host's own");
    }));
    assert_eq!(unwound.unwrap_err().downcast_ref::<&str>(), Some(&"the host's own"));
    assert_eq!(gone.load(Ordering::SeqCst), 3);
}

// J-1: a refused launch says why.
#[tokio::test]
async fn a_refused_launch_does_not_panic() {
    let (supervisor, session, _, gone) = with_bombs(0).await;
    let bombs = (0..2).map(|_| {
        let bomb = Bomb(Arc::clone(&gone));
        let body = JobSpec::run("bomb", move |_| async move {
            drop(bomb);
            Ok(().into())
        });
        body.id(fanin_supervisor::protocol::JobId::parse("twice").unwrap())
    });
    assert_eq!(session.fan_out(bombs).await.unwrap_err().code(), "duplicate_id");
    assert_eq!(gone.load(Ordering::SeqCst), 2);
    supervisor.shutdown().await;
}

// SC-7: a panic is reported as one, also where its own payload panics when it is dropped.
#[tokio::test]
async fn a_payload_that_panics_hides_no_panic() {
    let supervisor = Supervisor::builder().start().await.unwrap();
    let session = supervisor.session("main").await.unwrap();
    let gone = Arc::new(AtomicUsize::new(0));
    let bomb = Bomb(Arc::clone(&gone));
    let body = JobSpec::run("payload", move |_| async move { std::panic::panic_any(bomb) });
    let entry = session.start(body).await.unwrap().wait(None).await.unwrap();
    assert_eq!(
        (entry.summary().as_str(), entry.message.as_deref()),
        ("error{panic}", Some("a panic without a text"))
    );
    assert_eq!(gone.load(Ordering::SeqCst), 1);
}

// BAR-15: whoever waits for a result that a wake holds is told so, and the wake comes again.
#[tokio::test]
async fn a_result_that_a_wake_holds_is_marked_in_every_wait() {
    let supervisor = Supervisor::builder().start().await.unwrap();
    let session = supervisor.session("main").await.unwrap();
    let job = session.start(JobSpec::run("a", |_| async { Ok("text".into()) })).await.unwrap();
    let held = session.next_wake().await.unwrap();
    let entry = job.wait(None).await.unwrap();
    assert!(entry.reference && entry.output.is_some(), "in full, and marked");
    drop(held);
    let wake = session.next_wake().await.unwrap();
    assert!(!wake.result().entries[0].reference);
    wake.ack().await.unwrap();
    assert!(job.wait(None).await.unwrap().reference);
}
