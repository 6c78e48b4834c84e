//! Runs that were interrupted: what is told of them, which of them `fanin resume` goes on with, and how.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::tempdir;

use crate::common::{Running, fanin, full, made};
use crate::place::{Place, followed, killed_run, statuses};

#[test]
fn a_killed_run_is_never_shown_as_running_and_goes_on_where_it_stood() {
    let place = Place::new();
    let id = place.killed();
    let first = place.fanin(&["ps"]);
    let told =
        format!("fanin: run {id} was interrupted: 2 jobs were running, 1 waited; `fanin resume {id}`\n");
    assert_eq!(first.stderr, told, "the next command says what it found");
    assert!(!first.stdout.contains("running"), "{}", first.stdout);
    assert!(first.stdout.lines().all(|line| line.chars().count() <= 80), "{}", first.stdout);
    assert_eq!(place.fanin(&["ps"]).stderr, "", "and says it once");
    let jobs = place.json(&["ps", "--json"]);
    assert_eq!(statuses(&jobs), [("first", "error"), ("third", "error"), ("fourth", "queued")]);
    assert_eq!(jobs["jobs"][0]["cause"], "interrupted");
    assert_eq!(jobs["jobs"][0]["phase"], "interrupted, not recovered yet");
    assert_eq!(jobs["jobs"][2]["phase"], "unowned");
    assert!(place.shown(&["show"]).contains(&format!("fanin resume {id}")));

    let elsewhere = tempdir().unwrap();
    let mut command = fanin(elsewhere.path(), &["resume", "--json", &id[..8]]);
    command.env("FANIN_STATE_DIR", place.path().join(".state"));
    let resumed = Running::start(command).end();
    assert_eq!(resumed.code, Some(1), "{}", resumed.stderr);
    let document: Value = serde_json::from_str(&resumed.stdout).unwrap();
    assert_eq!(document["group"], id.as_str());
    let entries = document["entries"].as_array().unwrap();
    let ends: Vec<_> =
        entries.iter().map(|entry| (entry["label"].as_str(), entry["cause"].as_str())).collect();
    let interrupted = Some("interrupted");
    assert_eq!(
        ends,
        [
            (Some("first"), interrupted),
            (Some("second"), None),
            (Some("third"), interrupted),
            (Some("fourth"), None),
        ]
    );
    assert_eq!((place.ran("second"), place.ran("fourth")), (1, 1), "each ran once, in the folder of the run");
    let again = place.fanin(&["resume", &id]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("is over"), "{}", again.stderr);
    let kinds = place.shown(&["events", &id]);
    assert_eq!(kinds.matches("group.fired").count(), 1, "{kinds}");
    assert_eq!(kinds.matches("message.taken").count(), 1, "{kinds}");
}

#[test]
fn without_an_argument_the_only_run_that_was_interrupted_is_resumed() {
    let place = Place::new();
    let id = place.killed();
    let resumed = place.fanin(&["resume", "--quiet"]);
    assert_eq!(resumed.code, Some(1), "{}", resumed.stderr);
    assert!(resumed.stdout.starts_with("4 tasks: 2 completed, 2 failed"), "{}", resumed.stdout);
    assert!(resumed.stderr.ends_with(&format!("fanin run --again {id}\n")), "{}", resumed.stderr);
    let none = place.fanin(&["resume"]);
    assert_eq!((none.code, none.stderr.as_str()), (Some(0), "fanin: no run was interrupted\n"));
}

#[test]
fn a_run_that_owes_its_result_is_kept_however_old_it_is() {
    let place = Place::new();
    let id = place.killed();
    let folder = place.run().1;
    let month = Duration::from_secs(31 * 24 * 60 * 60);
    let plan = File::options().write(true).open(folder.join("plan.json")).unwrap();
    plan.set_modified(SystemTime::now() - month).unwrap();
    place.shown(&["run", "true"]);
    assert_eq!(place.fanin(&["resume", "--quiet", &id]).code, Some(1));
    place.shown(&["run", "true"]);
    assert!(!folder.exists(), "it owes nothing any more, and is old");
}

