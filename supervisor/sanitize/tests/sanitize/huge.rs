//! A store of 100,000 calls: within the time that people wait.

use std::time::Instant;

use crate::common::Place;

/// Seconds that a scan and a repair may take, in a build without optimisation as well.
const SCAN: f64 = 1.0;
const REPAIR: f64 = 5.0;

fn timed<R>(work: impl FnOnce() -> R) -> (R, f64) {
    let start = Instant::now();
    (work(), start.elapsed().as_secs_f64())
}

#[test]
fn a_hundred_thousand_calls_are_scanned_in_a_second_and_repaired_in_five() {
    for running in [1_000, 100_000] {
        let place = Place::of(100_000, running);
        let (counts, scan) = timed(|| place.counts());
        assert_eq!((counts.running, counts.messages), (running, running / 20));
        let (repaired, repair) = timed(|| place.repair().unwrap());
        assert_eq!(repaired.after.total(), 0);
        eprintln!(
            "100,000 calls, {running} of them running: scanned in {scan:.2} s, repaired in {repair:.2} s"
        );
        assert!(scan < SCAN && repair < REPAIR);
    }
}
