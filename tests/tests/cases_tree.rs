//! Cases of the tree: jobs that launch jobs, join them, and take them along.

use std::time::Duration;

use fanin_supervisor::protocol::{Bounds, Cause, Code, GroupId, JobId, JobInfo, Profile, Reason, Status};
use fanin_supervisor::{
    GroupOptions, JobError, JobFilter, JobOutput, JobSpec, RunContext, Session, SessionOptions, Supervisor,
};
use fanin_tests::cases::*;

/// All jobs, oldest first.
fn jobs(supervisor: &Supervisor) -> Vec<JobInfo> {
    supervisor.list(&JobFilter { limit: 1_000, ..JobFilter::default() }).unwrap().jobs
}

/// Lets others go on until this has come true.
async fn until(is_so: impl Fn() -> bool) {
    soon(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A job that puts out its label.
fn ok(label: &'static str) -> JobSpec {
    JobSpec::run(label, move |_| async move { Ok(label.into()) })
}

/// A job that ends when it is told to.
fn endless(label: &str) -> JobSpec {
    Way::Cancelled.job(label, &Gate::new())
}

async fn start_with_slots(slots: usize) -> (Supervisor, Session) {
    let supervisor = Supervisor::builder().slots(slots).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    (supervisor, session)
}

// B18: the job is not over until its work is, and the end of that work reaches the job's parent.
#[tokio::test(start_paused = true)]
async fn a_job_that_leaves_work_behind_is_over_with_that_work() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let left = gate.clone();
    let group = session
        .fan_out([JobSpec::run("leaver", |ctx| async move {
            ctx.start(gated("left", &left)).await?;
            Ok("returned".into())
        })])
        .await
        .unwrap();
    let mut wake = Box::pin(session.next_wake());
    assert!(poll_once(wake.as_mut()).is_pending());
    let job = group.jobs()[0].clone();
    until(|| supervisor.get(&job).unwrap().phase.as_deref() == Some("joining")).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(poll_once(wake.as_mut()).is_pending(), "woken with work left behind");
    let info = supervisor.get(&job).unwrap();
    assert_eq!((info.status, info.phase.as_deref()), (Status::Running, Some("joining")));
    assert!(matches!(&info.why[..], [Reason::Children { open: 1, first }] if first.len() == 1));

    gate.open();
    let wake = soon(wake).await.unwrap().ack().await.unwrap();
    assert_eq!(wake.entries.iter().map(output).collect::<Vec<_>>(), ["returned"]);
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
}

// B18: a body takes what it launched, by a wait or by its own wakes, and its siblings see nothing of it.
#[tokio::test(start_paused = true)]
async fn a_job_waits_for_its_children_and_is_woken_by_them() {
    let (supervisor, session) = start_with_parent().await;
    session
        .fan_out([JobSpec::run("parent", |ctx: RunContext| async move {
            let group = ctx.fan_out([ok("a"), ok("b")]).await?;
            let waited = group.wait(Duration::from_secs(5)).await?;
            ctx.start(ok("c")).await?;
            let wake = ctx.next_wake().await?.ack().await?;
            Ok(format!("{} then {}", waited.counts.completed, output(&wake.entries[0])).into())
        })])
        .await
        .unwrap();
    let wake = soon(session.next_wake()).await.unwrap().ack().await.unwrap();
    assert_eq!(wake.entries.iter().map(output).collect::<Vec<_>>(), ["2 then c"]);
    no_wake(&session).await;
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
}

/// A job with three children that run and two that wait, none of which ends by itself.
async fn family(ctx: RunContext) -> Result<JobOutput, JobError> {
    let never = |n| {
        JobSpec::run(format!("child_{n}"), |ctx: RunContext| async move {
            ctx.cancelled().await;
            Ok("stopped".into())
        })
    };
    ctx.fan_out((0..5).map(never)).await?;
    ctx.cancelled().await;
    Ok("stopped".into())
}

// B34
#[tokio::test(start_paused = true)]
async fn a_cancelled_parent_takes_all_five_children_along() {
    let (supervisor, session) = start_with_slots(4).await;
    let parent = session.start(JobSpec::run("parent", family)).await.unwrap();
    until(|| jobs(&supervisor).len() == 6).await;
    parent.cancel().await.unwrap();
    let entry = soon(parent.wait(Duration::from_secs(15))).await.unwrap();
    assert_eq!((entry.status, entry.cause), (Status::Cancelled, Some(Cause::User)));
    let all = jobs(&supervisor);
    let children: Vec<_> = all.iter().filter(|info| info.job != *parent.id()).collect();
    assert_eq!(children.len(), 5);
    assert!(
        children.iter().all(|info| (info.status, info.cause) == (Status::Cancelled, Some(Cause::Parent)))
    );
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
}

// B37: how a job ends says why, whoever ended it.
#[tokio::test(start_paused = true)]
async fn six_ends_have_six_reasons() {
    let (supervisor, session) = start_with_parent().await;
    let limit = Duration::from_secs(1);
    let user = session.start(endless("user")).await.unwrap();
    user.cancel().await.unwrap();
    let parent = session.start(JobSpec::run("parent", family)).await.unwrap();
    until(|| jobs(&supervisor).len() == 7).await;
    parent.cancel().await.unwrap();
    soon(parent.wait(None)).await.unwrap();
    let all = jobs(&supervisor);
    let child = all.iter().find(|info| info.label.as_deref() == Some("child_0")).unwrap();

    let deadline = session.start(endless("deadline").timeout(limit)).await.unwrap();
    let silent = session.start(endless("silent").idle(limit)).await.unwrap();
    let lost = session.start(JobSpec::run("lost", |_| async { panic!("planned: crash") })).await.unwrap();
    let group = [user.wait(None).await, soon(deadline.wait(None)).await, soon(silent.wait(None)).await];
    let crash = soon(lost.wait(None)).await.unwrap();
    let last = session.start(endless("last")).await.unwrap();
    soon(supervisor.shutdown()).await;

    let shutdown = supervisor.get(last.id()).unwrap();
    let mut reasons =
        vec![(child.status, child.cause, child.code), (shutdown.status, shutdown.cause, shutdown.code)];
    reasons.extend(group.into_iter().chain([Ok(crash)]).map(|entry| {
        let entry = entry.unwrap();
        (entry.status, entry.cause, entry.code)
    }));
    let cancelled = |cause| (Status::Cancelled, Some(cause), None);
    let timeout = |code| (Status::Error, Some(Cause::Timeout), Some(code));
    let expected = [
        cancelled(Cause::Parent),
        cancelled(Cause::Shutdown),
        cancelled(Cause::User),
        timeout(Code::Run),
        timeout(Code::Idle),
        (Status::Error, Some(Cause::Panic), None),
    ];
    assert_eq!(reasons, expected);
}

/// A job that launches one like it below itself, so many deep, and waits for it.
fn chain(depth: u32) -> JobSpec {
    JobSpec::run(format!("depth_{depth}"), move |ctx: RunContext| async move {
        if depth == 1 {
            return Ok("1".into());
        }
        let below = Box::pin(ctx.start(chain(depth - 1))).await?.wait(None).await?;
        Ok(format!("{} {depth}", output(&below)).into())
    })
}

// B68: parents that hold all slots and wait for their children stand still at no number of slots.
#[tokio::test(start_paused = true)]
async fn parents_that_hold_all_slots_do_not_stand_still() {
    for slots in 1..=4 {
        let (supervisor, session) = start_with_slots(slots).await;
        session.fan_out((0..3).map(|_| chain(2))).await.unwrap();
        session.start(chain(8)).await.unwrap();
        let wake = soon(session.next_wake()).await.unwrap().ack().await.unwrap();
        assert_eq!(wake.entries.iter().map(output).collect::<Vec<_>>(), ["1 2"; 3], "{slots} slots");
        let wake = soon(session.next_wake()).await.unwrap().ack().await.unwrap();
        assert_eq!(output(&wake.entries[0]), "1 2 3 4 5 6 7 8", "{slots} slots");
        assert_nothing_lives(&supervisor);
        soon(supervisor.shutdown()).await;
    }
}

// B68, SC-10: what waits says so, and never more run than there are slots.
#[tokio::test(start_paused = true)]
async fn a_waiting_parent_is_shown_and_its_slot_is_used() {
    let (supervisor, session) = start_with_slots(1).await;
    let gate = Gate::new();
    let held = gate.clone();
    let parent = session
        .start(JobSpec::run("parent", move |ctx: RunContext| async move {
            let below = ctx.fan_out([gated("below", &held)]).await?.wait(Duration::from_secs(60)).await?;
            Ok(below.entries[0].job.to_string().into())
        }))
        .await
        .unwrap();
    let next = session.start(ok("next")).await.unwrap();
    let waits = || supervisor.get(parent.id()).unwrap().phase;
    until(|| waits().as_deref() == Some("waiting")).await;
    let below = jobs(&supervisor).pop().unwrap().job;
    assert_eq!(supervisor.why(parent.id()).unwrap(), [Reason::Waiting { first: vec![below.clone()] }]);
    until(|| {
        supervisor.get(next.id()).unwrap().status == Status::Completed
            || supervisor.get(&below).unwrap().status == Status::Running
    })
    .await;
    gate.open();
    assert_eq!(output(&soon(parent.wait(None)).await.unwrap()), below.to_string());
    soon(next.wait(None)).await.unwrap();
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
}

// SC-10: a wait that runs out inside a job goes on at once, whoever has the slots meanwhile.
#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_inside_a_job_needs_no_slot() {
    let (supervisor, session) = start_with_slots(1).await;
    let gate = Gate::new();
    let held = gate.clone();
    let job = session
        .start(JobSpec::run("impatient", move |ctx: RunContext| async move {
            let below = ctx.fan_out([gated("below", &held)]).await?;
            let error = below.wait(Duration::from_secs(1)).await.expect_err("it is still open");
            held.open();
            Ok(error.code().into())
        }))
        .await
        .unwrap();
    assert_eq!(output(&soon(job.wait(None)).await.unwrap()), "wait_timed_out");
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
}

