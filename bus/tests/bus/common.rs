//! A log to subscribe to, and a waker that tells who holds it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use fanin_bus::{Delivery, Subscription};
use fanin_machine::log::Log;
use fanin_protocol::record::{MessageTaken, Next, RunEnded, RunOutcome, StoreClosed, TakenBy};
use fanin_protocol::{About, Entry, Fence, GroupId, JobId, Lifetime, LogId, Record, Seq, SessionId};

pub(crate) fn log(tail: usize) -> Arc<Log> {
    Arc::new(Log::new(LogId::from_uuid([1; 16]), tail))
}

/// Appends records, each with what it is about, as one batch.
pub(crate) fn append(log: &Log, records: impl IntoIterator<Item = (About, Record)>) {
    let places = log.head().0 + 1..;
    let entries = places.zip(records);
    let mut batch = entries.map(|(n, (about, record))| entry(n, about, record)).collect();
    log.append(&mut batch);
}

/// What is about a job is about its run.
fn entry(n: u64, about: About, record: Record) -> Entry {
    let run = about.job.as_ref().map(|_| Fence(2));
    Entry { seq: Seq(n), ts_ms: n, about: about.into(), run, record }
}

/// Appends this many records about nothing, one batch each.
pub(crate) fn append_each(log: &Log, count: u64) {
    (0..count).for_each(|_| append(log, [(About::default(), StoreClosed { queued: 0 }.into())]));
}

/// What a job's records are about.
pub(crate) fn about(session: &str, job: &str, group: &str) -> About {
    let within = About::of(SessionId::parse(session).ok(), GroupId::parse(group).ok());
    About { job: JobId::parse(job).ok(), lifetime: Some(Lifetime(1)), ..within }
}

/// A record that names its run alone.
pub(crate) fn run_ended() -> Record {
    let message = Some("the password is swordfish".into());
    let (outcome, next) = (RunOutcome::Failed, Next::Settle);
    RunEnded {
        run: Fence(2),
        outcome,
        next,
        cause: None,
        code: None,
        message,
        exit: None,
        output: None,
        left: None,
    }
    .into()
}

/// A record that closes the messages of several groups.
pub(crate) fn taken(groups: &[&str]) -> Record {
    let keys = groups.iter().map(|group| GroupId::parse(group).unwrap()).collect();
    MessageTaken { keys, results: Vec::new(), messages: Vec::new(), by: TakenBy::Inbox }.into()
}

/// All that is there, as `seq` for an event and `-missed` for a lag.
pub(crate) fn drain(events: &mut Subscription) -> Vec<i64> {
    std::iter::from_fn(|| events.try_next().ok().map(number)).collect()
}

/// An event's place, or how many records a lag tells of, negative.
pub(crate) fn number(delivery: Delivery) -> i64 {
    match delivery {
        Delivery::Event(event) => i64::try_from(event.seq().0).unwrap(),
        Delivery::Lagged { from, to, missed } => {
            assert_eq!(missed, to.0 - from.0 + 1);
            -i64::try_from(missed).unwrap()
        }
        unreadable @ Delivery::Unreadable { .. } => panic!("{unreadable}"),
    }
}

/// Nothing at all.
pub(crate) const NONE: [i64; 0] = [];

pub(crate) fn numbers(range: std::ops::RangeInclusive<i64>) -> Vec<i64> {
    range.collect()
}

/// Counts wakes; its strong count tells who still holds a waker of it.
#[derive(Default)]
pub(crate) struct Bell(AtomicUsize);

impl Bell {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self::default());
        (bell.clone(), bell.into())
    }

    pub(crate) fn rung(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Parked(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
