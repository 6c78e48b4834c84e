//! Cases of limits: what is busy lives, what is not is stopped, and nothing is tried or started without a bound.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::protocol::record::NoteCode;
use fanin_supervisor::protocol::{JobKind, Reason, Record, Status};
use fanin_supervisor::{
    Cancelled, Delivery, Filter, JobError, JobSpec, LaunchError, RunContext, Since, Subscription, Supervisor,
};
use fanin_tests::cases::*;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A body that beats so often, for ever.
fn beats(label: &str, every: Duration) -> JobSpec {
    JobSpec::run(label, move |ctx: RunContext| async move {
        loop {
            tokio::select! {
                () = ctx.cancelled() => return Err(JobError::new("stopped")),
                () = sleep(every) => ctx.beat(),
            }
        }
    })
}

/// A body that does nothing until it is told to stop.
fn waits(label: &str) -> JobSpec {
    JobSpec::run(label, |ctx: RunContext| async move {
        ctx.cancelled().await;
        Err(JobError::new("stopped"))
    })
}

/// Notes so far, by their code.
async fn notes(events: &mut Subscription, code: NoteCode) -> usize {
    let mut count = 0;
    while let Ok(Delivery::Event(event)) = events.try_next() {
        if let Record::Note(note) = event.record() {
            count += usize::from(note.code == code);
        }
    }
    count
}

// B72, B73: one that beats lives for as long as it beats, one that never spoke is stopped, an own limit wins.
#[tokio::test(start_paused = true)]
async fn what_is_busy_lives_and_what_never_spoke_is_stopped() {
    let (supervisor, session) = start_with_parent().await;
    let mut events = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    let busy = session.start(beats("busy", 9 * SECOND).idle(10 * SECOND)).await.unwrap();
    let begun = Instant::now();
    let group = session
        .fan_out([waits("silent").idle(10 * SECOND), waits("patient").idle(40 * SECOND), waits("free")])
        .await
        .unwrap();
    let silent = session.wait_any(&group.jobs()[..1], None).await.unwrap();
    assert_eq!(begun.elapsed(), 10 * SECOND);
    assert_eq!(silent.entries[0].summary(), "error{timeout idle}");
    let message = silent.entries[0].message.as_deref().unwrap();
    assert!(message.starts_with("`idle` of 10.0s passed without a sign of work"), "{message}");
    session.wait_any(&group.jobs()[1..2], None).await.unwrap();
    assert_eq!(begun.elapsed(), 40 * SECOND);
    sleep(QUIET).await;
    assert_eq!(supervisor.get(&group.jobs()[2]).unwrap().status, Status::Running);
    assert_eq!(supervisor.get(busy.id()).unwrap().status, Status::Running);
    assert!(notes(&mut events, NoteCode::Stall).await > 2, "each silence of half its limit is noted");
    supervisor.shutdown().await;
}

// B75: progress resets the idle limit, never the total, and the message gives both numbers.
#[tokio::test(start_paused = true)]
async fn progress_for_ever_ends_at_the_total_limit() {
    let (supervisor, session) = start_with_parent().await;
    let spec = JobSpec::run("chatty", |ctx: RunContext| async move {
        for line in 0.. {
            ctx.progress(format!("line {line}"));
            tokio::select! {
                () = ctx.cancelled() => break,
                () = sleep(3 * SECOND) => {}
            }
        }
        Err(JobError::new("stopped"))
    });
    let begun = Instant::now();
    let job = session.start(spec.idle(5 * SECOND).total_timeout(61 * SECOND)).await.unwrap();
    let entry = job.wait(None).await.unwrap();
    assert_eq!((begun.elapsed(), entry.summary().as_str()), (61 * SECOND, "error{timeout total}"));
    let message = entry.message.unwrap();
    for number in ["`total_timeout` of 1m01s passed", "its `idle` of 5.0s"] {
        assert!(message.contains(number), "{message}");
    }
    supervisor.shutdown().await;
}

// SC-13, SC-14: beats are no commands and no records, however many there are.
#[tokio::test(start_paused = true)]
async fn beats_do_not_pass_the_gate() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let opened = gate.clone();
    let spec = JobSpec::run("drum", move |ctx: RunContext| async move {
        for _ in 0..100_000 {
            ctx.beat();
        }
        opened.passed().await;
        Ok(().into())
    });
    let job = session.start(spec.idle(SECOND)).await.unwrap();
    let mut events = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    sleep(499 * MS).await;
    let mut records = 0;
    while events.try_next().is_ok() {
        records += 1;
    }
    assert_eq!(records, 5, "opened, session, queued, sealed, started");
    gate.open();
    assert_eq!(job.wait(None).await.unwrap().status, Status::Completed);
    supervisor.shutdown().await;
}

