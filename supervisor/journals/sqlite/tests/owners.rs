//! Who owns a store, and whose it is: one owner at a time, and what another program or a newer one wrote stays as it is.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Barrier;
use std::{fmt, fs};

use fanin_protocol::Envelope;
use fanin_sqlite::{Options, Owner, SqliteJournal, StoreReader};
use fanin_supervisor::journal::{Batch, Journal, JournalError, JournalReader};
use fanin_supervisor::testing::journal::{Shown, batch, record};
use rusqlite::Connection;

fn open(dir: &Path) -> Result<SqliteJournal, JournalError> {
    SqliteJournal::open(dir, &Options::default())
}

fn made(dir: &Path, records: u64) {
    let mut journal = open(dir).unwrap();
    journal.append(&batch(0, records)).unwrap();
    Box::new(journal).close().unwrap();
}

/// Bytes of a file, which a failed comparison does not print.
#[derive(PartialEq, Eq)]
struct Content(Vec<u8>);

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

fn files(dir: &Path) -> BTreeMap<String, Content> {
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), Content(fs::read(entry.path()).unwrap()))
    };
    fs::read_dir(dir).unwrap().map(|entry| read(entry.unwrap())).collect()
}

/// Without what SQLite makes of a store that it opens to read: an index of its log, and an empty log.
fn kept(dir: &Path) -> BTreeMap<String, Content> {
    let mut files = files(dir);
    files.remove("store.db-shm");
    files.remove("owner.lock");
    files.retain(|_, bytes| !bytes.0.is_empty());
    files
}

fn sql(dir: &Path, text: &str) {
    let connection = Connection::open(dir.join("store.db")).unwrap();
    connection.execute_batch(text).unwrap();
}

// B90
#[test]
fn one_of_twenty_wins_and_the_others_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let all = Barrier::new(20);
    let opened: Vec<_> = std::thread::scope(|scope| {
        let open = || {
            all.wait();
            open(dir.path())
        };
        let threads: Vec<_> = (0..20).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1);
    for error in opened.iter().filter_map(|opened| opened.as_ref().err()) {
        assert!(matches!(error, JournalError::Owned { .. }), "{error}");
    }
    let Err(JournalError::Owned { owner, .. }) = open(dir.path()) else { panic!("a second owner") };
    assert!(owner.starts_with(&format!("process {} since ", std::process::id())), "{owner}");
    assert_eq!(Owner::of(dir.path()), Ok(Owner::Live(owner)));
    drop(opened);
    assert_eq!(Owner::of(dir.path()), Ok(Owner::None));
    assert!(open(dir.path()).is_ok());
}

// B91
#[test]
fn what_a_dead_owner_left_blocks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path(), 3);
    fs::write(dir.path().join("owner.lock"), "process 1 since 0 (seconds since 1970)\n".repeat(3)).unwrap();
    assert_eq!(Owner::of(dir.path()), Ok(Owner::None));
    let journal = open(dir.path()).unwrap();
    let text = fs::read_to_string(dir.path().join("owner.lock")).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(&std::process::id().to_string()));
    drop(journal);
}

#[test]
fn those_who_look_keep_no_owner_out() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path(), 1);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    Owner::of(dir.path()).unwrap();
                }
            });
        }
        let opened: Vec<_> = (0..50).map(|_| open(dir.path()).map(drop)).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(opened, vec![Ok(()); 50]);
    });
}

#[test]
fn what_is_not_ours_stays_as_it_is() {
    type Make = fn(&Path);
    let foreign: [(&str, Make); 3] = [
        ("text", |dir| fs::write(dir.join("store.db"), "not a database at all".repeat(100)).unwrap()),
        ("another program's", |dir| sql(dir, "CREATE TABLE t(a); INSERT INTO t VALUES(1)")),
        ("with an id", |dir| {
            sql(dir, "PRAGMA journal_mode = WAL; PRAGMA application_id = 77; CREATE TABLE t(a)")
        }),
    ];
    for (name, make) in foreign {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path());
        let before = files(dir.path());
        for error in
            [open(dir.path()).map(drop).unwrap_err(), StoreReader::open(dir.path()).map(drop).unwrap_err()]
        {
            assert_eq!(error.code(), "store_foreign", "{name}: {error}");
            assert!(error.to_string().contains("2.0"), "{error}");
        }
        assert_eq!(files(dir.path()), before, "{name}");
    }
}

