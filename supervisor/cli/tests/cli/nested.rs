//! A run inside a job of another run: it knows whose child it is, goes when it goes, and speaks to nobody but it.

use std::fs;
use std::path::Path;

use fanin_protocol::limits::DEPTH_MAX;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::common::{Ended, Running, fanin, made, run};

/// The program, for a shell line.
const FANIN: &str = env!("CARGO_BIN_EXE_fanin");

/// Runs it as the child that this mark names.
fn inside(folder: &TempDir, mark: &str, words: &[&str]) -> Ended {
    let mut command = fanin(folder.path(), &[&["run"], words].concat());
    command.env("FANIN_PARENT", mark).env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", "summary.md");
    Running::start(command).end()
}

#[test]
fn its_document_names_the_job_it_is_in() {
    let folder = tempdir().unwrap();
    let inner = format!("{FANIN} run --quiet --json 'echo \"$FANIN_PARENT\"'");
    let ended = run(folder.path(), &["--json", &inner]);
    let outer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(outer["parent"], Value::Null);
    let entry = &outer["entries"][0];
    let inner: Value = serde_json::from_str(entry["output"]["text"].as_str().unwrap()).unwrap();
    assert_eq!(inner["parent"]["job"], entry["job"]);
    assert_eq!(inner["parent"]["lifetime"], entry["lifetime"]);
    assert_eq!(inner["parent"]["session"], outer["session"]);
    assert_eq!(inner["parent"]["depth"], 1);
    let mark = inner["entries"][0]["output"]["text"].as_str().unwrap();
    assert!(mark.contains(inner["entries"][0]["job"].as_str().unwrap()) && mark.ends_with("/2\n"), "{mark}");
}

#[test]
fn it_is_refused_by_name_beyond_the_depth_that_is_allowed() {
    let folder = tempdir().unwrap();
    let last = inside(&folder, &format!("run/job/1/{}", DEPTH_MAX - 1), &["echo \"$FANIN_PARENT\""]);
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    assert!(last.stdout.contains(&format!("/{DEPTH_MAX}\n")), "{}", last.stdout);
    for depth in [DEPTH_MAX, u32::MAX] {
        let refused = inside(&folder, &format!("run/job/1/{depth}"), &["touch started"]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("deeper than 8, which is the limit"), "{}", refused.stderr);
    }
    assert!(!folder.path().join("started").exists());
}

#[cfg(target_os = "linux")]
/// What takes every mark out of the environment of a `fanin` inside of a job.
pub(crate) const SCRUBBED: &str = "env -i PATH=\"$PATH\" FANIN_STATE_DIR=\"$FANIN_STATE_DIR\"";

// B79, SC-8: what started a process says whose child it is, whatever it says itself.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_has_dropped_its_mark_is_nested_all_the_same() {
    for forged in ["", "FANIN_PARENT=run/other/1/1", "FANIN_PARENT="] {
        let folder = tempdir().unwrap();
        let inner = format!("{SCRUBBED} {forged} {FANIN} run --quiet --json 'echo \"$FANIN_PARENT\"'");
        // In a session of its own, and its parent soon gone: it has only the shim above it then.
        fs::write(folder.path().join("inner.sh"), format!("{inner} > new; mv new inner.json")).unwrap();
        let orphaned =
            "(setsid sh inner.sh &); while [ ! -e inner.json ]; do sleep 0.05; done; cat inner.json";
        let ended = run(folder.path(), &["--json", &inner, orphaned]);
        let outer: Value = serde_json::from_str(&ended.stdout).unwrap();
        for entry in outer["entries"].as_array().unwrap() {
            let text = entry["output"]["text"].as_str().unwrap_or_else(|| panic!("{forged}: {entry}"));
            let inner: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{forged}: {entry}"));
            assert_eq!(inner["parent"]["job"], entry["job"], "{forged}");
            assert_eq!(inner["parent"]["session"], outer["session"], "{forged}");
            assert_eq!(inner["parent"]["depth"], 1, "{forged}");
            let mark = inner["entries"][0]["output"]["text"].as_str().unwrap();
            assert!(mark.ends_with("/2\n"), "{forged}: {mark}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_mark_that_is_made_up_gets_a_run_beyond_the_depth_that_is_allowed() {
    let folder = tempdir().unwrap();
    for forged in ["", "FANIN_PARENT=run/job/1/1", "FANIN_PARENT="] {
        let inner = format!("{SCRUBBED} {forged} {FANIN} run 'touch started' 2>&1");
        let ended = inside(&folder, &format!("run/job/1/{}", DEPTH_MAX - 1), &["--json", &inner]);
        let outer: Value = serde_json::from_str(&ended.stdout).unwrap();
        let entry = &outer["entries"][0];
        assert_eq!(entry["exit_code"], 2, "{forged}: {entry}");
        let said = entry["output"]["text"].as_str().unwrap();
        assert!(said.contains("at depth 8, and its tasks would be deeper than 8"), "{forged}: {said}");
    }
    assert!(!folder.path().join("started").exists());
}

// SEC-3, SEC-6: what proves to be part of a run is in the environment of its task, and nowhere else.
#[cfg(target_os = "linux")]
#[test]
fn the_token_of_a_run_is_written_nowhere() {
    let folder = tempdir().unwrap();
    let line = "echo \"$FANIN_TOKEN\" > token; cat /proc/[0-9]*/cmdline > lines; exit 3";
    let ended = run(folder.path(), &["--json", "--junit", "junit.xml", line]);
    let token = fs::read_to_string(folder.path().join("token")).unwrap();
    let (job, secret) = token.trim().split_once('/').unwrap();
    let outer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((job, secret.len()), (outer["entries"][0]["job"].as_str().unwrap(), 64));
    fs::remove_file(folder.path().join("token")).unwrap();
    let group = outer["group"].as_str().unwrap();
    for words in [&["events", "--json", group][..], &["show", "--json", group], &["ps", "--json", "--all"]] {
        let shown = Running::start(fanin(folder.path(), words)).end();
        assert!(!shown.stdout.contains(secret) && !shown.stderr.contains(secret), "{words:?}");
    }
    assert!(!ended.stdout.contains(secret) && !ended.stderr.contains(secret));
    let mut folders = vec![folder.path().to_owned()];
    let mut files = 0;
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let has = fs::read(&path).unwrap().windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!has, "{} has the token", path.display());
        }
    }
    assert!(files > 3, "the command lines, the report, and a store with its files");
}

