//! A stalled supervisor: limits of waits hold, other calls answer `busy` in time, and nothing of either is lost or left
//! behind (B70, C-2, R7).

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use fanin_supervisor::protocol::JobId;
use fanin_supervisor::protocol::limits::{LOOK_WAIT, STARTS_PER_STEP};
use fanin_supervisor::{
    CallError, Clock, Delivery, Filter, JobFilter, JobSpec, LaunchError, Session, Since, SubscribeError,
    Supervisor, WaitError,
};
use fanin_tests::cases::{Alive, BlockingGate as _, Gate, STUCK, assert_nothing_lives};

/// A clock that can be made to block. It is read at the gate, so the gate is stuck for as long.
#[derive(Debug, Clone, Default)]
struct Stalling {
    armed: Arc<AtomicBool>,
    reached: Gate,
    release: Gate,
}

impl Clock for Stalling {
    fn wall_ms(&self) -> u64 {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.reached.open();
            self.release.block();
        }
        1_000_000
    }
}

/// How long a call waits for the gate in these tests.
const BUSY: Duration = Duration::from_millis(300);

/// Room for a slow machine, far below what the gate is stuck for.
const ROOM: Duration = Duration::from_secs(3);

async fn start(clock: &Stalling) -> (Supervisor, Session) {
    let supervisor = Supervisor::builder().clock(clock.clone()).busy_after(BUSY).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    (supervisor, session)
}

/// Makes the gate stick, from a thread of its own; it is stuck when this returns.
async fn stall(clock: &Stalling, supervisor: &Supervisor) -> std::thread::JoinHandle<()> {
    clock.armed.store(true, Ordering::SeqCst);
    let (runtime, supervisor) = (tokio::runtime::Handle::current(), supervisor.clone());
    let thread = std::thread::spawn(move || {
        runtime.block_on(async { supervisor.session("stalls").await.map(drop).unwrap() });
    });
    clock.reached.passed().await;
    thread
}

/// Limits are kept in whole milliseconds of the supervisor's clock, begun ones counted as over.
const UNIT: Duration = Duration::from_millis(1);

