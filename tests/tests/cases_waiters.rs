//! Cases of waiting: every wait ends, and one that leaves loses nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use fanin_supervisor::protocol::{Reason, Status};
use fanin_supervisor::{Group, JobFilter, JobSpec, Session, WaitError};
use fanin_tests::cases::*;
use tokio::time::Instant;

// B08, BAR-12
#[tokio::test(start_paused = true)]
async fn a_waiter_that_vanishes_at_the_signal_leaves_it_to_the_others() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let group = session.fan_out([gated("a", &gate)]).await.unwrap();
    let mut first = Box::pin(group.wait(None));
    let mut second = Box::pin(group.wait(None));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    gate.open();
    over(&supervisor, group.jobs()).await;
    // The first was answered and has not looked: it is dropped with the answer in its hand.
    assert_eq!(supervisor.why_group(group.id()).unwrap(), [Reason::Offered]);
    drop(first);
    let result = at_once(second).unwrap();
    assert_eq!(output(&result.entries[0]), "a");
    let again = at_once(group.wait(None)).unwrap();
    assert_eq!((again.result, again.already_delivered), (result.result, true));
    no_wake(&session).await;
}

// B08, BAR-12: the last waiter that vanishes leaves it to the inbox.
#[tokio::test(start_paused = true)]
async fn when_all_waiters_vanish_at_the_signal_a_wake_comes() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let group = session.fan_out([gated("a", &gate), gated("b", &gate)]).await.unwrap();
    let mut wake = Box::pin(session.next_wake());
    assert!(poll_once(wake.as_mut()).is_pending());
    let mut waits = waits_of_every_kind(&session, &group);
    for wait in &mut waits {
        assert!(poll_once(wait.as_mut()).is_pending());
    }
    gate.open();
    over(&supervisor, group.jobs()).await;
    while let Some(wait) = waits.pop() {
        assert!(
            poll_once(wake.as_mut()).is_pending(),
            "woken while {} waits hold the result",
            waits.len() + 1
        );
        drop(wait);
    }
    let wake = at_once(wake).unwrap();
    assert!(wake.result().entries.iter().all(|entry| !entry.reference));
    wake.ack().await.unwrap();
    no_wake(&session).await;
}

type Wait = Pin<Box<dyn Future<Output = Result<usize, WaitError>> + Send>>;

/// Waits that, each alone, take everything of the group: how many results each gives.
fn waits_of_every_kind(session: &Session, group: &Group) -> Vec<Wait> {
    let (one, other) = (group.clone(), group.clone());
    let (all, any) = (session.clone(), session.clone());
    let (jobs, first) = (group.jobs().to_vec(), group.jobs().to_vec());
    vec![
        Box::pin(async move { one.wait(None).await.map(|result| result.entries.len()) }),
        Box::pin(async move { other.wait(QUIET).await.map(|result| result.entries.len()) }),
        Box::pin(async move { all.wait_all(&jobs, None).await.map(|waited| waited.entries.len()) }),
        Box::pin(async move { any.wait_any(&first, None).await.map(|waited| waited.entries.len()) }),
    ]
}

// B08, BAR-10, BAR-12, BAR-15: a wait of any kind dropped at any point; the rest is told in full, once.
#[tokio::test(start_paused = true)]
async fn a_wait_dropped_at_any_point_loses_nothing() {
    for kind in 0..4 {
        for point in 0..5 {
            let (supervisor, session) = start_with_parent().await;
            let gate = Gate::new();
            let group = session.fan_out([gated("a", &gate), gated("b", &gate)]).await.unwrap();
            let mut wait = waits_of_every_kind(&session, &group).swap_remove(kind);
            let mut polled = Poll::Pending;
            if point >= 1 {
                polled = poll_once(wait.as_mut());
                assert!(polled.is_pending());
            }
            if point == 2 {
                drop(wait);
                gate.open();
                over(&supervisor, group.jobs()).await;
            } else {
                gate.open();
                over(&supervisor, group.jobs()).await;
                if point == 4 {
                    polled = poll_once(wait.as_mut());
                }
                drop(wait);
            }
            match polled {
                // It returned: what it gave is taken. A wait for any gives what was over then, one at the least.
                Poll::Ready(Ok(2)) => {}
                Poll::Ready(_) | Poll::Pending => {
                    let wake = woken(&session).await;
                    let open = wake.entries.iter().filter(|entry| !entry.reference).count();
                    assert_eq!(open, if point == 4 { 1 } else { 2 }, "kind {kind}, point {point}");
                }
            }
            no_wake(&session).await;
            assert_eq!(supervisor.why_group(group.id()).unwrap(), []);
        }
    }
}

