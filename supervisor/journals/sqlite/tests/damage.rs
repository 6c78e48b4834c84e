//! Bytes that flip and files that are cut: what is shown afterwards is what was committed, or nothing is shown.
//!
//! `FANIN_FLIPS=10000 cargo test -p fanin-sqlite --test damage` for more places than the 2,000 of the suite.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{JOBS, Random, open, shown};
use fanin_protocol::envelope::LOST_KIND;
use fanin_protocol::{Envelope, Lifetime, LogId, Record, RowKind, Seq};
use fanin_sqlite::{SqliteJournal, StoreReader, check, repair_accept_loss, try_repair};
use fanin_supervisor::journal::{Batch, Change, Journal, JournalError, JournalReader, OutputChange};
use fanin_supervisor::testing::journal::{Shown, batch, put, record, records, retire};

const FILES: [&str; 4] = ["store.db", "store.db-wal", "hwm", "owner.lock"];

/// A store's files as they were, to begin each trial with.
struct Image(BTreeMap<&'static str, Vec<u8>>);

impl Image {
    fn of(dir: &Path) -> Self {
        Self(FILES.iter().map(|name| (*name, fs::read(dir.join(name)).unwrap())).collect())
    }

    fn restore(&self, dir: &Path) {
        for (name, bytes) in &self.0 {
            fs::write(dir.join(name), bytes).unwrap();
        }
        fs::remove_file(dir.join("store.db-shm")).unwrap_or_default();
    }
}

/// Damages one file in one place.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let at = random.below(bytes.len());
    match random.below(8) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 | 2 => {
            let end = (at + 512).min(bytes.len());
            bytes[at..end].fill(0);
            format!("zeroes from {at} to {end}")
        }
        _ => {
            let bit = random.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
    }
}

/// A reader that needs no ownership shows records that were committed, up to the damage.
fn reads_no_lie(dir: &Path, base: &Shown, what: &str) {
    let Ok(reader) = StoreReader::open(dir) else { return };
    let Ok(page) = reader.page(Seq(1), 100_000) else { return };
    assert!(base.records.starts_with(&page.records), "{what}: a reader shows other records");
}

/// About a megabyte: records, rows of what is open and over, outputs; one half in the database and one in its log.
fn filled(dir: &Path) -> SqliteJournal {
    const BATCHES: u64 = 60;
    let mut journal = open(dir).unwrap();
    let mut after = 0;
    for n in 0..BATCHES {
        let batch = some(after, n);
        journal.append(&batch).unwrap();
        after += batch.records.len() as u64;
        if n == BATCHES / 2 {
            Box::new(journal).close().unwrap();
            journal = open(dir).unwrap();
        }
    }
    journal
}

fn some(after: u64, n: u64) -> Batch {
    let strange = |seq: u64| Envelope {
        kind: "weather.changed".into(),
        ignorable: true,
        body: vec![seq.to_le_bytes()[0]; 200].into(),
        ..record(seq)
    };
    let long = |key: u64| format!("row {key} {}", "x".repeat(200));
    let row = |key: u64| -> Change {
        match key % 3 {
            0 => put(RowKind::Job, key, &format!("job-{key}"), &long(key)),
            1 => retire(RowKind::Job, key, &format!("job-{key}"), &long(key)),
            _ => put(RowKind::Group, key, &format!("group-{key}"), &long(key)),
        }
    };
    let job = Lifetime(n % JOBS);
    let bytes = vec![b'a' + n.to_le_bytes()[0] % 26; 1_500].into();
    let outputs = vec![OutputChange::Append { job, at: n / JOBS * 1_500, bytes }];
    let mut batch = batch(after, 10);
    batch.records.extend((after + 11..after + 21).map(strange));
    batch.rows = (n * 6..n * 6 + 6).map(row).collect();
    Batch { outputs, ..batch }
}

#[derive(Debug, Default)]
struct Tally {
    identical: u32,
    refused: u32,
    /// Opened and shown otherwise, and `check` tells of damage.
    checked: u32,
}

/// Places that are damaged in one run of the suite, in all files.
const FLIPS: usize = 2_000;

