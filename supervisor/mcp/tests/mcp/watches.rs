//! Watches over MCP: a firing is told once, by a wait that returns at that moment or with the next answer; nobody waits for
//! the end of a watch (SC-22, SH-3). And the ways of a `release` that stop the rest.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::Client;

/// What was told as fired: which watch, which firing, and what it saw.
fn fired(said: &Value) -> Vec<(String, u64, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let all = said["fired"].as_array().map(Vec::as_slice).unwrap_or_default();
    let one = |hit: &Value| (word(&hit["watch"]), hit["number"].as_u64().unwrap(), word(&hit["text"]));
    all.iter().map(one).collect()
}

fn hit(watch: &str, number: u64, text: &str) -> (String, u64, String) {
    (watch.to_owned(), number, text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_firing_is_told_once_with_the_next_answer() {
    let mut client = Client::begun().await;
    let said = client
        .call("watch", json!({ "label": "up", "shell": "after 5s; sees it is up; hangs", "times": 2 }))
        .await;
    assert!(said["summary"].as_str().unwrap().ends_with("is watching"), "{said}");
    assert!(said["next"].as_str().unwrap().contains("`fired`"), "{said}");
    assert_eq!(fired(&client.call("jobs", json!({})).await), []);
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    let said = client.call("jobs", json!({})).await;
    assert_eq!(fired(&said), [hit("up", 1, "it is up")]);
    assert!(said["summary"].as_str().unwrap().ends_with("; a watch has fired, see `fired`"), "{said}");
    assert_eq!(fired(&client.call("jobs", json!({})).await), [], "told once");
}

#[tokio::test(start_paused = true)]
async fn a_wait_returns_as_a_watch_fires_and_stops_nothing() {
    let mut client = Client::begun().await;
    client
        .call("watch", json!({ "label": "log", "shell": "after 3s; sees ERROR 1; hangs", "times": 2 }))
        .await;
    let job = json!({ "shell": "after 9s; says done", "id": "slow", "background": true });
    client.call("subagent", job).await;
    let begun = Instant::now();
    let said = client.call("wait_for_subagents", json!({})).await;
    assert_eq!((begun.elapsed().as_secs(), fired(&said)), (3, vec![hit("log", 1, "ERROR 1")]));
    assert!(said.get("results").is_none(), "{said}");
    // The watch still looks; the wait for all does not wait for it.
    let said = client.call("wait_for_subagents", json!({})).await;
    assert_eq!((begun.elapsed().as_secs(), &said["results"][0]["tasks"][0]["output"]), (9, &json!("done")));
    assert_eq!(fired(&said), []);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_watch_alone_ends_with_its_firing_or_its_end() {
    let mut client = Client::begun().await;
    let shell = "after 2s; sees one; after 2s; says nothing more to see";
    client.call("watch", json!({ "label": "w", "shell": shell, "times": 2 })).await;
    let said = client.call("wait_for_subagents", json!({})).await;
    assert_eq!(fired(&said), [hit("w", 1, "one")]);
    let said = client.call("wait_for_subagents", json!({})).await;
    assert_eq!(said["results"][0]["tasks"][0]["output"], "nothing more to see", "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_firing_whose_answer_nobody_reads_is_told_again() {
    let mut client = Client::begun().await;
    client.call("watch", json!({ "label": "w", "shell": "after 1s; sees it; hangs" })).await;
    let waits = client.begin("wait_for_subagents", json!({})).await;
    client.cancel(waits).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(fired(&client.call("jobs", json!({})).await), [hit("w", 1, "it")]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_job_is_of_one_of_this_connection() {
    let mut client = Client::begun().await;
    let (code, _) = client.refusal("watch", json!({ "job": "other", "pattern": "x" })).await;
    assert_eq!(code, "not_launched");
    let said = client.call("subagent", json!({ "shell": "hangs", "id": "a", "background": true })).await;
    let job = said["running"][0]["tasks"][0]["job"].clone();
    let said = client.call("watch", json!({ "job": job, "pattern": "x", "shell": "sees it" })).await;
    let label = said["running"][0]["tasks"][0]["task"].as_str().unwrap();
    assert_eq!(label, format!("watch of {}", job.as_str().unwrap()));
    let (code, message) = client.refusal("watch", json!({ "shell": "nonsense" })).await;
    assert_eq!((code.as_str(), message.as_str()), ("bad_arguments", "shell: is nonsense"));
}

#[tokio::test(start_paused = true)]
async fn a_count_or_a_deadline_stops_the_rest_of_a_call() {
    let mut client = Client::begun().await;
    let tasks = json!([
        { "shell": "says first" }, { "shell": "after 1s; says second" }, { "shell": "hangs" }
    ]);
    let said = client.call("task_parallel", json!({ "tasks": tasks, "release": { "ok": 2 } })).await;
    assert_eq!(
        (&said["results"][0]["stopped_by"], &said["results"][0]["counts"]["completed"]),
        (&json!("ok"), &json!(2))
    );
    let begun = Instant::now();
    let said = client.call("task_parallel", json!({ "tasks": tasks, "deadline_seconds": 5 })).await;
    // The last one does not hear its stop, and has its grace of ten seconds.
    assert_eq!((begun.elapsed().as_secs(), &said["results"][0]["stopped_by"]), (15, &json!("deadline")));
    for (wrong, words) in [
        (json!({ "ok": 4 }), "ok = 4 can never be met by 3 members"),
        (json!({ "not_ok": 0 }), "not_ok = 0 would stop all"),
        (json!({}), "no count is there"),
        (json!("most"), "release: use"),
        (json!({ "okay": 1 }), "release: use"),
    ] {
        let (code, message) =
            client.refusal("task_parallel", json!({ "tasks": tasks, "release": wrong })).await;
        assert!(code == "bad_arguments" && message.contains(words), "{message}");
    }
}
