//! The checks, each on a store of its own. A store that fails one has lost something, or shows what was never committed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bytes::Bytes;
use fanin_protocol::{Envelope, Lifetime, RowKind, Seq};

use super::{Shown, batch, log_id, put, record, records, retire, row};
use crate::journal::{Batch, Change, Journal, JournalError, OutputChange, StoredOutput};

type Open<'a> = &'a dyn Fn() -> Result<Box<dyn Journal>, JournalError>;
type Check = fn(Open<'_>);

const CHECKS: [(&str, Check); 18] = [
    ("a new store is empty", a_new_store_is_empty),
    ("what is committed is there after a close and after a drop", what_is_committed_stays),
    ("a batch that does not follow the head is fenced", what_does_not_follow_is_fenced),
    ("records with a gap are refused whole", a_gap_is_refused),
    ("an epoch that is over is fenced", an_old_epoch_is_fenced),
    ("rows come in the order of kinds and keys", rows_come_in_order),
    ("a row is replaced, then retired, and found by its id", a_row_is_replaced_and_retired),
    ("the newest row of an id is found, an open one first", the_newest_row_is_found),
    ("rows of both sorts are paged by key", rows_are_paged),
    ("older lives of an id are found", older_lives_are_found),
    ("lives of an id that lie far apart are found", lives_that_lie_far_apart_are_found),
    ("outputs are appended and replaced", outputs_are_appended_and_replaced),
    ("the middle of an output is dropped, and its end is read on", the_middle_of_an_output_goes),
    ("a batch needs no records", a_batch_needs_no_records),
    ("bytes are kept as they are", bytes_are_kept),
    ("pages are contiguous and end at the head", pages_are_contiguous),
    ("a reader sees whole batches while they are written", a_reader_sees_whole_batches),
    ("one owner at a time", one_owner_at_a_time),
];

/// Checks that a kind of store keeps what a supervisor builds on. `fresh` makes a place for a new store and returns a
/// way to open it, which is called again for the same store.
///
/// # Panics
///
/// With the name of the first check that fails on standard error, and what is wrong.
pub fn conforms<O>(fresh: impl Fn() -> O)
where
    O: Fn() -> Result<Box<dyn Journal>, JournalError>,
{
    for (name, check) in CHECKS {
        let open = fresh();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&open))) {
            eprintln!("a journal must keep: {name}");
            resume_unwind(panic);
        }
    }
}

/// The store, opened and loaded.
fn opened(open: Open<'_>) -> Box<dyn Journal> {
    let mut journal = open().unwrap_or_else(|error| panic!("{error}"));
    journal.load().unwrap_or_else(|error| panic!("{error}"));
    journal
}

fn append(journal: &mut dyn Journal, batch: &Batch) {
    journal.append(batch).unwrap_or_else(|error| panic!("{error}"));
}

fn shown(open: Open<'_>) -> Shown {
    Shown::of(&mut *opened(open), 20).unwrap_or_else(|error| panic!("{error}"))
}

fn close(journal: Box<dyn Journal>) {
    journal.close().unwrap_or_else(|error| panic!("{error}"));
}

/// A batch with one of everything.
fn full(after: u64) -> Batch {
    let piece = |job, at, text: &'static str| OutputChange::Append {
        job: Lifetime(job),
        at,
        bytes: Bytes::from_static(text.as_bytes()),
    };
    Batch {
        rows: vec![
            put(RowKind::Job, after, &format!("job-{after}"), "open"),
            retire(RowKind::Group, after, &format!("group-{after}"), "over"),
        ],
        outputs: vec![piece(2, after * 3, "abc"), piece(3, after, "x")],
        ..batch(after, 4)
    }
}

fn a_new_store_is_empty(open: Open<'_>) {
    let shown = shown(open);
    assert_eq!((shown.opened.log, shown.opened.head, shown.opened.ts_ms), (None, Seq(0), 0));
    assert_eq!((shown.opened.rows.len(), shown.records.len(), shown.rows.len()), (0, 0, 0));
    let page = opened(open).reader().page(Seq(1), 10);
    assert_eq!(page.map(|page| (page.log, page.oldest, page.head)), Ok((None, Seq(1), Seq(0))));
}

