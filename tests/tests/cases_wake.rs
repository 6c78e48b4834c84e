//! Cases of the one wake: not lost, not doubled, not early.

use std::time::Duration;

use fanin_supervisor::protocol::record::TakenBy;
use fanin_supervisor::protocol::{Outcome, Reason};
use fanin_supervisor::{Session, Supervisor};
use fanin_tests::cases::*;

// B01, M13, W-4
#[tokio::test(start_paused = true)]
async fn siblings_that_finish_during_a_turn_give_one_wake_after_it() {
    for _ in 0..1_000 {
        let (supervisor, session) = start_with_parent().await;
        let (pair, last) = (Gate::new(), Gate::new());
        let group = session.fan_out([gated("1", &pair), gated("2", &pair), gated("3", &last)]).await.unwrap();
        let turn = session.turn().await.unwrap();
        let mut wake = Box::pin(session.next_wake());
        assert!(poll_once(wake.as_mut()).is_pending());

        pair.open();
        over(&supervisor, &group.jobs()[..2]).await;
        assert!(poll_once(wake.as_mut()).is_pending(), "woken with one job still running");
        tokio::time::advance(Duration::from_millis(50)).await;
        last.open();
        over(&supervisor, group.jobs()).await;
        assert!(poll_once(wake.as_mut()).is_pending(), "woken inside its turn");
        assert_eq!(supervisor.why_group(group.id()).unwrap(), [Reason::Busy]);

        drop(turn);
        let wake = soon(wake).await.unwrap().ack().await.unwrap();
        let all = ["1", "2", "3"].map(|label| (label.to_owned(), "completed".to_owned()));
        assert_eq!(summaries(&wake), all);
        assert_eq!(wake.entries.iter().map(output).collect::<Vec<_>>(), ["1", "2", "3"]);
        no_wake(&session).await;
        assert_nothing_lives(&supervisor);
        soon(supervisor.shutdown()).await;
    }
}

// B01, B09, R2, R3: any number of siblings, any ways to end, any order, and a turn that ends anywhere among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_family_gives_one_wake_in_launch_order_after_the_turn() {
    watch_panics();
    let mut chance = Chance::new();
    let supervisor = start().await;
    let witness = Witness::of(&supervisor).await;
    for round in 0..600 {
        let session = supervisor.session(format!("parent_{round}").as_str()).await.unwrap();
        one_family(&supervisor, &session, &mut chance).await;
    }
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
    let seen = witness.at_end().await;
    assert_eq!(seen.fired.len(), 600);
    assert!(seen.groups.values().all(|group| group.taken == Some(TakenBy::Inbox)));
    assert_no_panic_of_ours();
}

async fn one_family(supervisor: &Supervisor, session: &Session, chance: &mut Chance) {
    let ways: Vec<Way> = (0..=chance.below(7)).map(|_| *chance.of(&WAYS)).collect();
    let gates: Vec<Gate> = ways.iter().map(|_| Gate::new()).collect();
    let label = |index: usize| format!("{index}");
    let specs = || ways.iter().zip(&gates).enumerate().map(|(n, (way, gate))| way.job(&label(n), gate));
    let in_turn = chance.below(3);

    let mut jobs = Vec::new();
    if in_turn == 0 {
        jobs = session.fan_out(specs()).await.unwrap().jobs().to_vec();
    }
    let turn = session.turn().await.unwrap();
    match in_turn {
        1 => jobs = session.fan_out(specs()).await.unwrap().jobs().to_vec(),
        2 => {
            for spec in specs() {
                jobs.push(session.start(spec).await.unwrap().id().clone());
            }
        }
        _ => {}
    }
    let mut order: Vec<usize> = (0..ways.len()).collect();
    chance.shuffle(&mut order);
    let enders = {
        let (supervisor, ways, jobs, mut chance) =
            (supervisor.clone(), ways.clone(), jobs.clone(), chance.fork());
        async move {
            for index in order {
                chance.dawdle(2).await;
                ways[index].end(&supervisor, &jobs[index], &gates[index]).await;
            }
        }
    };
    let enders = tokio::spawn(enders);
    let taker = tokio::spawn(woken(session));
    // A taker that comes and leaves, at any time, changes nothing.
    assert_no_wake_now(session);
    chance.dawdle(2 * ways.len()).await;
    turn.end().await.unwrap();

    let wake = taker.await.unwrap();
    enders.await.unwrap();
    let expected: Vec<_> =
        ways.iter().enumerate().map(|(n, way)| (label(n), way.summary().to_owned())).collect();
    assert_eq!(summaries(&wake), expected);
    assert_eq!(wake.counts.ended(), wake.counts.launched);
    assert_eq!(
        wake.entries.iter().map(|entry| &entry.job).collect::<Vec<_>>(),
        jobs.iter().collect::<Vec<_>>()
    );
    assert_no_wake_now(session);
}

