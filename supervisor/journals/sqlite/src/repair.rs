//! What is done to a damaged store, when a person has said so: nothing is deleted, and what is lost is named.

use std::fs;
use std::path::{Path, PathBuf};

use fanin_protocol::{LogId, RowKind, Seq};
use fanin_supervisor::journal::JournalError;
use rusqlite::{Connection, params};

use crate::database::{self, RECORD, signed};
use crate::hash::Sum;
use crate::journal::now_ms;
use crate::layout::Layout;
use crate::mark::{Mark, Reached};
use crate::meta::Meta;
use crate::owner::Ownership;
use crate::{failure, hash};

/// What a repair came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// Records that are lost, in words; empty where nothing is.
    pub lost: Vec<String>,
    /// Where the store is as it was.
    pub kept: PathBuf,
    /// The newest record that is left.
    pub head: Seq,
    /// Where the new log goes on: no number of the old one comes again.
    pub next: Seq,
}

/// Goes on with what can be read of the store in a folder, under the name `log`. The store as it was is kept beside it.
///
/// Records behind the first damaged one are left out, with what rows say of later things.
///
/// # Errors
///
/// [`JournalError::Owned`] where a process has it; [`JournalError::Damaged`] where nothing can be read at all, and
/// nothing is changed; [`JournalError::Io`] and [`JournalError::Full`].
pub fn repair_accept_loss(dir: impl AsRef<Path>, log: &LogId) -> Result<Repaired, JournalError> {
    let layout = Layout::of(dir.as_ref());
    let owner = Ownership::take(&layout)?;
    let kept = layout.dir.join(format!("damaged-{}", now_ms()));
    copy(&layout, &kept)?;
    let reached = Mark::look(&layout);
    let connection = database::open(&layout, reached.as_ref())?;
    let sql = |error| failure::of(&layout, &error);
    let mut meta = Meta::read(&connection, &layout)?;
    let end = reached.as_ref().map_or(meta.head, |reached| reached.seq.max(meta.head));
    let mut lost = Vec::new();
    let transaction = connection.unchecked_transaction().map_err(sql)?;
    let sound = sound_until(&transaction, &layout, &meta)?;
    if sound.0 < end.0 {
        lost.push(format!("records {} to {}", sound.0 + 1, end.0));
        transaction.execute("DELETE FROM log WHERE seq > ?1", [signed(sound.0)]).map_err(sql)?;
    }
    lost.extend(drop_damaged_rows(&transaction, &layout, &mut meta)?);
    // The records that are left stay as they are; the numbers of those that are gone are not used again, so the log
    // begins anew behind them.
    transaction.execute("DELETE FROM log", []).map_err(sql)?;
    (meta.log, meta.head, meta.crc) = (Some(log.clone()), end, 0);
    (meta.oldest, meta.oldest_crc, meta.checked) = (end.next(), 0, end);
    meta.commits = reached.as_ref().map_or(0, |reached| reached.commits).max(meta.commits) + 1;
    meta.write(&transaction).map_err(sql)?;
    transaction.commit().map_err(sql)?;
    let mut mark = Mark::open(&layout)?;
    // Both halves, so that none shows the old log.
    for _ in 0..2 {
        mark.write(&layout, &Reached { log: log.clone(), seq: end, crc: 0, commits: meta.commits })?;
    }
    mark.sync(&layout)?;
    drop(owner);
    Ok(Repaired { lost, kept, head: sound, next: end.next() })
}

/// The last record up to which all checksums are right.
fn sound_until(connection: &Connection, layout: &Layout, meta: &Meta) -> Result<Seq, JournalError> {
    let sql = |error| failure::of(layout, &error);
    let query = format!("SELECT {RECORD} FROM log WHERE seq >= ?1 ORDER BY seq");
    let mut statement = connection.prepare(&query).map_err(sql)?;
    let mut rows = statement.query([signed(meta.oldest.0)]).map_err(sql)?;
    let (mut before, mut sound) = (meta.oldest_crc, Seq(meta.oldest.0 - 1));
    // What cannot be read ends the sound part as a wrong checksum does.
    while let Ok(Some(row)) = rows.next()
        && let Ok(found) = database::record(row)
        && found.record.seq == sound.next()
        && found.is_sound(before)
    {
        (before, sound) = (found.crc, found.record.seq);
    }
    Ok(sound)
}

/// Takes out rows that are not what they were, and counts what is left.
fn drop_damaged_rows(
    connection: &Connection,
    layout: &Layout,
    meta: &mut Meta,
) -> Result<Vec<String>, JournalError> {
    let sql = |error| failure::of(layout, &error);
    let mut lost = Vec::new();
    meta.live = Sum::default();
    for kind in RowKind::ALL {
        let mut damaged = Vec::new();
        let query = "SELECT key, id, body, crc FROM live WHERE kind = ?1 ORDER BY key";
        let mut statement = connection.prepare(query).map_err(sql)?;
        let mut rows = statement.query([kind.as_str()]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let (row, crc) = database::thing(kind, row).map_err(sql)?;
            if hash::row(&row) == crc {
                meta.live.add(crc);
            } else {
                damaged.push(row.key);
            }
        }
        for key in damaged {
            let delete = "DELETE FROM live WHERE kind = ?1 AND key = ?2";
            connection.execute(delete, params![kind.as_str(), signed(key)]).map_err(sql)?;
            lost.push(format!("the row of {} {key}", kind.as_str()));
        }
    }
    Ok(lost)
}

/// Keeps the store as it is, file by file.
fn copy(layout: &Layout, kept: &Path) -> Result<(), JournalError> {
    let io = |error: std::io::Error| failure::of_file(layout, "it cannot be kept as it was", &error);
    fs::create_dir(kept).map_err(io)?;
    for entry in fs::read_dir(&layout.dir).map_err(io)? {
        let entry = entry.map_err(io)?;
        let is_wanted =
            entry.file_name().to_string_lossy().starts_with("store.db") || entry.path() == layout.mark();
        if is_wanted {
            fs::copy(entry.path(), kept.join(entry.file_name())).map_err(io)?;
        }
    }
    Ok(())
}
