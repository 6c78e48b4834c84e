//! The testing kit: what a fake does, and that its checks catch a parent loop that is wrong.

use std::time::Duration;

use fanin_supervisor::protocol::{JobId, Record};
use fanin_supervisor::testing::*;
use fanin_supervisor::{
    Clock, Delivery, Filter, Group, JobSpec, LaunchError, Session, Since, Supervisor, WaitError,
};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);

fn ask(label: &'static str) -> JobSpec {
    JobSpec::agent(label, "worker", format!("Do the {label}"))
}

/// As [`ask`], without the limits of time that an agent has by default.
fn ask_for_ever(label: &'static str) -> JobSpec {
    ask(label).timeout(10 * DAY).idle(10 * DAY)
}

async fn launch(session: &Session) -> Group {
    session.fan_out(["scan", "lint", "docs"].map(ask)).await.unwrap()
}

/// Three agents of which one fails, each after a minute.
async fn three() -> (Supervisor, Session) {
    let agents = FakeRunner::agents()
        .on("lint", script().after(MINUTE).fails("2 warnings"))
        .otherwise(script().after(MINUTE).completes("ok"));
    start_with(&agents).await
}

// A parent loop that is right passes every check.
#[tokio::test(start_paused = true)]
async fn a_parent_that_is_woken_once_passes() {
    let (supervisor, session) = three().await;
    launch(&session).await;
    let wake = session.next_wake().await.unwrap();
    let expected = ["scan: completed", "lint: error{failed}", "docs: completed"];
    assert_eq!(summary(&wake.result().entries), expected);
    assert_eq!(texts(&wake.result().entries), ["ok", "2 warnings", "ok"]);
    wake.ack().await.unwrap();
    assert_woken(&session, 1);
    assert_nothing_owed(&session);
    assert_nothing_lives(&supervisor);
    assert_no_wake_now(&session);
    no_wake(&session).await;
}

/// Wrong: it asks again and again until nothing runs, and never listens.
async fn polls(supervisor: &Supervisor, session: &Session) {
    let jobs = launch(session).await.jobs().to_vec();
    let is_over = |job: &JobId| supervisor.get(job).unwrap().status.is_terminal();
    while !jobs.iter().all(is_over) {
        tokio::time::sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "still owed: [\"scan, lint, docs\"]")]
async fn a_parent_that_polls_leaves_its_wake() {
    let (supervisor, session) = three().await;
    polls(&supervisor, &session).await;
    assert_nothing_owed(&session);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a wake that nobody expects")]
async fn a_parent_that_polls_has_a_wake_to_come() {
    let (supervisor, session) = three().await;
    polls(&supervisor, &session).await;
    no_wake(&session).await;
}

// Wrong: it polls with waits that run out, until one does not.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "woken 0 times, not 1")]
async fn a_parent_that_waits_in_a_loop_is_not_woken() {
    let (_supervisor, session) = three().await;
    let group = launch(&session).await;
    while group.wait(SECOND).await.is_err() {}
    assert_nothing_owed(&session);
    assert_woken(&session, 1);
}

// Wrong: a group for each job, so that it is woken by each.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "woken 3 times, not 1")]
async fn a_parent_with_a_group_for_each_job_is_woken_by_each() {
    let (_supervisor, session) = three().await;
    for label in ["scan", "lint", "docs"] {
        session.start(ask(label)).await.unwrap();
    }
    for _ in 0..3 {
        session.next_wake().await.unwrap().ack().await.unwrap();
    }
    assert_woken(&session, 1);
}

/// Wrong: it works with its wake and never says so.
async fn forgets_ack(session: &Session) {
    launch(session).await;
    let wake = session.next_wake().await.unwrap();
    assert_eq!(wake.result().counts.launched, 3);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "still owed: [\"scan, lint, docs\"]")]
