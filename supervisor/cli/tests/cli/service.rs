//! The commands that ask a service: `run --detach`, `wait`, `cancel`, `extend`, `promote`, and those that look at its store.
//! Each test has a service of its own.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::common::{Ended, Running, fanin, made, run};

/// A service in a folder of its own.
struct Service {
    folder: TempDir,
    serving: Option<Running>,
}

impl Service {
    fn start() -> Self {
        let mut service = Self { folder: tempdir().unwrap(), serving: None };
        service.serve();
        service
    }

    fn serve(&mut self) {
        let mut command = fanin(self.path(), &["serve"]);
        command.env_remove("XDG_RUNTIME_DIR");
        let mut serving = Running::start(command);
        serving.says("fanin: serving");
        self.serving = Some(serving);
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn ask(&self, words: &[&str]) -> Ended {
        ask(self.path(), words)
    }

    /// Launches, and returns the id of the run.
    fn detach(&self, words: &[&str]) -> String {
        let ended = self.ask(&[&["run", "--detach"], words].concat());
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        group(&ended.stdout)
    }

    /// Launches one task that makes `begun` and then goes on until it is stopped.
    fn detach_long(&self) -> String {
        let group = self.detach(&["echo first; touch begun; exec sleep 600"]);
        made(self.path(), "begun");
        group
    }

    fn job_of(&self, group: &str) -> String {
        let shown = json(&self.ask(&["ps", "--all", "--json"]));
        let jobs = shown["jobs"].as_array().unwrap();
        let job = jobs.iter().find(|job| job["group"] == group).unwrap_or_else(|| panic!("{shown}"));
        job["job"].as_str().unwrap().to_owned()
    }

    fn signal(&self, name: &str) {
        self.serving.as_ref().unwrap().signal(name);
    }

    /// Waits for its end.
    fn ended(&mut self) -> Ended {
        self.serving.take().unwrap().end()
    }
}

fn ask(folder: &Path, words: &[&str]) -> Ended {
    Running::start(fanin(folder, words)).end()
}

/// The id in the first line of what a launch says.
fn group(told: &str) -> String {
    let id = told.strip_prefix("run ").and_then(|told| told.split(':').next());
    id.unwrap_or_else(|| panic!("no run: {told}")).to_owned()
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}{}", ended.stdout, ended.stderr))
}

