//! Question: what does a job cost from launch to settle, and is that cost the same at 100, 10,000 and 1,000,000?
//!
//! Unit: nanoseconds per job; the partner is a bare `tokio::task::JoinSet` in the same process, round by round in
//! turn. Run: `cargo bench -p fanin-benches --bench launch`. With `-- --gate` it fails where the cost is not flat,
//! at twice the aim: a shared machine is noisy. With `-- --jobs N` it measures one size, for a profiler.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fanin_benches::{Error, Figures, table};
use fanin_supervisor::{JobSpec, Supervisor};
use tokio::task::JoinSet;

/// Group sizes, and how many jobs a round runs in all so that small groups are measured long enough.
const SIZES: [(usize, usize); 3] = [(100, 100_000), (10_000, 200_000), (1_000_000, 1_000_000)];
const ROUNDS: usize = 7;
/// The aim: the dearest size against the cheapest.
const FLAT: f64 = 1.5;

fn main() -> Result<ExitCode, Error> {
    let args: Vec<String> = std::env::args().collect();
    let gate = args.iter().any(|arg| arg == "--gate");
    let only = args.iter().skip_while(|arg| *arg != "--jobs").nth(1).and_then(|n| n.parse::<usize>().ok());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    table::head("jobs", "fanin ns/job (min..max)", "JoinSet ns/job (min..max)");
    let mut medians = Vec::new();
    for (size, total) in SIZES.into_iter().filter(|(size, _)| only.is_none_or(|only| only == *size)) {
        let (mut ours, mut partner) = (Figures::default(), Figures::default());
        for round in 0..=ROUNDS {
            let rounds = total / size;
            let (fanin, join_set) = runtime.block_on(async {
                Ok::<_, Error>((fanin(size, rounds).await?, join_set(size, rounds).await?))
            })?;
            // The first round warms up the allocator and the caches.
            if round > 0 {
                ours.add(fanin, size * rounds);
                partner.add(join_set, size * rounds);
            }
        }
        table::row(size, &ours, &partner);
        medians.push(ours.median());
    }
    let (low, high) =
        medians.iter().fold((f64::INFINITY, 0f64), |(low, high), m| (low.min(*m), high.max(*m)));
    println!("flat: the dearest size costs {:.2}x the cheapest (aim: {FLAT}x)", high / low);
    Ok(if gate && high / low > 2.0 * FLAT { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Launch of a group to its result in the parent's hands. Making and ending the supervisor is not part of it.
async fn fanin(size: usize, rounds: usize) -> Result<Duration, Error> {
    let mut took = Duration::ZERO;
    for _ in 0..rounds {
        let supervisor = Supervisor::builder().start().await?;
        let session = supervisor.session("bench").await?;
        let start = Instant::now();
        let specs = (0..size).map(|_| JobSpec::run("", |_| async { Ok(().into()) }));
        let group = session.fan_out(specs).await?;
        let result = group.wait(None).await?;
        took += start.elapsed();
        assert_eq!(result.counts.completed as usize, size);
        supervisor.shutdown().await;
    }
    Ok(took)
}

/// The same work on bare tasks.
async fn join_set(size: usize, rounds: usize) -> Result<Duration, Error> {
    let mut took = Duration::ZERO;
    for _ in 0..rounds {
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..size {
            tasks.spawn(async {});
        }
        let mut done = 0;
        while let Some(joined) = tasks.join_next().await {
            joined?;
            done += 1;
        }
        took += start.elapsed();
        assert_eq!(done, size);
    }
    Ok(took)
}
