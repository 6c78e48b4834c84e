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
use crate::layout::{Layout, place_of, places_from};
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
        let (first, before) = (place_of(kind, 0), place_of(kind, before));
        self.look(|connection, _| {
            let sql = |error| unreadable(&self.layout, &error);
            // The newest life of an id has the last place.
            let query = "SELECT place, id, body, crc FROM live WHERE id = ?1 AND place >= ?2 AND place < ?3 \
                         ORDER BY place DESC LIMIT 1";
            let live = connection.prepare_cached(query).and_then(|mut get| {
                get.query_row(params![id, first, before], |row| database::thing(kind, row)).optional()
            });
            let found = match live.map_err(sql)? {
                Some(found) => Some(found),
                None => find_retired(connection, kind, id, before).map_err(sql)?,
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
            let query = "SELECT place, id, body, crc FROM live WHERE place BETWEEN ?1 AND ?2 UNION ALL SELECT place, id, \
                         body, crc FROM retired WHERE place BETWEEN ?1 AND ?2 ORDER BY place LIMIT ?3";
            let (first, last) = places_from(kind, from);
            let mut statement = connection.prepare_cached(query).map_err(sql)?;
            let limit = i64::try_from(max).unwrap_or(i64::MAX);
            let rows = statement
                .query_map(params![first, last, limit], |row| database::thing(kind, row))
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

/// The newest row of that id that is over and lies before a place of its kind. The parts of the index are asked in turn.
fn find_retired(
    connection: &Connection,
    kind: RowKind,
    id: &str,
    before: i64,
) -> rusqlite::Result<Option<(Row, u32)>> {
    let part = "SELECT place >> 12 FROM retired WHERE place >> 12 BETWEEN ?1 AND ?2 ORDER BY place >> 12 DESC LIMIT 1";
    let one = "SELECT place, id, body, crc FROM retired WHERE place >> 12 = ?1 AND id = ?2 AND place < ?3 \
               ORDER BY place DESC LIMIT 1";
    let (mut part, mut one) = (connection.prepare_cached(part)?, connection.prepare_cached(one)?);
    let (first, mut last) = (place_of(kind, 0) >> 12, before >> 12);
    while let Some(newest) = part.query_row([first, last], |row| row.get::<_, i64>(0)).optional()? {
        let found = one.query_row(params![newest, id, before], |row| database::thing(kind, row));
        if let Some(found) = found.optional()? {
            return Ok(Some(found));
        }
        last = newest - 1;
    }
    Ok(None)
}

impl fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreReader").field("dir", &self.layout.dir).finish_non_exhaustive()
    }
}
