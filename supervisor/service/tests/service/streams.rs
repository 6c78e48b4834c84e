//! Streams: every record once and in order, whatever breaks between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fanin_client::{
    Client, Connect, Connecting, EventFilter, Events, Halves, Item, Options, OutputCall, Since, Subscribe,
};
use fanin_protocol::{Cursor, LogId, Named, Seq};
use fanin_service::{Peer, Service};
use fanin_supervisor::Supervisor;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

use crate::common::{Served, launch, served, served_with, session};

fn from(since: Since) -> Subscribe {
    Subscribe { since, ..Subscribe::default() }
}

/// The seqs of events up to one, each of which follows the one before.
async fn seqs_to(events: &mut Events, last: u64) -> Vec<u64> {
    let mut seqs = Vec::new();
    while seqs.last() != Some(&last) {
        if let Item::Event(event) = events.next().await.unwrap().unwrap() {
            assert!(seqs.last().is_none_or(|last| last + 1 == event.seq.0), "{} after {seqs:?}", event.seq);
            seqs.push(event.seq.0);
        }
    }
    seqs
}

async fn launch_some(served: &Served, count: usize) -> u64 {
    let client = served.client();
    let main = session(&client).await;
    for _ in 0..count {
        client.launch(launch(&main, &["a", "b", "c"])).await.unwrap();
        client.next_wake(Some(&main)).await.unwrap().ack().await.unwrap();
    }
    served.supervisor.standings().unwrap().head.seq.0
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_sees_all_records_and_no_content() {
    let served = served().await;
    let head = launch_some(&served, 3).await;
    let mut events = served.client().subscribe(from(Since::Start));
    let first = events.next().await.unwrap().unwrap();
    let Item::Subscribed(at) = first else { panic!("{first:?}") };
    assert_eq!(at.seq, Seq(0));
    assert_eq!(seqs_to(&mut events, head).await, (1..=head).collect::<Vec<_>>());
    assert_eq!(events.cursor(), Some(&Cursor { log: at.log, seq: Seq(head) }));
}

#[tokio::test(start_paused = true)]
async fn an_event_says_what_the_log_says() {
    let served = served().await;
    let head = launch_some(&served, 1).await;
    let filter = EventFilter { about: None, kinds: Some(vec!["run.ended".to_owned()]) };
    let mut events = served.client().subscribe(Subscribe { filter, since: Since::Start });
    let mut found = Vec::new();
    while found.len() < 3 {
        if let Item::Event(event) = events.next().await.unwrap().unwrap() {
            assert_eq!(event.kind, "run.ended");
            let entry = event.entry().unwrap().unwrap();
            let shown = serde_json::to_string(&entry.to_json(&LogId::parse("l").unwrap()).unwrap()).unwrap();
            assert!(!shown.contains("\"done\""), "an output: {shown}");
            found.push(event.seq.0);
        }
    }
    // After it has caught up it is told how far that was, though the last records are none that it wants.
    assert_eq!(events.next().await.unwrap(), Some(Item::Mark(Seq(head))));
}

#[tokio::test(start_paused = true)]
async fn a_filter_or_a_place_that_is_wrong_is_refused() {
    let served = served().await;
    launch_some(&served, 1).await;
    let client = served.client();
    let log = client.connect().await.unwrap().log;
    let other = Cursor { log: LogId::parse("other").unwrap(), seq: Seq(1) };
    let ahead = Cursor { log, seq: Seq(10_000) };
    let kinds = EventFilter { about: None, kinds: Some(vec!["job.danced".to_owned()]) };
    for (wanted, code) in [
        (from(Since::After(other)), "other_log"),
        (from(Since::After(ahead)), "log_regressed"),
        (Subscribe { filter: kinds, since: Since::Now }, "bad_filter"),
    ] {
        assert_eq!(client.subscribe(wanted).next().await.unwrap_err().code(), code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_and_what_follows_have_no_hole_between() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let launched = client.launch(launch(&main, &["slow", "slow"])).await.unwrap();
    let about = Some(Named::Session(main.clone()));
    let filter = EventFilter { about, kinds: None };
    let mut events = client.subscribe(Subscribe { filter, since: Since::Snapshot });
    let Some(Item::Jobs(jobs)) = events.next().await.unwrap() else { panic!("no jobs") };
    assert_eq!(jobs.iter().map(|job| job.job.clone()).collect::<Vec<_>>(), launched.jobs);
    assert_eq!(events.next().await.unwrap(), Some(Item::Groups(vec![launched.group])));
    let Some(Item::Subscribed(at)) = events.next().await.unwrap() else { panic!("no place") };
    served.gate.open();
    let mut seen = at.seq.0;
    loop {
        if let Some(Item::Event(event)) = events.next().await.unwrap() {
            assert_eq!(event.seq.0, seen + 1);
            seen = event.seq.0;
            if event.kind == "group.fired" {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_nowhere_is_a_gap_with_its_count() {
    let served = served_with(Supervisor::builder().tail(256)).await;
    let head = launch_some(&served, 100).await;
    let mut events = served.client().subscribe(from(Since::Start));
    assert!(matches!(events.next().await.unwrap(), Some(Item::Subscribed(_))));
    let Some(Item::Gap { from, to, missed }) = events.next().await.unwrap() else { panic!("no gap") };
    assert_eq!((from, missed), (Seq(1), to.0));
    assert_eq!(seqs_to(&mut events, head).await, (to.0 + 1..=head).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_output_is_followed_to_the_end_of_its_job() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let launched = client.launch(launch(&main, &["slow"])).await.unwrap();
    let output = OutputCall { job: launched.jobs[0].clone(), lifetime: None, offset: 0, max: 0 };
    let mut pages = client.follow(output);
    let mut following = tokio::spawn(async move {
        let mut text = Vec::new();
        while let Some(page) = pages.next().await.unwrap() {
            text.extend_from_slice(&page.bytes);
        }
        text
    });
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut following).await.is_err(), "it is not over");
    served.gate.open();
    assert_eq!(following.await.unwrap(), b"at last");
}

/// A way to a service that breaks after so many bytes, another number each time.
#[derive(Debug)]
struct Breaking {
    service: Service,
    /// What is left to be drawn from.
    seed: AtomicU64,
    broken: Arc<AtomicU64>,
}

impl Breaking {
    fn bytes(&self) -> usize {
        // A number from a line of numbers that looks like none.
        let seed = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (seed ^ (seed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        usize::try_from((mixed >> 33) % 3_000).unwrap()
    }
}

impl Connect for Breaking {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let (ours, theirs) = duplex(1024);
            let service = self.service.clone();
            tokio::spawn(async move { service.serve(split(theirs), Peer::Own).await });
            let (near, far) = duplex(1024);
            let (mut left, broken) = (self.bytes(), Arc::clone(&self.broken));
            tokio::spawn(async move {
                let ((mut from_service, mut to_service), (mut from_client, mut to_client)) =
                    (split(ours), split(far));
                let up = tokio::io::copy(&mut from_client, &mut to_service);
                let down = async {
                    let mut piece = [0; 512];
                    while left > 0 {
                        let most = left.min(piece.len());
                        let len = from_service.read(&mut piece[..most]).await.unwrap_or(0);
                        if len == 0 || to_client.write_all(&piece[..len]).await.is_err() {
                            return;
                        }
                        left -= len;
                    }
                    broken.fetch_add(1, Ordering::Relaxed);
                };
                tokio::select! {
                    _ = up => {}
                    () = down => {}
                }
            });
            let (reader, writer) = split(near);
            let halves: Halves = (Box::new(reader), Box::new(writer));
            Ok(halves)
        })
    }

    fn place(&self) -> String {
        "a way that breaks".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_is_cut_at_any_byte_ends_with_the_complete_sequence() {
    let count: u64 = std::env::var("FANIN_SUBSCRIBERS").map_or(200, |count| count.parse().unwrap());
    let served = served().await;
    let head = launch_some(&served, 3).await;
    let broken = Arc::<AtomicU64>::default();
    let mut following = tokio::task::JoinSet::new();
    for seed in 0..count {
        let way =
            Breaking { service: served.service.clone(), seed: seed.into(), broken: Arc::clone(&broken) };
        let client = Client::new(way, Options { program: "a test".to_owned(), token: None });
        following.spawn(async move {
            let mut events = client.subscribe(from(Since::Start)).again_for(Duration::from_secs(3600));
            seqs_to(&mut events, head).await
        });
    }
    while let Some(seen) = following.join_next().await {
        assert_eq!(seen.unwrap(), (1..=head).collect::<Vec<_>>());
    }
    assert!(broken.load(Ordering::Relaxed) > count, "hardly anything broke");
}
