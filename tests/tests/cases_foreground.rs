//! Cases of foreground calls through the library: they come back once, whoever sends them away, and nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use fanin_supervisor::protocol::{Cause, GroupId, JobId, Status};
use fanin_supervisor::{
    Background, Backgrounded, Foreground, GroupOptions, JobSpec, Promotion, Returned, RunError, Session,
    Supervisor, WaitError,
};
use fanin_tests::cases::*;

fn id(name: &str) -> JobId {
    JobId::parse(name).unwrap()
}

fn named(name: &str, gate: &Gate) -> JobSpec {
    gated(name, gate).id(id(name))
}

/// A call that is under way in a task of its own, as that of a harness is.
fn call(session: &Session, specs: Vec<JobSpec>, limit: Option<Duration>) -> Call {
    let session = session.clone();
    tokio::spawn(async move { session.run(specs, limit).await })
}

type Call = tokio::task::JoinHandle<Result<Foreground, RunError>>;

/// Waits until a job exists.
async fn there(supervisor: &Supervisor, job: &JobId) {
    let there = async {
        while supervisor.get(job).is_err() {
            tokio::task::yield_now().await;
        }
    };
    soon(there).await;
}

// SC-20: a call that nobody promotes is launch and wait.
#[tokio::test(start_paused = true)]
async fn a_call_comes_back_with_its_result() {
    let (supervisor, session) = start_with_parent().await;
    let over = session.run([idle("a"), idle("b")], None).await.unwrap();
    let Foreground::Over(result) = over else { panic!("{over:?}") };
    assert_eq!((result.counts.completed, result.already_delivered), (2, false));
    assert_no_wake_now(&session);
    assert_eq!(supervisor.why_group(&result.group).unwrap(), []);
    // Done again, as by one whose answer was lost, it finds what there is.
    let options = || GroupOptions { id: Some(result.group.clone()), ..GroupOptions::default() };
    let again = session.run_with(options(), [idle("a"), idle("b")], QUIET).await.unwrap();
    let Foreground::Over(again) = again else { panic!("{again:?}") };
    assert_eq!((&again.result, again.already_delivered), (&result.result, true));
    assert_eq!(supervisor.promote_group(&result.group).await.unwrap(), Promotion::AlreadyDone);
}

// SC-20, BAR-12: no job is stopped or started anew; the call comes back at once, and one wake brings the result.
#[tokio::test(start_paused = true)]
async fn a_promoted_call_comes_back_at_once_and_its_jobs_go_on() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let call = call(&session, vec![named("a", &gate), named("b", &gate)], None);
    there(&supervisor, &id("b")).await;
    let before = supervisor.get(&id("a")).unwrap();
    let hook = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.wait_for_promotion(&id("a")).await }
    });
    assert_eq!(supervisor.promote(&id("a")).await.unwrap(), Promotion::Promoted);
    assert_eq!(supervisor.promote(&id("b")).await.unwrap(), Promotion::NotWaiting);
    let Foreground::Backgrounded(group, why) = soon(call).await.unwrap().unwrap() else {
        panic!("it waited")
    };
    assert_eq!(why, Backgrounded::Promoted);
    assert_eq!(soon(hook).await.unwrap().unwrap(), Background::Left);
    assert_eq!(supervisor.get(&id("a")).unwrap(), before, "promotion is no matter of the job's");
    assert_no_wake_now(&session);
    gate.open();
    let wake = woken(&session).await;
    assert_eq!((&wake.group, wake.counts.completed), (group.id(), 2));
    assert_eq!(wake.entries.iter().map(|entry| entry.runs).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(supervisor.promote(&id("a")).await.unwrap(), Promotion::AlreadyDone);
    no_wake(&session).await;
}

// SC-20, BAR-11: a limit sends the call away as a promotion does.
#[tokio::test(start_paused = true)]
async fn a_call_whose_limit_passes_goes_on_in_the_background() {
    let (supervisor, session) = start_with_parent().await;
    for limit in [Duration::ZERO, Duration::from_millis(7)] {
        let gate = Gate::new();
        let job = gated("a", &gate);
        let back = session.run([job], limit).await.unwrap();
        let Foreground::Backgrounded(group, Backgrounded::Limit) = back else { panic!("{back:?}") };
        assert_eq!(supervisor.get(&group.jobs()[0]).unwrap().status, Status::Running);
        assert_eq!(supervisor.promote(&group.jobs()[0]).await.unwrap(), Promotion::NotWaiting);
        gate.open();
        assert_eq!(woken(&session).await.group, *group.id());
        no_wake(&session).await;
    }
}

