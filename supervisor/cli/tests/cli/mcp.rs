//! `fanin mcp` as an agent starts it: lines of JSON on its standard input and output, and nothing else there.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::common::{PATIENCE, Running, fanin, made, send, wait};
#[cfg(target_os = "linux")]
use crate::nested::SCRUBBED;

/// What a server may take to end (14.10), and what the start of a process costs on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// An agent's side.
pub(crate) struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Answers to others than whoever was waited for.
    others: Vec<Value>,
    next: u64,
}

impl Agent {
    /// An agent that has begun its session, with the state folder below `folder`.
    pub(crate) fn begun(folder: &Path) -> Self {
        Self::begun_as(fanin(folder, &["mcp"]))
    }

    fn begun_as(command: Command) -> Self {
        let mut agent = Self::start(command);
        let begin = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let id = agent.ask("initialize", &begin);
        let begun = agent.answer(id);
        assert_eq!(begun["result"]["protocolVersion"], "2025-06-18", "{begun}");
        agent.line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        agent
    }

    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sent, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sent.send(line)));
        let stdin = child.stdin.take();
        Self { child, stdin, lines, others: Vec::new(), next: 0 }
    }

    fn line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.line(&request.to_string());
        self.next
    }

    fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// The answer to a request; what else comes before it is a message as well.
    fn answer(&mut self, id: u64) -> Value {
        if let Some(place) = self.others.iter().position(|other| other["id"] == id) {
            return self.others.swap_remove(place);
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to {id}"));
            let message: Value =
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"));
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            if message["id"] == id {
                return message;
            }
            self.others.push(message);
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        self.answer(id)["result"]["structuredContent"].clone()
    }

    /// Closes the input, and waits for the end: its exit code, what it took, and what it wrote on standard error.
    fn leave(mut self) -> (Option<i32>, Duration, String) {
        self.stdin = None;
        self.end()
    }

    fn end(mut self) -> (Option<i32>, Duration, String) {
        let begun = Instant::now();
        let status = wait(&mut self.child);
        let took = begun.elapsed();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), took, said)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folders of runs below a test's own folder.
fn runs(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder.join(".state/runs")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A task that notes its process and goes on for a long time.
fn long(folder: &Path, name: &str) -> Value {
    let shell = format!("echo $$ > {name}.new && mv {name}.new {name} && exec sleep 600");
    json!({ "shell": shell, "background": true, "cwd": folder })
}

/// The process that such a task has noted.
fn noted(folder: &Path, name: &str) -> u32 {
    made(folder, name);
    fs::read_to_string(folder.join(name)).unwrap().trim().parse().unwrap()
}

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// What `fanin` with these words prints there.
fn shown(folder: &TempDir, words: &[&str]) -> String {
    let ended = Running::start(fanin(folder.path(), words)).end();
    assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
    ended.stdout
}

#[test]
fn commands_are_run_and_kept_from_the_first_launch_on() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    let id = agent.ask("tools/list", &json!({}));
    assert_eq!(agent.answer(id)["result"]["tools"].as_array().map(Vec::len), Some(7));
    assert_eq!(agent.call("jobs", &json!({}))["jobs"], json!([]));
    assert!(!folder.path().join(".state").exists(), "nothing is made before the first launch");
    let tasks = json!({ "tasks": [
        { "shell": "echo \"$WHO\"; pwd", "env": { "WHO": "me" }, "cwd": folder.path(), "timeout": "1m" },
        { "id": "bad", "command": ["sh", "-c", "echo oh >&2; exit 7"] },
    ] });
    let said = agent.call("task_parallel", &tasks);
    let of = |place: usize| said["results"][0]["tasks"][place].clone();
    let here = folder.path().canonicalize().unwrap();
    assert_eq!(of(0)["output"], format!("me\n{}\n", here.display()), "{said}");
    assert_eq!(
        (&of(1)["task"], &of(1)["exit_code"], &of(1)["output"]),
        (&json!("bad"), &json!(7), &json!("oh\n"))
    );
    assert_eq!(of(0)["task"], "echo \"$WHO\"; pwd", "named by its line");
    let (code, took, stderr) = agent.leave();
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(took < ENDS_WITHIN, "{took:?}");
    // What was run can be looked at afterwards.
    let kept = runs(folder.path());
    assert!(kept.len() == 1 && kept[0].starts_with("ses_"), "{kept:?}");
    let listed = shown(&folder, &["ps", "--all"]);
    assert!(listed.contains("bad") && listed.contains("completed"), "{listed}");
    let job = of(1)["job"].as_str().unwrap().to_owned();
    assert_eq!(shown(&folder, &["output", &job]), "oh\n");
}

