//! What manifests say, and what is said about bad ones.

use std::path::Path;

use expect_test::{Expect, expect};
use fanin_protocol::{AgentSpec, CommandSpec, Rights, Spec};

use super::*;

fn parsed(text: &str, flags: &Flags) -> Result<Plan, Refused> {
    parsed_in(Path::new("/base"), text, flags)
}

fn parsed_in(folder: &Path, text: &str, flags: &Flags) -> Result<Plan, Refused> {
    let mut problems = Problems::new("m.toml", text);
    let plan = parse(text, folder, (flags, &Config::default()), &mut problems);
    plan.filter(|_| problems.is_empty()).ok_or_else(|| problems.into())
}

/// Compares what is said about a bad manifest.
fn check(text: &str, expected: &Expect) {
    let refused = parsed(text, &Flags::default()).unwrap_err();
    expected.assert_eq(&format!("{}\n", refused.lines().join("\n")));
}

fn command(task: &Task) -> &CommandSpec {
    let Spec::Command(command) = &task.spec else { panic!("{task:?}") };
    command
}

const FULL: &str = r#"
description = "everything a manifest can say"
concurrency = 3
release = { ok = 1, not_ok = 2 }
deadline = "2h"
fail_on = "none_ok"
cwd = "work"
env = { A = "top", B = "top" }
limits = { total_timeout = "1h", start_timeout = "10s", idle = "10m", retries = 2 }

[[task]]
id = "first"
label = "the first"
command = ["printf", "%s", "x"]
cwd = "/elsewhere"
env = { B = "own" }
timeout = "500ms"
queue_timeout = "1m"
idle = "400ms"
output_bytes_max = 1000

[[task]]
shell = "true"
"#;

#[test]
fn every_key_is_understood() {
    let base = tempfile::tempdir().unwrap();
    std::fs::create_dir(base.path().join("work")).unwrap();
    let plan = parsed_in(base.path(), FULL, &Flags::default()).unwrap();
    assert_eq!(plan.description.as_deref(), Some("everything a manifest can say"));
    assert_eq!((plan.concurrency, plan.fail_on), (3, Some(FailOn::NoneOk)));
    assert_eq!(plan.policy, Policy { ok: Some(1), not_ok: Some(2), at_ms: Some(7_200_000), ..Policy::ALL });
    let [first, second] = plan.tasks.as_slice() else { panic!("{plan:?}") };
    assert_eq!((first.label.as_str(), second.label.as_str()), ("the first", "task_2"));
    let (own, common) = (first.limits, second.limits);
    assert_eq!((own.run_ms, own.queue_ms, own.idle_ms), (Some(500), Some(60_000), Some(400)));
    assert_eq!((own.start_ms, own.total_ms, own.retries), (Some(500), Some(3_600_000), Some(2)));
    assert_eq!((common.run_ms, common.idle_ms, common.start_ms), (None, Some(600_000), Some(10_000)));
    let (first, second) = (command(first), command(second));
    assert_eq!(first.line, CommandLine::Argv(vec!["printf".into(), "%s".into(), "x".into()]));
    assert_eq!(first.output_bytes_max, Some(1000));
    assert_eq!(first.env, [("A", "top"), ("B", "own")].map(|(k, v)| (k.into(), v.into())).into());
    assert_eq!(first.cwd.as_deref(), Some(Path::new("/elsewhere")));
    assert_eq!(second.line, CommandLine::Shell("true".into()));
    assert_eq!(second.cwd, Some(base.path().join("work")));
}

