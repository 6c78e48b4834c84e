//! What the log promises its writer and its readers, one thread at a time; loom has the rest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use fanin_protocol::About;
use fanin_protocol::record::StoreClosed;
use proptest::prelude::*;

use super::segment::PARTS;
use super::*;

/// Counts how often it was woken; its strong count tells who still holds a waker of it.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn bell() -> (std::sync::Arc<Bell>, Waker) {
    let bell = std::sync::Arc::new(Bell::default());
    (bell.clone(), bell.into())
}

fn log(tail: usize) -> Arc<Log> {
    Arc::new(Log::new(LogId::from_uuid([1; 16]), tail))
}

fn append(log: &Log, count: u64) {
    let head = log.head().0;
    let mut batch = (head + 1..=head + count)
        .map(|n| Entry {
            seq: Seq(n),
            ts_ms: n,
            about: About::default().into(),
            run: None,
            record: StoreClosed { queued: n }.into(),
        })
        .collect();
    log.append(&mut batch);
    assert!(batch.is_empty());
}

/// Reads to the head with pages of a size; `-n` for n records that are no longer kept.
fn drain(log: &Log, mut after: Seq, max: usize) -> Vec<i64> {
    let mut found = Vec::new();
    loop {
        match log.read(after, max) {
            Read::Entries(entries) => {
                assert!((1..=max).contains(&entries.len()));
                for entry in entries {
                    assert_eq!(entry.seq, after.next());
                    after = entry.seq;
                    found.push(i64::try_from(entry.seq.0).unwrap());
                }
            }
            Read::Behind { oldest } => {
                assert!(oldest > after.next(), "behind, and nothing is missed");
                found.push(-i64::try_from(oldest.0 - after.0 - 1).unwrap());
                after = Seq(oldest.0 - 1);
            }
            Read::UpToDate | Read::Closed => return found,
        }
    }
}

#[test]
fn an_empty_log_has_nothing_and_misses_nothing() {
    let log = log(4);
    assert_eq!((log.head(), log.oldest()), (Seq(0), Seq(1)));
    assert!(matches!(log.read(Seq(0), 9), Read::UpToDate));
    append(&log, 0);
    assert!(matches!(log.read(Seq(0), 9), Read::UpToDate));
}

#[test]
fn at_least_the_tail_is_kept_and_at_most_one_segment_more() {
    for tail in [1, 2, 3, 64, READ_BATCH, READ_BATCH + 1, 3 * READ_BATCH - 1] {
        for batch in [1, 5, READ_BATCH as u64, 10 * READ_BATCH as u64] {
            let log = log(tail);
            for _ in 0..20 {
                append(&log, batch);
                let kept = log.head().0 + 1 - log.oldest().0;
                let (tail, width) = (tail as u64, tail.min(READ_BATCH) as u64);
                assert!(kept >= tail.min(log.head().0) && kept < tail + width, "kept {kept} of {tail}");
                let inner = log.inner.lock();
                let segments = inner.segments.len() as u64 + u64::from(!inner.open.is_empty());
                assert_eq!(segments, kept.div_ceil(width));
            }
        }
    }
}

#[test]
fn a_reader_that_keeps_up_makes_short_segments_and_the_tail_is_kept_all_the_same() {
    let (tail, width) = (64, 64);
    let log = log(tail as usize);
    for n in 1..=10 * tail {
        append(&log, 1);
        assert_eq!(drain(&log, Seq(n - 1), 9), [i64::try_from(n).unwrap()]);
        let kept = n + 1 - log.oldest().0;
        assert!(kept >= tail.min(n) && kept < tail + width, "kept {kept}");
    }
    let segments = log.inner.lock().segments.len();
    assert_eq!(segments, (tail as usize).div_ceil(PARTS), "segments of {PARTS} parts of one record");
    append(&log, 10 * tail);
    assert!(log.inner.lock().segments.len() <= 2, "short segments outlive the tail");
}

#[test]
fn a_place_below_the_tail_is_told_where_to_go_on() {
    let log = log(2);
    append(&log, 3);
    append(&log, 4);
    assert_eq!(log.oldest(), Seq(5));
    assert_eq!(drain(&log, Seq(0), 9), [-4, 5, 6, 7]);
    assert_eq!(drain(&log, Seq(3), 9), [-1, 5, 6, 7]);
    assert_eq!(drain(&log, Seq(4), 9), [5, 6, 7]);
    assert!(matches!(log.read(Seq(9), 9), Read::UpToDate), "a place still to come");
}