// B49, B50: whatever way nested jobs end, all slots come back, and only once.
#[tokio::test(start_paused = true)]
async fn slots_come_back_from_nested_jobs_however_they_end() {
    watch_panics();
    let (supervisor, session) = start_with_slots(3).await;
    for round in 0..50 {
        let way = WAYS[round % WAYS.len()];
        let (gate, alive) = (Gate::new(), Alive::new());
        let (inner, one) = (gate.clone(), alive.clone());
        let parent = session
            .start(JobSpec::run("parent", move |ctx: RunContext| async move {
                let _one = one.one();
                let below = ctx.start(way.job("below", &inner)).await?;
                let end = below.wait(Duration::from_secs(60));
                tokio::select! {
                    entry = end => Ok(entry?.summary().into()),
                    () = ctx.cancelled() => Err(JobError::new("stopped")),
                }
            }))
            .await
            .unwrap();
        until(|| jobs(&supervisor).len() == 2 * round + 2).await;
        let below = jobs(&supervisor).pop().unwrap().job;
        if round % 3 == 0 {
            parent.cancel().await.unwrap();
        } else {
            way.end(&supervisor, &below, &gate).await;
        }
        soon(parent.wait(None)).await.unwrap();
        soon(alive.gone()).await;
    }
    let (gates, jobs): (Vec<Gate>, Vec<JobSpec>) = (0..4)
        .map(|n| {
            let gate = Gate::new();
            let job = gated(&n.to_string(), &gate);
            (gate, job)
        })
        .unzip();
    let group = session.fan_out(jobs).await.unwrap();
    let running = || {
        let is_running = |job| supervisor.get(job).unwrap().status == Status::Running;
        group.jobs().iter().filter(|job| is_running(job)).count()
    };
    until(|| running() == 3).await;
    gates.iter().for_each(Gate::open);
    soon(group.wait(None)).await.unwrap();
    assert_nothing_lives(&supervisor);
    assert_no_panic_of_ours();
    soon(supervisor.shutdown()).await;
}

