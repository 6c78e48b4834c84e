//! A fan-out of an agent by our tools: one result and one request more to its model, as soon as the slowest is over. And
//! the same by the agent's own background tool, to compare.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::{Agent, PATIENCE, Place, until};
use crate::model::Seen;

/// A place of an agent with our tools.
fn place(variable: &str) -> Option<Place> {
    Some(Place::new(variable)?.with_tools(env!("CARGO_BIN_EXE_program")))
}

/// Has the agent answer a question from its start to its end.
fn ask(place: &Place, words: &[&str], question: &str) {
    let mut command = place.command();
    command.args(words).arg(question).stdout(Stdio::null());
    let mut agent = command.stderr(fs::File::create(place.path("tmp/stderr")).unwrap()).spawn().unwrap();
    let end = Instant::now() + 3 * PATIENCE;
    let status = loop {
        match agent.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() < end => thread::sleep(Duration::from_millis(20)),
            None => {
                agent.kill().unwrap();
                agent.wait().unwrap();
                panic!("the agent has not ended");
            }
        }
    };
    let said = fs::read_to_string(place.path("tmp/stderr")).unwrap();
    assert!(status.success(), "{said}");
}

/// What the agent's model was asked in a conversation in which it made these calls, one after another.
fn called(place: &Place, words: &[&str], calls: &[(&str, Value)]) -> Vec<Seen> {
    place.model.calls(calls);
    ask(place, words, "CALLS go");
    let ours = place.path("ours").into_os_string().into_string().unwrap();
    until("the end of our server", || processes().iter().all(|line| !line.contains(&ours)));
    place.model.seen("CALLS go")
}

/// The command lines of all processes.
fn processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

/// The results that an answer of our tools hands over.
fn results(answer: &str) -> Vec<Value> {
    let document = answer.find("{\"").map(|at| &answer[at..]).unwrap_or_default();
    let document: Option<Value> =
        serde_json::Deserializer::from_str(document).into_iter().next().and_then(Result::ok);
    let document = document.unwrap_or_else(|| panic!("no answer of ours: {answer}"));
    document["results"].as_array().cloned().unwrap_or_default()
}

/// Asserts that what was told is one result of these outputs in this order, once in all of the conversation.
#[track_caller]
fn assert_one_result(seen: &[Seen], outputs: &[String]) {
    let told: Vec<_> = seen.last().unwrap().answers().iter().flat_map(|answer| results(answer)).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["outcome"], "all_ok", "{told:?}");
    let tasks = told[0]["tasks"].as_array().unwrap();
    let said: Vec<_> = tasks.iter().map(|task| task["output"].as_str().unwrap().trim()).collect();
    assert_eq!(said, outputs);
}

/// Asserts that from the first start to the last end it took no longer than the slowest, but for the spread of the starts.
#[track_caller]
pub(crate) fn assert_at_once(what: &str, starts: &[Duration], ends: &[Duration], slowest: Duration) {
    assert_eq!(starts.len(), ends.len(), "{what}");
    let first = starts.iter().min().unwrap();
    let (spread, took) = (*starts.iter().max().unwrap() - *first, *ends.iter().max().unwrap() - *first);
    println!("{what}: {took:?} for {slowest:?}, starts within {spread:?}");
    assert!(took <= slowest * 115 / 100 + spread, "{what}: {took:?}, starts within {spread:?}");
}

/// Tasks that sleep for these milliseconds, and note when.
fn sleepers(place: &Place, times: &[u32]) -> Value {
    let notes = place.path("project/times");
    let note = |name: &str| format!("date +%s%N >> {}.{name}", notes.display());
    let (starts, ends) = (note("starts"), note("ends"));
    let task = |ms: &u32| {
        let seconds = f64::from(*ms) / 1_000.0;
        json!({ "shell": format!("{starts}; sleep {seconds}; {ends}; echo slept {ms}") })
    };
    times.iter().map(task).collect()
}

/// When they noted it.
fn noted(place: &Place, name: &str) -> Vec<Duration> {
    let path = place.path(&format!("project/times.{name}"));
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    text.lines().map(|line| Duration::from_nanos(line.parse().unwrap())).collect()
}

