//! The log: no append is slept through, and what a reader is told adds up while the tail is cut.

use std::sync::Arc as StdArc;
use std::sync::Mutex as Plain;
use std::task::{Context, Poll, Wake, Waker};

use fanin_machine::log::{Herald, Log, Read, Reader};
use fanin_machine::sync::Arc;
use fanin_protocol::record::StoreClosed;
use fanin_protocol::{About, Entry, LogId, Seq};
use loom::sync::Notify;
use loom::thread;

/// Where a reader's thread sleeps. A wake that is missed is a deadlock, which loom reports.
struct Bell(Notify);

impl Bell {
    fn new() -> (StdArc<Self>, Waker) {
        let bell = StdArc::new(Self(Notify::new()));
        (bell.clone(), bell.into())
    }
}

impl Wake for Bell {
    fn wake(self: StdArc<Self>) {
        self.0.notify();
    }
}

fn log(tail: usize) -> Arc<Log> {
    Arc::new(Log::new(LogId::from_uuid([1; 16]), tail))
}

fn append(log: &Log, numbers: std::ops::RangeInclusive<u64>) {
    let entry = |n| Entry {
        seq: Seq(n),
        ts_ms: n,
        about: About::default().into(),
        run: None,
        record: StoreClosed { queued: n }.into(),
    };
    log.append(&mut numbers.map(entry).collect());
}

/// A place in the log, and what was seen and missed on the way to it.
#[derive(Default)]
struct Place {
    after: Seq,
    seen: Vec<u64>,
    missed: u64,
}

impl Place {
    /// Goes on with what was found; false where there was nothing.
    fn take(&mut self, found: Read) -> bool {
        match found {
            Read::Entries(entries) => {
                for entry in entries {
                    assert_eq!(entry.seq, self.after.next(), "a hole or a duplicate that nobody told");
                    self.after = entry.seq;
                    self.seen.push(entry.seq.0);
                }
                true
            }
            Read::Behind { oldest } => {
                assert!(oldest > self.after.next(), "told of a hole that is none");
                self.missed += oldest.0 - self.after.0 - 1;
                self.after = Seq(oldest.0 - 1);
                true
            }
            Read::UpToDate | Read::Closed => false,
        }
    }
}

/// Reads until the end, sleeping where there is nothing.
fn read_to_end(log: Arc<Log>) -> Place {
    let (bell, waker) = Bell::new();
    let (mut reader, mut place) = (Reader::new(log), Place::default());
    loop {
        match reader.poll_read(&Context::from_waker(&waker), place.after, 9) {
            Poll::Pending => bell.0.wait(),
            Poll::Ready(found) => {
                if !place.take(found) {
                    return place;
                }
            }
        }
    }
}

/// Lets one reader read and sleep while the main thread appends three records in two batches and ends the log.
fn read_while_appending(tail: usize) -> Vec<u64> {
    let missed = StdArc::new(Plain::new(Vec::new()));
    let outcomes = missed.clone();
    loom::model(move || {
        let log = log(tail);
        let reader = thread::spawn({
            let log = log.clone();
            move || read_to_end(log)
        });
        append(&log, 1..=1);
        append(&log, 2..=3);
        log.close();
        let place = reader.join().unwrap();
        assert_eq!(place.seen.len() as u64 + place.missed, 3);
        outcomes.lock().unwrap().push(place.missed);
    });
    let mut missed = std::mem::take(&mut *missed.lock().unwrap());
    missed.sort_unstable();
    missed.dedup();
    missed
}

#[test]
fn no_append_and_no_end_falls_between_looking_and_sleeping() {
    assert_eq!(read_while_appending(9), [0]);
}

#[test]
fn a_reader_that_sleeps_while_the_tail_is_cut_is_told() {
    assert_eq!(read_while_appending(1), [0, 1, 2], "each number of missed records must have come up");
}

/// Nothing comes after the batch, so no later wake hides one that is lost: its parts are one record each.
#[test]
fn a_reader_that_lies_down_between_two_parts_of_a_batch_is_woken() {
    loom::model(|| {
        let log = log(1);
        let reader = thread::spawn({
            let log = log.clone();
            move || {
                let (bell, waker) = Bell::new();
                let (mut reader, mut place) = (Reader::new(log), Place::default());
                while place.after < Seq(2) {
                    match reader.poll_read(&Context::from_waker(&waker), place.after, 9) {
                        Poll::Pending => bell.0.wait(),
                        Poll::Ready(found) => assert!(place.take(found)),
                    }
                }
                place
            }
        });
        append(&log, 1..=2);
        let place = reader.join().unwrap();
        assert_eq!(place.seen.len() as u64 + place.missed, 2);
    });
}

