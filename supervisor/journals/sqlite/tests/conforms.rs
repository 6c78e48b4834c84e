//! The SQLite store keeps what every store must keep, and so does the one in memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::journal::Journal;
use fanin_supervisor::testing::journal::{MemoryStore, conforms};

#[test]
fn a_store_on_disk_conforms() {
    conforms(|| {
        let dir = tempfile::tempdir().unwrap();
        move || Ok(Box::new(SqliteJournal::open(dir.path(), &Options::default())?) as Box<dyn Journal>)
    });
}

#[test]
fn a_store_in_memory_conforms() {
    conforms(|| {
        let store = MemoryStore::new();
        move || Ok(Box::new(store.open()?) as Box<dyn Journal>)
    });
}
