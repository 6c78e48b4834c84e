//! How long a store keeps what is over: old records, rows and outputs go a few at a time, with the batches of others
//! (B-9). What is open is in rows of its own and never among them.

use fanin_protocol::Seq;
use fanin_protocol::limits::{KEEP_FOR, KEEP_RECORDS, PRUNE_EVERY, PRUNE_STEP};
use fanin_protocol::spec::millis;
use rusqlite::{Connection, OptionalExtension, params};

use crate::database::signed;
use crate::journal::now_ms;
use crate::meta::Meta;

/// When it was last looked for.
#[derive(Debug, Default)]
pub(crate) struct Pruning {
    batches: u64,
}

impl Pruning {
    /// One share of the work, now and then.
    pub(crate) fn step(&mut self, connection: &Connection, meta: &mut Meta) -> rusqlite::Result<()> {
        self.batches += 1;
        if self.batches.is_multiple_of(PRUNE_EVERY) { prune(connection, meta, now_ms()) } else { Ok(()) }
    }
}

/// Drops what is older than it has to be: never one of the newest records, and never one that is younger than a week.
pub(crate) fn prune(connection: &Connection, meta: &mut Meta, now_ms: u64) -> rusqlite::Result<()> {
    let before_ms = now_ms.saturating_sub(millis(KEEP_FOR));
    let last = meta.head.0.saturating_sub(KEEP_RECORDS).min(meta.oldest.0 + PRUNE_STEP - 1);
    if last >= meta.oldest.0 {
        let old = "SELECT seq, crc FROM log WHERE seq <= ?1 AND ts_ms < ?2 ORDER BY seq DESC LIMIT 1";
        let old: Option<(i64, u32)> = connection
            .query_row(old, params![signed(last), signed(before_ms)], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((seq, crc)) = old {
            connection.execute("DELETE FROM log WHERE seq <= ?1", [seq])?;
            meta.oldest = Seq(seq.cast_unsigned() + 1);
            meta.oldest_crc = crc;
        }
    }
    let limit = signed(PRUNE_STEP);
    let rows = "DELETE FROM retired WHERE (kind, key) IN (SELECT kind, key FROM retired WHERE at_ms < ?1 ORDER BY at_ms \
                LIMIT ?2) RETURNING crc";
    for crc in gone(connection, rows, before_ms)? {
        meta.retired.remove(crc);
    }
    let jobs = "SELECT job FROM put_out WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2";
    let pieces = format!("DELETE FROM output WHERE job IN ({jobs})");
    connection.prepare_cached(&pieces)?.execute(params![signed(before_ms), limit])?;
    for crc in
        gone(connection, &format!("DELETE FROM put_out WHERE job IN ({jobs}) RETURNING crc"), before_ms)?
    {
        meta.outputs.remove(crc);
    }
    Ok(())
}

/// Deletes, and says what the checksums of the deleted were.
fn gone(connection: &Connection, delete: &str, before_ms: u64) -> rusqlite::Result<Vec<u32>> {
    let mut delete = connection.prepare_cached(delete)?;
    let gone = delete.query_map(params![signed(before_ms), signed(PRUNE_STEP)], |row| row.get(0))?;
    gone.collect()
}
