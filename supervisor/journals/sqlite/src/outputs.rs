//! What jobs put out, in pieces: each has a checksum, and a row for each job says how many there are. It never holds more
//! of an output in memory than the piece at hand.

use std::ops::Range;

use bytes::Bytes;
use fanin_protocol::Lifetime;
use fanin_supervisor::journal::{Batch, JournalError, OutputChange, StoredOutput};
use rusqlite::{Connection, OptionalExtension, params};

use crate::database::{signed, unreadable, unsigned};
use crate::hash::{self, Sum};
use crate::layout::Layout;
use crate::meta::Meta;
use crate::{database, failure};

/// In place of the time from which on an output grows old: its job is still in memory.
const STAYS: i64 = i64::MAX;

/// What is known of an output as a whole, and its checksum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PutOut {
    total: u64,
    pieces: Sum,
    pub(crate) crc: u32,
}

impl PutOut {
    /// From `total, pieces, digest, crc`.
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let pieces = Sum { count: unsigned(row.get(1)?), digest: unsigned(row.get(2)?) };
        Ok(Self { total: unsigned(row.get(0)?), pieces, crc: row.get(3)? })
    }

    fn of(connection: &Connection, job: u64) -> rusqlite::Result<Option<Self>> {
        let query = "SELECT total, pieces, digest, crc FROM put_out WHERE job = ?1";
        connection.prepare_cached(query)?.query_row([signed(job)], Self::read).optional()
    }

    fn write(&self, connection: &Connection, job: u64) -> rusqlite::Result<u32> {
        let crc = hash::put_out(job, self.total, self.pieces);
        let (count, digest) = (signed(self.pieces.count), signed(self.pieces.digest));
        connection
            .prepare_cached("INSERT OR REPLACE INTO put_out VALUES(?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute(params![signed(job), signed(self.total), count, digest, crc, STAYS])?;
        Ok(crc)
    }

    fn add(&mut self, connection: &Connection, job: u64, at: u64, bytes: &[u8]) -> rusqlite::Result<()> {
        // An empty piece would have the place of the next one.
        if bytes.is_empty() {
            return Ok(());
        }
        let crc = hash::piece(job, at, bytes);
        connection.prepare_cached("INSERT INTO output VALUES(?1, ?2, ?3, ?4)")?.execute(params![
            signed(job),
            signed(at),
            bytes,
            crc
        ])?;
        self.pieces.add(crc);
        Ok(())
    }

    /// Lets pieces go that lie wholly in a range.
    fn drop(&mut self, connection: &Connection, job: u64, range: &Range<u64>) -> rusqlite::Result<()> {
        let within =
            "DELETE FROM output WHERE job = ?1 AND at >= ?2 AND at + length(bytes) <= ?3 RETURNING crc";
        let mut gone = connection.prepare_cached(within)?;
        let gone = gone.query_map([job, range.start, range.end].map(signed), |row| row.get(0))?;
        for crc in gone {
            self.pieces.remove(crc?);
        }
        Ok(())
    }
}

pub(crate) fn write_outputs(connection: &Connection, batch: &Batch, meta: &mut Meta) -> rusqlite::Result<()> {
    for change in &batch.outputs {
        let job = change.job().0;
        let before = match change {
            OutputChange::Retire { .. } => {
                let retire = "UPDATE put_out SET at_ms = ?2 WHERE job = ?1";
                connection.prepare_cached(retire)?.execute([job, meta.ts_ms].map(signed))?;
                continue;
            }
            _ => PutOut::of(connection, job)?,
        };
        let mut now = before.unwrap_or_default();
        match change {
            OutputChange::Append { at, bytes, .. } => {
                now.add(connection, job, *at, bytes)?;
                now.total = at + bytes.len() as u64;
            }
            OutputChange::Drop { range, .. } => now.drop(connection, job, range)?,
            OutputChange::Replace { pieces, total, .. } => {
                if before.is_some() {
                    connection.prepare_cached("DELETE FROM output WHERE job = ?1")?.execute([signed(job)])?;
                }
                now = PutOut { total: *total, ..PutOut::default() };
                for (at, piece) in pieces {
                    now.add(connection, job, *at, piece)?;
                }
            }
            OutputChange::Retire { .. } => {}
        }
        if let Some(before) = before {
            meta.outputs.remove(before.crc);
        }
        if now.pieces.count > 0 {
            meta.outputs.add(now.write(connection, job)?);
        } else if before.is_some() {
            connection.prepare_cached("DELETE FROM put_out WHERE job = ?1")?.execute([signed(job)])?;
        }
    }
    Ok(())
}

/// What is kept of a job's output from a place on, each piece checked, and that none is missing before it either.
pub(crate) fn read(
    connection: &Connection,
    layout: &Layout,
    job: Lifetime,
    from: u64,
) -> Result<Option<StoredOutput>, JournalError> {
    let sql = |error| unreadable(layout, &error);
    let Some(known) = PutOut::of(connection, job.0).map_err(sql)? else { return Ok(None) };
    let damaged =
        |at: &str| failure::damaged(layout, format!("output of job {}{at} is not what it was", job.0));
    let query = "SELECT at, CASE WHEN at + length(bytes) > ?2 THEN bytes END, crc FROM output WHERE job = ?1 ORDER BY at";
    let mut statement = connection.prepare_cached(query).map_err(sql)?;
    let rows = statement.query_map([job.0, from].map(signed), |row| {
        Ok((unsigned(row.get(0)?), row.get::<_, Option<Vec<u8>>>(1)?, row.get::<_, u32>(2)?))
    });
    let (mut pieces, mut found) = (Vec::new(), Sum::default());
    for row in rows.map_err(sql)? {
        let (at, bytes, crc) = row.map_err(sql)?;
        found.add(crc);
        let Some(bytes) = bytes else { continue };
        if hash::piece(job.0, at, &bytes) != crc {
            return Err(damaged(&format!(" at byte {at}")));
        }
        pieces.push((at, Bytes::from(bytes)));
    }
    if found != known.pieces || hash::put_out(job.0, known.total, known.pieces) != known.crc {
        return Err(damaged(""));
    }
    Ok(Some(StoredOutput { pieces, total: known.total }))
}

/// Reads all that was put out, and says what it adds up to.
pub(crate) fn check(connection: &Connection, layout: &Layout, meta: &Meta) -> Result<(), JournalError> {
    let sql = |error| unreadable(layout, &error);
    let mut found = Sum::default();
    let mut jobs = connection.prepare("SELECT job, crc FROM put_out ORDER BY job").map_err(sql)?;
    let mut jobs = jobs.query([]).map_err(sql)?;
    while let Some(row) = jobs.next().map_err(sql)? {
        found.add(row.get(1).map_err(sql)?);
        read(connection, layout, Lifetime(unsigned(row.get(0).map_err(sql)?)), 0)?;
    }
    database::compare(layout, "outputs", meta.outputs, found)
}