// SC-20: `wait_for_promotion` never hangs, whatever ends it.
#[tokio::test(start_paused = true)]
async fn waiting_for_promotion_ends_with_the_call_or_with_the_job() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    // The job of a call that goes on.
    let mut run = Box::pin(session.run([named("a", &gate), gated("b", &Gate::new())], None));
    assert!(poll_once(run.as_mut()).is_pending());
    let a = id("a");
    let mut first = Box::pin(supervisor.wait_for_promotion(&a));
    assert!(poll_once(first.as_mut()).is_pending());
    gate.open();
    assert_eq!(soon(first).await.unwrap(), Background::Over);
    assert!(poll_once(run.as_mut()).is_pending());
    drop(run);
    assert_eq!(at_once(supervisor.wait_for_promotion(&a)).unwrap(), Background::Over);
    // A call that is dropped.
    let closed = Gate::new();
    let mut run = Box::pin(session.run([named("c", &closed)], None));
    assert!(poll_once(run.as_mut()).is_pending());
    let c = id("c");
    let mut second = Box::pin(supervisor.wait_for_promotion(&c));
    assert!(poll_once(second.as_mut()).is_pending());
    drop(run);
    assert_eq!(at_once(second).unwrap(), Background::Left);
    // A job that was never in the foreground, and one that is not known.
    let d = session.start(named("d", &closed)).await.unwrap();
    assert_eq!(at_once(supervisor.wait_for_promotion(d.id())).unwrap(), Background::Left);
    assert_eq!(supervisor.wait_for_promotion(&id("x")).await.unwrap_err().code(), "unknown_job");
    assert_eq!(supervisor.promote(&id("x")).await.unwrap_err().code(), "unknown_job");
    let unknown = GroupId::parse("x").unwrap();
    assert_eq!(supervisor.promote_group(&unknown).await.unwrap_err().code(), "unknown_group");
}

// SC-20: a body that is quicker than its caller finds the caller there, and hears once.
#[tokio::test(start_paused = true)]
async fn a_body_hears_that_nobody_watches_it_any_more() {
    let (supervisor, session) = start_with_parent().await;
    let heard = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&heard);
    let spec = JobSpec::run("a", move |context| async move {
        let background = context.wait_for_promotion().await.unwrap();
        assert_eq!(background, Background::Left);
        counter.fetch_add(1, Ordering::SeqCst);
        Ok("quiet now".into())
    });
    let call = call(&session, vec![spec.id(id("a"))], None);
    there(&supervisor, &id("a")).await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(heard.load(Ordering::SeqCst), 0, "it was told before anything happened");
    assert_eq!(supervisor.promote(&id("a")).await.unwrap(), Promotion::Promoted);
    assert!(matches!(soon(call).await.unwrap().unwrap(), Foreground::Backgrounded(..)));
    assert_eq!(output(&woken(&session).await.entries[0]), "quiet now");
    assert_eq!(heard.load(Ordering::SeqCst), 1);
}

// BAR-9, SH: a call whose parent goes, or whose supervisor does, comes back.
#[tokio::test(start_paused = true)]
async fn a_call_comes_back_where_its_parent_goes() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let call_a = call(&session, vec![named("a", &gate)], None);
    there(&supervisor, &id("a")).await;
    session.close().await.unwrap();
    assert_eq!(soon(call_a).await.unwrap().unwrap_err(), RunError::Wait(WaitError::Voided));
    let refused = session.run([named("b", &gate)], None).await.unwrap_err();
    assert_eq!(refused.code(), "session_closed");
    let other = supervisor.session("other").await.unwrap();
    let call_c = call(&other, vec![named("c", &gate)], None);
    there(&supervisor, &id("c")).await;
    soon(supervisor.shutdown()).await;
    // The job was stopped first, so the call has its result.
    let over = soon(call_c).await.unwrap().unwrap();
    let Foreground::Over(result) = over else { panic!("{over:?}") };
    assert_eq!(result.entries[0].status, Status::Cancelled);
}

