//! `fanin sanitize`: what it finds where nobody told it to look, what it says, and what only a word more changes.

use std::fs;
use std::path::{Path, PathBuf};

use fanin_sanitize::testing::{self, Sample};
use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::{JobSpec, RunContext, Supervisor};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::common::{Ended, Running, fanin, made};

/// A home with a store of opencode in it.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new(sample: Option<Sample>) -> Self {
        let home = Self { folder: tempdir().unwrap() };
        if let Some(sample) = sample {
            fs::create_dir_all(home.store().parent().unwrap()).unwrap();
            testing::opencode(&home.store(), sample).unwrap();
        }
        home
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn store(&self) -> PathBuf {
        self.path().join("data/opencode/opencode.db")
    }

    fn sanitize(&self, words: &[&str]) -> Ended {
        let mut command = fanin(self.path(), &[&["sanitize"], words].concat());
        command.env("XDG_DATA_HOME", self.path().join("data")).env_remove("OPENCODE_DB");
        Running::start(command).end()
    }

    fn json(&self, words: &[&str]) -> (Option<i32>, Value) {
        let ended = self.sanitize(&[&["--json"], words].concat());
        let document = serde_json::from_str(&ended.stdout);
        (ended.code, document.unwrap_or_else(|_| panic!("{}{}", ended.stdout, ended.stderr)))
    }
}

fn bytes(home: &Home) -> Vec<u8> {
    fs::read(home.store()).unwrap()
}

#[test]
fn a_report_shows_each_session_and_changes_nothing() {
    let home = Home::new(Some(Sample::Killed));
    let before = bytes(&home);
    let ended = home.sanitize(&[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let store = home.store().display().to_string();
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], format!("opencode store {store}"));
    assert_eq!(
        lines[1..6],
        [
            "SESSION                        RUNNING PENDING MESSAGES  JOBS  TITLE",
            "ses_dd724b281ffeagD4c603KiExe9       3       0        1     1  t",
            "ses_dd724aa49ffeQCmenjEtqZsmwn       2       0        1     0  job c (@general…",
            "ses_dd724a9fcffepG8q2aVt4fTVFc       0       0        1     0  job s1 (@genera…",
            "ses_dd724a9ddffexnHQGZmjPj14uN       0       0        1     0  job s2 (@genera…",
        ]
    );
    assert_eq!(
        lines[6..],
        [
            "open in 4 of 4 sessions: 5 calls running, 0 pending, 4 messages without an end, 1 lost jobs",
            &format!("nothing was changed; this repairs it, with a backup: fanin sanitize --write {store}"),
        ]
    );
    assert!(lines[1..7].iter().all(|line| line.chars().count() <= 96));
    assert_eq!((ended.stderr.as_str(), bytes(&home)), ("fanin: exit 1 (some_not_completed)\n", before));
    assert_eq!(fs::read_dir(home.store().parent().unwrap()).unwrap().count(), 1, "no file was made");
}

#[test]
fn a_repair_is_counted_before_and_after_and_can_be_taken_back() {
    let home = Home::new(Some(Sample::Killed));
    let rows = testing::rows(&home.store()).unwrap();
    let (code, document) = home.json(&["--write"]);
    assert_eq!((code, &document["schema"]), (Some(0), &"fanin.sanitize/1".into()));
    let store = &document["stores"][0];
    let counts =
        |of: &Value| ["running", "pending", "messages", "jobs"].map(|kind| of[kind].as_u64().unwrap());
    assert_eq!((counts(&store["before"]), counts(&store["after"])), ([5, 0, 4, 1], [0; 4]));
    assert_eq!(store["version"], "20260622202450_simplify_session_input");
    assert_eq!(store["sessions"].as_array().unwrap().len(), 4);
    let backup = PathBuf::from(store["backup"].as_str().unwrap());
    assert_eq!(testing::rows(&backup).unwrap(), rows);
    let path = home.store().display().to_string();
    let again = home.sanitize(&["--write", &path]);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""));
    assert_eq!(again.stdout, format!("opencode store {path}\nnothing is left open in 4 sessions\n"));
    let undone = home.sanitize(&["--undo", &path]);
    assert_eq!(undone.code, Some(0), "{}", undone.stderr);
    assert!(
        undone.stdout.contains("11 rows are as they were before the repair, 0 were changed"),
        "{}",
        undone.stdout
    );
    assert_eq!(testing::rows(&home.store()).unwrap(), rows);
    let none = home.sanitize(&["--undo", &path]);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert!(none.stderr.contains("there is no backup of"), "{}", none.stderr);
}

