//! A snapshot and then live: no hole between the two and no duplicate (B46).

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use fanin_bus::{Delivery, Filter, Since, Snapshot, Subscription};
use fanin_machine::log::Log;
use fanin_protocol::record::{JobEnded, JobQueued};
use fanin_protocol::{
    About, Cursor, Entry, GroupId, JobId, JobInfo, JobKind, Lifetime, NodeId, Private, Record, Seq,
    SessionId, SharedLimits, Status,
};

use crate::common::*;

fn group() -> GroupId {
    GroupId::parse("g").unwrap()
}

fn session() -> SessionId {
    SessionId::parse("main").unwrap()
}

/// What records make of jobs. It refuses a record that it has seen, and one that it lacks the record before.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct State(BTreeMap<JobId, Status>);

impl State {
    fn apply(&mut self, record: &Record) {
        match record {
            Record::JobQueued(queued) => {
                assert_eq!(self.0.insert(queued.job.clone(), Status::Queued), None, "twice queued");
            }
            Record::JobEnded(ended) => {
                assert_eq!(
                    self.0.insert(ended.job.clone(), ended.status),
                    Some(Status::Queued),
                    "twice ended"
                );
            }
            other => panic!("{}", other.kind()),
        }
    }

    fn infos(&self) -> Vec<JobInfo> {
        let info = |(job, status): (&JobId, &Status)| JobInfo {
            job: job.clone(),
            lifetime: Lifetime(1),
            session: session(),
            group: group(),
            index: 0,
            kind: JobKind::Closure,
            label: None,
            status: *status,
            phase: None,
            cause: None,
            code: None,
            message: None,
            why: Vec::new(),
            runs: 0,
            queued_at_ms: 0,
            started_at_ms: None,
            ended_at_ms: None,
            usage: None,
            firings: None,
        };
        self.0.iter().map(info).collect()
    }

    fn of(snapshot: &Snapshot) -> Self {
        Self(snapshot.jobs.iter().map(|info| (info.job.clone(), info.status)).collect())
    }
}

/// A driver in small: the state under a lock, and the place of the newest record that it made.
struct Driver {
    state: Mutex<(State, Seq)>,
    moved: Condvar,
    log: Arc<Log>,
}

impl Driver {
    fn new() -> Self {
        Self { state: Mutex::default(), moved: Condvar::new(), log: log(100_000) }
    }

    /// Decides the nth record and returns its entry.
    fn decide(&self, n: u64) -> Entry {
        let job = JobId::parse(&format!("job{}", n / 2)).unwrap();
        let record = if n.is_multiple_of(2) { queued(job) } else { ended(job) };
        let mut state = self.state.lock().unwrap();
        state.0.apply(&record);
        state.1 = state.1.next();
        self.moved.notify_all();
        Entry { seq: state.1, ts_ms: 0, about: About::default().into(), run: None, record }
    }

    /// Waits until a record was decided.
    fn wait_for(&self, seq: Seq) {
        let state = self.state.lock().unwrap();
        drop(self.moved.wait_while(state, |(_, at)| *at < seq).unwrap());
    }

    fn snapshot(&self) -> Snapshot {
        let state = self.state.lock().unwrap();
        let at = Cursor { log: self.log.id().clone(), seq: state.1 };
        Snapshot { at, jobs: state.0.infos(), groups: vec![group()] }
    }
}

fn queued(job: JobId) -> Record {
    let (parent, group) = (NodeId::Session(session()), group());
    let (spec, limits) = (Private::hidden(), SharedLimits::default());
    JobQueued { job, parent, group, index: 0, kind: JobKind::Closure, label: None, spec, limits }.into()
}

fn ended(job: JobId) -> Record {
    JobEnded {
        job,
        status: Status::Completed,
        cause: None,
        code: None,
        after: None,
        root: None,
        interrupted: false,
        unreaped: false,
        completed_anyway: false,
    }
    .into()
}

/// Folds what comes behind a snapshot into it, until the end.
fn follow(snapshot: &Snapshot, events: &mut Subscription) -> State {
    let mut state = State::of(snapshot);
    let mut after = snapshot.at.seq;
    while let Some(delivery) = block_on(events.next()) {
        let Delivery::Event(event) = delivery else { panic!("{delivery:?}") };
        assert_eq!(event.seq(), after.next());
        after = event.seq();
        state.apply(event.record());
    }
    state
}

#[test]
fn snapshots_taken_at_any_time_join_the_live_stream() {
    const RECORDS: u64 = 4_000;
    let driver = Driver::new();
    thread::scope(|scope| {
        let watchers = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut joined: Vec<(Snapshot, Subscription)> = Vec::new();
                while joined.last().is_none_or(|(last, _)| last.at.seq.0 < RECORDS) {
                    let snapshot = driver.snapshot();
                    let at = snapshot.at.seq;
                    let events = Subscription::after(driver.log.clone(), at, Filter::all()).unwrap();
                    joined.push((snapshot, events));
                    driver.wait_for(Seq(RECORDS.min(at.0 + 97)));
                }
                joined
            })
        });
        for n in 0..RECORDS {
            // Appended after the lock, as a driver with a journal does: a snapshot may be ahead of the log.
            let entry = driver.decide(n);
            driver.log.append(&mut vec![entry]);
        }
        driver.log.close();
        let last = State::of(&driver.snapshot());
        for watcher in watchers {
            for (snapshot, mut events) in watcher.join().unwrap() {
                assert_eq!(follow(&snapshot, &mut events), last);
            }
        }
    });
}

#[test]
fn a_snapshot_ahead_of_the_log_passes_over_what_it_has() {
    let driver = Driver::new();
    let decided: Vec<_> = (0..6).map(|n| driver.decide(n)).collect();
    let snapshot = driver.snapshot();
    let mut events = Subscription::after(driver.log.clone(), snapshot.at.seq, Filter::all()).unwrap();
    let (bell, waker) = Bell::new();
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(events.poll_next(&mut cx).is_pending());
    for entry in decided {
        driver.log.append(&mut vec![entry]);
        assert!(events.poll_next(&mut cx).is_pending(), "a record that the snapshot has");
    }
    let entry = driver.decide(6);
    driver.log.append(&mut vec![entry]);
    assert_eq!(drain(&mut events), [7]);
    assert!(bell.rung() > 0);
}

#[test]
fn the_place_of_a_snapshot_is_a_cursor_for_later() {
    let driver = Driver::new();
    for n in 0..4 {
        let entry = driver.decide(n);
        driver.log.append(&mut vec![entry]);
    }
    let snapshot = driver.snapshot();
    let since = Since::Cursor(snapshot.at.clone());
    let mut events = Subscription::new(driver.log.clone(), Filter::all(), since).unwrap();
    for n in 4..6 {
        let entry = driver.decide(n);
        driver.log.append(&mut vec![entry]);
    }
    driver.log.close();
    assert_eq!(follow(&snapshot, &mut events), State::of(&driver.snapshot()));
}