#[test]
fn the_limit_of_a_mark_is_that_of_its_tasks() {
    let folder = tempdir().unwrap();
    let last = inside(&folder, "run/job/1/1/2", &["echo \"$FANIN_PARENT\""]);
    assert!(last.stdout.contains("/2/2\n"), "{}{}", last.stdout, last.stderr);
    let refused = inside(&folder, "run/job/1/2/2", &["touch started"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("deeper than 2, which is the limit"), "{}", refused.stderr);
    assert!(!folder.path().join("started").exists());
}

#[test]
fn a_mark_that_is_none_is_refused_by_name_and_an_empty_one_is_none() {
    let folder = tempdir().unwrap();
    for mark in ["1", "run/job/1/0", "run/job/1/2/8", "run/../1/2", &"x".repeat(100_000)] {
        let refused = inside(&folder, mark, &["touch started"]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.starts_with("error: FANIN_PARENT is "), "{}", refused.stderr);
        assert!(refused.stderr.contains("unset it") && refused.stderr.len() < 1_000);
    }
    assert!(!folder.path().join("started").exists());
    assert_eq!(inside(&folder, "", &["true"]).code, Some(0));
}

#[test]
fn it_says_nothing_to_github() {
    let folder = tempdir().unwrap();
    let ended = inside(&folder, "run/job/1/1", &["echo x; false"]);
    assert_eq!(ended.code, Some(1));
    assert!(!ended.stdout.contains("::") && !ended.stderr.contains("::"), "{}", ended.stdout);
    assert!(!folder.path().join("summary.md").exists());
    // Without the mark it would.
    assert!(inside(&folder, "", &["echo x; false"]).stdout.contains("::group::"));
}

/// Stops the outer of two runs by two signals, with this task in the inner one, once the task has made `up`.
fn stopped(task: &str) -> (TempDir, Ended) {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("task.sh"), task).unwrap();
    // In the place of its shell: that would be gone with the first signal, and the inner run's own end unseen.
    let inner =
        format!("exec {FANIN} run --quiet --json --on-done 'touch done' 'exec sh task.sh' > inner.json");
    let mut running = Running::start(fanin(folder.path(), &["run", &inner]));
    made(&folder, "up");
    running.signal("INT");
    running.wait_for("draining");
    running.signal("INT");
    running.wait_for("stopping all tasks");
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    (folder, ended)
}

#[test]
fn stopping_the_outer_run_lets_the_inner_one_stop_its_tasks_in_order() {
    let (folder, ended) = stopped("trap 'touch cleaned; exit' TERM; touch up; while :; do sleep 0.01; done");
    assert!(folder.path().join("cleaned").exists(), "{}", ended.stdout);
    assert!(!folder.path().join("done").exists(), "there was no time for it");
    let inner: Value = serde_json::from_slice(&fs::read(folder.path().join("inner.json")).unwrap()).unwrap();
    assert_eq!(inner["exit"]["code"], 143, "{inner}");
    assert_eq!(inner["entries"][0]["status"], "cancelled", "{inner}");
}

#[test]
fn a_task_of_the_inner_run_that_does_not_listen_is_gone_with_the_outer_one() {
    let (folder, ended) = stopped("trap '' TERM; echo $$ > pid; touch up; while :; do sleep 0.05; done");
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    // What is dead and waits to be reaped by somebody else is not alive.
    let is_alive = stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'));
    assert!(!is_alive, "{}", ended.stdout);
}
