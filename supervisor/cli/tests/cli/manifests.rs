//! Manifests, from the file to the result.

use std::fs;
use std::path::Path;

use crate::common::{Running, fanin, run};
use expect_test::expect;
use tempfile::tempdir;

/// Runs a manifest of this text, in a folder below the one fanin is started in.
fn manifest(text: &str, words: &[&str]) -> (crate::common::Ended, tempfile::TempDir) {
    let folder = tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("sub/m.toml"), text).unwrap();
    let ended = run(folder.path(), &[words, &["sub/m.toml"]].concat());
    (ended, folder)
}

#[test]
fn a_manifest_runs_with_its_own_folders_variables_and_limits() {
    let text = r#"
description = "a small one"
cwd = "."
env = { A = "top", B = "top" }
concurrency = 1

[[task]]
id = "own"
env = { B = "own" }
shell = "echo $A $B; basename $(pwd)"

[[task]]
label = "with arguments"
command = ["printf", "<%s>", "$A", "b c"]
"#;
    let (ended, _folder) = manifest(text, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("a small one\n2 tasks: 2 completed, in "), "{}", ended.stdout);
    for text in ["✓ own", "    top own\n    sub\n", "✓ with arguments", "    <$A><b c>\n"] {
        assert!(ended.stdout.contains(text), "{text}: {}", ended.stdout);
    }
}

#[test]
fn all_problems_are_told_with_their_places_and_nothing_is_started() {
    let text = r#"concurency = 2
deadline = "1m30s"

[[task]]
id = "lint"
shel = "touch started"

[[task]]
id = "lint"
shell = "touch started"
timeout = 5
"#;
    let (ended, folder) = manifest(text, &[]);
    assert_eq!(ended.code, Some(2));
    expect![[r#"
        sub/m.toml:1:1: concurency: unknown key; did you mean `concurrency`?
        sub/m.toml:2:12: deadline: `1m30s` is no duration; write a whole number and one unit: 500ms, 30s, 5m or 2h
        sub/m.toml:4:1: task_1: none of `command`, `shell` and `agent`; add one, like shell = "cargo check"
        sub/m.toml:6:1: shel: unknown key; did you mean `shell`?
        sub/m.toml:9:6: id: task 1 has the id `lint` already; choose another
        sub/m.toml:11:11: timeout: must be a string like "30s" (units: ms, s, m, h), not an integer
        fanin: exit 2 (usage)
    "#]].assert_eq(&ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(!folder.path().join("started").exists() && !folder.path().join("sub/started").exists());
}

#[test]
fn a_manifest_that_is_not_there_is_never_run_as_a_command() {
    let folder = tempdir().unwrap();
    for words in [&["missing.toml"][..], &["-f", "missing"]] {
        let ended = run(folder.path(), words);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("missing") && ended.stderr.contains("cannot be read"),
            "{}",
            ended.stderr
        );
    }
    let ended = run(folder.path(), &["-f", "."]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn a_task_whose_folder_is_missing_fails_alone_and_names_it() {
    let text = "[[task]]\ncwd = 'no/such/folder'\nshell = 'true'\n[[task]]\nshell = 'echo fine'\n";
    let (ended, _folder) = manifest(text, &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("  not started: "), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("no/such/folder") && ended.stdout.contains("    fine\n"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_deadline_stops_the_rest_keeps_what_is_done_and_is_3() {
    let text = r#"
deadline = "1s"
[[task]]
shell = "echo answer"
[[task]]
label = "sleep 600"
shell = "sleep 600"
[[task]]
label = "sleep 601"
shell = "sleep 601"
"#;
    let (ended, _folder) = manifest(text, &[]);
    assert_eq!(ended.code, Some(3), "{}", ended.stdout);
    assert_eq!(ended.last_word(), "fanin: exit 3 (deadline)");
    assert!(ended.stdout.contains("1 completed, 2 cancelled"), "{}", ended.stdout);
    assert!(ended.stdout.contains("    answer\n"), "{}", ended.stdout);
    // B13: the unfinished ones are named.
    for name in ["sleep 600", "sleep 601"] {
        let line = ended.stdout.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line.contains("stopped with the rest of the group"), "{name}: {}", ended.stdout);
    }
}

#[test]
fn a_run_stays_until_all_is_done_whoever_ends_first() {
    // B13: what ends first writes to a file that what ends last waits for.
    let text = "[[task]]\nid = 'quick'\nshell = 'echo first; touch go'\n[[task]]\nid = 'slow'\nshell = 'until [ -e go ]; do sleep 0.01; done; sleep 1; echo last'\n";
    let (ended, _folder) = manifest(text, &["--cwd", "."]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("    first\n") && ended.stdout.ends_with("    last\n"), "{}", ended.stdout);
}

#[test]
fn flags_win_over_the_manifest() {
    let text = "concurrency = 5\nfail_on = 'none_ok'\n[[task]]\nshell = 'echo $A'\nenv = { A = 'own' }\n[[task]]\nshell = 'false'\n";
    let (ended, _folder) = manifest(text, &["--fail-on", "partial", "--env", "A=flag"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("    flag\n"), "{}", ended.stdout);
    assert_eq!(manifest(text, &[]).0.code, Some(0));
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_survey_completes_on_this_repository_and_on_a_folder_without_git() {
    let survey = repository().join("examples/survey.toml");
    let survey = survey.to_str().unwrap();
    let ended = Running::start(fanin(repository(), &["run", survey])).end();
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.contains(" rs\n") && ended.stdout.contains("files of type rs\n"),
        "{}",
        ended.stdout
    );

    let folder = tempdir().unwrap();
    // Written in two halves, so that it is not found in this file.
    let marked = concat!("// TO", "DO all of it");
    fs::write(folder.path().join("a b.rs"), format!("{marked}\nfn main() {{}}\n")).unwrap();
    let found = format!("a b.rs:1:{marked}");
    let ended = run(folder.path(), &[survey]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    for text in ["1 rs\n", "2 lines in    1 files of type rs", &found, "no git history here"] {
        assert!(ended.stdout.contains(text), "{text}: {}", ended.stdout);
    }

    let empty = tempdir().unwrap();
    let ended = run(empty.path(), &[survey]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("nothing is marked"), "{}", ended.stdout);
}