/// Damages so many of each 20 places in one file.
fn trials(name: &'static str, share: usize) -> Tally {
    let flips = std::env::var("FANIN_FLIPS").ok().and_then(|flips| flips.parse().ok()).unwrap_or(FLIPS);
    let count = flips * share / 20;
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    let base = shown(dir.path()).unwrap();
    let image = Image::of(dir.path());
    let mut random = Random(0x5eed);
    let mut tally = Tally::default();
    for _ in 0..count {
        image.restore(dir.path());
        let mut bytes = image.0[name].clone();
        let what = format!("{name}: {}", damage(&mut bytes, &mut random));
        fs::write(dir.path().join(name), &bytes).unwrap();
        reads_no_lie(dir.path(), &base, &what);
        match shown(dir.path()) {
            Ok(shown) if shown == base => tally.identical += 1,
            Ok(_) => {
                let told = check(dir.path(), |_| {});
                assert!(told.is_err(), "{what}: shown otherwise, and nobody tells");
                tally.checked += 1;
            }
            Err(JournalError::Damaged { .. } | JournalError::Foreign { .. } | JournalError::Io(_)) => {
                tally.refused += 1;
            }
            Err(other) => panic!("{what}: {other}"),
        }
    }
    println!("{name}: {tally:?}");
    tally
}

#[test]
fn a_damaged_database_is_never_shown_as_another() {
    let tally = trials("store.db", 9);
    assert!(tally.refused > 0, "{tally:?}");
}

#[test]
fn a_damaged_log_of_the_database_is_never_shown_as_another() {
    let tally = trials("store.db-wal", 9);
    assert!(tally.refused > 0, "{tally:?}");
}

#[test]
fn a_damaged_mark_or_lock_costs_nothing() {
    for name in ["hwm", "owner.lock"] {
        let tally = trials(name, 1);
        assert_eq!((tally.refused, tally.checked), (0, 0), "{tally:?}");
    }
}

/// A small store, as it was before its last batch and after it.
fn torn(dir: &Path, last: &Batch) -> (Image, Image) {
    let mut journal = open(dir).unwrap();
    let rows = vec![put(RowKind::Job, 1, "a", "early")];
    journal.append(&Batch { rows, ..batch(0, 3) }).unwrap();
    drop(journal);
    let before = Image::of(dir);
    let mut journal = open(dir).unwrap();
    journal.append(last).unwrap();
    drop(journal);
    (before, Image::of(dir))
}

/// Where the frames of the last batch are cut: in each of their heads everywhere, in pages at every eleventh byte.
fn cuts(before: &Image, after: &Image) -> Vec<usize> {
    let (from, to) = (before.0["store.db-wal"].len(), after.0["store.db-wal"].len());
    assert!(from < to);
    (from..to).filter(|at| (at - 32) % 4_120 < 26 || at % 11 == 0).collect()
}

// B86
#[test]
fn a_torn_tail_is_dropped_where_nobody_was_told_and_missed_where_somebody_was() {
    let last = Batch { rows: vec![put(RowKind::Job, 1, "a", "late")], ..batch(3, 2) };
    let only_rows = Batch { records: vec![], ..last.clone() };
    for (last, words) in [(last, "records 4 to 5"), (only_rows, "rows and outputs")] {
        let dir = tempfile::tempdir().unwrap();
        let (before, after) = torn(dir.path(), &last);
        before.restore(dir.path());
        let early = shown(dir.path()).unwrap();
        for cut in cuts(&before, &after) {
            after.restore(dir.path());
            fs::write(dir.path().join("store.db-wal"), &after.0["store.db-wal"][..cut]).unwrap();
            let told = shown(dir.path()).unwrap_err();
            assert_eq!(told.code(), "store_damaged", "{cut}");
            assert!(told.to_string().contains(words), "{told}");
            assert_eq!(check(dir.path(), |_| {}).unwrap_err().code(), "store_damaged", "{cut}");
            // The mark is written when the commit is done: without it nobody was told.
            fs::write(dir.path().join("hwm"), &before.0["hwm"]).unwrap();
            assert_eq!(shown(dir.path()), Ok(early.clone()), "{cut}");
        }
        after.restore(dir.path());
        assert!(shown(dir.path()).unwrap() != early);
    }
}

#[test]
fn a_refused_store_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (before, mut after) = torn(dir.path(), &batch(3, 2));
    let at = before.0["store.db-wal"].len() + 100;
    after.0.get_mut("store.db-wal").unwrap()[at] ^= 1;
    after.restore(dir.path());
    for _ in 0..2 {
        assert_eq!(shown(dir.path()).unwrap_err().code(), "store_damaged");
        for name in ["store.db", "store.db-wal", "hwm"] {
            assert!(fs::read(dir.path().join(name)).unwrap() == after.0[name], "{name} was changed");
        }
    }
}

