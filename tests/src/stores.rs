//! Supervisors over a store on disk, and what a later one finds.

use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use fanin_protocol::Record;
use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::Supervisor;
use fanin_supervisor::journal::JournalError;

use crate::cases::STUCK;

/// Opens the store in a folder; where one that was dropped is still letting go of it, a moment later.
///
/// # Panics
///
/// Where it cannot be opened.
pub async fn journal(dir: &Path) -> SqliteJournal {
    let started = Instant::now();
    loop {
        match SqliteJournal::open(dir, &Options::default()) {
            Err(JournalError::Owned { .. }) if started.elapsed() < STUCK => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            opened => return opened.unwrap(),
        }
    }
}

/// A supervisor over the store in a folder.
///
/// # Panics
///
/// Where it does not start.
pub async fn start_over(dir: &Path) -> Supervisor {
    Supervisor::builder().journal(journal(dir).await).start().await.unwrap()
}

/// A number that stands for what a record says, without prompts and outputs: the same for one that was seen and one that
/// is stored.
///
/// # Panics
///
/// Where it cannot be encoded.
pub fn said_by(record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&record.redacted().encode_body().unwrap());
    hasher.finish()
}