fn took(begun: Instant, least: Duration) {
    let took = begun.elapsed();
    assert!(took + UNIT >= least && took < least + ROOM, "it took {took:?}, not about {least:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_at_its_limit_and_other_calls_are_busy_while_the_gate_is_stuck() {
    let clock = Stalling::default();
    let _release = clock.release.at_the_latest();
    let (supervisor, session) = start(&clock).await;
    let gate = Gate::new();
    let body = gate.clone();
    let work = |_| async move {
        body.passed().await;
        Ok("done".into())
    };
    let job = session.start(JobSpec::run("work", work)).await.unwrap();
    let (first, alive) = (job.clone(), Alive::new());
    let limit = Duration::from_millis(200);
    // This one is at its wait when the gate sticks, the next one comes to a gate that is stuck.
    let begun = Instant::now();
    let mut waiting = pin!(first.wait(Duration::from_millis(400)));
    assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
    let stuck = stall(&clock, &supervisor).await;

    assert!(matches!(waiting.await, Err(WaitError::TimedOut { .. })));
    took(begun, Duration::from_millis(400));
    let begun = Instant::now();
    assert_eq!(job.wait(limit).await.unwrap_err(), WaitError::TimedOut { limit });
    took(begun, limit);
    let begun = Instant::now();
    assert_eq!(job.wait(None).await.unwrap_err(), WaitError::Call(CallError::Busy));
    took(begun, BUSY);

    let one = alive.one();
    let begun = Instant::now();
    let never = JobSpec::run("never", move |_| async move {
        drop(one);
        Ok(().into())
    });
    let launched = session.start(never).await.unwrap_err();
    assert_eq!(launched, LaunchError::Call(CallError::Busy));
    took(begun, BUSY);
    assert_eq!(alive.count(), 0, "a body that will never start is not kept");

    for busy in [
        supervisor.cancel(job.id()).await.map(drop),
        supervisor.cancel_exact(job.id(), job.lifetime()).await.map(drop),
        session.turn().await.map(drop),
        session.close().await,
    ] {
        assert_eq!(busy, Err(CallError::Busy));
    }
    let begun = Instant::now();
    assert_eq!(supervisor.list(&JobFilter::default()), Err(CallError::Busy));
    took(begun, LOOK_WAIT);
    assert_eq!(supervisor.get(job.id()), Err(CallError::Busy));
    assert_eq!(supervisor.why_group(job.group()), Err(CallError::Busy));
    assert_eq!(supervisor.output(job.id()), Err(CallError::Busy));
    assert_eq!(supervisor.snapshot(Filter::all()).map(drop), Err(SubscribeError::Busy));

    clock.release.open();
    stuck.join().unwrap();
    // Nothing of what was answered `busy` or ran out is there, and the job goes on as if nothing had been.
    gate.open();
    let wake = session.next_wake().await.unwrap();
    assert_eq!(wake.result().counts.completed, 1);
    wake.ack().await.unwrap();
    assert_eq!(supervisor.list(&JobFilter::default()).unwrap().jobs.len(), 1);
    assert_nothing_lives(&supervisor);
    supervisor.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_while_the_gate_is_stuck_holds_no_thread_and_is_told_afterwards() {
    let clock = Stalling::default();
    let _release = clock.release.at_the_latest();
    let (supervisor, session) = start(&clock).await;
    let gate = Gate::new();
    // More jobs than threads end, a turn is dropped, and a wake: none of them may wait for the gate.
    let jobs = (0..8).map(|_| {
        let gate = gate.clone();
        JobSpec::run("work", move |_| async move {
            gate.passed().await;
            Ok("done".into())
        })
    });
    let group = session.fan_out(jobs).await.unwrap();
    session.start(JobSpec::run("first", |_| async { Ok(().into()) })).await.unwrap();
    let wake = session.next_wake().await.unwrap();
    let turn = supervisor.session("other").await.unwrap().turn().await.unwrap();
    let stuck = stall(&clock, &supervisor).await;

    gate.open();
    drop((wake, turn));
    let (ticks, ticked) = mpsc::channel();
    for _ in 0..4 {
        let ticks = ticks.clone();
        tokio::spawn(async move { ticks.send(()).unwrap() });
    }
    for _ in 0..4 {
        ticked.recv_timeout(STUCK).expect("the threads are free");
    }
    assert_eq!(supervisor.get(&group.jobs()[0]).map(drop), Err(CallError::Busy), "it is still stuck");
    clock.release.open();
    stuck.join().unwrap();

    let other = supervisor.session("other").await.unwrap();
    drop(other.turn().await.expect("the dropped turn has ended"));
    let mut labels = Vec::new();
    for _ in 0..2 {
        let wake = tokio::time::timeout(STUCK, session.next_wake()).await.unwrap().unwrap();
        labels.push((wake.result().counts.launched, wake.result().counts.completed));
        wake.ack().await.unwrap();
    }
    labels.sort_unstable();
    assert_eq!(labels, [(1, 1), (8, 8)]);
    supervisor.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_dropped_at_the_gate_has_done_nothing() {
    let clock = Stalling::default();
    let _release = clock.release.at_the_latest();
    let (supervisor, session) = start(&clock).await;
    let stuck = stall(&clock, &supervisor).await;
    let alive = Alive::new();
    let one = alive.one();
    let spec = JobSpec::run("never", move |_| async move {
        drop(one);
        Ok(().into())
    });
    let limit = Duration::from_millis(20);
    assert!(tokio::time::timeout(limit, session.start(spec)).await.is_err());
    assert!(tokio::time::timeout(limit, session.next_wake()).await.is_err());
    assert_eq!(alive.count(), 0);
    clock.release.open();
    stuck.join().unwrap();
    let mut events = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    supervisor.shutdown().await;
    while let Some(event) = events.next().await {
        assert!(!event.to_string().contains("job."), "{event}");
    }
}

#[tokio::test]
async fn an_idle_gate_makes_no_call_wait() {
    let supervisor = Supervisor::builder().busy_after(Duration::ZERO).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let job = session.start(JobSpec::run("work", |_| async { Ok("done".into()) })).await.unwrap();
    assert_eq!(job.wait(None).await.unwrap().job, *job.id());
    assert!(supervisor.get(&JobId::parse("nobody").unwrap()).is_err());
    supervisor.shutdown().await;
}

// A launch gives control back with a first share started: the rest takes turns with what runs, and a stop that is told
// meanwhile does not wait behind all of it.
#[tokio::test]
async fn a_large_launch_returns_before_all_of_it_is_started_and_can_be_stopped_then() {
    let jobs = 3 * STARTS_PER_STEP;
    let supervisor = Supervisor::builder().start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let bodies = Arc::new(AtomicUsize::new(0));
    let specs = (0..jobs).map(|_| {
        let bodies = Arc::clone(&bodies);
        JobSpec::run("", move |_| async move {
            bodies.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        })
    });
    let group = session.fan_out(specs).await.unwrap();
    let mut events = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    let mut started = 0;
    while let Ok(Delivery::Event(event)) = events.try_next() {
        started += usize::from(event.record().kind() == "run.started");
    }
    assert_eq!(started, STARTS_PER_STEP);
    group.cancel().await.unwrap();
    let result = group.wait(STUCK).await.unwrap();
    assert_eq!(result.counts.cancelled as usize, jobs);
    assert!(bodies.load(Ordering::Relaxed) <= STARTS_PER_STEP, "queued ones were started to be stopped");
    assert_nothing_lives(&supervisor);
}