#[test]
fn of_a_batch_above_what_is_kept_the_front_is_missed_and_counted() {
    let log = log(2);
    append(&log, 3);
    let Read::Entries(taken) = log.read(Seq(0), 9) else { panic!("nothing to read") };
    append(&log, 100);
    assert_eq!((log.head(), log.oldest()), (Seq(103), Seq(102)));
    assert_eq!(drain(&log, Seq(3), 9), [-98, 102, 103]);
    assert_eq!(taken.map(|entry| entry.seq.0).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn what_was_taken_over_outlives_the_cut() {
    let log = log(4);
    append(&log, 4);
    let Read::Entries(entries) = log.read(Seq(1), 9) else { panic!("nothing to read") };
    append(&log, 100);
    assert_eq!(entries.map(|entry| entry.seq.0).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn what_was_taken_over_does_not_grow_with_the_log() {
    let log = log(4);
    append(&log, 2);
    let Read::Entries(entries) = log.read(Seq(0), 9) else { panic!("nothing to read") };
    append(&log, 2);
    assert_eq!(entries.len(), 2);
}

#[test]
fn a_reader_that_looks_late_finds_all_parts_of_a_segment_in_one_lock_from_any_place() {
    let log = log(64);
    for n in 1..=20 {
        append(&log, 1 + n % 3);
        // Another reader keeps up and makes a part of each append.
        drop(log.read(Seq(log.head().0 - 1), 9));
    }
    let head = log.head().0;
    for after in 0..head {
        for max in [1, 2, 3, 7, 64] {
            let Read::Entries(entries) = log.read(Seq(after), max) else { panic!("nothing to read") };
            let found: Vec<_> = entries.map(|entry| entry.seq.0).collect();
            let expected: Vec<_> = (after + 1..=head.min(after + max as u64)).collect();
            assert_eq!(found, expected, "after {after}, {max} at the most");
        }
    }
    assert_eq!(log.inner.lock().segments.len(), 1);
}

#[test]
fn a_handle_is_moved_from_record_to_record_and_its_clones_stay() {
    let log = log(8);
    append(&log, 3);
    drop(log.read(Seq(0), 9));
    append(&log, 2);
    drop(log.read(Seq(3), 9));
    let Read::Entries(mut entries) = log.read(Seq(0), 9) else { panic!("nothing to read") };
    let mut shared = entries.next_where(|_| true).unwrap();
    let mut clones = vec![shared.clone()];
    while entries.next_into(&mut shared, |entry| entry.seq.0 != 2) {
        clones.push(shared.clone());
    }
    assert_eq!(clones.iter().map(|entry| entry.seq.0).collect::<Vec<_>>(), [1, 3, 4, 5]);
    assert_eq!(shared.seq, Seq(5), "where it was is kept at the end");
}

#[test]
fn a_record_is_encoded_once_for_all_its_readers_and_once_for_each_form() {
    const READERS: usize = 64;
    let log = log(4);
    append(&log, 3);
    let made = AtomicUsize::new(0);
    let encode = |entry: &Entry| {
        made.fetch_add(1, Ordering::Relaxed);
        Ok(bytes::Bytes::from(entry.seq.to_string()))
    };
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let Read::Entries(entries) = log.read(Seq(0), 9) else { panic!("nothing to read") };
                for entry in entries {
                    assert_eq!(entry.bytes(Form::Json, encode).unwrap(), entry.seq.to_string());
                }
            });
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), 3);
    let Read::Entries(mut entries) = log.read(Seq(2), 9) else { panic!("nothing to read") };
    let last = entries.next().unwrap();
    assert!(last.bytes(Form::MessagePack, encode).is_ok());
    assert_eq!(made.load(Ordering::Relaxed), 4);
}

