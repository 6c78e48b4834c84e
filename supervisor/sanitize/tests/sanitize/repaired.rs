//! What is found and what becomes of it, in stores with the rows of real ones.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use fanin_sanitize::testing::{self, Sample};
use fanin_sanitize::{INTERRUPTED, Only, OpenCode, Options, repair};
use serde_json::Value;

use crate::common::{NOW, Place, counts};

/// Sessions of the sample.
const PARENT: &str = "ses_dd724b281ffeagD4c603KiExe9";
const CHILD: &str = "ses_dd724aa49ffeQCmenjEtqZsmwn";
const LOST: &str = "ses_dd724a9ddffexnHQGZmjPj14uN";

fn parts(place: &Place) -> Vec<(String, Value)> {
    cells(place, "part|", 5)
}

fn cells(place: &Place, table: &str, data: usize) -> Vec<(String, Value)> {
    let rows = place.rows();
    let rows = rows.iter().filter_map(|row| row.strip_prefix(table));
    rows.map(|row| {
        let cells: Vec<&str> = row.splitn(data + 1, '|').collect();
        (cells[0].to_owned(), serde_json::from_str(cells[data]).unwrap())
    })
    .collect()
}

/// A part of the killed sample that was cut while its arguments came.
const PENDING: &str = r#"INSERT INTO part VALUES('prt_pending', 'msg_228db51b7001Bdm8CTCKjjEnJ0',
    'ses_dd724b281ffeagD4c603KiExe9', 1795981793000, 1795981793000,
    '{"type":"tool","tool":"bash","callID":"call_p","state":{"status":"pending","input":{},"raw":""}}')"#;

#[test]
fn every_kind_is_found_and_counted() {
    let place = Place::new(Sample::Killed);
    place.change(PENDING);
    assert_eq!(place.counts(), counts(5, 1, 4, 1));
    assert_eq!(Place::new(Sample::Completed).counts(), counts(0, 0, 0, 0));
    assert_eq!(Place::new(Sample::Empty).counts(), counts(0, 0, 0, 0));
}

#[test]
fn a_repair_leaves_nothing_open_and_every_other_row_as_it_was() {
    let place = Place::new(Sample::Killed);
    place.change(PENDING);
    let before = place.rows();
    let repaired = place.repair().unwrap();
    assert_eq!((repaired.before.counts(), repaired.after), (counts(5, 1, 4, 1), counts(0, 0, 0, 0)));
    assert_eq!(place.counts(), counts(0, 0, 0, 0));
    let after = place.rows();
    let gone: Vec<_> = before.difference(&after).collect();
    let new: Vec<_> = after.difference(&before).collect();
    // Six calls and four messages changed, a message with one part added.
    assert_eq!((gone.len(), new.len()), (10, 12), "{gone:#?}\n{new:#?}");
    let launch = before.iter().find(|row| row.contains(r#""background":true,"jobId""#)).unwrap();
    assert!(after.contains(launch), "the call that launched the lost job is as it was");
    let again = place.files();
    let second = place.repair().unwrap();
    assert_eq!((second.before.counts().total(), second.backup), (0, None));
    assert_eq!(place.files(), again, "the second repair changes nothing at all");
}

#[test]
fn each_call_keeps_the_four_invariants_and_names_its_subagent() {
    let place = Place::new(Sample::Killed);
    place.change(PENDING);
    let was: Vec<_> = parts(&place).into_iter().filter(|(_, part)| is_open(part)).collect();
    place.repair().unwrap();
    let now = parts(&place);
    assert!(!now.iter().any(|(_, part)| is_open(part)));
    for (id, was) in &was {
        let (_, part) = now.iter().find(|(now, _)| now == id).unwrap();
        let state = &part["state"];
        assert_eq!((&state["status"], &state["metadata"]["interrupted"]), (&"error".into(), &true.into()));
        let (start, end) = (state["time"]["start"].as_u64().unwrap(), state["time"]["end"].as_u64().unwrap());
        assert_eq!(end, NOW.max(start));
        let old = &was["state"];
        match old["time"]["start"].as_u64() {
            Some(old) => assert_eq!(start, old, "{id}"),
            None => assert_eq!(start, 1_795_981_793_000, "a call without a time began when its row was made"),
        }
        assert_eq!((&state["input"], &state["title"]), (&old["input"], &old["title"]), "{id}");
        let text = state["error"].as_str().unwrap();
        assert!(text.starts_with(INTERRUPTED), "{text}");
        match old["metadata"]["sessionId"].as_str() {
            Some(child) => assert!(text.ends_with(&format!("session {child}")), "{text}"),
            None => assert_eq!(text, INTERRUPTED),
        }
    }
    assert_eq!(was.len(), 6);
}

fn is_open(part: &Value) -> bool {
    ["running", "pending"].iter().any(|status| part["state"]["status"] == *status)
}

#[test]
fn a_session_is_told_of_its_lost_job_behind_all_that_it_has() {
    let place = Place::new(Sample::Killed);
    let before: BTreeSet<String> = parts(&place).into_iter().map(|(id, _)| id).collect();
    place.repair().unwrap();
    let added: Vec<_> = parts(&place).into_iter().filter(|(id, _)| !before.contains(id)).collect();
    let [(part, content)] = &added[..] else { panic!("{added:?}") };
    assert!(before.iter().all(|id| id < part), "{part} is the last");
    assert_eq!((&content["type"], &content["synthetic"]), (&"text".into(), &true.into()));
    let text = content["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("<task id=\"{LOST}\" state=\"error\">\n")), "{text}");
    assert!(text.contains("<summary>Background task failed: job s2</summary>") && text.contains(INTERRUPTED));
    let messages = cells(&place, "message|", 4);
    let (id, message) = messages.last().unwrap();
    assert!(
        place.rows().contains(&format!("part|{part}|{id}|{PARENT}|{NOW}|{NOW}|{content}")) || text.len() > 50
    );
    assert_eq!((&message["role"], &message["agent"]), (&"user".into(), &"build".into()));
    assert_eq!((&message["model"]["modelID"], &message["time"]["created"]), (&"mock-1".into(), &NOW.into()));
    let completed: Vec<_> = messages.iter().filter(|(_, m)| !m["error"].is_null()).collect();
    assert_eq!(completed.len(), 4);
    assert!(
        completed
            .iter()
            .all(|(_, m)| m["error"]["name"] == "MessageAbortedError" && m["time"]["completed"] == NOW)
    );
}

