//! Watches with real commands: what is looked at, how often, and what bounds it (SC-22).

use std::path::Path;
use std::time::{Duration, Instant};

use fanin_protocol::{Code, CommandSpec, Hit, ResultEntry, Status, WatchSpec, Watched, When};
use fanin_supervisor::{JobSpec, Session};

use super::{LIMIT, is_there, supervisor};

const SECOND: u64 = 1_000;

fn checks(line: &str, when: When) -> WatchSpec {
    let of = Watched::Checks { command: CommandSpec::shell(line), every_ms: Some(SECOND), check_ms: None };
    WatchSpec { of, when, gap_ms: Some(SECOND) }
}

async fn hit(session: &Session) -> Hit {
    tokio::time::timeout(LIMIT, session.next_hit()).await.unwrap().unwrap().take()
}

async fn over(session: &Session) -> ResultEntry {
    let wake = tokio::time::timeout(LIMIT, session.next_wake()).await.unwrap().unwrap();
    wake.ack().await.unwrap().entries.first().unwrap().clone()
}

#[tokio::test]
async fn a_check_fires_once_it_succeeds_and_the_watch_is_done() {
    let (supervisor, session) = supervisor().await;
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("flag");
    let looked = folder.path().join("looked");
    let line = format!("echo x >> {}; cat {}", looked.display(), flag.display());
    session.start(JobSpec::watch("flag", checks(&line, When::Succeeds))).await.unwrap();
    until_written(&looked).await;
    std::fs::write(&flag, "it is there\n").unwrap();
    let seen = hit(&session).await;
    assert_eq!((&*seen.name(), seen.number, seen.seen()), ("flag", 1, "the check succeeded\nit is there"));
    assert_eq!(over(&session).await.status, Status::Completed);
    supervisor.shutdown().await;
}

/// Polls: the file is what tells.
async fn until_written(path: &Path) {
    let begun = Instant::now();
    while std::fs::metadata(path).map_or(0, |file| file.len()) == 0 {
        assert!(begun.elapsed() < LIMIT, "nothing was written");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_line_fires_as_it_comes_and_the_command_is_stopped_with_the_last_firing() {
    let (supervisor, session) = supervisor().await;
    let command = CommandSpec::shell("echo $$; echo ERR one; echo fine; sleep 60");
    let watch = JobSpec::watch("log", WatchSpec::lines(command, "ERR|^[0-9]+$"));
    session.start(watch).await.unwrap();
    let seen = hit(&session).await;
    let pid = seen.seen().lines().next().unwrap().to_owned();
    assert!(seen.seen().lines().skip(1).all(|line| line == "ERR one"), "{}", seen.seen());
    let entry = over(&session).await;
    assert_eq!((entry.status, entry.unreaped), (Status::Completed, false));
    assert!(!is_there(&pid));
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_flood_of_lines_is_few_firings_of_bounded_text() {
    let (supervisor, session) = supervisor().await;
    let watch = WatchSpec { gap_ms: Some(SECOND), ..WatchSpec::lines(CommandSpec::shell("yes ERR"), "ERR") };
    let begun = Instant::now();
    session.start(JobSpec::watch("flood", watch).fires(2, LIMIT)).await.unwrap();
    let (first, second) = (hit(&session).await, hit(&session).await);
    assert!(begun.elapsed() >= Duration::from_secs(1), "two firings are a gap apart");
    assert_eq!((first.number, second.number), (1, 2));
    assert!(
        second.seen().len() <= 4_096 && second.seen().contains("more lines that match]"),
        "{}",
        second.seen()
    );
    assert_eq!(over(&session).await.status, Status::Completed);
    supervisor.shutdown().await;
}

#[tokio::test]
async fn what_a_job_put_out_before_it_was_watched_is_seen_and_its_end_ends_the_watch() {
    let (supervisor, session) = supervisor().await;
    let job = session.start(JobSpec::shell("work", "echo ERR early; read x; echo never")).await.unwrap();
    job.wait(LIMIT).await.unwrap();
    let watch = WatchSpec::output(job.id().clone(), "ERR");
    session.start(JobSpec::watch("of", watch).fires(5, LIMIT)).await.unwrap();
    assert_eq!(hit(&session).await.seen(), "ERR early");
    let entry = over(&session).await;
    assert_eq!(entry.status, Status::Completed);
    assert!(entry.output.unwrap().text.contains("is over, and there is nothing left to watch"));
    supervisor.shutdown().await;
}

#[tokio::test]
async fn checks_that_hang_are_stopped_and_named() {
    let (supervisor, session) = supervisor().await;
    let of = Watched::Checks {
        command: CommandSpec::shell("echo $$; sleep 60"),
        every_ms: Some(SECOND),
        check_ms: Some(200),
    };
    session
        .start(JobSpec::watch("hangs", WatchSpec { of, when: When::Succeeds, gap_ms: None }))
        .await
        .unwrap();
    let entry = over(&session).await;
    assert_eq!((entry.status, entry.code), (Status::Error, Some(Code::CheckFailed)));
    let why = entry.message.unwrap();
    assert!(why.starts_with("3 checks in a row") && why.contains("longer than 200ms"), "{why}");
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_and_no_condition() {
    let (supervisor, session) = supervisor().await;
    let watch = checks("no-such-program-here", When::Succeeds);
    session.start(JobSpec::watch("typo", watch)).await.unwrap();
    let entry = over(&session).await;
    assert_eq!((entry.status, entry.code), (Status::Error, Some(Code::CheckFailed)));
    assert!(entry.message.unwrap().contains("no-such-program-here"));
    supervisor.shutdown().await;
}

#[tokio::test]
async fn two_checks_are_never_at_work_at_once() {
    let (supervisor, session) = supervisor().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    // Longer than the interval; the second sees whether the first is still there.
    let line = format!(
        "mkdir {path}/busy || echo overlap; echo x >> {path}/n; sleep 1.1; rmdir {path}/busy; wc -l < {path}/n"
    );
    session.start(JobSpec::watch("slow", checks(&line, When::Changes))).await.unwrap();
    let seen = hit(&session).await;
    assert_eq!(seen.seen(), "the output changed\n2");
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_pattern_that_is_none_is_refused_before_anything_is_watched() {
    let (supervisor, session) = supervisor().await;
    let watch = JobSpec::watch("bad", WatchSpec::lines(CommandSpec::shell("true"), "("));
    let error = session.start(watch).await.unwrap_err();
    assert_eq!(error.code(), "rejected");
    assert!(error.to_string().contains("pattern: "), "{error}");
    supervisor.shutdown().await;
}
