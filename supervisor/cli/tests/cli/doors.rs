//! The same work through the library, `fanin run` and `fanin mcp`: one effect, and the same words for it (B38).

use std::time::Duration;

use fanin_protocol::{CombinedResult, CommandSpec, Policy};
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::{GroupOptions, JobFilter, JobSpec, Session, Supervisor};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::common::{PATIENCE, Running, fanin, run};
use crate::mcp::Agent;

/// What tasks do, by their labels; each ends in another way.
const TASKS: [(&str, &str); 4] = [
    ("good", "printf fine"),
    ("bad", "echo broken >&2; exit 4"),
    ("killed", "kill -KILL $$"),
    ("slow", "sleep 600"),
];

/// The words of an entry that say what happened, without what differs from run to run.
const WORDS: [&str; 12] = [
    "index",
    "label",
    "status",
    "cause",
    "code",
    "after",
    "interrupted",
    "completed_anyway",
    "unreaped",
    "exit_code",
    "signal",
    "message",
];

fn words(result: &Value) -> Vec<Value> {
    let entries = result["entries"].as_array().unwrap();
    let of = |entry: &Value| {
        let mut words: serde_json::Map<String, Value> =
            WORDS.iter().map(|word| ((*word).to_owned(), entry[word].clone())).collect();
        words.insert("text".to_owned(), entry["output"]["text"].clone());
        words.insert("runs".to_owned(), entry["runs"].clone());
        Value::Object(words)
    };
    entries.iter().map(of).collect()
}

/// A library user with the runner and the shim of the program.
async fn library() -> (Supervisor, Session) {
    let runner = SubprocessRunner::with_shim(env!("CARGO_BIN_EXE_fanin"));
    let supervisor = Supervisor::builder().runner(runner).start().await.unwrap();
    let session = supervisor.session("main").await.unwrap();
    (supervisor, session)
}

fn spec(folder: &TempDir, (label, line): (&str, &str)) -> JobSpec {
    JobSpec::new(label, CommandSpec::shell(line).cwd(folder.path()))
}

async fn through_the_library(limit: Option<Duration>, policy: Policy) -> Value {
    let folder = tempdir().unwrap();
    let (supervisor, session) = library().await;
    let specs = TASKS.map(|task| {
        let spec = spec(&folder, task);
        match limit.filter(|_| task.0 == "slow") {
            None => spec,
            Some(limit) => spec.timeout(limit),
        }
    });
    let options = GroupOptions { policy, ..GroupOptions::default() };
    let group = session.fan_out_with(options, specs).await.unwrap();
    let result = group.wait(PATIENCE).await.unwrap();
    // A list says what the result says.
    let listed =
        supervisor.list(&JobFilter { group: Some(group.id().clone()), ..JobFilter::default() }).unwrap();
    for (job, entry) in listed.jobs.iter().zip(&result.entries) {
        assert_eq!((job.status, job.cause, job.code), (entry.status, entry.cause, entry.code));
    }
    let document = serde_json::to_value::<&CombinedResult>(&result).unwrap();
    supervisor.shutdown().await;
    document
}

fn through_the_program(head: &str, of_slow: &str) -> Value {
    let folder = tempdir().unwrap();
    let tasks: String = TASKS
        .iter()
        .map(|(label, line)| {
            let more = if *label == "slow" { of_slow } else { "" };
            format!("[[task]]\nid = '{label}'\nlabel = '{label}'\nshell = '{line}'\n{more}\n")
        })
        .collect();
    std::fs::write(folder.path().join("m.toml"), format!("{head}\n{tasks}")).unwrap();
    let ended = run(folder.path(), &["--json", "m.toml"]);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{} {}", ended.stdout, ended.stderr))
}

