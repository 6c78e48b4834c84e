//! The database: opened with what makes a commit durable, looked at before anything in it is believed.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

use bytes::Bytes;
use fanin_protocol::limits::TAIL_CHECKED;
use fanin_protocol::{Envelope, Ids, LogId, RowKind, Seq};
use fanin_supervisor::journal::{JournalError, Row};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row as Columns, params};

use crate::layout::{APPLICATION_ID, Layout, MAJOR, MINOR, SCHEMA, VERSION};
use crate::{failure, hash};

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
    /// Rows in `live`, and their checksums in one number that does not depend on their order.
    pub(crate) rows: u64,
    pub(crate) digest: u64,
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
            rows: 0,
            digest: 0,
            oldest: Seq(1),
            oldest_crc: 0,
            checked: Seq(0),
        }
    }

    /// The checksum of all of it.
    fn own(&self) -> u32 {
        crc32c::crc32c(format!("{self:?}").as_bytes())
    }

    /// Adds a row to the digest, or takes it out: the same for both.
    pub(crate) const fn fold(&mut self, crc: u32) {
        // Spread, so that two flips do not cancel each other out.
        self.digest ^= (crc as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    pub(crate) fn read(connection: &Connection, layout: &Layout) -> Result<Self, JournalError> {
        let sql = "SELECT store, place, log, head, ts_ms, crc, epoch, rows, digest, oldest, oldest_crc, checked, own \
                   FROM meta WHERE id = 1";
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
                rows: unsigned(row.get(7)?),
                digest: unsigned(row.get(8)?),
                oldest: Seq(unsigned(row.get(9)?)),
                oldest_crc: row.get(10)?,
                checked: Seq(unsigned(row.get(11)?)),
            };
            Ok((meta, row.get::<_, u32>(12)?))
        };
        let found = connection.query_row(sql, [], read).optional();
        let found = found.map_err(|error| unreadable(layout, &error))?;
        let (meta, own) = found.ok_or_else(|| failure::damaged(layout, "its table `meta` is empty"))?;
        if meta.own() != own {
            return Err(failure::damaged(layout, "its table `meta` does not fit its checksum"));
        }
        Ok(meta)
    }

    pub(crate) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql =
            "INSERT OR REPLACE INTO meta VALUES(1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let log = self.log.as_ref().map(ToString::to_string);
        connection.prepare_cached(sql)?.execute(params![
            self.store,
            self.place,
            log,
            signed(self.head.0),
            signed(self.ts_ms),
            self.crc,
            signed(self.epoch.0),
            signed(self.rows),
            signed(self.digest),
            signed(self.oldest.0),
            self.oldest_crc,
            signed(self.checked.0),
            self.own()
        ])?;
        Ok(())
    }
}

/// SQLite's integers have a sign; what they hold here has none.
pub(crate) const fn signed(n: u64) -> i64 {
    n.cast_signed()
}

pub(crate) const fn unsigned(n: i64) -> u64 {
    n.cast_unsigned()
}

/// Where a database lies: its device and number. A copy has others.
pub(crate) fn place(layout: &Layout) -> Result<String, JournalError> {
    let found = std::fs::metadata(layout.database());
    let found = found.map_err(|error| failure::of_file(layout, "store.db", &error))?;
    Ok(format!("{}:{}", found.dev(), found.ino()))
}