#[test]
fn a_detached_run_is_waited_for_by_the_start_of_its_id_and_told_as_a_run_is() {
    let service = Service::start();
    let told = service.ask(&["run", "-D", "--task", "good=pwd; echo out-good", "--task", "bad=exit 3"]);
    let group = group(&told.stdout);
    let lines: Vec<&str> = told.stdout.lines().collect();
    let go_on = [format!("fanin wait {group}"), format!("fanin show {group}")];
    assert_eq!(lines, [&format!("run {group}: 2 tasks"), &go_on[0], &go_on[1]]);

    let waited = service.ask(&["wait", &group["grp_".len()..][..8]]);
    assert_eq!(waited.code, Some(1), "{}", waited.stderr);
    assert!(waited.stdout.starts_with("2 tasks: 1 completed, 1 failed"), "{}", waited.stdout);
    assert!(waited.stdout.contains("    out-good\n"), "{}", waited.stdout);
    // It ran where it was launched, and not where the service was started.
    let here = service.path().canonicalize().unwrap();
    assert!(waited.stdout.contains(here.to_str().unwrap()), "{}", waited.stdout);
    assert_eq!(waited.last_word(), "fanin: exit 1 (some_not_completed)");

    // It was taken then, and is told again to whoever asks.
    let again = service.ask(&["wait", &group, "--fail-on", "none-ok", "--json"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let document = json(&again);
    assert_eq!((&document["schema"], &document["exit"]["code"]), (&"fanin.result/1".into(), &0.into()));
    let records = service.ask(&["events", &group]).stdout;
    assert_eq!(records.matches("message.taken").count(), 1, "{records}");
    // The newest run is that of the service.
    assert!(service.ask(&["show"]).stdout.starts_with(&format!("run {group}\n")));
}

#[test]
fn a_plan_keeps_its_order_budget_limits_and_number_at_a_time() {
    let service = Service::start();
    let plan = r#"
concurrency = 1
budget = { time = "1h" }

[[task]]
id = "last"
shell = 'cat made'
depends = ["maker"]

[[task]]
id = "maker"
command = ["sh", "-c", "echo from-maker > made"]

[[task]]
id = "slow"
shell = 'sleep 600'
timeout = "300ms"
"#;
    fs::write(service.path().join("plan.toml"), plan).unwrap();
    let group = service.detach(&["plan.toml"]);
    let document = json(&service.ask(&["wait", &group, "--json"]));
    let entries = document["entries"].as_array().unwrap();
    let ends: Vec<_> = entries.iter().map(|entry| (&entry["status"], &entry["cause"])).collect();
    let (ok, null): (Value, _) = ("completed".into(), Value::Null);
    assert_eq!(ends, [(&ok, &null), (&ok, &null), (&"error".into(), &"timeout".into())]);
    assert_eq!(entries[0]["output"]["text"], "from-maker\n");
    let shown = service.ask(&["show", &group]).stdout;
    assert!(shown.contains("budget time:"), "{shown}");
    let records = service.ask(&["events", &group, "--json"]).stdout;
    // One at a time: none starts before the one before it has ended.
    let mut at_work = 0;
    for line in records.lines() {
        at_work += i32::from(line.contains("\"run.started\"")) - i32::from(line.contains("\"run.ended\""));
        assert!((0..=1).contains(&at_work), "{records}");
    }
}

#[test]
fn a_key_launches_once() {
    let service = Service::start();
    let words = ["--key", "nightly", "echo x >> ran"];
    assert_eq!(service.detach(&words), "nightly");
    assert_eq!(service.ask(&["wait", "nightly"]).code, Some(0));
    let again = service.ask(&[&["run", "--detach"], &words[..]].concat());
    assert!(again.stdout.starts_with("run nightly: 1 task, launched before\n"), "{}", again.stdout);
    let other = service.ask(&["run", "--detach", "--key", "nightly", "echo y >> ran"]);
    assert!(other.stderr.contains("launched before, with other tasks"), "{}", other.stderr);
    assert_eq!(service.ask(&["wait", "nightly"]).code, Some(0));
    assert_eq!(fs::read_to_string(service.path().join("ran")).unwrap(), "x\n");
}

#[test]
fn without_a_service_it_is_said_how_to_start_one_and_nothing_runs() {
    let folder = tempdir().unwrap();
    let ended = run(folder.path(), &["--detach", "touch ran"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("start one: fanin serve"), "{}", ended.stderr);
    assert!(!folder.path().join("ran").exists());
    let document = run(folder.path(), &["--detach", "true", "--json"]).stderr;
    assert!(document.contains("\"code\":\"not_running\""), "{document}");
    for words in
        [&["wait", "12ab"][..], &["cancel", "12ab"], &["extend", "12ab", "go on"], &["promote", "12ab"]]
    {
        let ended = ask(folder.path(), words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("nothing has the id `12ab`"), "{}", ended.stderr);
    }
    // A key is for what is launched by a service.
    assert_eq!(run(folder.path(), &["--key", "a", "true"]).code, Some(2));
}

#[test]
fn a_wait_that_runs_out_or_is_interrupted_leaves_the_job_alone() {
    let service = Service::start();
    let group = service.detach_long();
    let status = service.ask(&["status"]).stdout;
    let serves = format!("process {} serves ", service.serving.as_ref().unwrap().id());
    assert!(status.starts_with("1 running\n") && status.contains(&serves), "{status}");
    assert!(status.ends_with(": 0 clients, 1 running, 0 queued\n"), "{status}");
    assert_eq!(service.ask(&["status", "--line"]).stdout, "1 running\n");
    let document = json(&service.ask(&["status", "--json"]));
    assert_eq!((&document["schema"], &document["service"]["running"]), (&"fanin.status/1".into(), &1.into()));
    let waited = service.ask(&["wait", &group, "--timeout", "1ms"]);
    assert_eq!(waited.code, Some(3), "{}", waited.stderr);
    assert!(waited.stdout.contains("running"), "{}", waited.stdout);
    assert!(waited.stderr.contains("fanin: not over after 1ms; the jobs go on"), "{}", waited.stderr);
    assert_eq!(waited.last_word(), "fanin: exit 3 (wait_timed_out)");
    let document = json(&service.ask(&["wait", &group, "--timeout", "1ms", "--json"]));
    assert_eq!(
        (&document["schema"], &document["jobs"][0]["status"]),
        (&"fanin.jobs/1".into(), &"running".into())
    );

    let mut waiting = Running::start(fanin(service.path(), &["wait", &group]));
    waiting.wait_for(&format!("fanin: waiting for {group}"));
    waiting.signal("INT");
    let ended = waiting.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(130), ""), "{}", ended.stderr);
    assert!(service.ask(&["ps"]).stdout.contains("running"));

    let cancelled = service.ask(&["cancel", &group, "--force"]);
    assert_eq!((cancelled.code, cancelled.stdout), (Some(0), format!("{group}: being stopped\n")));
    let waited = service.ask(&["wait", &group]);
    assert_eq!(waited.code, Some(1), "{}", waited.stderr);
    assert!(waited.stdout.starts_with("1 task: 0 completed, 1 cancelled"), "{}", waited.stdout);
    let late = service.ask(&["cancel", &group]);
    assert_eq!((late.code, late.stdout), (Some(0), format!("{group} was over: 0 of 1 jobs completed\n")));
}

#[test]
fn of_several_the_first_that_is_over_is_enough_where_any_is() {
    let service = Service::start();
    let long = service.detach_long();
    let short = service.detach(&["echo short"]);
    let (long_job, short_job) = (service.job_of(&long), service.job_of(&short));
    let waited = service.ask(&["wait", &long_job, &short, "--any"]);
    assert_eq!(waited.code, Some(0), "{}", waited.stderr);
    assert!(waited.stdout.starts_with("1 task: 1 completed"), "{}", waited.stdout);
    let waited = service.ask(&["wait", &short_job]);
    assert_eq!(waited.code, Some(0), "{}", waited.stderr);
    assert!(waited.stdout.starts_with(&format!("{short_job}  completed\n")), "{}", waited.stdout);

    let both = Running::start(fanin(service.path(), &["wait", &short, &long, "--json"]));
    service.ask(&["cancel", &long_job, "--force"]);
    let both = both.end();
    assert_eq!(both.code, Some(1), "{}", both.stderr);
    let outcomes: Vec<Value> = both.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counts: Vec<_> = outcomes.iter().map(|of| &of["counts"]["completed"]).collect();
    assert_eq!(counts, [&1, &0]);
}

#[test]
fn more_time_words_and_the_background_are_asked_for_and_answered() {
    let service = Service::start();
    let group = service.detach(&["--timeout", "300s", "touch begun; exec sleep 600"]);
    made(service.path(), "begun");
    let job = service.job_of(&group);
    let longer = service.ask(&["extend", &job, "--by", "10m"]);
    assert_eq!((longer.code, longer.stdout), (Some(0), format!("{job} may run 10m longer\n")));
    // A command hears nothing.
    let told = service.ask(&["extend", &job, "look at the tests as well"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(2), ""), "{}", told.stderr);
    for words in
        [&["extend", &job][..], &["extend", &job, "more", "--by", "1m"], &["extend", &group, "--by", "1m"]]
    {
        assert_eq!(service.ask(words).code, Some(2), "{words:?}");
    }
    let promoted = service.ask(&["promote", &group]);
    assert_eq!(promoted.code, Some(0), "{}", promoted.stderr);
    assert!(promoted.stdout.contains("is in the background"), "{}", promoted.stdout);
    assert_eq!(service.ask(&["cancel", &group, "--force"]).code, Some(0));
    assert_eq!(service.ask(&["wait", &group]).code, Some(1));
    let late = service.ask(&["extend", &job, "--by", "10m"]);
    assert_eq!(late.code, Some(1), "{}", late.stderr);
    assert!(late.stderr.contains(&format!("job {job} is over: cancelled")), "{}", late.stderr);
}

#[test]
fn what_another_process_has_is_refused_with_its_number() {
    let folder = tempdir().unwrap();
    let mut working =
        Running::start(fanin(folder.path(), &["run", "--task", "a=touch begun; exec sleep 600"]));
    made(folder.path(), "begun");
    let shown = json(&ask(folder.path(), &["show", "--json"]));
    let job = shown["jobs"][0]["job"].as_str().unwrap();
    let process = format!("process {}", working.id());
    for (words, way_out) in [
        (&["wait", job][..], format!("fanin show {job}")),
        (&["cancel", job], format!("kill -INT {}", working.id())),
        (&["extend", job, "--by", "1m"], "fanin run --detach".to_owned()),
        (&["promote", job], "fanin run --detach".to_owned()),
    ] {
        let ended = ask(folder.path(), words);
        assert_eq!(ended.code, Some(75), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&process) && ended.stderr.contains(&way_out), "{}", ended.stderr);
    }
    working.signal("HUP");
    working.wait_for("fanin: exit");
    let group = shown["jobs"][0]["group"].as_str().unwrap();
    // What is over is told, whoever has had it.
    let waited = ask(folder.path(), &["wait", group]);
    assert_eq!(waited.code, Some(1), "{}", waited.stderr);
    assert!(waited.stdout.starts_with("1 task: 0 completed, 1 cancelled"), "{}", waited.stdout);
    let late = ask(folder.path(), &["cancel", job]).stdout;
    assert!(late.starts_with(&format!("{job} was over: cancelled (shutdown)")), "{late}");
}