// B08, R7: a wait that is made anew each millisecond, and one that is kept, in a loop that ticks.
#[tokio::test(start_paused = true)]
async fn a_loop_that_ticks_never_misses_the_end() {
    let (_supervisor, session) = start_with_parent().await;
    for length in [1, 2, 7, 100] {
        for keeps in [false, true] {
            let spec = JobSpec::run("a", move |_| async move {
                tokio::time::sleep(Duration::from_millis(length)).await;
                Ok(().into())
            });
            let group = session.fan_out([spec]).await.unwrap();
            let started = Instant::now();
            let mut ticks = tokio::time::interval(Duration::from_millis(1));
            let mut kept = Box::pin(group.wait(None));
            loop {
                tokio::select! {
                    result = async { if keeps { kept.as_mut().await } else { group.wait(None).await } } => {
                        result.unwrap();
                        break;
                    }
                    _ = ticks.tick() => assert!(started.elapsed() <= STUCK, "missed"),
                }
            }
            assert!(started.elapsed() <= Duration::from_millis(length + 1));
            drop(kept);
            no_wake(&session).await;
        }
    }
}

// B08, R2: waits, wakes, cancels and drops that race with the end on other threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_and_leaves_the_result_comes_exactly_once() {
    watch_panics();
    let mut chance = Chance::new();
    let (supervisor, session) = start_with_parent().await;
    let witness = Witness::of(&supervisor).await;
    for round in 0..2_000 {
        let gate = Gate::new();
        let group = session.fan_out([gated("a", &gate), gated("b", &gate)]).await.unwrap();
        let mut leaving: Vec<_> = waits_of_every_kind(&session, &group);
        chance.shuffle(&mut leaving);
        leaving.truncate(chance.below(4));
        let leavers: Vec<_> = leaving.into_iter().map(|wait| leave(wait, chance.fork())).collect();
        let stays = chance.below(2) == 0;
        let stayer = tokio::spawn({
            let (group, mut chance) = (group.clone(), chance.fork());
            async move {
                chance.dawdle(3).await;
                if stays { Some(group.wait(STUCK).await.unwrap()) } else { None }
            }
        });
        chance.dawdle(3).await;
        gate.open();
        over(&supervisor, group.jobs()).await;
        let mut given = 0;
        for leaver in leavers {
            given = given.max(leaver.await.unwrap());
        }
        let stayed = stayer.await.unwrap();
        if stayed.is_some() || given == 2 {
            assert_no_wake_now(&session);
        } else {
            let wake = woken(&session).await;
            assert_eq!(wake.group, *group.id(), "round {round}");
            let open = wake.entries.iter().filter(|entry| !entry.reference).count();
            assert_eq!(open, 2 - given, "round {round}");
        }
        assert_no_wake_now(&session);
        assert_eq!(supervisor.why_group(group.id()).unwrap(), [], "round {round}");
    }
    soon(supervisor.shutdown()).await;
    witness.at_end().await;
    assert_no_panic_of_ours();
}

/// Waits for a few turns of the scheduler and leaves; how many results it got.
fn leave(mut wait: Wait, mut chance: Chance) -> tokio::task::JoinHandle<usize> {
    tokio::spawn(async move {
        tokio::select! {
            biased;
            given = wait.as_mut() => given.unwrap(),
            () = chance.dawdle(12) => 0,
        }
    })
}

// B14, BAR-11
#[tokio::test(start_paused = true)]
async fn wait_for_all_means_all() {
    let (_supervisor, session) = start_with_parent().await;
    let lasts = |ms: u64| {
        JobSpec::run(format!("{ms}"), move |_| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(format!("{ms}").into())
        })
    };
    let started = Instant::now();
    let group = session.fan_out([10, 200, 1000].map(lasts)).await.unwrap();
    let mut jobs = group.jobs().to_vec();
    jobs.rotate_left(1);
    let any = session.clone();
    let any = tokio::spawn({
        let jobs = jobs.clone();
        async move { (any.wait_any(&jobs, None).await.unwrap(), Instant::now()) }
    });
    let limited = session.wait_all(&jobs, Duration::from_millis(999)).await.unwrap_err();
    assert_eq!((limited.code(), started.elapsed()), ("wait_timed_out", Duration::from_millis(999)));

    let all = soon(session.wait_all(&jobs, None)).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(1000));
    assert_eq!(
        all.entries.iter().map(output).collect::<Vec<_>>(),
        ["200", "1000", "10"],
        "in the asked order"
    );
    assert!(all.entries.iter().all(|entry| entry.status == Status::Completed));

    let (first, at) = soon(any).await.unwrap();
    assert_eq!(first.entries.iter().map(output).collect::<Vec<_>>(), ["10"]);
    assert!(at - started < Duration::from_millis(200));
    no_wake(&session).await;
}

