//! A store as anybody reads it: without its lock, while its owner writes or after it died. It makes no file and changes
//! nothing.

use std::fmt;
use std::path::Path;

use fanin_protocol::{Lifetime, RowKind, Seq};
use fanin_supervisor::journal::{JournalError, JournalReader, RecordPage, Row, StoredOutput};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};

use crate::database::{self, RECORD, signed, unreadable};
use crate::journal::lost;
use crate::layout::Layout;
use crate::mark::Mark;
use crate::meta::Meta;
use crate::{failure, hash, outputs};

/// A way to read a store.
pub struct StoreReader {
    layout: Layout,
    /// One look at a time; each is one transaction of its own.
    connection: Mutex<Connection>,
}

impl StoreReader {
    /// Opens the store in a folder to read it.
    ///
    /// # Errors
    ///
    /// [`JournalError::Foreign`] where it is none of ours, or a newer one's; [`JournalError::Damaged`] where something that
    /// was committed is gone; [`JournalError::Io`] where there is none.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, JournalError> {
        let layout = Layout::of(dir.as_ref());
        // First: an owner at work is ahead of it, and never behind.
        let reached = Mark::look(&layout);
        let connection = Mutex::new(database::open_to_read(&layout)?);
        let reader = Self { layout, connection };
        let Some(reached) = reached else { return Ok(reader) };
        let lost = reader.look(|connection, meta| lost(connection, &reader.layout, meta, &reached))?;
        lost.map_or(Ok(()), |lost| Err(failure::damaged(&reader.layout, lost)))?;
        Ok(reader)
    }

    /// All rows that recovery would read, each checked.
    ///
    /// # Errors
    ///
    /// [`JournalError::Damaged`] and [`JournalError::Io`].
    pub fn live(&self) -> Result<Vec<Row>, JournalError> {
        self.look(|connection, meta| Ok(database::live(connection, &self.layout, meta)?.0))
    }

    /// One look at a store that does not move under it.
    fn look<R>(
        &self,
        look: impl FnOnce(&Connection, &Meta) -> Result<R, JournalError>,
    ) -> Result<R, JournalError> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction().map_err(|error| unreadable(&self.layout, &error))?;
        let meta = Meta::read(&transaction, &self.layout)?;
        look(&transaction, &meta)
    }

    fn checked(&self, (row, crc): (Row, u32)) -> Result<Row, JournalError> {
        if hash::row(&row) == crc {
            return Ok(row);
        }
        let damage = format!("the row of {} {} does not fit its checksum", row.kind.as_str(), row.key);
        Err(failure::damaged(&self.layout, damage))
    }
}

impl JournalReader for StoreReader {
    fn page(&self, from: Seq, max: usize) -> Result<RecordPage, JournalError> {
        self.look(|connection, meta| {
            let sql = |error| unreadable(&self.layout, &error);
            let first = from.0.max(meta.oldest.0).max(1);
            let mut before = match first {
                first if first == meta.oldest.0 => Some(meta.oldest_crc),
                first => database::crc(connection, &self.layout, Seq(first - 1))?,
            };
            let query = format!("SELECT {RECORD} FROM log WHERE seq >= ?1 ORDER BY seq LIMIT ?2");
            let mut statement = connection.prepare_cached(&query).map_err(sql)?;
            let limit = i64::try_from(max).unwrap_or(i64::MAX);
            let mut rows = statement.query(params![signed(first), limit]).map_err(sql)?;
            let mut records = Vec::new();
            while let Some(row) = rows.next().map_err(sql)? {
                let found = database::record(row).map_err(sql)?;
                let seq = first + records.len() as u64;
                if found.record.seq.0 != seq || !before.is_some_and(|before| found.is_sound(before)) {
                    // What comes before the damage is whole.
                    if records.is_empty() {
                        return Err(failure::damaged(
                            &self.layout,
                            format!("record {seq} is not what it was"),
                        ));
                    }
                    break;
                }
                before = Some(found.crc);
                records.push(found.record);
            }
            if records.is_empty() && max > 0 && first <= meta.head.0 {
                return Err(failure::damaged(&self.layout, format!("record {first} is missing")));
            }
            Ok(RecordPage { log: meta.log.clone(), oldest: meta.oldest, head: meta.head, records })
        })
    }

    fn find_before(&self, kind: RowKind, id: &str, before: u64) -> Result<Option<Row>, JournalError> {
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        self.look(|connection, _| {
            let sql = |error| unreadable(&self.layout, &error);
            // The newest life of an id has the last place.
            let one = |query: &str| {
                let mut get = connection.prepare_cached(query)?;
                get.query_row(params![kind.as_str(), id, before], |row| database::thing(kind, row)).optional()
            };
            let table = "WHERE kind = ?1 AND id = ?2 AND key < ?3 ORDER BY key DESC LIMIT 1";
            let live = one(&format!("SELECT key, id, body, crc FROM live {table}")).map_err(sql)?;
            let found = match live {
                Some(found) => Some(found),
                None => one(&format!("SELECT key, id, body, crc FROM retired {table}")).map_err(sql)?,
            };
            found.map(|found| self.checked(found)).transpose()
        })
    }

    fn row(&self, kind: RowKind, key: u64) -> Result<Option<Row>, JournalError> {
        Ok(self.rows(kind, key, 1)?.into_iter().find(|row| row.key == key))
    }

    fn rows(&self, kind: RowKind, from: u64, max: usize) -> Result<Vec<Row>, JournalError> {
        self.look(|connection, _| {
            let sql = |error| unreadable(&self.layout, &error);
            let query = "SELECT key, id, body, crc FROM live WHERE kind = ?1 AND key >= ?2 UNION ALL \
                         SELECT key, id, body, crc FROM retired WHERE kind = ?1 AND key >= ?2 ORDER BY key LIMIT ?3";
            let mut statement = connection.prepare_cached(query).map_err(sql)?;
            let limit = i64::try_from(max).unwrap_or(i64::MAX);
            let rows = statement
                .query_map(params![kind.as_str(), signed(from), limit], |row| database::thing(kind, row))
                .map_err(sql)?;
            let rows = rows.map(|row| self.checked(row.map_err(sql)?)).collect::<Result<Vec<_>, _>>()?;
            // A page of the database that is read twice, or out of turn.
            if rows.is_sorted_by(|one, next| one.key < next.key) {
                return Ok(rows);
            }
            let damage = format!("rows of {} come twice or out of order", kind.as_str());
            Err(failure::damaged(&self.layout, damage))
        })
    }

    fn output_from(&self, job: Lifetime, from: u64) -> Result<Option<StoredOutput>, JournalError> {
        self.look(|connection, _| outputs::read(connection, &self.layout, job, from))
    }
}

impl fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreReader").field("dir", &self.layout.dir).finish_non_exhaustive()
    }
}
