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
