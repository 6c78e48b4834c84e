//! What is not repaired: it is said why, and nothing of it moves.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fanin_sanitize::testing::Sample;
use fanin_sanitize::{Format, Only, OpenCode, Options, SanitizeError, repair};
use rusqlite::Connection;

use crate::common::{NOW, Place, counts};

/// Refused by a repair with this code and this in its text, with every file as it was.
fn refused(place: &Place, code: &str, said: &str) -> SanitizeError {
    let before = place.files();
    let error = place.repair().unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    assert!(error.to_string().contains(said), "{error}");
    assert_eq!(place.files(), before, "it was touched");
    error
}

#[test]
fn a_newer_store_is_refused_by_name_with_what_is_known() {
    let place = Place::new(Sample::Killed);
    place.change("INSERT INTO migration VALUES('20991231235959_later', 1)");
    let error = refused(&place, "sanitize_version", "20991231235959_later");
    assert!(
        error.to_string().contains("20260622202450_simplify_session_input (opencode 1.18.33)"),
        "{error}"
    );
    assert_eq!(OpenCode.scan(&place.store()).unwrap_err().code(), "sanitize_version", "nor is it reported");
}

#[test]
fn an_older_store_and_one_without_a_version_are_refused() {
    let place = Place::new(Sample::Killed);
    place.change("DELETE FROM migration WHERE id LIKE '202606222%'");
    refused(&place, "sanitize_version", "is of version 20260622170816_reset_v2_session_state");
    place.change("DROP TABLE migration");
    refused(&place, "sanitize_version", "without a table of migrations");
}

#[test]
fn a_store_of_the_known_version_without_a_column_that_is_needed_is_refused() {
    let place = Place::new(Sample::Empty);
    place.change("ALTER TABLE session RENAME COLUMN title TO name");
    refused(&place, "sanitize_version", "without session.title");
}