#[test]
fn what_cannot_be_encoded_is_told_to_all_who_ask() {
    let log = log(4);
    append(&log, 1);
    let Read::Entries(mut entries) = log.read(Seq(0), 9) else { panic!("nothing to read") };
    let entry = entries.next().unwrap();
    let refused = EncodeError("no UTF-8".into());
    assert_eq!(entry.bytes(Form::Json, |_| Err(refused.clone())), Err(refused.clone()));
    assert_eq!(entry.bytes(Form::Json, |_| Ok(bytes::Bytes::new())), Err(refused));
}

#[test]
fn one_append_wakes_each_sleeper_once_however_long_the_batch() {
    let log = log(2);
    let (bell, waker) = bell();
    let mut reader = Reader::new(log.clone());
    let cx = Context::from_waker(&waker);
    assert!(reader.poll_read(&cx, Seq(0), 9).is_pending());
    assert!(reader.poll_read(&cx, Seq(0), 9).is_pending(), "twice asleep is once asleep");
    append(&log, 50);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    append(&log, 1);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1, "nobody is asleep");
    assert!(reader.poll_read(&cx, Seq(0), 9).is_ready());
    assert!(reader.poll_read(&cx, Seq(51), 9).is_pending());
    log.close();
    assert_eq!(bell.0.load(Ordering::Relaxed), 2);
    assert!(matches!(reader.poll_read(&cx, Seq(51), 9), Poll::Ready(Read::Closed)));
}

/// Reads on whenever it is woken, and lies down again.
struct Eager(Mutex<(Reader, Seq)>);

impl Wake for Eager {
    fn wake(self: std::sync::Arc<Self>) {
        self.read_on();
    }
}

impl Eager {
    fn read_on(self: &std::sync::Arc<Self>) {
        let waker = Waker::from(self.clone());
        let (reader, after) = &mut *self.0.lock();
        while let Poll::Ready(found) = reader.poll_read(&Context::from_waker(&waker), *after, 9) {
            match found {
                Read::Entries(entries) => after.0 += entries.len() as u64,
                Read::Behind { oldest } => {
                    assert!(oldest > after.next(), "told of a hole that is none");
                    after.0 = oldest.0 - 1;
                }
                Read::UpToDate | Read::Closed => return,
            }
        }
    }
}

#[test]
fn who_lies_down_while_a_long_batch_is_appended_is_woken_at_its_end() {
    let log = log(2);
    let eager = std::sync::Arc::new(Eager(Mutex::new((Reader::new(log.clone()), Seq(0)))));
    eager.read_on();
    append(&log, 50);
    assert_eq!(eager.0.lock().1, Seq(50), "asleep with records to read");
    log.close();
}

#[test]
fn only_the_last_waker_of_a_reader_is_kept() {
    let log = log(2);
    let ((first, old), (second, new)) = (bell(), bell());
    let mut reader = Reader::new(log.clone());
    assert!(reader.poll_read(&Context::from_waker(&old), Seq(0), 9).is_pending());
    assert!(reader.poll_read(&Context::from_waker(&new), Seq(0), 9).is_pending());
    append(&log, 1);
    assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
}

#[test]
fn a_dropped_reader_leaves_nothing_behind_and_its_berth_is_used_again() {
    let log = log(2);
    for _ in 0..3 {
        let (bell, waker) = bell();
        let mut readers = [(); 3].map(|()| Reader::new(log.clone()));
        for reader in &mut readers {
            assert!(reader.poll_read(&Context::from_waker(&waker), Seq(0), 9).is_pending());
        }
        drop(waker);
        assert_eq!(std::sync::Arc::strong_count(&bell), 4);
        drop(readers);
        assert_eq!(std::sync::Arc::strong_count(&bell), 1);
        assert_eq!(log.inner.lock().sleepers.berths.len(), 3);
        assert_eq!(log.inner.lock().sleepers.asleep, 0);
    }
    assert_eq!(Arc::strong_count(&log), 1);
}

/// This many readers, all asleep at the start, and a bell for each.
fn asleep(log: &Arc<Log>, readers: usize) -> Vec<(Reader, std::sync::Arc<Bell>)> {
    let sleep = || {
        let (bell, waker) = bell();
        let mut reader = Reader::new(log.clone());
        assert!(reader.poll_read(&Context::from_waker(&waker), log.head(), 9).is_pending());
        (reader, bell)
    };
    (0..readers).map(|_| sleep()).collect()
}

