//! The command of `--on-done`: once, with the result, and within bounds; whatever becomes of it, the result stays.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fanin_protocol::limits::{ON_DONE_GRACE, ON_DONE_TIME_STOPPED};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::common::{Ended, Running, fanin, made};

/// `fanin run` with a folder of its own for what is temporary.
fn command(folder: &TempDir, words: &[&str]) -> Command {
    let temporary = folder.path().join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    let mut command = fanin(folder.path(), &[&["run"], words].concat());
    command.env("TMPDIR", temporary);
    command
}

fn run(folder: &TempDir, words: &[&str]) -> Ended {
    let ended = Running::start(command(folder, words)).end();
    assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0, "something temporary was left");
    ended
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn it_has_the_result_on_its_input_and_in_its_variables() {
    let folder = tempdir().unwrap();
    let line = "echo x >> count; cat > in.json; env | grep '^FANIN_' | sort > env.txt";
    let ended = run(&folder, &["--json", "--on-done", line, "echo out", "exit 3"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(read(&folder.path().join("count")), "x\n");
    assert_eq!(read(&folder.path().join("in.json")), ended.stdout);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let variables = read(&folder.path().join("env.txt"));
    let group = format!("FANIN_GROUP={}", document["group"].as_str().unwrap());
    for line in [
        "FANIN_OUTCOME=partial",
        "FANIN_EXIT_CODE=1",
        "FANIN_LAUNCHED=2",
        "FANIN_COMPLETED=1",
        "FANIN_FAILED=1",
        "FANIN_CANCELLED=0",
        &group,
    ] {
        assert!(variables.lines().any(|set| set == line), "{line}: {variables}");
    }
    assert!(!variables.contains("FANIN_RESULT_FILE"), "{variables}");
}

#[test]
fn its_failure_is_told_and_costs_neither_result_nor_exit_code() {
    let folder = tempdir().unwrap();
    let ended = run(&folder, &["--quiet", "--on-done", "echo the reason; exit 7", "echo fine"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.ends_with("    fine\n"), "{}", ended.stdout);
    assert_eq!(ended.stderr, "fanin: warning: the command of --on-done: exit status 7\n    the reason\n");
    let ended = run(&folder, &["--quiet", "--json", "--on-done", "exit 7", "false"]);
    assert_eq!(ended.code, Some(1));
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let warning: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!((&document["exit"]["code"], &warning["code"]), (&1.into(), &"on_done".into()));
    // It is kept all the same.
    let again = run(&folder, &["--quiet", "--json", "--again", document["group"].as_str().unwrap()]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["again_of"], document["group"]);
}

#[test]
fn a_flood_of_words_reaches_nobody() {
    let folder = tempdir().unwrap();
    let flood = "head -c 20000000 /dev/zero | tr '\\0' x";
    let ended = run(&folder, &["--quiet", "--on-done", flood, "true"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let ended = run(&folder, &["--quiet", "--on-done", &format!("{flood}; false"), "true"]);
    assert!(ended.stderr.len() < 4_000 && ended.stderr.contains("exit status 1"), "{}", ended.stderr.len());
    // It need not read.
    let ended = run(&folder, &["--quiet", "--on-done", "exec <&-; true", "true"]);
    assert_eq!(ended.stderr, "");
}

#[test]
fn one_that_hangs_is_stopped_in_time_after_a_signal() {
    let folder = tempdir().unwrap();
    let hang = "touch hangs; trap '' TERM; while :; do sleep 0.05; done";
    let mut running = Running::start(command(&folder, &["--on-done", hang, "sleep 600"]));
    running.wait_for("start ");
    running.signal("HUP");
    made(&folder, "hangs");
    let begun = Instant::now();
    let ended = running.end();
    let bound = ON_DONE_TIME_STOPPED + ON_DONE_GRACE + Duration::from_secs(5);
    assert!(begun.elapsed() < bound, "{:?}", begun.elapsed());
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(ended.stderr.contains("the command of --on-done: timed out"), "{}", ended.stderr);
    assert!(ended.stdout.contains("cancelled (hang-up)"), "{}", ended.stdout);
}

#[test]
fn a_signal_ends_one_that_hangs_at_once() {
    let folder = tempdir().unwrap();
    let hang = "echo $$ > pid; touch hangs; trap '' TERM; while :; do sleep 0.05; done";
    let running = Running::start(command(&folder, &["--on-done", hang, "echo fine"]));
    made(&folder, "hangs");
    running.signal("TERM");
    let begun = Instant::now();
    let ended = running.end();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("a signal came before it was over"), "{}", ended.stderr);
    let pid = read(&folder.path().join("pid"));
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "it lives on");
}

#[test]
fn where_nothing_fired_it_is_not_run_and_an_empty_one_is_refused() {
    let folder = tempdir().unwrap();
    let document = run(&folder, &["--quiet", "--json", "true"]).stdout;
    let document: Value = serde_json::from_str(&document).unwrap();
    let id = document["group"].as_str().unwrap();
    assert_eq!(run(&folder, &["--quiet", "--on-done", "touch ran", "--again", id]).code, Some(0));
    assert!(!folder.path().join("ran").exists());
    let refused = run(&folder, &["--on-done", " ", "touch started"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.starts_with("error: --on-done: the command line is empty"), "{}", refused.stderr);
    assert!(!folder.path().join("started").exists());
}
