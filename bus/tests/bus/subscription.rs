//! What a subscriber is promised: order, exact lag, its own place, an end, and no trace when it is gone.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{iter, thread};

use fanin_bus::{Delivery, Filter, Since, SubscribeError, Subscription, TryNextError};
use fanin_machine::log::Log;
use fanin_protocol::{About, Cursor, Envelope, LogId, Record, Seq};

use crate::common::*;

fn subscribe(log: &Arc<Log>, since: Since) -> Subscription {
    Subscription::new(log.clone(), Filter::all(), since).unwrap()
}

/// B42. One thread: the writer comes back from every append although nobody polls the sleeper.
#[test]
fn a_sleeping_subscriber_is_told_what_it_missed_and_costs_the_others_nothing() {
    let log = log(64);
    let (bell, waker) = Bell::new();
    let mut cx = Context::from_waker(&waker);
    let mut sleeper = subscribe(&log, Since::Start);
    assert!(sleeper.poll_next(&mut cx).is_pending());
    let mut others = [(); 3].map(|()| (subscribe(&log, Since::Start), Vec::new()));
    for _ in 0..1_000 {
        append_each(&log, 1);
        others.iter_mut().for_each(|(events, seen)| seen.extend(drain(events)));
    }
    for (_, seen) in others {
        assert_eq!(seen, numbers(1..=1_000));
    }

    assert_eq!(bell.rung(), 1, "woken once, however much came while it slept on");
    let oldest = log.oldest();
    let missed = oldest.0 - 1;
    let lagged = Delivery::Lagged { from: Seq(1), to: Seq(missed), missed };
    assert_eq!(sleeper.poll_next(&mut cx), Poll::Ready(Some(lagged)));
    let rest: Vec<i64> = drain(&mut sleeper);
    assert_eq!(rest, numbers(i64::try_from(oldest.0).unwrap()..=1_000));
    assert!(rest.len() >= 64, "kept {}", rest.len());

    append_each(&log, 1);
    assert_eq!(drain(&mut sleeper), [1_001], "lag is not the end");
}

#[test]
fn a_subscriber_that_stops_in_the_middle_sees_what_it_had_taken_over_then_the_lag() {
    let log = log(4);
    append_each(&log, 4);
    let mut events = subscribe(&log, Since::Start);
    assert_eq!(events.try_next().map(number), Ok(1));
    append_each(&log, 8);
    assert_eq!(drain(&mut events), [2, 3, 4, -4, 9, 10, 11, 12]);
}

#[test]
fn threads_that_wait_see_every_record_or_are_told_of_it() {
    const RECORDS: u64 = 20_000;
    let log = log(64);
    thread::scope(|scope| {
        let watchers = [(); 3].map(|()| {
            let mut events = subscribe(&log, Since::Start);
            scope.spawn(move || {
                let mut after = 0;
                block_on(async {
                    while let Some(delivery) = events.next().await {
                        let (from, to) = match delivery {
                            Delivery::Event(event) => (event.seq().0, event.seq().0),
                            Delivery::Lagged { from, to, .. } => (from.0, to.0),
                            unreadable @ Delivery::Unreadable { .. } => panic!("{unreadable}"),
                        };
                        assert_eq!(from, after + 1);
                        after = to;
                    }
                });
                after
            })
        });
        append_each(&log, RECORDS);
        log.close();
        assert_eq!(watchers.map(|watcher| watcher.join().unwrap()), [RECORDS; 3]);
    });
}

#[test]
fn subscriptions_begin_where_they_were_asked_to() {
    let log = log(64);
    append_each(&log, 5);
    let at = |seq| Since::Cursor(Cursor { log: log.id().clone(), seq: Seq(seq) });
    let mut late = subscribe(&log, Since::Now);
    assert_eq!(drain(&mut subscribe(&log, Since::Start)), numbers(1..=5));
    assert_eq!(drain(&mut subscribe(&log, at(3))), [4, 5]);
    assert_eq!(drain(&mut subscribe(&log, at(5))), NONE);
    assert_eq!(drain(&mut late), NONE);
    append_each(&log, 2);
    assert_eq!(drain(&mut late), [6, 7]);
}

#[test]
fn a_start_below_the_tail_is_told_as_lag() {
    let log = log(2);
    append_each(&log, 6);
    assert_eq!(drain(&mut subscribe(&log, Since::Start)), [-4, 5, 6]);
}

