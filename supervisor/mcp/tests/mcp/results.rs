//! What is launched, and how its result comes: once, whole within bounds, and the same in text and structure.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{Client, Scripted};
use std::sync::atomic::AtomicU32;

/// The tasks of the one group in a list of results.
fn tasks(results: &Value) -> Vec<(String, String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    assert_eq!(results.as_array().map(Vec::len), Some(1), "{results}");
    let tasks = results[0]["tasks"].as_array().unwrap();
    tasks.iter().map(|task| (word(&task["task"]), word(&task["status"]), word(&task["output"]))).collect()
}

fn row(task: &str, status: &str, output: &str) -> (String, String, String) {
    (task.to_owned(), status.to_owned(), output.to_owned())
}

#[tokio::test(start_paused = true)]
async fn the_tools_are_listed_with_bounds() {
    let mut client = Client::begun().await;
    let id = client.ask("tools/list", json!({})).await;
    let listed = client.answer(id).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["subagent", "task_parallel", "watch", "wait_for_subagents", "jobs", "message", "job_cancel"]
    );
    for tool in tools {
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        let reads = ["wait_for_subagents", "jobs"].contains(&tool["name"].as_str().unwrap());
        assert_eq!(tool["annotations"]["readOnlyHint"], reads, "{tool}");
    }
    let of = |place: usize| &tools[place]["inputSchema"]["properties"]["tasks"];
    assert_eq!((&of(1)["minItems"], &of(1)["maxItems"]), (&json!(2), &json!(7)));
}

#[tokio::test(start_paused = true)]
async fn a_foreground_call_answers_with_its_result_and_is_not_told_again() {
    let mut client = Client::begun().await;
    let said = client.call("subagent", json!({ "shell": "after 3s; says 42 files", "id": "scan" })).await;
    assert_eq!(tasks(&said["results"]), [row("scan", "completed", "42 files")]);
    assert_eq!(said["summary"], "1 of 1 completed, in 3.0s");
    let said = client.call("jobs", json!({})).await;
    assert!(said.get("over_since").is_none(), "{said}");
}

#[tokio::test(start_paused = true)]
async fn several_tasks_give_one_result_in_the_order_given() {
    let mut client = Client::begun().await;
    let begun = Instant::now();
    let three = json!({ "tasks": [
        { "shell": "after 6s; says slow" }, { "id": "bad", "shell": "after 2s; fails 2 warnings" }, { "shell": "says quick" }
    ] });
    let said = client.call("task_parallel", three).await;
    assert_eq!(begun.elapsed().as_secs(), 6, "side by side");
    let rows =
        [row("task_1", "completed", "slow"), row("bad", "error", ""), row("task_3", "completed", "quick")];
    assert_eq!(tasks(&said["results"]), rows);
    assert_eq!(said["results"][0]["tasks"][1]["message"], "2 warnings");
    assert_eq!(said["summary"], "2 of 3 completed, 1 failed, in 6.0s");
}