async fn a_parent_that_forgets_ack_is_owed_its_wake() {
    let (_supervisor, session) = three().await;
    forgets_ack(&session).await;
    assert_nothing_owed(&session);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a wake that nobody expects")]
async fn a_parent_that_forgets_ack_is_woken_again() {
    let (_supervisor, session) = three().await;
    forgets_ack(&session).await;
    assert_no_wake_now(&session);
}

// Wrong, as above: its model has two turns for one result. The story has both.
#[tokio::test(start_paused = true)]
async fn a_parent_that_acts_twice_on_one_wake_has_two_turns_in_its_story() {
    let (_supervisor, session) = three().await;
    launch(&session).await;
    for is_acknowledged in [false, true] {
        let wake = session.next_wake().await.unwrap();
        session.turn().await.unwrap().end().await.unwrap();
        if is_acknowledged {
            wake.ack().await.unwrap();
        }
    }
    let fired = "fired: scan: completed, lint: error{failed}, docs: completed";
    let (turn, over) = ("turn", "turn over");
    let taken = "taken by a wake: scan, lint, docs";
    assert_eq!(story(&session), ["sealed: scan, lint, docs", fired, turn, over, turn, over, taken]);
}

// Wrong: it leaves before its jobs are over.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "still running")]
async fn a_parent_that_leaves_too_early_leaves_jobs() {
    let (supervisor, session) = three().await;
    launch(&session).await;
    assert_nothing_lives(&supervisor);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "still queued")]
async fn a_job_in_the_queue_lives() {
    let agents = FakeRunner::agents().otherwise(script().completes("ok"));
    let supervisor = Supervisor::builder().slots(1).runner(agents).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    launch(&session).await;
    assert_nothing_lives(&supervisor);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the story so far:\n  sealed: scan, lint, docs")]
async fn a_wake_that_never_comes_is_told_with_the_story() {
    let (_supervisor, session) = start_with(&FakeRunner::agents().otherwise(script().hangs())).await;
    session.fan_out(["scan", "lint", "docs"].map(ask_for_ever)).await.unwrap();
    woken(&session).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "`lint` was not started")]
async fn a_job_that_nobody_launched_is_not_waited_for_without_end() {
    let agents = FakeRunner::agents();
    let (_supervisor, _session) = start_with(&agents).await;
    agents.until_started("lint").await;
}

#[tokio::test]
#[should_panic(expected = "needs a paused clock")]
async fn nobody_waits_a_day_on_a_real_clock() {
    let (_supervisor, session) = three().await;
    no_wake(&session).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "not over after 86400s")]
async fn jobs_that_never_end_are_never_over() {
    let (supervisor, session) = start_with(&FakeRunner::agents().otherwise(script().hangs())).await;
    let group = session.fan_out([ask_for_ever("scan")]).await.unwrap();
    over(&supervisor, group.jobs()).await;
}

// A wait that runs out stops nothing, and the wake follows.
#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_is_followed_by_the_wake() {
    let (_supervisor, session) = three().await;
    let group = launch(&session).await;
    assert_eq!(group.wait(SECOND).await.unwrap_err(), WaitError::TimedOut { limit: SECOND });
    woken(&session).await;
    assert_woken(&session, 1);
}

#[tokio::test(start_paused = true)]
async fn a_story_tells_of_waits_and_of_what_is_void() {
    let agents = FakeRunner::agents()
        .on("scan", script().after(SECOND).completes("ok"))
        .otherwise(script().after(MINUTE).completes("ok"));
    let (_supervisor, session) = start_with(&agents).await;
    let group = launch(&session).await;
    session.wait_all(&group.jobs()[..1], None).await.unwrap();
    session.wait_all(&group.jobs()[1..], None).await.unwrap();
    let turn = session.turn().await.unwrap();
    session.start(ask("late")).await.unwrap().wait(None).await.unwrap();
    turn.end().await.unwrap();
    launch(&session).await;
    session.close().await.unwrap();
    let expected = [
        "sealed: scan, lint, docs",
        "taken by a wait: scan",
        "fired: scan: completed, lint: completed, docs: completed",
        "taken by a wait: scan, lint, docs",
        "turn",
        "taken by a wait: late",
        "turn over",
        "sealed: late",
        "fired: late: completed",
        "all taken before: late",
        "sealed: scan, lint, docs",
        "voided: scan, lint, docs",
    ];
    assert_eq!(story(&session), expected);
    assert_nothing_owed(&session);
    assert_woken(&session, 0);
}

/// One job with this script, and how it ended.
async fn one(script: Script, spec: JobSpec) -> (Session, Vec<String>, Vec<String>) {
    let (_supervisor, session) = start_with(&FakeRunner::agents().otherwise(script)).await;
    session.start(spec).await.unwrap();
    let wake = woken(&session).await;
    let texts = texts(&wake.entries).into_iter().map(str::to_owned).collect();
    (session, summary(&wake.entries), texts)
}

