//! Runs that are kept, and run again: what completed stays as it was, and nothing of it runs twice.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fanin_protocol::limits::KEPT_RUNS_MAX;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::common::{Ended, Running, fanin, made};

/// A folder to run in, with a state folder of its own below.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = fanin(self.path(), words);
        command.env("FANIN_STATE_DIR", self.state());
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        Running::start(self.command(&[&["run"], words].concat())).end()
    }

    /// The ids of the runs that are kept.
    fn kept(&self) -> Vec<String> {
        let runs = fs::read_dir(self.state().join("runs")).into_iter().flatten();
        let mut ids: Vec<_> = runs.map(|run| run.unwrap().file_name().into_string().unwrap()).collect();
        ids.sort();
        ids
    }

    /// How often a task has run that adds a line to this file each time.
    fn ran(&self, name: &str) -> usize {
        fs::read_to_string(self.path().join(name)).map_or(0, |text| text.lines().count())
    }

    fn touch(&self, name: &str) {
        fs::write(self.path().join(name), "").unwrap();
    }
}

/// One task that completes and one that does so once `fixed` is there.
const TASKS: [&str; 4] =
    ["--task", "good=echo fine; echo x >> good", "--task", "bad=echo x >> bad; test -e fixed"];

#[test]
fn the_last_line_is_the_command_that_runs_only_what_did_not_complete() {
    let place = Place::new();
    let first = place.run(&TASKS);
    assert_eq!(first.code, Some(1), "{}", first.stderr);
    let again = first.again();
    place.touch("fixed");
    let second = Running::start(place.command(&again)).end();
    assert_eq!(second.code, Some(0), "{}{}", second.stdout, second.stderr);
    assert_eq!((place.ran("good"), place.ran("bad")), (1, 2));
    assert!(second.stdout.starts_with("2 tasks: 2 completed, in "), "{}", second.stdout);
    for line in ["completed in an earlier run\n    fine\n", " bad ", "completed\n"] {
        assert!(second.stdout.contains(line), "{line}: {}", second.stdout);
    }
    assert!(!second.stderr.contains("good") && !second.stderr.contains("--again"), "{}", second.stderr);
}

#[test]
fn a_document_says_what_was_carried_and_from_where() {
    let place = Place::new();
    let first: Value = serde_json::from_str(&place.run(&[&["--json"], &TASKS[..]].concat()).stdout).unwrap();
    assert_eq!(first["again_of"], Value::Null);
    let id = first["group"].as_str().unwrap();
    let second: Value = serde_json::from_str(&place.run(&["--json", "--again", id]).stdout).unwrap();
    assert_eq!(second["again_of"], first["group"]);
    assert_ne!(second["group"], first["group"]);
    assert_eq!(second["tasks"][0]["carried_from"], first["group"]);
    assert_eq!(second["tasks"][1]["carried_from"], Value::Null);
    assert_eq!(second["entries"][0], first["entries"][0]);
    assert_eq!(second["counts"], first["counts"]);
    // What was carried stays carried, from where it completed, also over a run that was killed.
    let (third_id, place_of) = (second["group"].as_str().unwrap(), place.state().join("runs"));
    fs::remove_file(place_of.join(third_id).join("result.json")).unwrap();
    place.touch("fixed");
    let third = place.run(&["--json", "--again", third_id]);
    assert_eq!(third.code, Some(0), "{}", third.stderr);
    let third: Value = serde_json::from_str(&third.stdout).unwrap();
    assert_eq!(third["tasks"][0]["carried_from"], first["group"]);
    assert_eq!((place.ran("good"), place.ran("bad")), (1, 3));
}