#[test]
fn a_job_whose_end_was_told_or_that_was_stopped_is_not_lost() {
    let told = Place::new(Sample::Completed);
    // Its notice is gone: the job is lost. That is what the three of the sample have.
    told.change("DELETE FROM part WHERE id = 'prt_228d3f0a4001Nx9Vg7LnkUz3lA'");
    assert_eq!(told.counts(), counts(0, 0, 0, 1));
    // A notice that only a user wrote tells nothing.
    told.change(
        r#"INSERT INTO part VALUES('prt_z', 'msg_228d3f09c001u2MjwCH7V0sm5P', 'ses_dd72c368dffeOCasg31xAlQv0S', 9999999999999,
        9999999999999, '{"type":"text","text":"<task id=\"ses_dd72c1bb3ffe38OE1H0kdCmMrh\" state=\"completed\">"}')"#,
    );
    assert_eq!(told.counts(), counts(0, 0, 0, 1));
    // One that came before the launch tells of an earlier one.
    told.change(
        r#"INSERT INTO part VALUES('prt_a', 'msg_228d3f09c001u2MjwCH7V0sm5P', 'ses_dd72c368dffeOCasg31xAlQv0S', 1, 1,
        '{"type":"text","synthetic":true,"text":"<task id=\"ses_dd72c1bb3ffe38OE1H0kdCmMrh\" state=\"completed\">"}')"#,
    );
    assert_eq!(told.counts(), counts(0, 0, 0, 1));
    let stopped = r#"UPDATE message SET data = json_set(data, '$.error', json('{"name":"MessageAbortedError","data":{"message":"Aborted"}}'))
        WHERE session_id = 'ses_dd72c1bb3ffe38OE1H0kdCmMrh' AND data ->> '$.role' = 'assistant'"#;
    told.change(stopped);
    assert_eq!(told.counts(), counts(0, 0, 0, 0), "whoever stopped it knows");
}

#[test]
fn a_repair_of_the_child_alone_does_not_hide_that_its_parent_was_not_told() {
    let place = Place::new(Sample::Killed);
    place.repair_only(Only::Session(LOST)).unwrap();
    assert_eq!(place.counts(), counts(5, 0, 3, 1));
}

#[test]
fn only_the_session_that_is_named_is_repaired_with_those_below_it() {
    let place = Place::new(Sample::Killed);
    let repaired = place.repair_only(Only::Session(CHILD)).unwrap();
    assert_eq!((repaired.before.counts(), repaired.after), (counts(2, 0, 1, 0), counts(0, 0, 0, 0)));
    assert_eq!(place.counts(), counts(3, 0, 3, 1));
    let rest = place.repair_only(Only::Session(PARENT)).unwrap();
    assert_eq!(rest.before.counts(), counts(3, 0, 3, 1));
    assert_eq!(place.counts().total(), 0);
}