/// Opens the database to write it. One that is not there is made.
pub(crate) fn open(layout: &Layout) -> Result<Connection, JournalError> {
    let sql = |error| failure::of(layout, &error);
    let is_new = !layout.database().exists();
    if is_new {
        // Made here, so that nobody else can read it for a moment.
        crate::layout::open_private(&layout.database())
            .map_err(|error| failure::of_file(layout, "store.db", &error))?;
    } else {
        refuse_foreign(layout)?;
    }
    let connection = Connection::open(layout.database()).map_err(sql)?;
    let set =
        |name: &str, value: &dyn rusqlite::ToSql| connection.pragma_update(None, name, value).map_err(sql);
    connection.busy_timeout(fanin_protocol::limits::GATE_WAIT).map_err(sql)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(sql)?;
    set("synchronous", &"FULL")?;
    set("fullfsync", &true)?;
    set("foreign_keys", &true)?;
    set("cell_size_check", &true)?;
    if is_empty(&connection).map_err(sql)? {
        let batch = format!(
            "BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT"
        );
        connection.execute_batch(&batch).map_err(sql)?;
        Meta::new(uuid::Uuid::new_v4().simple().to_string(), place(layout)?)
            .write(&connection)
            .map_err(sql)?;
    }
    Ok(connection)
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS(SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

/// Opens the database to read it, whoever owns it.
pub(crate) fn open_to_read(layout: &Layout) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(layout.database(), flags);
    let connection = connection.map_err(|error| failure::of(layout, &error))?;
    connection
        .busy_timeout(fanin_protocol::limits::GATE_WAIT)
        .map_err(|error| failure::of(layout, &error))?;
    refuse_other(&connection, layout)?;
    Ok(connection)
}

/// Refuses what another program or a newer one wrote, through a connection that writes nothing.
fn refuse_foreign(layout: &Layout) -> Result<(), JournalError> {
    let length = std::fs::metadata(layout.database()).map(|file| file.len());
    if length.map_err(|error| failure::of_file(layout, "store.db", &error))? == 0 {
        return Ok(());
    }
    refuse_other(&open_raw(layout)?, layout)
}

fn open_raw(layout: &Layout) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(layout.database(), flags).map_err(|error| failure::of(layout, &error))
}

fn refuse_other(connection: &Connection, layout: &Layout) -> Result<(), JournalError> {
    let foreign = |found: String| JournalError::Foreign {
        store: layout.name(),
        found,
        known: format!("stores of format {MAJOR}.{MINOR}"),
    };
    let read = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = match (read("application_id"), read("user_version")) {
        (Ok(application), Ok(version)) => (application, version),
        (Err(error), _) | (_, Err(error)) => {
            return Err(match failure::of(layout, &error) {
                JournalError::Damaged { .. } => foreign("store.db is no database".into()),
                other => other,
            });
        }
    };
    match (application, version) {
        // A database that was begun and never finished is empty.
        (0, 0) if is_empty(connection).unwrap_or(false) => Ok(()),
        (APPLICATION_ID, version) if version / 1000 == MAJOR => Ok(()),
        (APPLICATION_ID, version) => {
            Err(foreign(format!("it is of format {}.{}", version / 1000, version % 1000)))
        }
        (other, _) => Err(foreign(format!("its application id is {other:#010x}, not fanin's"))),
    }
}

/// A record as it is stored.
pub(crate) struct Stored {
    pub(crate) record: Envelope,
    /// Its ids as they lie there.
    ids: Vec<u8>,
    pub(crate) crc: u32,
}

impl Stored {
    /// True where it is what was committed, behind the record with the checksum `before`.
    pub(crate) fn is_sound(&self, before: u32) -> bool {
        hash::record(before, &self.record, &self.ids) == self.crc
    }
}

/// Reads the columns of [`RECORD`].
pub(crate) fn record(row: &Columns<'_>) -> rusqlite::Result<Stored> {
    let ids: Vec<u8> = row.get(5)?;
    let record = Envelope {
        seq: Seq(unsigned(row.get(0)?)),
        ts_ms: unsigned(row.get(1)?),
        v: row.get(2)?,
        kind: row.get(3)?,
        ignorable: row.get(4)?,
        // What cannot be read does not fit its checksum either.
        ids: Ids::decode(&ids).unwrap_or_default(),
        body: Bytes::from(row.get::<_, Vec<u8>>(6)?),
    };
    Ok(Stored { record, ids, crc: row.get(7)? })
}

/// The columns of [`record`].
pub(crate) const RECORD: &str = "seq, ts_ms, v, kind, ignorable, ids, body, crc";

/// A row of that kind and its checksum, from `key, id, body, crc`.
pub(crate) fn thing(kind: RowKind, row: &Columns<'_>) -> rusqlite::Result<(Row, u32)> {
    let body = Bytes::from(row.get::<_, Vec<u8>>(2)?);
    Ok((Row { kind, key: unsigned(row.get(0)?), id: row.get(1)?, body }, row.get(3)?))
}

