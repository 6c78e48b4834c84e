//! What a supervisor holds does not grow with the teams that it has seen (T-11). A program of its own, since it counts
//! what the whole process has allocated.

use std::alloc::System;
use std::time::Duration;

use fanin_supervisor::protocol::limits::MAIL_BYTES_MAX;
use fanin_supervisor::{JobSpec, Session, Supervisor};
use fanin_tests::cases::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What may come and go with the time at which it is looked at, in bytes: less than a mail for each hundredth team.
const SLACK: i64 = 400_000;
const TEAMS: usize = 10_000;
const WARM: usize = 5;

fn held() -> i64 {
    let stats = COUNTED.stats();
    i64::try_from(stats.bytes_allocated).unwrap() - i64::try_from(stats.bytes_deallocated).unwrap()
}

/// Teams that come and go, one after the other: each receives a mail and leaves a long one behind.
async fn live(session: &Session) {
    let long = "x".repeat(MAIL_BYTES_MAX);
    for _ in 0..TEAMS {
        let text = long.clone();
        let sends = JobSpec::run("sends", |ctx| async move {
            ctx.team_send("gets", "short").await?;
            ctx.team_send("gets", text).await?;
            Ok(().into())
        });
        let gets = JobSpec::run("gets", |ctx| async move {
            let got = ctx.team_recv(Some("sends"), Duration::from_secs(1)).await?;
            Ok(got.map_or_else(String::new, |mail| mail.text.to_string()).into())
        });
        let group = session.fan_out([sends.sends(["gets"]), gets]).await.unwrap();
        let result = group.wait(STUCK).await.unwrap();
        assert_eq!(output(&result.entries[1]), "short");
    }
    // The alarm of this moment lets go of what is too much.
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn after_ten_thousand_teams_memory_is_where_it_was() {
    let supervisor = Supervisor::builder().start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    // By then all is full that has a bound: what is kept, the tail of the log, the ids that expired.
    for _ in 0..WARM {
        live(&session).await;
    }
    let full = held();
    live(&session).await;
    let grown = held() - full;
    println!("{full} bytes after {} teams, {grown} more after {TEAMS} others", WARM * TEAMS);
    assert!(grown < SLACK, "{grown} bytes for {TEAMS} teams that are over");
}