// J-7, A-1: tries come one after another, each after the last one is gone, and the entry counts them.
#[tokio::test(start_paused = true)]
async fn a_rerunnable_closure_is_tried_again() {
    let (supervisor, session) = start_with_parent().await;
    let (alive, tries) = (Alive::new(), Arc::new(AtomicU32::new(0)));
    let (living, counter) = (alive.clone(), Arc::clone(&tries));
    let spec = JobSpec::rerunnable("flaky", move |_ctx| {
        let (one, number) = (living.one(), counter.fetch_add(1, Ordering::SeqCst) + 1);
        assert_eq!(living.count(), 1, "two runs at once");
        async move {
            let _one = one;
            if number < 3 { Err(JobError::new(format!("try {number}"))) } else { Ok("well".into()) }
        }
    });
    let begun = Instant::now();
    let job = session.start(spec.retries(5)).await.unwrap();
    let entry = job.wait(None).await.unwrap();
    assert_eq!((entry.runs, entry.summary().as_str(), output(&entry)), (3, "completed", "well"));
    let took = begun.elapsed();
    assert!(took >= 2_400 * MS && took <= 3_700 * MS, "gaps of 1 s and 2 s, a fifth more or less: {took:?}");
    assert_eq!((tries.load(Ordering::SeqCst), alive.count()), (3, 0));
    supervisor.shutdown().await;
    assert_nothing_lives(&supervisor);
}

// SC-17: a closure that can run once only cannot be tried again, and is refused before anything exists.
#[tokio::test]
async fn retries_of_a_closure_that_runs_once_are_refused() {
    let (supervisor, session) = start_with_parent().await;
    let once = || JobSpec::run("once", |_ctx| async { Ok(().into()) });
    let refused = session.fan_out([once(), once().retries(1)]).await.unwrap_err();
    let LaunchError::Rejected { index: 1, problem } = refused else { panic!("{refused:?}") };
    assert!(problem.contains("JobSpec::rerunnable"), "{problem}");
    assert!(supervisor.list(&fanin_supervisor::JobFilter::default()).unwrap().jobs.is_empty());
    let job = session.start(once().retries(0)).await.unwrap();
    assert_eq!(job.wait(STUCK).await.unwrap().runs, 1);
    supervisor.shutdown().await;
}

// J-17: a cancel beats a retry: nothing starts any more, and the closure is dropped.
#[tokio::test(start_paused = true)]
async fn a_cancel_between_two_tries_is_the_end() {
    let (supervisor, session) = start_with_parent().await;
    let (alive, starts) = (Alive::new(), Arc::new(AtomicU32::new(0)));
    let (kept, counter) = (alive.one(), Arc::clone(&starts));
    let spec = JobSpec::rerunnable("doomed", move |_ctx| {
        let _kept = &kept;
        counter.fetch_add(1, Ordering::SeqCst);
        async { Err(JobError::new("no")) }
    });
    let job = session.start(spec.retries(50)).await.unwrap();
    sleep(100 * MS).await;
    let why = supervisor.why(job.id()).unwrap();
    assert!(matches!(why[..], [Reason::Backoff { tries: 1, .. }]), "{why:?}");
    assert_eq!(supervisor.get(job.id()).unwrap().phase.as_deref(), Some("backoff"));
    assert_eq!(job.cancel().await.unwrap(), Cancelled::Ended);
    sleep(QUIET).await;
    let entry = job.wait(None).await.unwrap();
    assert_eq!((entry.summary().as_str(), entry.runs), ("cancelled{user}", 1));
    assert_eq!((starts.load(Ordering::SeqCst), alive.count()), (1, 0));
    supervisor.shutdown().await;
}

