//! Each call does what the library's of its name does.

use std::time::Duration;

use fanin_client::{
    CancelCall, ClientError, JobCall, LaunchCall, Message, OutputCall, Returned, StopWhat, WaitCall,
};
use fanin_protocol::{GroupId, JobFilter, JobId, Named, Outcome, Promotion, Status};

use crate::common::{command, launch, served, session, until};

fn job(id: &str) -> JobId {
    JobId::parse(id).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_is_launched_and_its_one_wake_comes_once() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let launched = client.launch(launch(&main, &["a", "slow"])).await.unwrap();
    assert!(launched.created && launched.jobs.len() == 2);
    served.gate.open();
    let wake = client.next_wake(Some(&main)).await.unwrap();
    assert_eq!((wake.group.clone(), wake.outcome), (launched.group.clone(), Outcome::AllOk));
    assert_eq!(wake.entries[1].label.as_deref(), Some("slow"));
    // Dropped, it is owed as before; acknowledged, it comes never again.
    drop(wake);
    client.next_wake(Some(&main)).await.unwrap().ack().await.unwrap();
    let again = tokio::time::timeout(Duration::from_secs(60), client.next_wake(Some(&main))).await;
    assert!(again.is_err(), "a second wake");
    let group = client.group(&launched.group).await.unwrap();
    assert!(group.is_taken && group.result.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_is_repeated_answers_what_is_there() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let group = Some(GroupId::parse("survey").unwrap());
    let call = LaunchCall { group, ..launch(&main, &["slow", "b"]) };
    let first = client.launch(call.clone()).await.unwrap();
    let second = client.launch(call).await.unwrap();
    assert!(first.created && !second.created);
    assert_eq!((first.jobs, first.lifetimes), (second.jobs, second.lifetimes));
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_fits_into_no_frame_goes_in_parts_and_is_one_group() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let mut call = launch(&main, &[]);
    let spec = fanin_protocol::CommandSpec::shell(format!("true {}", "x".repeat(900_000)));
    call.jobs = (0..9).map(|n| fanin_client::NewJob::new(format!("job {n}"), spec.clone())).collect();
    let launched = client.launch(call).await.unwrap();
    assert_eq!(launched.jobs.len(), 9);
    let result = client.wait_group(Some(&main), &launched.group, None).await.unwrap().ack().await.unwrap();
    let labels: Vec<_> = result.result.entries.iter().map(|entry| entry.label.clone().unwrap()).collect();
    assert!(labels.iter().enumerate().all(|(n, label)| **label == format!("job {n}")), "{labels:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_end_with_their_jobs_or_their_limit() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let launched = client.launch(launch(&main, &["a", "slow"])).await.unwrap();
    let wait = WaitCall { session: Some(main.clone()), jobs: launched.jobs.clone(), limit_ms: Some(50) };
    let any = client.wait_any(wait.clone()).await.unwrap();
    assert_eq!(any.entries.iter().map(|entry| entry.job.clone()).collect::<Vec<_>>(), launched.jobs[..1]);
    drop(any);
    let late = client.wait_all(wait.clone()).await.unwrap_err();
    assert_eq!(late.code(), "wait_timed_out");
    served.gate.open();
    let all = client.wait_all(WaitCall { limit_ms: None, ..wait }).await.unwrap().ack().await.unwrap();
    assert_eq!(all.entries.len(), 2);
    assert!(!all.already_delivered);
}

#[tokio::test(start_paused = true)]
async fn a_foreground_call_shows_its_jobs_and_can_be_promoted() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let call = client.run(launch(&main, &["slow"]), None).await.unwrap();
    let group = call.launched().group.clone();
    let promoted = client.promote(Named::Group(group.clone())).await.unwrap();
    assert_eq!(promoted, Promotion::Promoted);
    assert!(matches!(call.returned().await.unwrap(), Returned::Background { promoted: true }));
    let limited = client.run(launch(&main, &["slow"]), Duration::from_millis(5)).await.unwrap();
    assert!(matches!(limited.returned().await.unwrap(), Returned::Background { promoted: false }));
    let at_once = client.run(launch(&main, &["a", "b"]), None).await.unwrap();
    let Returned::Over(result) = at_once.returned().await.unwrap() else { panic!("in the background") };
    assert_eq!(result.ack().await.unwrap().result.counts.completed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_turn_holds_wakes_until_it_ends() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let turn = client.turn(&main).await.unwrap();
    let single = LaunchCall { joins_turn: true, ..launch(&main, &["a"]) };
    let group = client.launch(single.clone()).await.unwrap().group;
    assert_eq!(client.launch(single).await.unwrap().group, group, "one group for a turn");
    let held = tokio::time::timeout(Duration::from_secs(5), client.next_wake(Some(&main))).await;
    assert!(held.is_err(), "the parent is busy");
    assert_eq!(client.turn(&main).await.unwrap_err().code(), "turn_open");
    turn.end().await.unwrap();
    let wake = client.next_wake(Some(&main)).await.unwrap().ack().await.unwrap();
    assert_eq!((wake.group.clone(), wake.counts.launched), (group, 2));
    // One that is dropped ends as well.
    drop(client.turn(&main).await.unwrap());
    client.turn(&main).await.unwrap().fail("no more").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn jobs_are_listed_looked_at_stopped_and_read() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let mut call = launch(&main, &["slow", "b"]);
    call.jobs[0].id = Some(job("one"));
    let launched = client.launch(call).await.unwrap();
    served.runner.until_started("slow").await;
    let info = client.get(job("one")).await.unwrap();
    assert_eq!((info.status, info.group), (Status::Running, launched.group.clone()));
    let page = client.list(JobFilter { limit: 1, ..JobFilter::default() }).await.unwrap();
    assert_eq!((page.jobs.len(), page.next), (1, Some(launched.lifetimes[1])));
    assert!(!client.why(Named::Job(job("one"))).await.unwrap().is_empty());
    assert!(!client.why(Named::Session(main.clone())).await.unwrap().is_empty());
    assert_eq!(client.find("one").await.unwrap(), Named::Job(job("one")));
    assert_eq!(client.progress(&job("one")).await.unwrap(), None);
    client.account(Named::Session(main.clone())).await.unwrap();
    let other = JobCall { job: job("one"), lifetime: Some(launched.lifetimes[1]) };
    let wrong = CancelCall { what: StopWhat::Job(other), grace_ms: None };
    assert_eq!(client.cancel(wrong).await.unwrap_err().code(), "not_current");
    let all = CancelCall { what: StopWhat::Group(launched.group.clone()), grace_ms: Some(0) };
    let stopped = client.cancel(all).await.unwrap();
    assert_eq!(stopped.len(), 2);
    let result = client.wait_group(Some(&main), &launched.group, None).await.unwrap();
    assert_eq!(result.result.counts.cancelled, 1);
    let output = OutputCall { job: launched.jobs[1].clone(), lifetime: None, offset: 2, max: 1 };
    let page = client.output(output).await.unwrap();
    assert_eq!((&page.bytes[..], page.total, page.is_over), (&b"n"[..], 4, true));
    let status = client.status().await.unwrap();
    assert_eq!((status.running, status.clients, status.pid), (0, 1, std::process::id()));
}

#[tokio::test(start_paused = true)]
async fn words_come_with_the_next_message() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let (key, created) = client.post(&main, "stop here", None).await.unwrap();
    assert!(created);
    let words = client.next_message(&main).await.unwrap();
    assert_eq!(*words, Message::Words { key: key.clone(), text: "stop here".into() });
    words.ack().await.unwrap();
    assert!(!client.post(&main, "stop here", Some(key)).await.unwrap().1, "a known key posts nothing again");
    assert_eq!(client.extend(&job("none"), None, "more").await.unwrap_err().code(), "unknown_job");
    assert_eq!(
        client.extend_time(&job("none"), Duration::from_secs(1)).await.unwrap_err().code(),
        "unknown_job"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_says_why_with_the_library_s_code() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let code = |error: ClientError| error.code().to_owned();
    assert_eq!(code(client.launch(launch(&main, &[])).await.unwrap_err()), "empty");
    let unopened = fanin_protocol::SessionId::parse("other").unwrap();
    assert_eq!(code(client.launch(launch(&unopened, &["a", "b"])).await.unwrap_err()), "unknown_session");
    let nobody = LaunchCall { jobs: vec![command("a")], ..LaunchCall::default() };
    assert_eq!(code(client.launch(nobody).await.unwrap_err()), "session_missing");
    let mut relative = launch(&main, &["a"]);
    relative.jobs[0].spec = fanin_protocol::CommandSpec::shell("true").cwd("here").into();
    assert_eq!(code(client.launch(relative).await.unwrap_err()), "relative_folder");
    client.close_session(&main).await.unwrap();
    assert_eq!(code(client.launch(launch(&main, &["a"])).await.unwrap_err()), "session_closed");
    assert_eq!(served.supervisor.list(&JobFilter::default()).unwrap().jobs.len(), 0, "nothing was launched");
}

#[tokio::test(start_paused = true)]
async fn a_client_can_ask_for_the_end() {
    let served = served().await;
    let client = served.client();
    client.shutdown(Duration::from_secs(3)).await.unwrap();
    let stop = served.service.asked_to_stop().await;
    assert_eq!(stop.drain, Some(Duration::from_secs(3)));
    served.service.end();
    until("the connection is closed", || {
        let shown = format!("{:?}", served.service);
        shown.contains("clients: 0")
    })
    .await;
    assert_eq!(served.client().status().await.unwrap_err().code(), "connection_lost");
}
