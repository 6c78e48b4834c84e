//! Supervisors that are killed again and again, with real processes and real syncs, and an observer outside that keeps all
//! it was told (B19 to B24, G3 to G6).
//!
//! `FANIN_KILLS=10000 cargo test -p fanin-tests --test kill` for the long run.

mod faults;
mod observer;
mod store;

use std::path::Path;

use fanin_tests::cases::process::Token;

use crate::observer::{Life, Observer, Told};
use crate::store::Stored;

/// Kills of one store, and of one run in the suite.
const KILLS: usize = 500;

/// Kills so many supervisors of one store, lets the last one take what is owed, and says what the observer was told and
/// what is stored.
fn kill(dir: &Path, kills: usize, mut seed: u64) -> (Told, Stored) {
    let mut observer = Observer::new(dir, Token::default());
    // Lives of all lengths: cut in the opening, in the recovery, and in full work.
    for n in 0..kills {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // On a slow machine nothing but openings would be cut if all began with the start.
        observer.watch(&Life { n, millis: seed % 40, from_serving: n % 4 != 0 });
    }
    observer.end(kills);
    (observer.told, Stored::read(dir))
}

#[test]
fn nothing_that_was_told_is_lost_however_often_it_is_killed() {
    let kills = std::env::var("FANIN_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    for (round, first) in (0..kills).step_by(KILLS).enumerate() {
        let kills = KILLS.min(kills - first);
        let dir = tempfile::tempdir().unwrap();
        let (told, stored) = kill(dir.path(), kills, 0x2545_f491_4f6c_dd1d + round as u64);
        println!("{kills} kills; {told}; {} records", stored.records.len());
        assert_eq!(store::breaches(&told, &stored), [""; 0]);
        told.assert_busy(kills);
    }
}
