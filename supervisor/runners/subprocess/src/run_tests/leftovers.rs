//! What a command leaves in its group when its leader has ended.

use fanin_protocol::limits::LEFT_NAMED_MAX;
use fanin_protocol::{Left, LeftProcess};
use fanin_supervisor::Runner as _;

use super::*;
use crate::SubprocessRunner;

#[tokio::test]
async fn a_command_ends_though_a_grandchild_holds_its_pipe() {
    // B26
    let (host, task) = start(CommandSpec::shell("echo ready; sleep 60 & exit 0"));
    let pid = host.shown("ready").await;
    let started = Instant::now();
    let ending = ended(task).await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!((code(&ending), ending.exit), (None, Some(Exit::Status(0))));
    assert_eq!(ending.output.text(), "ready\n");
    assert_nothing_left(pid);
}

#[tokio::test]
async fn what_is_left_and_ignores_the_polite_signal_is_killed() {
    let line =
        "sh -c 'trap \"\" TERM; echo ready; exec >/dev/null 2>&1; while :; do sleep 60; done' & sleep 0.2";
    let (host, task) = start(CommandSpec::shell(line));
    let pid = host.shown("ready").await;
    let started = Instant::now();
    let ending = ended(task).await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!((code(&ending), ending.exit), (None, Some(Exit::Status(0))));
    assert_nothing_left(pid);
}

#[tokio::test]
async fn what_is_left_writes_until_it_is_gone() {
    let line = "sh -c 'trap \"echo last words; exit\" TERM; echo ready; sleep 60 & wait' & sleep 0.2";
    let (_, task) = start(CommandSpec::shell(line));
    let ending = ended(task).await;
    assert_eq!(ending.output.text(), "ready\nlast words\n");
}

#[tokio::test]
async fn what_left_the_group_does_not_keep_the_command_from_ending() {
    // It is out of reach until a job has a shim of its own. That it holds both pipes must not matter.
    let line = "setsid sh -c 'echo $$; exec sleep 8' & sleep 0.2; echo done";
    let started = Instant::now();
    let ending = run_shell(line).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(ending.output.text().ends_with("done\n"));
    let escaped: i32 = ending.output.text().lines().next().unwrap().parse().unwrap();
    kill(escaped);
}

#[tokio::test]
async fn in_a_stop_what_the_leader_leaves_has_the_rest_of_the_grace() {
    // The shell goes at once; the program it ran cleans up for longer than drain and leftover grace together.
    let seconds = (PIPE_DRAIN + LEFTOVER_GRACE).as_secs_f64() + 0.5;
    let line = format!(
        "sh -c 'trap \"echo asked; sleep {seconds}; echo cleaned; exit 0\" TERM; echo ready; sleep 60 & wait' & wait"
    );
    let (host, task) = start(CommandSpec::shell(line));
    let pid = host.shown("ready").await;
    asleep(pid, 1).await;
    host.stop.raise(StopStage::Polite);
    let ending = ended(task).await;
    assert_eq!(ending.output.text(), "ready\nasked\ncleaned\n");
    assert_nothing_left(pid);
}

#[tokio::test]
async fn in_a_stop_the_forced_stage_ends_what_the_leader_left() {
    let line =
        "sh -c 'trap \"echo asked\" TERM; exec 2>/dev/null; echo ready; while :; do sleep 60; done' & wait";
    let (host, task) = start(CommandSpec::shell(line));
    let pid = host.shown("ready").await;
    asleep(pid, 1).await;
    host.stop.raise(StopStage::Polite);
    host.shown("asked").await;
    leader_reaped(pid).await;
    assert!(!task.is_finished());
    let forced = Instant::now();
    host.stop.raise(StopStage::Forced);
    let ending = ended(task).await;
    assert!(forced.elapsed() < Duration::from_secs(1), "{:?}", forced.elapsed());
    assert_eq!(ending.exit, Some(Exit::Signal(15)));
    assert_nothing_left(pid);
}

#[tokio::test]
async fn a_run_dropped_while_leftovers_are_stopped_kills_them() {
    let line = "sh -c 'trap \"\" TERM; echo ready; while :; do sleep 60; done' & wait";
    let (host, task) = start(CommandSpec::shell(line));
    let pid = host.shown("ready").await;
    asleep(pid, 1).await;
    host.stop.raise(StopStage::Polite);
    leader_reaped(pid).await;
    assert!(!left(pid).is_empty());
    task.abort();
    assert!(task.await.is_err());
    until("nothing left", || left(pid).is_empty()).await;
}

// J-14: only where all that may live is named, and none of it is there, a new life may begin.
#[test]
fn what_was_left_may_live_until_all_of_it_is_seen_to_be_gone() {
    let (runner, mut child) =
        (SubprocessRunner::new(), std::process::Command::new("sleep").arg("60").spawn().unwrap());
    let entry = fanin_process::Table::default().entry(child.id()).unwrap();
    let process = LeftProcess { pid: entry.pid, pid_start: entry.start, program: entry.program };
    let left = |processes: usize, shim_lost| Left {
        alive: vec![process.clone(); processes].into(),
        shim_lost,
        ..Left::default()
    };
    assert!(runner.may_live(&left(1, false)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!runner.may_live(&left(1, false)));
    assert!(runner.may_live(&left(1, true)), "more may live than was found");
    assert!(runner.may_live(&left(LEFT_NAMED_MAX, false)), "more may live than is named");
}