#[test]
fn what_this_program_does_not_know_is_carried_through() {
    let place = Place::new(Sample::Killed);
    place.change(
        r#"ALTER TABLE part ADD COLUMN later TEXT DEFAULT 'kept';
        UPDATE part SET data = json_set(data, '$.later', json('{"n":1.50,"deep":[1e3]}'), '$.state.later', 12345678901234567890.5),
        later = id WHERE id = 'prt_228db5598001kO2JECnjZMdoS6'"#,
    );
    place.repair().unwrap();
    let rows = place.rows();
    let row = rows.iter().find(|row| row.starts_with("part|prt_228db5598001kO2JECnjZMdoS6")).unwrap();
    assert!(row.contains(r#""later":{"n":1.50,"deep":[1e3]}"#), "{row}");
    assert!(row.ends_with("|prt_228db5598001kO2JECnjZMdoS6") && row.contains(r#""status":"error""#), "{row}");
}

#[test]
fn undo_gives_back_every_row_and_what_came_after_stays() {
    let place = Place::new(Sample::Killed);
    let before = place.rows();
    let repaired = place.repair().unwrap();
    let backup = repaired.backup.unwrap();
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(backup.parent().unwrap(), place.folder());
    assert_eq!(testing::rows(&backup).unwrap(), before, "the backup has what was there");
    place.change("UPDATE session SET title = 'later' WHERE id = 'ses_dd724b281ffeagD4c603KiExe9'");
    place.change(
        "UPDATE part SET data = json_set(data, '$.later', 1) WHERE id = 'prt_228db5598001kO2JECnjZMdoS6'",
    );
    let undone = place.undo().unwrap();
    assert_eq!((undone.restored, undone.kept), (10, 1));
    let after = place.rows();
    let changed: Vec<_> = after.difference(&before).map(|row| row.split('|').next().unwrap()).collect();
    assert_eq!(changed, ["part", "session"]);
    assert!(undone.backup.exists() && !backup.exists());
    assert!(place.undo().is_err(), "it is taken back once");
}

#[test]
fn undo_goes_back_repair_by_repair() {
    let place = Place::new(Sample::Killed);
    let before = place.rows();
    place.repair_only(Only::Session(CHILD)).unwrap();
    let between = place.rows();
    // The time is the same; the name of the second backup is another.
    place.repair().unwrap();
    place.undo().unwrap();
    assert_eq!(place.rows(), between);
    place.undo().unwrap();
    assert_eq!(place.rows(), before);
}

#[test]
fn a_clock_that_stands_before_the_store_makes_no_end_before_its_start() {
    let place = Place::new(Sample::Killed);
    repair(&OpenCode, &place.store(), &Options { only: Only::All, force: false, now_ms: 5 }).unwrap();
    assert_eq!(place.counts().total(), 0);
    for (id, part) in parts(&place) {
        let time = &part["state"]["time"];
        if let (Some(start), Some(end)) = (time["start"].as_u64(), time["end"].as_u64()) {
            assert!(end >= start, "{id}: {part}");
        }
    }
}

/// Times of calls and of a message that JavaScript would have rounded, or never written: each as it is written in the store.
#[test]
fn no_end_is_before_a_start_however_late_and_however_it_is_written() {
    for start in ["9007199254740993", "9007199254740992.9", "18446744073709551615", "1.5e19", "1e300", "-5"] {
        let place = Place::new(Sample::Empty);
        place.change(&format!(
            r#"INSERT INTO project(id, worktree, sandboxes, time_created, time_updated) VALUES('p', '/p', '[]', 1, 1);
            INSERT INTO session(id, project_id, slug, directory, title, version, time_created, time_updated)
            VALUES('ses_1', 'p', 'one', '/p', 'one', '1.18.33', 1, 1);
            INSERT INTO message VALUES('msg_1', 'ses_1', 1, 1,
            '{{"role":"assistant","agent":"a","time":{{"created":{start}}}}}');
            INSERT INTO part VALUES('prt_1', 'msg_1', 'ses_1', 1, 1,
            '{{"type":"tool","tool":"bash","callID":"c","state":{{"status":"running","input":{{}},"time":{{"start":{start}}}}}}}')"#
        ));
        place.repair().unwrap();
        let rows = place.rows();
        let end_of = |table: &str, end: &str| {
            let row = rows.iter().find(|row| row.starts_with(table)).unwrap();
            let time = row.split_once("\"time\":{").unwrap().1.split_once('}').unwrap().0;
            assert!(time.contains(&format!(":{start},")), "the start stays: {time}");
            time.split_once(end).unwrap().1.to_owned()
        };
        let kept = if start == "-5" { NOW.to_string() } else { start.to_owned() };
        assert_eq!(end_of("part|", "\"end\":"), kept);
        assert_eq!(end_of("message|", "\"completed\":"), kept);
        place.undo().unwrap();
        assert_eq!(place.counts(), counts(1, 0, 1, 0));
    }
}
