//! Stores of runs: what is shown of them while a run is at work, after it was killed, and once it was resumed.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use fanin_protocol::RowKind;
use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::journal::{Batch, Change, Journal, Row};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::common::{Ended, Running, fanin, full, made};

/// A folder to run in, with the state folder below it.
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

    fn fanin(&self, words: &[&str]) -> Ended {
        Running::start(fanin(self.path(), words)).end()
    }

    /// What `fanin` with these words prints, which must succeed.
    fn shown(&self, words: &[&str]) -> String {
        let ended = self.fanin(words);
        assert_eq!(ended.code, Some(0), "{words:?}: {}{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.shown(words)).unwrap()
    }

    /// The only run that is kept.
    fn run(&self) -> (String, PathBuf) {
        let mut runs = fs::read_dir(self.path().join(".state/runs")).unwrap();
        let run = runs.next().unwrap().unwrap();
        assert!(runs.next().is_none(), "more runs than one");
        (run.file_name().into_string().unwrap(), run.path())
    }

    /// How often a task has run that adds a line to this file each time.
    fn ran(&self, name: &str) -> usize {
        fs::read_to_string(self.path().join(name)).map_or(0, |text| text.lines().count())
    }

    /// A run of four tasks, two at a time, that is killed once one of them is over and another has begun in its place.
    fn killed(&self) -> String {
        let running = Running::start(fanin(self.path(), &[&["run", "-c", "2"], &FAN_OUT[..]].concat()));
        made(self.path(), "third");
        running.signal("KILL");
        running.end();
        self.run().0
    }
}

/// Tasks of which the first goes on for ever, and the last waits for the third, which does so too.
const FAN_OUT: [&str; 8] = [
    "--task",
    "first=touch first; exec sleep 1000",
    "--task",
    "second=echo fine; echo x >> second",
    "--task",
    "third=touch third; exec sleep 1000",
    "--task",
    "fourth=echo late; echo x >> fourth",
];

fn statuses(jobs: &Value) -> Vec<(&str, &str)> {
    let jobs = jobs["jobs"].as_array().unwrap().iter();
    jobs.map(|job| (job["label"].as_str().unwrap(), job["status"].as_str().unwrap())).collect()
}

#[test]
fn a_run_that_is_over_can_be_looked_at() {
    let place = Place::new();
    let ended = place.fanin(&["run", "--task", "good=echo fine", "--task", "bad=echo oops; exit 3"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let (id, _) = place.run();
    assert_eq!(place.shown(&["ps"]), "no jobs; --all shows what is over\n");
    assert_eq!(statuses(&place.json(&["ps", "--all", "--json"])), [("good", "completed"), ("bad", "error")]);
    let shown = place.shown(&["show", &id["grp_".len()..][..6]]);
    assert!(shown.starts_with(&format!("run {id}\n")), "{shown}");
    assert!(shown.ends_with(&ended.stdout), "the result as the run printed it: {shown}");
    for mark in ["barrier", "wake"] {
        assert!(shown.contains(mark), "{shown}");
    }
    let document = place.json(&["show", "--json", &id]);
    assert_eq!((&document["schema"], &document["group"]), (&"fanin.result/1".into(), &id.as_str().into()));
    assert_eq!(document["counts"]["error"], 1);
    let job = document["entries"][1]["job"].as_str().unwrap();
    assert_eq!(place.shown(&["output", job]), "oops\n");
    assert_eq!(place.shown(&["output", "--raw", &job[..12]]), "oops\n");
    assert!(place.shown(&["show", job]).contains("error (failed)"));
    assert_eq!(place.shown(&["why", &id]), format!("{id} waits for nothing: its result was taken\n"));
}

#[test]
fn records_are_contiguous_lines_and_a_cursor_goes_on_behind_them() {
    let place = Place::new();
    place.shown(&["run", "--task", "a=printf s3c; echo ret", "echo two"]);
    let all = place.shown(&["events", "--json"]);
    let lines: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mark, events) = lines.split_last().unwrap();
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        (&events[0]["kind"], &events[seqs.len() - 1]["kind"]),
        (&"store.opened".into(), &"store.closed".into())
    );
    let ended = events.iter().find(|event| event["kind"] == "run.ended").unwrap();
    assert!(ended["job"].is_string() && ended["group"].is_string(), "{ended}");
    assert!(!all.contains("s3c"), "content is not shown: {all}");
    let cursor = mark["mark"]["cursor"].as_str().unwrap();
    assert_eq!(place.shown(&["events", "--json", "--from", cursor]).lines().count(), 1, "only the mark");
    let last = seqs.len().to_string();
    assert_eq!(place.shown(&["events", "--from", &last]).lines().count(), 1);
    let other = place.fanin(&["events", "--from", "elsewhere:1"]);
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("another log"), "{}", other.stderr);
    let above = place.fanin(&["events", "--json", "--from", &(seqs.len() + 1).to_string()]);
    assert_eq!((above.code, above.stdout.as_str()), (Some(2), ""), "{}", above.stderr);
    let document: Value = serde_json::from_str(&above.stderr).unwrap();
    assert_eq!(document["code"], "bad_place", "{document}");
}