// ST-4: who only looks misses what is lost as well, and before it is shown anything.
#[test]
fn a_reader_misses_what_was_committed_and_is_gone() {
    for last in
        [batch(3, 2), Batch { records: vec![], rows: vec![put(RowKind::Job, 1, "a", "late")], ..batch(3, 0) }]
    {
        let dir = tempfile::tempdir().unwrap();
        let (before, after) = torn(dir.path(), &last);
        after.restore(dir.path());
        assert_eq!(records(&StoreReader::open(dir.path()).unwrap()).unwrap().len(), 3 + last.records.len());
        fs::write(dir.path().join("store.db-wal"), &before.0["store.db-wal"]).unwrap();
        let told = StoreReader::open(dir.path()).unwrap_err();
        assert_eq!(told.code(), "store_damaged");
        let words = if last.records.is_empty() { "rows and outputs are gone" } else { "records 4 to 5" };
        assert!(told.to_string().contains(words), "{told}");
        // Of what nobody was told nothing is missed.
        fs::write(dir.path().join("hwm"), &before.0["hwm"]).unwrap();
        assert_eq!(records(&StoreReader::open(dir.path()).unwrap()).unwrap().len(), 3);
    }
}

#[test]
fn a_repair_goes_on_behind_what_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = torn(dir.path(), &batch(3, 2));
    after.restore(dir.path());
    fs::write(dir.path().join("store.db-wal"), &before.0["store.db-wal"]).unwrap();
    assert_eq!(shown(dir.path()).unwrap_err().code(), "store_damaged");
    let log = LogId::from_uuid([8; 16]);
    let repaired = repair_accept_loss(dir.path(), &log).unwrap();
    assert_eq!((repaired.head, repaired.next), (Seq(3), Seq(6)));
    assert_eq!(repaired.lost, ["records 4 to 5", "the last changes of rows and outputs (1 batches)"]);
    let kept = repaired.kept.unwrap();
    assert!(fs::read(kept.join("store.db")).unwrap() == after.0["store.db"]);
    assert!(fs::read(kept.join("store.db-wal")).unwrap() == before.0["store.db-wal"]);
    let mut journal = open(dir.path()).unwrap();
    let opened = journal.load().unwrap();
    assert_eq!((opened.log, opened.head), (Some(log), Seq(5)));
    assert_eq!(opened.rows.len(), 1, "rows that are whole stay");
    assert_eq!(journal.append(&batch(3, 2)).unwrap_err().code(), "store_fenced", "numbers come again");
    drop(journal);
    let mut journal = open(dir.path()).unwrap();
    journal.append(&Batch { epoch: Seq(6), ..batch(5, 2) }).unwrap();
    Box::new(journal).close().unwrap();
    check(dir.path(), |_| {}).unwrap();
    let left = shown(dir.path()).unwrap().records;
    assert_eq!(left.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(sound(&left), [1, 2, 3, 6, 7].map(record));
}

/// The records that were not lost.
fn sound(records: &[Envelope]) -> Vec<Envelope> {
    records.iter().filter(|record| record.kind != LOST_KIND).cloned().collect()
}

#[test]
fn a_repair_of_a_sound_store_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    Box::new(filled(dir.path())).close().unwrap();
    let image = Image::of(dir.path());
    let before = shown(dir.path()).unwrap();
    image.restore(dir.path());
    let repaired = repair_accept_loss(dir.path(), &LogId::from_uuid([8; 16])).unwrap();
    assert_eq!((repaired.lost, repaired.kept), (vec![], None));
    assert_eq!((repaired.head, repaired.log), (before.opened.head, before.opened.log.clone()));
    assert!(fs::read(dir.path().join("store.db")).unwrap() == image.0["store.db"]);
    assert!(
        !fs::read_dir(dir.path())
            .unwrap()
            .any(|file| { file.unwrap().file_name().to_string_lossy().starts_with("damaged") })
    );
    assert_eq!(shown(dir.path()).unwrap(), before);
}

