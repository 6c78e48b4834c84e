//! Question: what does it cost to publish a record while 0, 1, 8 or 64 subscribers read, and does anybody make the
//! publisher wait?
//!
//! Unit: nanoseconds a record, from the first publish until all subscribers are at the end; for the wait, the 99th
//! percentile of a publish. The partner is `tokio::sync::broadcast` of an `Arc` with as much room, in the same process,
//! round by round in turn. Events are kept (`next`) and lent
//! (`next_ref`, which the aims are for). Each subscriber's sum of received and told as missed must be what was published. Run:
//! `cargo bench -p fanin-benches --bench bus`. With `-- --gate` it fails at twice an aim.

use std::future::poll_fn;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fanin_benches::{Error, Figures, ratio, table};
use fanin_bus::{Delivery, Filter, Since, Subscription};
use fanin_machine::log::{Herald, Log};
use fanin_protocol::limits::TAIL_RECORDS;
use fanin_protocol::record::RunStarted;
use fanin_protocol::{About, Entry, JobId, Lifetime, LogId, NodeId, Seq};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

const RECORDS: u64 = 100_000;
/// Records between two points where the publisher lets others have its thread.
const BURST: u64 = 64;
const ROUNDS: usize = 7;
/// Subscribers, and the aim: how much of the partner's cost.
const AIMS: [(usize, f64); 4] = [(0, 1.2), (1, 1.2), (8, 0.5), (64, 0.25)];
/// The aim for the wait at 64 subscribers, against none.
const WAIT: f64 = 5.0;
/// The aim for the wait beside one that sleeps, against none.
const SLEEPER: f64 = 1.1;

/// How a round is read.
#[derive(Clone, Copy, Default)]
struct Reads {
    /// Each publish is timed by itself.
    is_timed: bool,
    /// Events are lent from call to call, and not handles to keep.
    is_lent: bool,
}

/// How a round went: its time, and each publish by itself where that was asked for.
struct Round {
    took: Duration,
    publishes: Vec<u64>,
}

fn main() -> Result<ExitCode, Error> {
    let gate = std::env::args().any(|arg| arg == "--gate");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut is_red = false;
    for (readers, aim) in AIMS {
        println!("readers: {readers} (aim: {aim}x)");
        table::head("events", "fanin ns/record (min..max)", "broadcast ns/record (min..max)");
        let (mut kept, mut lent, mut theirs) = (Figures::default(), Figures::default(), Figures::default());
        for round in 0..=ROUNDS {
            let with = |is_lent| runtime.block_on(fanin(readers, 0, Reads { is_lent, ..Reads::default() }));
            let took = (with(false)?.took, with(true)?.took, runtime.block_on(partner(readers))?);
            if round > 0 {
                kept.add(took.0, RECORDS as usize);
                lent.add(took.1, RECORDS as usize);
                theirs.add(took.2, RECORDS as usize);
            }
        }
        table::row("kept", &kept, &theirs);
        table::row("lent", &lent, &theirs);
        is_red |= ratio(&lent, &theirs) > 2.0 * aim;
    }
    let alone = wait(&runtime, 0, 0)?;
    let (read, slept) = (wait(&runtime, 64, 0)?, wait(&runtime, 0, 1)?);
    println!(
        "p99 of a publish: {alone} ns alone, {read} ns with 64 readers ({:.2}x, aim {WAIT}x),",
        by(read, alone)
    );
    println!("    {slept} ns beside one that sleeps ({:.2}x, aim {SLEEPER}x)", by(slept, alone));
    is_red |= by(read, alone) > 2.0 * WAIT || by(slept, alone) > 2.0 * SLEEPER;
    Ok(if gate && is_red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn by(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}

/// The median of the rounds' 99th percentiles.
fn wait(runtime: &tokio::runtime::Runtime, readers: usize, sleepers: usize) -> Result<u64, Error> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut publishes =
            runtime.block_on(fanin(readers, sleepers, Reads { is_timed: true, is_lent: true }))?.publishes;
        publishes.sort_unstable();
        rounds.push(publishes.get(publishes.len() * 99 / 100).copied().unwrap_or_default());
    }
    rounds.sort_unstable();
    Ok(rounds.get(ROUNDS / 2).copied().unwrap_or_default())
}

