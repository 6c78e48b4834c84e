//! Question: what does a live job cost in memory while it does nothing but wait?
//!
//! Unit: bytes per job at 100,000 idle closures, counted by the allocator and by the growth of the resident set; the
//! partner is a bare `tokio::task::JoinSet` with the same future. The tail of the log is a bound of the supervisor and
//! no job's, so the figure that counts is the difference between two sizes, both above what the tail holds; the other is
//! shown beside it. First it is asked what is left of jobs that are over: what the allocator counts, the resident set,
//! and the time of a get, after ten thousand of them and after a million. Run: `cargo bench -p fanin-benches --bench memory`. With `-- --gate` it fails at twice the aim.

use std::alloc::System;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fanin_benches::{Error, resident};
use fanin_protocol::JobId;
use fanin_protocol::limits::FINISHED_JOBS;
use fanin_supervisor::{Job, JobFilter, JobSpec, Supervisor};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SMALL: usize = 100_000;
const LARGE: usize = 200_000;
/// Jobs that are over when what is left of them is looked at.
const OVER: [usize; 3] = [10_000, 100_000, 1_000_000];
/// Of them so many are launched and waited for together.
const GROUP: usize = 1_000;
/// Calls of which the time is the mean.
const CALLS: u32 = 100_000;
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
    runtime()?.block_on(over())?;
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
    runtime()?.block_on(round)
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// What is left of jobs that are over, evicted but for the last ones. One job lives all the time, as in a supervisor that
/// has something to do.
async fn over() -> Result<(), Error> {
    let before = now()?;
    let supervisor = Supervisor::builder().grace(Duration::ZERO).start().await?;
    let session = supervisor.session("bench").await?;
    let begun = Arc::new(Semaphore::new(0));
    let lives = session.start(JobSpec::run("", move |_| idle(begun))).await?;
    println!(
        "{:>10} {:>14} {:>14} {:>10} {:>12} {:>12}",
        "jobs over", "counted", "RSS", "kept", "get", "get, a life"
    );
    let mut done = 0;
    for jobs in OVER {
        let mut last = lives.id().clone();
        while done < jobs {
            let specs = (0..GROUP).map(|_| JobSpec::run("", |_| async { Ok(().into()) }));
            let group = session.fan_out(specs).await?;
            last = group.jobs().last().ok_or("a group of none")?.clone();
            group.wait(None).await?;
            done += GROUP;
        }
        let kept = evicted(&supervisor).await?;
        let (get, exact) = (time_get(&supervisor, &last)?, time_exact(&supervisor, &lives)?);
        let Held { counted, resident } = since(before)?;
        let (counted, resident) = (counted / 1e3, resident / 1e3);
        println!("{done:>10} {counted:>11.0} kB {resident:>11.0} kB {kept:>10} {get:>9} ns {exact:>9} ns");
    }
    supervisor.shutdown().await;
    Ok(())
}

/// Waits until no more is kept than may be; how much that is.
async fn evicted(supervisor: &Supervisor) -> Result<usize, Error> {
    loop {
        let all = JobFilter { limit: usize::MAX, ..JobFilter::default() };
        let kept = supervisor.list(&all)?.jobs.len();
        // One lives.
        if kept <= FINISHED_JOBS + 1 {
            return Ok(kept);
        }
        tokio::task::yield_now().await;
    }
}

fn time_get(supervisor: &Supervisor, id: &JobId) -> Result<u128, Error> {
    let began = Instant::now();
    for _ in 0..CALLS {
        supervisor.get(id)?;
    }
    Ok(began.elapsed().as_nanos() / u128::from(CALLS))
}

fn time_exact(supervisor: &Supervisor, job: &Job) -> Result<u128, Error> {
    let began = Instant::now();
    for _ in 0..CALLS {
        supervisor.get_exact(job.id(), job.lifetime())?;
    }
    Ok(began.elapsed().as_nanos() / u128::from(CALLS))
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