// SC-17: an agent that could not take the prompt is tried three times unasked; one that took it is not.
#[tokio::test(start_paused = true)]
async fn an_agent_is_tried_again_where_nothing_had_an_effect() {
    let agent = FakeAgent::new();
    let supervisor = Supervisor::builder().runner(agent.clone()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let group = session
        .fan_out([JobSpec::agent("a", "refuses", "busy"), JobSpec::agent("b", "fails", "no")])
        .await
        .unwrap();
    let result = group.wait(None).await.unwrap();
    let ends: Vec<_> = result.entries.iter().map(|entry| (entry.runs, entry.summary())).collect();
    assert_eq!(ends, [(3, "error{failed}".to_owned()), (1, "error{failed no_output}".to_owned())]);
    assert_eq!(result.entries[0].message.as_deref(), Some("busy"));
    supervisor.shutdown().await;
}

// B81: a runner that always exits at once: growing gaps, then the error; starts in ten minutes are bounded.
#[tokio::test(start_paused = true)]
async fn a_crash_loop_is_slowed_down_and_ends() {
    let (supervisor, session) = start_with_parent().await;
    let starts = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&starts);
    let spec = JobSpec::rerunnable("loop", move |_ctx| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Err(JobError::new("at once")) }
    });
    let job = session.start(spec.retries(20)).await.unwrap();
    sleep(Duration::from_secs(600)).await;
    let in_ten_minutes = starts.load(Ordering::SeqCst);
    assert!((12..=20).contains(&in_ten_minutes), "{in_ten_minutes} starts");
    let entry = job.wait(None).await.unwrap();
    assert_eq!((entry.runs, entry.summary().as_str()), (21, "error{failed}"));
    sleep(QUIET).await;
    assert_eq!(starts.load(Ordering::SeqCst), 21);
    supervisor.shutdown().await;
}

// B82: the same call fifty times ends the job, and the parent is told; another call between is progress.
#[tokio::test(start_paused = true)]
async fn the_same_call_again_and_again_ends_a_job() {
    let (supervisor, session) = start_with_parent().await;
    let calls = |between: bool| {
        move |ctx: RunContext| async move {
            for call in 0..60 {
                ctx.tool_with(format!("c{call}"), "read", "a.txt").complete();
                if between && call % 40 == 0 {
                    ctx.tool_with(format!("d{call}"), "read", "b.txt").complete();
                }
                if ctx.is_cancelled() {
                    return Err(JobError::new(format!("stopped after {}", call + 1)));
                }
            }
            Ok("done".into())
        }
    };
    let mut events = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    let stuck = session.start(JobSpec::run("stuck", calls(false)).repeats(50)).await.unwrap();
    let entry = stuck.wait(None).await.unwrap();
    assert_eq!(entry.summary(), "error{failed no_progress}");
    let message = entry.message.unwrap();
    assert!(message.starts_with("`read` was called 50 times in a row"), "{message}");
    assert!(message.ends_with("stopped after 50"), "{message}");
    assert_eq!(notes(&mut events, NoteCode::Stall).await, 1);
    let moving = session.start(JobSpec::run("moving", calls(true)).repeats(50)).await.unwrap();
    let free = session.start(JobSpec::run("free", calls(false))).await.unwrap();
    assert_eq!(moving.wait(None).await.unwrap().status, Status::Completed);
    assert_eq!(free.wait(None).await.unwrap().status, Status::Completed);
    supervisor.shutdown().await;
}

// SC-11: fewer slots kill nothing and start nothing; more slots start at once.
#[tokio::test(start_paused = true)]
async fn slots_change_while_jobs_run() {
    let supervisor = Supervisor::builder().slots(3).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let gates: Vec<Gate> = (0..6).map(|_| Gate::new()).collect();
    let specs: Vec<_> = gates.iter().map(|gate| gated("job", gate)).collect();
    let group = session.fan_out(specs).await.unwrap();
    let running = || {
        let jobs = group.jobs().iter();
        jobs.filter(|job| supervisor.get(job).unwrap().status == Status::Running).count()
    };
    supervisor.set_slots(NonZeroU32::new(1)).await.unwrap();
    sleep(SECOND).await;
    assert_eq!(running(), 3);
    for (gate, left) in gates.iter().zip([2, 1, 1]) {
        gate.open();
        sleep(SECOND).await;
        assert_eq!(running(), left);
    }
    supervisor.set_slots(None).await.unwrap();
    assert_eq!(running(), 3);
    gates.iter().for_each(Gate::open);
    assert_eq!(group.wait(None).await.unwrap().counts.completed, 6);
    supervisor.shutdown().await;
}

