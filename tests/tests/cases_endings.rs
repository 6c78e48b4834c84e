//! Cases of the one ending: told once, told truthfully, and nothing of the job left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fanin_machine::guard::GuardCell;
use fanin_supervisor::protocol::limits::{KILL_WAIT, PANIC_BYTES_MAX};
use fanin_supervisor::protocol::{
    Cause, Code, JobId, JobKind, Left, LeftProcess, Outcome, PartState, Policy, Spec, Status, Threshold,
};
use fanin_supervisor::{
    Bound, Ending, GroupOptions, JobError, JobSpec, RunContext, RunFuture, Runner, Session, Supervisor,
};
use fanin_tests::cases::*;
use tokio::sync::{Barrier, oneshot};
use tokio::time::Instant;

// B06, BAR-8: a body that fails at once, one that fails before it has a future, a runner that cannot start.
#[tokio::test(start_paused = true)]
async fn what_is_dead_at_birth_is_an_error_at_once() {
    let agents = FakeAgent::new();
    let supervisor = Supervisor::builder().slots(1).runner(agents.clone()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let started = Instant::now();
    let specs = [
        JobSpec::run("fails", |_| async { Err(JobError::new("no such folder")) }),
        JobSpec::run("panics", |_| -> std::future::Ready<_> { panic!("planned: at birth") }),
        JobSpec::agent("fails too", "fails", "no such model"),
        JobSpec::agent("panics too", "panics_at_start", "at birth"),
        idle("lives"),
    ];
    let group = session.fan_out(specs).await.unwrap();
    let result = soon(group.wait(None)).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(100));
    let said: Vec<_> = result
        .entries
        .iter()
        .map(|entry| (entry.summary(), entry.message.as_deref().unwrap_or_default()))
        .collect();
    let expected = [
        ("error{failed}", "no such folder"),
        ("error{panic}", "planned: at birth"),
        ("error{failed no_output}", "no such model"),
        ("error{panic}", "planned: at birth"),
        // The one slot came back four times.
        ("completed", ""),
    ];
    assert_eq!(said, expected.map(|(end, message)| (end.to_owned(), message)));
    assert_eq!(agents.alive.count(), 0);
    assert_nothing_lives(&supervisor);
    no_wake(&session).await;
}

/// A runner whose runs are told to be over by three tasks at once.
#[derive(Debug, Clone, Default)]
struct ThreeTellers {
    alive: Alive,
    most: Arc<AtomicUsize>,
    ends: Arc<AtomicUsize>,
}

impl Runner for ThreeTellers {
    fn kind(&self) -> JobKind {
        JobKind::Agent
    }

    fn check(&self, _: &Spec) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, _: Arc<Spec>, _: RunContext) -> RunFuture {
        let runner = self.clone();
        Box::pin(async move {
            let _one = runner.alive.one();
            runner.most.fetch_max(runner.alive.count(), Ordering::SeqCst);
            let (tell, told) = oneshot::channel();
            let ends = Arc::clone(&runner.ends);
            let cell = GuardCell::new(move |ending: Option<Ending>| {
                ends.fetch_add(1, Ordering::SeqCst);
                // Nobody listens any more where the job was stopped first.
                let _ = tell.send(ending.expect("somebody told"));
            });
            let start = Arc::new(Barrier::new(3));
            for teller in ["exit status", "end of stream", "watchdog"] {
                let (cell, start) = (cell.clone(), Arc::clone(&start));
                tokio::spawn(async move {
                    start.wait().await;
                    cell.settle(Ending::completed(teller.into()))
                });
            }
            drop(cell);
            told.await.unwrap()
        })
    }
}

