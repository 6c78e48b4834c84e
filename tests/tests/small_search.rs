//! The smallest searches that a broken promise of delivery, of the barrier or of an end cannot pass: seconds even
//! where nothing is optimised, as for planted faults. The large ones are in `search.rs`.

use fanin_tests::op::How;
use fanin_tests::search::menu::Menu;
use fanin_tests::search::search;

/// P4, BAR-10, BAR-12: one group, two who wait, a turn.
#[test]
fn two_waiters() {
    let found = search(&Menu {
        launches: vec!["launch closure as=g a"],
        waiters: 2,
        waits: vec!["all a", "group g", "wake"],
        ends: vec![How::Ok],
        turns: 1,
        ..Menu::default()
    });
    assert!(found.states > 50, "{found:?}");
}

/// BAR-1, BAR-4, J-8, J-9: two members, one slot, stops, a crash.
#[test]
fn one_slot() {
    let found = search(&Menu {
        slots: Some(1),
        launches: vec!["launch closure as=g a b"],
        waiters: 1,
        waits: vec!["wake"],
        ends: vec![How::Ok],
        crashes: 1,
        others: vec!["stop b grace=0", "stop-group g grace=0"],
        ..Menu::default()
    });
    assert!(found.states > 50, "{found:?}");
}

/// G9, BU-3, BU-7, BU-8: two members of a group that may cost ten; each account is compared with all that was told, at every
/// step and after every crash.
#[test]
fn budgets() {
    let found = search(&Menu {
        launches: vec!["launch closure usd=10 estimate=6 as=g a b"],
        ends: vec![How::Ok],
        crashes: 1,
        others: vec![
            "used a cost=4",
            "used a cost=10",
            "used b cost=6",
            "stop a grace=0",
            "set-budget group g usd=20",
        ],
        ..Menu::default()
    });
    assert!(found.states > 400, "{found:?}");
    assert!(found.kinds.contains("usage") && found.kinds.contains("limits.set"), "{found:?}");
}

/// The same where a parent waits for its child, which has a budget of its own below that of the group.
#[test]
fn budgets_of_a_tree() {
    let found = search(&Menu {
        launches: vec![
            "launch closure usd=10 estimate=6 as=g a",
            "launch closure below=a own_steps=2 as=h c",
        ],
        waiters: 1,
        waits: vec!["all below=a c"],
        ends: vec![How::Ok],
        crashes: 1,
        others: vec!["used a cost=6", "used c cost=4 steps=1", "used c cost=4 steps=2", "stop a grace=0"],
        ..Menu::default()
    });
    assert!(found.states > 500, "{found:?}");
}
