//! What a store does where the disk is full or fails, brought about from within.

use fanin_protocol::limits::BALLAST_BYTES;
use fanin_protocol::{Envelope, Lifetime, RowKind};
use fanin_supervisor::journal::OutputChange;
use fanin_supervisor::testing::journal::{Shown, batch, put, record, retire};

use super::*;

fn open(dir: &Path) -> SqliteJournal {
    SqliteJournal::open(dir, &Options::default()).unwrap()
}

fn loaded(dir: &Path) -> SqliteJournal {
    let mut journal = open(dir);
    journal.load().unwrap();
    journal
}

/// No page more than there are.
fn fill(journal: &SqliteJournal) {
    let pages: i64 = journal.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    limit(journal, pages);
}

fn limit(journal: &SqliteJournal, pages: i64) {
    journal.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
}

/// More than fits in what pages have left.
fn large(after: u64) -> Batch {
    let body = vec![b'x'; 100_000].into();
    let strange = Envelope { kind: "weather.changed".into(), ignorable: true, body, ..record(after + 1) };
    let rows = vec![put(RowKind::Job, 1, "a", "late"), retire(RowKind::Job, 2, "b", "over")];
    Batch { records: vec![strange], rows, ..batch(after, 0) }
}

#[test]
fn a_full_disk_takes_a_batch_back_whole_and_takes_it_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = loaded(dir.path());
    let rows = vec![put(RowKind::Job, 1, "a", "early"), put(RowKind::Job, 2, "b", "early")];
    journal.append(&Batch { rows, ..batch(0, 3) }).unwrap();
    assert_eq!(std::fs::metadata(dir.path().join("ballast")).unwrap().len(), BALLAST_BYTES);
    let before = Shown::of(&mut journal, 0).unwrap();
    fill(&journal);
    for _ in 0..3 {
        let refused = journal.append(&large(3));
        assert!(matches!(refused, Err(JournalError::Full(_))), "{refused:?}");
        assert_eq!(Shown::of(&mut journal, 0).unwrap(), before);
        assert!(!dir.path().join("ballast").exists(), "the ballast was kept");
    }
    limit(&journal, 1_000_000);
    journal.append(&large(3)).unwrap();
    assert_eq!(journal.meta.head, Seq(4));
    for n in 4..200 {
        journal.append(&batch(n, 1)).unwrap();
    }
    assert!(dir.path().join("ballast").exists(), "there is room for ballast again");
    let after = Shown::of(&mut journal, 0).unwrap();
    drop(journal);
    assert_eq!(Shown::of(&mut open(dir.path()), 0).unwrap(), after);
    assert_eq!(after.records.len(), 200);
}

#[test]
fn a_store_without_room_is_opened_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = loaded(dir.path());
    journal.append(&batch(0, 3)).unwrap();
    fill(&journal);
    assert!(matches!(journal.append(&large(3)), Err(JournalError::Full(_))));
    drop(journal);
    let mut journal = loaded(dir.path());
    fill(&journal);
    assert!(matches!(journal.append(&large(3)), Err(JournalError::Full(_))));
    Box::new(journal).close().unwrap();
    assert_eq!(Shown::of(&mut open(dir.path()), 0).unwrap().records.len(), 3);
}

#[test]
fn a_failure_is_the_last_word() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = loaded(dir.path());
    journal.append(&batch(0, 1)).unwrap();
    journal.connection.busy_timeout(std::time::Duration::ZERO).unwrap();
    let other = Connection::open(dir.path().join("store.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let failed = journal.append(&batch(1, 1)).unwrap_err();
    assert_eq!(failed.code(), "store_io");
    other.execute_batch("ROLLBACK").unwrap();
    // It would go well now, and nobody knows what the first try left.
    assert_eq!(journal.append(&batch(1, 1)).unwrap_err(), failed);
    assert_eq!(Box::new(journal).close().unwrap_err(), failed);
    assert_eq!(Shown::of(&mut open(dir.path()), 0).unwrap().opened.head, Seq(1));
}

#[test]
fn another_writer_is_noticed_in_the_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = loaded(dir.path());
    journal.append(&batch(0, 1)).unwrap();
    let mut other = Meta::read(&journal.connection, &journal.layout).unwrap();
    other.epoch = Seq(2);
    other.write(&Connection::open(dir.path().join("store.db")).unwrap()).unwrap();
    let fenced = journal.append(&batch(1, 1)).unwrap_err();
    assert_eq!(fenced.code(), "store_fenced");
    assert_eq!(journal.append(&batch(1, 1)).unwrap_err(), fenced);
}

#[test]
fn a_batch_is_one_commit_and_marks_are_synced_apart() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = loaded(dir.path());
    let outputs = vec![OutputChange::Append { job: Lifetime(2), at: 0, bytes: "x".into() }];
    journal.append(&Batch { outputs, ..batch(0, 100) }).unwrap();
    journal.append(&batch(100, 1)).unwrap();
    assert_eq!(journal.syncs().commits, 2);
    let synchronous: i64 =
        journal.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!(synchronous, 2, "FULL");
    let mode: String = journal.connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn the_library_is_new_enough() {
    assert!(
        rusqlite::version_number() >= 3_051_003,
        "{}: older ones damage a log that is reset",
        rusqlite::version()
    );
}