/// Checks records against their checksums, from one place on, and says how many there were. Each is shown to `see`.
pub(crate) fn check_log(
    connection: &Connection,
    layout: &Layout,
    meta: &Meta,
    from: Seq,
    mut see: impl FnMut(&Envelope) -> Result<(), JournalError>,
) -> Result<u64, JournalError> {
    let sql = |error| unreadable(layout, &error);
    let mut before = if from.0 <= meta.oldest.0 {
        meta.oldest_crc
    } else {
        let crc = connection
            .query_row("SELECT crc FROM log WHERE seq = ?1", [signed(from.0 - 1)], |row| row.get(0))
            .optional();
        crc.map_err(sql)?.ok_or_else(|| missing(layout, Seq(from.0 - 1)))?
    };
    let mut next = from.0.max(meta.oldest.0);
    let first = next;
    let query = format!("SELECT {RECORD} FROM log WHERE seq >= ?1 ORDER BY seq");
    let mut statement = connection.prepare(&query).map_err(sql)?;
    let mut rows = statement.query([signed(next)]).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let found = record(row).map_err(sql)?;
        if found.record.seq.0 != next {
            return Err(missing(layout, Seq(next)));
        }
        if !found.is_sound(before) {
            return Err(failure::damaged(layout, format!("record {next} does not fit its checksum")));
        }
        see(&found.record)?;
        before = found.crc;
        next += 1;
    }
    if next != meta.head.0 + 1 || (first < next && before != meta.crc) {
        return Err(missing(layout, Seq(next.min(meta.head.0))));
    }
    Ok(next - first)
}

fn missing(layout: &Layout, seq: Seq) -> JournalError {
    failure::damaged(layout, format!("record {} is missing", seq.0))
}

/// An error of reading what was committed once: whatever it is, the store cannot be believed.
pub(crate) fn unreadable(layout: &Layout, error: &rusqlite::Error) -> JournalError {
    match failure::of(layout, error) {
        JournalError::Io(text) if !is_of_system(error) => failure::damaged(layout, text),
        other => other,
    }
}

fn is_of_system(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, OutOfMemory, PermissionDenied, SystemIoFailure,
    };
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(CannotOpen | DatabaseBusy | DatabaseLocked | OutOfMemory | PermissionDenied | SystemIoFailure)
    )
}

/// From where on the checksums are looked at when a store is opened.
pub(crate) fn tail(meta: &Meta) -> Seq {
    let since = meta.head.0.saturating_sub(TAIL_CHECKED).max(meta.checked.0);
    Seq((since + 1).max(meta.oldest.0))
}

/// The checksum of each row by its place.
pub(crate) type RowSums = HashMap<(RowKind, u64), u32>;

/// All rows that are not retired, each checked, and the checksum of each.
pub(crate) fn live(
    connection: &Connection,
    layout: &Layout,
    meta: &Meta,
) -> Result<(Vec<Row>, RowSums), JournalError> {
    let sql = |error| unreadable(layout, &error);
    let (mut rows, mut crcs) = (Vec::new(), HashMap::new());
    let mut found = Meta { rows: 0, digest: 0, ..meta.clone() };
    let mut statement = connection
        .prepare("SELECT key, id, body, crc FROM live WHERE kind = ?1 ORDER BY key")
        .map_err(sql)?;
    for kind in RowKind::ALL {
        let mut things = statement.query([kind.as_str()]).map_err(sql)?;
        while let Some(row) = things.next().map_err(sql)? {
            let (row, crc) = thing(kind, row).map_err(sql)?;
            if hash::row(&row) != crc {
                let damage = format!("the row of {} {} does not fit its checksum", kind.as_str(), row.key);
                return Err(failure::damaged(layout, damage));
            }
            found.rows += 1;
            found.fold(crc);
            crcs.insert((kind, row.key), crc);
            rows.push(row);
        }
    }
    if (found.rows, found.digest) != (meta.rows, meta.digest) {
        let damage =
            format!("{} rows of what is open were committed, and {} can be read", meta.rows, found.rows);
        return Err(failure::damaged(layout, damage));
    }
    Ok((rows, crcs))
}
