//! What is stored in the end, held against what the observer was told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fanin_protocol::record::{MessageClass, StopTarget, TakenBy};
use fanin_protocol::{Record, Seq};
use fanin_sqlite::{StoreReader, check};
use fanin_supervisor::journal::JournalReader;
use fanin_supervisor::stored::LogFold;
use fanin_tests::stores::said_by;

use crate::observer::{Seen, Told};

/// A record and its time.
pub(crate) type Dated = (u64, Record);

/// All records of a store, whose checksums, places and rows were compared.
pub(crate) struct Stored {
    pub(crate) records: BTreeMap<u64, Dated>,
}

impl Stored {
    pub(crate) fn read(dir: &Path) -> Self {
        let mut fold = LogFold::default();
        let report = check(dir, |record| fold.take(record)).unwrap();
        // Of a long run the first records are no longer kept.
        assert_eq!(fold.compare(&report.rows), Ok(report.records.0 == Seq(1)), "rows and records");
        let reader = StoreReader::open(dir).unwrap();
        let mut records = BTreeMap::new();
        let mut from = Seq(1);
        loop {
            let page = reader.page(from, 1_000).unwrap();
            let Some(last) = page.records.last().map(|record| record.seq) else { break };
            for envelope in page.records {
                records.insert(envelope.seq.0, (envelope.ts_ms, envelope.record().unwrap().unwrap()));
            }
            from = last.next();
        }
        Self { records }
    }
}

/// What the records say became of everything.
#[derive(Default)]
struct Facts {
    breaches: Vec<String>,
    /// Where each epoch begins.
    epochs: Vec<u64>,
    sealed: BTreeMap<String, (u64, Vec<String>)>,
    queued: BTreeSet<String>,
    /// Told to stop, or over: where first.
    stopped: BTreeMap<String, u64>,
    ended: BTreeSet<String>,
    fired: BTreeSet<String>,
    posted: BTreeMap<String, MessageClass>,
    taken: BTreeMap<String, TakenBy>,
    parts: BTreeMap<(u64, String), bool>,
    runs: BTreeSet<u64>,
}

impl Facts {
    fn once(&mut self, is_first: bool, what: impl FnOnce() -> String) {
        if !is_first {
            self.breaches.push(what());
        }
    }

    fn add(&mut self, seq: u64, record: &Record) {
        match record {
            Record::StoreOpened(_) => self.epochs.push(seq),
            Record::JobQueued(body) => {
                let is_first = self.queued.insert(body.job.to_string());
                self.once(is_first, || format!("{} was launched twice", body.job));
            }
            Record::JobStopping(body) if body.target == StopTarget::Cancelled => {
                self.stopped.entry(body.job.to_string()).or_insert(seq);
            }
            Record::JobEnded(body) => {
                self.stopped.entry(body.job.to_string()).or_insert(seq);
                let is_first = self.ended.insert(body.job.to_string());
                self.once(is_first, || format!("{} ended twice", body.job));
            }
            Record::RunStarted(_) => drop(self.runs.insert(seq)),
            Record::RunEnded(body) => {
                let was_open = self.runs.remove(&body.run.0);
                self.once(was_open, || format!("run {} ended twice", body.run.0));
            }
            Record::GroupSealed(body) => {
                let members = body.members.iter().map(ToString::to_string).collect();
                let is_first = self.sealed.insert(body.group.to_string(), (seq, members)).is_none();
                self.once(is_first, || format!("{} was launched twice", body.group));
            }
            Record::GroupFired(body) => {
                let is_first = self.fired.insert(body.group.to_string());
                self.once(is_first, || format!("{} fired twice", body.group));
            }
            Record::MessagePosted(body) => {
                let is_first = self.posted.insert(body.key.to_string(), body.class).is_none();
                self.once(is_first, || format!("{} was posted twice", body.key));
            }
            Record::MessageTaken(body) => {
                let keys = body.keys.iter().map(ToString::to_string);
                for key in keys.chain(body.messages.iter().map(ToString::to_string)) {
                    let is_first = self.taken.insert(key.clone(), body.by).is_none();
                    self.once(is_first, || format!("{key} was taken twice"));
                }
            }
            Record::ToolPart(part) => {
                let is_over = part.state.is_terminal();
                self.once(!is_over || part.end_ms >= part.start_ms, || {
                    format!("call {} ended before it began", part.call)
                });
                self.parts.insert((part.run.0, part.call.to_string()), is_over);
            }
            _ => {}
        }
    }

