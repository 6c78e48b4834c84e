//! Plans through the program: order, what is handed over, what is skipped, what is refused, and over a crash.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::common::{Ended, Running, fanin, made, run};
use crate::mcp::Agent;

fn run_plan(folder: &Path, plan: &str, words: &[&str]) -> Ended {
    fs::write(folder.join("plan.toml"), plan).unwrap();
    run(folder, &[&["plan.toml"], words].concat())
}

fn document(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}{}", ended.stdout, ended.stderr))
}

/// Of each task its status and cause.
fn ends(document: &Value) -> Vec<(String, Value)> {
    let entries = document["entries"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| (entry["status"].as_str().unwrap().to_owned(), entry["cause"].clone()))
        .collect()
}

fn output(document: &Value, place: usize) -> &str {
    document["entries"][place]["output"]["text"].as_str().unwrap_or_default()
}

// T-3: the last in the file is what all others need.
#[test]
fn tasks_start_after_what_they_need_and_are_told_what_that_put_out() {
    let folder = tempdir().unwrap();
    let plan = r#"
[[task]]
id = "reader"
shell = 'test -e made && printf "%s" "$FANIN_DEPENDENCIES"'
depends = ["maker", "maker"]

[[task]]
shell = 'printf "%s" "[$FANIN_DEPENDENCIES]"'

[[task]]
id = "maker"
shell = 'echo "the \"schema\""; echo oh >&2; touch made'
"#;
    let ended = run_plan(folder.path(), plan, &["--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let result = document(&ended);
    let told: Value = serde_json::from_str(output(&result, 0)).unwrap();
    assert_eq!(told["entries"].as_array().map(Vec::len), Some(1), "one that is named twice counts once");
    let entry = &told["entries"][0];
    assert_eq!(entry["label"], "maker");
    assert_eq!((&entry["status"], &entry["exit_code"]), (&json!("completed"), &json!(0)));
    assert_eq!(entry["output"]["text"], "the \"schema\"\noh\n");
    assert_eq!(output(&result, 1), "[]", "who needs nothing is told nothing");
}

// B67, T-4: and the words say whose end it was.
#[test]
fn a_failure_skips_what_needs_it_and_the_result_has_all_four() {
    let folder = tempdir().unwrap();
    let plan = r#"
[[task]]
id = "a"
shell = "exit 3"
[[task]]
id = "b"
shell = "touch never"
depends = ["a"]
[[task]]
id = "c"
shell = "touch never"
depends = ["b"]
[[task]]
id = "d"
shell = "true"
[[task]]
id = "report"
shell = 'printf "%s" "$FANIN_DEPENDENCIES"'
depends = ["c", "d"]
on_failed_dependency = "run"
"#;
    let ended = run_plan(folder.path(), plan, &["--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let result = document(&ended);
    let told = ends(&result);
    let skipped = ("error".to_owned(), json!("dependency"));
    assert_eq!((&told[1], &told[2]), (&skipped, &skipped));
    assert_eq!([&told[0].1, &told[3].1, &told[4].1], [&json!("failed"), &Value::Null, &Value::Null]);
    assert_eq!(result["entries"][2]["root"], 0);
    assert!(!folder.path().join("never").exists());
    let report: Value = serde_json::from_str(output(&result, 4)).unwrap();
    assert_eq!(report["entries"][0]["cause"], "dependency");
    // And for people.
    let ended = run(folder.path(), &["plan.toml"]);
    assert!(
        ended.stdout.contains("skipped: needs `a`, which ended error{failed exit_status}"),
        "{}",
        ended.stdout
    );
}

#[test]
fn one_that_the_run_cannot_do_without_stops_the_rest() {
    let folder = tempdir().unwrap();
    let plan = r#"
[[task]]
id = "a"
shell = "until [ -e slow ]; do sleep 0.01; done; exit 1"
[[task]]
id = "b"
shell = "true"
depends = ["a"]
on_failed_dependency = "fail_team"
[[task]]
id = "slow"
shell = "touch slow; exec sleep 600"
"#;
    let ended = run_plan(folder.path(), plan, &["--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let result = document(&ended);
    assert_eq!(result["stopped_by"], "dependency");
    assert_eq!(ends(&result)[2], ("cancelled".to_owned(), json!("group")));
    let ended = run(folder.path(), &["plan.toml"]);
    let words = "the rest was stopped, since a task that it needs could not be started";
    assert!(ended.stdout.contains(words), "{}", ended.stdout);
}

// B66, T-2.
#[test]
fn all_that_is_wrong_with_a_plan_is_told_at_once_and_nothing_starts() {
    let folder = tempdir().unwrap();
    let plan = r#"[[task]]
id = "build"
shell = "touch never"
depends = ["build", "tset"]
[[task]]
id = "test"
shell = "touch never"
depends = ["report", "task_4"]
[[task]]
id = "report"
shell = "touch never"
depends = ["test"]
on_failed_dependency = "hope"
[[task]]
shell = "touch never"
on_failed_dependency = "run"
"#;
    let ended = run_plan(folder.path(), plan, &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    let expected = [
        "plan.toml:4:11: depends: there is no task `tset`; did you mean `test`?",
        "plan.toml:4:11: depends: `build` needs itself",
        "plan.toml:8:11: depends: a circle: `test` needs `report` needs `test`",
        "plan.toml:13:24: on_failed_dependency: `hope` is not \"skip\", \"run\" or \"fail_team\"",
        "plan.toml:16:24: on_failed_dependency: it is for a task with `depends`",
    ];
    let told: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(told[..expected.len()], expected, "{}", ended.stderr);
    assert!(!folder.path().join("never").exists());
}

// A plan goes on where it stood: what was over is over, and what waited waits on.
#[test]
fn a_plan_is_resumed_after_a_kill_and_says_meanwhile_what_it_waits_for() {
    let folder = tempdir().unwrap();
    let plan = r#"
[[task]]
id = "first"
shell = "echo schema"
[[task]]
id = "second"
shell = "if [ -e up ]; then echo again; else touch up; exec sleep 600; fi"
resume = "rerun"
depends = ["first"]
[[task]]
id = "third"
shell = 'case "$FANIN_DEPENDENCIES" in *schema*again*) echo told;; *) exit 1;; esac'
depends = ["first", "second"]
"#;
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let running = Running::start(fanin(folder.path(), &["run", "plan.toml"]));
    made(folder.path(), "up");
    let listed = Running::start(fanin(folder.path(), &["ps", "--json"])).end();
    let jobs = document(&listed);
    let third = jobs["jobs"].as_array().unwrap().iter().find(|job| job["label"] == "third").unwrap();
    assert_eq!((&third["phase"], &third["why"][0]["open"]), (&json!("dependency"), &json!(1)), "{jobs}");
    let why = Running::start(fanin(folder.path(), &["why", third["job"].as_str().unwrap()])).end();
    assert!(why.stdout.contains("waits for 1 that it needs: job_"), "{}", why.stdout);
    running.signal("KILL");
    running.end();
    let resumed = Running::start(fanin(folder.path(), &["resume", "--json"])).end();
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let result = document(&resumed);
    let outputs = [0, 1, 2].map(|place| output(&result, place));
    assert_eq!(outputs, ["schema\n", "again\n", "told\n"]);
    assert_eq!(result["entries"][2]["runs"], 1);
}

// `--again`: what completed counts as met, and the others keep their order.
#[test]
fn a_plan_that_is_run_again_does_not_wait_for_what_had_completed() {
    let folder = tempdir().unwrap();
    let plan = r#"
[[task]]
id = "done"
shell = "echo from earlier"
[[task]]
id = "fails"
shell = "test -e good && echo ran"
depends = ["done"]
[[task]]
id = "last"
shell = 'case "$FANIN_DEPENDENCIES" in *from*earlier*ran*) true;; *) exit 1;; esac'
depends = ["fails", "done"]
"#;
    let ended = run_plan(folder.path(), plan, &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("FAIL  last: skipped: needs `fails`"), "{}", ended.stderr);
    fs::write(folder.path().join("good"), "").unwrap();
    let again = Running::start(fanin(folder.path(), &[ended.again(), vec!["--json"]].concat())).end();
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(ends(&document(&again)).iter().all(|(status, _)| status == "completed"));
}

#[test]
fn a_model_launches_a_plan_and_is_told_what_is_wrong_with_one() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    let tasks = json!({ "tasks": [
        { "id": "schema", "shell": "echo id name" },
        { "shell": "case \"$FANIN_DEPENDENCIES\" in *'id name'*) echo read;; esac", "depends": ["schema"] },
        { "id": "bad", "shell": "exit 1", "depends": ["task_2"] },
        { "id": "never", "shell": "echo no", "depends": ["bad"] },
    ] });
    let said = agent.call("task_parallel", &tasks);
    let tasks = &said["results"][0]["tasks"];
    assert_eq!((&tasks[1]["output"], &tasks[2]["cause"]), (&json!("read\n"), &json!("failed")), "{said}");
    assert_eq!((&tasks[3]["cause"], &tasks[3]["output_bytes"]), (&json!("dependency"), &json!(0)));
    assert_eq!(tasks[3]["message"], "needs `bad`, which ended error{failed exit_status}");
    let wrong = json!({ "tasks": [
        { "id": "a", "shell": "true", "depends": ["b"] },
        { "id": "b", "shell": "true", "depends": ["a", "c"], "on_failed_dependency": "hope" },
        { "id": "d", "shell": "true", "on_failed_dependency": "run" },
    ] });
    let refused = agent.call("task_parallel", &wrong)["error"]["message"].as_str().unwrap().to_owned();
    for words in [
        "there is no task `c`; the tasks are a, b, d",
        "a circle: `a` needs `b` needs `a`",
        "use \"skip\", \"run\" or \"fail_team\"",
        "it is for a task with `depends`",
    ] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    // The name that other harnesses have for it.
    let team = json!({ "tasks": [
        { "id": "a", "shell": "echo one" }, { "id": "b", "shell": "echo two", "depends": ["a"] },
    ] });
    assert_eq!(agent.call("team", &team)["results"][0]["outcome"], "all_ok");
}