// B71: a launch waits for no clean-up, and says who has the slots.
#[tokio::test(start_paused = true)]
async fn a_launch_at_the_cap_returns_at_once_and_names_who_holds_it() {
    let (supervisor, session) = start_with_slots(2).await;
    let alive = Alive::new();
    let stuck = session.start(stubborn("stuck", &alive)).await.unwrap();
    let busy = session.start(endless("busy")).await.unwrap();
    let done = session.start(ok("done")).await.unwrap();
    done.cancel().await.unwrap();
    stuck.cancel().await.unwrap();
    let queued = at_once(session.start(ok("queued"))).unwrap();
    let Reason::Slot { position: 1, held_by } = &supervisor.why(queued.id()).unwrap()[0] else {
        panic!("{:?}", supervisor.why(queued.id()));
    };
    assert_eq!(held_by, &[stuck.id().clone(), busy.id().clone()]);
    busy.cancel().await.unwrap();
    soon(queued.wait(None)).await.unwrap();
    soon(supervisor.shutdown()).await;
}

// B79, SEC-5: no verb, and no name, gets a worker of an agent below its depth.
#[tokio::test(start_paused = true)]
async fn a_worker_at_the_depth_limit_launches_by_no_verb() {
    let supervisor = Supervisor::builder().profile(Profile::Agent).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let (known, group) = (JobId::parse("known").unwrap(), GroupId::parse("known").unwrap());
    let ids = (known.clone(), group.clone());
    let worker = JobSpec::run("worker", move |ctx: RunContext| async move {
        let (known, group) = ids;
        let named = GroupOptions { id: Some(group), ..GroupOptions::default() };
        let tries = [
            ctx.start(ok("a")).await.map(drop),
            ctx.start(ok("b").id(known.clone())).await.map(drop),
            ctx.start(ok("c").id(known.clone()).again()).await.map(drop),
            ctx.fan_out([ok("d"), ok("e")]).await.map(drop),
            ctx.fan_out_with(named.clone(), [ok("f"), ok("g")]).await.map(drop),
            ctx.fan_out_with(named, [ok("h").id(known).again(), ok("i")]).await.map(drop),
        ];
        let codes: Vec<_> = tries.into_iter().map(|tried| tried.map_err(|error| error.code())).collect();
        Ok(format!("{codes:?}").into())
    });
    let options = GroupOptions { id: Some(group), ..GroupOptions::default() };
    session.fan_out_with(options, [ok("known").id(known), worker]).await.unwrap();
    let wake = soon(session.next_wake()).await.unwrap().ack().await.unwrap();
    assert_eq!(output(&wake.entries[1]), format!("{:?}", [Err::<(), _>("depth"); 6]));
    assert_eq!(jobs(&supervisor).len(), 2, "the parent asked for two");
    soon(supervisor.shutdown()).await;
}