#[test]
fn what_is_old_goes_and_the_rest_stays_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = loaded(dir.path());
    let rows = vec![retire(RowKind::Job, 1, "a", "x"), put(RowKind::Job, 2, "b", "x")];
    journal.append(&Batch { rows, ..batch(0, 3) }).unwrap();
    let before = Shown::of(&mut journal, 0).unwrap();
    let mut meta = journal.meta.clone();
    // The records are few and young, the row that is over is old.
    crate::prune::prune(&journal.connection, &mut meta, 1_003 + 7 * 24 * 3_600_000).unwrap();
    assert_eq!(meta, journal.meta, "a week is not over");
    crate::prune::prune(&journal.connection, &mut meta, 1_004 + 7 * 24 * 3_600_000).unwrap();
    meta.write(&journal.connection).unwrap();
    drop(journal);
    let after = Shown::of(&mut open(dir.path()), 0).unwrap();
    assert_eq!((&after.records, &after.opened.rows), (&before.records, &before.opened.rows));
    assert_eq!((before.rows.len(), after.rows.len()), (2, 1));
    crate::check(dir.path(), |_| {}).unwrap();
}

#[test]
fn a_row_that_has_no_place_is_refused_and_takes_that_of_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = loaded(dir.path());
    let last = (1 << 56) - 1;
    journal.append(&Batch { rows: vec![put(RowKind::Job, last, "a", "x")], ..batch(0, 1) }).unwrap();
    for change in [put(RowKind::Job, 1 << 56, "b", "y"), retire(RowKind::Group, u64::MAX, "b", "y")] {
        let refused = journal.append(&Batch { rows: vec![change], ..batch(1, 1) });
        assert!(matches!(refused, Err(JournalError::Io(_))), "{refused:?}");
        drop(journal);
        journal = loaded(dir.path());
        assert_eq!(journal.meta.head, Seq(1));
    }
    let rows = journal.load().unwrap().rows;
    assert_eq!(rows.iter().map(|row| (row.kind, row.key)).collect::<Vec<_>>(), [(RowKind::Job, last)]);
}

/// What a job put out, and nothing else in the batch.
fn put_out(after: u64, job: u64, bytes: usize) -> Batch {
    let outputs = vec![OutputChange::Append { job: Lifetime(job), at: 0, bytes: vec![b'x'; bytes].into() }];
    Batch { outputs, ..batch(after, 0) }
}

fn retired(after: u64, job: u64) -> Batch {
    Batch { outputs: vec![OutputChange::Retire { job: Lifetime(job) }], ..batch(after, 0) }
}

/// The jobs of which outputs are kept.
fn kept(dir: &Path) -> Vec<u64> {
    crate::check(dir, |_| {}).unwrap();
    let shown = Shown::of(&mut open(dir), 10).unwrap();
    shown.outputs.iter().map(|(job, _)| *job).collect()
}

// B-9: a job that puts out nothing for longer than a store keeps things, and one whose result nobody took.
#[test]
fn what_an_open_or_owed_job_put_out_never_grows_old() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = loaded(dir.path());
    journal.append(&batch(0, 1)).unwrap();
    (1..4).for_each(|job| journal.append(&put_out(1, job, 10)).unwrap());
    let replace =
        OutputChange::Replace { job: Lifetime(3), pieces: vec![(0, vec![b'y'; 9].into())], total: 9 };
    journal.append(&Batch { outputs: vec![replace], ..batch(1, 0) }).unwrap();
    journal.append(&retired(1, 2)).unwrap();
    let mut meta = journal.meta.clone();
    crate::prune::prune(&journal.connection, &mut meta, u64::from(u32::MAX) * 1_000).unwrap();
    meta.write(&journal.connection).unwrap();
    drop(journal);
    assert_eq!(kept(dir.path()), [1, 3]);
}

// B-9: up to 4 GiB, whatever its age; what is open or owed stays.
#[test]
fn a_store_that_is_too_large_lets_the_oldest_of_what_is_over_go() {
    const MIB: u64 = 1024 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let mut journal = loaded(dir.path());
    journal.append(&batch(0, 1)).unwrap();
    for (after, job) in (1..7).zip([4, 1, 3, 2, 5, 6]) {
        journal.append(&put_out(after, job, 1024 * 1024)).unwrap();
        if job != 4 {
            journal.append(&retired(after, job)).unwrap();
        }
        journal.append(&batch(after, 1)).unwrap();
    }
    let rows = (0..5).map(|key| retire(RowKind::Job, key, "a", "x")).collect();
    journal.append(&Batch { rows, ..batch(7, 1) }).unwrap();
    let shrink = |journal: &mut SqliteJournal, to: u64| {
        let mut meta = journal.meta.clone();
        crate::prune::shrink(&journal.connection, &mut meta, to).unwrap();
        meta.write(&journal.connection).unwrap();
        journal.meta = meta;
    };
    shrink(&mut journal, 7 * MIB);
    assert_eq!(journal_outputs(dir.path()), [1, 2, 3, 4, 5, 6], "it is no larger than it may be");
    shrink(&mut journal, 4 * MIB + MIB / 2);
    assert_eq!(journal_outputs(dir.path()), [2, 4, 5, 6], "those that were let go of first go first");
    shrink(&mut journal, 0);
    assert_eq!(journal_outputs(dir.path()), [4], "one that is open stays");
    shrink(&mut journal, 0);
    let shown = Shown::of(&mut journal, 0).unwrap();
    assert_eq!(
        (shown.rows.len(), shown.records.len()),
        (0, 8),
        "rows go before records, and the newest stay"
    );
    drop(journal);
    assert_eq!(kept(dir.path()), [4]);
}

/// As [`kept`], while the journal lives.
fn journal_outputs(dir: &Path) -> Vec<u64> {
    let reader = StoreReader::open(dir).unwrap();
    (0..10).filter(|job| reader.output(Lifetime(*job)).unwrap().is_some()).collect()
}