// B03, BAR-5: a wait for what is long over is answered at once, and nothing follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_over_before_anyone_looks_are_waited_for_at_once() {
    let (supervisor, session) = start_with_parent().await;
    let mut over_at_return = 0;
    for _ in 0..5_000 {
        let group = session.fan_out([idle("a"), idle("b"), idle("c")]).await.unwrap();
        let all_over = |job| supervisor.get(job).unwrap().status.is_terminal();
        over_at_return += usize::from(group.jobs().iter().all(all_over));
        let result = group.wait(STUCK).await.unwrap();
        assert_eq!((result.outcome, result.entries.len()), (Outcome::AllOk, 3));
        assert_no_wake_now(&session);
    }
    println!("{over_at_return} of 5,000 groups were over when their launch returned");
    soon(supervisor.shutdown()).await;
}

// B03, BAR-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_over_before_anyone_looks_wake_once() {
    let (supervisor, session) = start_with_parent().await;
    for _ in 0..5_000 {
        let group = session.fan_out([idle("a"), idle("b"), idle("c")]).await.unwrap();
        assert_eq!(woken(&session).await.group, *group.id());
        assert_no_wake_now(&session);
    }
    soon(supervisor.shutdown()).await;
}

// B03, J-20, BAR-8: on a runtime that is gone a body is dropped before the launch returns; that counts as an end.
#[test]
fn jobs_that_end_inside_their_launch_are_settled() {
    let runtime = two_workers();
    let (supervisor, session) = runtime.block_on(start_with_parent());
    runtime.shutdown_timeout(STUCK);

    let group = at_once(session.fan_out([idle("a"), idle("b")])).unwrap();
    assert_nothing_lives(&supervisor);
    let result = at_once(group.wait(None)).unwrap();
    let all = ["a", "b"].map(|label| (label.to_owned(), "error{interrupted}".to_owned()));
    assert_eq!(summaries(&result), all);
    assert_no_wake_now(&session);

    let group = at_once(session.fan_out([idle("c")])).unwrap();
    let wake = at_once(session.next_wake()).unwrap();
    assert_eq!(wake.result().group, *group.id());
    at_once(wake.ack()).unwrap();
    assert_no_wake_now(&session);
}

// B05, R6
#[tokio::test(start_paused = true)]
async fn a_child_cancelled_by_somebody_else_is_an_entry_of_the_one_wake() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let specs = [gated("1", &gate), gated("2", &gate), stubborn("3", &Alive::new())];
    let group = session.fan_out(specs).await.unwrap();
    let victim = group.jobs()[2].clone();
    let elsewhere = supervisor.clone();
    std::thread::spawn(move || at_once(elsewhere.cancel(&victim)).unwrap()).join().unwrap();
    gate.open();

    let expected = [("1", "completed"), ("2", "completed"), ("3", "cancelled{user}")];
    let wake = woken(&session).await;
    assert_eq!(summaries(&wake), expected.map(|(label, end)| (label.to_owned(), end.to_owned())));
    assert_eq!(wake.outcome, Outcome::Partial);
    no_wake(&session).await;
}

// B05: the last one to end, and the only one.
#[tokio::test(start_paused = true)]
async fn a_cancel_of_the_last_child_fires_the_group() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    for others in [0, 2] {
        let specs = (0..others).map(|_| idle("other")).chain([gated("last", &gate)]);
        let group = session.fan_out(specs).await.unwrap();
        if others > 0 {
            over(&supervisor, &group.jobs()[..others]).await;
        }
        assert_no_wake_now(&session);
        supervisor.cancel(&group.jobs()[others]).await.unwrap();
        let wake = woken(&session).await;
        assert_eq!(wake.entries[others].summary(), "cancelled{user}");
        no_wake(&session).await;
    }
}

// B09, W-1, W-4
#[tokio::test(start_paused = true)]
async fn a_job_that_finishes_while_its_parent_is_busy_is_one_message() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let job = session.start(gated("only", &gate)).await.unwrap();
    let turn = session.turn().await.unwrap();
    // Attempts that were put off, of which one stays.
    let mut attempts: Vec<_> = (0..5).map(|_| Box::pin(session.next_wake())).collect();
    for attempt in &mut attempts {
        assert!(poll_once(attempt.as_mut()).is_pending());
    }
    gate.open();
    over(&supervisor, std::slice::from_ref(job.id())).await;
    for attempt in &mut attempts {
        assert!(poll_once(attempt.as_mut()).is_pending(), "an early notice");
    }
    attempts.truncate(2);
    turn.end().await.unwrap();

    let wakes: Vec<_> = attempts
        .iter_mut()
        .filter_map(|attempt| match poll_once(attempt.as_mut()) {
            std::task::Poll::Ready(wake) => Some(wake.unwrap()),
            std::task::Poll::Pending => None,
        })
        .collect();
    assert_eq!(wakes.len(), 1, "the history holds one message");
    for wake in wakes {
        assert_eq!(wake.ack().await.unwrap().group, *job.group());
    }
    drop(attempts);
    no_wake(&session).await;
}