// SC-20, R2: promotions, limits, drops and the end of the job race on other threads: exactly one way, and one result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_a_call_comes_back_the_result_comes_exactly_once() {
    watch_panics();
    let mut chance = Chance::new();
    let (supervisor, session) = start_with_parent().await;
    for round in 0..1_000 {
        let gate = Gate::new();
        let (name, other) = (id(&format!("a{round}")), id(&format!("b{round}")));
        let specs = vec![gated("a", &gate).id(name.clone()), gated("b", &gate).id(other.clone())];
        let limit = [None, None, Some(Duration::from_micros(chance.below(200) as u64))][chance.below(3)];
        let mut run = Box::pin({
            let session = session.clone();
            async move { session.run(specs, limit).await }
        });
        // The launch is over with the first poll as a rule; where it is not, the call stays. A limit of no time may pass
        // in it, and the call is back.
        let first = (chance.below(4) == 0).then(|| poll_once(run.as_mut()));
        let leaves = matches!(first, Some(Poll::Pending)) && supervisor.get(&name).is_ok();
        let mut dawdles = chance.fork();
        let caller = tokio::spawn(async move {
            if let Some(Poll::Ready(back)) = first {
                return Some(back.unwrap());
            }
            tokio::select! {
                biased;
                back = run.as_mut() => Some(back.unwrap()),
                () = dawdles.dawdle(6), if leaves => None,
            }
        });
        there(&supervisor, &name).await;
        let promoter = tokio::spawn({
            let (supervisor, name, mut chance) = (supervisor.clone(), name.clone(), chance.fork());
            async move {
                chance.dawdle(4).await;
                let first = supervisor.promote(&name).await.unwrap();
                (first, supervisor.promote(&name).await.unwrap())
            }
        });
        let hook = tokio::spawn({
            let (supervisor, name) = (supervisor.clone(), name.clone());
            async move { supervisor.wait_for_promotion(&name).await.unwrap() }
        });
        chance.dawdle(5).await;
        gate.open();
        let back = soon(caller).await.unwrap();
        let (first, second) = soon(promoter).await.unwrap();
        soon(hook).await.unwrap();
        over(&supervisor, &[name, other]).await;
        assert_ne!(second, Promotion::Promoted, "round {round}: promoted twice");
        match back {
            Some(Foreground::Over(result)) => {
                assert_ne!(first, Promotion::Promoted, "round {round}: promoted, and it has its result");
                assert_eq!((result.counts.completed, result.already_delivered), (2, false), "round {round}");
            }
            Some(Foreground::Backgrounded(group, why)) => {
                let fits = first == Promotion::Promoted || why == Backgrounded::Limit;
                assert!(fits, "round {round}: {why:?}, and promote said {first:?}");
                let wake = woken(&session).await;
                assert_eq!((&wake.group, wake.counts.completed), (group.id(), 2), "round {round}");
            }
            None => assert_eq!(woken(&session).await.counts.completed, 2, "round {round}"),
        }
        assert_no_wake_now(&session);
    }
    soon(supervisor.shutdown()).await;
    assert_no_panic_of_ours();
}

// A job calls as a session does; promoted, its body is woken.
#[tokio::test(start_paused = true)]
async fn a_job_calls_in_the_foreground_and_is_woken_once_promoted() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let below = named("b", &gate);
    let spec = JobSpec::run("a", move |context| async move {
        let back = context.run([below], None).await?;
        assert!(matches!(back, Foreground::Backgrounded(_, Backgrounded::Promoted)));
        let wake = context.next_wake().await?;
        let said = output(&wake.result().entries[0]).to_owned();
        wake.ack().await?;
        Ok(said.into())
    });
    let group = session.fan_out([spec]).await.unwrap();
    there(&supervisor, &id("b")).await;
    let mut promoted = supervisor.promote(&id("b")).await.unwrap();
    // Its launch is known before its body waits; the call is there all the same.
    assert_eq!(promoted, Promotion::Promoted);
    promoted = supervisor.promote(group.jobs().first().unwrap()).await.unwrap();
    assert_eq!(promoted, Promotion::NotWaiting);
    gate.open();
    assert_eq!(output(&woken(&session).await.entries[0]), "b");
}