#[test]
fn a_reader_that_is_dropped_takes_its_waker_along_and_nobody_elses() {
    loom::model(|| {
        let log = log(9);
        let (bell, waker) = Bell::new();
        let dropped = thread::spawn({
            let log = log.clone();
            move || {
                let mut reader = Reader::new(log);
                // Waits for the second record, which never comes: an append takes the waker, or the drop does.
                assert!(reader.poll_read(&Context::from_waker(&waker), Seq(1), 9).is_pending());
            }
        });
        let stays = thread::spawn({
            let log = log.clone();
            move || {
                let (bell, waker) = Bell::new();
                let mut reader = Reader::new(log);
                while reader.poll_read(&Context::from_waker(&waker), Seq(0), 9).is_pending() {
                    bell.0.wait();
                }
            }
        });
        append(&log, 1..=1);
        dropped.join().unwrap();
        stays.join().unwrap();
        assert_eq!(StdArc::strong_count(&bell), 1, "the log kept a waker of a reader that is gone");
    });
}

/// One writer cuts the tail after each record while two readers read. Nobody sleeps: the model above has that.
#[test]
fn what_two_readers_see_and_miss_adds_up() {
    const RECORDS: u64 = 3;
    let missed = StdArc::new(Plain::new(Vec::new()));
    let outcomes = missed.clone();
    loom::model(move || {
        let log = log(1);
        let readers = [(); 2].map(|()| {
            let log = log.clone();
            thread::spawn(move || {
                let mut place = Place::default();
                while place.take(log.read(place.after, 9)) {}
                place
            })
        });
        append(&log, 1..=1);
        append(&log, 2..=RECORDS);
        for reader in readers {
            let mut place = reader.join().unwrap();
            while place.take(log.read(place.after, 9)) {}
            assert_eq!(place.seen.len() as u64 + place.missed, RECORDS);
            outcomes.lock().unwrap().push(place.missed);
        }
    });
    let mut missed = std::mem::take(&mut *missed.lock().unwrap());
    missed.sort_unstable();
    missed.dedup();
    assert_eq!(missed, [0, 1, 2], "each number of missed records must have come up");
}

/// The writer calls the herald and not the readers; the herald is dropped at any moment.
#[test]
fn a_reader_that_a_herald_wakes_sees_all_also_where_the_herald_goes() {
    loom::model(|| {
        let log = log(9);
        let herald = Herald::new(log.clone());
        let reader = thread::spawn({
            let log = log.clone();
            move || read_to_end(log)
        });
        let herald = thread::spawn(move || {
            let (_, waker) = Bell::new();
            let mut herald = herald;
            // Comes twice, whether it was called or not, and goes.
            drop(herald.poll(&Context::from_waker(&waker)));
            drop(herald.poll(&Context::from_waker(&waker)));
        });
        append(&log, 1..=2);
        herald.join().unwrap();
        append(&log, 3..=3);
        log.close();
        assert_eq!(reader.join().unwrap().seen, [1, 2, 3]);
    });
}

/// The herald stays until the end, which it is told.
#[test]
fn a_herald_comes_whenever_it_is_called_and_ends_with_the_log() {
    loom::model(|| {
        let log = log(9);
        let mut herald = Herald::new(log.clone());
        let herald = thread::spawn(move || {
            let (bell, waker) = Bell::new();
            while herald.poll(&Context::from_waker(&waker)).is_pending() {
                bell.0.wait();
            }
        });
        let reader = thread::spawn({
            let log = log.clone();
            move || {
                let (bell, waker) = Bell::new();
                let mut reader = Reader::new(log);
                while reader.poll_read(&Context::from_waker(&waker), Seq(0), 9).is_pending() {
                    bell.0.wait();
                }
            }
        });
        append(&log, 1..=1);
        reader.join().unwrap();
        log.close();
        herald.join().unwrap();
    });
}