/// The same over MCP, where an answer has the words that say something and leaves out the others.
fn over_mcp(release: &str, of_slow: &Value) -> Value {
    let folder = tempdir().unwrap();
    let tasks = TASKS.map(|(label, line)| {
        let mut task = json!({ "id": label, "shell": line });
        if let (true, Some(more)) = (label == "slow", of_slow.as_object()) {
            task.as_object_mut().unwrap().extend(more.clone());
        }
        task
    });
    let mut agent = Agent::begun(folder.path());
    let said = agent.call("task_parallel", &json!({ "tasks": tasks, "release": release }));
    said["results"][0].clone()
}

/// What both an answer over MCP and a result say of each task.
fn words_over_mcp(said: &Value) -> Vec<Value> {
    let of = |task: &Value| {
        let word = |name: &str| task.get(name).cloned().unwrap_or_default();
        json!({
            "label": word("task"), "status": word("status"), "cause": word("cause"), "code": word("code"),
            "message": word("message"), "exit_code": word("exit_code"), "signal": word("signal"),
            "text": if word("output") == "" { Value::Null } else { word("output") },
        })
    };
    said["tasks"].as_array().unwrap_or_else(|| panic!("{said}")).iter().map(of).collect()
}

/// The words of entries that an answer over MCP has as well.
fn also_over_mcp(result: &Value) -> Vec<Value> {
    let kept = ["label", "status", "cause", "code", "message", "exit_code", "signal", "text"];
    let of = |word: Value| {
        let all = word.as_object().unwrap().clone();
        Value::Object(all.into_iter().filter(|(name, _)| kept.contains(&name.as_str())).collect())
    };
    words(result).into_iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_and_every_end_have_the_same_words() {
    let library = through_the_library(Some(Duration::from_secs(1)), Policy::ALL).await;
    let program = through_the_program("", "timeout = '1s'");
    assert_eq!(words(&library), words(&program));
    let mcp = tokio::task::spawn_blocking(|| over_mcp("all", &json!({ "timeout": "1s" }))).await.unwrap();
    assert_eq!(also_over_mcp(&library), words_over_mcp(&mcp));
    for word in ["outcome", "counts"] {
        assert_eq!(library[word], mcp[word], "{word}");
    }
    for word in ["outcome", "counts", "stopped_by"] {
        assert_eq!(library[word], program[word], "{word}");
    }
    let status = |index: usize| library["entries"][index]["status"].clone();
    assert_eq!([status(0), status(1), status(3)], ["completed", "error", "error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_group_is_cancelled_with_the_same_words() {
    // Long enough for all others to end, however busy the machine is; both doors at once.
    let policy = Policy { at_ms: Some(5_000), ..Policy::ALL };
    let program = tokio::task::spawn_blocking(|| through_the_program("deadline = '5s'", ""));
    let library = through_the_library(None, policy).await;
    let program = program.await.unwrap();
    assert_eq!(words(&library), words(&program));
    for word in ["outcome", "counts", "stopped_by"] {
        assert_eq!(library[word], program[word], "{word}");
    }
    assert_eq!(library["entries"][3]["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stopped_from_outside_has_the_same_words() {
    let folder = tempdir().unwrap();
    let (supervisor, session) = library().await;
    let group = session.fan_out([spec(&folder, ("slow", "sleep 600"))]).await.unwrap();
    // The other door stops a program that runs, so this one does as well.
    let job = &group.jobs()[0];
    while supervisor.get(job).unwrap().phase.as_deref() != Some("working") {
        tokio::task::yield_now().await;
    }
    supervisor.stop_all(None);
    let library = group.wait(PATIENCE).await.unwrap();
    let library = serde_json::to_value::<&CombinedResult>(&library).unwrap();
    supervisor.shutdown().await;

    let words_given = ["run", "--json", "--drain", "0ms", "--task", "slow=sleep 600"];
    let mut program = Running::start(fanin(folder.path(), &words_given));
    program.wait_for("start ");
    program.signal("TERM");
    let program = serde_json::from_str(&program.end().stdout).unwrap();
    assert_eq!(words(&library), words(&program));
    assert_eq!(
        (&library["entries"][0]["status"], &library["entries"][0]["cause"]),
        (&json!("cancelled"), &json!("shutdown"))
    );
}
