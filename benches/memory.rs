//! Question: what does a live job cost in memory while it does nothing but wait?
//!
//! Unit: bytes per job at 100,000 idle closures, counted by the allocator and by the growth of the resident set; the
//! partner is a bare `tokio::task::JoinSet` with the same future. The tail of the log is a bound of the supervisor and
//! no job's, so the figure that counts is the difference between two sizes, both above what the tail holds; the other is
//! shown beside it. Run: `cargo bench -p fanin-benches --bench memory`. With `-- --gate` it fails at twice the aim.

use std::alloc::System;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use fanin_benches::{Error, resident};
use fanin_supervisor::{JobSpec, Supervisor};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SMALL: usize = 100_000;
const LARGE: usize = 200_000;
/// The aim, in bytes.
const AIM: f64 = 800.0;

/// What so many idle jobs hold, in bytes: by the allocator, and of the resident set.
#[derive(Clone, Copy)]
struct Held {
    counted: f64,
    resident: f64,
}

fn main() -> Result<ExitCode, Error> {
    let gate = std::env::args().any(|arg| arg == "--gate");
    // The first round makes what the process makes once.
    alone(join_set(1_000))?;
    alone(fanin(1_000))?;
    println!(
        "{:>8} {:>22} {:>22} {:>10} {:>10}",
        "", "counted/job at 100,000", "200,000 - 100,000", "RSS/job", "allocs"
    );
    let theirs = measure("JoinSet", |n| alone(join_set(n)))?;
    let ours = measure("fanin", |n| alone(fanin(n)))?;
    println!("fanin against JoinSet: {:.2}x; aim: {AIM} bytes", ours / theirs);
    Ok(if gate && ours > 2.0 * AIM { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs on a runtime of its own: when it returns nothing is left, of its worker threads neither.
fn alone(round: impl Future<Output = Result<Held, Error>>) -> Result<Held, Error> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(round)
}

/// Bytes that each further job holds.
fn measure(name: &str, mut idle: impl FnMut(usize) -> Result<Held, Error>) -> Result<f64, Error> {
    let before = COUNTED.stats().allocations;
    let small = idle(SMALL)?;
    let allocations = (COUNTED.stats().allocations - before) as f64 / SMALL as f64;
    let large = idle(LARGE)?;
    let further = (large.counted - small.counted) / (LARGE - SMALL) as f64;
    let (whole, resident) = (small.counted / SMALL as f64, large.resident / LARGE as f64);
    println!("{name:>8} {whole:>22.0} {further:>22.0} {resident:>10.0} {allocations:>10.2}");
    Ok(further)
}

/// What is held now, against `before`.
fn since(before: (i64, i64)) -> Result<Held, Error> {
    let (counted, resident) = now()?;
    Ok(Held { counted: (counted - before.0) as f64, resident: (resident - before.1) as f64 })
}

fn now() -> Result<(i64, i64), Error> {
    let stats = COUNTED.stats();
    Ok((i64::try_from(stats.bytes_allocated)? - i64::try_from(stats.bytes_deallocated)?, resident()?))
}

async fn fanin(jobs: usize) -> Result<Held, Error> {
    let begun = Arc::new(Semaphore::new(0));
    let before = now()?;
    let supervisor = Supervisor::builder().grace(Duration::ZERO).start().await?;
    let session = supervisor.session("bench").await?;
    let specs = (0..jobs).map(|_| {
        let begun = Arc::clone(&begun);
        JobSpec::run("", move |_| idle(begun))
    });
    // The handle of the group is its caller's: it holds the ids of all jobs again.
    drop(session.fan_out(specs).await?);
    begun.acquire_many(u32::try_from(jobs)?).await?.forget();
    let held = since(before)?;
    supervisor.shutdown().await;
    Ok(held)
}

async fn join_set(jobs: usize) -> Result<Held, Error> {
    let begun = Arc::new(Semaphore::new(0));
    let before = now()?;
    let mut tasks: JoinSet<()> = JoinSet::new();
    for _ in 0..jobs {
        tasks.spawn(idle(Arc::clone(&begun)));
    }
    begun.acquire_many(u32::try_from(jobs)?).await?.forget();
    let held = since(before)?;
    tasks.shutdown().await;
    Ok(held)
}

/// Says that it has begun, and waits for ever.
async fn idle<T>(begun: Arc<Semaphore>) -> T {
    begun.add_permits(1);
    drop(begun);
    std::future::pending().await
}