fn what_is_committed_stays(open: Open<'_>) {
    let mut journal = opened(open);
    append(&mut *journal, &full(0));
    close(journal);
    let closed = shown(open);
    assert_eq!(closed.opened.log, Some(log_id()));
    assert_eq!((closed.opened.head, closed.opened.ts_ms), (Seq(4), record(4).ts_ms));
    assert_eq!(closed.records, full(0).records);
    assert_eq!(closed.opened.rows, [row(RowKind::Job, 0, "job-0", "open")]);
    let mut journal = opened(open);
    append(&mut *journal, &full(4));
    drop(journal);
    let dropped = shown(open);
    assert_eq!((dropped.opened.head, dropped.records.len()), (Seq(8), 8));
    assert_eq!((dropped.opened.rows.len(), dropped.rows.len(), dropped.outputs.len()), (2, 4, 2));
    assert_eq!(shown(open), dropped, "a look changes nothing");
}

/// What a refused batch leaves behind: nothing.
fn refused(open: Open<'_>, batch: &Batch) {
    let mut journal = opened(open);
    append(&mut *journal, &full(0));
    drop(journal);
    let before = shown(open);
    let mut journal = opened(open);
    let refused = journal.append(batch);
    assert!(matches!(refused, Err(JournalError::Fenced(_))), "{refused:?}");
    assert_eq!(records(&*journal.reader()).map(|records| records.len()), Ok(4));
    drop(journal);
    assert_eq!(shown(open), before);
}

fn what_does_not_follow_is_fenced(open: Open<'_>) {
    refused(open, &full(3));
    // Not by its content either: the head is 4 now.
    let mut journal = opened(open);
    assert!(matches!(journal.append(&full(0)), Err(JournalError::Fenced(_))));
    drop(journal);
    let mut journal = opened(open);
    assert!(matches!(journal.append(&full(5)), Err(JournalError::Fenced(_))));
    drop(journal);
    assert_eq!(shown(open).opened.head, Seq(4));
}

fn a_gap_is_refused(open: Open<'_>) {
    let mut gap = full(4);
    gap.records.remove(1);
    refused(open, &gap);
}

fn an_old_epoch_is_fenced(open: Open<'_>) {
    refused(open, &Batch { epoch: Seq(0), ..full(4) });
    let mut journal = opened(open);
    append(&mut *journal, &Batch { epoch: Seq(5), ..batch(4, 1) });
    assert!(matches!(journal.append(&batch(5, 1)), Err(JournalError::Fenced(_))), "epoch 1 ended with 5");
}

fn rows_come_in_order(open: Open<'_>) {
    let mut rows = vec![
        row(RowKind::Store, 0, "", "s"),
        row(RowKind::Session, 3, "c", "x"),
        row(RowKind::Group, 2, "b", "x"),
        row(RowKind::Job, 1, "a", "x"),
        row(RowKind::Job, 9, "z", "x"),
        row(RowKind::Job, 10, "y", "x"),
        row(RowKind::Message, 0, "m", "x"),
    ];
    rows.reverse();
    let mut journal = opened(open);
    let changes = rows.iter().cloned().map(Change::Put).collect();
    append(&mut *journal, &Batch { rows: changes, ..batch(0, 1) });
    drop(journal);
    rows.reverse();
    assert_eq!(shown(open).opened.rows, rows);
}

fn a_row_is_replaced_and_retired(open: Open<'_>) {
    let mut journal = opened(open);
    let reader = journal.reader();
    append(&mut *journal, &Batch { rows: vec![put(RowKind::Job, 7, "a", "first")], ..batch(0, 1) });
    append(&mut *journal, &Batch { rows: vec![put(RowKind::Job, 7, "a", "second")], ..batch(1, 1) });
    let second = Ok(Some(row(RowKind::Job, 7, "a", "second")));
    assert_eq!(reader.row(RowKind::Job, 7), second);
    assert_eq!(reader.find(RowKind::Job, "a"), second);
    append(&mut *journal, &Batch { rows: vec![retire(RowKind::Job, 7, "a", "last")], ..batch(2, 1) });
    let last = row(RowKind::Job, 7, "a", "last");
    assert_eq!(reader.row(RowKind::Job, 7), Ok(Some(last.clone())));
    assert_eq!(reader.find(RowKind::Job, "a"), Ok(Some(last.clone())));
    assert_eq!(reader.find(RowKind::Group, "a"), Ok(None));
    assert_eq!(reader.find(RowKind::Job, "b"), Ok(None));
    assert_eq!(reader.row(RowKind::Job, 8), Ok(None));
    drop(journal);
    let shown = shown(open);
    assert_eq!((shown.opened.rows, shown.rows), (vec![], vec![last]));
}