#[test]
fn a_result_that_was_not_printed_when_its_run_was_killed_is_told_and_resumed() {
    let place = Place::new();
    let (_reader, writer) = full();
    let mut child = fanin(place.path(), &["run", "--quiet", "echo fine"]).stdout(writer).spawn().unwrap();
    made(place.path(), ".state/runs");
    let begun = || fs::read_dir(place.path().join(".state/runs")).unwrap().next();
    while begun().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (id, folder) = place.run();
    made(&folder, "result.json");
    child.kill().unwrap();
    child.wait().unwrap();
    let told = place.fanin(&["ps"]).stderr;
    assert!(told.starts_with(&format!("fanin: run {id} was interrupted: its jobs were over and ")), "{told}");
    let resumed = place.fanin(&["resume", "--quiet"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert!(resumed.stdout.contains("fine"), "{}", resumed.stdout);
    assert!(!folder.join("result.unprinted").exists());
    assert_eq!(place.fanin(&["resume"]).stderr, "fanin: no run was interrupted\n");
}

#[test]
fn a_run_that_was_refused_before_its_launch_leaves_nothing_to_resume() {
    // With room for less or more of a store, in blocks of 512 bytes or 1 KiB, as the shell has it.
    for blocks in ["1", "16", "40"] {
        let place = Place::new();
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" run --quiet 'touch ran'");
        let program = fanin(place.path(), &[]).get_program().to_owned();
        let state = place.path().join(".state");
        let mut command = Command::new("sh");
        command.args(["-c", &limited]).arg(program).current_dir(place.path()).stdin(Stdio::null());
        command.env("FANIN_STATE_DIR", state).env_remove("FANIN_PARENT").env_remove("GITHUB_ACTIONS");
        let refused = Running::start(command).end();
        assert_eq!(refused.code, Some(70), "{blocks}: {}", refused.stderr);
        assert_eq!(place.fanin(&["ps"]).stderr, "", "{blocks}");
        let resumed = place.fanin(&["resume"]);
        assert_eq!((resumed.code, resumed.stderr.as_str()), (Some(0), "fanin: no run was interrupted\n"));
        assert_eq!(place.ran("ran"), 0);
        assert_eq!(
            place.fanin(&refused.again()).code,
            Some(0),
            "its last line can be used: {}",
            refused.stderr
        );
    }
}

#[test]
fn of_several_interrupted_runs_one_has_to_be_named() {
    let place = Place::new();
    let none = place.fanin(&["resume", "--json"]);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (Some(0), "", ""));
    for name in ["one", "two"] {
        let running =
            Running::start(fanin(place.path(), &["run", &format!("touch {name}; exec sleep 1000")]));
        made(place.path(), name);
        running.signal("KILL");
        running.end();
    }
    let several = place.fanin(&["resume"]);
    assert_eq!(several.code, Some(2), "{}", several.stderr);
    assert!(several.stderr.starts_with("error: resume: 2 runs were interrupted; "), "{}", several.stderr);
    assert_eq!(several.stderr.matches("`fanin resume grp_").count(), 2, "{}", several.stderr);
    let json = place.fanin(&["resume", "--json"]);
    assert_eq!(json.code, Some(2), "{}", json.stderr);
    let document: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!((&document["schema"], &document["code"]), (&"fanin.error/1".into(), &"usage".into()));
    assert_eq!(document["message"].as_str().unwrap().matches("`fanin resume grp_").count(), 2);
}

#[test]
fn a_run_at_work_is_shown_as_running_and_cannot_be_resumed() {
    let place = Place::new();
    let running = Running::start(fanin(place.path(), &["run", "touch here; exec sleep 1000"]));
    made(place.path(), "here");
    let (id, folder) = place.run();
    let jobs = place.json(&["ps", "--json", "--store", folder.to_str().unwrap()]);
    assert_eq!(jobs["jobs"][0]["status"], "running");
    let resumed = place.fanin(&["resume", &id]);
    assert_eq!(resumed.code, Some(75), "{}", resumed.stderr);
    let shown = place.fanin(&["why", &id]);
    assert!(shown.stdout.contains("waits for 1 members: job_"), "{}", shown.stdout);
    drop(running);
}