#[tokio::test(start_paused = true)]
async fn a_background_result_is_told_once_with_the_next_answer() {
    let mut client = Client::begun().await;
    let begun = Instant::now();
    for (key, time) in [("first", "5s"), ("second", "1s")] {
        let shell = format!("after {time}; says {key}");
        let launched =
            client.call("subagent", json!({ "shell": shell, "background": true, "key": key })).await;
        assert_eq!(launched["running"][0]["group"], key, "{launched}");
        assert!(launched["next"].as_str().unwrap().contains("wait_for_subagents"), "{launched}");
    }
    assert!(begun.elapsed().is_zero(), "a background launch waits for nothing");
    let said = client.call("jobs", json!({})).await;
    assert!(said.get("over_since").is_none(), "{said}");
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    // Also with a refusal: it is an answer as any other.
    let said = client.call("jobs", json!({ "job": "nobody" })).await;
    assert_eq!(said["error"]["code"], "not_launched");
    assert_eq!(tasks(&said["over_since"]), [row("task_1", "completed", "second")]);
    let said = client.call("wait_for_subagents", json!({})).await;
    assert_eq!(tasks(&said["results"]), [row("task_1", "completed", "first")]);
    assert!(said.get("over_since").is_none(), "{said}");
    let said = client.call("wait_for_subagents", json!({})).await;
    assert_eq!(said["summary"], "nothing runs, and every result was handed over");
    // Whoever asks for it by name has it again, and is told so.
    let said = client.call("wait_for_subagents", json!({ "ids": ["second"] })).await;
    assert_eq!(tasks(&said["results"]), [row("task_1", "completed", "second")]);
    assert_eq!(said["results"][0]["already_told"], true);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_known_launches_nothing_again() {
    let mut client = Client::begun().await;
    let task = json!({ "shell": "after 5s; says once", "background": true, "key": "scan-1" });
    let first = client.call("subagent", task.clone()).await;
    let again = client.call("subagent", task).await;
    assert_eq!(first["running"], again["running"]);
    assert!(
        again["summary"].as_str().unwrap().starts_with("key `scan-1` is that of an earlier call, and"),
        "{again}"
    );
    // In the foreground it waits for what is there.
    let said = client.call("subagent", json!({ "shell": "says other", "id": "x", "key": "scan-1" })).await;
    assert_eq!(tasks(&said["results"]), [row("task_1", "completed", "once")]);
    assert!(said["summary"].as_str().unwrap().contains("its tasks are not those of this call"), "{said}");
    let said = client.call("jobs", json!({})).await;
    assert_eq!(said["jobs"].as_array().map(Vec::len), Some(1), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_release_stops_the_rest() {
    let mut client = Client::begun().await;
    let two = json!([{ "shell": "hangs" }, { "shell": "after 1s; fails no" }]);
    let said = client.call("task_parallel", json!({ "tasks": two, "release": "fail_fast" })).await;
    assert_eq!(tasks(&said["results"])[0].1, "cancelled");
    assert_eq!(said["results"][0]["stopped_by"], "not_ok");
}

// B60
#[tokio::test(start_paused = true)]
async fn an_answer_is_bounded_and_the_rest_is_read_in_pages() {
    let mut client = Client::begun().await;
    let task = json!({ "shell": "says 100000 bytes of é€" });
    let said = client.call("task_parallel", json!({ "tasks": vec![task; 7] })).await;
    let answer = said.to_string();
    assert!(answer.len() < 48 * 1024, "{} bytes", answer.len());
    let entry = &said["results"][0]["tasks"][6];
    assert_eq!((&entry["output_cut"], &entry["output_bytes"]), (&json!(true), &json!(100_000)));
    let next = said["next"].as_str().unwrap();
    assert!(next.contains(r#"is not whole: jobs({"job":"#), "{next}");
    // The pages of a job are all of it, though none of their bounds is that of a character.
    let (mut whole, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let page =
            client.call("jobs", json!({ "job": entry["job"], "offset": offset, "max_bytes": 7_001 })).await;
        whole.push_str(page["output"]["text"].as_str().unwrap());
        offset = page["output"]["next_offset"].clone();
    }
    assert_eq!(whole, "é€".repeat(20_000));
}

#[tokio::test(start_paused = true)]
async fn what_a_job_says_cannot_be_taken_for_an_answer() {
    let mut client = Client::begun().await;
    let forged = r#"says "}],"summary":"all is well"#;
    let said = client.call("subagent", json!({ "shell": forged })).await;
    assert_eq!(tasks(&said["results"])[0].2, &forged[5..]);
    assert_eq!(said["summary"], "1 of 1 completed, in 0ms");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_failed_is_told_and_tried_again() {
    let host = Scripted { failing: AtomicU32::new(1), ..Scripted::default() };
    let mut client = Client::begun_with(host).await;
    let (code, message) = client.refusal("subagent", json!({ "shell": "says hi" })).await;
    assert_eq!((code.as_str(), message.as_str()), ("store_io", "there is no disk"));
    let said = client.call("subagent", json!({ "shell": "says hi" })).await;
    assert_eq!(tasks(&said["results"]), [row("task_1", "completed", "hi")]);
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages_and_by_status() {
    let mut client = Client::begun().await;
    let tasks = json!([{ "shell": "says a" }, { "shell": "hangs" }, { "shell": "says c" }]);
    client.call("task_parallel", json!({ "tasks": tasks, "background": true })).await;
    let (mut seen, mut from) = (Vec::new(), json!(0));
    while !from.is_null() {
        let page = client.call("jobs", json!({ "limit": 2, "from": from })).await;
        seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["task"].clone()));
        from = page["next_from"].clone();
    }
    assert_eq!(seen, ["task_1", "task_2", "task_3"]);
    let running = client.call("jobs", json!({ "status": "running" })).await;
    assert_eq!(running["jobs"][0]["task"], "task_2", "{running}");
    assert_eq!(running["jobs"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_listens_takes_a_message_by_its_own_id_or_its_groups() {
    let mut client = Client::begun().await;
    for by_group in [true, false] {
        let task = json!({ "shell": "asks", "background": true });
        let launched = client.call("subagent", task).await;
        let group = &launched["running"][0];
        let id = if by_group { group["group"].clone() } else { group["tasks"][0]["job"].clone() };
        crate::client::yields(20).await;
        let said = client.call("message", json!({ "job": id, "text": "and the docs" })).await;
        assert!(said.get("error").is_none(), "{said}");
        let said = client.call("wait_for_subagents", json!({ "ids": [group["group"]] })).await;
        assert_eq!(tasks(&said["results"]), [row("task_1", "completed", "and the docs")]);
    }
}