/// What is in a store's folder, but for the text of who had it last.
fn everything(dir: &Path) -> BTreeMap<std::ffi::OsString, Option<Vec<u8>>> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let others = entries.filter(|entry| entry.file_name() != "owner.lock");
    others.map(|entry| (entry.file_name(), fs::read(entry.path()).ok())).collect()
}

#[test]
fn a_repair_loses_what_is_damaged_and_nothing_else() {
    let change = "UPDATE log SET ts_ms = ts_ms + 1 WHERE seq = 250";
    let gone = "DELETE FROM log WHERE seq BETWEEN 300 AND 302";
    let head = "UPDATE log SET kind = 'other' WHERE seq = 500";
    for (sql_text, lost, left) in [
        (vec![change], "record 250", 499),
        // The one behind a hole proves nothing: what it covers is gone.
        (vec![gone], "records 300 to 303", 496),
        (vec![head], "record 500", 499),
        (vec![change, gone, head], "record 250, records 300 to 303, record 500", 494),
        (vec!["UPDATE log SET crc = crc + 1 WHERE seq = 7"], "records 7 to 8", 498),
        (vec!["DELETE FROM log WHERE seq = 1"], "records 1 to 2", 498),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path()).unwrap();
        let rows = vec![put(RowKind::Job, 1, "a", "open")];
        journal.append(&Batch { rows, ..batch(0, 500) }).unwrap();
        drop(journal);
        let before = shown(dir.path()).unwrap();
        sql_text.iter().for_each(|text| sql(dir.path(), text));
        assert_eq!(check(dir.path(), |_| {}).unwrap_err().code(), "store_damaged");
        let log = LogId::from_uuid([8; 16]);
        let as_it_was = everything(dir.path());
        assert_eq!(try_repair(dir.path()).unwrap().join(", "), lost);
        assert!(everything(dir.path()) == as_it_was, "to try it changed something");
        let repaired = repair_accept_loss(dir.path(), &log).unwrap();
        assert_eq!(repaired.lost.join(", "), lost);
        assert_eq!((repaired.log, repaired.next), (Some(log), Seq(501)));
        check(dir.path(), |_| {}).unwrap();
        let after = shown(dir.path()).unwrap();
        assert_eq!((after.records.len(), &after.opened.rows), (500, &before.opened.rows));
        assert_eq!(sound(&after.records).len(), left, "{lost}");
        assert!(sound(&after.records).iter().all(|record| before.records.contains(record)));
        let mut journal = open(dir.path()).unwrap();
        journal.append(&Batch { epoch: Seq(501), ..batch(500, 2) }).unwrap();
        Box::new(journal).close().unwrap();
        check(dir.path(), |_| {}).unwrap();
    }
}

#[test]
fn a_repair_of_rows_and_outputs_leaves_the_log_as_it_is() {
    for (text, lost) in [
        ("UPDATE live SET body = x'00' WHERE kind = 'job' AND key = 3", "the row of job 3"),
        ("UPDATE retired SET id = 'other' WHERE kind = 'job' AND key = 4", "the row of job 4"),
        ("DELETE FROM live WHERE kind = 'group' AND key = 5", "1 rows that are gone"),
        ("UPDATE output SET bytes = x'00' WHERE job = 2 AND at = 0", "the output of job 2"),
        ("DELETE FROM output WHERE job = 2 AND at = 0", "the output of job 2"),
        ("DELETE FROM put_out WHERE job = 2", "1 outputs that are gone"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        drop(filled(dir.path()));
        let before = shown(dir.path()).unwrap();
        sql(dir.path(), text);
        assert_eq!(check(dir.path(), |_| {}).unwrap_err().code(), "store_damaged", "{text}");
        let repaired = repair_accept_loss(dir.path(), &LogId::from_uuid([8; 16])).unwrap();
        assert_eq!(repaired.lost, [lost]);
        check(dir.path(), |_| {}).unwrap();
        let after = shown(dir.path()).unwrap();
        assert_eq!((after.opened.log, after.records), (before.opened.log, before.records));
        assert_eq!(before.rows.len() - after.rows.len(), usize::from(lost.contains("row")), "{text}");
        assert_eq!(
            before.outputs.len() - after.outputs.len(),
            usize::from(lost.contains("output")),
            "{text}"
        );
    }
}

#[test]
fn a_database_that_is_gone_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let (_, after) = torn(dir.path(), &batch(3, 2));
    for is_empty in [false, true] {
        after.restore(dir.path());
        if is_empty {
            fs::write(dir.path().join("store.db"), "").unwrap();
        } else {
            fs::remove_file(dir.path().join("store.db")).unwrap();
        }
        let told = open(dir.path()).unwrap_err();
        assert_eq!(told.code(), "store_damaged", "{told}");
        assert_eq!(dir.path().join("store.db").exists(), is_empty, "made anew");
        let as_it_was = everything(dir.path());
        assert_eq!(try_repair(dir.path()).unwrap_err().code(), "store_damaged");
        let refused = repair_accept_loss(dir.path(), &LogId::from_uuid([8; 16])).unwrap_err();
        assert_eq!(refused.code(), "store_damaged", "{refused}");
        assert!(everything(dir.path()) == as_it_was, "something is left behind");
    }
}

