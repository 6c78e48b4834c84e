//! A folder to run in, and runs in it that are at work, or were killed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::common::{Ended, Running, fanin, made};

/// A folder to run in, with the state folder below it.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn fanin(&self, words: &[&str]) -> Ended {
        Running::start(fanin(self.path(), words)).end()
    }

    /// What `fanin` with these words prints, which must succeed.
    pub(crate) fn shown(&self, words: &[&str]) -> String {
        let ended = self.fanin(words);
        assert_eq!(ended.code, Some(0), "{words:?}: {}{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.shown(words)).unwrap()
    }

    /// The only run that is kept.
    pub(crate) fn run(&self) -> (String, PathBuf) {
        let mut runs = fs::read_dir(self.path().join(".state/runs")).unwrap();
        let run = runs.next().unwrap().unwrap();
        assert!(runs.next().is_none(), "more runs than one");
        (run.file_name().into_string().unwrap(), run.path())
    }

    /// How often a task has run that adds a line to this file each time.
    pub(crate) fn ran(&self, name: &str) -> usize {
        fs::read_to_string(self.path().join(name)).map_or(0, |text| text.lines().count())
    }

    /// A run of four tasks, two at a time, that is killed once one of them is over and another has begun in its place.
    pub(crate) fn killed(&self) -> String {
        let running = Running::start(fanin(self.path(), &[&["run", "-c", "2"], &FAN_OUT[..]].concat()));
        made(self.path(), "third");
        running.signal("KILL");
        running.end();
        self.run().0
    }
}

/// Tasks of which the first goes on for ever, and the last waits for the third, which does so too.
pub(crate) const FAN_OUT: [&str; 8] = [
    "--task",
    "first=touch first; exec sleep 1000",
    "--task",
    "second=echo fine; echo x >> second",
    "--task",
    "third=touch third; exec sleep 1000",
    "--task",
    "fourth=echo late; echo x >> fourth",
];

pub(crate) fn statuses(jobs: &Value) -> Vec<(&str, &str)> {
    let jobs = jobs["jobs"].as_array().unwrap().iter();
    jobs.map(|job| (job["label"].as_str().unwrap(), job["status"].as_str().unwrap())).collect()
}

/// A task that says `one`, and `two` and `three` once these files are there.
pub(crate) const SAYS: [&str; 3] = [
    "run",
    "--task",
    "t=echo one; touch begun; until test -e second; do sleep 0.02; done; echo two; until test -e third; do sleep 0.02; \
     done; echo three",
];

/// A run of it that is at work, its job, and somebody who follows that and has seen the first line.
pub(crate) fn followed(place: &Place) -> (Running, String, Running) {
    let running = Running::start(fanin(place.path(), &SAYS));
    made(place.path(), "begun");
    let job = place.json(&["ps", "--json"])["jobs"][0]["job"].as_str().unwrap().to_owned();
    let mut follow = Running::start(fanin(place.path(), &["output", "--follow", &job]));
    follow.shows("one\n");
    (running, job, follow)
}

/// The folder of the only run beside these.
pub(crate) fn newest(place: &Place, known: &[&Path]) -> PathBuf {
    let runs = fs::read_dir(place.path().join(".state/runs")).unwrap();
    let mut new = runs.map(|run| run.unwrap().path()).filter(|run| !known.contains(&run.as_path()));
    let run = new.next().unwrap();
    assert!(new.next().is_none(), "more new runs than one");
    run
}

/// A run of one task that is killed.
pub(crate) fn killed_run(place: &Place, known: &[&Path]) -> PathBuf {
    let begun = place.path().join("begun");
    // It may be there from another.
    let _ = fs::remove_file(&begun);
    let running = Running::start(fanin(place.path(), &["run", "touch begun; exec sleep 1000"]));
    made(place.path(), "begun");
    running.signal("KILL");
    running.end();
    newest(place, known)
}