fn the_newest_row_is_found(open: Open<'_>) {
    let mut journal = opened(open);
    let reader = journal.reader();
    let lives = vec![retire(RowKind::Job, 1, "a", "1"), retire(RowKind::Job, 2, "a", "2")];
    append(&mut *journal, &Batch { rows: lives, ..batch(0, 1) });
    assert_eq!(reader.find(RowKind::Job, "a"), Ok(Some(row(RowKind::Job, 2, "a", "2"))));
    append(&mut *journal, &Batch { rows: vec![put(RowKind::Job, 3, "a", "3")], ..batch(1, 1) });
    assert_eq!(reader.find(RowKind::Job, "a"), Ok(Some(row(RowKind::Job, 3, "a", "3"))));
}

fn older_lives_are_found(open: Open<'_>) {
    let mut journal = opened(open);
    let reader = journal.reader();
    let lives = vec![
        retire(RowKind::Job, 1, "a", "1"),
        retire(RowKind::Job, 2, "b", "2"),
        retire(RowKind::Job, 4, "a", "4"),
        put(RowKind::Job, 9, "a", "9"),
    ];
    append(&mut *journal, &Batch { rows: lives, ..batch(0, 1) });
    let found = |before| {
        let row = reader.find_before(RowKind::Job, "a", before);
        row.map(|row| row.map(|row| row.key))
    };
    assert_eq!(
        [u64::MAX, 10, 9, 4, 1].map(found),
        [Ok(Some(9)), Ok(Some(9)), Ok(Some(4)), Ok(Some(1)), Ok(None)]
    );
}

fn lives_that_lie_far_apart_are_found(open: Open<'_>) {
    let places = [0, 4_095, 4_096, 70_000, 1 << 32, (1 << 48) + 1];
    let mut journal = opened(open);
    let reader = journal.reader();
    let mut rows: Vec<Change> = places.iter().map(|key| retire(RowKind::Job, *key, "a", "over")).collect();
    // Others of that id, between and around them.
    for (kind, key) in [(RowKind::Group, 4_097), (RowKind::Message, 1), (RowKind::Session, 70_001)] {
        rows.push(retire(kind, key, "a", "another"));
    }
    rows.push(retire(RowKind::Job, 70_002, "b", "over"));
    append(&mut *journal, &Batch { rows, ..batch(0, 1) });
    let (mut before, mut found) = (u64::MAX, Vec::new());
    while let Ok(Some(row)) = reader.find_before(RowKind::Job, "a", before) {
        assert_eq!(row, self::row(RowKind::Job, row.key, "a", "over"));
        found.insert(0, row.key);
        before = row.key;
    }
    assert_eq!(found, places);
    assert_eq!(reader.find_before(RowKind::Job, "a", 0), Ok(None));
    assert_eq!(reader.find(RowKind::Job, "b"), Ok(Some(row(RowKind::Job, 70_002, "b", "over"))));
    assert_eq!(reader.find(RowKind::Message, "a"), Ok(Some(row(RowKind::Message, 1, "a", "another"))));
    assert_eq!(reader.find(RowKind::Store, "a"), Ok(None));
    assert_eq!(reader.find(RowKind::Message, "b"), Ok(None));
}