// B87
#[test]
fn damage_in_the_middle_is_named_and_what_comes_before_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path()).unwrap();
    journal.append(&batch(0, 500)).unwrap();
    drop(journal);
    // As a lost write: the record is not the one that was committed, and fits no other.
    sql(dir.path(), "UPDATE log SET ts_ms = ts_ms + 1 WHERE seq = 250");
    let told = open(dir.path()).unwrap_err();
    assert!(told.to_string().contains("record 250 "), "{told}");
    let reader = StoreReader::open(dir.path()).unwrap();
    assert_eq!(reader.page(Seq(1), 1_000).unwrap().records.len(), 249);
    assert_eq!(records(&reader).unwrap_err().code(), "store_damaged");
    assert!(matches!(
        reader.page(Seq(252), 10).unwrap().records[0].record(),
        Ok(Some(Record::SessionClosed(_)))
    ));
}

/// A change to a store behind its back.
fn sql(dir: &Path, text: &str) {
    let connection = rusqlite::Connection::open(dir.join("store.db")).unwrap();
    connection.execute_batch(text).unwrap();
}

#[test]
fn a_record_of_another_past_is_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open(dir.path()).unwrap().append(&batch(0, 5)).unwrap();
    let mut past = batch(0, 5);
    past.records[1].ts_ms += 1;
    past.records[2].ts_ms += 1;
    open(other.path()).unwrap().append(&past).unwrap();
    // It is whole and has a checksum of its own, which covers a record before it that was never here.
    let swap = "UPDATE log SET (ts_ms, crc) = (SELECT ts_ms, crc FROM other.log WHERE seq = 3) WHERE seq = 3";
    let attach = format!("ATTACH '{}' AS other;", other.path().join("store.db").display());
    sql(dir.path(), &format!("{attach} {swap}"));
    let told = open(dir.path()).unwrap_err();
    assert!(told.to_string().contains("record 3 "), "{told}");
    let page = StoreReader::open(dir.path()).unwrap().page(Seq(1), 10).unwrap();
    assert_eq!(page.records, batch(0, 2).records);
}

#[test]
fn what_vanished_or_is_an_older_one_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let out = |at, bytes: &'static str| OutputChange::Append { job: Lifetime(3), at, bytes: bytes.into() };
    let mut journal = open(dir.path()).unwrap();
    let rows = |body| vec![put(RowKind::Job, 1, "a", body), retire(RowKind::Job, 2, "b", body)];
    let outputs = vec![out(0, "x"), out(1, "y")];
    journal.append(&Batch { rows: rows("early"), outputs, ..batch(0, 2) }).unwrap();
    drop(journal);
    sql(dir.path(), "CREATE TABLE kept AS SELECT place, id, body, crc FROM live");
    let mut journal = open(dir.path()).unwrap();
    journal.load().unwrap();
    journal.append(&Batch { rows: rows("late"), ..batch(2, 1) }).unwrap();
    Box::new(journal).close().unwrap();
    let image = fs::read(dir.path().join("store.db")).unwrap();
    let seen = |change: &str| {
        fs::write(dir.path().join("store.db"), &image).unwrap();
        sql(dir.path(), change);
        (shown(dir.path()).is_err(), check(dir.path(), |_| {}).is_err())
    };
    assert_eq!(seen(""), (false, false));
    assert_eq!(seen("DELETE FROM live"), (true, true));
    assert_eq!(seen("INSERT OR REPLACE INTO live SELECT * FROM kept"), (true, true));
    assert_eq!(seen("DELETE FROM output WHERE at = 1"), (true, true));
    assert_eq!(seen("UPDATE put_out SET total = 1"), (true, true));
    // A page of rows cannot know of others: a whole look does.
    assert_eq!(seen("DELETE FROM retired"), (false, true));
    assert_eq!(seen("DELETE FROM put_out"), (false, true));
}