#[test]
fn a_client_that_goes_takes_its_jobs_along_within_two_seconds() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    // One that does not listen to a polite stop.
    let deaf = "trap '' TERM; echo $$ > deaf.new; mv deaf.new deaf; while :; do sleep 1; done";
    agent.call("subagent", &json!({ "shell": deaf, "background": true, "cwd": folder.path() }));
    agent.call("subagent", &long(folder.path(), "first"));
    // And one in the middle of a call.
    let mut call = long(folder.path(), "second");
    call["background"] = json!(false);
    agent.begin("subagent", &call);
    let pids = ["deaf", "first", "second"].map(|name| noted(folder.path(), name));
    assert!(pids.into_iter().all(lives));
    let (code, took, stderr) = agent.leave();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(took < ENDS_WITHIN, "{took:?}");
    assert!(!pids.into_iter().any(lives), "something of it still runs");
    let events = shown(&folder, &["events", "--json"]);
    assert!(events.contains("client_gone") && events.contains("store.closed"), "{events}");
    assert_eq!(shown(&folder, &["ps"]), "no jobs; --all shows what is over\n");
}

// Its jobs can be seen before the call that launched them knows of it.
#[test]
fn whoever_sees_a_job_can_stop_it_by_its_id() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    for _ in 0..40 {
        let call = agent.begin("subagent", &json!({ "shell": "exec sleep 600" }));
        let seen = loop {
            let listed = agent.call("jobs", &json!({ "status": "running" }));
            if let Some(job) = listed["jobs"].as_array().unwrap().first() {
                break job["job"].clone();
            }
        };
        let said = agent.call("job_cancel", &json!({ "ids": [seen] }));
        assert_eq!(said["stops"][0]["stop"], "stopping", "{said}");
        let said = agent.answer(call)["result"]["structuredContent"].clone();
        assert_eq!(said["results"][0]["tasks"][0]["cause"], "user", "{said}");
    }
}

// As `printf ... | fanin mcp` does it.
#[test]
fn all_that_was_asked_before_the_end_of_the_input_is_answered() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    let list = agent.ask("tools/list", &json!({}));
    let call = agent.begin("subagent", &json!({ "shell": "echo hi" }));
    let unknown = agent.begin("nobody", &json!({}));
    agent.stdin = None;
    assert_eq!(agent.answer(list)["result"]["tools"].as_array().map(Vec::len), Some(7));
    assert_eq!(agent.answer(unknown)["error"]["code"], -32602);
    let said = agent.answer(call);
    assert_eq!(said["result"]["structuredContent"]["results"][0]["tasks"][0]["output"], "hi\n", "{said}");
    assert_eq!(agent.leave().0, Some(0));
}

#[test]
fn a_client_that_reads_no_more_is_gone_though_its_input_is_open() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    agent.call("subagent", &long(folder.path(), "job"));
    let pid = noted(folder.path(), "job");
    // The thread that reads ends with the first line that nobody takes, and its end of the pipe goes with it.
    let (_, nobody) = mpsc::channel();
    agent.lines = nobody;
    let begun = Instant::now();
    while agent.child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it serves nobody");
        agent.next += 1;
        let ping = json!({ "jsonrpc": "2.0", "id": agent.next, "method": "ping" });
        // It may be gone by now.
        let _ = writeln!(agent.stdin.as_mut().unwrap(), "{ping}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (code, _, stderr) = agent.end();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!lives(pid));
}

#[test]
fn a_signal_ends_it_as_a_shutdown() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    agent.call("subagent", &long(folder.path(), "job"));
    let pid = noted(folder.path(), "job");
    send(agent.child.id(), "TERM");
    let (code, took, stderr) = agent.end();
    assert_eq!(code, Some(143), "{stderr}");
    assert!(took < ENDS_WITHIN && !lives(pid), "{took:?}");
    let events = shown(&folder, &["events", "--json"]);
    assert!(events.contains("shutdown") && !events.contains("client_gone"), "{events}");
}

