//! The exhaustive search of MODEL's "What to prove first".

use fanin_protocol::PartState;
use fanin_tests::op::How;
use fanin_tests::search::menu::Menu;
use fanin_tests::search::search;

fn run(name: &str, menu: &Menu) {
    let start = std::time::Instant::now();
    let found = search(menu);
    println!(
        "{name}: {} states, {} transitions, depth {} in {:?}",
        found.states,
        found.transitions,
        found.depth,
        start.elapsed()
    );
}

#[test]
fn two_groups() {
    run(
        "two_groups",
        &Menu {
            launches: vec!["launch closure as=g a", "launch closure as=h b"],
            waiters: 2,
            waits: vec!["all a b", "all a", "group g", "wake"],
            ends: vec![How::Ok],
            turns: 1,
            crashes: 1,
            others: vec!["close s"],
            ..Menu::default()
        },
    );
}
#[test]
fn turn_group() {
    run(
        "turn_group",
        &Menu {
            launches: vec!["start closure as=g a", "start closure as=h b"],
            waiters: 1,
            waits: vec!["all a b", "all a", "group g", "wake"],
            ends: vec![How::Ok],
            turns: 2,
            crashes: 1,
            others: vec!["close s"],
            ..Menu::default()
        },
    );
}
#[test]
fn barrier_any() {
    for policy in ["launch closure any as=g a b", "launch closure fail_fast as=g a b", "launch as=g a b"] {
        for slots in [None, Some(1)] {
            run(
                &format!("barrier {policy} {slots:?}"),
                &Menu {
                    slots,
                    launches: vec![policy],
                    waiters: 1,
                    waits: vec!["group g", "wake", "all a"],
                    ends: vec![How::Ok, How::Failed, How::Lost],
                    binds: true,
                    time: true,
                    crashes: 1,
                    others: vec!["close s", "stop a", "stop b grace=0", "stop-group g"],
                    ..Menu::default()
                },
            );
        }
    }
}
#[test]
fn parts() {
    run(
        "parts",
        &Menu {
            launches: vec!["launch closure as=g a", "start as=h b"],
            ends: vec![How::Ok],
            parts: vec![PartState::Pending, PartState::Running, PartState::Completed],
            turn_parts: vec![PartState::Pending, PartState::Running, PartState::Error],
            turns: 1,
            late: true,
            crashes: 1,
            others: vec!["stop a"],
            ..Menu::default()
        },
    );
}
#[test]
fn shutdown() {
    run(
        "shutdown",
        &Menu {
            slots: Some(1),
            launches: vec!["launch as=g a b"],
            waiters: 2,
            waits: vec!["idle", "wake", "group g"],
            ends: vec![How::Ok],
            turns: 1,
            time: true,
            crashes: 1,
            others: vec!["drain", "stop-all", "stop-all grace=0", "finish"],
            ..Menu::default()
        },
    );
}
#[test]
fn timers() {
    run(
        "timers",
        &Menu {
            slots: Some(1),
            launches: vec!["launch deadline=50 run=30 queue=40 grace=10 as=g a b"],
            waiters: 1,
            waits: vec!["wake"],
            ends: vec![How::Ok, How::Failed],
            time: true,
            crashes: 1,
            others: vec!["stop a", "stop-group g grace=0", "stop-all"],
            ..Menu::default()
        },
    );
}