fn is_one_result_as_soon_as_the_slowest_is_over(variable: &str, words: &[&str]) {
    let Some(place) = place(variable) else { return };
    let waits = |tasks: Value| vec![("task_parallel", json!({ "tasks": tasks }))];
    let goes_on = |tasks: Value| {
        let launch = ("task_parallel", json!({ "tasks": tasks, "background": true }));
        vec![launch, ("wait_for_subagents", json!({}))]
    };
    let fan_outs: [(_, &[u32], &dyn Fn(Value) -> _, _); 2] = [
        ("three in the foreground", &[2_000, 4_000, 6_000], &waits, 2),
        ("seven in the background", &[2_000, 2_500, 3_000, 3_500, 4_000, 4_500, 5_000], &goes_on, 3),
    ];
    let mut before = 0;
    for (what, times, calls, requests) in fan_outs {
        let seen = called(&place, words, &calls(sleepers(&place, times)));
        let what = format!("{variable}, {what}");
        println!("{what}: {} requests of the parent", seen.len() - before);
        // One for each call, and one with what came of the last.
        assert_eq!(seen.len() - before, requests, "{what}");
        before = seen.len();
        assert_one_result(&seen, &times.iter().map(|ms| format!("slept {ms}")).collect::<Vec<_>>());
        let (starts, ends) = (noted(&place, "starts"), noted(&place, "ends"));
        assert_eq!(starts.len(), times.len(), "{what}");
        let slowest = times.iter().max().unwrap();
        assert_at_once(&what, &starts, &ends, Duration::from_millis((*slowest).into()));
    }
}

#[test]
fn opencode_is_told_of_a_fan_out_once_as_soon_as_the_slowest_is_over() {
    is_one_result_as_soon_as_the_slowest_is_over("FANIN_OPENCODE", &["run"]);
}

#[test]
fn codex_is_told_of_a_fan_out_once_as_soon_as_the_slowest_is_over() {
    is_one_result_as_soon_as_the_slowest_is_over("FANIN_CODEX", &["exec", "--skip-git-repo-check"]);
}

#[test]
fn claude_is_told_of_a_fan_out_once_as_soon_as_the_slowest_is_over() {
    let words = ["--mcp-config", "mcp.json", "--permission-mode", "bypassPermissions", "-p"];
    is_one_result_as_soon_as_the_slowest_is_over("FANIN_CLAUDE", &words);
}

// The workers are of the same kind as their parent, and their times are those of the model that they share.
#[test]
fn agents_that_opencode_launches_work_at_once_and_are_told_once() {
    let Some(place) = place("FANIN_OPENCODE") else { return };
    let program = place.words().pop().unwrap();
    let env: Vec<_> = place.variables().iter().map(|(name, value)| format!("{name} = '{value}'")).collect();
    let config =
        format!("[agents.opencode]\ncommand = ['{program}', 'acp']\nenv = {{ {} }}\n", env.join(", "));
    fs::write(place.path("project/fanin.toml"), config).unwrap();
    let task = |n: u32| json!({ "agent": "opencode", "prompt": format!("WORK after {n} seconds") });
    let calls = ("task_parallel", json!({ "tasks": [task(2), task(4), task(6)] }));
    let seen = called(&place, &["run"], &[calls]);
    assert_eq!(seen.len(), 2);
    assert_one_result(&seen, &["worked"; 3].map(str::to_owned));
    let children: Vec<_> = place.model.seen("WORK after ").into_iter().filter(is_a_workers).collect();
    assert_eq!(children.len(), 3);
    let begun = children.iter().map(|child| child.at).min().unwrap();
    let starts: Vec<_> = children.iter().map(|child| child.at - begun).collect();
    let ends: Vec<_> = children.iter().map(|child| child.answered.unwrap() - begun).collect();
    assert_at_once("agents of opencode", &starts, &ends, Duration::from_secs(6));
}

/// True for a request of a worker, and not of the parent that has launched it.
pub(crate) fn is_a_workers(seen: &Seen) -> bool {
    !["CALLS go", "THREE go", "AGENTS go"].iter().any(|words| seen.is_of(words))
}

// What our tools are there for: opencode 1.18.33 by itself wakes its parent for each child, and ends without any.
#[test]
fn opencode_by_itself_is_woken_by_each_child_and_does_not_wait_for_them() {
    let Some(place) = Place::new("FANIN_OPENCODE") else { return };
    let agent = Agent::start(&place);
    let session = agent.session();
    agent.prompt(&session, "THREE go");
    let wakes = || agent.messages(&session, "user").len() - 1;
    until("the result of the last child", || {
        place.model.seen("THREE go").last().is_some_and(|seen| {
            let told: String = seen.said().concat();
            told.matches("worked").count() >= 3 && seen.answered.is_some()
        })
    });
    let (wakes, requests) = (wakes(), place.model.seen("THREE go").len());
    println!("opencode by itself: {wakes} wakes, {requests} requests of the parent");
    assert!(wakes > 1 && requests == 2 + wakes, "{wakes} wakes, {requests} requests");
    agent.kill();

    let Some(place) = Place::new("FANIN_OPENCODE") else { return };
    ask(&place, &["run"], "THREE go");
    let parent = place.model.seen("THREE go");
    let told = parent.iter().filter(|seen| seen.is_of("worked")).count();
    println!("opencode run by itself: {} requests of the parent, {told} with a result", parent.len());
    assert_eq!(told, 0, "it has ended before any of its children");
}