/// Sizes to which a file of this many bytes is cut: pages, the bytes around these, and odd ones.
fn sizes(len: usize) -> Vec<usize> {
    let pages = (1..=len / 4_096).step_by(13).flat_map(|page| [page * 4_096, page * 4_096 + 2_147]);
    let odd = [0, 1, 15, 16, 99, 100, 511, 512, 4_095, 4_097, 16_384, 21_803, len - 4_096, len - 1];
    pages.chain(odd).filter(|size| *size < len).collect()
}

// What a repair has done is sound, and opened; what it cannot do it refuses, and leaves as it is.
#[test]
fn a_database_that_was_cut_is_repaired_or_refused() {
    for (kind, is_closed) in [("large", true), ("large", false), ("small", false)] {
        let dir = tempfile::tempdir().unwrap();
        if kind == "small" {
            // Some of its tables are empty.
            torn(dir.path(), &batch(3, 2));
        } else if is_closed {
            Box::new(filled(dir.path())).close().unwrap();
        } else {
            drop(filled(dir.path()));
        }
        let image = Image::of(dir.path());
        let before = shown(dir.path()).unwrap();
        let sizes = sizes(image.0["store.db"].len());
        // A repair may put another file in its place, and a store knows its own.
        let (database, elsewhere) = (dir.path().join("store.db"), tempfile::tempdir().unwrap());
        let its_own = elsewhere.path().join("store.db");
        fs::hard_link(&database, &its_own).unwrap();
        let (mut repaired, mut refused) = (0, 0);
        for (size, has_log) in sizes.into_iter().flat_map(|size| [(size, true), (size, false)]) {
            if !has_log && is_closed {
                // It is empty then.
                continue;
            }
            let what = format!("{kind}, closed {is_closed}, cut at {size}, with its log {has_log}");
            fs::remove_file(&database).unwrap();
            fs::hard_link(&its_own, &database).unwrap();
            image.restore(dir.path());
            fs::write(&database, &image.0["store.db"][..size]).unwrap();
            if !has_log {
                fs::remove_file(dir.path().join("store.db-wal")).unwrap();
            }
            let told = check(dir.path(), |_| {});
            let as_it_was = everything(dir.path());
            match repair_accept_loss(dir.path(), &LogId::from_uuid([8; 16])) {
                Ok(done) => {
                    repaired += 1;
                    assert_eq!(done.lost.is_empty(), told.is_ok(), "{what}: {done:?}, {told:?}");
                    goes_on(dir.path(), &before, &what);
                    done.kept.into_iter().for_each(|kept| fs::remove_dir_all(kept).unwrap());
                }
                Err(JournalError::Damaged { .. }) => {
                    refused += 1;
                    assert_eq!(told.unwrap_err().code(), "store_damaged", "{what}");
                    assert!(everything(dir.path()) == as_it_was, "{what}: something was changed");
                    assert_eq!(open(dir.path()).unwrap_err().code(), "store_damaged", "{what}");
                }
                Err(other) => panic!("{what}: {other}"),
            }
            fs::remove_file(dir.path().join("repaired")).unwrap_or_default();
        }
        println!("{kind}, closed {is_closed}: {repaired} repaired, {refused} refused");
        assert!(repaired > 5 && refused > 5, "{repaired} repaired, {refused} refused");
    }
}

/// A store after a repair is sound, shows nothing that was never committed, and takes on more.
fn goes_on(dir: &Path, before: &Shown, what: &str) {
    let told = check(dir, |_| {});
    assert!(told.is_ok(), "{what}: {told:?}");
    let left = shown(dir).unwrap();
    assert!(sound(&left.records).iter().all(|record| before.records.contains(record)), "{what}");
    let mut journal = open(dir).unwrap();
    let head = left.opened.head;
    journal.append(&Batch { epoch: head.next(), ..batch(head.0, 2) }).unwrap();
    Box::new(journal).close().unwrap();
    let told = check(dir, |_| {});
    assert!(told.is_ok(), "{what}: {told:?}");
}