// B10, R1, J-15: 10,000 endings, each told by three tasks, and by a cancel besides for some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_reports_of_one_ending_are_one_ending() {
    const CAP: usize = 3;
    watch_panics();
    let mut chance = Chance::new();
    let runner = ThreeTellers::default();
    let supervisor = Supervisor::builder().slots(CAP).runner(runner.clone()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let witness = Witness::of(&supervisor).await;
    let mut groups = Vec::new();
    for _ in 0..10 {
        let specs = (0..1_000).map(|n| JobSpec::agent(format!("{n}"), "any", "Look").grace(Duration::ZERO));
        groups.push(session.fan_out(specs).await.unwrap());
    }
    let canceller = tokio::spawn({
        let supervisor = supervisor.clone();
        let jobs: Vec<_> = groups.iter().flat_map(|group| group.jobs().to_vec()).collect();
        async move {
            for job in &jobs {
                if chance.below(4) == 0 {
                    supervisor.cancel(job).await.unwrap();
                    chance.dawdle(2).await;
                }
            }
        }
    });
    for group in &groups {
        let result = group.wait(STUCK).await.unwrap();
        assert_eq!((result.counts.launched, result.counts.ended(), result.counts.error), (1_000, 1_000, 0));
        for entry in &result.entries {
            assert_eq!(supervisor.get(&entry.job).unwrap().status, entry.status);
        }
    }
    canceller.await.unwrap();
    assert_nothing_lives(&supervisor);
    assert_eq!(runner.most.load(Ordering::SeqCst), CAP, "a slot was given twice, or is lost");

    // All slots are back: as many as the cap run at once, and no more.
    let gate = Gate::new();
    let last = session.fan_out((0..=CAP).map(|_| gated("last", &gate))).await.unwrap();
    let status = |job: &JobId| supervisor.get(job).unwrap().status;
    assert_eq!(last.jobs().iter().filter(|job| status(job) == Status::Running).count(), CAP);
    assert_eq!(status(&last.jobs()[CAP]), Status::Queued);
    gate.open();
    last.wait(STUCK).await.unwrap();
    assert_no_wake_now(&session);
    soon(supervisor.shutdown()).await;
    assert_eq!(runner.alive.count(), 0);
    assert_eq!(witness.at_end().await.jobs.len(), 10_000 + CAP + 1);
    assert_no_panic_of_ours();
}

/// Ends well after `late`, whatever it is told.
fn deaf(label: &str, late: Duration) -> JobSpec {
    JobSpec::run(label, move |_| async move {
        tokio::time::sleep(late).await;
        Ok("the real answer".into())
    })
}

// B11, J-17: the answer came late; its effects happened, and the timeout stands.
#[tokio::test(start_paused = true)]
async fn a_result_after_the_timeout_does_not_undo_it() {
    let (supervisor, session) = start_with_parent().await;
    let second = Duration::from_secs(1);
    let group = session.fan_out([deaf("late", 2 * second).timeout(second), idle("fine")]).await.unwrap();
    let started = Instant::now();
    let wake = woken(&session).await;
    assert_eq!(started.elapsed(), 2 * second);
    let late = &wake.entries[0];
    assert_eq!(late.summary(), "error{timeout run}");
    assert!(late.completed_anyway, "its effects happened, and it says so");
    assert_eq!(output(late), "the real answer", "kept as late output");
    assert_eq!(wake.outcome, Outcome::Partial);
    assert_eq!(supervisor.get(&group.jobs()[0]).unwrap().cause, Some(Cause::Timeout));
    no_wake(&session).await;
}

// B11, J-16, J-18, SC-3: the answer comes after the job was given up; it changes nothing.
#[test]
fn a_result_after_the_job_was_given_up_changes_nothing() {
    watch_panics();
    let runtime = two_workers();
    let (held, ended) = (Gate::new(), Gate::new());
    let _goes_on = held.at_the_latest();
    let (supervisor, session, job) = runtime.block_on(async {
        let (supervisor, session) = start_with_parent().await;
        let (hold, end) = (held.clone(), ended.clone());
        let blocks = JobSpec::run("blocks", move |_| {
            // It blocks its thread: no abort reaches it.
            hold.block();
            let last = OnDrop::new(move || end.open());
            async move {
                drop(last);
                Ok("the real answer".into())
            }
        });
        let spec = blocks.timeout(Duration::from_millis(10)).grace(Duration::from_millis(10));
        let group = session.fan_out([spec, idle("fine")]).await.unwrap();
        let started = std::time::Instant::now();
        let wake = woken(&session).await;
        let took = started.elapsed();
        assert!(took >= KILL_WAIT && took < KILL_WAIT + Duration::from_secs(2), "{took:?}");
        assert_eq!(wake.entries[0].summary(), "error{timeout run}");
        assert!(wake.entries[0].unreaped, "it may still be alive, and says so");
        (supervisor, session, group.jobs()[0].clone())
    });
    let before = supervisor.get(&job).unwrap();
    held.open();
    ended.block();
    runtime.block_on(supervisor.shutdown());
    assert_eq!(supervisor.get(&job).unwrap(), before);
    let kept = supervisor.output(&job).unwrap();
    assert!(["", "the real answer"].contains(&&*kept.text()), "kept as late output, or not at all");
    assert_eq!(at_once(session.next_wake()).unwrap_err().code(), "closed");
    assert_no_panic_of_ours();
}