#[test]
fn a_run_that_is_gone_on_with_tells_nothing_old_as_new() {
    let place = Place::new();
    let id = place.killed();
    let resumed = place.fanin(&["resume"]);
    assert_eq!(resumed.code, Some(1), "{}", resumed.stderr);
    let told: Vec<&str> = resumed.stderr.lines().collect();
    let goes_on =
        format!("fanin: goes on with {id}: 1 tasks are over, 2 ran when it was interrupted, 1 are left");
    assert_eq!(told[0], goes_on, "{}", resumed.stderr);
    for (line, times) in [
        ("start second", 0),
        ("ok    second", 0),
        ("start first", 0),
        ("FAIL  first: interrupted", 1),
        ("start fourth", 1),
    ] {
        assert_eq!(
            told.iter().filter(|told| told.starts_with(line)).count(),
            times,
            "{line}: {}",
            resumed.stderr
        );
    }
    assert!(told.iter().any(|told| told.starts_with("ok    fourth in ")), "{}", resumed.stderr);
    let quiet = place.fanin(&["resume", "--quiet", &id]);
    assert!(!quiet.stderr.contains("goes on"), "{}", quiet.stderr);
}

#[test]
fn what_an_interrupted_task_had_put_out_is_shown_with_its_result() {
    let place = Place::new();
    let (running, _, follow) = followed(&place);
    running.signal("KILL");
    running.end();
    follow.end();
    let resumed = place.fanin(&["resume", "--quiet"]);
    assert!(resumed.stdout.contains("one") && !resumed.stdout.contains("(no output)"), "{}", resumed.stdout);
    let shown = place.shown(&["show"]);
    assert!(shown.ends_with(&resumed.stdout), "as the run itself has printed it: {shown}");
    assert_eq!(place.json(&["show", "--json"])["entries"][0]["output"]["text"], "one\n");
}

#[test]
fn a_store_that_cannot_be_read_is_named_and_the_other_run_is_gone_on_with() {
    let place = Place::new();
    let bad = killed_run(&place, &[]);
    let good = killed_run(&place, &[&bad]);
    fs::write(bad.join("store.db"), b"no database").unwrap();
    let name = |run: &Path| run.file_name().unwrap().to_str().unwrap().to_owned();
    let resumed = place.fanin(&["resume", "--json"]);
    assert_eq!(resumed.code, Some(70), "{}", resumed.stderr);
    let result: Value = serde_json::from_str(&resumed.stdout).unwrap();
    assert_eq!(result["group"], name(&good));
    let warning: Value = serde_json::from_str(resumed.stderr.lines().next().unwrap()).unwrap();
    assert_eq!(warning["code"], "passed_over");
    let said = warning["message"].as_str().unwrap();
    assert!(said.starts_with(&format!("{} is passed over: ", name(&bad))), "{said}");
    assert!(said.contains("fanin store repair "), "{said}");
    let alone = place.fanin(&["resume"]);
    assert_eq!(alone.code, Some(70), "{}", alone.stderr);
    assert!(
        alone.stderr.contains(&format!("error: resume: {} is passed over: ", name(&bad))),
        "{}",
        alone.stderr
    );
}

#[test]
fn a_run_whose_plan_was_removed_is_shown_and_said_to_be_without_it() {
    let place = Place::new();
    let id = place.killed();
    fs::remove_file(place.run().1.join("plan.json")).unwrap();
    assert!(place.shown(&["ps"]).contains("third"), "its jobs are listed");
    let shown = place.shown(&["show", &id]);
    assert!(
        shown.contains("only the program that made it goes on with it") && !shown.contains("fanin resume"),
        "{shown}"
    );
    for words in [&["resume"][..], &["resume", &id], &["run", "--again", &id]] {
        let told = place.fanin(words);
        assert!(matches!(told.code, Some(2 | 70)), "{words:?}: {}", told.stderr);
        let is_named = told.stderr.contains(&id) && told.stderr.contains("plan");
        assert!(
            is_named && told.stderr.contains(&format!("`fanin show {id}`")),
            "{words:?}: {}",
            told.stderr
        );
    }
}
