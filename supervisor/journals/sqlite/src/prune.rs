//! How long a store keeps what is over: old records, rows and outputs go a few at a time, with the batches of others
//! (B-9). What is open or owed is in rows of its own and never among them, and its output has no age.

use fanin_protocol::Seq;
use fanin_protocol::limits::{KEEP_BYTES, KEEP_FOR, KEEP_RECORDS, PRUNE_EVERY, PRUNE_STEP, TAIL_CHECKED};
use fanin_protocol::spec::millis;
use rusqlite::{Connection, OptionalExtension, params};

use crate::database::{signed, unsigned};
use crate::journal::now_ms;
use crate::meta::Meta;

/// When it was last looked for.
#[derive(Debug, Default)]
pub(crate) struct Pruning {
    batches: u64,
}

impl Pruning {
    /// One share of the work, now and then; where outputs have made the store too large, at once.
    pub(crate) fn step(
        &mut self,
        connection: &Connection,
        meta: &mut Meta,
        has_outputs: bool,
    ) -> rusqlite::Result<()> {
        self.batches += 1;
        let is_turn = self.batches.is_multiple_of(PRUNE_EVERY);
        if is_turn {
            prune(connection, meta, now_ms())?;
        }
        if is_turn || has_outputs { shrink(connection, meta, KEEP_BYTES) } else { Ok(()) }
    }
}

/// Drops what is older than it has to be: never one of the newest records, and never one that is younger than a week.
pub(crate) fn prune(connection: &Connection, meta: &mut Meta, now_ms: u64) -> rusqlite::Result<()> {
    let before_ms = signed(now_ms.saturating_sub(millis(KEEP_FOR)));
    cut(connection, meta, KEEP_RECORDS, before_ms)?;
    drop_rows(connection, meta, before_ms)?;
    for (job, _) in old_outputs(connection, before_ms)? {
        drop_output(connection, meta, job)?;
    }
    Ok(())
}

/// Where a store is larger than it may be, the oldest of what is over goes, outputs first: their beginnings are in the
/// records. What is open or owed stays, whatever its size is.
pub(crate) fn shrink(connection: &Connection, meta: &mut Meta, bytes_max: u64) -> rusqlite::Result<()> {
    let mut excess = used(connection)?.saturating_sub(bytes_max);
    if excess == 0 {
        return Ok(());
    }
    for (job, bytes) in old_outputs(connection, i64::MAX)? {
        drop_output(connection, meta, job)?;
        excess = excess.saturating_sub(bytes);
        if excess == 0 {
            return Ok(());
        }
    }
    if drop_rows(connection, meta, i64::MAX)? == 0 {
        cut(connection, meta, TAIL_CHECKED, i64::MAX)?;
    }
    Ok(())
}

/// Bytes of the database that hold something: what was let go of is used again.
fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, \
               pragma_page_size";
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).map(unsigned)
}

/// Cuts old records, a few at a time, and leaves the newest.
fn cut(connection: &Connection, meta: &mut Meta, keep: u64, before_ms: i64) -> rusqlite::Result<()> {
    let last = meta.head.0.saturating_sub(keep).min(meta.oldest.0 + PRUNE_STEP - 1);
    if last < meta.oldest.0 {
        return Ok(());
    }
    let old = "SELECT seq, crc FROM log WHERE seq <= ?1 AND ts_ms < ?2 ORDER BY seq DESC LIMIT 1";
    let old: Option<(i64, u32)> = connection
        .query_row(old, params![signed(last), before_ms], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((seq, crc)) = old {
        connection.execute("DELETE FROM log WHERE seq <= ?1", [seq])?;
        meta.oldest = Seq(unsigned(seq) + 1);
        meta.oldest_crc = crc;
    }
    Ok(())
}

/// Drops old rows of what is over, and says how many.
fn drop_rows(connection: &Connection, meta: &mut Meta, before_ms: i64) -> rusqlite::Result<usize> {
    let old = "DELETE FROM retired WHERE place IN (SELECT place FROM retired WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2) \
               RETURNING crc";
    let mut delete = connection.prepare_cached(old)?;
    let gone = delete.query_map(params![before_ms, signed(PRUNE_STEP)], |row| row.get(0))?;
    let gone: Vec<u32> = gone.collect::<Result<_, _>>()?;
    gone.iter().for_each(|crc| meta.retired.remove(*crc));
    Ok(gone.len())
}

/// The oldest outputs of jobs that have left the memory, and their bytes.
fn old_outputs(connection: &Connection, before_ms: i64) -> rusqlite::Result<Vec<(i64, u64)>> {
    let old = "SELECT job, (SELECT sum(length(bytes)) FROM output WHERE output.job = put_out.job) FROM put_out \
               WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2";
    let mut old = connection.prepare_cached(old)?;
    let old = old.query_map(params![before_ms, signed(PRUNE_STEP)], |row| {
        Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.map_or(0, unsigned)))
    });
    old?.collect()
}

fn drop_output(connection: &Connection, meta: &mut Meta, job: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM output WHERE job = ?1")?.execute([job])?;
    let crc = connection
        .prepare_cached("DELETE FROM put_out WHERE job = ?1 RETURNING crc")?
        .query_row([job], |row| row.get(0))
        .optional()?;
    if let Some(crc) = crc {
        meta.outputs.remove(crc);
    }
    Ok(())
}