// B15, J-23
#[tokio::test(start_paused = true)]
async fn an_agent_that_did_nothing_has_not_completed() {
    let supervisor = Supervisor::builder().runner(FakeAgent::new()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let agents = ["silent", "empty", "talks", "tool"];
    let group = session.fan_out(agents.map(|agent| JobSpec::agent(agent, agent, "Look"))).await.unwrap();
    let result = group.wait(STUCK).await.unwrap();
    let expected = [
        ("silent", "error{failed no_output}"),
        ("empty", "error{failed no_output}"),
        ("talks", "completed"),
        ("tool", "completed"),
    ];
    assert_eq!(summaries(&result), expected.map(|(label, end)| (label.to_owned(), end.to_owned())));
    assert_eq!(result.entries[0].code, Some(Code::NoOutput));
    assert!(result.entries[0].message.is_some(), "it says so in words");
    // A closure is no agent: that it has nothing to say is no failure.
    let quiet = session.fan_out([JobSpec::run("quiet", |_| async { Ok(().into()) })]).await.unwrap();
    assert_eq!(quiet.wait(STUCK).await.unwrap().outcome, Outcome::AllOk);
}

// B17, 14.15: each job has the limit; those that hang are timed out, what was finished stays.
#[tokio::test(start_paused = true)]
async fn jobs_that_hang_time_out_and_the_finished_ones_stay() {
    let (supervisor, session) = start_with_parent().await;
    let alive = Alive::new();
    let hung = |label| stubborn(label, &alive).timeout(Duration::from_secs(60)).grace(Duration::from_secs(1));
    let full = "x".repeat(10_000);
    let said = full.clone();
    let early = JobSpec::run("early", |_| async { Ok(said.into()) });
    let group = session.fan_out([hung("1"), early, hung("2"), idle("quick"), hung("3")]).await.unwrap();
    let started = Instant::now();
    let wake = woken_within(QUIET, &session).await;
    assert_eq!(started.elapsed(), Duration::from_secs(61));
    let expected = [
        ("1", "error{timeout run}"),
        ("early", "completed"),
        ("2", "error{timeout run}"),
        ("quick", "completed"),
        ("3", "error{timeout run}"),
    ];
    assert_eq!(summaries(&wake), expected.map(|(label, end)| (label.to_owned(), end.to_owned())));
    assert_eq!(output(&wake.entries[1]), full);
    assert_eq!(wake.stopped_by, None);
    assert_eq!(alive.count(), 0);
    assert_eq!(supervisor.output(&group.jobs()[1]).unwrap().bytes().len(), full.len());
    no_wake(&session).await;
}

// B17, BAR-4, 14.15: the deadline is the group's; the rest is stopped by it, and only then the group fires.
#[tokio::test(start_paused = true)]
async fn a_deadline_stops_the_rest_and_says_so() {
    let (supervisor, session) = start_with_parent().await;
    let alive = Alive::new();
    let hung = |label| stubborn(label, &alive).grace(Duration::from_secs(1));
    let policy = Policy { at_ms: Some(60_000), ..Policy::ALL };
    let options = GroupOptions { policy, ..GroupOptions::default() };
    let specs = [idle("1"), hung("2"), idle("3"), hung("4"), hung("5")];
    let group = session.fan_out_with(options, specs).await.unwrap();
    let started = Instant::now();
    let early = group.wait(Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(early.code(), "wait_timed_out", "fired with members that live");
    let wake = woken_within(QUIET, &session).await;
    assert_eq!(started.elapsed(), Duration::from_secs(61));
    let ends: Vec<_> = wake.entries.iter().map(|entry| entry.summary()).collect();
    let stopped = "cancelled{group}";
    assert_eq!(ends, ["completed", stopped, "completed", stopped, stopped]);
    assert_eq!(wake.stopped_by, Some(Threshold::Deadline));
    assert_eq!(output(&wake.entries[2]), "done");
    assert_eq!(alive.count(), 0);
    assert_nothing_lives(&supervisor);
    no_wake(&session).await;
}

// B17, R6: one failure stops its siblings only where that was asked for.
#[tokio::test(start_paused = true)]
async fn one_bad_sibling_stops_the_others_only_with_fail_fast() {
    let (_supervisor, session) = start_with_parent().await;
    let policies = [
        (Policy::ALL, ["error{failed}", "completed", "completed"], None),
        (
            Policy::FAIL_FAST,
            ["error{failed}", "cancelled{group}", "cancelled{group}"],
            Some(Threshold::NotOk),
        ),
        (Policy::ANY, ["error{failed}", "completed", "cancelled{group}"], Some(Threshold::Ok)),
        (Policy::quorum(2), ["error{failed}", "completed", "completed"], None),
    ];
    for (policy, expected, stopped_by) in policies {
        let takes = |seconds: u64, ends_well: bool| {
            JobSpec::run(format!("{seconds}"), move |context: RunContext| async move {
                tokio::select! {
                    () = context.cancelled() => Err(JobError::new("stopped")),
                    () = tokio::time::sleep(Duration::from_secs(seconds)) => {
                        if ends_well { Ok("done".into()) } else { Err(JobError::new("bad")) }
                    }
                }
            })
        };
        let options = GroupOptions { policy, ..GroupOptions::default() };
        let specs = [takes(1, false), takes(2, true), takes(3, true)];
        session.fan_out_with(options, specs).await.unwrap();
        let wake = woken(&session).await;
        let ends: Vec<_> = wake.entries.iter().map(|entry| entry.summary()).collect();
        assert_eq!(ends, expected, "{policy:?}");
        assert_eq!(wake.stopped_by, stopped_by, "{policy:?}");
        no_wake(&session).await;
    }
}

/// Checks that a group of a panicking job and two good ones gives one wake that tells of it.
async fn one_panics(supervisor: &Supervisor, session: &Session, bad: JobSpec, text: &str) {
    session.fan_out([idle("1"), bad, idle("3")]).await.unwrap();
    let wake = woken(session).await;
    let ends: Vec<_> = wake.entries.iter().map(|entry| entry.summary()).collect();
    assert_eq!(ends, ["completed", "error{panic}", "completed"], "{text}");
    assert_eq!(wake.entries[1].message.as_deref(), Some(text));
    no_wake(session).await;
    assert_nothing_lives(supervisor);
    // The supervisor lives, and so do later siblings.
    session.fan_out([idle("later")]).await.unwrap().wait(STUCK).await.unwrap();
}

// B53, SC-7, J-19
#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_with_its_text_wherever_it_comes() {
    watch_panics();
    let (supervisor, session) = start_with_parent().await;
    let before = JobSpec::run("2", |_| -> std::future::Ready<_> { panic!("planned: before a future") });
    one_panics(&supervisor, &session, before, "planned: before a future").await;

    let first = JobSpec::run("2", |_| async { panic!("planned: in the first poll") });
    one_panics(&supervisor, &session, first, "planned: in the first poll").await;

    let midway = JobSpec::run("2", |_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        panic!("planned: {}", "mid-await")
    });
    one_panics(&supervisor, &session, midway, "planned: mid-await").await;

    let local = JobSpec::run("2", |_| async {
        let _last = OnDrop::new(|| panic!("planned: in a destructor"));
        tokio::task::yield_now().await;
        Ok("lost".into())
    });
    one_panics(&supervisor, &session, local, "planned: in a destructor").await;

    let captured = OnDrop::new(|| panic!("planned: in a captured destructor"));
    let held = JobSpec::run("2", |_| {
        // Not moved into the future's first state: it is dropped with the finished body.
        let mut captured = Some(captured);
        std::future::poll_fn(move |_| {
            let _held = captured.as_mut();
            std::task::Poll::Ready(Ok("lost".into()))
        })
    });
    one_panics(&supervisor, &session, held, "planned: in a captured destructor").await;

    let odd = JobSpec::run("2", |_| async { std::panic::panic_any(7) });
    one_panics(&supervisor, &session, odd, "a panic without a text").await;

    let long = "é".repeat(PANIC_BYTES_MAX);
    let kept = long[..PANIC_BYTES_MAX].to_owned();
    let long = JobSpec::run("2", |_| async move { panic!("{long}") });
    one_panics(&supervisor, &session, long, &kept).await;
    soon(supervisor.shutdown()).await;
    assert_no_panic_of_ours();
}

