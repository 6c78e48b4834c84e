//! A store of 100,000 calls. How long it takes is for `benches/sanitize.rs`.

use crate::common::{Place, counts};

#[test]
fn a_hundred_thousand_calls_are_all_found_and_all_closed() {
    let place = Place::of(100_000, 100_000);
    let repaired = place.repair().unwrap();
    assert_eq!(repaired.before.counts(), counts(100_000, 0, 5_000, 0));
    assert_eq!((repaired.after.total(), place.counts().total()), (0, 0));
}