#[test]
fn a_state_folder_that_cannot_be_read_is_named_with_the_way_out() {
    let place = Place::new();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    for words in [
        &["ps"][..],
        &["show"],
        &["store", "check"],
        &["resume"],
        &["resume", "abcd"],
        &["run", "--again", "abcd"],
    ] {
        let mut command = fanin(place.path(), words);
        command.env("FANIN_STATE_DIR", &file);
        let told = Running::start(command).end();
        assert!(matches!(told.code, Some(2 | 70)), "{words:?}: {}", told.stderr);
        for said in [file.to_str().unwrap(), "Not a directory", "set FANIN_STATE_DIR"] {
            assert!(told.stderr.contains(said), "{words:?}: {}", told.stderr);
        }
    }
}

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

/// A task that says `one`, and `two` and `three` once these files are there.
const SAYS: [&str; 3] = [
    "run",
    "--task",
    "t=echo one; touch begun; until test -e second; do sleep 0.02; done; echo two; until test -e third; do sleep 0.02; \
     done; echo three",
];

/// A run of it that is at work, its job, and somebody who follows that and has seen the first line.
fn followed(place: &Place) -> (Running, String, Running) {
    let running = Running::start(fanin(place.path(), &SAYS));
    made(place.path(), "begun");
    let job = place.json(&["ps", "--json"])["jobs"][0]["job"].as_str().unwrap().to_owned();
    let mut follow = Running::start(fanin(place.path(), &["output", "--follow", &job]));
    follow.shows("one\n");
    (running, job, follow)
}

#[test]
fn the_output_of_a_task_at_work_is_followed_from_elsewhere_to_its_end() {
    let place = Place::new();
    let (running, job, mut follow) = followed(&place);
    fs::write(place.path().join("second"), "").unwrap();
    follow.shows("one\ntwo\n");
    assert_eq!(place.shown(&["output", &job]), "one\ntwo\n", "and it is there for others");
    fs::write(place.path().join("third"), "").unwrap();
    let followed = follow.end();
    assert_eq!(
        (followed.code, followed.stdout.as_str()),
        (Some(0), "one\ntwo\nthree\n"),
        "{}",
        followed.stderr
    );
    assert_eq!(running.end().code, Some(0));
    assert_eq!(place.shown(&["output", "--follow", &job]), "one\ntwo\nthree\n");
}

