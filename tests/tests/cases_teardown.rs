//! Cases of the end: in order, in a hurry, from anywhere, and with nothing left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use fanin_supervisor::protocol::limits::{GRACE, KILL_WAIT};
use fanin_supervisor::protocol::{Reason, Status};
use fanin_supervisor::{Delivery, Filter, JobError, JobSpec, RunContext, Since, Supervisor, WaitError};
use fanin_tests::cases::*;
use tokio::time::Instant;

// SC-6, SH-1, R4: what runs is stopped, what is queued never starts, all who wait are told, nothing is alive.
#[tokio::test(start_paused = true)]
async fn a_shutdown_stops_all_and_releases_all() {
    let supervisor = Supervisor::builder().slots(2).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let alive = Alive::new();
    let polite = JobSpec::run("polite", |context: RunContext| async move {
        context.cancelled().await;
        Err(JobError::new("stopped"))
    });
    let group = session.fan_out([polite, stubborn("deaf", &alive), idle("queued")]).await.unwrap();
    tokio::task::yield_now().await;
    let mut wake = Box::pin(session.next_wake());
    let mut wait = Box::pin(group.wait(None));
    assert!(poll_once(wake.as_mut()).is_pending());
    assert!(poll_once(wait.as_mut()).is_pending());

    let started = Instant::now();
    soon(supervisor.shutdown()).await;
    assert_eq!(started.elapsed(), GRACE);
    assert_eq!(alive.count(), 0);
    assert_nothing_lives(&supervisor);
    for job in group.jobs() {
        assert_eq!(supervisor.get(job).unwrap().status, Status::Cancelled);
    }
    assert_eq!(supervisor.get(&group.jobs()[2]).unwrap().runs, 0);
    let result = at_once(wait).unwrap();
    assert!(result.entries.iter().all(|entry| entry.summary() == "cancelled{shutdown}"));
    drop(at_once(wake));
    // And it stays shut down, however often one says so.
    soon(supervisor.shutdown()).await;
    assert_eq!(session.start(idle("late")).await.unwrap_err().code(), "closed");
    assert_eq!(session.turn().await.unwrap_err().code(), "closed");
    assert_eq!(soon(group.wait(None)).await.unwrap_err().code(), "closed");
    assert_eq!(supervisor.cancel(&group.jobs()[0]).await.unwrap_err().code(), "closed");
}

// R9: a result that is in hand is given, whichever of the two looks first.
#[tokio::test(start_paused = true)]
async fn a_wait_that_was_answered_is_not_lost_to_a_shutdown() {
    for waits_first in [true, false] {
        let (supervisor, session) = start_with_parent().await;
        let polite = || {
            JobSpec::run("polite", |context: RunContext| async move {
                context.cancelled().await;
                Ok("half of it".into())
            })
        };
        let group = session.fan_out([polite()]).await.unwrap();
        let jobs = group.jobs().to_vec();
        let waits = async { tokio::join!(group.wait(None), session.wait_all(&jobs, None)) };
        tokio::task::yield_now().await;
        let (result, entries) = if waits_first {
            tokio::join!(biased; waits, supervisor.shutdown()).0
        } else {
            tokio::join!(biased; supervisor.shutdown(), waits).1
        };
        assert_eq!(output(&result.unwrap().entries[0]), "half of it", "waits first: {waits_first}");
        assert_eq!(output(&entries.unwrap().entries[0]), "half of it", "waits first: {waits_first}");
    }
}

// SC-6: shut down from several tasks and threads at once; all of them return, and at the same end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_shutdowns_at_once_are_one() {
    watch_panics();
    let mut chance = Chance::new();
    for _ in 0..150 {
        let supervisor = Supervisor::builder().slots(3).grace(Duration::ZERO).start().await.unwrap();
        let session = supervisor.session("parent").await.unwrap();
        let witness = Witness::of(&supervisor).await;
        let alive = Alive::new();
        let specs = (0..6).map(|n| if n % 2 == 0 { stubborn("deaf", &alive) } else { idle("quick") });
        let group = session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let (supervisor, mut chance) = (supervisor.clone(), chance.fork());
                tokio::spawn(async move {
                    chance.dawdle(3).await;
                    soon(supervisor.shutdown()).await;
                    assert_nothing_lives(&supervisor);
                })
            })
            .collect();
        chance.dawdle(3).await;
        for caller in callers {
            tokio::time::timeout(STUCK, caller).await.expect("a shutdown hangs").unwrap();
        }
        assert_eq!(alive.count(), 0);
        for job in group.jobs() {
            assert!(supervisor.get(job).unwrap().status.is_terminal());
        }
        witness.at_end().await;
    }
    assert_no_panic_of_ours();
}

