//! Log lines: what they tell, and what they never do.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::agents;
use crate::common::{Ended, Running, fanin};

/// Each in a place of its own; none is a part of another.
const SECRETS: [&str; 6] = [
    "Canary-Prompt-1",
    "Canary-Argument-2",
    "Canary-Variable-3",
    "Canary-Output-4",
    "Canary-Key-5",
    "Canary-Error-6",
];

const MANIFEST: &str = r#"
[[task]]
id = "agent"
agent = "worker"
prompt = "word-hello Canary-Prompt-1"
[[task]]
id = "well"
command = ["sh", "-c", "echo Canary-Out''put-4 $0 $V $MY_API_KEY", "Canary-Argument-2"]
env = { V = "Canary-Variable-3" }
[[task]]
id = "not"
shell = "echo Canary-Error-6 >&2; exit 3"
[[task]]
id = "never"
command = ["no-such-program", "Canary-Argument-2"]
[[task]]
id = "plain"
agent = "plain"
prompt = "Canary-Prompt-1"
"#;

fn with(folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = fanin(folder, words);
    command.env("MY_API_KEY", "Canary-Key-5").envs(variables.iter().copied());
    Running::start(command).end()
}

fn lines(stderr: &str) -> Vec<Value> {
    stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn found(text: &str) -> Vec<&'static str> {
    SECRETS.into_iter().filter(|secret| text.contains(secret)).collect()
}

#[test]
fn the_life_of_a_run_is_told_with_its_ids() {
    let folder =
        agents::folder("[[task]]\nid = \"a\"\nshell = \"true\"\n[[task]]\nid = \"b\"\nshell = \"exit 3\"\n");
    let ended =
        with(folder.path(), &["run", "m.toml", "--quiet", "--log", "debug", "--log-format", "json"], &[]);
    assert_eq!(ended.code, Some(1));
    let lines = lines(&ended.stderr);
    let of = |message: &str| lines.iter().filter(|line| line["message"] == message).collect::<Vec<_>>();
    assert_eq!((of("launched").len(), of("fired").len(), of("taken").len()), (1, 1, 1), "{}", ended.stderr);
    assert_eq!((of("queued").len(), of("started").len(), of("ended").len()), (2, 2, 2));
    let launched = of("launched")[0];
    assert_eq!((&launched["jobs"], &launched["level"]), (&2.into(), &"info".into()));
    let failed = of("ended").into_iter().find(|line| line["status"] == "error").unwrap();
    assert_eq!((&failed["cause"], &failed["code"]), (&"failed".into(), &"exit_status".into()));
    for key in ["session", "group", "job"] {
        assert!(failed[key].is_string(), "{key}: {failed}");
    }
    assert!(failed["lifetime"].is_u64() && failed["group"] == launched["group"], "{failed}");
    let run = of("run ended").into_iter().find(|line| line["job"] == failed["job"]).unwrap();
    assert!(run["run"].is_u64(), "{run}");
    // At `info` a task that went well is not worth a line.
    let ended = with(folder.path(), &["run", "m.toml", "--quiet"], &[("FANIN_LOG", "info")]);
    assert_eq!(ended.stderr.matches(": ended ").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains(" info  fanin_supervisor::lines: launched "), "{}", ended.stderr);
}

#[test]
fn nothing_is_logged_unless_it_is_asked_for() {
    let folder = agents::folder("");
    let ended = with(folder.path(), &["run", "true", "--quiet"], &[]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn no_prompt_argument_variable_or_output_is_in_logs_events_or_standard_error() {
    for format in ["json", "text"] {
        let folder = agents::folder(MANIFEST);
        let variables = [("FANIN_LOG", "trace"), ("FANIN_LOG_FORMAT", format)];
        let ended = with(folder.path(), &["run", "m.toml"], &variables);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        // They were there to be told.
        assert!(
            ended.stdout.contains("Canary-Output-4 Canary-Argument-2 Canary-Variable-3 Canary-Key-5"),
            "{}",
            ended.stdout
        );
        assert!(
            ended.stderr.matches("launched").count() >= 1 && ended.stderr.contains("bound"),
            "{}",
            ended.stderr
        );
        assert_eq!(found(&ended.stderr), Vec::<&str>::new(), "{}", ended.stderr);
        if format == "json" {
            // What a runner tells has the ids of its run.
            let lines = lines(&ended.stderr);
            let of =
                |message: &str| lines.iter().filter(|line| line["message"] == message).collect::<Vec<_>>();
            let prompted = of("prompted")[0];
            let started = of("started").into_iter().find(|line| line["run"] == prompted["run"]).unwrap();
            assert_eq!((&started["job"], &started["lifetime"]), (&prompted["job"], &prompted["lifetime"]));
            assert_eq!((&prompted["session"], &prompted["bytes"]), (&"run".into(), &26.into()));
        }
        for words in [&["events"][..], &["events", "--json"]] {
            let events = with(folder.path(), words, &variables);
            assert!(events.stdout.contains("group.fired"), "{}", events.stderr);
            assert_eq!(found(&events.stdout), Vec::<&str>::new(), "{}", events.stdout);
            assert_eq!(found(&events.stderr), Vec::<&str>::new(), "{}", events.stderr);
        }
    }
}

#[test]
fn what_is_asked_and_put_out_is_told_once_it_is_switched_on_and_a_known_secret_never_is() {
    let folder = agents::folder(MANIFEST);
    let config = fs::read_to_string(folder.path().join("fanin.toml")).unwrap();
    fs::write(folder.path().join("fanin.toml"), format!("log_content = \"on\"\nlog = \"debug\"\n{config}"))
        .unwrap();
    let ended = with(folder.path(), &["run", "m.toml", "--log-format", "json"], &[]);
    let told = found(&ended.stderr);
    assert_eq!(
        told,
        ["Canary-Prompt-1", "Canary-Argument-2", "Canary-Variable-3", "Canary-Output-4", "Canary-Error-6"]
    );
    assert!(ended.stderr.contains("***"), "{}", ended.stderr);
    // Nobody named this task, so its line is its name; of that a secret is no part either.
    let ended = with(folder.path(), &["run", "echo Canary-Key-5", "--log", "trace"], &[]);
    assert!(ended.stderr.contains("echo ***"), "{}", ended.stderr);
    let events = with(folder.path(), &["events", "--json"], &[]);
    assert_eq!((found(&ended.stderr), found(&events.stdout)), (vec![], vec![]));
}
