//! The end of a client: within two seconds, with its jobs stopped for the right reason (14.10, B93, B94).

use std::time::Duration;

use fanin_mcp::{End, Goodbye, ServeError};
use fanin_protocol::limits::MCP_WRITE_WAIT;
use fanin_protocol::{Cause, JobInfo, Status};
use fanin_supervisor::{JobFilter, Supervisor};
use serde_json::json;
use tokio::time::Instant;

use crate::client::{Client, Scripted, yields};

fn jobs(supervisor: &Supervisor) -> Vec<JobInfo> {
    supervisor.list(&JobFilter::default()).unwrap().jobs
}

const GONE: Goodbye = Goodbye { end: End::ClientGone, unreaped: false };

#[tokio::test(start_paused = true)]
async fn a_client_that_launched_nothing_is_gone_at_once_and_nothing_was_started() {
    for is_begun in [true, false] {
        let mut client = if is_begun { Client::begun().await } else { Client::connect(Scripted::default()) };
        let begun = Instant::now();
        client.hang_up().await;
        assert!(client.host.supervisor.lock().await.is_none());
        assert_eq!(client.goodbye().await, Ok(GONE));
        assert!(begun.elapsed().is_zero(), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn the_jobs_of_a_client_that_is_gone_are_stopped_and_say_so() {
    let mut client = Client::begun().await;
    client.call("subagent", json!({ "shell": "hangs", "background": true })).await;
    yields(20).await;
    let supervisor = client.supervisor().await;
    let begun = Instant::now();
    client.hang_up().await;
    assert_eq!(client.goodbye().await, Ok(GONE));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let causes: Vec<_> = jobs(&supervisor).into_iter().map(|job| job.cause).collect();
    assert_eq!(causes, [Some(Cause::ClientGone)]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_ready_soon_is_still_written() {
    let mut client = Client::begun().await;
    let id = client.begin("subagent", json!({ "shell": "after 0.3s; says in time" })).await;
    client.hang_up().await;
    assert_eq!(client.result(id).await["results"][0]["tasks"][0]["output"], "in time");
    assert!(client.message().await.is_none(), "and nothing else");
    assert_eq!(client.goodbye().await, Ok(GONE));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_longer_is_answered_with_what_was_stopped() {
    let mut client = Client::begun().await;
    let id = client.begin("subagent", json!({ "shell": "after 60s; says too late" })).await;
    let begun = Instant::now();
    client.hang_up().await;
    let said = client.result(id).await;
    assert_eq!(said["results"][0]["tasks"][0]["cause"], "client_gone", "{said}");
    assert_eq!(client.goodbye().await, Ok(GONE));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_word_of_the_host_ends_it_as_a_shutdown() {
    let mut client = Client::begun().await;
    client.call("subagent", json!({ "shell": "hangs", "background": true })).await;
    yields(20).await;
    let supervisor = client.supervisor().await;
    client.tell();
    assert!(client.message().await.is_none());
    assert_eq!(client.goodbye().await, Ok(Goodbye { end: End::Told, unreaped: false }));
    assert_eq!(jobs(&supervisor)[0].cause, Some(Cause::Shutdown));
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_begin_a_session_is_told_why() {
    let mut client = Client::connect(Scripted::default());
    client.note("notifications/initialized", json!({})).await;
    let error = client.goodbye().await.unwrap_err();
    assert_eq!(error.code(), "mcp_handshake");
    assert!(matches!(error, ServeError::Handshake(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_cannot_keep_the_server() {
    let mut client = Client::begun().await;
    client.call("subagent", json!({ "shell": "says 60000 bytes of x", "key": "k" })).await;
    // Far more answers than the stream between the two holds.
    for _ in 0..60 {
        client.begin("wait_for_subagents", json!({ "ids": ["k"] })).await;
    }
    yields(200).await;
    let begun = Instant::now();
    client.hang_up().await;
    assert_eq!(client.goodbye().await, Ok(GONE));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

// 14.10: what is not read holds up no job, and not the end; and one who reads nothing for very long is gone.
#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_holds_up_nothing() {
    for hangs_up in [true, false] {
        let mut client = Client::begun().await;
        let said = client.call("subagent", json!({ "shell": "says 40000 bytes of x" })).await;
        let job = said["results"][0]["tasks"][0]["job"].clone();
        client.call("subagent", json!({ "shell": "after 20s; says late", "background": true })).await;
        // More than twice what is on its way at the most.
        for _ in 0..40 {
            client.begin("jobs", json!({ "job": job, "max_bytes": 32_768 })).await;
        }
        let (supervisor, begun) = (client.supervisor().await, Instant::now());
        tokio::time::sleep(Duration::from_secs(21)).await;
        let statuses: Vec<_> = jobs(&supervisor).into_iter().map(|job| job.status).collect();
        assert_eq!(statuses, [Status::Completed; 2], "{hangs_up}");
        let (begun, limit) = if hangs_up {
            client.hang_up().await;
            (Instant::now(), Duration::ZERO)
        } else {
            (begun, MCP_WRITE_WAIT)
        };
        assert_eq!(client.goodbye().await, Ok(GONE), "{hangs_up}");
        let took = begun.elapsed();
        assert!(took >= limit && took < limit + Duration::from_secs(2), "{hangs_up}: {took:?}");
    }
}
