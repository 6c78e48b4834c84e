//! Stops at every moment, and runs that are dropped.

use super::*;

#[tokio::test]
async fn a_stop_ends_the_whole_tree() {
    // B25
    for (trap, stage, signal) in
        [("", StopStage::Polite, 15), ("", StopStage::Forced, 9), ("trap \"\" TERM;", StopStage::Forced, 9)]
    {
        let (host, task) = start(tree_of_seven(trap));
        let pid = host.shown("ready").await;
        asleep(pid, 3).await;
        assert_eq!(group(pid).len(), 7);
        let stopped = Instant::now();
        host.stop.raise(stage);
        let ending = ended(task).await;
        assert!(stopped.elapsed() < Duration::from_secs(1), "{stage:?} took {:?}", stopped.elapsed());
        assert_nothing_left(pid);
        assert_eq!(ending.exit, Some(Exit::Signal(signal)));
    }
}

#[tokio::test]
async fn what_ignores_the_polite_stop_lives_until_the_forced_one() {
    // B28
    let (host, task) = start(CommandSpec::shell(
        "trap 'echo asked' TERM; exec 2>/dev/null; echo ready; while :; do sleep 60; done",
    ));
    let pid = host.shown("ready").await;
    asleep(pid, 1).await;
    host.stop.raise(StopStage::Polite);
    host.shown("asked").await;
    assert!(!task.is_finished() && !left(pid).is_empty());
    host.stop.raise(StopStage::Forced);
    let ending = ended(task).await;
    assert_eq!(ending.exit, Some(Exit::Signal(9)));
    assert_eq!(ending.output.text().matches("asked").count(), 1, "asked more than once");
    assert_nothing_left(pid);
}

#[tokio::test]
async fn what_cleans_up_after_the_polite_stop_has_its_time() {
    // B28
    let line = "trap 'sleep 0.5; echo cleaned; exit 0' TERM; echo ready; sleep 60 & wait";
    let (host, task) = start(CommandSpec::shell(line));
    asleep(host.shown("ready").await, 1).await;
    host.stop.raise(StopStage::Polite);
    let ending = ended(task).await;
    assert_eq!((ending.exit, &*ending.output.text()), (Some(Exit::Status(0)), "ready\ncleaned\n"));
}

#[tokio::test]
async fn a_stop_before_the_start_starts_nothing() {
    // B35
    let host = TestHost::default();
    host.stop.raise(StopStage::Polite);
    let dir = tempfile::tempdir().unwrap();
    let spec = CommandSpec { cwd: Some(dir.path().to_owned()), ..CommandSpec::shell("echo > started") };
    let (host, task) = start_on(host, spec);
    let ending = ended(task).await;
    assert_eq!((host.pid(), ending.exit), (0, None));
    assert!(ending.failure.is_some());
    assert!(!dir.path().join("started").exists());
}

#[tokio::test]
async fn a_stop_at_the_start_leaves_nothing() {
    // B35
    for stage in [StopStage::Polite, StopStage::Forced] {
        let raise = move |stop: &StopSignal, _| stop.raise(stage);
        let host = TestHost { when_bound: Some(Box::new(raise)), ..TestHost::default() };
        let (host, task) = start_on(host, CommandSpec::argv(["sleep", "60"]));
        let ending = ended(task).await;
        let signal = if stage == StopStage::Polite { 15 } else { 9 };
        assert_eq!(ending.exit, Some(Exit::Signal(signal)));
        assert_nothing_left(host.pid());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_at_any_moment_leaves_nothing() {
    // B35
    for round in 0..150_u32 {
        let (host, task) = start(CommandSpec::shell("sleep 60 & sleep 60 & wait"));
        for _ in 0..round * 40 {
            std::hint::black_box(round);
            tokio::task::yield_now().await;
        }
        host.stop.raise(if round % 2 == 0 { StopStage::Forced } else { StopStage::Polite });
        let stopped = Instant::now();
        let ending = ended(task).await;
        assert!(ending.failure.is_some());
        assert!(stopped.elapsed() < Duration::from_secs(2), "round {round} took {:?}", stopped.elapsed());
        if host.pid() != 0 {
            assert_nothing_left(host.pid());
        }
    }
}

#[tokio::test]
async fn a_stop_does_not_touch_the_same_command_beside_it() {
    // B30
    let spec = CommandSpec::shell("echo ready; exec sleep 60");
    let (first, first_task) = start(spec.clone());
    let (second, second_task) = start(spec);
    first.shown("ready").await;
    let other = second.shown("ready").await;
    first.stop.raise(StopStage::Forced);
    ended(first_task).await;
    assert!(matches!(&group(other)[..], [member] if member.pid == other && member.state != 'Z'));
    assert!(!second_task.is_finished());
    second.stop.raise(StopStage::Forced);
    assert_eq!(ended(second_task).await.exit, Some(Exit::Signal(9)));
}

#[tokio::test]
async fn a_stop_reaches_a_command_that_never_stops_writing() {
    for stage in [StopStage::Polite, StopStage::Forced] {
        let (host, task) = start(CommandSpec::shell("echo ready; exec timeout 60 yes"));
        host.shown("y").await;
        let stopped = Instant::now();
        host.stop.raise(stage);
        let ending = ended(task).await;
        assert!(stopped.elapsed() < Duration::from_secs(1), "{:?}", stopped.elapsed());
        assert!(ending.exit.is_some());
        assert_nothing_left(host.pid());
    }
}

async fn dropping_leaves_nothing() {
    let mut pids = Vec::new();
    for _ in 0..40 {
        let (host, task) = start(tree_of_seven("trap \"\" TERM;"));
        pids.push(host.shown("ready").await);
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
    }
    // Nothing is started any more: what is defunct now stays so unless somebody waits for it.
    until("nothing left", || pids.iter().all(|pid| left(*pid).is_empty())).await;
}

#[tokio::test]
async fn a_dropped_run_kills_and_reaps() {
    dropping_leaves_nothing().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_run_kills_and_reaps_with_several_threads() {
    dropping_leaves_nothing().await;
}

#[test]
fn a_dropped_run_is_reaped_though_the_runtime_has_nothing_to_do() {
    // B27. Other tests would wake the process-wide queue of children that nobody waits for.
    if !is_alone("stop::a_dropped_run_is_reaped_though_the_runtime_has_nothing_to_do", &[]) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let pid = runtime.block_on(async {
        let (host, task) = start(CommandSpec::shell("echo ready; exec sleep 60"));
        let pid = host.shown("ready").await;
        task.abort();
        pid
    });
    poll_until("nothing left", || left(pid).is_empty());
}

#[tokio::test]
async fn a_run_dropped_before_its_first_poll_starts_nothing() {
    let host = TestHost::default();
    drop(run(&CommandSpec::argv(["sleep", "60"]), None, &host));
    assert_eq!(host.pid(), 0);
}
