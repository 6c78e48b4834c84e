//! The one row that says how far a store is, and what it must hold. Each batch writes it anew; it has a checksum of its
//! own, and nothing of it is believed without.

use fanin_protocol::{LogId, Seq};
use fanin_supervisor::journal::JournalError;
use rusqlite::{Connection, OptionalExtension, Row as Columns, params};

use crate::database::{signed, unreadable, unsigned};
use crate::failure;
use crate::hash::Sum;
use crate::layout::Layout;

/// The one row of `meta`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Which store this is: a copy gets another name.
    pub(crate) store: String,
    /// Where its database lies, so that a copy is told from the store it was made of.
    pub(crate) place: String,
    pub(crate) log: Option<LogId>,
    pub(crate) head: Seq,
    pub(crate) ts_ms: u64,
    /// The checksum of the head.
    pub(crate) crc: u32,
    pub(crate) epoch: Seq,
    /// Batches that were committed.
    pub(crate) commits: u64,
    /// The rows of `live`, of `retired` and of `put_out`.
    pub(crate) live: Sum,
    pub(crate) retired: Sum,
    pub(crate) outputs: Sum,
    /// The oldest record that is kept, and the checksum of the one before it.
    pub(crate) oldest: Seq,
    pub(crate) oldest_crc: u32,
    /// Up to here all checksums were right when the store was closed in order.
    pub(crate) checked: Seq,
}

impl Meta {
    pub(crate) fn new(store: String, place: String) -> Self {
        Self {
            store,
            place,
            log: None,
            head: Seq(0),
            ts_ms: 0,
            crc: 0,
            epoch: Seq(0),
            commits: 0,
            live: Sum::default(),
            retired: Sum::default(),
            outputs: Sum::default(),
            oldest: Seq(1),
            oldest_crc: 0,
            checked: Seq(0),
        }
    }

    /// The checksum of all of it.
    fn own(&self) -> u32 {
        crc32c::crc32c(format!("{self:?}").as_bytes())
    }

    pub(crate) fn read(connection: &Connection, layout: &Layout) -> Result<Self, JournalError> {
        let sql = "SELECT store, place, log, head, ts_ms, crc, epoch, commits, live, live_digest, retired, \
                   retired_digest, outputs, outputs_digest, oldest, oldest_crc, checked, own FROM meta WHERE id = 1";
        let sum = |row: &Columns<'_>, at: usize| -> rusqlite::Result<Sum> {
            Ok(Sum { count: unsigned(row.get(at)?), digest: unsigned(row.get(at + 1)?) })
        };
        let read = |row: &Columns<'_>| {
            let log: Option<String> = row.get(2)?;
            let meta = Self {
                store: row.get(0)?,
                place: row.get(1)?,
                log: log.as_deref().and_then(|log| LogId::parse(log).ok()),
                head: Seq(unsigned(row.get(3)?)),
                ts_ms: unsigned(row.get(4)?),
                crc: row.get(5)?,
                epoch: Seq(unsigned(row.get(6)?)),
                commits: unsigned(row.get(7)?),
                live: sum(row, 8)?,
                retired: sum(row, 10)?,
                outputs: sum(row, 12)?,
                oldest: Seq(unsigned(row.get(14)?)),
                oldest_crc: row.get(15)?,
                checked: Seq(unsigned(row.get(16)?)),
            };
            Ok((meta, row.get::<_, u32>(17)?))
        };
        let found = connection.prepare_cached(sql).and_then(|mut get| get.query_row([], read).optional());
        let found = found.map_err(|error| unreadable(layout, &error))?;
        let (meta, own) = found.ok_or_else(|| failure::damaged(layout, "its table `meta` is empty"))?;
        if meta.own() != own {
            return Err(failure::damaged(layout, "its table `meta` does not fit its checksum"));
        }
        Ok(meta)
    }

    pub(crate) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO meta VALUES(1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, \
                   ?15, ?16, ?17, ?18)";
        let log = self.log.as_ref().map(ToString::to_string);
        connection.prepare_cached(sql)?.execute(params![
            self.store,
            self.place,
            log,
            signed(self.head.0),
            signed(self.ts_ms),
            self.crc,
            signed(self.epoch.0),
            signed(self.commits),
            signed(self.live.count),
            signed(self.live.digest),
            signed(self.retired.count),
            signed(self.retired.digest),
            signed(self.outputs.count),
            signed(self.outputs.digest),
            signed(self.oldest.0),
            self.oldest_crc,
            signed(self.checked.0),
            self.own()
        ])?;
        Ok(())
    }
}
