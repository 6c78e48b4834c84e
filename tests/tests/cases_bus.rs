//! Cases of watching: each sees all in order or is told exactly what it missed, and nobody waits for those who look.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fanin_supervisor::protocol::{JobId, Record, Seq};
use fanin_supervisor::{
    Delivery, Event, Filter, JobSpec, RunContext, Session, Since, Subscription, Supervisor, TryNextError,
};
use fanin_tests::cases::*;
use tokio::time::Instant;

/// What a subscriber was told, place by place: nothing twice, nothing left out.
#[derive(Debug, Default)]
struct Told {
    /// The last place that was accounted for.
    last: u64,
    events: u64,
    lags: Vec<(u64, u64)>,
}

impl Told {
    /// Takes in the next delivery of a subscriber without a filter.
    #[track_caller]
    fn take_in(&mut self, delivery: &Delivery) {
        match delivery {
            Delivery::Event(event) => {
                assert_eq!(event.seq().0, self.last + 1, "a hole or a duplicate");
                self.last += 1;
                self.events += 1;
            }
            Delivery::Lagged { from, to, missed } => {
                assert_eq!(from.0, self.last + 1, "a hole or a duplicate before the lag");
                assert_eq!(*missed, to.0 + 1 - from.0);
                assert!(*missed > 0, "nothing was missed");
                self.last = to.0;
                self.lags.push((from.0, to.0));
            }
            unreadable @ Delivery::Unreadable { .. } => panic!("{unreadable}"),
        }
    }

    /// Reads all there is now.
    #[track_caller]
    fn catch_up(&mut self, events: &mut Subscription) -> TryNextError {
        loop {
            match events.try_next() {
                Ok(delivery) => self.take_in(&delivery),
                Err(nothing) => return nothing,
            }
        }
    }
}

/// Makes `jobs` jobs come and go, one after the other.
async fn traffic(session: &Session, jobs: usize) {
    for _ in 0..jobs {
        session.fan_out([idle("a")]).await.unwrap().wait(STUCK).await.unwrap();
    }
}

// B42, B-5, G10
#[tokio::test(start_paused = true)]
async fn a_sleeper_is_told_exactly_what_it_missed_and_goes_on() {
    const TAIL: u64 = 64;
    let supervisor = Supervisor::builder().tail(TAIL as usize).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let mut sleeper = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    let mut reader = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    let (mut slept, mut read) = (Told::default(), Told::default());
    let started = Instant::now();
    while read.last < 1_000 {
        traffic(&session, 1).await;
        assert_eq!(read.catch_up(&mut reader), TryNextError::Empty);
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "somebody waited");
    assert_eq!((read.events, read.lags.len()), (read.last, 0), "who reads sees all in order");

    // It sleeps across several rounds, and wakes to one lag each time, never to an end.
    for round in 0..5 {
        let before = slept.last;
        assert_eq!(slept.catch_up(&mut sleeper), TryNextError::Empty, "a lag is no end");
        assert_eq!(slept.lags.len(), round + 1);
        let (from, to) = slept.lags[round];
        assert_eq!(from, before + 1);
        assert!(slept.last - to >= TAIL, "it goes on with the oldest that is kept");
        assert_eq!(slept.last, read.last);
        traffic(&session, 100).await;
        read = Told { last: sleeper_head(&supervisor).await, ..read };
    }
    supervisor.shutdown().await;
    assert_eq!(slept.catch_up(&mut sleeper), TryNextError::Closed);
    assert!(soon(sleeper.next()).await.is_none());
}

async fn sleeper_head(supervisor: &Supervisor) -> u64 {
    supervisor.subscribe(Filter::all(), Since::Now).await.unwrap().cursor().seq.0
}

// B42: with a filter the lag counts all records of the log, since nobody can say which it would have let through.
#[tokio::test(start_paused = true)]
async fn a_sleeper_with_a_filter_is_told_of_all_that_went_by() {
    let supervisor = Supervisor::builder().tail(64).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let filter = Filter::session("parent").kinds(["job.ended"]);
    let mut sleeper = supervisor.subscribe(filter, Since::Start).await.unwrap();
    traffic(&session, 200).await;
    let head = sleeper_head(&supervisor).await;
    let Ok(Delivery::Lagged { from, to, missed }) = sleeper.try_next() else { panic!("a lag") };
    assert_eq!((from, missed), (Seq(1), to.0));
    let mut last = to.0;
    let mut ended = 0;
    while let Ok(Delivery::Event(event)) = sleeper.try_next() {
        assert!(event.seq().0 > last && event.kind() == "job.ended");
        last = event.seq().0;
        ended += 1;
    }
    assert!(ended >= (head - to.0) / 10, "{ended} of {}", head - to.0);
    assert_eq!(sleeper.cursor().seq.0, head, "it knows how far it has come");
}

