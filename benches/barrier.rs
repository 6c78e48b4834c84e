//! Question: how long after the last of n jobs has ended does its parent run, and how often was the parent polled?
//!
//! Unit: microseconds from the last line of the last body to the parent, the median of the rounds; polls of the wait.
//! The partner is the least there can be: a counter that the last of n bare tasks brings to zero, and one notify. It
//! builds no result, and a group does, with an entry for each of up to 1,000 jobs. Run:
//! `cargo bench -p fanin-benches --bench barrier`. With `-- --gate` it fails where a parent is polled more than twice, or
//! the wait is twice the aim.

use std::future::poll_fn;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use fanin_benches::Error;
use fanin_supervisor::{JobSpec, Session, Supervisor};
use tokio::sync::Notify;

/// Jobs, and rounds of them.
const SIZES: [(usize, usize); 3] = [(10, 400), (1_000, 100), (MANY, 9)];
const MANY: usize = 100_000;
/// The aims: polls, and the wait against the partner's for many jobs.
const POLLS: usize = 2;
const WAIT: f64 = 2.0;

/// When the last of many ended, in nanoseconds from a start.
struct Last {
    start: Instant,
    at: AtomicU64,
}

impl Last {
    fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), at: AtomicU64::new(0) })
    }

    fn ended(&self) {
        self.at.fetch_max(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn since(&self) -> u64 {
        self.now().saturating_sub(self.at.load(Ordering::Relaxed))
    }
}

fn main() -> Result<ExitCode, Error> {
    let gate = std::env::args().any(|arg| arg == "--gate");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{:>8} {:>14} {:>14} {:>7} {:>6}", "jobs", "fanin us", "counter us", "ratio", "polls");
    let mut is_red = false;
    for (jobs, rounds) in SIZES {
        let supervisor = runtime.block_on(Supervisor::builder().start())?;
        let session = runtime.block_on(supervisor.session("bench"))?;
        let (mut ours, mut theirs, mut polls) = (Vec::new(), Vec::new(), 0);
        for _ in 0..rounds {
            let session = session.clone();
            let (waited, polled) = runtime.block_on(async { tokio::spawn(fanin(session, jobs)).await })??;
            theirs.push(runtime.block_on(async { tokio::spawn(counter(jobs)).await })?);
            ours.push(waited);
            polls = polls.max(polled);
        }
        runtime.block_on(supervisor.shutdown());
        let (ours, theirs) = (median(ours), median(theirs));
        println!("{jobs:>8} {ours:>14.1} {theirs:>14.1} {:>6.2}x {polls:>6}", ours / theirs);
        // A small group's parent is on the thread of its last job, and the counter is nothing: only many jobs show what
        // their number costs.
        is_red |= polls > POLLS || (jobs == MANY && ours > 2.0 * WAIT * theirs);
    }
    Ok(if gate && is_red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// In microseconds.
fn median(mut waits: Vec<u64>) -> f64 {
    waits.sort_unstable();
    waits.get(waits.len() / 2).map_or(f64::NAN, |wait| *wait as f64 / 1e3)
}

async fn fanin(session: Session, jobs: usize) -> Result<(u64, usize), Error> {
    let last = Last::new();
    let specs = (0..jobs).map(|_| {
        let last = Arc::clone(&last);
        JobSpec::run("", move |_| async move {
            last.ended();
            Ok(().into())
        })
    });
    let group = session.fan_out(specs).await?;
    let mut wait = pin!(group.wait(None));
    let mut polls = 0;
    let result = poll_fn(|cx| {
        polls += 1;
        wait.as_mut().poll(cx)
    })
    .await?;
    let waited = last.since();
    assert_eq!(result.counts.completed as usize, jobs);
    Ok((waited, polls))
}

async fn counter(jobs: usize) -> u64 {
    let last = Last::new();
    let (left, zero) = (Arc::new(AtomicUsize::new(jobs)), Arc::new(Notify::new()));
    for _ in 0..jobs {
        let (last, left, zero) = (Arc::clone(&last), Arc::clone(&left), Arc::clone(&zero));
        tokio::spawn(async move {
            last.ended();
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                zero.notify_one();
            }
        });
    }
    zero.notified().await;
    last.since()
}