#[test]
fn a_reader_makes_nothing_where_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(StoreReader::open(dir.path()).unwrap_err().code(), "store_io");
    assert!(StoreReader::open(dir.path().join("none")).is_err());
    assert_eq!(files(dir.path()), BTreeMap::new());
}

// B88
#[test]
fn a_newer_major_is_refused_and_a_newer_minor_is_not() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path(), 3);
    sql(dir.path(), "PRAGMA user_version = 3003; PRAGMA wal_checkpoint(TRUNCATE)");
    let before = kept(dir.path());
    let error = open(dir.path()).map(drop).unwrap_err();
    assert_eq!(error.code(), "store_foreign");
    assert!(error.to_string().contains("3.3") && error.to_string().contains("2.0"), "{error}");
    assert_eq!(StoreReader::open(dir.path()).unwrap_err(), error);
    assert_eq!(kept(dir.path()), before);
    sql(dir.path(), "PRAGMA user_version = 2007; PRAGMA wal_checkpoint(TRUNCATE)");
    let mut journal = open(dir.path()).unwrap();
    journal.append(&batch(3, 1)).unwrap();
    drop(journal);
    let version = Connection::open(dir.path().join("store.db")).unwrap();
    let version: i32 = version.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 2007, "the mark of the newer one is left alone");
}

fn strange(seq: u64, ignorable: bool) -> Envelope {
    Envelope { kind: "weather.changed".into(), ignorable, body: vec![0xc1, 0, 255].into(), ..record(seq) }
}

// B89
#[test]
fn an_unknown_kind_is_kept_where_it_may_be_passed_over_and_refused_where_not() {
    for (ignorable, closes, version) in [(true, true, 2001), (false, false, 2000), (false, true, 2001)] {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open(dir.path()).unwrap();
        let records = vec![record(1), strange(2, ignorable), record(3)];
        journal.append(&Batch { records: records.clone(), ..batch(0, 0) }).unwrap();
        if closes {
            Box::new(journal).close().unwrap();
        } else {
            drop(journal);
        }
        sql(dir.path(), &format!("PRAGMA user_version = {version}"));
        let before = kept(dir.path());
        let opened = open(dir.path());
        if ignorable {
            assert_eq!(Shown::of(&mut opened.unwrap(), 0).unwrap().records, records);
        } else {
            let error = opened.map(drop).unwrap_err();
            assert_eq!(error.code(), "store_foreign");
            assert!(error.to_string().contains("weather.changed"), "{error}");
            assert_eq!(kept(dir.path()), before);
        }
        let page = StoreReader::open(dir.path()).unwrap().page(fanin_protocol::Seq(1), 10).unwrap();
        assert_eq!(page.records, records, "a reader passes it on");
    }
}

// B89
#[test]
fn a_known_kind_with_a_broken_body_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path()).unwrap();
    let broken = Envelope { body: vec![0xc1].into(), ..record(2) };
    journal.append(&Batch { records: vec![record(1), broken], ..batch(0, 0) }).unwrap();
    drop(journal);
    let error = open(dir.path()).map(drop).unwrap_err();
    assert_eq!(error.code(), "store_damaged");
    assert!(error.to_string().contains("record 2"), "{error}");
}

#[test]
fn a_copied_folder_is_refused_until_it_is_adopted() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    made(dir.path(), 3);
    for (name, bytes) in files(dir.path()) {
        fs::write(copy.path().join(name), bytes.0).unwrap();
    }
    let before = kept(copy.path());
    let error = open(copy.path()).map(drop).unwrap_err();
    assert_eq!(error.code(), "store_foreign");
    assert_eq!(kept(copy.path()), before);
    let adopt = Options { adopt: true, ..Options::default() };
    let shown = Shown::of(&mut SqliteJournal::open(copy.path(), &adopt).unwrap(), 0).unwrap();
    assert_eq!(shown, Shown::of(&mut open(dir.path()).unwrap(), 0).unwrap());
    assert!(open(copy.path()).is_ok(), "it is a store of its own now");
    assert!(open(dir.path()).is_ok());
}

#[test]
fn nobody_else_may_look_into_a_store() {
    use std::os::unix::fs::PermissionsExt;
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("store");
    let mut journal = open(&dir).unwrap();
    journal.append(&batch(0, 1)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}
