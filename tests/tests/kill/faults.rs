//! That each promise can be seen to break: what was told and stored is spoilt in one place, and the comparison names it.

use std::collections::BTreeMap;

use fanin_protocol::record::{StopTarget, TakenBy};
use fanin_protocol::{PartState, Record};

use crate::observer::Told;
use crate::store::{Dated, Stored, breaches};

/// Enough lives for one of everything.
const KILLS: usize = 40;

type Records = BTreeMap<u64, Dated>;

/// The first record that is so.
fn first(records: &Records, mut is_so: impl FnMut(&Record) -> bool) -> u64 {
    *records.iter().find(|(_, (_, record))| is_so(record)).expect("there is none").0
}

/// Puts a record that says nothing here in the place of another.
fn take_out(records: &mut Records, seq: u64) {
    let nothing = first(records, |record| matches!(record, Record::SessionOpened(_)));
    let nothing = records[&nothing].1.clone();
    records.get_mut(&seq).unwrap().1 = nothing;
}

/// Puts a record behind all others.
fn put_in(records: &mut Records, record: Record) {
    let last = *records.last_key_value().unwrap().0;
    records.insert(last + 1, (0, record));
}

fn is_taken(record: &Record, by: TakenBy) -> bool {
    matches!(record, Record::MessageTaken(body) if body.by == by && !body.keys.is_empty())
}

#[test]
fn each_promise_is_missed_where_it_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let (told, stored) = crate::kill(dir.path(), KILLS, 1);
    assert_eq!(breaches(&told, &stored), [""; 0]);
    let spoilt = |spoil: &dyn Fn(&mut Records)| {
        let mut records = stored.records.clone();
        spoil(&mut records);
        breaches(&told, &Stored { records })
    };
    let missed = |words: &str, spoil: &dyn Fn(&mut Records)| {
        let breaches = spoilt(spoil);
        assert!(breaches.iter().any(|breach| breach.contains(words)), "`{words}` is not in {breaches:?}");
    };
    let seen = *told.events.keys().nth(told.events.len() / 2).unwrap();
    missed("was seen as", &|records| drop(records.remove(&seen)));
    missed("was seen as", &|records| records.get_mut(&seen).unwrap().0 += 1);
    missed("is gone", &|records| drop(records.remove(&2)));
    let launched = |record: &Record| matches!(record, Record::GroupSealed(body) if told.launched.contains_key(body.group.to_string().as_str()));
    missed("was launched with", &|records| take_out(records, first(records, launched)));
    missed("was launched twice", &|records| {
        let (_, record) = records[&first(records, launched)].clone();
        put_in(records, record);
    });
    missed("the cancel of", &|records| {
        let cancelled = |job: &str| told.cancelled.iter().any(|group| job.starts_with(&format!("{group}-")));
        records.retain(|_, (_, record)| {
            !matches!(record, Record::JobStopping(body)
                if body.target == StopTarget::Cancelled && cancelled(&body.job.to_string()))
        });
        records.retain(|_, (_, record)| !matches!(record, Record::JobEnded(_)));
    });
    missed("the wake of", &|records| {
        take_out(records, first(records, |record| is_taken(record, TakenBy::Inbox)));
    });
    missed("was taken twice", &|records| {
        let (_, record) = records[&first(records, |record| is_taken(record, TakenBy::Inbox))].clone();
        put_in(records, record);
    });
    missed("went to the background", &|records| {
        for (_, record) in records.values_mut() {
            if let Record::MessageTaken(body) = record {
                body.by = TakenBy::Waiter;
            }
        }
    });
    missed("was posted and is not there", &|records| {
        let told = |key: &str| told.posted.contains(key) || told.extended.contains(key);
        let is_posted =
            |record: &Record| matches!(record, Record::MessagePosted(body) if told(&body.key.to_string()));
        take_out(records, first(records, is_posted));
    });
    missed("is open", &|records| {
        let over =
            |record: &Record| matches!(record, Record::ToolPart(part) if part.state == PartState::Completed);
        take_out(records, first(records, over));
    });
    missed("never ended", &|records| {
        take_out(records, first(records, |record| matches!(record, Record::RunEnded(_))));
    });
    missed("never fired", &|records| {
        take_out(records, first(records, |record| matches!(record, Record::GroupFired(_))));
    });
}

#[test]
fn what_comes_twice_or_with_a_hole_is_noticed_at_once() {
    let mut told = Told::default();
    for line in ["event 1 5 job.queued 7", "event 3 5 job.queued 7", "acked a", "heard a"] {
        told.hear(line);
    }
    assert_eq!(told.breaches, ["record 3 was not seen behind the one before it", "a was delivered twice"]);
}
