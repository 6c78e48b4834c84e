//! What is refused, and that it names the input and the way out; and messages that are none.

use fanin_protocol::limits::{LAUNCH_CALLS_MAX, LAUNCH_CALLS_PER};
use serde_json::{Value, json};

use crate::client::{Client, Scripted, yields};

/// Calls a tool with each of these and compares the refusal; nothing must have been started.
async fn refuses(client: &mut Client, cases: impl IntoIterator<Item = (&str, Value, &str, &str)>) {
    for (tool, arguments, code, words) in cases {
        let (given, message) = client.refusal(tool, arguments.clone()).await;
        assert_eq!(given, code, "{tool} {arguments}: {message}");
        assert!(message.contains(words), "{tool} {arguments}: {message}");
    }
    assert!(client.host.supervisor.lock().await.is_none(), "nothing was started");
}

#[tokio::test(start_paused = true)]
async fn launches_that_are_none_are_refused_with_their_place_and_nothing_starts() {
    let mut client = Client::begun().await;
    let task = json!({ "shell": "says hi" });
    let tasks = |count: usize| json!({ "tasks": vec![task.clone(); count] });
    let cases = [
        ("task_parallel", tasks(0), "bad_arguments", "tasks: 0 given; 2 to 7"),
        ("task_parallel", tasks(1), "bad_arguments", "`subagent` runs a single one"),
        ("task_parallel", tasks(8), "bad_arguments", "tasks: 8 given; 2 to 7"),
        ("task_parallel", json!({}), "bad_arguments", "missing field `tasks`"),
        (
            "task_parallel",
            json!({ "tasks": [{ "shell": "says a" }, { "shel": "b" }] }),
            "bad_tasks",
            "tasks[1]: unknown field `shel`",
        ),
        (
            "task_parallel",
            json!({ "tasks": [{ "shell": "nonsense" }, { "shell": "says b" }] }),
            "bad_tasks",
            "tasks[0].shell: is nonsense",
        ),
        ("subagent", json!({ "shell": "nonsense" }), "bad_arguments", "shell: is nonsense"),
        (
            "subagent",
            json!({ "shell": "says a", "background": "yes" }),
            "bad_arguments",
            "expected a boolean",
        ),
        ("subagent", json!({ "shell": "says a", "key": "a/b" }), "bad_arguments", "key: "),
        ("subagent", json!({ "shell": 7 }), "bad_arguments", "expected a string"),
    ];
    refuses(&mut client, cases).await;
}