#[test]
fn what_a_task_had_put_out_is_there_after_a_kill() {
    let place = Place::new();
    let (running, job, follow) = followed(&place);
    running.signal("KILL");
    running.end();
    let followed = follow.end();
    assert_eq!((followed.code, followed.stdout.as_str()), (Some(1), "one\n"), "{}", followed.stderr);
    let said = format!(
        "error: job {job} was interrupted: its supervisor is gone; this goes on with it: fanin resume "
    );
    assert!(followed.stderr.starts_with(&said), "{}", followed.stderr);
    assert_eq!(place.shown(&["output", &job]), "one\n");
    let resumed = place.fanin(&["resume", "--quiet", "--json"]);
    assert_eq!(resumed.code, Some(1), "{}", resumed.stderr);
    let result: Value = serde_json::from_str(&resumed.stdout).unwrap();
    assert_eq!(result["entries"][0]["output"]["text"], "one\n", "{}", resumed.stdout);
    assert_eq!(place.shown(&["output", &job]), "one\n", "also once it is recovered");
}

#[test]
fn an_id_that_names_nothing_is_told_with_the_way_out() {
    let place = Place::new();
    place.shown(&["run", "true"]);
    for (words, said) in [
        (&["show", "ffffffffffff"][..], "`fanin ps --all` lists what there is"),
        (&["why", "grp_ffffffffffff"], "`fanin ps --all` lists what there is"),
        (&["output", "zz"], "4 or more of its hex digits"),
        (&["show", "--store", "."], "there is no store in ."),
    ] {
        let ended = place.fanin(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    }
    let json = place.fanin(&["show", "--json", "ffffffffffff"]);
    let document: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!((&document["schema"], &document["code"]), (&"fanin.error/1".into(), &"not_found".into()));
}

#[test]
fn no_store_keeps_the_run_and_no_records() {
    let place = Place::new();
    place.shown(&["run", "--no-store", "true"]);
    let (_, folder) = place.run();
    assert!(folder.join("result.json").exists() && !folder.join("store.db").exists());
    assert_eq!(place.shown(&["ps", "--all"]), "no jobs\n");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn damage_is_told_and_nothing_is_changed_before_somebody_accepts_the_loss() {
    let place = Place::new();
    place.shown(&["run", "true"]);
    let (id, folder) = place.run();
    let dir = folder.to_str().unwrap();
    assert!(place.shown(&["store", "check"]).starts_with(&format!("{id}: sound, ")));
    assert!(place.shown(&["store", "repair", dir]).ends_with("there is nothing to repair\n"));
    let file = folder.join("store.db");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(10).position(|window| window == b"job.queued").unwrap();
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let checked = place.fanin(&["store", "check", dir]);
    assert_eq!(checked.code, Some(70), "{}{}", checked.stdout, checked.stderr);
    let offered = place.fanin(&["store", "repair", dir]);
    assert_eq!(offered.code, Some(70), "{}{}", offered.stdout, offered.stderr);
    assert!(offered.stdout.contains("--accept-loss"), "{}", offered.stdout);
    let repaired = place.shown(&["store", "repair", "--accept-loss", dir]);
    assert!(repaired.contains("lost are record 3\n"), "{repaired}");
    assert!(place.shown(&["store", "check", dir]).contains("sound"));
    let events = place.shown(&["events", &id]);
    assert!(
        events.contains("session.opened") && events.contains("(records 3 to 3 are no longer kept)"),
        "{events}"
    );
    let behind = events.lines().skip_while(|line| !line.contains("no longer kept"));
    let without =
        behind.filter(|line| line.contains("  run.") || line.contains("  job.") || line.contains("  group."));
    let without: Vec<&str> =
        without.filter(|line| !line.contains("job_") && !line.contains("grp_")).collect();
    assert!(without.is_empty(), "{without:?} say not what they are about: {events}");
    let kept = repaired.lines().find_map(|line| line.strip_prefix("as it was it is in ")).unwrap();
    assert_eq!(mode(Path::new(kept)), 0o700);
    for entry in fs::read_dir(kept).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    assert!(
        place.shown(&["store", "repair", "--accept-loss", dir]).ends_with("there is nothing to repair\n")
    );
}

#[test]
fn a_repair_is_not_offered_where_it_would_be_refused_and_leaves_nothing_behind() {
    let place = Place::new();
    place.shown(&["run", "true"]);
    let (_, folder) = place.run();
    let dir = folder.to_str().unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let file = folder.join("store.db");
    let sound = fs::read(&file).unwrap();
    let noise = |n: usize| (0..n).map(|at| (at * 7 + at / 13 + 1) as u8).collect::<Vec<u8>>();
    let no_pages = [&sound[..4096], &noise(sound.len() - 4096)].concat();
    for (what, bytes) in [
        ("noise", noise(5000)),
        ("empty", Vec::new()),
        ("no pages", no_pages),
        ("cut", sound[..4096].to_vec()),
    ] {
        fs::write(&file, &bytes).unwrap();
        place.fanin(&["ps"]);
        let before = names();
        for words in [&["store", "repair", dir][..], &["store", "repair", "--accept-loss", dir]] {
            let told = place.fanin(words);
            assert_eq!(told.code, Some(70), "{what} {words:?}: {}{}", told.stdout, told.stderr);
            assert!(told.stdout.contains("remove the folder"), "{what}: {}{}", told.stdout, told.stderr);
            assert!(!told.stdout.contains("--accept-loss"), "{what}: {}", told.stdout);
            assert_eq!(names(), before, "{what} {words:?}");
            assert!(fs::read(&file).unwrap() == bytes, "{what} {words:?}: the store was changed");
        }
    }
}

#[test]
fn a_run_whose_store_is_a_copy_or_damaged_is_told_with_a_way_out_that_exists() {
    let place = Place::new();
    let id = place.killed();
    let (_, folder) = place.run();
    let dir = folder.to_str().unwrap();
    // Another file of the same content, and the first stays, so that its number is not given again.
    let file = folder.join("store.db");
    fs::rename(&file, place.path().join("original")).unwrap();
    fs::copy(place.path().join("original"), &file).unwrap();
    let refused = place.fanin(&["resume", &id]);
    assert_eq!(refused.code, Some(70), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("`fanin store adopt {dir}`")), "{}", refused.stderr);
    assert!(
        !refused.stderr.contains("--adopt") && !refused.stderr.contains("--no-store"),
        "{}",
        refused.stderr
    );
    assert!(place.shown(&["store", "adopt", dir]).ends_with("a store of its own\n"));
    let sound = fs::read(&file).unwrap();
    fs::write(&file, &sound[..sound.len() / 2]).unwrap();
    let refused = place.fanin(&["resume", &id]);
    assert_eq!(refused.code, Some(70), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("`fanin store repair {dir}`")), "{}", refused.stderr);
    assert!(!refused.stderr.contains("--no-store"), "{}", refused.stderr);
    fs::write(&file, &sound).unwrap();
    assert_eq!(place.fanin(&["resume", "--quiet", &id]).code, Some(1));
    assert_eq!((place.ran("second"), place.ran("fourth")), (1, 1));
}

