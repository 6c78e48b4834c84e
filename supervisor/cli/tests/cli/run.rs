//! What `fanin run` does with shell lines: results, order, exit codes, and where each of them is said.

use std::fs;
use std::io::{self, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Running, fanin, full, run, run_with_input, wait};
use tempfile::tempdir;

#[test]
fn results_come_in_launch_order_whoever_ends_first() {
    let folder = tempdir().unwrap();
    // The first cannot end before the second has.
    let first = "until [ -e second ]; do sleep 0.01; done; echo answer one";
    let ended = run(folder.path(), &[first, "echo answer two; touch second"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let places = ["2 tasks: 2 completed", "answer one", "answer two"].map(|text| ended.stdout.find(text));
    assert!(places.is_sorted() && places[0].is_some(), "{}", ended.stdout);
    assert!(!ended.stderr.contains("fanin: exit"), "{}", ended.stderr);
}

#[test]
fn one_failure_is_told_last_and_stops_no_other() {
    let folder = tempdir().unwrap();
    let ended =
        run(folder.path(), &["--task", "bad=echo the reason >&2; exit 3", "--task", "good=echo fine"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.last_word(), "fanin: exit 1 (some_not_completed)");
    assert!(ended.stdout.contains("2 tasks: 1 completed, 1 failed"), "{}", ended.stdout);
    assert!(ended.stdout.find("fine") < ended.stdout.find("the reason"), "{}", ended.stdout);
    assert!(ended.stdout.ends_with("    the reason\n"), "{}", ended.stdout);
}

#[test]
fn a_run_in_which_one_completed_can_be_called_good() {
    let folder = tempdir().unwrap();
    let code = |lines: &[&str]| run(folder.path(), &[&["--fail-on", "none-ok"], lines].concat()).code;
    assert_eq!(code(&["false", "true"]), Some(0));
    assert_eq!(code(&["false", "false"]), Some(1));
}

#[test]
fn fail_fast_stops_the_rest_and_starts_nothing_more() {
    let folder = tempdir().unwrap();
    let started = Instant::now();
    let ended = run(folder.path(), &["--fail-fast", "-c", "2", "exit 9", "sleep 600", "touch never"]);
    assert_eq!(ended.code, Some(1));
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(ended.stdout.contains("1 failed, 2 cancelled"), "{}", ended.stdout);
    assert!(ended.stdout.contains("stopped with the rest of the group"), "{}", ended.stdout);
    assert!(!folder.path().join("never").exists());
}

#[test]
fn a_task_beyond_its_limit_is_stopped_and_the_others_are_kept() {
    let folder = tempdir().unwrap();
    let ended = run(folder.path(), &["--timeout", "300ms", "echo half; sleep 600", "echo whole"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("timed out: `timeout` of 300ms passed"), "{}", ended.stdout);
    assert!(ended.stdout.contains("    whole\n") && ended.stdout.ends_with("    half\n"), "{}", ended.stdout);
}

#[test]
fn a_task_that_was_killed_from_outside_says_so_and_the_others_are_kept() {
    // B16: what the out-of-memory killer does.
    let folder = tempdir().unwrap();
    let ended = run(folder.path(), &["echo half; kill -KILL $$", "echo whole"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("killed by signal 9"), "{}", ended.stdout);
    assert!(ended.stdout.contains("    whole\n") && ended.stdout.ends_with("    half\n"), "{}", ended.stdout);
}

#[test]
fn concurrency_is_a_bound_that_is_used_to_the_full() {
    let folder = tempdir().unwrap();
    // Each fails if another runs beside it.
    let alone = "mkdir busy && sleep 0.05 && rmdir busy";
    assert_eq!(run(folder.path(), &["--concurrency", "1", alone, alone, alone]).code, Some(0));
    // Each waits until all three run.
    let meet =
        |name: &str| format!("touch {name}; until [ -e a ] && [ -e b ] && [ -e c ]; do sleep 0.01; done");
    let (a, b, c) = (meet("a"), meet("b"), meet("c"));
    assert_eq!(run(folder.path(), &["--concurrency", "3", &a, &b, &c]).code, Some(0));
}

#[test]
fn folder_variables_and_a_closed_input_are_what_tasks_get() {
    let folder = tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let words = ["--cwd", "sub", "--env", "A=one", "--env", "B=x=y", "pwd; echo $A $B", "cat; echo no input"];
    let ended = run(folder.path(), &words);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    for text in ["/sub\n", "    one x=y\n", "    no input\n"] {
        assert!(ended.stdout.contains(text), "{text}: {}", ended.stdout);
    }
}

#[test]
fn without_a_terminal_progress_is_plain_lines_on_standard_error() {
    let folder = tempdir().unwrap();
    let ended = run(folder.path(), &["--task", "a=true", "--task", "b=false"]);
    for line in ["start a", "start b", "ok    a in ", "FAIL  b: exit status 1 in "] {
        assert_eq!(ended.stderr.matches(line).count(), 1, "{line}: {}", ended.stderr);
    }
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains('\x1b'));
    assert!(!ended.stdout.contains("start"), "{}", ended.stdout);
}

#[test]
fn people_see_every_task_of_a_large_run_and_a_document_keeps_its_bound() {
    let folder = tempdir().unwrap();
    let names: String = (1..=1_002).map(|n| format!("n{n}\n")).collect();
    let template = "echo out-{}; test {} != n7";
    let ended = run_with_input(folder.path(), &["--quiet", "--each", template], &names);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let header = ended.stdout.lines().next().unwrap();
    assert!(header.starts_with("1002 tasks: 1001 completed, 1 failed, in "), "{header}");
    let list = ended.stdout.lines().skip(1).filter(|line| line.starts_with(['\u{2713}', '\u{2717}']));
    let labels: Vec<_> = list.map(|line| line.split(' ').nth(1).unwrap()).take(1_002).collect();
    assert_eq!(labels, names.lines().collect::<Vec<_>>());
    for n in [1, 1_002] {
        assert_eq!(ended.stdout.matches(&format!("    out-n{n}\n")).count(), 1);
    }
    let end = format!("\n\u{2717} n7: exit status 1\n    out-n7\n\n{header}\n");
    assert!(ended.stdout.ends_with(&end), "{}", ended.stdout);

    let ended = run_with_input(folder.path(), &["--quiet", "--json", "--each", template], &names);
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["entries_omitted"], 1_001);
    assert_eq!(document["entries"][0]["label"], "n7");
}

#[test]
fn quiet_leaves_the_result_and_the_exit_code() {
    let folder = tempdir().unwrap();
    let ended = run(folder.path(), &["--quiet", "echo yes"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("    yes\n"), "{}", ended.stdout);
    let ended = run(folder.path(), &["--quiet", "echo no; false"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 2), "{}", ended.stderr);
    assert_eq!(ended.last_word(), "fanin: exit 1 (some_not_completed)");
    assert_eq!(ended.again()[..2], ["run", "--again"]);
    assert!(ended.stdout.ends_with("    no\n"), "{}", ended.stdout);
}

#[test]
fn a_reader_that_went_away_changes_no_exit_code() {
    let folder = tempdir().unwrap();
    for (line, code) in [("echo x", 0), ("false", 1)] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = fanin(folder.path(), &["run", "--quiet", line]);
        let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
        assert_eq!(wait(&mut child).code(), Some(code), "{line}");
    }
}

#[test]
fn a_reader_of_standard_error_that_stopped_holds_up_neither_the_result_nor_the_end() {
    let folder = tempdir().unwrap();
    for words in [&["run", "--quiet", "echo x; exit 3"][..], &["run", "echo x; exit 3"]] {
        let (_reader, writer) = full();
        let (mut stdout, out) = io::pipe().unwrap();
        let mut child = fanin(folder.path(), words).stdout(out).stderr(writer).spawn().unwrap();
        assert_eq!(wait(&mut child).code(), Some(1), "{words:?}");
        let mut result = String::new();
        stdout.read_to_string(&mut result).unwrap();
        assert!(result.ends_with("    x\n"), "{result}");
    }
}

#[test]
fn closed_standard_outputs_are_no_reason_to_panic() {
    let folder = tempdir().unwrap();
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut command = fanin(folder.path(), &["run", "echo x", "false"]);
    let mut child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    assert_eq!(wait(&mut child).code(), Some(1));
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_that_cannot_be_written_is_our_failure() {
    let folder = tempdir().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = fanin(folder.path(), &["run", "--quiet", "true"]).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(70), "{stderr}");
    assert!(stderr.contains("the result could not be written"), "{stderr}");
    assert!(stderr.ends_with("fanin: exit 70 (internal)\n"), "{stderr}");
}

#[test]
fn a_wrong_command_line_is_2_and_starts_nothing() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("input.toml"), "[[task]]\nshell = 'touch started'\n").unwrap();
    for words in [
        &["--concurrency", "0", "touch started"][..],
        &["--timeout", "1m30s", "touch started"],
        &["--cwd", "no/such", "touch started"],
        &["touch started", "--task", "a b=touch started"],
        &["touch started", ""],
        &["--no-such-flag", "touch started"],
        &["input.toml", "touch started"],
        &[],
    ] {
        let ended = run(folder.path(), words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.last_word(), "fanin: exit 2 (usage)");
        assert_eq!(ended.stdout, "");
        assert!(ended.stderr.starts_with("error: "), "{words:?}: {}", ended.stderr);
    }
    assert!(!folder.path().join("started").exists());
}

#[test]
fn help_teaches_by_example() {
    let folder = tempdir().unwrap();
    for words in [&["--help"][..], &["help"], &["help", "run"], &["run", "-h"], &["run", "--help"]] {
        let ended = Running::start(fanin(folder.path(), words)).end();
        assert_eq!(ended.code, Some(0));
        assert!(ended.stdout.contains("fanin run 'cargo check' 'cargo test'"), "{}", ended.stdout);
    }
    assert!(run(folder.path(), &["--help"]).stdout.contains("Exit codes"));
}
