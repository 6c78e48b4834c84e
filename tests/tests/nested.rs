//! Nested trees of jobs that wait for each other, at one to four slots: random schedules of the machine, and of the
//! driver with bodies that wait as the plan says. None stands still (P7).
//!
//! `FANIN_CASES` sets the number of schedules of each, `FANIN_SEED` the first seed; both are printed.

// A helper that panics is a failed test.
#![allow(clippy::panic)]

use std::env;
use std::time::Duration;

use fanin_supervisor::{JobError, JobOutput, JobSpec, Launcher, Supervisor};
use fanin_tests::nested::{self, Draw, Planned, Waiting};

/// Schedules of one run of CI, of the machine and of the driver.
const MACHINE: u64 = 10_000;
const DRIVER: u64 = 2_000;

fn setting(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

#[test]
fn no_schedule_of_the_machine_stands_still() {
    let (cases, seed) = (setting("FANIN_CASES", MACHINE), setting("FANIN_SEED", 1));
    println!("{cases} schedules, FANIN_SEED={seed}");
    for seed in seed..seed + cases {
        let slots = 1 + seed as u32 % 4;
        nested::run(seed, slots)
            .unwrap_or_else(|broken| panic!("FANIN_SEED={seed}, {slots} slots: {broken}"));
    }
}

#[test]
fn no_schedule_of_the_driver_stands_still() {
    let (cases, seed) = (setting("FANIN_CASES", DRIVER), setting("FANIN_SEED", 1));
    println!("{cases} schedules, FANIN_SEED={seed}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.unwrap();
    for seed in seed..seed + cases {
        runtime.block_on(drive(seed));
    }
}

async fn drive(seed: u64) {
    let slots = 1 + seed as usize % 4;
    let mut draw = Draw::new(seed);
    let plan = nested::plan(&mut draw);
    let supervisor = Supervisor::builder().slots(slots).start().await.unwrap();
    let session = supervisor.session("s").await.unwrap();
    let group = session.fan_out(specs(plan, &mut draw)).await.unwrap();
    // Time is paused, so an hour passes at once where nothing moves.
    let result = group.wait(Duration::from_secs(3600)).await;
    let result = result.unwrap_or_else(|error| panic!("FANIN_SEED={seed}, {slots} slots: {error}"));
    assert_eq!(result.counts.completed, result.counts.launched, "FANIN_SEED={seed}: {result:?}");
    supervisor.shutdown().await;
}

fn specs(jobs: Vec<Planned>, draw: &mut Draw) -> Vec<JobSpec> {
    jobs.into_iter().map(|job| spec(job, draw.below(1 << 30) as u64)).collect()
}

fn spec(job: Planned, seed: u64) -> JobSpec {
    JobSpec::run(format!("j{}", job.name), move |ctx| async move { body(&ctx, job, Draw::new(seed)).await })
}

/// What a planned job does, with a few steps aside between, so that another has its turn.
async fn body(launcher: &Launcher, job: Planned, mut draw: Draw) -> Result<JobOutput, JobError> {
    aside(&mut draw).await;
    if job.below.is_empty() {
        return Ok(().into());
    }
    let group = launcher.fan_out(specs(job.below, &mut draw)).await?;
    aside(&mut draw).await;
    match job.way {
        Waiting::Group => drop(group.wait(None).await?),
        Waiting::All => drop(launcher.wait_all(group.jobs(), None).await?),
        Waiting::AnyThenAll => {
            launcher.wait_any(group.jobs(), None).await?;
            aside(&mut draw).await;
            launcher.wait_all(group.jobs(), None).await?;
        }
        Waiting::Wake => drop(launcher.next_wake().await?.ack().await?),
        Waiting::GivesUp => {
            let limit = Duration::from_millis(draw.below(3) as u64);
            match group.wait(limit).await {
                Ok(_) => {}
                Err(error) => assert_eq!(error.code(), "wait_timed_out"),
            }
        }
        Waiting::Joins => {}
    }
    aside(&mut draw).await;
    Ok(().into())
}

async fn aside(draw: &mut Draw) {
    for _ in 0..draw.below(4) {
        if draw.below(8) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}