// ST-4, B87: a store whose database was removed is damaged, and not none.
#[test]
fn a_database_that_is_gone_is_told() {
    let place = Place::new();
    place.killed();
    let (id, folder) = place.run();
    for file in ["store.db", "store.db-wal", "store.db-shm"] {
        fs::remove_file(folder.join(file)).unwrap();
    }
    for words in [&["store", "check"][..], &["resume"], &["ps"]] {
        let told = place.fanin(words);
        assert_eq!(told.code, Some(70), "{words:?}: {}{}", told.stdout, told.stderr);
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(said.contains(&id) && said.contains("its database is gone"), "{words:?}: {said}");
    }
}

// ST-3
#[test]
fn a_row_that_is_not_what_the_log_says_is_damage() {
    let place = Place::new();
    place.shown(&["run", "true", "echo"]);
    let (_, folder) = place.run();
    let dir = folder.to_str().unwrap();
    let mut journal = SqliteJournal::open(&folder, &Options::default()).unwrap();
    let opened = journal.load().unwrap();
    let mut jobs = opened.rows.iter().filter(|row| row.kind == RowKind::Job);
    let (one, two) = (jobs.next().unwrap(), jobs.next().unwrap());
    let planted = Row { body: two.body.clone(), ..one.clone() };
    // With the checksums of what was committed in order.
    let (after, rows) = (opened.head, vec![Change::Put(planted)]);
    journal.append(&Batch { after, epoch: after, rows, ..Batch::default() }).unwrap();
    Box::new(journal).close().unwrap();
    let checked = place.fanin(&["store", "check", dir]);
    assert_eq!(checked.code, Some(70), "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains("row job 0: it is not what the records say"), "{}", checked.stdout);
    // Nothing of it can be given up, and it is not called sound.
    for words in [&["store", "repair", dir][..], &["store", "repair", "--accept-loss", dir]] {
        let told = place.fanin(words);
        assert_eq!(told.code, Some(70), "{}{}", told.stdout, told.stderr);
        assert!(told.stdout.contains("goes by its rows"), "{}", told.stdout);
    }
}

#[test]
fn whoever_follows_the_records_is_told_that_the_supervisor_was_killed() {
    let place = Place::new();
    let (running, job, follow) = followed(&place);
    let (run, _) = place.run();
    let mut text = Running::start(fanin(place.path(), &["events", "--follow"]));
    let json = Running::start(fanin(place.path(), &["events", "--follow", "--json", "--from", "2"]));
    running.signal("KILL");
    running.end();
    follow.end();
    text.wait_for("error: ");
    let text = text.end();
    let said = format!(
        "error: group {run} was interrupted: its supervisor is gone; this goes on with it: fanin resume {run}\n"
    );
    let end = format!("{said}fanin: exit 1 (some_not_completed)\n");
    assert!(text.code == Some(1) && text.stderr.ends_with(&end), "{}", text.stderr);
    assert!(text.stdout.contains("run.started"), "{}", text.stdout);
    let json = json.end();
    let error: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!((json.code, &error["code"]), (Some(1), &"interrupted".into()));
    let mark: Value = serde_json::from_str(json.stdout.lines().last().unwrap()).unwrap();
    assert!(mark["mark"]["cursor"].is_string(), "{mark}");
    assert_eq!(place.fanin(&["events", "--follow", &job]).code, Some(1), "also where it was killed before");
    assert_eq!(place.shown(&["events", &job]), text.stdout, "a look alone is done");
    place.fanin(&["resume", "--quiet"]);
    assert!(place.shown(&["events", "--follow"]).contains("store.closed"));
}

#[test]
fn the_bytes_of_an_output_have_nothing_else_between_them() {
    let place = Place::new();
    place.shown(&["run", "yes a line of the middle | head -c 3000000; printf '\\377end'"]);
    let job = place.json(&["ps", "--all", "--json"])["jobs"][0]["job"].as_str().unwrap().to_owned();
    let mut command = fanin(place.path(), &["output", "--raw", &job]);
    let raw = command.output().unwrap();
    assert!(raw.status.success());
    assert!(!String::from_utf8_lossy(&raw.stdout).contains("left out"), "it is of the output alone");
    let said = String::from_utf8(raw.stderr).unwrap();
    let missing = 3_000_004 - raw.stdout.len();
    let expected = format!("fanin: warning: of the middle of this output {missing} bytes are left out\n");
    assert_eq!((said, raw.stdout.ends_with(b"\xffend")), (expected, true));
    assert!(place.shown(&["output", &job]).contains(&format!("[... {missing} bytes left out ...]")));
}

/// The time of a row of `ps`, which is `-` where nothing is known.
fn time_of<'p>(ps: &'p str, label: &str) -> &'p str {
    let row = ps.lines().find(|line| line.contains(label)).unwrap_or_else(|| panic!("no {label}: {ps}"));
    row.split_once(label).unwrap().1.split_whitespace().next().unwrap()
}