// B56, B58, SC-21: what is beyond the profile of an agent is refused at once, with names and numbers.
#[tokio::test(start_paused = true)]
async fn an_agents_session_is_kept_within_its_profile() {
    let supervisor = Supervisor::builder().runner(FakeAgent::new()).start().await.unwrap();
    let agent = SessionOptions { profile: Some(Profile::Agent), bounds: None };
    let session = supervisor.session_with("model", agent).await.unwrap();
    let some = |n| (0..n).map(|n: usize| ok(["a", "b"][n % 2]));
    for (members, code, words) in
        [(0, "empty", "the list"), (1, "too_few", "at least 2"), (8, "too_many", "at most 7")]
    {
        let error = session.fan_out(some(members)).await.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.to_string().contains(words), "{error}");
    }
    let huge = || JobSpec::agent("huge", "talks", "x".repeat(1 << 20));
    let error = session.fan_out((0..7).map(|_| huge())).await.unwrap_err();
    assert_eq!(error.code(), "too_large");
    assert!(error.to_string().contains("1048576 bytes; at most 8000"), "{error}");
    for _ in 0..9 {
        session.fan_out(some(7)).await.unwrap();
        soon(session.next_wake()).await.unwrap().ack().await.unwrap();
    }
    let error = session.fan_out(some(2)).await.unwrap_err();
    assert_eq!((error.code(), error.to_string().contains("at most 64")), ("spawn_total", true), "{error}");
    session.start(ok("the last")).await.unwrap();
    assert_eq!(session.start(ok("one more")).await.unwrap_err().code(), "spawn_total");
    assert_eq!(jobs(&supervisor).len(), 64);

    let none = Bounds { depth: 0, ..Bounds::default() };
    let options = SessionOptions { profile: None, bounds: Some(none) };
    assert_eq!(supervisor.session_with("none", options).await.unwrap_err().code(), "bad_bounds");
    let error = Supervisor::builder().bounds(none).start().await.unwrap_err();
    assert_eq!(error.code(), "bad_bounds");
    soon(supervisor.shutdown()).await;
}

// B51, SC-6: dropped with nested waits, everything is gone at once; a handle inside a job keeps nothing alive.
#[tokio::test]
async fn a_supervisor_dropped_with_nested_waits_is_gone() {
    let (supervisor, session) = start_with_slots(1).await;
    let alive = Alive::new();
    let (outer, inner) = (alive.one(), alive.one());
    let launched = Gate::new();
    let told = launched.clone();
    session
        .start(JobSpec::run("outer", move |ctx: RunContext| async move {
            let _outer = outer;
            let group = ctx
                .fan_out([JobSpec::run("inner", move |ctx: RunContext| async move {
                    let _inner = inner;
                    told.open();
                    ctx.next_wake().await?.ack().await?;
                    Ok(().into())
                })])
                .await?;
            group.wait(None).await?;
            Ok(().into())
        }))
        .await
        .unwrap();
    soon(launched.passed()).await;
    drop((session, supervisor));
    soon(alive.gone()).await;
}