// B53, J-19: a destructor that panics while its job is stopped changes nothing of how it ends.
#[tokio::test(start_paused = true)]
async fn a_panic_while_a_job_is_stopped_is_no_error_of_it() {
    watch_panics();
    let (supervisor, session) = start_with_parent().await;
    let hangs = || {
        JobSpec::run("hangs", |_| async {
            let _last = OnDrop::new(|| panic!("planned: while stopped"));
            std::future::pending().await
        })
    };
    let after_grace = JobSpec::run("polite", |context: RunContext| async move {
        let _last = OnDrop::new(|| panic!("planned: while stopped"));
        context.cancelled().await;
        Ok(().into())
    });
    let specs =
        [hangs().grace(Duration::ZERO), hangs(), after_grace, hangs().timeout(Duration::from_secs(1))];
    let group = session.fan_out(specs).await.unwrap();
    tokio::task::yield_now().await;
    for job in &group.jobs()[..3] {
        supervisor.cancel(job).await.unwrap();
    }
    let wake = woken(&session).await;
    let ends: Vec<_> = wake.entries.iter().map(|entry| entry.summary()).collect();
    let user = "cancelled{user}";
    assert_eq!(ends, [user, user, user, "error{timeout run}"]);
    no_wake(&session).await;
    soon(supervisor.shutdown()).await;
    assert_no_panic_of_ours();
}