// SC-6, R7: a body that shuts its own supervisor down waits for itself, so its grace ends it; nothing hangs.
#[tokio::test(start_paused = true)]
async fn a_shutdown_from_inside_a_body_ends_with_the_grace() {
    let (supervisor, session) = start_with_parent().await;
    let inner = supervisor.clone();
    let body = JobSpec::run("shuts down", move |_| async move {
        inner.shutdown().await;
        Ok("never said".into())
    });
    let group = session.fan_out([idle("other"), body]).await.unwrap();
    let started = Instant::now();
    let result = soon(group.wait(None)).await.unwrap();
    assert_eq!(started.elapsed(), GRACE);
    let ends = [("other", "completed"), ("shuts down", "cancelled{shutdown}")];
    assert_eq!(summaries(&result), ends.map(|(label, end)| (label.to_owned(), end.to_owned())));
    assert_eq!(session.start(idle("late")).await.unwrap_err().code(), "draining");
    // Somebody outside writes the end.
    soon(supervisor.shutdown()).await;
    assert_eq!(session.start(idle("late")).await.unwrap_err().code(), "closed");
}

// S-3, RE-10: an orderly stop ends the open turn, so that what it launched is told of like everything else.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_open_turn_and_begins_no_other() {
    let (supervisor, session) = start_with_parent().await;
    let turn = session.turn().await.unwrap();
    let job = session.start(stubborn("a", &Alive::new())).await.unwrap();
    let mut wake = Box::pin(session.next_wake());
    assert!(poll_once(wake.as_mut()).is_pending());
    supervisor.drain();
    assert!(poll_once(wake.as_mut()).is_pending(), "a drain leaves the turn alone");
    supervisor.stop_all(Duration::ZERO);
    let wake = soon(wake).await.unwrap();
    assert_eq!(wake.result().group, *job.group());
    assert_eq!(wake.result().entries[0].summary(), "cancelled{shutdown}");
    wake.ack().await.unwrap();
    assert_eq!(session.turn().await.unwrap_err().code(), "draining");
    // Its holder is late, and that changes nothing.
    turn.end().await.unwrap();
    no_wake(&session).await;
    soon(supervisor.shutdown()).await;
}

// SH-1: a drain lets run what runs, starts nothing, and says why.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_what_runs_and_starts_nothing() {
    let supervisor = Supervisor::builder().slots(1).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let gate = Gate::new();
    let group = session.fan_out([gated("runs", &gate), idle("queued")]).await.unwrap();
    supervisor.drain();
    assert_eq!(supervisor.why(&group.jobs()[1]).unwrap(), [Reason::Draining]);
    assert_eq!(session.start(idle("late")).await.unwrap_err().code(), "draining");
    let mut drained = Box::pin(supervisor.drained());
    assert!(poll_once(drained.as_mut()).is_pending());
    gate.open();
    soon(drained).await;
    let status = |index: usize| supervisor.get(&group.jobs()[index]).unwrap().status;
    assert_eq!((status(0), status(1)), (Status::Completed, Status::Queued));
    assert_no_wake_now(&session);
    // A later stop in a hurry ends the rest.
    supervisor.stop_all(Duration::ZERO);
    assert_eq!(woken(&session).await.entries[1].summary(), "cancelled{shutdown}");
    soon(supervisor.shutdown()).await;
}

// SH-2: a stop in a hurry brings the force forward.
#[tokio::test(start_paused = true)]
async fn a_second_stop_with_less_grace_brings_the_end_forward() {
    let (supervisor, session) = start_with_parent().await;
    let alive = Alive::new();
    let group = session.fan_out([stubborn("a", &alive), stubborn("b", &alive)]).await.unwrap();
    tokio::task::yield_now().await;
    let started = Instant::now();
    supervisor.stop_all(None);
    tokio::time::advance(Duration::from_secs(1)).await;
    supervisor.stop_all(Duration::from_secs(2));
    soon(group.wait(None)).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    assert_eq!(alive.count(), 0);
    soon(supervisor.shutdown()).await;
}

