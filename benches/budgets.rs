//! Question: what do the checks of a budget add to a job, from launch to settle?
//!
//! Unit: nanoseconds per job, round by round in turn with the same jobs below no budget. The budget is one of money, of
//! the session, and never used up; each job declares what it may cost, so that each start looks for room and sets that aside,
//! and each end gives it back. Run: `cargo bench -p fanin-benches --bench budgets`.
//! With `-- --gate` it fails where the dearest is beyond twice the aim: a shared machine is noisy.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fanin_benches::{Error, Figures, table};
use fanin_protocol::{Bounds, Budget};
use fanin_supervisor::{JobSpec, SessionOptions, Supervisor};

/// Group sizes, and how many jobs a round runs in all.
const SIZES: [(usize, usize); 2] = [(100, 100_000), (10_000, 200_000)];
const ROUNDS: usize = 7;
/// The aim: with a budget against without.
const AIM: f64 = 1.15;
/// What a job costs, in millionths of a US dollar.
const COST: u64 = 10;

fn main() -> Result<ExitCode, Error> {
    let gate = std::env::args().any(|arg| arg == "--gate");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut dearest = 0_f64;
    table::head("jobs", "with a budget ns/job (min..max)", "without ns/job (min..max)");
    for (size, total) in SIZES {
        let (mut with, mut without) = (Figures::default(), Figures::default());
        for round in 0..=ROUNDS {
            let rounds = total / size;
            let (budget, plain) = runtime.block_on(async {
                Ok::<_, Error>((run(true, size, rounds).await?, run(false, size, rounds).await?))
            })?;
            // The first round warms up the allocator and the caches.
            if round > 0 {
                with.add(budget, size * rounds);
                without.add(plain, size * rounds);
            }
        }
        table::row(size, &with, &without);
        dearest = dearest.max(with.median() / without.median());
    }
    println!("budgets: the dearest costs {dearest:.2}x the same without (aim: {AIM}x)");
    Ok(if gate && dearest > 2.0 * AIM { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Launch of a group to its result in the parent's hands.
async fn run(with_budget: bool, size: usize, rounds: usize) -> Result<Duration, Error> {
    let usd_micros = Some(COST * size as u64).filter(|_| with_budget);
    let bounds = Some(Bounds { budget: Budget { usd_micros, ..Budget::NONE }, ..Bounds::default() });
    let mut took = Duration::ZERO;
    for _ in 0..rounds {
        let supervisor = Supervisor::builder().start().await?;
        let options = SessionOptions { profile: None, bounds };
        let session = supervisor.session_with("bench", options).await?;
        let start = Instant::now();
        let specs = (0..size).map(|_| {
            let job = JobSpec::run("", |_| async { Ok(().into()) });
            if with_budget { job.estimate_usd_micros(COST) } else { job }
        });
        let group = session.fan_out(specs).await?;
        let result = group.wait(None).await?;
        took += start.elapsed();
        assert_eq!(result.counts.completed as usize, size);
        supervisor.shutdown().await;
    }
    Ok(took)
}