#[test]
fn one_that_is_killed_leaves_no_process_and_nothing_to_resume() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    agent.call("subagent", &long(folder.path(), "job"));
    let pid = noted(folder.path(), "job");
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    let end = Instant::now() + PATIENCE;
    while lives(pid) {
        assert!(Instant::now() < end, "its job outlives it");
        std::thread::sleep(Duration::from_millis(5));
    }
    let listed = Running::start(fanin(folder.path(), &["ps"])).end();
    assert!(listed.stdout.contains("nobody goes on with it"), "{}", listed.stdout);
    assert!(!listed.stderr.contains("fanin resume"), "{}", listed.stderr);
    assert!(shown(&folder, &["show"]).contains("nobody goes on with it"));
    let ended = Running::start(fanin(folder.path(), &["resume"])).end();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), "fanin: no run was interrupted\n"));
    // Nor does it stand in the way of what can be run again.
    let ended = Running::start(fanin(folder.path(), &["run", "--again", "abcd"])).end();
    assert!(ended.stderr.contains("none is kept there"), "{}", ended.stderr);
}

// B95
#[test]
fn two_hundred_visits_leave_nothing() {
    let folder = tempdir().unwrap();
    let path = folder.path();
    let visit = |n: usize| {
        let mut agent = Agent::begun(path);
        match n % 20 {
            // In the middle of a call that launched something.
            0 => {
                let mut call = long(path, &format!("job{n}"));
                call["background"] = json!(false);
                agent.begin("subagent", &call);
                noted(path, &format!("job{n}"));
            }
            // In the middle of others.
            1..5 => drop(agent.begin("wait_for_subagents", &json!({}))),
            5..10 => drop(agent.ask("tools/list", &json!({}))),
            _ => {}
        }
        let (code, _, stderr) = agent.leave();
        assert_eq!(code, Some(0), "visit {n}: {stderr}");
    };
    std::thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || (first..200).step_by(4).filter(|n| n % 20 != 0).for_each(visit));
        }
    });
    assert_eq!(runs(path), Vec::<String>::new());
    (0..200).step_by(20).for_each(visit);
    let pids = (0..200).step_by(20).map(|n| noted(path, &format!("job{n}")));
    assert!(!pids.into_iter().any(lives), "a job lives on");
    assert_eq!(runs(path).len(), 10, "only those that launched something have a folder");
    assert_eq!(shown(&folder, &["ps"]), "no jobs; --all shows what is over\n");
}

// Some clients start a server twice, the first time to look what it speaks.
#[test]
fn servers_of_one_folder_do_not_see_each_other() {
    let folder = tempdir().unwrap();
    let mut both = [Agent::begun(folder.path()), Agent::begun(folder.path())];
    let mut groups = BTreeSet::new();
    for agent in &mut both {
        let said = agent.call("subagent", &json!({ "shell": "echo hi", "key": "same" }));
        assert_eq!(said["summary"].as_str().unwrap().split(',').next(), Some("1 of 1 completed"), "{said}");
        groups.insert(said["results"][0]["tasks"][0]["job"].to_string());
    }
    assert_eq!(groups.len(), 2);
    for agent in both {
        assert_eq!(agent.leave().0, Some(0));
    }
}

#[test]
fn a_job_has_no_input_and_takes_none_of_the_servers() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    let cat = agent.begin("subagent", &json!({ "shell": "cat; echo end" }));
    let next = agent.begin("subagent", &json!({ "shell": "echo next" }));
    for (id, output) in [(cat, "end\n"), (next, "next\n")] {
        let said = agent.answer(id);
        let said = &said["result"]["structuredContent"];
        assert_eq!(said["results"][0]["tasks"][0]["output"], output, "{said}");
    }
}