#[test]
fn the_plan_is_there_before_the_first_task_and_nobody_else_may_read_it() {
    let place = Place::new();
    let task =
        "stat -c '%a %n' state state/runs state/runs/* state/runs/*/*; grep -c s3cret state/runs/*/plan.json";
    let ended = place.run(&["--env", "TOKEN=s3cret", task]);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    let lines: Vec<_> = ended.stdout.lines().map(str::trim).collect();
    for (mode, end) in [("700", "state"), ("700", "runs"), ("600", "plan.json"), ("600", "owner.lock")] {
        let is_so = |line: &&&str| line.starts_with(&format!("{mode} state")) && line.ends_with(end);
        assert!(lines.iter().any(|line| is_so(&line)), "{mode} {end}: {}", ended.stdout);
    }
    assert!(lines.contains(&"1"), "the variable is not in the plan: {}", ended.stdout);
    let result = place.state().join("runs").join(&place.kept()[0]).join("result.json");
    assert_eq!(fs::metadata(result).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_run_that_was_killed_runs_again_as_a_whole() {
    let place = Place::new();
    let first = "echo x >> first";
    let second = "echo x >> second; touch up; until [ -e go ]; do sleep 0.01; done";
    let mut running = Running::start(place.command(&["run", "-c", "1", first, second]));
    running.wait_for("ok    echo x >> first");
    made(place.path(), "up");
    running.signal("KILL");
    assert_eq!(running.end().code, None);
    place.touch("go");
    let id = &place.kept()[0];
    let again = place.run(&["--again", id]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!((place.ran("first"), place.ran("second")), (2, 2));
}

#[test]
fn a_run_that_is_at_work_is_not_run_again() {
    let place = Place::new();
    let mut running = Running::start(place.command(&["run", "until [ -e go ]; do sleep 0.01; done"]));
    running.wait_for("start ");
    let again = place.run(&["--again", &place.kept()[0]]);
    assert_eq!(again.code, Some(75), "{}", again.stderr);
    assert!(again.stderr.contains("is still at work"), "{}", again.stderr);
    assert_eq!(again.last_word(), "fanin: exit 75 (owned)");
    place.touch("go");
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn where_nothing_is_left_nothing_runs_and_that_is_done() {
    let place = Place::new();
    assert_eq!(place.run(&["echo x >> ran; echo out"]).code, Some(0));
    let id = place.kept()[0].clone();
    let again = place.run(&["--again", &id]);
    assert_eq!((again.code, place.ran("ran")), (Some(0), 1), "{}", again.stderr);
    assert_eq!(again.stderr, format!("fanin: all tasks of {id} completed; there is nothing to run again\n"));
    assert!(again.stdout.contains("    out\n"), "{}", again.stdout);
    assert_eq!(place.kept(), [id.as_str()]);
    let document = place.run(&["--quiet", "--json", "--again", &id]);
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    assert_eq!(document["group"], id.as_str());
    assert_eq!((&document["outcome"], &document["exit"]["code"]), (&"all_ok".into(), &0.into()));
}

#[test]
fn tasks_run_again_where_they_ran_with_what_they_had() {
    let place = Place::new();
    fs::create_dir(place.path().join("sub")).unwrap();
    let first = place.run(&["--cwd", "sub", "--env", "A=one", "--env", "B=two", "pwd; echo $A $B; false"]);
    let again = first.again();
    let elsewhere = tempdir().unwrap();
    let mut command = place.command(&[&again[..], &["--env", "B=flag"]].concat());
    command.current_dir(elsewhere.path());
    let second = Running::start(command).end();
    assert!(second.stdout.contains("/sub\n    one flag\n"), "{}", second.stdout);
    // Its own folder is part of what a task is.
    let refused = place.run(&["--again", again[2], "--cwd", "sub"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}

#[test]
fn an_id_that_names_no_run_is_told_with_those_that_there_are() {
    let place = Place::new();
    let unknown = place.run(&["--again", "abcd"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("none is kept there"), "{}", unknown.stderr);
    place.run(&["false"]);
    let id = place.kept()[0].clone();
    let digits = id.strip_prefix("grp_").unwrap();
    let other = if digits.starts_with("0000") { "1111" } else { "0000" };
    let unknown = place.run(&["--again", other]);
    assert!(unknown.stderr.contains(&format!("there is: {id}")), "{}", unknown.stderr);
    for (name, code) in
        [(digits, 1), (&digits[..4], 1), (&id[..8], 1), (&digits[..3], 2), ("", 2), ("../..", 2)]
    {
        let again = place.run(&["--again", name]);
        assert_eq!(again.code, Some(code), "{name}: {}", again.stderr);
        // The run it made is in nobody's way.
        for made in place.kept().iter().filter(|made| **made != id) {
            fs::remove_dir_all(place.state().join("runs").join(made)).unwrap();
        }
    }
    let runs = place.state().join("runs");
    let twin = format!("grp_{}{}", &digits[..8], "0".repeat(24));
    fs::create_dir(runs.join(&twin)).unwrap();
    fs::copy(runs.join(&id).join("plan.json"), runs.join(&twin).join("plan.json")).unwrap();
    let ambiguous = place.run(&["--again", &digits[..6]]);
    assert_eq!(ambiguous.code, Some(2));
    for name in [id, twin] {
        assert!(ambiguous.stderr.contains(&name), "{}", ambiguous.stderr);
    }
}

#[test]
fn a_plan_of_a_newer_version_and_a_broken_one_are_refused_by_name() {
    let place = Place::new();
    place.run(&["echo x >> ran; false"]);
    let id = place.kept()[0].clone();
    let plan = place.state().join("runs").join(&id).join("plan.json");
    let text = fs::read_to_string(&plan).unwrap();
    for (changed, said) in [
        (text.replace("fanin.plan/1", "fanin.plan/2"), "written by a newer fanin (fanin.plan/2;"),
        (text.replace("fanin.plan/1", "other/1"), "it says that it is \"other/1\""),
        (text[..text.len() / 2].to_owned(), "is no fanin.plan document"),
        (String::new(), "is no fanin.plan document"),
    ] {
        fs::write(&plan, changed).unwrap();
        let again = place.run(&["--again", &id]);
        assert_eq!(again.code, Some(2), "{}", again.stderr);
        assert!(again.stderr.contains(said) && again.stderr.contains("plan.json"), "{}", again.stderr);
    }
    assert_eq!(place.ran("ran"), 1);
}

#[test]
fn a_state_folder_that_takes_nothing_is_one_warning_and_no_more() {
    let place = Place::new();
    fs::write(place.state(), "in the way").unwrap();
    let ended = place.run(&["--quiet", "echo fine; false"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.ends_with("    fine\n"), "{}", ended.stdout);
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("fanin: warning: this run is not kept in "), "{lines:?}");
    assert_eq!(lines[1], "fanin: exit 1 (some_not_completed)");
    let json = place.run(&["--quiet", "--json", "true"]);
    let warning: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!((json.code, &warning["code"]), (Some(0), &"keep".into()));
    let quiet = place.run(&["--quiet", "--no-keep", "false"]);
    assert_eq!(quiet.stderr, "fanin: exit 1 (some_not_completed)\n");
}

#[test]
#[cfg(target_os = "linux")]
fn a_state_folder_where_nobody_may_write_is_one_warning_too() {
    let place = Place::new();
    // Not even for root.
    let mut command = place.command(&["run", "--quiet", "echo fine"]);
    command.env("FANIN_STATE_DIR", "/proc/sys/fanin");
    let ended = Running::start(command).end();
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(0), 1), "{}", ended.stderr);
    assert!(ended.stderr.contains("is not kept in /proc/sys/fanin"), "{}", ended.stderr);
    assert!(ended.stdout.ends_with("    fine\n"), "{}", ended.stdout);
}

#[test]
fn a_result_that_cannot_be_kept_is_a_warning_and_the_plan_can_run_again() {
    let place = Place::new();
    let in_the_way = "mkdir \"$(echo state/runs/grp_*)/result.json\"";
    let ended = place.run(&["--quiet", in_the_way, "exit 3"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("fanin: warning: this run is not kept in "), "{}", ended.stderr);
    fs::remove_dir(place.state().join("runs").join(ended.again()[2]).join("result.json")).unwrap();
    assert_eq!(Running::start(place.command(&ended.again())).end().code, Some(1));
}

#[test]
fn nothing_is_kept_where_that_is_not_wanted() {
    let place = Place::new();
    assert_eq!(place.run(&["--no-keep", "true"]).code, Some(0));
    assert!(!place.state().exists());
    let mut command = place.command(&["run", "--quiet", "true"]);
    command.env_remove("HOME").env_remove("XDG_STATE_HOME").env_remove("FANIN_STATE_DIR");
    let ended = Running::start(command).end();
    assert!(ended.stderr.contains("there is no state folder"), "{}", ended.stderr);
}

#[test]
fn runs_at_once_in_one_state_folder_keep_apart() {
    let place = Place::new();
    let meet =
        |mine: &str, other: &str| format!("touch {mine}; until [ -e {other} ]; do sleep 0.01; done; false");
    let runs = [meet("a", "b"), meet("b", "a")];
    let runs = runs.map(|line| Running::start(place.command(&["run", &line])));
    let ended = runs.map(Running::end);
    let ids: Vec<_> = ended.iter().map(|ended| ended.again()[2].to_owned()).collect();
    assert_ne!(ids[0], ids[1]);
    for id in ids {
        let again = place.run(&["--again", &id]);
        assert_eq!(again.code, Some(1), "{}", again.stderr);
    }
    assert_eq!(place.kept().len(), 4);
}

#[test]
fn a_bounded_number_of_runs_is_kept_and_the_newest_stay() {
    let place = Place::new();
    place.run(&["false"]);
    let first = place.kept()[0].clone();
    let runs = place.state().join("runs");
    for n in 0..KEPT_RUNS_MAX {
        let folder = runs.join(format!("grp_{n:032x}"));
        fs::create_dir(&folder).unwrap();
        fs::copy(runs.join(&first).join("plan.json"), folder.join("plan.json")).unwrap();
    }
    let last = place.run(&["false"]);
    let kept = place.kept();
    assert_eq!(kept.len(), KEPT_RUNS_MAX);
    assert!(kept.iter().any(|id| id == last.again()[2]) && !kept.contains(&first), "{kept:?}");
}
