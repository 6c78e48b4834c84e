//! Question: how long after the last of n jobs has settled does its parent run, and how often was the parent polled?
//!
//! Unit: microseconds from the beginning of the step that took the last end in to the parent with its result in hand,
//! the median of the rounds with the least and the most; polls of the wait. Beside it from the last line of the last
//! body: ends of jobs that end all at once stand in line at the gate, and that line is in this figure. The partner is the
//! least there can be: a counter that the last of n bare tasks brings to zero, and one notify. It builds no result, and a
//! group does, with an entry for each of up to 1,000 jobs. Run: `cargo bench -p fanin-benches --bench barrier`. With
//! `-- --gate` it fails where a parent is polled more than twice as a rule, or where 100,000 jobs make it wait longer
//! than 1,000 do, by twice: what comes after the last end must not grow with their number.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use fanin_benches::Error;
use fanin_supervisor::{Clock, JobSpec, Session, Supervisor};
use tokio::sync::Notify;

/// Jobs, and rounds of them.
const SIZES: [(usize, usize); 3] = [(10, 400), (1_000, 100), (100_000, 9)];
/// The aims: polls, and how much the many may cost against the fewer.
const POLLS: f64 = 2.0;
const FLAT: f64 = 1.0;

/// Moments of a round, in nanoseconds from a start.
struct Marks {
    start: Instant,
    /// When the last body came to its last line.
    ended: AtomicU64,
    /// When the supervisor's last step began.
    stepped: AtomicU64,
}

impl Marks {
    fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), ended: AtomicU64::new(0), stepped: AtomicU64::new(0) })
    }

    fn ended(&self) {
        self.ended.fetch_max(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn since(&self, mark: u64) -> u64 {
        self.now().saturating_sub(mark)
    }
}

/// The supervisor reads its wall clock once in each step, as the step begins.
struct Steps(Arc<Marks>);

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps")
    }
}

impl Clock for Steps {
    fn wall_ms(&self) -> u64 {
        let now = self.0.now();
        self.0.stepped.store(now, Ordering::Relaxed);
        now / 1_000_000
    }
}

/// What a round of ours has shown, in nanoseconds and polls.
struct Round {
    /// From the last line of the last body.
    from_body: u64,
    /// From the step that took the last end in, which is the one before the parent is polled.
    from_settle: u64,
    polls: u64,
}

fn main() -> Result<ExitCode, Error> {
    let gate = std::env::args().any(|arg| arg == "--gate");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!(
        "{:>8} {:>24} {:>24} {:>22} {:>7} {:>6}",
        "jobs", "last settle us", "last body us", "counter us", "ratio", "polls"
    );
    let (mut is_red, mut fewer) = (false, f64::INFINITY);
    for (jobs, rounds) in SIZES {
        let marks = Marks::new();
        let clock = Steps(Arc::clone(&marks));
        let supervisor = runtime.block_on(Supervisor::builder().clock(clock).start())?;
        let session = runtime.block_on(supervisor.session("bench"))?;
        let (mut settle, mut body, mut theirs, mut polls) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (session, marks) = (session.clone(), Arc::clone(&marks));
            let round = runtime.block_on(async { tokio::spawn(fanin(session, marks, jobs)).await })??;
            theirs.push(runtime.block_on(async { tokio::spawn(counter(jobs)).await })?);
            settle.push(round.from_settle);
            body.push(round.from_body);
            polls.push(round.polls);
        }
        runtime.block_on(supervisor.shutdown());
        let (waited, polled) = (middle(&mut settle), middle(&mut polls));
        let ratio = waited / middle(&mut theirs);
        let (settle, body, theirs) = (shown(&mut settle), shown(&mut body), shown(&mut theirs));
        println!("{jobs:>8} {settle:>24} {body:>24} {theirs:>22} {ratio:>6.1}x {polled:>6.0}");
        // A group of ten is over before anybody waits; from 1,000 on the result has as many entries as it can have.
        is_red |= polled > POLLS || jobs > 1_000 && waited > 2.0 * FLAT * fewer;
        fewer = waited;
    }
    Ok(if gate && is_red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The median.
fn middle(rounds: &mut [u64]) -> f64 {
    rounds.sort_unstable();
    rounds.get(rounds.len() / 2).map_or(f64::NAN, |round| *round as f64)
}

/// The median with the least and the most, in microseconds.
fn shown(waits: &mut [u64]) -> String {
    let median = middle(waits) / 1e3;
    let [least, most] =
        [waits.first(), waits.last()].map(|wait| wait.map_or(f64::NAN, |ns| *ns as f64 / 1e3));
    format!("{median:.1} ({least:.1}..{most:.1})")
}

async fn fanin(session: Session, marks: Arc<Marks>, jobs: usize) -> Result<Round, Error> {
    let specs = (0..jobs).map(|_| {
        let marks = Arc::clone(&marks);
        JobSpec::run("", move |_| async move {
            marks.ended();
            Ok(().into())
        })
    });
    let group = session.fan_out(specs).await?;
    let mut wait = pin!(group.wait(None));
    let (mut polls, mut stepped) = (0, 0);
    let result = poll_fn(|cx| {
        polls += 1;
        // The wait acknowledges what it has, in a step of its own.
        stepped = marks.stepped.load(Ordering::Relaxed);
        wait.as_mut().poll(cx)
    })
    .await?;
    let (from_body, from_settle) = (marks.since(marks.ended.load(Ordering::Relaxed)), marks.since(stepped));
    assert_eq!(result.counts.completed as usize, jobs);
    Ok(Round { from_body, from_settle, polls })
}

async fn counter(jobs: usize) -> u64 {
    let marks = Marks::new();
    let (left, zero) = (Arc::new(AtomicUsize::new(jobs)), Arc::new(Notify::new()));
    for _ in 0..jobs {
        let (marks, left, zero) = (Arc::clone(&marks), Arc::clone(&left), Arc::clone(&zero));
        tokio::spawn(async move {
            marks.ended();
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                zero.notify_one();
            }
        });
    }
    zero.notified().await;
    marks.since(marks.ended.load(Ordering::Relaxed))
}
