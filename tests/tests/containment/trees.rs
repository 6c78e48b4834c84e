//! Stops and ends of whole trees: what left the group, the session, or both.

use std::time::{Duration, Instant};

use fanin_protocol::Left;
use fanin_supervisor::JobSpec;
use fanin_supervisor::protocol::{Containment, Record, Status};
use fanin_supervisor::{Delivery, Filter, Since};
use fanin_tests::cases::process::{Token, group, signal, until};
use fanin_tests::cases::soon;

use super::{MS, start};

/// A child in the group, one in a session of its own, and a daemon that forked twice and has no environment.
const TREE: &str = "sleep TOKEN & setsid sleep TOKEN & \
    (setsid sh -c 'env -i setsid sleep TOKEN >/dev/null 2>&1 & exit' &); ";

// B25, B28, SC-4: a stop reaches the whole tree, and only what is gone is over.
#[tokio::test]
async fn a_stop_reaches_what_left_group_and_session() {
    for (trap, grace) in [("", 5_000), ("trap '' TERM; ", 200), ("trap '' TERM; ", 0)] {
        let mut shimmed = start().await;
        let token = Token::default();
        let line = token.line(&format!("{trap}{TREE} wait"));
        let spec = JobSpec::shell("tree", line).grace(Duration::from_millis(grace));
        let job = shimmed.session.start(spec).await.unwrap();
        let (_, pid) = shimmed.pids.next().await;
        until("three asleep", || token.asleep() == 3).await;
        assert!(group(pid).len() < 4, "some have left the group");
        let stopped = Instant::now();
        job.cancel().await.unwrap();
        let (entry, left) = shimmed.ended(&job).await;
        let took = stopped.elapsed();
        // At once: not when somebody looks the next time.
        token.assert_gone();
        assert!(took < Duration::from_millis(grace) + Duration::from_secs(3), "{trap:?} took {took:?}");
        assert!(trap.is_empty() || took >= Duration::from_millis(grace), "{took:?}");
        assert_eq!((entry.status, entry.unreaped), (Status::Cancelled, false));
        assert_eq!(entry.signal, Some(if trap.is_empty() { 15 } else { 9 }));
        assert!(left.is_none_or(|left| !left.is_unreaped()));
        shimmed.supervisor.shutdown().await;
    }
}

// B28: polite first, for those in sessions of their own too, and once.
#[tokio::test]
async fn who_left_the_session_is_asked_first_and_once() {
    let mut shimmed = start().await;
    let token = Token::default();
    let line = token.line(
        "setsid sh -c 'exec 2>/dev/null; trap \"echo asked\" TERM; echo ready; while ! [ -e /TOKEN ]; do sleep 0.02; done' & \
         trap '' TERM; wait; wait; wait",
    );
    let (job, _) = shimmed.shell(&line).await;
    until("ready", || shimmed.supervisor.progress(job.id()).as_deref() == Some("ready")).await;
    job.cancel().await.unwrap();
    let (entry, _) = shimmed.ended(&job).await;
    token.assert_gone();
    assert_eq!(&*entry.output.unwrap().text, "ready\nasked\n");
}

// B18, B26, 14.6: a command ends with its status, soon; what it left is stopped and counted, and holds nothing up.
#[tokio::test]
async fn what_a_command_left_behind_is_stopped_and_counted() {
    for line in
        ["setsid sleep TOKEN & sleep TOKEN & echo done", "(setsid sleep TOKEN >/dev/null 2>&1 &); echo done"]
    {
        let mut shimmed = start().await;
        let token = Token::default();
        let started = Instant::now();
        let (entry, left) = shimmed.run(&token.line(line)).await;
        let took = started.elapsed();
        token.assert_gone();
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!(
            (entry.summary().as_str(), entry.exit_code, entry.unreaped),
            ("completed", Some(0), false)
        );
        assert_eq!(&*entry.output.unwrap().text, "done\n");
        let stopped = if line.starts_with('(') { 1 } else { 2 };
        assert_eq!(left, Some(Left { stopped, ..Left::default() }));
    }
}

