//! A cancel stops what a foreground call launched, and nothing else (BAR-16); an answered call cannot be cancelled (B97).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, turns, yields};

/// The status and cause of the newest job.
async fn newest(client: &mut Client) -> (Value, Value) {
    let said = client.call("jobs", json!({})).await;
    let job = said["jobs"].as_array().unwrap().last().unwrap().clone();
    (job["status"].clone(), job["cause"].clone())
}

// B96
#[tokio::test(start_paused = true)]
async fn a_cancelled_foreground_call_stops_its_jobs_and_is_not_answered() {
    let mut client = Client::begun().await;
    let id = client.begin("subagent", json!({ "shell": "after 1s; hangs" })).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    client.cancel(id).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    // What came of it is told once, as any result that nobody waits for.
    let said = client.call("jobs", json!({})).await;
    let told = &said["over_since"][0]["tasks"][0];
    assert_eq!((&told["status"], &told["cause"]), (&json!("cancelled"), &json!("user")), "{said}");
    let said = client.call("jobs", json!({})).await;
    assert!(said.get("over_since").is_none(), "{said}");
    assert!(client.others.is_empty(), "{:?}", client.others);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_nothing_that_another_call_launched() {
    let mut client = Client::begun().await;
    let task = json!({ "shell": "after 30s; says ok", "key": "shared" });
    let mut background = task.clone();
    background["background"] = json!(true);
    client.call("subagent", background).await;
    let id = client.begin("subagent", task).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.cancel(id).await;
    let id = client.begin("wait_for_subagents", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.cancel(id).await;
    let said = client.call("wait_for_subagents", json!({ "ids": ["shared"] })).await;
    assert_eq!(said["results"][0]["tasks"][0]["output"], "ok", "{said}");
    assert!(said["results"][0].get("already_told").is_none(), "{said}");
}

// opencode sends one for every call that was answered, when its step ends.
#[tokio::test(start_paused = true)]
async fn a_stray_cancel_of_an_answered_call_stops_nothing() {
    let mut client = Client::begun().await;
    let id = client.begin("subagent", json!({ "shell": "after 30s; says ok", "background": true })).await;
    client.result(id).await;
    client.cancel(id).await;
    let id = client.begin("subagent", json!({ "shell": "after 60s; says late" })).await;
    client.result(id).await;
    client.cancel(id).await;
    client.cancel(4_711).await;
    assert_eq!(newest(&mut client).await.0, "running");
    let said = client.call("wait_for_subagents", json!({})).await;
    let outputs: Vec<_> =
        said["results"].as_array().unwrap().iter().map(|over| over["tasks"][0]["output"].clone()).collect();
    assert_eq!(outputs, ["late"], "the first was told with the second's answer: {said}");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_meets_the_answer_costs_no_result() {
    // How far the call has come when the cancel is read. Which of the two is seen first where both are there is chance.
    let (mut answered, mut owed) = (0, 0);
    for rounds in (0..8).flat_map(|rounds| [rounds; 32]) {
        // A task as the server's are: the test's own would be polled only when all of those wait.
        let (in_answer, told) = tokio::spawn(meeting(rounds)).await.unwrap();
        assert_eq!(in_answer + told, 1, "round {rounds}");
        (answered, owed) = (answered + in_answer, owed + told);
    }
    assert!(answered > 0 && owed > 0, "both were met: {answered} {owed}");
}

/// Cancels a wait so many rounds after it began; how often its result came with its answer, and with the next.
async fn meeting(rounds: usize) -> (usize, usize) {
    let mut client = Client::begun().await;
    client.call("subagent", json!({ "shell": "says once", "background": true, "key": "k" })).await;
    yields(50).await;
    let id = client.begin("wait_for_subagents", json!({ "ids": ["k"] })).await;
    turns(rounds).await;
    client.cancel(id).await;
    let last = client.call("jobs", json!({})).await;
    let in_answer = client.others.iter().filter(|other| other["id"] == id).count();
    client.hang_up().await;
    client.goodbye().await.unwrap();
    (in_answer, usize::from(last.get("over_since").is_some()))
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_cancels_that_meet_their_answers_leave_at_most_one_answer_each() {
    tokio::spawn(ten_thousand()).await.unwrap();
}

async fn ten_thousand() {
    let mut client = Client::begun().await;
    client.call("subagent", json!({ "shell": "hangs", "background": true })).await;
    let mut answers: BTreeMap<u64, u32> = BTreeMap::new();
    for round in 0..10_000 {
        let id = client.begin("jobs", json!({})).await;
        turns(round % 4).await;
        client.cancel(id).await;
        if round % 20 == 19 {
            let id = client.ask("ping", json!({})).await;
            client.answer(id).await;
            for other in client.others.drain(..) {
                *answers.entry(other["id"].as_u64().unwrap()).or_default() += 1;
            }
        }
    }
    assert!(answers.values().all(|count| *count == 1), "{answers:?}");
    assert!(!answers.is_empty() && answers.len() < 10_000, "{} were answered", answers.len());
    assert_eq!(newest(&mut client).await.0, "running");
}

#[tokio::test(start_paused = true)]
async fn jobs_are_cancelled_by_their_own_ids_and_by_those_of_groups() {
    let mut client = Client::begun().await;
    let two = json!([{ "shell": "hangs" }, { "shell": "says done" }]);
    let launched =
        client.call("task_parallel", json!({ "tasks": two, "background": true, "key": "g" })).await;
    yields(50).await;
    let job = launched["running"][0]["tasks"][0]["job"].clone();
    let said = client.call("job_cancel", json!({ "ids": ["g", job] })).await;
    let stops: Vec<_> = said["stops"].as_array().unwrap().iter().map(|stop| stop["stop"].clone()).collect();
    assert_eq!(stops, ["stopping", "already_over"]);
    assert_eq!(said["summary"], "1 told to stop, 1 were over before");
    let said = client.call("wait_for_subagents", json!({ "ids": ["g"] })).await;
    // A closure that does not listen has its grace.
    assert_eq!(said["summary"], "1 of 2 completed, 1 cancelled, in 10.0s");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_has_left_the_memory_is_over_for_a_cancel() {
    let mut client = Client::begun().await;
    client.call("subagent", json!({ "shell": "says old", "key": "old" })).await;
    client.call("subagent", json!({ "shell": "hangs", "background": true, "key": "new" })).await;
    tokio::time::sleep(Duration::from_secs(3 * 60 * 60)).await;
    let said = client.call("job_cancel", json!({ "ids": ["old", "new"] })).await;
    let stops: Vec<_> = said["stops"].as_array().unwrap().iter().map(|stop| stop["stop"].clone()).collect();
    assert_eq!(stops, ["already_over", "stopping"], "{said}");
}