#[test]
fn tasks_are_refused_as_those_of_a_manifest_are() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    let huge = "x".repeat(2 * 1024 * 1024);
    for (task, words) in [
        (json!({}), "none of `command`, `shell` and `agent`; add one, like \"shell\": \"cargo check\""),
        (json!({ "shell": "a", "command": ["b"] }), "shell: `command` is there as well"),
        (json!({ "command": [] }), "command: "),
        (json!({ "shell": huge }), "shell: "),
        (json!({ "shell": "a", "timeout": "soon" }), "timeout: `soon` is no duration"),
        (json!({ "shell": "a", "timeout": "0s" }), "timeout: `0s` would end it before it began"),
        (json!({ "shell": "a", "retries": 51 }), "retries: must be from 0 to 50"),
        (json!({ "shell": "a", "retries": -1 }), "invalid value"),
        (json!({ "shell": "a", "output_bytes_max": 0 }), "output_bytes_max: must be from 1 to"),
        (json!({ "shell": "a", "label": " " }), "label: must have 1 to 200 bytes"),
        (json!({ "shell": "a", "id": "a b" }), "id: "),
        (json!({ "shell": "a", "cwd": "" }), "cwd: must be the path of a folder"),
        (json!({ "shell": "a", "env": { "A=B": "c" } }), "env"),
        (json!({ "shell": "a", "stdin": "b" }), "unknown field `stdin`"),
        (
            json!({ "agent": "nobody", "prompt": "go" }),
            "agent: there is no agent `nobody`; there are claude, codex",
        ),
        (json!({ "agent": "claude" }), "agent: its `prompt` is missing: write all"),
        (json!({ "agent": "claude", "prompt": " " }), "prompt: the prompt is empty; write"),
        (
            json!({ "agent": "claude", "prompt": huge }),
            "prompt: has 2097152 bytes; at most 8000 are allowed: put the rest into a file",
        ),
        (json!({ "agent": "claude", "prompt": "go", "rights": "root" }), "rights: use \"read-only\""),
        (json!({ "agent": "claude", "prompt": "go", "shell": "a" }), "agent: `shell` is there as well"),
        (json!({ "shell": "a", "prompt": "go" }), "prompt: it is for a task with an `agent`"),
        (json!({ "shell": "a", "budget": {} }), "budget: is empty; write { \"usd\": 1.5 }"),
        (json!({ "shell": "a", "budget": { "usd": 1 } }), "budget: nothing would ever count for it"),
        (json!({ "shell": "a", "budget": { "usdd": 1 } }), "unknown field `usdd`"),
        (json!({ "shell": "a", "budget": { "time": "2d" } }), "budget.time: `2d` is no duration"),
        (json!({ "shell": "a", "budget": { "steps": 1.5 } }), "budget.steps: `1.5` is no whole number"),
        (json!({ "shell": "a", "budget": { "usd": -1 } }), "budget.usd: `-1` is no amount of US dollars"),
        (
            json!({ "agent": "claude", "prompt": "go", "budget": { "usd": 1, "estimate": 2 } }),
            "budget.estimate: nothing would ever start: 2.00 USD is more than `usd` (1.00 USD)",
        ),
    ] {
        let said = agent.call("subagent", &task);
        let message = said["error"]["message"].as_str().unwrap_or_else(|| panic!("{words}: {said}"));
        assert!(message.contains(words) && message.len() < 1_000, "{words}: {message}");
    }
    let twice = json!({ "tasks": [{ "id": "a", "shell": "x" }, { "id": "a", "shell": "y" }] });
    let said = agent.call("task_parallel", &twice);
    assert_eq!(said["error"]["code"], "bad_tasks", "{said}");
    assert!(said["error"]["message"].as_str().unwrap().starts_with("tasks[1].id: "), "{said}");
    assert!(!folder.path().join(".state").exists(), "nothing was started");
}

#[test]
fn inside_of_a_job_there_is_no_tool_that_launches() {
    let folder = tempdir().unwrap();
    let mut command = fanin(folder.path(), &["mcp"]);
    command.env("FANIN_PARENT", "run/job_1/2/1");
    let mut agent = Agent::begun_as(command);
    let id = agent.ask("tools/list", &json!({}));
    let tools = agent.answer(id)["result"]["tools"].clone();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["wait_for_subagents", "jobs", "message", "job_cancel"]);
    assert_eq!(agent.call("subagent", &json!({ "shell": "true" }))["error"]["code"], "worker");
    drop(agent);
    let mut command = fanin(folder.path(), &["mcp"]);
    command.env("FANIN_PARENT", "damaged");
    assert_eq!(Running::start(command).end().code, Some(2));
}