#[test]
fn a_cursor_that_cannot_be_ours_is_refused() {
    let log = log(64);
    append_each(&log, 5);
    let refused = |cursor: &Cursor| {
        Subscription::new(log.clone(), Filter::all(), Since::Cursor(cursor.clone())).unwrap_err()
    };
    let foreign = Cursor { log: LogId::parse("other").unwrap(), seq: Seq(1) };
    let error = refused(&foreign);
    assert_eq!(error, SubscribeError::OtherLog { cursor: foreign.log, log: log.id().clone() });
    assert_eq!(error.code(), "other_log");

    let error = refused(&Cursor { log: log.id().clone(), seq: Seq(6) });
    assert_eq!(error, SubscribeError::Regressed { at: Seq(6), head: Seq(5) });
    assert_eq!(error.code(), "log_regressed");
}

#[test]
fn the_end_comes_once_all_was_read() {
    let log = log(64);
    append_each(&log, 2);
    let mut events = subscribe(&log, Since::Start);
    let mut late = subscribe(&log, Since::Now);
    let mut waiting = pin!(async { late.next().await });
    let (bell, waker) = Bell::new();
    let mut cx = Context::from_waker(&waker);
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    log.close();
    assert_eq!(bell.rung(), 1);
    assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Ready(None));

    let seen: Vec<_> = iter::from_fn(|| block_on(events.next())).map(number).collect();
    assert_eq!(seen, [1, 2]);
    assert_eq!(events.try_next(), Err(TryNextError::Closed));
    assert_eq!(subscribe(&log, Since::Now).try_next(), Err(TryNextError::Closed));
}

#[test]
fn a_dropped_wait_loses_nothing() {
    let log = log(64);
    let (_, waker) = Bell::new();
    let mut events = subscribe(&log, Since::Start);
    for n in 1..=3 {
        assert!(pin!(events.next()).as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        append_each(&log, 1);
        assert_eq!(block_on(events.next()).map(number), Some(n));
    }
}

#[test]
fn a_dropped_subscription_leaves_nothing_behind() {
    let log = log(64);
    append_each(&log, 3);
    let (bell, waker) = Bell::new();
    let mut asleep = subscribe(&log, Since::Now);
    assert!(asleep.poll_next(&mut Context::from_waker(&waker)).is_pending());
    let mut reading = subscribe(&log, Since::Start);
    assert!(reading.try_next().is_ok());
    drop(waker);
    assert_eq!(Arc::strong_count(&bell), 2);
    drop((asleep, reading));
    assert_eq!(Arc::strong_count(&bell), 1);
    assert_eq!(Arc::strong_count(&log), 1);
}

#[test]
fn a_sleeper_keeps_no_record_alive_that_the_log_has_dropped() {
    let log = log(2);
    let message: Arc<str> = "exit status 1".into();
    let mut record = run_ended();
    if let Record::RunEnded(ended) = &mut record {
        ended.message = Some(message.clone());
    }
    append(&log, [(About::default(), record)]);
    let mut events = subscribe(&log, Since::Start);
    assert_eq!(drain(&mut events), [1]);
    append_each(&log, 4);
    assert_eq!(Arc::strong_count(&message), 1);
    assert_eq!(drain(&mut events), [-2, 4, 5]);
}

#[test]
fn what_is_delivered_reads_in_one_line() {
    let log = log(1);
    append(&log, [(about("main", "scan", "g"), run_ended())]);
    let mut events = Subscription::new(log.clone(), Filter::default(), Since::Start).unwrap();
    assert_eq!(events.try_next().unwrap().to_string(), "1 run.ended session=main group=g job=scan run=2");
    append_each(&log, 3);
    assert_eq!(events.try_next().unwrap().to_string(), "missed 2 records, 2 to 3");
    assert_eq!(events.try_next().unwrap().to_string(), "4 store.closed");
    assert_eq!(events.log(), log.id());
}

#[test]
fn the_bytes_of_an_event_are_shared_and_show_no_content() {
    let log = log(64);
    append(&log, [(about("main", "scan", "g"), run_ended())]);
    let events = [(); 8].map(|()| match subscribe(&log, Since::Start).try_next() {
        Ok(Delivery::Event(event)) => event,
        other => panic!("{other:?}"),
    });
    let lines = events.each_ref().map(|event| event.json_line().unwrap());
    let packed = events.each_ref().map(|event| event.message_pack().unwrap());
    assert!(lines.iter().all(|line| line.as_ptr() == lines[0].as_ptr()), "encoded again");
    assert!(packed.iter().all(|bytes| bytes.as_ptr() == packed[0].as_ptr()), "encoded again");

    let line = std::str::from_utf8(&lines[0]).unwrap();
    let document: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(document, events[0].to_json(log.id()).unwrap());
    assert!(line.ends_with("}\n") && line.matches('\n').count() == 1, "{line}");
    let envelope = Envelope::decode(&packed[0]).unwrap();
    assert_eq!((envelope.seq, envelope.kind.as_str()), (Seq(1), "run.ended"));
    assert!(!line.contains("swordfish") && !packed[0].windows(9).any(|word| word == b"swordfish"));
}
