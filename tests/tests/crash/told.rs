//! What somebody outside was told before the crash, and what must be true of the store for it.

use std::collections::{BTreeMap, BTreeSet};

use fanin_supervisor::protocol::record::TakenBy;
use fanin_supervisor::protocol::{
    CombinedResult, Entry, Envelope, GroupId, JobId, Lifetime, MessageId, NodeId, PartState, Record, Status,
};
use fanin_supervisor::{CallError, LaunchError, RunError, SessionError, WaitError};
use fanin_tests::ledger::Ledger;

/// The process is dead: nothing more is heard of it.
#[derive(Debug)]
pub(crate) struct Dead;

macro_rules! dead {
    ($($error:ty),*) => {
        $(impl From<$error> for Dead {
            fn from(error: $error) -> Self {
                // Anything else than the end of the store would be a refusal that the script did not expect.
                assert!(["store_io", "closed"].contains(&error.code()), "{error}");
                Self
            }
        })*
    };
}

dead!(CallError, LaunchError, RunError, SessionError, WaitError);

/// Replies and events, as they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    /// Records that were shown.
    pub(crate) events: BTreeMap<u64, Record>,
    /// Lives of jobs whose launch was answered, and the group.
    pub(crate) launched: Vec<(GroupId, Vec<(JobId, Lifetime)>)>,
    /// Lives that were told to stop, or had not started.
    pub(crate) cancelled: Vec<Lifetime>,
    /// How lives were shown to have ended.
    pub(crate) ended: BTreeMap<Lifetime, Status>,
    /// Jobs that were given more time.
    pub(crate) extended: Vec<JobId>,
    /// Words that were accepted.
    pub(crate) posted: Vec<MessageId>,
    /// Words whose taking was answered.
    pub(crate) words: BTreeSet<MessageId>,
    /// Wakes that came, and what they said.
    pub(crate) wakes: BTreeMap<GroupId, Vec<(Lifetime, Status)>>,
    /// Those of them whose taking was answered.
    pub(crate) acked: BTreeSet<GroupId>,
    /// It was closed in order.
    pub(crate) closed: bool,
}

impl Told {
    /// A wake came: one that comes again says the same, and none comes after its taking was answered.
    pub(crate) fn wake_comes(&mut self, result: &CombinedResult) {
        let group = &result.group;
        assert!(!self.acked.contains(group), "the wake of {group} comes again");
        let says: Vec<_> = result.entries.iter().map(|entry| (entry.lifetime, entry.status)).collect();
        let said = self.wakes.entry(group.clone()).or_insert_with(|| says.clone());
        assert_eq!(*said, says, "the wake of {group} comes again and says something else");
    }

    /// Looks whether a store holds all of it.
    pub(crate) fn holds(&self, records: &[Envelope]) {
        let log: BTreeMap<u64, Record> =
            records.iter().map(|record| (record.seq.0, record.record().unwrap().unwrap())).collect();
        for (seq, record) in &self.events {
            assert_eq!(log.get(seq), Some(record), "record {seq} was shown");
        }
        let ledger = ledger(records);
        for (group, jobs) in &self.launched {
            let seen = ledger.groups.get(group).unwrap_or_else(|| panic!("{group} was launched"));
            for (job, lifetime) in jobs {
                assert!(seen.lives.contains(lifetime), "{job} was launched into {group}");
            }
        }
        for lifetime in &self.cancelled {
            let job = ledger.life(*lifetime).unwrap();
            assert!(job.stop.is_some() || job.ended.is_some(), "{lifetime:?} was cancelled: {job:?}");
        }
        for (lifetime, status) in &self.ended {
            let ended = ledger.life(*lifetime).and_then(|job| job.ended.as_ref()).map(|ended| ended.status);
            assert_eq!(ended, Some(*status), "{lifetime:?} was shown as over");
        }
        for job in &self.extended {
            let node = Some(NodeId::Job(job.clone()));
            let set = |record: &Record| matches!(record, Record::LimitsSet(set) if set.node == node);
            assert!(log.values().any(set), "{job} was given more time");
        }
        for key in &self.posted {
            assert!(ledger.posts.contains_key(key), "{key} was accepted");
        }
        for key in &self.words {
            assert_eq!(ledger.posts.get(key).and_then(|post| post.taken), Some(TakenBy::Inbox), "{key}");
        }
        for key in &self.acked {
            assert_eq!(ledger.groups.get(key).and_then(|group| group.taken), Some(TakenBy::Inbox), "{key}");
        }
        let closed = log.values().any(|record| matches!(record, Record::StoreClosed(_)));
        assert!(!self.closed || closed, "it was closed");
    }
}

/// What the records say to an outsider, who checks that each may follow those before it.
pub(crate) fn ledger(records: &[Envelope]) -> Ledger {
    let mut ledger = Ledger { from_records: true, is_rated: true, ..Ledger::default() };
    for envelope in records {
        let Envelope { seq, ts_ms, .. } = *envelope;
        let record = envelope.record().unwrap().unwrap();
        let entry = Entry { seq, ts_ms, about: std::sync::Arc::default(), run: None, record };
        ledger.take_in(&entry).unwrap_or_else(|broken| panic!("{broken}"));
    }
    ledger
}

/// What must hold once a recovery has come to its end and all that was owed was taken.
pub(crate) fn is_at_the_end(records: &[Envelope]) -> Ledger {
    let ledger = ledger(records);
    let mut open: BTreeMap<_, PartState> = BTreeMap::new();
    for record in records {
        if let Record::ToolPart(part) = record.record().unwrap().unwrap() {
            assert!(!part.state.is_terminal() || part.end_ms >= part.start_ms, "{part:?}");
            open.insert((part.run, part.call.clone()), part.state);
        }
    }
    open.retain(|_, state| !state.is_terminal());
    assert!(open.is_empty(), "{open:?} are open");
    for job in ledger.lives() {
        assert!(job.ended.is_some(), "{job:?} is not over");
    }
    for (id, group) in &ledger.groups {
        assert!(group.fired.is_some() != group.voided, "{id} is neither fired nor void, or both");
        assert!(group.voided || group.taken.is_some(), "the wake of {id} was not taken: {group:#?}");
    }
    let left = ledger.posts.iter().find(|(_, post)| post.taken.is_none());
    assert!(left.is_none(), "{left:?} was not taken");
    assert!(ledger.runs.values().all(|run| run.over), "a run is open");
    ledger
}
