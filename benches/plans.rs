//! Question: what do edges cost, from launch to settle, against the same jobs without?
//!
//! Unit: nanoseconds per job, round by round in turn with the same number of jobs that need nothing. `pairs`: each second
//! job needs the one before it. `diamond`: one first, one last, all others between. Run:
//! `cargo bench -p fanin-benches --bench plans`. With `-- --gate` it fails where the dearest is beyond twice the aim: a
//! shared machine is noisy.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fanin_benches::{Error, Figures, table};
use fanin_supervisor::{JobSpec, Supervisor};

/// Group sizes, and how many jobs a round runs in all.
const SIZES: [(usize, usize); 2] = [(100, 100_000), (10_000, 200_000)];
const ROUNDS: usize = 7;
/// The aim: with edges against without.
const AIM: f64 = 1.3;

/// What needs what.
#[derive(Clone, Copy)]
enum Shape {
    None,
    Pairs,
    Diamond,
}

impl Shape {
    /// What the job at this place needs.
    fn on(self, place: u32, size: u32) -> Vec<u32> {
        match self {
            Self::Pairs if place % 2 == 1 => vec![place - 1],
            Self::Diamond if place + 1 == size => (1..size - 1).collect(),
            Self::Diamond if place > 0 => vec![0],
            Self::None | Self::Pairs | Self::Diamond => Vec::new(),
        }
    }
}

fn main() -> Result<ExitCode, Error> {
    let gate = std::env::args().any(|arg| arg == "--gate");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut dearest = 0_f64;
    for (name, shape) in [("pairs", Shape::Pairs), ("diamond", Shape::Diamond)] {
        println!("{name}");
        table::head("jobs", "with edges ns/job (min..max)", "without ns/job (min..max)");
        for (size, total) in SIZES {
            let (mut with, mut without) = (Figures::default(), Figures::default());
            for round in 0..=ROUNDS {
                let rounds = total / size;
                let (edges, plain) = runtime.block_on(async {
                    Ok::<_, Error>((run(shape, size, rounds).await?, run(Shape::None, size, rounds).await?))
                })?;
                // The first round warms up the allocator and the caches.
                if round > 0 {
                    with.add(edges, size * rounds);
                    without.add(plain, size * rounds);
                }
            }
            table::row(size, &with, &without);
            dearest = dearest.max(with.median() / without.median());
        }
    }
    println!("edges: the dearest costs {dearest:.2}x the same without (aim: {AIM}x)");
    Ok(if gate && dearest > 2.0 * AIM { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Launch of a group to its result in the parent's hands.
async fn run(shape: Shape, size: usize, rounds: usize) -> Result<Duration, Error> {
    let (mut took, count) = (Duration::ZERO, u32::try_from(size)?);
    for _ in 0..rounds {
        let supervisor = Supervisor::builder().start().await?;
        let session = supervisor.session("bench").await?;
        let start = Instant::now();
        let specs = (0..count)
            .map(|place| JobSpec::run("", |_| async { Ok(().into()) }).after(shape.on(place, count)));
        let group = session.fan_out(specs).await?;
        let result = group.wait(None).await?;
        took += start.elapsed();
        assert_eq!(result.counts.completed as usize, size);
        supervisor.shutdown().await;
    }
    Ok(took)
}