// SC-6, B51: all handles dropped while jobs run, end, start and are launched: all tasks go, nobody panics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_supervisor_dropped_at_any_time_takes_its_tasks_with_it() {
    watch_panics();
    let mut chance = Chance::new();
    for _ in 0..400 {
        let alive = Alive::new();
        let supervisor = Supervisor::builder().slots(1 + chance.below(20)).start().await.unwrap();
        let witness = Witness::of(&supervisor).await;
        let session = supervisor.session("parent").await.unwrap();
        let specs = (0..20).map(|n| {
            let alive = alive.clone();
            JobSpec::run(format!("{n}"), move |context: RunContext| async move {
                let _one = alive.one();
                let call = context.tool("call", "tool");
                for _ in 0..n {
                    context.progress("goes on");
                    tokio::task::yield_now().await;
                }
                call.complete();
                if n % 3 == 0 {
                    std::future::pending::<()>().await;
                }
                Ok("done".into())
            })
        });
        let group = session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
        let turn = session.turn().await.unwrap();
        chance.dawdle(20).await;
        chance.spin(20_000);
        drop((supervisor, group));
        drop(turn);
        drop(session);
        alive.gone().await;
        witness.at_drop().await;
    }
    assert_no_panic_of_ours();
}

// SC-6: the last handle is dropped by a body of its own, on a thread without a runtime, and after its runtime.
#[test]
fn the_last_handle_may_be_dropped_anywhere() {
    watch_panics();
    let runtime = two_workers();
    let alive = Alive::new();

    let (entered, gone) = (Gate::new(), Gate::new());
    runtime.block_on(async {
        let (supervisor, session) = start_with_parent().await;
        let (enter, go, held) = (entered.clone(), gone.clone(), alive.one());
        let (own, parent) = (supervisor.clone(), session.clone());
        let body = JobSpec::run("drops", move |_| async move {
            enter.passed().await;
            drop((own, parent));
            drop(held);
            go.open();
            std::future::pending().await
        });
        session.start(body).await.unwrap();
        session.start(stubborn("other", &alive)).await.unwrap();
        drop((supervisor, session));
        entered.open();
        soon(gone.passed()).await;
        alive.gone().await;
    });

    let handles = runtime.block_on(async {
        let (supervisor, session) = start_with_parent().await;
        let group = session.fan_out([stubborn("a", &alive), idle("b")]).await.unwrap();
        (supervisor, session, group)
    });
    not_stuck(move || drop(handles));
    runtime.block_on(async {
        alive.gone().await;
    });

    let handles = runtime.block_on(start_with_parent());
    at_once(handles.1.start(stubborn("a", &alive))).unwrap();
    drop(runtime);
    assert_eq!(alive.count(), 0);
    drop(handles);
    assert_no_panic_of_ours();
}

// J-20, BAR-8, R5: the runtime goes away under running and queued jobs: all of them settle, and calls answer.
#[test]
fn a_runtime_that_goes_away_settles_all_jobs() {
    watch_panics();
    for flavor in [0, 1] {
        let runtime = match flavor {
            0 => two_workers(),
            _ => tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap(),
        };
        let alive = Alive::new();
        let (supervisor, session, group) = runtime.block_on(async {
            let supervisor = Supervisor::builder().slots(3).start().await.unwrap();
            let session = supervisor.session("parent").await.unwrap();
            let specs = (0..50).map(|n| stubborn(&format!("{n}"), &alive)).collect::<Vec<_>>();
            let group = session.fan_out(specs).await.unwrap();
            tokio::task::yield_now().await;
            (supervisor, session, group)
        });
        not_stuck(move || drop(runtime));
        assert_eq!(alive.count(), 0);
        assert_nothing_lives(&supervisor);
        let wake = at_once(session.next_wake()).unwrap();
        assert_eq!(wake.result().counts.error, 50);
        assert!(wake.result().entries.iter().all(|entry| entry.summary() == "error{interrupted}"));
        at_once(wake.ack()).unwrap();
        assert_no_wake_now(&session);
        assert_eq!(at_once(group.wait(None)).unwrap().counts.launched, 50);
        let said = at_once(supervisor.cancel(&group.jobs()[0])).unwrap();
        assert_eq!(said, fanin_supervisor::Cancelled::AlreadyEnded(Status::Error));
        // Another runtime can shut it down in order.
        two_workers().block_on(supervisor.shutdown());
    }
    assert_no_panic_of_ours();
}

/// Wakes by calling a function, on the thread that wakes.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

