//! What a supervisor holds does not grow with the jobs that it has seen (B47). A program of its own, since it counts what
//! the whole process has allocated.

use std::alloc::System;
use std::time::Duration;

use fanin_supervisor::{Session, Supervisor};
use fanin_tests::cases::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Jobs of a group; they are launched, followed, waited for and forgotten together.
const GROUP: usize = 1_000;
/// What may come and go with the time at which it is looked at, in bytes: less than any entry of a map for each job.
const SLACK: i64 = 8 * 50_000;

fn held() -> i64 {
    let stats = COUNTED.stats();
    i64::try_from(stats.bytes_allocated).unwrap() - i64::try_from(stats.bytes_deallocated).unwrap()
}

async fn live(supervisor: &Supervisor, session: &Session, jobs: usize) {
    for _ in 0..jobs / GROUP {
        let group = session.fan_out((0..GROUP).map(|_| idle("short"))).await.unwrap();
        let mut follower = supervisor.follow(&group.jobs()[0], 0).unwrap();
        assert_eq!(group.wait(STUCK).await.unwrap().counts.completed as usize, GROUP);
        while follower.next_page().await.unwrap().is_some() {}
        // The alarm of this moment lets go of what is too much.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_hundred_thousand_jobs_memory_has_levelled_off() {
    let supervisor = Supervisor::builder().start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    // By then all is full that has a bound: what is kept, the tail of the log, the ids that expired.
    live(&supervisor, &session, 100_000).await;
    let full = held();
    live(&supervisor, &session, 50_000).await;
    let grown = held() - full;
    println!("{full} bytes after 100,000 jobs, {grown} more after 50,000 others");
    assert!(grown < SLACK, "{grown} bytes for 50,000 jobs that are over");
}
