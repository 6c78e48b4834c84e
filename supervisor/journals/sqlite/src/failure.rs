//! What SQLite and the system say, in the words of a journal.

use std::io;

use fanin_supervisor::journal::JournalError;
use rusqlite::ErrorCode;

use crate::layout::Layout;

/// An error of reading or writing. Damage is told from a failure, and lack of space from both.
pub(crate) fn of(layout: &Layout, error: &rusqlite::Error) -> JournalError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => JournalError::Full(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            damaged(layout, format!("its database cannot be read: {error}"))
        }
        // What a full disk does to files that SQLite maps or syncs.
        Some(ErrorCode::SystemIoFailure) if is_full(layout) => JournalError::Full(error.to_string()),
        _ => JournalError::Io(format!("{}: {error}", layout.name())),
    }
}

/// An error of a file beside the database.
pub(crate) fn of_file(layout: &Layout, what: &str, error: &io::Error) -> JournalError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => JournalError::Full(error.to_string()),
        _ => JournalError::Io(format!("{}: {what}: {error}", layout.name())),
    }
}

pub(crate) fn damaged(layout: &Layout, damage: impl Into<String>) -> JournalError {
    JournalError::Damaged { store: layout.name(), damage: damage.into() }
}

fn is_full(layout: &Layout) -> bool {
    fs4::available_space(&layout.dir).is_ok_and(|free| free < 64 * 1024)
}