// B53, C-5: a runner that panics before it has a future, in it, or when it is done is an error of that job.
#[tokio::test(start_paused = true)]
async fn a_runner_that_panics_ends_its_job_and_no_other() {
    watch_panics();
    let agents = FakeAgent::new();
    let supervisor = Supervisor::builder().slots(1).runner(agents.clone()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    for agent in ["panics_at_start", "panics", "panics_in_drop"] {
        one_panics(&supervisor, &session, JobSpec::agent("2", agent, agent), &format!("planned: {agent}"))
            .await;
    }
    assert_eq!((agents.started(), agents.alive.count()), (3, 0));
    soon(supervisor.shutdown()).await;
    assert_no_panic_of_ours();
}

/// A panic's payload that panics when it is dropped.
struct Grudge;

impl Drop for Grudge {
    fn drop(&mut self) {
        panic!("planned: a payload that does not go quietly");
    }
}

// B53, BAR-8: the nastiest payload still ends its job as an error, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_panic_whose_payload_panics_ends_its_job_and_no_other() {
    watch_panics();
    let (supervisor, session) = start_with_parent().await;
    let nasty = JobSpec::run("nasty", |_| async { std::panic::panic_any(Grudge) });
    session.fan_out([idle("1"), nasty, idle("3")]).await.unwrap();
    let wake = woken(&session).await;
    let statuses: Vec<_> = wake.entries.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [Status::Completed, Status::Error, Status::Completed]);
    no_wake(&session).await;
    soon(supervisor.shutdown()).await;
    assert_no_panic_of_ours();
}

