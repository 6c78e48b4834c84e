//! The log of a damaged store: what is sound of it stays where it is, and a record that says nothing stands in for each
//! that is lost, so that numbers go on and no chain of checksums has a hole.

use fanin_protocol::envelope::{FORMAT_VERSION, LOST_KIND};
use fanin_protocol::limits::KEEP_RECORDS;
use fanin_protocol::{Ids, Seq};
use fanin_supervisor::journal::JournalError;
use rusqlite::{Connection, params};

use crate::database::{self, RECORD, signed, unreadable};
use crate::layout::Layout;
use crate::mark::Reached;
use crate::meta::Meta;

/// What is lost of a log.
#[derive(Debug)]
pub(crate) struct Lost {
    /// In words, by the numbers of records.
    pub(crate) words: Vec<String>,
    /// The newest record that is left.
    pub(crate) head: Seq,
}

/// Puts the log in order, and `meta` with it: its end, and where it begins.
pub(crate) fn records(
    connection: &Connection,
    layout: &Layout,
    meta: &mut Meta,
    reached: Option<&Reached>,
) -> Result<Lost, JournalError> {
    let sql = |error| unreadable(layout, &error);
    let end = reached.map_or(meta.head, |reached| reached.seq.max(meta.head));
    let mut holes = holes(connection, layout, meta, end)?;
    let words: Vec<String> = holes.iter().map(shown).collect();
    let is_last = |hole: &&(u64, u64)| hole.1 == end.0;
    let head = holes.last().filter(is_last).map_or(end, |(first, _)| Seq(first - 1));
    if holes.is_empty() {
        return Ok(Lost { words, head });
    }
    // Behind a hole of more than is kept anyway the log begins anew.
    if let Some((_, last)) = holes.iter().rfind(|(first, last)| last - first >= KEEP_RECORDS).copied() {
        connection.execute("DELETE FROM log WHERE seq <= ?1", [signed(last)]).map_err(sql)?;
        (meta.oldest, meta.oldest_crc) = (Seq(last + 1), 0);
        holes.retain(|(first, _)| *first > last);
    }
    let ids = Ids::default().encode().map_err(|error| JournalError::Io(error.to_string()))?;
    for (first, last) in holes {
        connection
            .execute("DELETE FROM log WHERE seq BETWEEN ?1 AND ?2", [first, last].map(signed))
            .map_err(sql)?;
        let mut insert = connection
            .prepare_cached(
                "INSERT INTO log VALUES(?1, coalesce((SELECT ts_ms FROM log WHERE seq < ?1 ORDER BY seq DESC LIMIT 1), 0), \
                 ?2, ?3, 1, ?4, x'', 0)",
            )
            .map_err(sql)?;
        for seq in first..=last {
            insert.execute(params![signed(seq), FORMAT_VERSION, LOST_KIND, ids]).map_err(sql)?;
        }
    }
    chain(connection, layout, meta, end)?;
    Ok(Lost { words, head })
}

/// The records that are not what they were, from one up to another, oldest first.
fn holes(
    connection: &Connection,
    layout: &Layout,
    meta: &Meta,
    end: Seq,
) -> Result<Vec<(u64, u64)>, JournalError> {
    let sql = |error| unreadable(layout, &error);
    let mut statement =
        connection.prepare(&format!("SELECT {RECORD} FROM log WHERE seq >= ?1 ORDER BY seq")).map_err(sql)?;
    let mut rows = statement.query([signed(meta.oldest.0)]).map_err(sql)?;
    let mut holes: Vec<(u64, u64)> = Vec::new();
    let mut lose = |first: u64, last: u64| match holes.last_mut() {
        Some((_, before)) if *before + 1 == first => *before = last,
        _ if first <= last => holes.push((first, last)),
        _ => {}
    };
    // Each covers the one before it, so behind one that is gone the next proves nothing.
    let (mut before, mut next) = (Some(meta.oldest_crc), meta.oldest.0);
    // What cannot be read ends what is there.
    while let Ok(Some(row)) = rows.next()
        && let Ok(found) = database::record(row)
        && found.record.seq <= meta.head
    {
        let seq = found.record.seq.0;
        if seq > next {
            lose(next, seq - 1);
            before = None;
        }
        let is_head = seq != meta.head.0 || found.crc == meta.crc;
        if !is_head || !before.is_some_and(|before| found.is_sound(before)) {
            lose(seq, seq);
        }
        (before, next) = (Some(found.crc), seq + 1);
    }
    lose(next, end.0);
    Ok(holes)
}

/// Makes each checksum cover the one before it again.
fn chain(connection: &Connection, layout: &Layout, meta: &mut Meta, end: Seq) -> Result<(), JournalError> {
    let sql = |error| unreadable(layout, &error);
    let mut crc = meta.oldest_crc;
    let mut changed = Vec::new();
    {
        let mut statement = connection
            .prepare(&format!("SELECT {RECORD} FROM log WHERE seq >= ?1 ORDER BY seq"))
            .map_err(sql)?;
        let mut rows = statement.query([signed(meta.oldest.0)]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let found = database::record(row).map_err(sql)?;
            crc = found.crc_behind(crc);
            if crc != found.crc {
                changed.push((found.record.seq.0, crc));
            }
        }
    }
    let mut update = connection.prepare("UPDATE log SET crc = ?2 WHERE seq = ?1").map_err(sql)?;
    for (seq, crc) in changed {
        update.execute(params![signed(seq), crc]).map_err(sql)?;
    }
    (meta.head, meta.crc) = (end, crc);
    Ok(())
}

fn shown((first, last): &(u64, u64)) -> String {
    if first == last { format!("record {first}") } else { format!("records {first} to {last}") }
}