// 14.6: leftovers are asked before they are killed, and killed where they do not listen.
#[tokio::test]
async fn leftovers_have_their_time_and_no_more() {
    let mut shimmed = start().await;
    let token = Token::default();
    let polite = "setsid sh -c 'exec 2>/dev/null; trap \"echo cleaned; exit\" TERM; echo ready; while :; do sleep 0.02; done' & ";
    let (entry, left) = shimmed.run(&format!("{polite} sleep 0.3; echo done")).await;
    assert_eq!(&*entry.output.unwrap().text, "ready\ndone\ncleaned\n");
    // The shell, and its `sleep` where there is one at that moment.
    assert!((1..=2).contains(&left.unwrap().stopped));
    let deaf = "setsid sh -c 'trap \"\" TERM; while :; do sleep TOKEN; done' >/dev/null 2>&1 & ";
    let started = Instant::now();
    let (entry, left) = shimmed.run(&token.line(&format!("{deaf} sleep 0.3"))).await;
    token.assert_gone();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(entry.summary(), "completed");
    assert_eq!(left.unwrap().stopped, 2);
}

// B30: a stop, repeated and late, does not reach the same line beside it, nor our own group.
#[tokio::test]
async fn a_stop_is_exact() {
    let mut shimmed = start().await;
    let token = Token::default();
    let line = token.line("trap '' TERM; echo ready; setsid sleep TOKEN & wait; wait");
    let (first, pid) = shimmed.shell(&line).await;
    let ours = std::process::Command::new("sleep").arg("60").spawn().map(|child| child.id()).unwrap();
    first.cancel().await.unwrap();
    let (second, other) = shimmed.shell(&line).await;
    first.cancel().await.unwrap();
    shimmed.ended(&first).await;
    assert!(group(pid).is_empty());
    first.cancel().await.unwrap();
    until("the other is up", || token.asleep() == 1).await;
    assert!(group(other).iter().any(|member| member.pid == other && member.state != 'Z'));
    assert!(
        std::path::Path::new(&format!("/proc/{ours}")).exists(),
        "a process of our own group was signalled"
    );
    second.cancel().await.unwrap();
    shimmed.ended(&second).await;
    token.assert_gone();
    signal(ours, "KILL");
}

// SC-4, SC-5: the record says who the process is, how it is held, and since when.
#[tokio::test]
async fn the_record_says_who_the_process_is_and_how_it_is_held() {
    let shimmed = start().await;
    let mut bound =
        shimmed.supervisor.subscribe(Filter::all().kinds(["run.bound"]), Since::Now).await.unwrap();
    let job = shimmed.session.start(JobSpec::command("job", ["sleep", "60"])).await.unwrap();
    let Some(Delivery::Event(event)) = soon(bound.next()).await else { panic!("no run.bound") };
    let Record::RunBound(bound) = event.record() else { panic!("{event:?}") };
    let pid = bound.pid.unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    assert_eq!(bound.pid_start, Some(fields[19].parse().unwrap()));
    assert_eq!((bound.pgid, bound.containment), (Some(pid), Some(Containment::Shim)));
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(bound.boot_id.as_deref(), Some(boot.trim()));
    // A process that is just becoming its program shows no environment yet.
    let mark = || {
        let environ = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        environ.split('\0').find_map(|variable| variable.strip_prefix("FANIN_RUN=log_").map(str::to_owned))
    };
    until("its mark is there", || mark().is_some()).await;
    assert!(mark().unwrap().ends_with(&format!(":{}", event.run().unwrap())), "{:?}", mark());
    job.cancel().await.unwrap();
    shimmed.supervisor.shutdown().await;
}

// SC-6: a supervisor that is only dropped takes its trees along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_supervisor_leaves_nothing_of_a_tree() {
    let mut shimmed = start().await;
    let token = Token::default();
    let (job, _) = shimmed.shell(&token.line(&format!("trap '' TERM; {TREE} wait"))).await;
    until("three asleep", || token.asleep() == 3).await;
    let dropped = Instant::now();
    drop((shimmed, job));
    until("nothing alive", || token.alive().is_empty()).await;
    assert!(dropped.elapsed() < 1_500 * MS, "it was killed at once, not asked: {:?}", dropped.elapsed());
}