fn rows_are_paged(open: Open<'_>) {
    let mut journal = opened(open);
    let reader = journal.reader();
    let change = |key: u64| match key % 2 {
        0 => put(RowKind::Job, key, "", "x"),
        _ => retire(RowKind::Job, key, "", "x"),
    };
    append(&mut *journal, &Batch { rows: (0..10).rev().map(change).collect(), ..batch(0, 1) });
    let keys = |from, max| {
        let rows = reader.rows(RowKind::Job, from, max);
        rows.map(|rows| rows.into_iter().map(|row| row.key).collect::<Vec<_>>())
    };
    assert_eq!(keys(0, 4), Ok(vec![0, 1, 2, 3]));
    assert_eq!(keys(4, 4), Ok(vec![4, 5, 6, 7]));
    assert_eq!(keys(8, 4), Ok(vec![8, 9]));
    assert_eq!(keys(10, 4), Ok(vec![]));
    assert_eq!(keys(0, 0), Ok(vec![]));
}

fn outputs_are_appended_and_replaced(open: Open<'_>) {
    let mut journal = opened(open);
    let reader = journal.reader();
    let job = Lifetime(2);
    let piece = |at, text: &'static str| (at, Bytes::from_static(text.as_bytes()));
    let after = |at, text: &'static str| OutputChange::Append { job, at, bytes: piece(at, text).1 };
    assert_eq!(reader.output(job), Ok(None));
    append(&mut *journal, &Batch { outputs: vec![after(0, "ab"), after(2, "c")], ..batch(0, 1) });
    let kept = StoredOutput { pieces: vec![piece(0, "ab"), piece(2, "c")], total: 3 };
    assert_eq!(reader.output(job), Ok(Some(kept)));
    let pieces = vec![piece(0, "a"), piece(9, "z")];
    let replace = OutputChange::Replace { job, pieces: pieces.clone(), total: 10 };
    append(&mut *journal, &Batch { outputs: vec![replace], ..batch(1, 1) });
    let kept = StoredOutput { pieces, total: 10 };
    assert_eq!(reader.output(job), Ok(Some(kept.clone())));
    assert_eq!(reader.output(Lifetime(3)), Ok(None));
    drop(journal);
    assert_eq!(shown(open).outputs, [(2, kept)]);
    let mut journal = opened(open);
    let replace = OutputChange::Replace { job, pieces: vec![], total: 0 };
    append(&mut *journal, &Batch { outputs: vec![replace], ..batch(2, 1) });
    drop(journal);
    assert_eq!(shown(open).outputs, []);
}

fn the_middle_of_an_output_goes(open: Open<'_>) {
    let mut journal = opened(open);
    let reader = journal.reader();
    let job = Lifetime(2);
    let piece = |at, text: &'static str| (at, Bytes::from_static(text.as_bytes()));
    let put_out = |(at, bytes)| OutputChange::Append { job, at, bytes };
    let outputs = vec![put_out(piece(0, "ab")), put_out(piece(2, "cd")), put_out(piece(4, "ef"))];
    append(&mut *journal, &Batch { outputs, ..batch(0, 1) });
    // The first byte of a piece, or its last one alone, is not all of it.
    let drop_of = |range| OutputChange::Drop { job, range };
    let outputs = vec![drop_of(1..3), drop_of(2..5), put_out(piece(8, "ij")), drop_of(20..30)];
    append(&mut *journal, &Batch { outputs, ..batch(1, 1) });
    let kept = StoredOutput { pieces: vec![piece(0, "ab"), piece(4, "ef"), piece(8, "ij")], total: 10 };
    assert_eq!(reader.output(job), Ok(Some(kept.clone())));
    for (from, left) in [(0, 3), (1, 3), (2, 2), (5, 2), (6, 1), (9, 1), (10, 0)] {
        let read = reader.output_from(job, from);
        let pieces = kept.pieces.iter().skip(3 - left).cloned().collect();
        assert_eq!(read, Ok(Some(StoredOutput { pieces, total: 10 })), "from {from}");
    }
    assert_eq!(reader.output_from(Lifetime(3), 0), Ok(None));
    // One that was never there is no error: most jobs put out nothing that is kept.
    let outputs = vec![OutputChange::Retire { job }, OutputChange::Retire { job: Lifetime(3) }];
    append(&mut *journal, &Batch { outputs, ..batch(2, 1) });
    let outputs = vec![OutputChange::Drop { job: Lifetime(3), range: 0..9 }];
    append(&mut *journal, &Batch { outputs, ..batch(3, 1) });
    drop(journal);
    assert_eq!(shown(open).outputs, [(2, kept)]);
}