fn rung(readers: &[(Reader, std::sync::Arc<Bell>)]) -> usize {
    readers.iter().map(|(_, bell)| bell.0.load(Ordering::Relaxed)).sum()
}

#[test]
fn many_sleepers_cost_the_writer_one_wake() {
    let log = log(64);
    let (called, waker) = bell();
    let cx = Context::from_waker(&waker);
    let mut herald = Herald::new(log.clone());
    assert!(herald.poll(&cx).is_pending());
    let readers = asleep(&log, WAKES_AT_ONCE + 1);
    append(&log, 3);
    append(&log, 3);
    assert_eq!((called.0.load(Ordering::Relaxed), rung(&readers)), (1, 0));
    assert!(herald.poll(&cx).is_pending());
    assert_eq!(rung(&readers), WAKES_AT_ONCE + 1, "each once for all that came");
    assert!(herald.poll(&cx).is_pending());
    assert_eq!(rung(&readers), WAKES_AT_ONCE + 1);
    drop(readers);
    let few = asleep(&log, WAKES_AT_ONCE);
    append(&log, 1);
    assert_eq!((called.0.load(Ordering::Relaxed), rung(&few)), (1, WAKES_AT_ONCE), "a few are woken at once");
    log.close();
    assert_eq!(called.0.load(Ordering::Relaxed), 2);
    assert!(herald.poll(&cx).is_ready());
}

#[test]
fn where_the_herald_is_gone_nobody_sleeps_on() {
    let log = log(64);
    let herald = Herald::new(log.clone());
    let readers = asleep(&log, WAKES_AT_ONCE + 1);
    append(&log, 1);
    assert_eq!(rung(&readers), 0);
    drop(herald);
    assert_eq!(rung(&readers), WAKES_AT_ONCE + 1);
    let again = asleep(&log, WAKES_AT_ONCE + 1);
    append(&log, 1);
    assert_eq!(rung(&again), WAKES_AT_ONCE + 1, "the writer wakes them again");
}

/// A task that owns a reader: dropping its last waker drops the reader, which takes the log's lock.
struct Task(#[expect(dead_code, reason = "held for its drop")] Mutex<Reader>);

impl Wake for Task {
    fn wake(self: std::sync::Arc<Self>) {}
}

#[test]
fn a_waker_may_own_a_reader_of_the_same_log() {
    let log = log(2);
    let (bell, other) = bell();
    let sleep = |reader: &mut Reader, waker: &Waker| {
        assert!(reader.poll_read(&Context::from_waker(waker), log.head(), 9).is_pending());
    };
    let task = || {
        let mut owned = Reader::new(log.clone());
        sleep(&mut owned, &other);
        Waker::from(std::sync::Arc::new(Task(Mutex::new(owned))))
    };
    let mut replaced = Reader::new(log.clone());
    sleep(&mut replaced, &task());
    sleep(&mut replaced, &other);
    let mut left = Reader::new(log.clone());
    sleep(&mut left, &task());
    drop(left);
    let mut woken = Reader::new(log.clone());
    sleep(&mut woken, &task());
    append(&log, 1);
    assert_eq!(Arc::strong_count(&log), 3, "only the two readers here and the log itself");
    assert_eq!(bell.0.load(Ordering::Relaxed), 2, "the replacing one, and the one that the woken task owned");
}

#[test]
fn the_end_comes_after_the_last_record() {
    let log = log(4);
    append(&log, 3);
    log.close();
    assert!(matches!(log.read(Seq(1), 9), Read::Entries(_)));
    assert!(matches!(log.read(Seq(3), 9), Read::Closed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn pages_of_any_size_equal_reading_at_once(
        tail in 1usize..40,
        batches in prop::collection::vec(0u64..30, 0..12),
        after in 0u64..200,
        max in 1usize..50,
    ) {
        let log = log(tail);
        batches.iter().for_each(|count| append(&log, *count));
        let (head, oldest) = (log.head().0, log.oldest().0);
        let mut whole: Vec<i64> = Vec::new();
        if after + 1 < oldest {
            whole.push(-i64::try_from(oldest - after - 1).unwrap());
        }
        whole.extend((oldest.max(after + 1)..=head).map(|n| i64::try_from(n).unwrap()));
        prop_assert_eq!(drain(&log, Seq(after), max), whole);
    }
}