// P5, J-16: a context that outlives its run is a stale runner: nothing it says is heard, and nobody else's is touched.
#[tokio::test(start_paused = true)]
async fn a_context_that_outlives_its_run_changes_nothing() {
    let supervisor = Supervisor::builder().slots(1).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let witness = Witness::of(&supervisor).await;
    let (leak, leaked) = oneshot::channel();
    let leaks = JobSpec::run("leaks", |context: RunContext| async move {
        context.progress("still mine");
        // Nobody listens only where the test has failed.
        let _ = leak.send((context.tool("open", "read"), context));
        Ok("done".into())
    });
    let first = session.start(leaks).await.unwrap();
    first.wait(STUCK).await.unwrap();
    let (call, context) = leaked.await.unwrap();
    let before = supervisor.get(first.id()).unwrap();

    let gate = Gate::new();
    let second = session.start(gated("second", &gate)).await.unwrap();
    tokio::task::yield_now().await;
    context.progress("not mine any more");
    context.bound(Bound { pid: Some(1), ..Bound::default() });
    call.begin();
    call.complete();
    context.tool("late", "read").fail();
    assert!(!context.is_cancelled());
    assert_eq!(supervisor.get(first.id()).unwrap(), before);
    assert_eq!((supervisor.progress(first.id()), supervisor.progress(second.id())), (None, None));
    gate.open();
    second.wait(STUCK).await.unwrap();
    soon(supervisor.shutdown()).await;
    drop(context);

    let seen = witness.at_end().await;
    let parts: Vec<_> = seen.runs.values().flat_map(|run| &run.parts).collect();
    assert_eq!(parts.len(), 1);
    assert!(parts[0].interrupted && parts[0].state == PartState::Error, "{parts:?}");
    assert!(seen.runs.values().all(|run| !run.bound));
}

// B-1, R4: places are used again; what is read of one job is never another's.
#[test]
fn the_progress_of_a_job_is_never_anothers() {
    let runtime = two_workers();
    let supervisor = runtime.block_on(start());
    let session = runtime.block_on(supervisor.session("parent")).unwrap();
    let current = Arc::new(std::sync::Mutex::new(None::<JobId>));
    let done = Gate::new();
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let (supervisor, current, done) = (supervisor.clone(), Arc::clone(&current), done.clone());
            std::thread::spawn(move || {
                let mut read = 0;
                while !done.is_open() {
                    let Some(job) = current.lock().unwrap().clone() else { continue };
                    if let Some(line) = supervisor.progress(&job) {
                        assert_eq!(*line, *job.to_string());
                        read += 1;
                    }
                }
                read
            })
        })
        .collect();
    let started = std::time::Instant::now();
    runtime.block_on(async {
        // The race is rare, so it is tried for as long as a suite can wait.
        while started.elapsed() < Duration::from_secs(2) {
            let says = JobSpec::run("says", |context: RunContext| async move {
                context.progress(context.job().to_string());
                Ok(().into())
            });
            let job = session.start(says).await.unwrap();
            *current.lock().unwrap() = Some(job.id().clone());
            job.wait(STUCK).await.unwrap();
        }
    });
    done.open();
    let read: usize = not_stuck(|| readers.into_iter().map(|reader| reader.join().unwrap()).sum());
    println!("read {read} lines");
}

/// A runner whose runs leave something behind, which can be seen to be gone later.
#[derive(Debug, Clone, Default)]
struct Leaves(Arc<AtomicBool>);

impl Runner for Leaves {
    fn kind(&self) -> JobKind {
        JobKind::Command
    }

    fn check(&self, _: &Spec) -> Result<(), String> {
        Ok(())
    }

    fn may_live(&self, _: &Left) -> bool {
        !self.0.load(Ordering::SeqCst)
    }

    fn run(&self, _: Arc<Spec>, _: RunContext) -> RunFuture {
        let survivor = LeftProcess { pid: 7, pid_start: 70, program: "stubborn".into() };
        let left = Left { alive: [survivor].into(), ..Left::default() };
        Box::pin(async { Ending { left: Some(left), ..Ending::completed("done".into()) } })
    }
}

// J-14: while something of a life may be alive its id does not live again, and once it is gone it does.
#[tokio::test]
async fn a_new_life_waits_until_what_the_last_one_left_is_gone() {
    let runner = Leaves::default();
    let supervisor = Supervisor::builder().runner(runner.clone()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let again = || JobSpec::command("a", ["stubborn"]).id(JobId::parse("a").unwrap()).again();
    let first = session.start(again()).await.unwrap();
    assert!(first.wait(STUCK).await.unwrap().unreaped);
    for _ in 0..2 {
        assert_eq!(session.start(again()).await.unwrap_err().code(), "still_reaping");
    }
    runner.0.store(true, Ordering::SeqCst);
    let second = session.start(again()).await.unwrap();
    assert!(second.lifetime() > first.lifetime());
    second.wait(STUCK).await.unwrap();
    supervisor.shutdown().await;
}