fn a_batch_needs_no_records(open: Open<'_>) {
    let mut journal = opened(open);
    append(&mut *journal, &batch(0, 2));
    append(&mut *journal, &Batch { records: vec![], ..full(2) });
    append(&mut *journal, &Batch { records: vec![], outputs: vec![], ..full(2) });
    append(&mut *journal, &batch(2, 1));
    drop(journal);
    let shown = shown(open);
    assert_eq!((shown.opened.head, shown.opened.rows.len(), shown.rows.len()), (Seq(3), 1, 2));
    assert_eq!(shown.opened.ts_ms, record(3).ts_ms);
}

fn bytes_are_kept(open: Open<'_>) {
    let all: Bytes = (0..=255u8).cycle().take(100_000).collect::<Vec<_>>().into();
    let mut journal = opened(open);
    let strange =
        Envelope { kind: "weather.changed".into(), ignorable: true, body: all.clone(), ..record(2) };
    let id = "h\u{e9}llo '\"; \u{1f980}\n";
    let mut large = row(RowKind::Job, u64::from(u32::MAX), id, "");
    large.body = all.clone();
    let rows = vec![Change::Put(large.clone()), put(RowKind::Job, 0, "", "")];
    let outputs = vec![OutputChange::Append { job: Lifetime(1), at: 0, bytes: all.clone() }];
    let records = vec![record(1), strange.clone()];
    append(&mut *journal, &Batch { rows, outputs, records, ..batch(0, 0) });
    drop(journal);
    let shown = shown(open);
    assert_eq!(shown.records, [record(1), strange]);
    assert_eq!(shown.opened.rows, [row(RowKind::Job, 0, "", ""), large.clone()]);
    assert_eq!(shown.outputs, [(1, StoredOutput { total: all.len() as u64, pieces: vec![(0, all)] })]);
    assert_eq!(opened(open).reader().find(RowKind::Job, id), Ok(Some(large)));
}

fn pages_are_contiguous(open: Open<'_>) {
    let mut journal = opened(open);
    append(&mut *journal, &batch(0, 10));
    let reader = journal.reader();
    let seqs = |from, max| {
        let page = reader.page(Seq(from), max).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((page.log, page.oldest, page.head), (Some(log_id()), Seq(1), Seq(10)));
        page.records.into_iter().map(|record| record.seq.0).collect::<Vec<_>>()
    };
    assert_eq!(seqs(0, 3), [1, 2, 3]);
    assert_eq!(seqs(4, 3), [4, 5, 6]);
    assert_eq!(seqs(9, 3), [9, 10]);
    assert_eq!(seqs(11, 3), [0u64; 0]);
    assert_eq!(seqs(50, 3), [0u64; 0]);
    assert_eq!(seqs(1, 0), [0u64; 0]);
}

fn a_reader_sees_whole_batches(open: Open<'_>) {
    const BATCHES: u64 = 50;
    let mut journal = opened(open);
    append(&mut *journal, &batch(0, 4));
    let reader = journal.reader();
    std::thread::scope(|scope| {
        let looks = scope.spawn(move || {
            let mut seen = 0;
            while seen < BATCHES * 4 {
                let page = reader.page(Seq(1), 1_000).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(page.records.len() as u64, page.head.0);
                assert!(
                    page.head.0.is_multiple_of(4) && page.head.0 >= seen,
                    "half a batch, or back: {}",
                    page.head.0
                );
                seen = page.head.0;
            }
        });
        for n in 1..BATCHES {
            append(&mut *journal, &batch(n * 4, 4));
        }
        looks.join().unwrap_or_else(|panic| resume_unwind(panic));
    });
}

fn one_owner_at_a_time(open: Open<'_>) {
    let mut journal = opened(open);
    append(&mut *journal, &batch(0, 1));
    let second = open();
    assert!(matches!(second, Err(JournalError::Owned { .. })), "{second:?}");
    append(&mut *journal, &batch(1, 1));
    let reader = journal.reader();
    close(journal);
    append(&mut *opened(open), &batch(2, 1));
    // What reads needs no ownership.
    assert_eq!(reader.page(Seq(1), 10).map(|page| page.head), Ok(Seq(3)));
}