    /// What is left over in the end.
    fn left(&mut self) {
        let open = self.parts.iter().filter(|(_, is_over)| !**is_over);
        let mut breaches: Vec<_> =
            open.map(|((run, call), _)| format!("{call} of run {run} is open")).collect();
        breaches.extend(self.runs.iter().map(|run| format!("run {run} never ended")));
        for (group, (_, members)) in &self.sealed {
            let left = members.iter().filter(|member| !self.ended.contains(*member));
            breaches.extend(left.map(|member| format!("{member} never ended")));
            if !self.fired.contains(group) {
                breaches.push(format!("{group} never fired"));
            }
            if !matches!(self.taken.get(group), Some(TakenBy::Inbox | TakenBy::Waiter)) {
                breaches.push(format!("the wake of {group} is lost"));
            }
        }
        for (key, class) in &self.posted {
            let is_right = match (class, self.taken.get(key)) {
                (MessageClass::FollowUp, Some(TakenBy::Run | TakenBy::Void)) => true,
                (MessageClass::User, Some(TakenBy::Inbox)) => true,
                (MessageClass::FollowUp | MessageClass::User | MessageClass::Watch, _) => false,
            };
            if !is_right {
                breaches.push(format!("the message {key} is lost"));
            }
        }
        self.breaches.extend(breaches);
    }

    /// The place where the epoch of a record ends.
    fn end_of_epoch(&self, seq: u64) -> u64 {
        self.epochs.iter().copied().find(|epoch| *epoch > seq).unwrap_or(u64::MAX)
    }
}

/// All in which what is stored is not what was promised.
pub(crate) fn breaches(told: &Told, stored: &Stored) -> Vec<String> {
    let mut facts = Facts { breaches: told.breaches.clone(), ..Facts::default() };
    let mut next = 1;
    for (seq, (_, record)) in &stored.records {
        facts.once(*seq == next, || format!("record {next} is gone"));
        next = seq + 1;
        facts.add(*seq, record);
    }
    facts.left();
    events(told, stored, &mut facts.breaches);
    replies(told, &mut facts);
    facts.breaches
}

/// Each event that was seen is there, and says the same.
fn events(told: &Told, stored: &Stored, breaches: &mut Vec<String>) {
    for (seq, seen) in &told.events {
        let there = stored.records.get(seq).map(|(ts_ms, record)| Seen {
            ts_ms: *ts_ms,
            kind: record.kind().to_owned(),
            says: said_by(record),
        });
        if there.as_ref() != Some(seen) {
            breaches.push(format!("record {seq} was seen as {seen:?}, and {there:?} is there"));
        }
    }
}

/// Each reply that was given holds.
fn replies(told: &Told, facts: &mut Facts) {
    let mut breaches = Vec::new();
    for (group, jobs) in &told.launched {
        let there = facts.sealed.get(group).map(|(_, members)| members.len());
        if there != Some(*jobs) {
            breaches.push(format!("{group} was launched with {jobs} jobs, and {there:?} are there"));
        }
    }
    for group in &told.cancelled {
        let Some((seq, members)) = facts.sealed.get(group) else {
            breaches.push(format!("{group} was cancelled and is not there"));
            continue;
        };
        // A recovery ends what a forgotten cancel has left, in a later epoch.
        let end = facts.end_of_epoch(*seq);
        let forgotten = members.iter().filter(|job| facts.stopped.get(*job).is_none_or(|seq| *seq >= end));
        breaches.extend(forgotten.map(|job| format!("the cancel of {job} is lost")));
    }
    for group in &told.backgrounded {
        if facts.taken.get(group) != Some(&TakenBy::Inbox) {
            breaches.push(format!("{group} went to the background, and its wake is lost"));
        }
    }
    for key in told.posted.iter().chain(&told.extended) {
        if !facts.posted.contains_key(key) {
            breaches.push(format!("{key} was posted and is not there"));
        }
    }
    for key in &told.acked {
        if !facts.taken.contains_key(key) {
            breaches.push(format!("{key} was taken, and it is not there that it was"));
        }
    }
    facts.breaches.extend(breaches);
}