// The poll that finds an answer there does not wait for its limit.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_wins_over_the_limit() {
    let (supervisor, session) = start_with_parent().await;
    let options = GroupOptions { id: Some(GroupId::parse("g").unwrap()), ..GroupOptions::default() };
    let group = session.fan_out_with(options.clone(), [idle("a")]).await.unwrap();
    over(&supervisor, group.jobs()).await;
    let mut run = Box::pin(session.run_with(options, [idle("a")], Duration::ZERO));
    let Poll::Ready(Ok(Foreground::Over(result))) = poll_once(run.as_mut()) else { panic!("it waited") };
    assert_eq!(result.group, *group.id());
    no_wake(&session).await;
}

// BAR-12: the two halves of a call, for one who has to hand the result on. What was not handed on is owed, by every way in
// which it could have been asked for.
#[tokio::test(start_paused = true)]
async fn an_offered_result_is_held_until_it_is_taken_and_owed_where_it_is_not() {
    let (supervisor, session) = start_with_parent().await;
    let call = session.call(GroupOptions::default(), [idle("a"), idle("b")]).await.unwrap();
    let group = call.group().clone();
    let Returned::Over(offered) = soon(call.returned(None)).await.unwrap() else { panic!("it waited") };
    assert_eq!((offered.counts.completed, offered.already_delivered), (2, false));
    assert_no_wake_now(&session);
    drop(offered);
    let offered = at_once(group.wait_offered(None)).unwrap();
    assert!(!offered.already_delivered);
    assert_no_wake_now(&session);
    drop(offered);
    let job = &group.jobs()[..1];
    let offered = at_once(session.wait_all_offered(job, None)).unwrap();
    assert_eq!((offered.entries.len(), offered.already_delivered), (1, false));
    drop(offered);
    let wake = woken(&session).await;
    assert!(wake.entries.iter().all(|entry| !entry.reference), "{wake:?}");
    // Once it is taken, whoever asks again is told so.
    assert!(at_once(group.wait_offered(None)).unwrap().take().already_delivered);
    assert_eq!(supervisor.why_group(group.id()).unwrap(), []);
    no_wake(&session).await;
}

// BAR-15: what an offer took is a reference in the wake of the rest.
#[tokio::test(start_paused = true)]
async fn a_job_whose_offered_result_was_taken_is_a_reference_in_the_wake() {
    let (_supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let group = session.fan_out([idle("a"), gated("b", &gate)]).await.unwrap();
    let waited = soon(session.wait_all_offered(&group.jobs()[..1], None)).await.unwrap();
    assert_eq!(waited.take().entries.len(), 1);
    gate.open();
    let wake = woken(&session).await;
    assert_eq!(wake.entries.iter().map(|entry| entry.reference).collect::<Vec<_>>(), [true, false]);
}

// BAR-12: a call that is dropped between its halves has left, and its jobs go on.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_between_its_halves_is_in_the_background() {
    let (_supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let call = session.call(GroupOptions::default(), [gated("a", &gate)]).await.unwrap();
    let group = call.group().id().clone();
    drop(call);
    gate.open();
    assert_eq!(woken(&session).await.group, group);
    no_wake(&session).await;
}

// 14.10: jobs whose client is gone say so, and have no more time than they are given.
#[tokio::test(start_paused = true)]
async fn jobs_of_a_client_that_is_gone_end_for_that_reason() {
    let (_supervisor, session) = start_with_parent().await;
    let alive = Alive::new();
    let group = session.fan_out([stubborn("a", &alive), idle("b")]).await.unwrap();
    soon(session.wait_all(&group.jobs()[1..], None)).await.unwrap();
    let begun = tokio::time::Instant::now();
    group.client_gone(Duration::from_millis(500)).await.unwrap();
    let result = soon(group.wait(None)).await.unwrap();
    assert_eq!(result.entries[0].cause, Some(Cause::ClientGone));
    assert_eq!(result.entries[1].status, Status::Completed);
    assert!(begun.elapsed() <= Duration::from_millis(600), "{:?}", begun.elapsed());
}