#[tokio::test(start_paused = true)]
async fn every_ending_is_told_apart() {
    let endings = [
        (script().completes("text"), "completed", "text"),
        (script().writes("a, ").completes("b"), "completed", "a, b"),
        (script().writes("only this"), "completed", "only this"),
        (script().echoes(), "completed", "Do the job"),
        (script().tool_call("read"), "completed", ""),
        (script(), "error{failed no_output}", "the agent ended without any output or tool call"),
        (script().fails("out of reach"), "error{failed}", "out of reach"),
        (script().writes("so far").fails("out of reach"), "error{failed}", "so far"),
        (script().panics("a bug"), "error{panic}", "a bug"),
        (script().writes("so far").hangs(), "error{timeout run}", "so far"),
        (
            script().held_by(&Gate::new()).completes("late"),
            "error{timeout run}",
            "`timeout` of 1m00s passed; stopped",
        ),
        (
            script().after(2 * MINUTE).completes("late"),
            "error{timeout run}",
            "`timeout` of 1m00s passed; stopped",
        ),
    ];
    for (script, end, text) in endings {
        let (_, ends, texts) = one(script.clone(), ask("job").timeout(MINUTE)).await;
        assert_eq!((ends, texts), (vec![format!("job: {end}")], vec![text.to_owned()]), "{script:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_ignores_a_stop_lives_on_for_as_long_as_it_said() {
    let spec = || ask("job").timeout(MINUTE).grace(10 * SECOND);
    let begun = Instant::now();
    let (_, ends, _) = one(script().ignores_stop().hangs(), spec()).await;
    assert_eq!((ends, begun.elapsed()), (vec!["job: error{timeout run}".into()], MINUTE + 10 * SECOND));

    let late = script().ignores_stop().after(MINUTE + 5 * SECOND).completes("late");
    let (_, ends, texts) = one(late, spec()).await;
    assert_eq!(ends, ["job: error{timeout run} (completed anyway)"]);
    assert_eq!(texts, ["late"]);

    let begun = Instant::now();
    let (_, ends, _) = one(script().ignores_force().hangs(), spec()).await;
    assert_eq!(ends, ["job: error{timeout run} (unreaped)"]);
    assert!(begun.elapsed() > MINUTE + 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_ending_ends_a_run_and_the_next_run_has_the_next_script() {
    let flaky = script().after(SECOND).fails("busy").writes("second: ").completes("ok").fails("down");
    let (_supervisor, session) = start_with(&FakeRunner::agents().on("flaky", flaky)).await;
    let mut ends = Vec::new();
    for _ in 0..4 {
        session.start(ask("flaky")).await.unwrap();
        ends.extend(texts(&woken(&session).await.entries).into_iter().map(str::to_owned));
    }
    assert_eq!(ends, ["busy", "second: ok", "down", "down"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_script_that_fits_is_played() {
    let agents = FakeRunner::agents()
        .on("scan", script().completes("by label"))
        .on_name("reviewer", script().completes("by name"))
        .on_prompt("files", script().completes("by prompt"))
        .otherwise(script().completes("by none"));
    let (_supervisor, session) = start_with(&agents).await;
    let jobs = [
        JobSpec::agent("scan", "reviewer", "Count files"),
        JobSpec::agent("other", "reviewer", "Count files"),
        JobSpec::agent("other", "worker", "Count files"),
        JobSpec::agent("other", "worker", "Rest"),
    ];
    session.fan_out(jobs).await.unwrap();
    assert_eq!(texts(&woken(&session).await.entries), ["by label", "by name", "by prompt", "by none"]);
    assert_eq!(agents.started(), ["scan", "other", "other", "other"]);
    assert_eq!(agents.asked()[3], "Rest");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_no_script_fits_says_so() {
    let (_supervisor, session) = start_with(&FakeRunner::agents().on("scan", script())).await;
    session.start(ask("lint")).await.unwrap();
    let wake = woken(&session).await;
    assert_eq!(summary(&wake.entries), ["lint: error{panic}"]);
    assert!(texts(&wake.entries)[0].starts_with("no script for `lint`"));
}

#[tokio::test(start_paused = true)]
async fn what_was_started_and_what_runs_is_told() {
    let gate = Gate::new();
    let agents =
        FakeRunner::agents().on("scan", script().held_by(&gate).completes("ok")).otherwise(script().hangs());
    let (supervisor, session) = start_with(&agents).await;
    let group = session.fan_out(["scan", "lint"].map(ask)).await.unwrap();
    assert_eq!(agents.started(), Vec::<String>::new(), "nothing was polled yet");
    agents.until_started("lint").await;
    assert_eq!(agents.running(), ["scan", "lint"]);
    gate.open();
    over(&supervisor, &group.jobs()[..1]).await;
    assert_eq!(
        (agents.started(), agents.running()),
        (vec!["scan".into(), "lint".into()], vec!["lint".into()])
    );
    // Dropped, not ended by its own word: that counts too.
    drop((supervisor, session, group));
    tokio::task::yield_now().await;
    assert_eq!(agents.running(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn commands_leave_with_their_exit_status() {
    let commands = FakeRunner::commands()
        .on_name("cargo", script().writes("warning").exits(101))
        .on_prompt("echo", script().exits(0).panics("a second run"));
    let (_supervisor, session) = start_with(&commands).await;
    let jobs = [JobSpec::command("check", ["cargo", "check"]), JobSpec::shell("list", "echo src")];
    session.fan_out(jobs).await.unwrap();
    let wake = woken(&session).await;
    assert_eq!(summary(&wake.entries), ["check: error{failed exit_status}", "list: completed"]);
    assert_eq!(wake.entries.iter().map(|entry| entry.exit_code).collect::<Vec<_>>(), [Some(101), Some(0)]);
    assert_eq!(commands.asked(), ["cargo check", "echo src"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_known_is_refused_at_launch() {
    let agents = FakeRunner::agents().knows(["opencode", "codex"]).otherwise(script().echoes());
    let (supervisor, session) = start_with(&agents).await;
    let jobs = [JobSpec::agent("a", "codex", "Go"), JobSpec::agent("b", "opencod", "Go")];
    let refused = session.fan_out(jobs).await.unwrap_err();
    let problem = "no agent `opencod`; there are opencode, codex".to_owned();
    assert_eq!(refused, LaunchError::Rejected { index: 1, problem });
    assert_nothing_lives(&supervisor);
    session.start(JobSpec::agent("a", "codex", "Go")).await.unwrap();
    assert_eq!(texts(&woken(&session).await.entries), ["Go"]);
}

#[tokio::test(start_paused = true)]
async fn progress_and_tool_calls_are_seen_while_it_runs() {
    let gate = Gate::new();
    let reads = script().says("reading").tool_call("read").tool_call("grep").held_by(&gate).completes("ok");
    let (supervisor, session) = start_with(&FakeRunner::agents().otherwise(reads)).await;
    let mut parts = supervisor.subscribe(Filter::all().kinds(["part"]), Since::Start).await.unwrap();
    let job = session.start(ask("scan")).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..6 {
        let Some(Delivery::Event(event)) = parts.next().await else { panic!("no part") };
        let Record::ToolPart(part) = event.record() else { panic!("{event:?}") };
        seen.push(format!("{} {:?}", part.name, part.state));
    }
    let states = |name| ["Pending", "Running", "Completed"].map(|state| format!("{name} {state}"));
    assert_eq!(seen, [states("read"), states("grep")].concat());
    assert_eq!(supervisor.progress(job.id()).as_deref(), Some("reading"));
}

#[tokio::test(start_paused = true)]
async fn the_clock_follows_the_runtime_and_jumps_where_it_is_told_to() {
    let clock = TestClock::new();
    let begun = clock.wall_ms();
    tokio::time::advance(MINUTE).await;
    assert_eq!(clock.wall_ms(), begun + 60_000);
    clock.jump_ahead(17 * MINUTE);
    clock.clone().jump_back(2 * MINUTE);
    assert_eq!(clock.wall_ms(), begun + 16 * 60_000);
    clock.set(5);
    tokio::time::advance(SECOND).await;
    assert_eq!(clock.wall_ms(), 1_005);
    clock.jump_back(MINUTE);
    assert_eq!(clock.wall_ms(), 0);
    clock.set(u64::MAX);
    clock.jump_ahead(MINUTE);
    tokio::time::advance(SECOND).await;
    assert_eq!(clock.wall_ms(), u64::MAX);
}