// B09, BAR-6: several turns, each with jobs that end before, in and after it.
#[tokio::test(start_paused = true)]
async fn each_turns_background_jobs_are_one_message() {
    let (supervisor, session) = start_with_parent().await;
    let late = Gate::new();
    let mut groups = Vec::new();
    for _ in 0..3 {
        let turn = session.turn().await.unwrap();
        let quick = session.start(idle("quick")).await.unwrap();
        let slow = session.start(gated("slow", &late)).await.unwrap();
        assert_eq!(quick.group(), slow.group(), "launches of one turn are one group");
        over(&supervisor, std::slice::from_ref(quick.id())).await;
        assert_eq!(supervisor.why_group(quick.group()).unwrap(), [Reason::Unsealed]);
        groups.push(quick.group().clone());
        turn.end().await.unwrap();
        assert_no_wake_now(&session);
    }
    late.open();
    let mut taken = Vec::new();
    for _ in &groups {
        let wake = woken(&session).await;
        let expected = [("quick", "completed"), ("slow", "completed")];
        assert_eq!(summaries(&wake), expected.map(|(label, end)| (label.to_owned(), end.to_owned())));
        taken.push(wake.group.clone());
    }
    taken.sort();
    groups.sort();
    assert_eq!(taken, groups);
    no_wake(&session).await;
}

// B03, BAR-5: all jobs of a turn are over before it ends; its end is the seal, and the seal fires.
#[tokio::test(start_paused = true)]
async fn a_turn_whose_jobs_are_over_wakes_at_its_end() {
    let (supervisor, session) = start_with_parent().await;
    for jobs in 1..=7 {
        let turn = session.turn().await.unwrap();
        let mut group = None;
        for n in 0..jobs {
            let job = session.start(idle(&format!("{n}"))).await.unwrap();
            over(&supervisor, std::slice::from_ref(job.id())).await;
            group = Some(job.group().clone());
        }
        assert_no_wake_now(&session);
        turn.end().await.unwrap();
        let wake = at_once(session.next_wake()).unwrap();
        assert_eq!(Some(&wake.result().group), group.as_ref());
        assert_eq!(wake.ack().await.unwrap().entries.len(), jobs);
        no_wake(&session).await;
    }
}

// W-4, R7: a parent that waits inside its own turn gets a wait's answer, and its wake after the turn.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_held_while_waiting_blocks_wakes_and_no_waits() {
    let (supervisor, session) = start_with_parent().await;
    let turn = session.turn().await.unwrap();
    let waited = session.fan_out([idle("a")]).await.unwrap();
    let owed = session.fan_out([idle("b")]).await.unwrap();
    let joined = session.start(idle("c")).await.unwrap();
    waited.wait(STUCK).await.unwrap();
    assert_eq!(joined.wait(STUCK).await.unwrap().summary(), "completed");
    no_wake(&session).await;
    assert_eq!(supervisor.why_group(owed.id()).unwrap(), [Reason::Busy]);

    drop(turn);
    assert_eq!(woken(&session).await.group, *owed.id());
    no_wake(&session).await;
    assert!(
        supervisor.why_group(joined.group()).unwrap().is_empty(),
        "its one result was taken before it fired"
    );
}

// S-1: one turn at a time, whichever handle of the session begins it; the next is as busy as the first.
#[tokio::test(start_paused = true)]
async fn a_session_has_one_turn_at_a_time() {
    let (supervisor, session) = start_with_parent().await;
    let same = supervisor.session("parent").await.unwrap();
    let first = session.turn().await.unwrap();
    assert_eq!(same.turn().await.unwrap_err().code(), "turn_open");
    first.end().await.unwrap();
    let second = same.turn().await.unwrap();
    session.fan_out([idle("a")]).await.unwrap().wait(STUCK).await.unwrap();
    let group = session.fan_out([idle("b")]).await.unwrap();
    over(&supervisor, group.jobs()).await;
    assert_no_wake_now(&session);
    drop(second);
    assert_eq!(woken(&session).await.group, *group.id());
}
