//! What a supervisor leaves that is killed: nothing (B29, B59).

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fanin_protocol::limits::ORPHAN_GRACE;
use fanin_tests::cases::process::{Token, signal, until};

use super::HOST;

/// A program with jobs under way.
fn host(lines: &[String]) -> Child {
    let mut child = Command::new(HOST).args(lines).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in lines {
        assert!(said.next().unwrap().unwrap().starts_with("run.bound "));
    }
    child
}

fn kill(mut host: Child, group: bool) {
    let pid = if group { format!("-{}", host.id()) } else { host.id().to_string() };
    assert!(Command::new("kill").args(["-s", "KILL", "--", &pid]).status().unwrap().success());
    host.wait().unwrap();
}

// B29: killed without a word, a supervisor takes along what it ran: the deaf, the daemons, those without a mark.
#[tokio::test]
async fn nothing_outlives_a_killed_supervisor() {
    let token = Token::default();
    let lines = [
        "sleep TOKEN",
        "trap '' TERM; while :; do sleep TOKEN; done",
        "setsid sleep TOKEN & wait",
        "setsid sh -c 'trap \"\" TERM; while :; do sleep TOKEN; done' & wait",
        "(setsid sh -c 'env -i setsid sleep TOKEN >/dev/null 2>&1 & exit' &); sleep TOKEN",
        "kill -STOP $$; sleep TOKEN",
    ];
    let lines = lines.map(|line| token.line(line));
    let host = host(&lines);
    until("all asleep", || token.asleep() == 6).await;
    let killed = Instant::now();
    kill(host, false);
    until("nothing alive", || token.alive().is_empty()).await;
    assert!(killed.elapsed() < ORPHAN_GRACE + Duration::from_secs(3), "{:?}", killed.elapsed());
}

// B29: those that listen have their time, and no more.
#[tokio::test]
async fn the_orphaned_are_asked_before_they_are_killed() {
    let dir = tempfile::tempdir().unwrap();
    let token = Token::default();
    let cleaned = dir.path().join("cleaned");
    let line = format!("trap 'sleep 0.3; echo > {}; exit' TERM; sleep TOKEN & wait; wait", cleaned.display());
    let host = host(&[token.line(&line)]);
    until("asleep", || token.asleep() == 1).await;
    kill(host, false);
    until("nothing alive", || token.alive().is_empty()).await;
    assert!(cleaned.exists());
}

// B59: a runaway writer does not go on without the one who reads it.
#[tokio::test]
async fn a_runaway_writer_ends_with_its_supervisor() {
    let token = Token::default();
    let lines =
        ["yes TOKEN", "trap '' PIPE; while :; do echo TOKEN; done 2>/dev/null"].map(|line| token.line(line));
    let host = host(&lines);
    until("both write", || token.alive().iter().filter(|(_, line)| !line.contains("host")).count() >= 2)
        .await;
    kill(host, false);
    until("nothing alive", || token.alive().is_empty()).await;
}

// B29: killed in the same moment as its start: whatever was under way is nobody's.
#[tokio::test]
async fn nothing_is_started_for_a_supervisor_that_is_gone() {
    let token = Token::default();
    for round in 0..20 {
        let lines: Vec<String> = (0..4).map(|_| token.line("setsid sleep TOKEN & sleep TOKEN")).collect();
        let mut host = Command::new(HOST).args(lines).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(host.stdout.take().unwrap());
        let mut line = String::new();
        for _ in 0..round % 5 {
            said.read_line(&mut line).unwrap();
        }
        signal(host.id(), "KILL");
        host.wait().unwrap();
    }
    until("nothing alive", || token.alive().is_empty()).await;
}
