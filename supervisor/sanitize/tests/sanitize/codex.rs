//! Rollouts of Codex: a call without an output gets one, behind all that is there.

use std::fs;
use std::path::PathBuf;

use fanin_sanitize::{
    Codex, Format, INTERRUPTED, Only, OpenCode, Options, Repaired, SanitizeError, repair, report, testing,
    undo,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{NOW, counts};

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        testing::codex(&place.store()).unwrap();
        place
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("rollout-one.jsonl")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.store()).unwrap()
    }

    fn add(&self, more: &str) {
        fs::write(self.store(), format!("{}{more}", self.text())).unwrap();
    }

    fn repair(&self) -> Result<Repaired, SanitizeError> {
        repair(&Codex, &self.store(), &Options { only: Only::All, force: false, now_ms: NOW })
    }
}

#[test]
fn each_open_call_gets_an_output_and_every_other_line_stays() {
    let place = Place::new();
    let before = place.text();
    assert!(Codex.is_one(&place.store()).unwrap() && !OpenCode.is_one(&place.store()).unwrap());
    let repaired = place.repair().unwrap();
    assert_eq!((repaired.before.counts(), repaired.after), (counts(2, 0, 0, 0), counts(0, 0, 0, 0)));
    let after = place.text();
    let added: Vec<Value> = after
        .strip_prefix(&before)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last: Value = serde_json::from_str(before.lines().last().unwrap()).unwrap();
    let calls = before.lines().filter(|line| line.contains("\"function_call\"")).map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["payload"]["call_id"].clone()
    });
    for ((line, call), ordinal) in added.iter().zip(calls).zip(last["ordinal"].as_u64().unwrap() + 1..) {
        assert_eq!((&line["type"], &line["ordinal"]), (&"response_item".into(), &ordinal.into()));
        assert_eq!(
            (&line["payload"]["type"], &line["payload"]["call_id"]),
            (&"function_call_output".into(), &call)
        );
        assert_eq!(
            (&line["payload"]["output"], &line["timestamp"]),
            (&INTERRUPTED.into(), &"2027-01-15T08:00:00.000Z".into())
        );
    }
    assert_eq!(added.len(), 2);
    assert_eq!(fs::read_to_string(repaired.backup.unwrap()).unwrap(), before);
    assert_eq!(place.repair().unwrap().backup, None);
    assert_eq!(place.text(), after);
    assert_eq!(undo(&Codex, &place.store(), false).unwrap().restored, 2);
    assert_eq!(place.text(), before);
}

#[test]
fn a_rollout_that_went_on_keeps_its_repair() {
    let place = Place::new();
    place.repair().unwrap();
    place.add("{\"timestamp\":\"2027-01-15T08:00:01.000Z\",\"ordinal\":14,\"type\":\"later\"}\n");
    let after = place.text();
    let undone = undo(&Codex, &place.store(), false).unwrap();
    assert_eq!((undone.restored, undone.kept), (0, 2));
    assert_eq!(place.text(), after);
}

#[test]
fn a_call_that_has_its_output_is_not_open() {
    let place = Place::new();
    let call = place.text().split("\"call_id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    place.add(&format!(
        "{{\"timestamp\":\"2026-12-01T00:00:00.000Z\",\"ordinal\":12,\"type\":\"response_item\",\
         \"payload\":{{\"type\":\"function_call_output\",\"call_id\":\"{call}\",\"output\":\"x\"}}}}\n"
    ));
    let scan = report(&Codex, &place.store(), &Only::All).unwrap();
    assert_eq!(scan.counts(), counts(1, 0, 0, 0));
}

#[test]
fn what_is_cut_damaged_or_of_another_version_is_refused_and_stays() {
    let newer = Place::new();
    fs::write(newer.store(), newer.text().replace("\"0.171.0\"", "\"9.0.0\"")).unwrap();
    let cut = Place::new();
    cut.add("{\"timestamp\":\"2026");
    let damaged = Place::new();
    damaged.add("no json\n");
    for (place, code, said) in [
        (newer, "sanitize_version", "9.0.0; known are 0.171.0 (of Codex)"),
        (cut, "sanitize_damaged", "its last line, 13, is cut"),
        (damaged, "sanitize_damaged", "line 13"),
    ] {
        let before = place.text();
        let error = place.repair().unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!((place.text(), fs::read_dir(place.folder.path()).unwrap().count()), (before, 1));
    }
}