// B42, G10: several that sleep, read and leave at random, behind a tail of any length, while others write at speed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_place_is_told_once_to_everyone() {
    watch_panics();
    let mut chance = Chance::new();
    for _ in 0..12 {
        let tail = *chance.of(&[1, 2, 3, 64, 255, 256, 257, 1_000]);
        let supervisor = Supervisor::builder().tail(tail).start().await.unwrap();
        let session = supervisor.session("parent").await.unwrap();
        let mut watchers = Vec::new();
        for _ in 0..4 {
            let mut events = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
            let (supervisor, mut chance) = (supervisor.clone(), chance.fork());
            watchers.push(tokio::spawn(async move {
                let mut told = Told::default();
                while let Some(delivery) = events.next().await {
                    told.take_in(&delivery);
                    if chance.below(50) == 0 {
                        chance.dawdle(30).await;
                    }
                    if chance.below(200) == 0 {
                        // It leaves and comes back with its cursor.
                        let cursor = events.cursor();
                        drop(events);
                        let since = Since::Cursor(cursor);
                        events = supervisor.subscribe(Filter::all(), since).await.unwrap();
                    }
                }
                told
            }));
        }
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let session = session.clone();
                tokio::spawn(async move { traffic(&session, 150).await })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        soon(supervisor.shutdown()).await;
        let head = sleeper_head(&supervisor).await;
        for watcher in watchers {
            let told = soon(watcher).await.unwrap();
            assert_eq!(told.last, head);
            let missed: u64 = told.lags.iter().map(|(from, to)| to + 1 - from).sum();
            assert_eq!(told.events + missed, head, "tail {tail}");
        }
    }
    assert_no_panic_of_ours();
}

/// A body with `calls` tool calls, three records each.
fn busy(label: &str, calls: usize) -> JobSpec {
    JobSpec::run(label, move |context: RunContext| async move {
        for n in 0..calls {
            let call = context.tool(format!("{n}"), "tool");
            call.begin();
            call.complete();
            if n % 16 == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok("done".into())
    })
}

// B43, DESIGN: 100,000 events through a tiny tail past subscribers that stall; the barrier does not live there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_barrier_fires_whatever_the_bus_loses() {
    watch_panics();
    let supervisor = Supervisor::builder().tail(2).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let noise = supervisor.session("noise").await.unwrap();
    // Some never look, one was woken once and never looks again, one reads all the time.
    let mut stalled = Vec::new();
    for _ in 0..8 {
        stalled.push(supervisor.subscribe(Filter::all(), Since::Start).await.unwrap());
    }
    let mut woken_once = supervisor.subscribe(Filter::all(), Since::Now).await.unwrap();
    assert!(poll_once(Box::pin(woken_once.next()).as_mut()).is_pending());
    let mut reader = supervisor.subscribe(Filter::session("parent"), Since::Start).await.unwrap();
    let reading = tokio::spawn(async move { while reader.next().await.is_some() {} });

    let noisy = noise.fan_out((0..160).map(|_| busy("noise", 200))).await.unwrap();
    let group = session.fan_out((0..7).map(|n| busy(&format!("{n}"), 200))).await.unwrap();
    let wake = woken(&session).await;
    assert_eq!(wake.group, *group.id());
    let expected: Vec<_> = (0..7).map(|n| (format!("{n}"), "completed".to_owned())).collect();
    assert_eq!(summaries(&wake), expected);
    noisy.wait(STUCK).await.unwrap();
    assert_no_wake_now(&session);

    let head = sleeper_head(&supervisor).await;
    assert!(head > 100_000, "{head}");
    for events in &mut stalled {
        let mut told = Told::default();
        assert_eq!(told.catch_up(events), TryNextError::Empty);
        assert_eq!((told.last, told.lags.len()), (head, 1));
    }
    soon(supervisor.shutdown()).await;
    soon(reading).await.unwrap();
    assert_no_panic_of_ours();
}

/// Jobs and groups that are open, by the events alone.
#[derive(Debug, Default, Clone, PartialEq)]
struct Open {
    jobs: BTreeSet<String>,
    groups: BTreeSet<String>,
}

impl Open {
    fn take_in(&mut self, event: &Event) {
        let job = |job: &JobId| job.to_string();
        match event.record() {
            Record::JobQueued(body) => {
                self.jobs.insert(job(&body.job));
                self.groups.insert(body.group.to_string());
            }
            Record::JobEnded(body) => assert!(self.jobs.remove(&job(&body.job)), "ended and never open"),
            Record::GroupFired(body) => assert!(self.groups.remove(&body.group.to_string())),
            Record::GroupVoided(body) => assert!(self.groups.remove(&body.group.to_string())),
            _ => {}
        }
    }
}

