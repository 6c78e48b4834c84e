//! Waits: their limits, their progress, and that they stop nothing (14.3).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::Client;

#[tokio::test(start_paused = true)]
async fn without_a_token_a_call_blocks_for_fifty_seconds_and_stops_nothing() {
    let mut client = Client::begun().await;
    let begun = Instant::now();
    let said = client.call("subagent", json!({ "shell": "after 70s; says at last", "key": "long" })).await;
    assert_eq!(begun.elapsed().as_secs(), 50);
    assert_eq!(said["running"][0]["tasks"][0]["status"], "running", "{said}");
    assert!(said["summary"].as_str().unwrap().starts_with("1 of 1 jobs still run after 50"), "{said}");
    assert!(said["next"].as_str().unwrap().contains(r#"{"ids":["long"]}"#), "{said}");
    let said = client.call("wait_for_subagents", json!({ "ids": ["long"] })).await;
    assert_eq!(begun.elapsed().as_secs(), 70);
    assert_eq!(said["results"][0]["tasks"][0]["output"], "at last");
    assert!(client.others.is_empty(), "no progress was asked for: {:?}", client.others);
}

#[tokio::test(start_paused = true)]
async fn with_a_token_a_wait_blocks_for_four_minutes_and_tells_every_ten_seconds() {
    let mut client = Client::begun().await;
    let two = json!([{ "shell": "after 15s; says a" }, { "shell": "after 500s; says b", "id": "build" }]);
    client.call("task_parallel", json!({ "tasks": two, "background": true, "key": "both" })).await;
    let begun = Instant::now();
    let id = client.begin_with_progress("wait_for_subagents", json!({ "ids": ["both"] })).await;
    let said = client.result(id).await;
    assert_eq!(begun.elapsed().as_secs(), 240);
    assert_eq!(said["running"][0]["tasks"][0]["status"], "completed", "{said}");
    let notes: Vec<Value> = client.others.drain(..).collect();
    let seconds: Vec<_> = notes.iter().map(|note| note["params"]["progress"].as_f64().unwrap()).collect();
    let wanted: Vec<_> = (1..=24).map(|n| f64::from(n) * 10.0).collect();
    // The last of them and the limit are due at once.
    assert!(seconds == wanted || seconds == wanted[..23], "{seconds:?}");
    assert_eq!(notes[1]["params"]["message"], "1 of 2 over after 20.0s; running: build");
    assert_eq!(notes[0]["params"]["progressToken"], "p2", "{}", notes[0]);
    // Nothing more is told of a call that was answered.
    client.call("jobs", json!({})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    client.call("jobs", json!({})).await;
    assert!(client.others.is_empty(), "{:?}", client.others);
}

// B98
#[tokio::test(start_paused = true)]
async fn a_foreground_call_tells_its_progress_too() {
    let mut client = Client::begun().await;
    let id = client.begin_with_progress("subagent", json!({ "shell": "after 35s; says ok" })).await;
    let said = client.result(id).await;
    assert_eq!(said["summary"], "1 of 1 completed, in 35.0s");
    let seconds: Vec<_> = client.others.iter().map(|note| note["params"]["progress"].clone()).collect();
    assert_eq!(seconds, [json!(10.0), json!(20.0), json!(30.0)]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_may_be_shorter_and_says_what_is_over() {
    let mut client = Client::begun().await;
    for (key, time) in [("quick", "1s"), ("slow", "100s")] {
        let shell = format!("after {time}; says {key}");
        client.call("subagent", json!({ "shell": shell, "background": true, "key": key })).await;
    }
    let begun = Instant::now();
    let said = client.call("wait_for_subagents", json!({ "timeout_seconds": 20 })).await;
    assert_eq!(begun.elapsed().as_secs(), 20);
    assert_eq!(said["results"][0]["group"], "quick");
    assert_eq!(said["running"][0]["group"], "slow");
    assert_eq!(said["summary"], "1 of 1 completed, in 1.0s; slow still run after 20.0s; nothing was stopped");
    let said = client.call("wait_for_subagents", json!({})).await;
    assert_eq!(begun.elapsed().as_secs(), 70, "the other limit holds as well");
    assert_eq!(said["running"][0]["group"], "slow");
}

#[tokio::test(start_paused = true)]
async fn a_single_job_can_be_waited_for_and_its_group_is_told_without_it() {
    let mut client = Client::begun().await;
    let two = json!([{ "shell": "says a" }, { "shell": "after 9s; says b" }]);
    let launched = client.call("task_parallel", json!({ "tasks": two, "background": true })).await;
    let job = &launched["running"][0]["tasks"][0]["job"];
    let said = client.call("wait_for_subagents", json!({ "ids": [job, job] })).await;
    assert_eq!(said["jobs_over"].as_array().map(Vec::len), Some(1), "{said}");
    assert_eq!(said["jobs_over"][0]["output"], "a");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let said = client.call("jobs", json!({})).await;
    let told = &said["over_since"][0]["tasks"];
    assert_eq!((&told[0]["already_told"], &told[0]["output"]), (&json!(true), &json!("")), "{said}");
    assert_eq!(told[1]["output"], "b");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_single_job_tells_how_that_goes() {
    let mut client = Client::begun().await;
    let two = json!([{ "shell": "says a" }, { "id": "slow", "shell": "after 15s; says b" }]);
    let launched = client.call("task_parallel", json!({ "tasks": two, "background": true })).await;
    let job = &launched["running"][0]["tasks"][1]["job"];
    let id = client.begin_with_progress("wait_for_subagents", json!({ "ids": [job] })).await;
    client.result(id).await;
    let told: Vec<_> = client.others.iter().map(|note| note["params"]["message"].clone()).collect();
    assert_eq!(told, ["0 of 1 over after 10.0s; running: slow"]);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_message_go_side_by_side() {
    let mut client = Client::begun().await;
    let begun = Instant::now();
    let ids = [3, 4, 5].map(|n| json!({ "shell": format!("after {n}s; says {n}") }));
    let mut asked = Vec::new();
    for arguments in ids {
        asked.push(client.begin("subagent", arguments).await);
    }
    for (id, n) in asked.into_iter().zip(["3", "4", "5"]) {
        assert_eq!(client.result(id).await["results"][0]["tasks"][0]["output"], n);
    }
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn of_two_answers_at_once_one_tells_a_result() {
    let mut client = Client::begun().await;
    client.call("subagent", json!({ "shell": "after 1s; says once", "background": true })).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut asked = Vec::new();
    for _ in 0..8 {
        asked.push(client.begin("jobs", json!({})).await);
    }
    let mut told = 0;
    for id in asked {
        told += usize::from(client.result(id).await.get("over_since").is_some());
    }
    assert_eq!(told, 1);
}