#[test]
fn one_session_can_be_asked_for_and_one_that_is_nowhere_is_named() {
    let home = Home::new(Some(Sample::Killed));
    let (code, document) = home.json(&["--session", "ses_dd724aa49ffeQCmenjEtqZsmwn"]);
    assert_eq!((code, &document["stores"][0]["before"]["running"]), (Some(1), &2.into()));
    for words in [&["--session", "ses_x"][..], &["--session", "ses_x", home.store().to_str().unwrap()]] {
        let ended = home.sanitize(words);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("ses_x"), "{}", ended.stderr);
    }
}

#[test]
fn a_rollout_is_repaired_by_its_name() {
    let home = Home::new(None);
    let path = home.path().join("rollout-one.jsonl");
    testing::codex(&path).unwrap();
    let named = path.to_str().unwrap();
    let (code, document) = home.json(&[named]);
    assert_eq!((code, &document["stores"][0]["before"]["running"]), (Some(1), &2.into()));
    assert_eq!(document["stores"][0]["format"], "codex");
    let before = fs::read_to_string(&path).unwrap();
    assert_eq!(home.json(&["--write", named]).1["stores"][0]["after"]["running"], 0);
    assert_eq!(home.sanitize(&["--undo", named]).code, Some(0));
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}

/// The exit code of a report, what the store is, and its calls and jobs that are open.
fn told(home: &Home, store: &Path) -> Value {
    let (code, document) = home.json(&[store.to_str().unwrap()]);
    let store = &document["stores"][0];
    let before = &store["before"];
    serde_json::json!([code, store["format"], before["running"], before["pending"], before["jobs"]])
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_program_that_died_are_counted_and_closed_by_its_own_recovery() {
    let home = Home::new(None);
    let (live, dead) = (home.path().join("live"), home.path().join("dead"));
    let journal = SqliteJournal::open(&live, &Options::default()).unwrap();
    let supervisor = Supervisor::builder().journal(journal).start().await.unwrap();
    let session = supervisor.session("main").await.unwrap();
    let (begun, is_begun) = tokio::sync::oneshot::channel();
    let body = |job: RunContext| async move {
        let _waits = job.tool("waits", "read");
        let runs = job.tool("runs", "write");
        runs.begin();
        begun.send(()).unwrap();
        job.cancelled().await;
        Ok("".into())
    };
    session.start(JobSpec::run("scan", body)).await.unwrap();
    is_begun.await.unwrap();
    // Behind it in the one order of commits, so that its calls are on disk.
    session.post("next", None).await.unwrap();
    assert_eq!(told(&home, &live), serde_json::json!([0, "fanin", 0, 0, 0]), "what runs is not lost");
    // As a crash leaves it.
    fs::create_dir(&dead).unwrap();
    for file in ["store.db", "store.db-wal", "hwm"] {
        fs::copy(live.join(file), dead.join(file)).unwrap();
    }
    assert_eq!(told(&home, &dead), serde_json::json!([1, "fanin", 1, 1, 1]));
    let written = home.sanitize(&["--write", dead.to_str().unwrap()]);
    assert_eq!(written.code, Some(2), "{}", written.stdout);
    assert!(written.stderr.contains("the program that made it"), "{}", written.stderr);
    supervisor.shutdown().await;
    assert_eq!(told(&home, &live), serde_json::json!([0, "fanin", 0, 0, 0]));
}

#[test]
fn where_there_is_nothing_it_says_so() {
    let home = Home::new(None);
    let ended = home.sanitize(&[]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.starts_with("no store of a known kind"), "{}", ended.stdout);
    assert_eq!(home.json(&[]).1["stores"], Value::Array(Vec::new()));
}

#[test]
fn a_variable_that_names_no_file_is_told() {
    let home = Home::new(Some(Sample::Killed));
    for word in ["--write", "--json"] {
        let mut command = fanin(home.path(), &["sanitize", word]);
        command.env("XDG_DATA_HOME", home.path().join("data")).env("OPENCODE_DB", "/no/such.db");
        let ended = Running::start(command).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("no store at /no/such.db, which $OPENCODE_DB names"),
            "{}",
            ended.stderr
        );
        assert_eq!(
            ended.stderr.contains(r#""code":"sanitize_not_there""#),
            word == "--json",
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn what_is_refused_has_a_code_and_a_name() {
    let home = Home::new(Some(Sample::Killed));
    let file = |name: &str, bytes: &[u8]| {
        let path = home.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let newer = home.path().join("newer.db");
    testing::opencode(&newer, Sample::Killed).unwrap();
    testing::change(&newer, "INSERT INTO migration VALUES('20991231235959_later', 1)").unwrap();
    let damaged = home.path().join("damaged.db");
    testing::opencode(&damaged, Sample::Killed).unwrap();
    let mut content = fs::read(&damaged).unwrap();
    content.truncate(content.len() / 2);
    fs::write(&damaged, content).unwrap();
    for (path, exit, code) in [
        (file("empty.db", b""), 2, "sanitize_empty"),
        (file("notes.txt", b"not a database, but text"), 2, "sanitize_unknown"),
        (home.path().join("gone.db").display().to_string(), 2, "sanitize_none"),
        (newer.display().to_string(), 2, "sanitize_version"),
        (damaged.display().to_string(), 70, "sanitize_damaged"),
    ] {
        let before = fs::read(&path).ok();
        let ended = home.sanitize(&["--json", "--write", &path]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(exit), ""), "{path}: {}", ended.stderr);
        let error: Value = serde_json::from_str(&ended.stderr).unwrap();
        assert_eq!(error["code"], code);
        assert_eq!(fs::read(&path).ok(), before, "{path} was touched");
    }
    let both = home.sanitize(&["--undo"]);
    assert_eq!(both.code, Some(2), "one store is taken back by its name: {}", both.stderr);
}

#[test]
fn a_store_that_cannot_be_read_does_not_hide_another() {
    let home = Home::new(Some(Sample::Killed));
    fs::write(home.store().with_file_name("opencode-dev.db"), b"no database").unwrap();
    let ended = home.sanitize(&[]);
    assert_eq!(ended.code, Some(70), "{}", ended.stdout);
    assert!(ended.stdout.contains("5 calls running") && ended.stdout.contains("error: "), "{}", ended.stdout);
}

#[test]
fn a_run_that_was_killed_is_counted_and_its_own_recovery_is_named() {
    let home = Home::new(None);
    let words = ["run", "touch here; exec sleep 1000"];
    let running = Running::start(fanin(home.path(), &words));
    made(home.path(), "here");
    let live = home.sanitize(&[]);
    assert_eq!(live.code, Some(0), "what runs is not lost: {}{}", live.stdout, live.stderr);
    assert!(live.stdout.contains("in use by process "), "{}", live.stdout);
    running.signal("KILL");
    running.end();
    let (code, document) = home.json(&[]);
    let store = &document["stores"][0];
    assert_eq!((code, &store["format"], &store["before"]["jobs"]), (Some(1), &"fanin".into(), &1.into()));
    let written = home.sanitize(&["--write", store["path"].as_str().unwrap()]);
    assert_eq!(written.code, Some(2), "{}", written.stdout);
    assert!(written.stderr.contains("`fanin resume grp_"), "{}", written.stderr);
    let resumed = Running::start(fanin(home.path(), &["resume", "--quiet"])).end();
    assert_eq!(resumed.code, Some(1), "{}", resumed.stderr);
    let (code, document) = home.json(&[]);
    assert_eq!((code, &document["stores"]), (Some(0), &Value::Array(Vec::new())));
}

/// What a terminal would take for something else than text.
fn is_control(c: char) -> bool {
    (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c)
}

#[test]
fn nothing_but_text_reaches_the_terminal_whatever_files_and_sessions_are_called() {
    let evil = "\x1b]0;owned\x07\x1b[31mred\u{202e}\nfanin: exit 0 (done) \u{9b}2J";
    let mut home = Home::new(None);
    home.folder = tempfile::Builder::new().prefix(evil).tempdir().unwrap();
    fs::create_dir_all(home.store().parent().unwrap()).unwrap();
    testing::opencode(&home.store(), Sample::Killed).unwrap();
    let sql = evil.replace('\'', "''");
    testing::change(&home.store(), &format!("PRAGMA foreign_keys = OFF; UPDATE part SET session_id = session_id || '{sql}'; UPDATE session SET title = '{sql}', id = id || '{sql}'"))
        .unwrap();
    let newer = home.path().join("newer.db");
    testing::opencode(&newer, Sample::Killed).unwrap();
    testing::change(&newer, &format!("INSERT INTO migration VALUES('2099{sql}', 1)")).unwrap();
    let damaged = home.path().join("damaged.db");
    testing::opencode(&damaged, Sample::Killed).unwrap();
    testing::change(&damaged, &format!("UPDATE part SET id = id || '{sql}', data = '{{'")).unwrap();
    let other = home.path().join("notes");
    fs::write(&other, "text").unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let store = path(&home.store());
    for words in [
        vec![store.clone()],
        vec!["--write".into(), store.clone()],
        vec!["--write".into(), "--force".into(), store.clone()],
        vec!["--undo".into(), store.clone()],
        vec!["--undo".into(), store.clone()],
        vec!["--session".into(), evil.to_owned(), store],
        vec!["--session".into(), evil.to_owned()],
        vec![path(&newer)],
        vec![path(&damaged)],
        vec![path(&other)],
        vec![format!("{evil}.gone")],
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = home.sanitize(&words);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!said.is_empty() && !said.contains(is_control), "{words:?}: {said:?}");
        let faked = said.lines().filter(|line| line.starts_with("fanin: exit 0"));
        assert_eq!(faked.count(), 0, "{words:?}: {said}");
    }
    for words in
        [["store", "check"], ["store", "repair"], ["show", "--store"], ["run", "--file"], ["run", "--cwd"]]
    {
        let place = path(home.path());
        let ended = Running::start(fanin(home.path(), &[&words[..], &[&place]].concat())).end();
        assert!(!ended.stderr.contains(is_control), "{words:?}: {:?}", ended.stderr);
        assert_ne!(ended.code, Some(0), "{words:?}");
    }
}

#[test]
fn the_command_that_is_named_works_as_it_is_written_whatever_the_path() {
    let mut home = Home::new(None);
    home.folder = tempfile::Builder::new().prefix("it's a \"home\" $HOME \t").tempdir().unwrap();
    fs::create_dir_all(home.store().parent().unwrap()).unwrap();
    testing::opencode(&home.store(), Sample::Killed).unwrap();
    let mut words = vec!["sanitize".to_owned()];
    for named in ["fanin sanitize --write ", "fanin sanitize --undo "] {
        let mut command = std::process::Command::new("bash");
        let program = env!("CARGO_BIN_EXE_fanin");
        let line = words.join(" ");
        command.args(["-c", &format!("'{program}' {line}")]).current_dir(home.path());
        command.env("XDG_DATA_HOME", home.path().join("data")).env_remove("OPENCODE_DB");
        command.env("FANIN_STATE_DIR", home.path().join(".state"));
        let ended = Running::start(command).end();
        let at =
            ended.stdout.find(named).unwrap_or_else(|| panic!("{line}: {}{}", ended.stdout, ended.stderr));
        let hint = ended.stdout[at..].lines().next().unwrap();
        words = vec![hint.strip_prefix("fanin ").unwrap().to_owned()];
    }
    assert!(home.json(&[]).1["stores"][0]["before"]["running"] == 0, "it was repaired");
}