#[test]
fn what_follows_ends_when_the_service_is_killed_and_goes_on_with_the_next() {
    let mut service = Service::start();
    let group = service.detach_long();
    let job = service.job_of(&group);
    let mut output = Running::start(fanin(service.path(), &["output", "--follow", &job]));
    output.says("first");
    let mut events = Running::start(fanin(service.path(), &["events", "--follow", &group]));
    events.says("run.bound");
    let mut waiting = Running::start(fanin(service.path(), &["wait", &group]));
    waiting.wait_for("fanin: waiting for");
    service.signal("KILL");
    service.ended();
    for ended in [output.end(), events.end()] {
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("this goes on with it: fanin serve"), "{}", ended.stderr);
    }
    assert!(service.ask(&["ps"]).stdout.contains("this goes on with it: fanin serve"));
    assert_eq!(service.ask(&["status"]).stdout, "1 interrupted\n");
    let late = service.ask(&["cancel", &group]);
    assert_eq!(late.code, Some(1), "{}", late.stderr);
    assert!(late.stderr.contains("this goes on with it: fanin serve"), "{}", late.stderr);
    // A wait is patient enough for a service that comes back: it ended what had run.
    service.serve();
    let waited = waiting.end();
    assert_eq!(waited.code, Some(1), "{}", waited.stderr);
    assert!(waited.stdout.contains("interrupted"), "{}", waited.stdout);
}

#[test]
fn what_is_over_is_told_without_a_service_and_what_is_queued_waits_for_the_next() {
    let mut service = Service::start();
    let over = service.detach(&["echo done"]);
    assert_eq!(service.ask(&["wait", &over]).code, Some(0));
    let open = service.detach(&["--concurrency", "1", "touch begun; exec sleep 600", "echo queued"]);
    made(service.path(), "begun");
    let mut events = Running::start(fanin(service.path(), &["events", "--follow", &open]));
    events.says("run.bound");
    service.signal("TERM");
    service.signal("TERM");
    assert_eq!(service.ended().code, Some(0));
    let ended = events.end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("is not over, and its service has ended"), "{}", ended.stderr);
    assert_eq!(service.ask(&["wait", &over]).code, Some(0));
    let waited = service.ask(&["wait", &open]);
    assert_eq!(waited.code, Some(1), "{}", waited.stderr);
    assert!(waited.stderr.contains("this goes on with it: fanin serve"), "{}", waited.stderr);
    service.serve();
    let waited = service.ask(&["wait", &open]);
    assert_eq!(waited.code, Some(1), "{}", waited.stderr);
    assert!(waited.stdout.contains("    queued\n"), "{}", waited.stdout);
}