// B79: what an agent has launched launches nothing, by any word of ours, whatever it does to its environment.
#[cfg(target_os = "linux")]
#[test]
fn a_job_of_an_agent_launches_nothing_by_any_word_of_ours() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    let fanin = env!("CARGO_BIN_EXE_fanin");
    let client = json!({ "name": "worker", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let call = json!({ "name": "subagent", "arguments": { "shell": "touch started" } });
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.path().join("lines"), lines).unwrap();
    fs::write(folder.path().join("m.toml"), "[[task]]\nshell = \"touch started\"\n").unwrap();
    let forged = format!("{SCRUBBED} FANIN_PARENT=run/job/1/1");
    for prefix in ["", SCRUBBED, &forged] {
        let words = ["run 'touch started' 2>&1", "run m.toml 2>&1", "mcp < lines"];
        let tasks = words.map(|words| json!({ "shell": format!("{prefix} {fanin} {words}") }));
        let said = agent.call("task_parallel", &json!({ "tasks": tasks }));
        let tasks = said["results"][0]["tasks"].as_array().unwrap_or_else(|| panic!("{said}"));
        for task in &tasks[..2] {
            assert_eq!(task["exit_code"], 2, "{prefix}: {task}");
            let output = task["output"].as_str().unwrap();
            assert!(output.contains("deeper than 1, which is the limit"), "{prefix}: {output}");
        }
        let answers = tasks[2]["output"].as_str().unwrap_or_else(|| panic!("{prefix}: {}", tasks[2]));
        let answer: Value = serde_json::from_str(answers.lines().last().unwrap()).unwrap();
        assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "worker", "{prefix}: {answer}");
    }
    assert!(!folder.path().join("started").exists(), "a worker has launched something");
    assert_eq!(agent.leave().0, Some(0));
}

#[test]
fn agents_are_given_their_prompts_with_their_rights() {
    let folder = crate::agents::folder("");
    let mut agent = Agent::begun(folder.path());
    let tasks = json!([
        { "agent": "worker", "prompt": "say word-hello" },
        { "agent": "worker", "prompt": "say word-hello", "rights": "read-only" },
        { "agent": "plain", "prompt": "hi" },
        { "shell": "echo ho" }
    ]);
    let said = agent.call("task_parallel", &json!({ "tasks": tasks }));
    let tasks = said["results"][0]["tasks"].as_array().unwrap_or_else(|| panic!("{said}"));
    let outputs: Vec<_> = tasks.iter().map(|task| task["output"].as_str().unwrap_or("-").trim()).collect();
    assert_eq!(outputs, ["edit hello", "read-only hello", "got: hi", "ho"]);
    assert_eq!(agent.leave().0, Some(0));
}

#[test]
fn what_agents_have_used_is_told_of_each_and_of_all() {
    let folder = crate::budgets::folder("");
    let mut agent = Agent::begun(folder.path());
    let tasks = json!([
        { "agent": "worker", "prompt": "cost-0.25" },
        { "agent": "worker", "prompt": "for nothing" },
        { "shell": "true" }
    ]);
    let said = agent.call("task_parallel", &json!({ "tasks": tasks }));
    let group = &said["results"][0];
    assert_eq!(group["used"], "cost 0.25 USD and that of 1 runs, which is not known", "{said}");
    let tasks = group["tasks"].as_array().unwrap();
    let used: Vec<_> = tasks.iter().map(|task| task["used"].as_str().unwrap_or("-")).collect();
    assert_eq!(used, ["cost 0.25 USD, 1 steps", "cost not known", "-"]);
    let jobs = agent.call("jobs", &json!({}));
    assert_eq!(jobs["jobs"][0]["used"], "cost 0.25 USD, 1 steps");
    let summary = jobs["summary"].as_str().unwrap();
    assert!(summary.contains("all used so far: cost 0.25 USD and that of 1 runs"), "{summary}");
    assert_eq!(agent.leave().0, Some(0));
}

