//! What a store has of jobs while they run, and of those that have left the memory (B-1, B48, SC-23).

use std::time::Duration;

use fanin_supervisor::Supervisor;
use fanin_supervisor::testing::TestClock;
use fanin_supervisor::testing::journal::MemoryStore;
use fanin_tests::cases::process::until;
use fanin_tests::cases::*;

// what a group took is counted from its seal, whoever supervised it then.
#[tokio::test]
async fn the_duration_of_a_group_counts_over_a_crash() {
    let (store, wall) = (MemoryStore::new(), TestClock::new());
    let start = || Supervisor::builder().clock(wall.clone());
    let supervisor = start().journal(store.open().unwrap()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let group = session.fan_out([gated("a", &Gate::new()), idle("b")]).await.unwrap();
    over(&supervisor, &group.jobs()[1..]).await;
    drop((group, session, supervisor));
    wall.jump_ahead(Duration::from_secs(90));
    let mut journal = None;
    until("the store is free", || {
        journal = store.open().ok();
        journal.is_some()
    })
    .await;
    let supervisor = start().journal(journal.unwrap()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let wake = woken(&session).await;
    assert_eq!(wake.counts.error, 1);
    assert!((90_000..100_000).contains(&wake.duration_ms), "{} ms", wake.duration_ms);
    // One that begins now has nothing of that.
    let result = session.fan_out([idle("c")]).await.unwrap().wait(STUCK).await.unwrap();
    assert!(result.duration_ms < 10_000, "{} ms", result.duration_ms);
    supervisor.shutdown().await;
}