// B46: taken at any moment of a busy run, snapshot and live stream join without a hole or a duplicate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_and_its_stream_join_without_a_seam() {
    watch_panics();
    let mut chance = Chance::new();
    let (supervisor, session) = start_with_parent().await;
    let other = supervisor.session("other").await.unwrap();
    let mut all = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    let writers: Vec<_> = [session, other]
        .into_iter()
        .map(|session| {
            let (supervisor, mut chance) = (supervisor.clone(), chance.fork());
            tokio::spawn(async move {
                for _ in 0..200 {
                    let gate = Gate::new();
                    let group = session.fan_out([idle("a"), gated("b", &gate)]).await.unwrap();
                    chance.dawdle(4).await;
                    if chance.below(3) == 0 {
                        supervisor.cancel(&group.jobs()[1]).await.unwrap();
                    }
                    gate.open();
                    if chance.below(2) == 0 {
                        group.wait(STUCK).await.unwrap();
                    }
                }
            })
        })
        .collect();
    let mut late = Vec::new();
    for round in 0..150 {
        chance.dawdle(6).await;
        let filter = if round % 3 == 0 { Filter::session("other") } else { Filter::all() };
        late.push((round % 3 == 0, supervisor.snapshot(filter).unwrap()));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    soon(supervisor.shutdown()).await;

    // What was open at each place, for all and for one session.
    let (mut everywhere, mut there) = (Open::default(), Open::default());
    let mut at = BTreeMap::from([(0, (Open::default(), Open::default()))]);
    let mut matching = Vec::new();
    while let Some(delivery) = soon(all.next()).await {
        let Delivery::Event(event) = delivery else { panic!("{delivery:?}") };
        everywhere.take_in(&event);
        let of_other = event.session().is_some_and(|session| session.to_string() == "other");
        if of_other {
            there.take_in(&event);
        }
        at.insert(event.seq().0, (everywhere.clone(), there.clone()));
        matching.push((event.seq(), of_other));
    }
    for (of_other, (snapshot, mut events)) in late {
        let place = snapshot.at.seq;
        let (everywhere, there) = &at[&place.0];
        let shown = Open {
            jobs: snapshot.jobs.iter().map(|job| job.job.to_string()).collect(),
            groups: snapshot.groups.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(shown, *if of_other { there } else { everywhere }, "at {place}");
        let follows = matching.iter().filter(|(seq, other)| *seq > place && (*other || !of_other));
        let mut live = Vec::new();
        while let Ok(Delivery::Event(event)) = events.try_next() {
            live.push(event.seq());
        }
        assert_eq!(live, follows.map(|(seq, _)| *seq).collect::<Vec<_>>(), "behind {place}");
    }
    assert_no_panic_of_ours();
}

// B46, B-7: a late subscriber without a snapshot, from the start, from now, and from a place that cannot be.
#[tokio::test(start_paused = true)]
async fn a_subscriber_begins_where_it_asks_or_is_refused() {
    let (supervisor, session) = start_with_parent().await;
    traffic(&session, 10).await;
    let mut start = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    let mut now = supervisor.subscribe(Filter::all(), Since::Now).await.unwrap();
    let head = now.cursor();
    traffic(&session, 1).await;
    let mut told = Told::default();
    told.catch_up(&mut start);
    let mut later = Told { last: head.seq.0, ..Told::default() };
    later.catch_up(&mut now);
    assert_eq!(told.last, later.last);
    assert!(later.events > 0 && told.events == told.last);

    let elsewhere = start_with_parent().await.0;
    let foreign = elsewhere.subscribe(Filter::all(), Since::Now).await.unwrap().cursor();
    let mut regressed = head.clone();
    regressed.seq = Seq(u64::MAX);
    for (cursor, code) in [(foreign, "other_log"), (regressed, "log_regressed")] {
        let error = supervisor.subscribe(Filter::all(), Since::Cursor(cursor)).await.unwrap_err();
        assert_eq!(error.code(), code, "never silently from now");
    }
    for filter in [Filter::session("no id"), Filter::all().kinds(["job.started"])] {
        assert_eq!(supervisor.snapshot(filter.clone()).unwrap_err().code(), "bad_filter");
        let error = supervisor.subscribe(filter, Since::Start).await.unwrap_err();
        assert_eq!(error.code(), "bad_filter");
    }
}