#[test]
fn what_is_at_work_has_a_time_that_goes_on_for_as_long_as_its_supervisor_lives() {
    let place = Place::new();
    let running = Running::start(fanin(place.path(), &[&["run", "-c", "2"], &FAN_OUT[..]].concat()));
    made(place.path(), "third");
    let ms = |time: &str| match time.strip_suffix("ms") {
        Some(ms) => ms.parse::<f64>().unwrap(),
        None => time.strip_suffix('s').unwrap().parse::<f64>().unwrap() * 1_000.0,
    };
    let first = ms(time_of(&place.shown(&["ps"]), "first"));
    let end = std::time::Instant::now() + crate::common::PATIENCE;
    while ms(time_of(&place.shown(&["ps"]), "first")) <= first {
        assert!(std::time::Instant::now() < end, "it stands at {first} ms");
    }
    let shown = place.shown(&["show"]);
    let row = shown.lines().find(|line| line.starts_with("first")).unwrap();
    let (_, state) = row.split_once("running (working) ").unwrap_or_else(|| panic!("{shown}"));
    assert!(ms(state) > first, "{shown}");
    assert_eq!(time_of(&place.shown(&["ps"]), "fourth"), "-", "what waits has none");
    running.signal("KILL");
    running.end();
    let dead = place.shown(&["ps"]);
    let known = time_of(&dead, "first");
    assert!(ms(known) > 0.0, "{dead}");
    assert_eq!(place.shown(&["ps"]), dead, "what is known of it goes no further");
    assert_eq!(place.shown(&["show"]), place.shown(&["show"]));
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
fn a_task_between_two_tries_waits_for_the_next_one_and_for_no_slot() {
    let place = Place::new();
    let manifest = "[[task]]\nid = 'flaky'\nshell = 'touch tried; exit 1'\nretries = 9\n";
    fs::write(place.path().join("m.toml"), manifest).unwrap();
    let running = Running::start(fanin(place.path(), &["run", "--file", "m.toml"]));
    made(place.path(), "tried");
    let end = std::time::Instant::now() + crate::common::PATIENCE;
    // It waits a second at first, and twice as long each time.
    let until = |words: &[&str], said: &str| loop {
        let shown = place.shown(words);
        if shown.contains(said) {
            return shown;
        }
        assert!(std::time::Instant::now() < end, "{words:?}: {shown}");
    };
    until(&["ps"], "queued (backoff)");
    let jobs: Value = serde_json::from_str(&until(&["ps", "--json"], r#""phase":"backoff""#)).unwrap();
    let job = jobs["jobs"][0]["job"].as_str().unwrap();
    until(&["why", job], &format!("{job}: waits before its next try; "));
    running.signal("KILL");
    running.end();
}

/// The folder of the only run beside these.
fn newest(place: &Place, known: &[&Path]) -> PathBuf {
    let runs = fs::read_dir(place.path().join(".state/runs")).unwrap();
    let mut new = runs.map(|run| run.unwrap().path()).filter(|run| !known.contains(&run.as_path()));
    let run = new.next().unwrap();
    assert!(new.next().is_none(), "more new runs than one");
    run
}

/// A run of one task that is killed.
fn killed_run(place: &Place, known: &[&Path]) -> PathBuf {
    let begun = place.path().join("begun");
    // It may be there from another.
    let _ = fs::remove_file(&begun);
    let running = Running::start(fanin(place.path(), &["run", "touch begun; exec sleep 1000"]));
    made(place.path(), "begun");
    running.signal("KILL");
    running.end();
    newest(place, known)
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

#[test]
fn a_run_without_a_store_says_why_nothing_is_there() {
    let place = Place::new();
    place.shown(&["run", "--no-store", "true"]);
    let (id, folder) = place.run();
    for words in [
        &["show"][..],
        &["show", &id],
        &["show", &id[4..10]],
        &["events"],
        &["store", "check", folder.to_str().unwrap()],
    ] {
        let told = place.fanin(words);
        assert_eq!(told.code, Some(2), "{words:?}: {}{}", told.stdout, told.stderr);
        assert!(
            told.stderr.contains(&id) && told.stderr.contains("--no-store"),
            "{words:?}: {}",
            told.stderr
        );
    }
    let all = place.shown(&["store", "check"]);
    assert_eq!(all, "no store to check: the runs that are kept (1) have none (--no-store)\n");
}

/// The ids in a text, however short.
fn ids(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_id =
        |word: &&str| ["job_", "grp_"].iter().any(|kind| word.starts_with(kind) && word.len() > kind.len());
    words.filter(is_id).map(ToOwned::to_owned).collect()
}

#[test]
fn every_id_that_is_printed_names_what_it_stands_for() {
    let place = Place::new();
    let mut told = String::new();
    let mut see = |words: &[&str]| {
        let ended = place.fanin(words);
        told.push_str(&ended.stdout);
        told.push_str(&ended.stderr);
        ended
    };
    let over = see(&["run", "echo fine", "yes | head -c 3000000; exit 3"]);
    let over_id = over.again()[2].to_owned();
    let first = newest(&place, &[]);
    let second = killed_run(&place, &[&first]);
    let second_id = second.file_name().unwrap().to_str().unwrap().to_owned();
    for words in [
        &["ps"][..],
        &["ps", "--all"],
        &["show"],
        &["show", &second_id],
        &["why", &second_id],
        &["events"],
        &["events", "--follow"],
    ] {
        see(words);
    }
    let third = killed_run(&place, &[&first, &second]);
    let job = place.json(&["ps", "--json"])["jobs"][0]["job"].as_str().unwrap().to_owned();
    for words in [
        &["show", &job][..],
        &["show", &over_id],
        &["why", &job],
        &["output", "--follow", &job],
        &["output", &second_id],
        &["events", &over_id],
        &["show", "grp_"],
        &["show", "grp_0"],
        &["run", "--again", "0000"],
        &["resume"],
        &["resume", &over_id],
        &["store", "check"],
        &["sanitize"],
        &["resume", &second_id],
        &["resume", "--quiet"],
        &["show", third.file_name().unwrap().to_str().unwrap()],
    ] {
        see(words);
    }
    let mut ids = ids(&told);
    ids.sort();
    ids.dedup();
    // What was asked for and is told back is no hint.
    ids.retain(|id| id != "grp_0");
    assert!(ids.len() > 8, "{told}");
    for id in ids {
        let shown = place.fanin(&["show", &id]);
        assert_eq!(shown.code, Some(0), "{id}: {}", shown.stderr);
        let digits = id.split_once('_').unwrap().1;
        assert_eq!(place.fanin(&["show", digits]).code, Some(0), "{digits}");
    }
}

#[test]
fn a_list_of_all_counts_as_lost_what_is_open_alone_and_names_the_way_on() {
    let place = Place::new();
    let id = place.killed();
    let one = format!("3 of them have lost their supervisor\nthis goes on with it: fanin resume {id}\n");
    assert!(place.shown(&["ps", "--all"]).ends_with(&one), "{}", place.shown(&["ps", "--all"]));
    let first = place.run().1;
    fs::remove_file(place.path().join("first")).unwrap();
    killed_run(&place, &[&first]);
    let several = "4 of them have lost their supervisor; `fanin resume` lists their runs\n";
    assert!(place.shown(&["ps", "--all"]).ends_with(several), "{}", place.shown(&["ps", "--all"]));
    let looked = place.fanin(&["sanitize"]).stdout;
    assert!(
        looked.contains(&format!("nothing was changed; this goes on with it: fanin resume {id}\n")),
        "{looked}"
    );
}