#[test]
fn foreign_and_empty_files_are_none_of_ours() {
    let place = Place::new(Sample::Empty);
    let file = |name: &str, bytes: &[u8]| {
        let path = place.folder().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    assert!(!OpenCode.is_one(&file("text.db", b"no database at all, but longer than a header")).unwrap());
    assert!(!OpenCode.is_one(place.folder()).unwrap());
    let empty = file("empty.db", b"");
    assert_eq!(OpenCode.is_one(&empty).unwrap_err().code(), "sanitize_empty");
    assert_eq!(fs::read(&empty).unwrap(), b"", "and stays so");
    let other = place.folder().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE part(id)").unwrap();
    assert!(!OpenCode.is_one(&other).unwrap());
    assert_eq!(OpenCode.is_one(Path::new("/nowhere/at/all")).unwrap_err().code(), "sanitize_none");
    assert!(OpenCode.is_one(&place.store()).unwrap());
}

#[test]
fn a_file_that_is_cut_or_overwritten_is_damaged() {
    let cut = Place::new(Sample::Killed);
    let length = fs::metadata(cut.store()).unwrap().len();
    File::options().write(true).open(cut.store()).unwrap().set_len(length / 2).unwrap();
    refused(&cut, "sanitize_damaged", "opencode.db is damaged");
    // A page in the middle: whatever it was, a check before the repair sees it.
    for page in 1..length / 4_096 {
        let place = Place::new(Sample::Killed);
        let mut file = File::options().write(true).open(place.store()).unwrap();
        file.seek(SeekFrom::Start(page * 4_096)).unwrap();
        file.write_all(&[0xa5; 4_096]).unwrap();
        refused(&place, "sanitize_damaged", "opencode.db is damaged");
    }
}

#[test]
fn content_that_is_no_json_is_named_by_its_row() {
    let place = Place::new(Sample::Killed);
    place.change(r#"UPDATE part SET data = '{"type":"tool","state":{"status":"running"' WHERE id = 'prt_228db56ea001GoPgeWtjRPmAZu'"#);
    refused(&place, "sanitize_damaged", "part prt_228db56ea001GoPgeWtjRPmAZu");
    let place = Place::new(Sample::Killed);
    place.change("UPDATE message SET data = 'x' WHERE id = 'msg_228db5671001dF5WNjwZzoi6LO'");
    refused(&place, "sanitize_damaged", "message msg_228db5671001dF5WNjwZzoi6LO");
    let place = Place::new(Sample::Killed);
    place.change(r#"UPDATE part SET data = json_set(data, '$.state.metadata', 'text') WHERE id = 'prt_228db5642001O9oBoI195y1AVP'"#);
    refused(&place, "sanitize_damaged", "part prt_228db5642001O9oBoI195y1AVP");
}

#[test]
fn content_is_checked_also_where_nothing_in_it_tells_of_a_call() {
    let broken = ["'{bad'", "''", "'{} {}'", "x'ff'", "CAST(x'7b22ff' AS TEXT)"];
    for (table, id) in
        [("part", "prt_228db56ea001GoPgeWtjRPmAZu"), ("message", "msg_228db5671001dF5WNjwZzoi6LO")]
    {
        for data in broken {
            let place = Place::new(Sample::Killed);
            place.change(&format!("UPDATE {table} SET data = {data} WHERE id = '{id}'"));
            let said = format!("{table} {id}");
            refused(&place, "sanitize_damaged", &said);
            let error = OpenCode.scan(&place.store()).unwrap_err();
            assert!(error.to_string().contains(&said), "nor is it reported: {error}");
        }
    }
}

#[test]
fn a_store_that_is_open_elsewhere_is_reported_and_not_repaired() {
    let place = Place::new(Sample::Killed);
    let other = Connection::open(place.store()).unwrap();
    other.query_row("SELECT count(*) FROM part", [], |row| row.get::<_, i64>(0)).unwrap();
    refused(&place, "sanitize_in_use", "is in use");
    assert_eq!(place.counts(), counts(5, 0, 4, 1), "a report works beside it");
    let options = Options { only: Only::All, force: true, now_ms: NOW };
    let forced = repair(&OpenCode, &place.store(), &options).unwrap();
    assert_eq!(forced.after.total(), 0);
    let left: i64 = other
        .query_row("SELECT count(*) FROM part WHERE data ->> '$.state.status' = 'running'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(left, 0, "the other sees it as well");
}

#[test]
fn a_store_that_another_writes_is_not_repaired_by_force_which_is_not_offered_again() {
    let place = Place::new(Sample::Killed);
    let other = Connection::open(place.store()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE session SET title = 'x'").unwrap();
    let options = Options { only: Only::All, force: true, now_ms: NOW };
    let error = repair(&OpenCode, &place.store(), &options).unwrap_err();
    assert_eq!(error.code(), "sanitize_busy", "{error}");
    assert!(!error.to_string().contains("--force"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(place.counts(), counts(5, 0, 4, 1));
    let left = place.files().into_iter().filter(|(name, _)| name.contains("backup")).count();
    assert_eq!(left, 0, "no backup of a repair that did not come about");
}

#[test]
fn a_read_only_store_is_reported_and_not_repaired() {
    let place = Place::new(Sample::Killed);
    fs::set_permissions(place.store(), fs::Permissions::from_mode(0o444)).unwrap();
    refused(&place, "sanitize_read_only", "cannot be written");
    assert_eq!(place.counts(), counts(5, 0, 4, 1));
}

#[test]
fn a_session_that_is_not_there_is_named() {
    let place = Place::new(Sample::Killed);
    let error = place.repair_only(Only::Session("ses_x")).unwrap_err();
    assert_eq!((error.code(), error.to_string().contains("ses_x")), ("sanitize_no_session", true));
}

#[test]
fn a_report_leaves_every_file_as_it_is_also_with_what_a_killed_one_left() {
    let place = Place::new(Sample::Killed);
    let before = place.files();
    assert_eq!(before.len(), 1, "the store was closed in order");
    place.counts();
    assert_eq!(place.files(), before);
    // As after a kill: the last of it is in the write-ahead log alone.
    let copy = Place::new(Sample::Empty);
    let open = Connection::open(place.store()).unwrap();
    open.execute_batch("UPDATE part SET data = json_set(data, '$.state.status', 'error') WHERE id = 'prt_228db5598001kO2JECnjZMdoS6'").unwrap();
    for end in ["", "-wal"] {
        fs::copy(format!("{}{end}", place.store().display()), format!("{}{end}", copy.store().display()))
            .unwrap();
    }
    let before = copy.files();
    assert_eq!(copy.counts(), counts(4, 0, 4, 1), "what is in the log counts");
    assert_eq!(copy.files(), before);
    copy.repair().unwrap();
    assert_eq!(copy.counts().total(), 0);
}