fn entry(number: u64, about: &Arc<About>, job: &JobId) -> Entry {
    let record = RunStarted { node: NodeId::Job(job.clone()), attempt: 1, reserved_usd_micros: None }.into();
    Entry { seq: Seq(number), ts_ms: number, about: Arc::clone(about), run: None, record }
}

fn subject() -> (Arc<About>, JobId) {
    let job = JobId::from_uuid([1; 16]);
    (Arc::new(About { job: Some(job.clone()), lifetime: Some(Lifetime(1)), ..About::default() }), job)
}

async fn fanin(readers: usize, sleepers: usize, reads: Reads) -> Result<Round, Error> {
    let log = Arc::new(Log::new(LogId::from_uuid([1; 16]), TAIL_RECORDS));
    let mut tasks = JoinSet::new();
    for _ in 0..readers {
        let events = Subscription::new(Arc::clone(&log), Filter::all(), Since::Start)?;
        tasks.spawn(read(events, reads.is_lent));
    }
    let mut asleep = Vec::new();
    for _ in 0..sleepers {
        // It reads the first records and never again.
        let mut events = Subscription::new(Arc::clone(&log), Filter::all(), Since::Start)?;
        drop(events.try_next());
        asleep.push(events);
    }
    let mut herald = Herald::new(Arc::clone(&log));
    let herald = tokio::spawn(async move { poll_fn(|cx| herald.poll(cx)).await });
    let start = Instant::now();
    let publishes = tokio::spawn(publish(Arc::clone(&log), reads.is_timed)).await?;
    while let Some(seen) = tasks.join_next().await {
        assert_eq!(seen?, RECORDS, "received and told as missed is not what was published");
    }
    let took = start.elapsed();
    herald.await?;
    Ok(Round { took, publishes })
}

async fn publish(log: Arc<Log>, is_timed: bool) -> Vec<u64> {
    let (about, job) = subject();
    let (mut batch, mut publishes) = (Vec::with_capacity(1), Vec::new());
    for number in 1..=RECORDS {
        batch.push(entry(number, &about, &job));
        if is_timed {
            let start = Instant::now();
            log.append(&mut batch);
            publishes.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        } else {
            log.append(&mut batch);
        }
        if number % BURST == 0 {
            tokio::task::yield_now().await;
        }
    }
    log.close();
    publishes
}

/// Reads to the end; how many records it was given or told of.
async fn read(mut events: Subscription, is_lent: bool) -> u64 {
    fn count<E>(delivery: &Delivery<E>) -> u64 {
        match delivery {
            Delivery::Event(_) => 1,
            Delivery::Lagged { missed, .. } => *missed,
            Delivery::Unreadable { .. } => 0,
        }
    }
    let mut seen = 0;
    if is_lent {
        while let Some(delivery) = events.next_ref().await {
            seen += count(&delivery);
        }
    } else {
        while let Some(delivery) = events.next().await {
            seen += count(&delivery);
        }
    }
    seen
}

async fn partner(readers: usize) -> Result<Duration, Error> {
    let (sender, receiver) = broadcast::channel::<Arc<Entry>>(TAIL_RECORDS);
    let mut tasks = JoinSet::new();
    for _ in 0..readers {
        let mut receiver = sender.subscribe();
        tasks.spawn(async move {
            let mut seen = 0;
            loop {
                match receiver.recv().await {
                    Ok(_) => seen += 1,
                    Err(broadcast::error::RecvError::Lagged(missed)) => seen += missed,
                    Err(broadcast::error::RecvError::Closed) => return seen,
                }
            }
        });
    }
    let start = Instant::now();
    let publishing = tokio::spawn(async move {
        let (about, job) = subject();
        for number in 1..=RECORDS {
            // Without a receiver there is nobody to fail to reach: one is kept below.
            drop(sender.send(Arc::new(entry(number, &about, &job))));
            if number % BURST == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    publishing.await?;
    drop(receiver);
    while let Some(seen) = tasks.join_next().await {
        assert_eq!(seen?, RECORDS, "the partner lost count");
    }
    Ok(start.elapsed())
}