// C-3, G3: another thread is at the pump when the end comes; the records before the end still come before it.
#[test]
fn the_last_record_is_seen_whoever_is_at_the_pump() {
    watch_panics();
    let runtime = two_workers();
    let (supervisor, session) = runtime.block_on(start_with_parent());
    let mut events = runtime.block_on(supervisor.subscribe(Filter::all(), Since::Start)).unwrap();
    let (begun, goes, at_pump, held) = (Gate::new(), Gate::new(), Gate::new(), Gate::new());
    let (begin, go) = (begun.clone(), goes.clone());
    let body = JobSpec::run("last", move |_| async move {
        begin.open();
        go.passed().await;
        Ok(().into())
    });
    at_once(session.start(body)).unwrap();
    begun.block();
    // It waits for the end from here on, and goes on on a thread of its own: what the pump wakes on a worker may
    // wait for that worker.
    let caller = supervisor.clone();
    let mut shutdown = Box::pin(async move { caller.shutdown().await });
    assert!(poll_once(shutdown.as_mut()).is_pending());
    let ending = std::thread::spawn(move || two_workers().block_on(shutdown));
    // A second one who waits for the end, and blocks the thread that wakes it: that is the one at the pump.
    let (arrive, hold) = (at_pump.clone(), held.clone());
    let waker = Waker::from(Arc::new(Calls(move || {
        arrive.open();
        hold.block();
    })));
    let mut drained = Box::pin(supervisor.drained());
    assert!(drained.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    goes.open();
    at_pump.block();
    // However this test ends, that thread goes on.
    let goes_on = held.at_the_latest();
    // The first one goes on meanwhile, to the end of the supervisor.
    let caller = supervisor.clone();
    not_stuck(move || {
        while at_once(caller.session("late")).unwrap_err().code() != "closed" {
            std::thread::yield_now();
        }
    });
    drop(goes_on);
    not_stuck(move || ending.join().unwrap());
    let mut last = None;
    while let Some(delivery) = runtime.block_on(soon(events.next())) {
        let Delivery::Event(event) = delivery else { panic!("{delivery:?}") };
        last = Some(event.kind());
    }
    assert_eq!(last, Some("store.closed"));
    drop(drained);
    assert_no_panic_of_ours();
}

// DESIGN: whoever is woken may call the supervisor from inside its waker; no lock is held there.
#[test]
fn a_waker_may_call_the_supervisor() {
    not_stuck(|| {
        let runtime = two_workers();
        let (supervisor, session) = runtime.block_on(start_with_parent());
        let gate = Gate::new();
        let group = at_once(session.fan_out([gated("a", &gate)])).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let (counts, caller, parent, jobs) =
            (Arc::clone(&calls), supervisor.clone(), session.clone(), group.jobs().to_vec());
        let call = move || {
            // Every kind of call that takes a lock.
            drop(at_once(caller.session("other")));
            drop(poll_once(Box::pin(parent.wait_all(&jobs, None)).as_mut()));
            drop(poll_once(Box::pin(parent.next_wake()).as_mut()));
            caller.progress(&jobs[0]);
            drop(at_once(parent.start(idle("b"))));
            counts.fetch_add(1, Ordering::SeqCst);
        };
        let waker = Waker::from(Arc::new(Calls(call)));
        let mut context = Context::from_waker(&waker);
        let mut wait = Box::pin(group.wait(None));
        let elsewhere = at_once(supervisor.session("elsewhere")).unwrap();
        let mut wake = Box::pin(elsewhere.next_wake());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        assert!(wake.as_mut().poll(&mut context).is_pending());
        gate.open();
        runtime.block_on(over(&supervisor, group.jobs()));
        // The end of the supervisor wakes the other one.
        runtime.block_on(supervisor.shutdown());
        assert_eq!(at_once(wake.as_mut()).unwrap_err(), WaitError::Closed);
        drop((wait, wake));
        assert!(calls.load(Ordering::SeqCst) >= 2);
        // The waker holds handles of the supervisor; it goes first.
        drop(waker);
    });
}

// SC-3, SC-6: a shutdown does not wait for a body that blocks its thread longer than its bound.
#[test]
fn a_shutdown_is_bounded_by_a_body_that_blocks() {
    watch_panics();
    let held = Gate::new();
    let runtime = two_workers();
    let _goes_on = held.at_the_latest();
    runtime.block_on(async {
        let supervisor = Supervisor::builder().grace(Duration::ZERO).start().await.unwrap();
        let session = supervisor.session("parent").await.unwrap();
        let (hold, entered) = (held.clone(), Gate::new());
        let enter = entered.clone();
        let blocks = JobSpec::run("blocks", move |_| async move {
            enter.open();
            hold.block();
            Ok(().into())
        });
        let job = session.start(blocks).await.unwrap();
        soon(entered.passed()).await;
        let started = std::time::Instant::now();
        soon(supervisor.shutdown()).await;
        let took = started.elapsed();
        assert!(took >= 2 * KILL_WAIT && took < 2 * KILL_WAIT + Duration::from_secs(2), "{took:?}");
        assert_eq!(supervisor.get(job.id()).unwrap().status, Status::Cancelled);
    });
    held.open();
    drop(runtime);
    assert_no_panic_of_ours();
}
