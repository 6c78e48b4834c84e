//! A rollout that the real Codex makes: killed with two commands at work, repaired, and resumed by it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use fanin_sanitize::{Codex, INTERRUPTED, Only, SanitizeError, report, undo};

use crate::agent::{Place, until};
use crate::sanitize::repaired;

/// The only rollout below a folder.
fn rollout(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            rollout(&path)
        } else {
            path.extension().is_some_and(|end| end == "jsonl").then_some(path)
        }
    })
}

fn running(path: &Path) -> Result<usize, SanitizeError> {
    report(&Codex, path, &Only::All).map(|scan| scan.counts().running)
}

fn start(place: &Place, words: &[&str]) -> Child {
    let mut command = place.command();
    command.args(["exec"]).args(words).stdout(Stdio::null());
    command.stderr(fs::File::create(place.path("tmp/stderr")).unwrap()).spawn().unwrap()
}

/// Has Codex go on with its last session, and answers what the model was asked.
fn resumed(place: &Place, words: &str) -> String {
    let mut codex = start(place, &["resume", "--last", "--skip-git-repo-check", words]);
    let is_well = codex.wait().unwrap().success();
    assert!(is_well, "{}", fs::read_to_string(place.path("tmp/stderr")).unwrap());
    place.model.last(words)
}

#[test]
fn a_rollout_of_the_real_codex_that_was_killed_is_repaired_and_goes_on() {
    let Some(place) = Place::new("FANIN_CODEX") else { return };
    let mut codex = start(&place, &["--skip-git-repo-check", "COMMANDS go"]);
    let sessions = place.path("home/.codex/sessions");
    // While it is written its last line may be half there.
    until("two commands", || {
        rollout(&sessions).is_some_and(|path| running(&path).is_ok_and(|calls| calls == 2))
    });
    let path = rollout(&sessions).unwrap();
    assert_eq!(repaired(&Codex, &path).unwrap_err().code(), "sanitize_in_use");
    codex.kill().unwrap();
    codex.wait().unwrap();
    let killed = fs::read_to_string(&path).unwrap();
    is_repaired_and_goes_on(&place, &path);
    // And where it had gone on without a repair.
    fs::write(&path, killed).unwrap();
    assert_eq!(resumed(&place, "HELLO first").matches("aborted").count(), 2);
    is_repaired_and_goes_on(&place, &path);
}

fn is_repaired_and_goes_on(place: &Place, path: &Path) {
    let before = fs::read_to_string(path).unwrap();
    let done = repaired(&Codex, path).unwrap();
    assert_eq!((done.before.counts().running, done.before.counts().total(), done.after.total()), (2, 2, 0));
    assert_eq!(fs::read_to_string(path).unwrap().strip_prefix(&before).unwrap().lines().count(), 2);
    assert_eq!(repaired(&Codex, path).unwrap().backup, None);

    let asked = resumed(place, "HELLO again");
    assert_eq!(asked.matches(INTERRUPTED).count(), 2, "{asked}");
    assert!(!asked.contains("aborted"), "Codex has nothing to add of its own: {asked}");
    let after = fs::read_to_string(path).unwrap();
    assert!(after.contains("AFTER ok"));
    assert_eq!(undo(&Codex, path, false).unwrap().kept, 2);
    assert_eq!(fs::read_to_string(path).unwrap(), after);
}
