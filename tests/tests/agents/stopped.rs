//! Agents that are told to stop.

use std::time::Instant;

use fanin_tests::cases::assert_nothing_lives;
use fanin_tests::cases::process::until;

use super::*;

/// Starts a script, and waits until its agent has said something.
async fn working(place: &Place, script: &str, grace: Duration) -> Job {
    let job = place.start(JobSpec::agent("job", "well", format!("say at work; {script}")).grace(grace)).await;
    until("the first words", || place.supervisor.progress(job.id()).is_some()).await;
    job
}

#[tokio::test]
async fn a_stop_is_handed_on_and_what_was_said_is_kept() {
    let place = place().await;
    let job = working(&place, "tool a execute; wait", 20_000 * MS).await;
    let started = Instant::now();
    job.cancel().await.unwrap();
    let entry = job.wait(STUCK).await.unwrap();
    assert_eq!((entry.summary().as_str(), text(&entry)), ("cancelled{user}", "at work"));
    assert!(started.elapsed() < Duration::from_secs(5), "it was not waited for to the end of its grace");
    assert_eq!(place.parts().await, ["a execute: Pending Running Error!"]);
    assert_nothing_lives(&place.supervisor);
}

// B100: an agent that never confirms is ended, and the next one works.
#[tokio::test]
async fn an_agent_that_does_not_hear_is_ended_by_force() {
    let place = place().await;
    let job = working(&place, "deaf", 200 * MS).await;
    job.cancel().await.unwrap();
    let entry = job.wait(STUCK).await.unwrap();
    assert_eq!(entry.summary(), "cancelled{user}");
    assert!(!entry.unreaped && message(&entry).contains("and was killed"), "{}", message(&entry));
    assert_nothing_lives(&place.supervisor);
    assert_eq!(place.run("say x").await.summary(), "completed");
}

#[tokio::test]
async fn an_agent_that_calls_a_cancelled_turn_well_ended_does_not_make_it_so() {
    let place = place().await;
    // It ends its turn as it likes when it is told to stop.
    let job = working(&place, "ask a edit; wait", 20_000 * MS).await;
    job.cancel().await.unwrap();
    let entry = job.wait(STUCK).await.unwrap();
    assert_eq!((entry.summary().as_str(), entry.completed_anyway), ("cancelled{user}", false));
}

#[tokio::test]
async fn a_stop_before_the_prompt_needs_no_answer() {
    let place = place().await;
    let job = place.start(JobSpec::agent("job", "mute", "x").grace(20_000 * MS)).await;
    until("its start", || job.info().is_ok_and(|info| info.started_at_ms.is_some())).await;
    job.cancel().await.unwrap();
    assert_eq!(job.wait(STUCK).await.unwrap().summary(), "cancelled{user}");
    assert_nothing_lives(&place.supervisor);
}

// What an agent starts is the job's, in whatever session it is.
#[tokio::test]
async fn nothing_that_an_agent_started_outlives_its_job() {
    let folder = tempfile::tempdir().unwrap();
    let place = place().await;
    let pid_file = folder.path().join("pid");
    let read = || std::fs::read_to_string(&pid_file).ok();
    let alive = |pid: &str| Path::new("/proc").join(pid.trim()).exists();
    let spec = JobSpec::new("job", spec_in(folder.path(), "child pid; wait")).grace(200 * MS);
    let job = place.start(spec).await;
    until("the child", || read().is_some()).await;
    let pid = read().unwrap();
    assert!(alive(&pid));
    job.cancel().await.unwrap();
    assert_eq!(job.wait(STUCK).await.unwrap().summary(), "cancelled{user}");
    assert!(!alive(&pid), "the child of a stopped agent");
    std::fs::remove_file(&pid_file).unwrap();
    // And in a turn that ends well.
    let entry = place.ended(JobSpec::new("job", spec_in(folder.path(), "child pid; say x"))).await;
    assert_eq!(entry.summary(), "completed");
    let gone = read().is_none_or(|pid| !alive(&pid));
    assert!(gone, "the child of an agent that is done");
}

// B34: those that run are stopped, those that wait are never started.
#[tokio::test]
async fn a_cancelled_group_of_agents_ends_as_a_whole() {
    let runner = AcpRunner::new(agents()).with_shim(HOST);
    let supervisor = Supervisor::builder().runner(runner).slots(3).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let specs = (0..5).map(|n| JobSpec::agent(format!("{n}"), "well", "say at work; wait"));
    let group = session.fan_out(specs).await.unwrap();
    let at_work = || group.jobs().iter().filter(|job| supervisor.progress(job).is_some()).count() == 3;
    until("three at work", at_work).await;
    group.cancel().await.unwrap();
    let result = group.wait(STUCK).await.unwrap();
    let ends: Vec<_> = result.entries.iter().map(|entry| (entry.summary(), entry.runs)).collect();
    let expected = [1, 1, 1, 0, 0].map(|runs| ("cancelled{user}".to_owned(), runs));
    assert_eq!(ends, expected);
    assert_nothing_lives(&supervisor);
}

#[tokio::test]
async fn a_supervisor_that_shuts_down_leaves_no_agent() {
    let place = place().await;
    let job = working(&place, "deaf", 100 * MS).await;
    place.supervisor.stop_all(100 * MS);
    soon(place.supervisor.shutdown()).await;
    assert_nothing_lives(&place.supervisor);
    drop(job);
}