#[test]
fn a_budget_of_a_call_and_of_a_task_bind_as_those_of_a_manifest_do() {
    let folder = crate::budgets::folder("");
    let mut agent = Agent::begun(folder.path());
    let costly = json!({ "agent": "worker", "prompt": "cost-0.30" });
    let budget = json!({ "usd": 0.5, "estimate": 0.3 });
    let said = agent.call("task_parallel", &json!({ "tasks": [costly, costly, costly], "budget": budget }));
    let ends = |said: &Value| {
        let tasks = said["results"][0]["tasks"].as_array().unwrap_or_else(|| panic!("{said}"));
        let end = |task: &Value| task["cause"].as_str().unwrap_or("-").to_owned();
        tasks.iter().map(end).collect::<Vec<_>>()
    };
    assert_eq!(ends(&said), ["-", "budget", "budget"], "{said}");
    let own = json!({ "agent": "worker", "prompt": "cost-0.30", "budget": { "usd": 0.2, "estimate": 0.2 } });
    let said = agent.call("subagent", &own);
    assert_eq!(said["results"][0]["tasks"][0]["used"], "cost 0.30 USD, 1 steps", "{said}");
    let unbound = json!({ "tasks": [{ "shell": "a" }, { "shell": "b" }], "budget": { "usd": 1 } });
    let said = agent.call("task_parallel", &unbound);
    assert_eq!(said["error"]["code"], "bad_tasks", "{said}");
    assert!(said["error"]["message"].as_str().unwrap().starts_with("budget: nothing would ever"), "{said}");
}

#[test]
fn a_budget_that_is_configured_binds_all_that_an_agent_launches() {
    let folder = crate::budgets::folder("");
    let file = folder.path().join("fanin.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{config}[budget]\nusd = 0.50\nestimate = 0.30\n")).unwrap();
    let mut agent = Agent::begun(folder.path());
    let costly = json!({ "agent": "worker", "prompt": "cost-0.30" });
    let first = agent.call("subagent", &costly);
    assert_eq!(first["results"][0]["tasks"][0]["status"], "completed", "{first}");
    let second = agent.call("subagent", &costly);
    assert_eq!(second["results"][0]["tasks"][0]["cause"], "budget", "{second}");
    // Nothing is expected of a command.
    let third = agent.call("subagent", &json!({ "shell": "true" }));
    assert_eq!(third["results"][0]["tasks"][0]["status"], "completed", "{third}");
}

#[test]
fn a_configuration_that_is_wrong_launches_nothing_and_is_told_to_the_agent() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("fanin.toml"), "[agents.mine]\nkind = 7\n").unwrap();
    let mut agent = Agent::begun(folder.path());
    for task in [json!({ "shell": "echo hi" }), json!({ "agent": "opencode", "prompt": "go" })] {
        let error = agent.call("subagent", &task)["error"].clone();
        assert_eq!(error["code"], "bad_arguments");
        assert!(error["message"].as_str().unwrap().contains("fanin.toml:2"), "{error}");
    }
    assert!(!folder.path().join(".state").exists(), "nothing was started");
}

#[test]
fn without_a_store_nothing_is_left_and_without_a_folder_it_is_refused() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun_as(fanin(folder.path(), &["mcp", "--no-store"]));
    let said = agent.call("subagent", &json!({ "shell": "echo hi" }));
    assert_eq!(said["results"][0]["tasks"][0]["output"], "hi\n");
    assert_eq!(agent.leave().0, Some(0));
    assert!(!folder.path().join(".state").exists());
    let mut command = fanin(folder.path(), &["mcp"]);
    fs::write(folder.path().join("file"), "").unwrap();
    command.env("FANIN_STATE_DIR", folder.path().join("file"));
    let mut agent = Agent::begun_as(command);
    let error = agent.call("subagent", &json!({ "shell": "echo hi" }))["error"].clone();
    assert_eq!(error["code"], "no_state_folder");
    assert!(error["message"].as_str().unwrap().contains("fanin mcp --no-store"), "{error}");
}

#[test]
fn whoever_speaks_something_else_is_told_and_nothing_is_started() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::start(fanin(folder.path(), &["mcp"]));
    agent.line("what is this");
    agent.line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
    let (code, _, stderr) = agent.end();
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.starts_with("error: the client did not begin a session of MCP"), "{stderr}");
}