// B14, BAR-11, R7: a limit is the wait's, never the jobs'.
#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_stops_nothing_and_the_wake_comes() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let group = session.fan_out([gated("a", &gate), idle("b")]).await.unwrap();
    for limit in [Duration::ZERO, Duration::from_millis(1), QUIET] {
        let error = group.wait(limit).await.unwrap_err();
        assert_eq!(error, WaitError::TimedOut { limit });
        assert_eq!(session.wait_all(group.jobs(), limit).await.unwrap_err().code(), "wait_timed_out");
    }
    assert_eq!(supervisor.get(&group.jobs()[0]).unwrap().status, Status::Running);
    gate.open();
    let wake = woken(&session).await;
    assert!(wake.entries.iter().all(|entry| !entry.reference), "a wait that ran out took something");
    // An answer that is there wins over any limit, also none at all.
    assert_eq!(group.wait(Duration::ZERO).await.unwrap().result, wake);
    assert_eq!(group.wait(Duration::MAX).await.unwrap().result, wake);
    no_wake(&session).await;
}

// B08, BAR-15: what a wait took is a reference in the wake, its output is not said twice.
#[tokio::test(start_paused = true)]
async fn a_wake_shows_what_a_wait_took_as_references() {
    let (_supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let group = session.fan_out([idle("a"), gated("b", &gate), idle("c")]).await.unwrap();
    let waited = session.wait_all(&[group.jobs()[2].clone()], STUCK).await.unwrap();
    assert!(!waited.already_delivered);
    gate.open();
    let wake = woken(&session).await;
    let shown: Vec<_> = wake.entries.iter().map(|entry| (entry.reference, output(entry))).collect();
    assert_eq!(shown, [(false, "done"), (false, "b"), (true, "")]);
    // A wait answers in full all the same, and says that it was told before.
    let again = session.wait_all(group.jobs(), STUCK).await.unwrap();
    assert!(again.already_delivered);
    assert_eq!(again.entries.iter().map(output).collect::<Vec<_>>(), ["done", "b", "done"]);
    no_wake(&session).await;
}

// W-2: a wake that is not acknowledged comes again, the same, until it is.
#[tokio::test(start_paused = true)]
async fn a_dropped_wake_comes_again_byte_for_byte() {
    let (supervisor, session) = start_with_parent().await;
    let same = supervisor.session("parent").await.unwrap();
    let older = session.fan_out([idle("a"), idle("b")]).await.unwrap();
    over(&supervisor, older.jobs()).await;
    let newer = session.fan_out([idle("c")]).await.unwrap();
    over(&supervisor, newer.jobs()).await;

    let first = soon(session.next_wake()).await.unwrap().result().to_text();
    for _ in 0..20 {
        let held = soon(same.next_wake()).await.unwrap();
        assert_eq!(held.result().to_text(), first, "the oldest first, and as it was");
        // Who asks meanwhile gets the next one, and a third nobody.
        let other = soon(session.next_wake()).await.unwrap();
        assert_eq!(other.result().group, *newer.id());
        assert_no_wake_now(&same);
        assert_eq!(supervisor.why_group(older.id()).unwrap(), [Reason::Offered]);
    }
    // The turn that takes it may crash in between: then it was not taken.
    let held = soon(session.next_wake()).await.unwrap();
    drop(session.turn().await.unwrap());
    drop(held);
    assert_eq!(woken(&session).await.group, *older.id());
    assert_eq!(woken(&same).await.group, *newer.id());
    no_wake(&session).await;
}

// W-2, R2: two handles of one parent ask at once; each wake goes to one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_takers_never_get_the_same_wake() {
    let mut chance = Chance::new();
    let (supervisor, session) = start_with_parent().await;
    for _ in 0..300 {
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let supervisor = supervisor.clone();
                let mut chance = chance.fork();
                tokio::spawn(async move {
                    let session = supervisor.session("parent").await.unwrap();
                    loop {
                        let wake = soon(session.next_wake()).await.unwrap();
                        if chance.below(3) > 0 {
                            return wake.ack().await.unwrap().group.clone();
                        }
                    }
                })
            })
            .collect();
        let mut groups = Vec::new();
        for _ in 0..3 {
            groups.push(session.fan_out([idle("a")]).await.unwrap().id().clone());
        }
        let mut taken = Vec::new();
        for taker in takers {
            taken.push(tokio::time::timeout(STUCK, taker).await.unwrap().unwrap());
        }
        taken.sort();
        groups.sort();
        assert_eq!(taken, groups);
        assert_no_wake_now(&session);
    }
    soon(supervisor.shutdown()).await;
}