#[tokio::test(start_paused = true)]
async fn other_arguments_that_are_none_are_refused_with_their_place() {
    let mut client = Client::begun().await;
    let cases = [
        (
            "wait_for_subagents",
            json!({ "timeout_seconds": 0 }),
            "bad_arguments",
            "timeout_seconds: 0 is not from 1 to 240",
        ),
        ("wait_for_subagents", json!({ "timeout_seconds": -1 }), "bad_arguments", "-1"),
        ("wait_for_subagents", json!({ "ids": ["grp_none"] }), "not_launched", "`grp_none`"),
        (
            "wait_for_subagents",
            json!({ "ids": vec!["x"; 65] }),
            "bad_arguments",
            "ids: 65 is not from 0 to 64",
        ),
        ("jobs", json!({ "job": "x", "limit": 3 }), "bad_arguments", "limit: is for a list"),
        ("jobs", json!({ "offset": 3 }), "bad_arguments", "offset: is for the output of a job"),
        ("jobs", json!({ "job": "../../etc" }), "not_launched", "`../../etc`"),
        ("message", json!({ "job": "x", "text": " " }), "bad_arguments", "text: is empty"),
        (
            "message",
            json!({ "job": "x", "text": "y".repeat(8_001) }),
            "bad_arguments",
            "text: 8001 bytes; at most 8000",
        ),
        ("message", json!({ "job": "x", "text": "go" }), "not_launched", "`x`"),
        ("job_cancel", json!({ "ids": [] }), "bad_arguments", "ids: 0 is not from 1 to 64"),
        ("job_cancel", json!({ "ids": ["y"] }), "not_launched", "`y`"),
    ];
    refuses(&mut client, cases).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_is_refused_by_what_takes_none() {
    let mut client = Client::begun().await;
    client.call("subagent", json!({ "shell": "hangs", "background": true, "key": "k" })).await;
    yields(20).await;
    let (code, message) = client.refusal("message", json!({ "job": "k", "text": "and the docs" })).await;
    assert_eq!(code, "not_accepted", "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_session_launches_sixty_four_jobs_and_no_more() {
    let mut client = Client::begun().await;
    let seven = json!({ "tasks": vec![json!({ "shell": "says x" }); 7] });
    for _ in 0..9 {
        client.call("task_parallel", seven.clone()).await;
    }
    let (code, message) = client.refusal("task_parallel", seven).await;
    assert_eq!(code, "spawn_total", "{message}");
    let said = client.call("subagent", json!({ "shell": "says last" })).await;
    assert_eq!(said["results"][0]["tasks"][0]["output"], "last", "the 64th");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_tool_is_an_error_of_the_protocol_that_names_the_others() {
    let mut client = Client::begun().await;
    let id = client.begin("fan_out", json!({})).await;
    let answer = client.answer(id).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("there is no tool `fan_out`; there are subagent,")
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_has_no_tools_that_launch_and_may_not_call_them() {
    let host = Scripted { is_worker: true, ..Scripted::default() };
    let mut client = Client::begun_with(host).await;
    let id = client.ask("tools/list", json!({})).await;
    let listed = client.answer(id).await.to_string();
    assert!(
        listed.contains("\"jobs\"")
            && !listed.contains("\"subagent\"")
            && !listed.contains("\"task_parallel\"")
    );
    for tool in ["subagent", "task_parallel"] {
        assert_eq!(client.refusal(tool, json!({ "shell": "says hi" })).await.0, "worker");
    }
    assert!(client.host.supervisor.lock().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn one_call_too_many_is_refused_and_the_others_go_on() {
    let mut client = Client::begun().await;
    client.call("subagent", json!({ "shell": "after 20s; says ok", "background": true, "key": "k" })).await;
    let mut asked = Vec::new();
    for _ in 0..64 {
        asked.push(client.begin("wait_for_subagents", json!({ "ids": ["k"] })).await);
    }
    let said = client.call("jobs", json!({})).await;
    assert_eq!(
        (&said["error"]["code"], &said["error"]["retryable"]),
        (&json!("too_many_calls"), &json!(true))
    );
    for id in asked {
        assert_eq!(client.result(id).await["results"][0]["tasks"][0]["output"], "ok");
    }
    assert!(client.call("jobs", json!({})).await.get("error").is_none(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_no_messages_change_nothing() {
    let mut client = Client::begun().await;
    let long = vec![b'x'; 16 * 1024 * 1024 + 1];
    for line in [
        &b""[..],
        b"hello",
        b"{\"jsonrpc\":\"2.0\"",
        b"\xff\xfe\x00",
        b"[]",
        b"{}",
        b"{\"jsonrpc\":\"2.0\",\"id\":99}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nonsense\",\"params\":{\"a\":[1,2,3]}}",
        &long,
    ] {
        client.line(line).await;
    }
    let nested = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    client.line(nested.as_bytes()).await;
    let id = client.ask("resources/list", json!({})).await;
    assert!(client.answer(id).await.get("error").is_some(), "what there is not is refused");
    let said = client.call("subagent", json!({ "shell": "says still here" })).await;
    assert_eq!(said["results"][0]["tasks"][0]["output"], "still here");
    assert!(client.others.iter().all(|other| other["error"]["code"] == -32600), "{:?}", client.others);
}

// SEC-8: a model in a loop is slowed down, also where nothing of what it asks for could be launched.
#[tokio::test(start_paused = true)]
async fn tools_that_launch_are_called_so_often_in_a_minute_and_no_more() {
    let mut client = Client::begun().await;
    let launch = json!({ "shell": "nonsense" });
    for _ in 0..LAUNCH_CALLS_MAX {
        assert_eq!(client.call("subagent", launch.clone()).await["error"]["code"], "bad_arguments");
    }
    for (tool, arguments) in [("subagent", &launch), ("task_parallel", &json!({ "tasks": [launch, launch] }))]
    {
        let error = client.call(tool, arguments.clone()).await["error"].clone();
        assert_eq!((&error["code"], &error["retryable"]), (&json!("too_fast"), &json!(true)), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("1000 calls") && message.contains("the next may come in 60 s"), "{message}");
    }
    // Other tools are not meant, and the jobs that there are need them.
    assert_eq!(client.call("jobs", json!({})).await["error"], Value::Null);
    tokio::time::advance(LAUNCH_CALLS_PER).await;
    let said = client.call("subagent", json!({ "shell": "says hi" })).await;
    assert_eq!(said["results"][0]["tasks"][0]["output"], "hi", "{said}");
}