#[test]
fn a_folder_for_all_tasks_that_is_none_is_refused_and_one_that_a_flag_stands_in_for_is_not() {
    let text = "cwd = 'no/such'\n[[task]]\nshell = 'true'\ncwd = 'nor/this'\n";
    check(
        text,
        &expect![[r#"
        m.toml:1:7: cwd: /base/no/such is no folder
    "#]],
    );
    let flags = Flags { cwd: Some("/".into()), ..Flags::default() };
    assert!(parsed(text, &flags).is_ok());
}

#[test]
fn both_spellings_of_none_ok_are_understood() {
    for word in ["none_ok", "none-ok"] {
        let plan = parsed(&format!("fail_on = '{word}'\n[[task]]\nshell = 'true'"), &Flags::default());
        assert_eq!(plan.unwrap().fail_on, Some(FailOn::NoneOk));
    }
}

#[test]
fn one_mistake_is_told_once() {
    check(
        "release = { ok = 1 }\n[task]\nshell = 'true'",
        &expect![[r#"
        m.toml:2:1: task: must be an array of tables; write [[task]] with two brackets, not a table
    "#]],
    );
    check(
        "env = { 'A=B' = 'x' }\n[[task]]\nshell = 'true'\n[[task]]\nshell = 'true'",
        &expect![[r#"
        m.toml:1:17: env.A=B: a name is empty or holds `=`, or a NUL byte is in it or its value
    "#]],
    );
}

#[test]
fn the_nearest_key_is_the_way_out() {
    let refused = parsed("[[task]]\nshel = 'x'\ncomand = 'y'", &Flags::default()).unwrap_err();
    assert_eq!(refused.hint.as_deref(), Some("write `command` instead of `comand`"));
}

#[test]
fn flags_win_over_the_manifest_and_a_task_keeps_its_own_folder() {
    let flags = Flags {
        timeout: Some(Duration::from_secs(9)),
        cwd: Some("/flag".into()),
        env: vec![("B".into(), "flag".into())],
        ..Flags::default()
    };
    let plan = parsed(FULL, &flags).unwrap();
    let tasks: Vec<_> = plan.tasks.iter().map(|task| (command(task), task.limits.run_ms)).collect();
    assert!(tasks.iter().all(|(command, ms)| *ms == Some(9_000) && command.env["B"] == "flag"));
    let folders: Vec<_> = tasks.iter().map(|(command, _)| command.cwd.as_deref().unwrap()).collect();
    assert_eq!(folders, [Path::new("/elsewhere"), Path::new("/flag")]);
}

#[test]
fn without_a_folder_a_task_runs_where_fanin_was_started() {
    let plan = parsed("[[task]]\nshell = 'true'", &Flags::default()).unwrap();
    assert_eq!(command(&plan.tasks[0]).cwd, None);
}

#[test]
fn unknown_keys_are_told_together_with_the_nearest_valid_one() {
    check(
        r#"
concurency = 2
timeout = "5s"
wholly_unknown = 1
release = { okay = 1, never = 2 }

[[task]]
id = "a"
comand = ["x"]
shell = "true"
deadline = "5s"

[[task]]
cmd = "true"
"#,
        &expect![[r#"
            m.toml:2:1: concurency: unknown key; did you mean `concurrency`?
            m.toml:3:1: timeout: unknown key; it belongs into a [[task]]
            m.toml:4:1: wholly_unknown: unknown key; the keys here are description, concurrency, release, deadline, fail_on, cwd, env, limits, budget, task
            m.toml:5:13: release.okay: unknown key; the keys here are ok, not_ok
            m.toml:5:23: release.never: unknown key; the keys here are ok, not_ok
            m.toml:9:1: comand: unknown key; did you mean `command`?
            m.toml:11:1: deadline: unknown key; it belongs to the top, before the first [[task]]
            m.toml:13:1: task_2: none of `command`, `shell` and `agent`; add one, like shell = "cargo check"
            m.toml:14:1: cmd: unknown key; did you mean `command`?
        "#]],
    );
}

#[test]
fn a_prompt_is_for_an_agent_that_is_there() {
    let text =
        "cwd = '/'\n[env]\nA = '1'\n[[task]]\nagent = 'codex'\nprompt = 'go'\nrights = 'edit'\nretries = 1\n";
    let plan = parsed(text, &Flags::default()).unwrap();
    let mut spec = AgentSpec::new("codex", "go").cwd("/").rights(Rights::Edit);
    spec.env.insert("A".to_owned(), "1".to_owned());
    assert_eq!(plan.tasks[0].spec, Spec::Agent(spec));
    check(
        r#"
[[task]]
agent = "opencod"
prompt = "x"
[[task]]
agent = "codex"
prompt = " "
[[task]]
agent = "codex"
prompt = "x"
rights = "root"
[[task]]
shell = "true"
rights = "full"
[[task]]
shell = "true"
agent = "codex"
prompt = "x"
"#,
        &expect![[r#"
            m.toml:3:9: agent: there is no agent `opencod`; there are claude, codex, opencode
            m.toml:7:10: prompt: the prompt is empty; write what the agent shall do
            m.toml:11:10: rights: use "read-only", "edit" or "full"
            m.toml:14:10: rights: it is for a task with an `agent`
            m.toml:17:9: agent: `shell` is there as well; keep one of the two
        "#]],
    );
}

#[test]
fn keys_of_what_is_not_built_are_unknown() {
    check(
        r#"
[limits]
[[task]]
shell = "true"
stdin = "x"
idle = "1s"
retries = 1
resume = "fail"
"#,
        &expect![[r#"
            m.toml:5:1: stdin: unknown key; the keys here are id, label, command, shell, agent, prompt, rights, cwd, env, timeout, idle, queue_timeout, start_timeout, total_timeout, retries, resume, output_bytes_max, depends, on_failed_dependency, sends, budget
        "#]],
    );
}

#[test]
fn values_of_a_wrong_type_or_size_are_told_with_their_place() {
    check(
        r#"
description = 1
concurrency = 0
release = "some"
deadline = 5
fail_on = "any"
cwd = ""
env = { A = 1, "B=C" = "x" }

[[task]]
command = "cargo check"
label = ""
timeout = "0s"
queue_timeout = "1m30s"
output_bytes_max = -1

[[task]]
shell = ["x"]
timeout = "forever"
output_bytes_max = 99999999999999999999

[[task]]
command = ["x", 1]
env = "A=1"
"#,
        &expect![[r#"
            m.toml:2:15: description: must be a string, not an integer
            m.toml:3:15: concurrency: must be a whole number from 1 to 1000000, not 0
            m.toml:4:11: release: `some` is not one of "all", "fail_fast", "any", or counts like { ok = 3 } or { not_ok = 2 }
            m.toml:5:12: deadline: must be a string like "30s" (units: ms, s, m, h), not an integer
            m.toml:6:11: fail_on: `any` is not "partial" or "none_ok"
            m.toml:7:7: cwd: must be the path of a folder
            m.toml:8:13: env.A: must be a string, not an integer
            m.toml:8:24: env.B=C: a name is empty or holds `=`, or a NUL byte is in it or its value
            m.toml:11:11: command: must be an array of strings, like ["cargo", "check"], not a string
            m.toml:12:9: label: must have 1 to 200 bytes; this has 0
            m.toml:13:11: timeout: `0s` would end it before it began; leave it out for no limit
            m.toml:14:17: queue_timeout: `1m30s` is no duration; write a whole number and one unit: 500ms, 30s, 5m or 2h
            m.toml:15:20: output_bytes_max: must be a whole number from 1 to 67108864, not -1
            m.toml:18:9: shell: must be a string, not an array
            m.toml:19:11: timeout: `forever` is no duration; write a whole number and one unit: 500ms, 30s, 5m or 2h
            m.toml:20:20: output_bytes_max: must be a whole number from 1 to 67108864, not 99999999999999999999
            m.toml:23:17: command: must be a string, not an integer
            m.toml:24:7: env: must be a table of strings, not a string
        "#]],
    );
}

#[test]
fn ids_are_valid_and_taken_once() {
    check(
        r#"
[[task]]
id = "a"
shell = "true"
[[task]]
id = "a"
shell = "true"
[[task]]
id = ""
shell = "true"
[[task]]
id = "a b"
shell = "true"
[[task]]
id = "task_6"
shell = "true"
[[task]]
shell = "true"
[[task]]
id = "task_7"
shell = "true"
"#,
        &expect![[r#"
            m.toml:6:6: id: task 1 has the id `a` already; choose another
            m.toml:9:6: id: the id is empty; use 1 to 64 characters of A-Z a-z 0-9 _ -
            m.toml:12:6: id: the id `a b` holds ' '; use only A-Z a-z 0-9 _ -
            m.toml:15:6: id: `task_6` is what task 6 is called, which has no id; choose another
        "#]],
    );
}

#[test]
fn a_task_says_exactly_once_what_is_run() {
    check(
        r#"
[[task]]
shell = "true"
command = ["true"]
[[task]]
id = "nothing"
[[task]]
shell = " "
[[task]]
command = []
[[task]]
command = ["a\u0000b"]
"#,
        &expect![[r#"
            m.toml:3:9: shell: `command` is there as well; keep one of the two
            m.toml:5:1: task_2: none of `command`, `shell` and `agent`; add one, like shell = "cargo check"
            m.toml:8:9: shell: the command line is empty
            m.toml:10:11: command: the program is missing
            m.toml:12:11: command: a NUL byte cannot be part of a command line
        "#]],
    );
}

#[test]
fn what_no_program_can_be_given_is_told_once_under_the_key_that_was_written() {
    check(
        r#"env = { "A=B" = "x", C = "\u0000" }
[[task]]
shell = "a\u0000b"
[[task]]
shell = "true"
env = { "" = "x" }
[[task]]
command = ["true"]
"#,
        &expect![[r#"
            m.toml:1:17: env.A=B: a name is empty or holds `=`, or a NUL byte is in it or its value
            m.toml:1:26: env.C: a name is empty or holds `=`, or a NUL byte is in it or its value
            m.toml:3:9: shell: a NUL byte cannot be part of a command line
            m.toml:6:14: env.: a name is empty or holds `=`, or a NUL byte is in it or its value
        "#]],
    );
}

#[test]
fn a_manifest_has_tasks() {
    check(
        "",
        &expect![[r#"
            m.toml:1:1: task: the manifest has no task; add a [[task]] with a `shell`, a `command` or an `agent`
        "#]],
    );
    check(
        "task = []",
        &expect![[r#"
            m.toml:1:1: task: the manifest has no task; add a [[task]] with a `shell`, a `command` or an `agent`
        "#]],
    );
    check(
        "[task]\nshell = 'true'",
        &expect![[r#"
        m.toml:1:1: task: must be an array of tables; write [[task]] with two brackets, not a table
    "#]],
    );
}

#[test]
fn counts_that_can_never_come_true_are_refused() {
    check(
        "release = { ok = 2 }\n[[task]]\nshell = 'true'",
        &expect![[r#"
            m.toml:1:18: release.ok: 2 can never be reached by 1 task
        "#]],
    );
    check(
        "release = {}\n[[task]]\nshell = 'true'",
        &expect![[r#"
        m.toml:1:11: release: is empty; write "all", "fail_fast", "any", or counts like { ok = 3 } or { not_ok = 2 }
    "#]],
    );
    check(
        "release = { not_ok = 0 }\n[[task]]\nshell = 'true'",
        &expect![[r#"
        m.toml:1:22: release.not_ok: must be a whole number from 1 to 1000000, not 0
    "#]],
    );
}

#[test]
fn a_limit_that_can_never_pass_is_refused() {
    check(
        "deadline = '5s'\n[[task]]\nshell = 'true'\ntimeout = '1m'",
        &expect![[r#"
        m.toml:4:11: timeout: can never pass, since `deadline` (5000 ms) comes first; lower it, or raise `deadline`
    "#]],
    );
}

#[test]
fn broken_syntax_is_told_with_its_place() {
    check(
        "[[task]]\nshell = \"true\nid = 'a'\n",
        &expect![[r#"
        m.toml:2:14: syntax: invalid basic string, expected `"`
    "#]],
    );
    check(
        "concurrency = 1\nconcurrency = 2\n",
        &expect![[r#"
        m.toml:2:1: syntax: duplicate key
    "#]],
    );
}

#[test]
fn no_more_problems_are_shown_than_a_screen_takes() {
    let text = "[[task]]\n".repeat(80);
    let lines = parsed(&text, &Flags::default()).unwrap_err().problems;
    assert_eq!((lines.len(), lines.last().unwrap().as_str()), (51, "m.toml: and 30 problems more"));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_fail(text in "[\\[\\]a-z_=\"'{}0-9\n .,é]{0,200}") {
        let _ = parsed(&text, &Flags::default());
    }
}

#[test]
fn the_examples_of_this_repository_are_sound() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for file in examples.read_dir().unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "toml") {
            let plan = read(&file, &Flags::default(), &Config::default()).unwrap();
            assert!(plan.tasks.len() > 1 && plan.description.is_some(), "{}", file.display());
            count += 1;
        }
    }
    assert!(count >= 2);
}

#[test]
fn the_page_of_the_manifest_has_a_row_for_each_key_and_no_other() {
    let page = include_str!("../../../../docs/manifest.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let keys: Vec<&str> = rows.map(|(key, _)| key.trim_matches(['[', ']'])).collect();
    assert_eq!(keys, [&TOP_KEYS[..], &TASK_KEYS].concat());
}

#[test]
fn limits_that_contradict_are_refused_with_both_names() {
    check(
        "[limits]\nidle = '2m'\ntotal_timeout = '1m'\n[[task]]\nshell = 'true'",
        &expect![[r#"
        m.toml:2:8: idle: 2m00s can never pass, since `total_timeout` (1m00s) comes first; lower it, or raise `total_timeout`
    "#]],
    );
    check(
        "[limits]\ntotal_timeout = '1m'\n[[task]]\nshell = 'true'\ntimeout = '2m'\n[[task]]\nshell = 'true'\nidle = '9s'\ntimeout = '8s'",
        &expect![[r#"
            m.toml:5:11: timeout: 2m00s can never pass, since `total_timeout` (1m00s) comes first; lower it, or raise `total_timeout`
            m.toml:8:8: idle: 9.0s can never pass, since `timeout` (8.0s) comes first; lower it, or raise `timeout`
        "#]],
    );
    check(
        "limits = { grace = '1s', shell = 'x', retries = 51, timeout = '0s' }\n[[task]]\nshell = 'true'",
        &expect![[r#"
            m.toml:1:12: limits.grace: unknown key; the keys here are timeout, idle, queue_timeout, start_timeout, total_timeout, retries, resume
            m.toml:1:26: limits.shell: unknown key; it belongs into a [[task]]
            m.toml:1:49: limits.retries: must be a whole number from 0 to 50, not 51
            m.toml:1:63: limits.timeout: `0s` would end it before it began; leave it out for no limit
        "#]],
    );
}

#[test]
fn a_common_limit_is_lowered_to_fit_a_tasks_own_and_a_flags() {
    let text = "[limits]\nidle = '5m'\ntimeout = '10m'\n[[task]]\nshell = 'true'\ntimeout = '1m'";
    let plan = parsed(text, &Flags::default()).unwrap();
    assert_eq!((plan.tasks[0].limits.idle_ms, plan.tasks[0].limits.run_ms), (Some(60_000), Some(60_000)));
    let flags = Flags { timeout: Some(Duration::from_secs(2)), ..Flags::default() };
    let plan = parsed(text, &flags).unwrap();
    assert_eq!((plan.tasks[0].limits.idle_ms, plan.tasks[0].limits.run_ms), (Some(2_000), Some(2_000)));
}

#[test]
fn a_policy_that_no_runner_can_keep_is_refused_by_its_name() {
    check(
        "[[task]]\nshell = 'true'\nresume = 'reattach'\n[[task]]\nshell = 'true'\nresume = 'later'\n",
        &expect![[r#"
            m.toml:3:10: resume: `reattach` is for runners that find the session of an earlier run again, and there is none; use "fail" or "rerun"
            m.toml:6:10: resume: use "fail" or "rerun"
        "#]],
    );
}

#[test]
fn every_example_is_a_manifest() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let manifests: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "toml")).collect();
    for file in &manifests {
        let text = std::fs::read_to_string(file).unwrap();
        let plan = parsed_in(folder, &text, &Flags::default());
        let plan = plan.unwrap_or_else(|refused| panic!("{}: {:?}", file.display(), refused.lines()));
        assert!(plan.description.is_some() && plan.tasks.len() > 1, "{}", file.display());
    }
    assert!(manifests.len() >= 6, "{manifests:?}");
}