// STYLE: a call is made when its future is polled; one that is dropped before has done nothing.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_before_its_first_poll_does_nothing() {
    let (supervisor, session) = start_with_parent().await;
    let group = session.fan_out([idle("a")]).await.unwrap();
    let (kept, one) = (Alive::new(), Alive::new());
    let held = one.one();
    let body = JobSpec::run("never", |_| async move {
        drop(held);
        Ok(().into())
    });
    drop((session.fan_out([body]), session.start(stubborn("never", &kept)), session.turn()));
    drop((supervisor.cancel(&group.jobs()[0]), group.cancel(), group.wait(None), session.next_wake()));
    drop((
        session.wait_all(group.jobs(), None),
        session.close(),
        supervisor.shutdown(),
        supervisor.drained(),
    ));
    assert_eq!(one.count(), 0, "its body is kept");
    drop(session.turn().await.unwrap());
    let wake = woken(&session).await;
    assert_eq!(summaries(&wake), [("a".to_owned(), "completed".to_owned())]);
    drop(wake);
    assert_eq!(supervisor.list(&JobFilter::default()).unwrap().jobs.len(), 1);
    no_wake(&session).await;
    // A wake that was taken over and whose acknowledgement was never polled is not taken.
    let group = session.fan_out([idle("b")]).await.unwrap();
    drop(soon(session.next_wake()).await.unwrap().ack());
    assert_eq!(woken(&session).await.group, *group.id());
    no_wake(&session).await;
}

// BAR-9, R7: a parent that closes releases all who wait, and nothing of it goes on.
#[tokio::test(start_paused = true)]
async fn a_closed_session_releases_all_waits() {
    let (supervisor, session) = start_with_parent().await;
    let alive = Alive::new();
    let (gate, elsewhere) = (Gate::new(), supervisor.session("elsewhere").await.unwrap());
    let group = session.fan_out([stubborn("a", &alive), gated("b", &gate)]).await.unwrap();
    let fired = session.fan_out([idle("c")]).await.unwrap();
    over(&supervisor, fired.jobs()).await;
    let held = soon(session.next_wake()).await.unwrap();
    let mut wait = Box::pin(group.wait(None));
    let mut wake = Box::pin(session.next_wake());
    let mut jobs = Box::pin(session.wait_all(group.jobs(), None));
    let mut foreign = Box::pin(elsewhere.wait_all(group.jobs(), None));
    assert!(poll_once(wait.as_mut()).is_pending());
    assert!(poll_once(wake.as_mut()).is_pending());
    assert!(poll_once(jobs.as_mut()).is_pending());
    assert!(poll_once(foreign.as_mut()).is_pending());

    session.close().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(at_once(wait).unwrap_err(), WaitError::Voided);
    assert_eq!(at_once(wake).unwrap_err(), WaitError::Closed);
    for waited in [soon(jobs).await.unwrap(), soon(foreign).await.unwrap()] {
        assert!(waited.entries.iter().all(|entry| entry.summary() == "cancelled{parent}"));
    }
    assert_eq!(held.ack().await.unwrap().group, *fired.id(), "what is in hand stays readable");
    assert_eq!(supervisor.output(&fired.jobs()[0]).unwrap().text(), "done");
    assert_eq!(soon(session.next_wake()).await.unwrap_err().code(), "session_closed");
    assert_eq!(session.start(idle("late")).await.unwrap_err().code(), "session_closed");
    assert_eq!(alive.count(), 0);
    assert_nothing_lives(&supervisor);
}
