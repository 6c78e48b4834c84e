//! What tests of a store on disk share.

use std::path::Path;

use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::journal::JournalError;
use fanin_supervisor::testing::journal::Shown;

/// A sequence that looks random and is the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % n as u64).unwrap()
    }
}

pub(crate) fn open(dir: &Path) -> Result<SqliteJournal, JournalError> {
    SqliteJournal::open(dir, &Options::default())
}

/// Jobs whose outputs are looked at, from 0.
pub(crate) const JOBS: u64 = 40;

/// All that a store shows, but for what it says of itself when it is opened.
pub(crate) fn shown(dir: &Path) -> Result<Shown, JournalError> {
    let mut shown = Shown::of(&mut open(dir)?, JOBS)?;
    shown.opened.notes.clear();
    Ok(shown)
}