// SC-19: more time for a live job; a job that is over or has no limit has none to move.
#[tokio::test(start_paused = true)]
async fn a_job_is_given_more_time() {
    let (supervisor, session) = start_with_parent().await;
    let begun = Instant::now();
    let job = session.start(waits("long").timeout(10 * SECOND)).await.unwrap();
    let free = session.start(waits("free")).await.unwrap();
    sleep(9 * SECOND).await;
    assert!(job.extend_time(5 * SECOND).await.unwrap());
    assert!(supervisor.extend_time(job.id(), SECOND).await.unwrap());
    assert!(!free.extend_time(SECOND).await.unwrap());
    let entry = job.wait(None).await.unwrap();
    assert_eq!((begun.elapsed(), entry.summary().as_str()), (16 * SECOND, "error{timeout run}"));
    assert!(!job.extend_time(SECOND).await.unwrap());
    let refused = free.extend_time(Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.code(), "bad_limit");
    supervisor.shutdown().await;
}

// A rate: so many of a kind in any span of that length; other kinds are not held up.
#[tokio::test(start_paused = true)]
async fn a_rate_spreads_the_starts_of_a_kind() {
    let agent = FakeAgent::new();
    let builder = Supervisor::builder().runner(agent.clone()).rate(JobKind::Agent, 3, 10 * SECOND);
    let supervisor = builder.start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let specs: Vec<_> = (0..7).map(|n| JobSpec::agent(format!("a{n}"), "talks", "hello")).collect();
    let group = session.fan_out(specs).await.unwrap();
    let why = supervisor.why(&group.jobs()[3]).unwrap();
    assert!(matches!(why[..], [Reason::Rate { kind: JobKind::Agent }]), "{why:?}");
    let other = session.start(JobSpec::run("other", |_ctx| async { Ok(().into()) })).await.unwrap();
    assert_eq!(other.wait(SECOND).await.unwrap().status, Status::Completed);
    for (after, started) in [(9 * SECOND, 3), (2 * SECOND, 6), (8 * SECOND, 6), (2 * SECOND, 7)] {
        sleep(after).await;
        assert_eq!(agent.started(), started, "after {after:?}");
    }
    assert_eq!(group.wait(None).await.unwrap().counts.completed, 7);
    supervisor.shutdown().await;
}

// A rate that cannot be kept is refused at the start, by its name.
#[tokio::test]
async fn a_rate_that_cannot_be_kept_is_refused() {
    let kind = JobKind::Closure;
    for builder in [
        Supervisor::builder().rate(kind, 0, SECOND),
        Supervisor::builder().rate(kind, 10_001, SECOND),
        Supervisor::builder().rate(kind, 1, Duration::ZERO),
        Supervisor::builder().rate(kind, 1, SECOND).rate(kind, 2, SECOND),
    ] {
        let refused = builder.start().await.unwrap_err();
        assert!(refused.to_string().starts_with("rate: "), "{refused}");
    }
}

// B72: a command that writes lives; one that only lives is idle, and what it had written is kept.
#[tokio::test]
async fn output_of_a_command_is_a_sign_of_work() {
    let supervisor = Supervisor::builder().runner(SubprocessRunner::new()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    // Without a line feed, so that it is the bytes that count and not a line of progress.
    let busy = "for n in 1 2 3 4 5 6 7 8; do printf .; sleep 0.25; done";
    let limit = 1_000 * MS;
    let group = session
        .fan_out([
            JobSpec::shell("busy", busy).idle(limit),
            JobSpec::shell("silent", "echo begun; exec sleep 60").idle(limit),
        ])
        .await
        .unwrap();
    let result = group.wait(STUCK).await.unwrap();
    let ends: Vec<_> =
        result.entries.iter().map(|entry| (entry.summary(), output(entry).to_owned())).collect();
    assert_eq!(ends[0], ("completed".into(), "........".into()));
    assert_eq!(ends[1], ("error{timeout idle}".into(), "begun\n".into()));
    assert_nothing_lives(&supervisor);
    supervisor.shutdown().await;
}

// J-7 with real processes: the next try starts once the one before is gone, and the first one that ends well is last.
#[tokio::test]
async fn a_command_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = Supervisor::builder().runner(SubprocessRunner::new()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let line = format!("cd {}; echo x >> tries; test $(wc -l < tries) -ge 2", dir.path().display());
    let job = session.start(JobSpec::shell("flaky", line).retries(3)).await.unwrap();
    let entry = job.wait(STUCK).await.unwrap();
    assert_eq!((entry.runs, entry.summary().as_str()), (2, "completed"));
    assert_eq!(std::fs::read_to_string(dir.path().join("tries")).unwrap(), "x\nx\n");
    supervisor.shutdown().await;
}
