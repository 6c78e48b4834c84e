//! The database: opened with what makes a commit durable, looked at before anything in it is believed.

use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use bytes::Bytes;
use fanin_protocol::limits::{STORE_CACHE_KIB, TAIL_CHECKED};
use fanin_protocol::{Envelope, Ids, RowKind, Seq};
use fanin_supervisor::journal::{JournalError, Row};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row as Columns, TransactionBehavior};

use crate::hash::Sum;
use crate::layout::{APPLICATION_ID, Layout, MAJOR, MINOR, SCHEMA, VERSION, key_at, place_of, places_from};
use crate::mark::{Mark, Reached};
use crate::meta::Meta;
use crate::{failure, hash};

/// SQLite's integers have a sign; what they hold here has none.
pub(crate) const fn signed(n: u64) -> i64 {
    n.cast_signed()
}

pub(crate) const fn unsigned(n: i64) -> u64 {
    n.cast_unsigned()
}

/// Where a database lies: its number on its disk. A copy has another. The disk's own number may change when the machine
/// starts again, so it is left out.
pub(crate) fn place(layout: &Layout) -> Result<String, JournalError> {
    let found = std::fs::metadata(layout.database());
    let found = found.map_err(|error| failure::of_file(layout, "store.db", &error))?;
    Ok(found.ino().to_string())
}

/// Opens the database to write it. One that is not there is made, unless the mark says that it was.
pub(crate) fn open(layout: &Layout, reached: Option<&Reached>) -> Result<Connection, JournalError> {
    let sql = |error| failure::of(layout, &error);
    let file = |error: std::io::Error| failure::of_file(layout, "store.db", &error);
    refuse_header(layout)?;
    let is_new = std::fs::metadata(layout.database()).map_or(0, |file| file.len()) == 0;
    if let (true, Some(reached)) = (is_new, reached) {
        return Err(gone(layout, reached));
    }
    if is_new {
        // Made here, so that nobody else can read it for a moment.
        crate::layout::open_private(&layout.database()).map_err(file)?;
    }
    let mut connection = Connection::open(layout.database()).map_err(sql)?;
    // A store that is refused stays as it is, with what its write-ahead log has behind the damage.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sql)?;
    connection.busy_timeout(fanin_protocol::limits::GATE_WAIT).map_err(sql)?;
    refuse_other(&connection, layout)?;
    let set =
        |name: &str, value: &dyn rusqlite::ToSql| connection.pragma_update(None, name, value).map_err(sql);
    set("synchronous", &"FULL")?;
    set("fullfsync", &true)?;
    set("foreign_keys", &true)?;
    set("cache_size", &-i64::from(STORE_CACHE_KIB))?;
    set("cell_size_check", &true)?;
    // All statements that a batch may need.
    connection.set_prepared_statement_cache_capacity(32);
    if is_empty(&connection).map_err(sql)? {
        create(&mut connection, layout)?;
        layout.sync().map_err(file)?;
    }
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(sql)?;
    Ok(connection)
}

/// Lays out an empty database, all at once. It has no write-ahead log yet, so that its header shows whose it is.
fn create(connection: &mut Connection, layout: &Layout) -> Result<(), JournalError> {
    let place = place(layout)?;
    let create = || {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        Meta::new(uuid::Uuid::new_v4().simple().to_string(), place).write(&transaction)?;
        transaction.commit()
    };
    create().map_err(|error: rusqlite::Error| failure::of(layout, &error))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS(SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

fn gone(layout: &Layout, reached: &Reached) -> JournalError {
    failure::damaged(layout, format!("its database is gone, {}", with(reached)))
}

/// What became of a database that is none of ours any more, and was one.
fn overwritten(layout: &Layout) -> Option<JournalError> {
    let reached = Mark::look(layout)?;
    Some(failure::damaged(layout, format!("its database is cut off or overwritten, {}", with(&reached))))
}

fn with(reached: &Reached) -> String {
    format!("with records 1 to {} of {}", reached.seq.0, reached.log)
}

/// Opens the database to read it, whoever owns it.
pub(crate) fn open_to_read(layout: &Layout) -> Result<Connection, JournalError> {
    let sql = |error| failure::of(layout, &error);
    if !layout.database().exists()
        && let Some(reached) = Mark::look(layout)
    {
        return Err(gone(layout, &reached));
    }
    refuse_unowned(layout)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(layout.database(), flags).map_err(sql)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sql)?;
    connection.busy_timeout(fanin_protocol::limits::GATE_WAIT).map_err(sql)?;
    refuse_other(&connection, layout)?;
    Ok(connection)
}

/// Refuses what another program wrote before anything is made beside it. Where there is a lock the folder is ours, and
/// the file stays closed: to close any descriptor of it takes the locks of SQLite from this whole process.
pub(crate) fn refuse_unowned(layout: &Layout) -> Result<(), JournalError> {
    if layout.owner().exists() { Ok(()) } else { refuse_header(layout) }
}

/// Refuses what another program or a newer one wrote by the first bytes of the file, before SQLite sees it: it would
/// make files of its own beside it.
fn refuse_header(layout: &Layout) -> Result<(), JournalError> {
    let file = |error: std::io::Error| failure::of_file(layout, "store.db", &error);
    let mut header = Vec::new();
    match File::open(layout.database()) {
        Ok(database) => database.take(HEADER).read_to_end(&mut header).map_err(file)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(file(error)),
    };
    if header.is_empty() {
        return Ok(());
    }
    let number = |at: usize| {
        let bytes = header.get(at..)?.first_chunk::<4>()?;
        Some(i32::from_be_bytes(*bytes))
    };
    match (header.starts_with(b"SQLite format 3\0"), number(68), number(60)) {
        (true, Some(application), Some(version)) => {
            // A first transaction that did not end is taken back by SQLite.
            let is_begun = (application, version) == (0, 0) && layout.dir.join("store.db-journal").exists();
            if is_begun { Ok(()) } else { refuse(layout, application, version) }
        }
        _ => Err(overwritten(layout).unwrap_or_else(|| foreign(layout, "store.db is no database".into()))),
    }
}

/// Bytes of a database before its first page.
const HEADER: u64 = 100;

fn refuse_other(connection: &Connection, layout: &Layout) -> Result<(), JournalError> {
    let read = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = match (read("application_id"), read("user_version")) {
        (Ok(application), Ok(version)) => (application, version),
        (Err(error), _) | (_, Err(error)) => return Err(unreadable(layout, &error)),
    };
    match (application, version) {
        // A database that was begun and never finished is empty.
        (0, 0) if is_empty(connection).unwrap_or(false) => Ok(()),
        (application, version) => refuse(layout, application, version),
    }
}

fn refuse(layout: &Layout, application: i32, version: i32) -> Result<(), JournalError> {
    match (application, version) {
        (APPLICATION_ID, version) if version / 1000 == MAJOR => Ok(()),
        (APPLICATION_ID, version) => {
            Err(foreign(layout, format!("it is of format {}.{}", version / 1000, version % 1000)))
        }
        (other, _) => {
            let is_blank = other == 0;
            let foreign = || foreign(layout, format!("its application id is {other:#010x}, not fanin's"));
            Err(is_blank.then(|| overwritten(layout)).flatten().unwrap_or_else(foreign))
        }
    }
}

fn foreign(layout: &Layout, found: String) -> JournalError {
    let known = format!("stores of format {MAJOR}.{MINOR}");
    JournalError::Foreign { store: layout.name(), found, known }
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
        self.crc_behind(before) == self.crc
    }

    /// What its checksum would be behind that one.
    pub(crate) fn crc_behind(&self, before: u32) -> u32 {
        hash::record(before, &self.record, &self.ids)
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

/// A row of that kind and its checksum, from `place, id, body, crc`.
pub(crate) fn thing(kind: RowKind, row: &Columns<'_>) -> rusqlite::Result<(Row, u32)> {
    let body = Bytes::from(row.get::<_, Vec<u8>>(2)?);
    Ok((Row { kind, key: key_at(row.get(0)?), id: row.get(1)?, body }, row.get(3)?))
}

/// The checksum of a record, where it is there.
pub(crate) fn crc(connection: &Connection, layout: &Layout, seq: Seq) -> Result<Option<u32>, JournalError> {
    connection
        .prepare_cached("SELECT crc FROM log WHERE seq = ?1")
        .and_then(|mut get| get.query_row([signed(seq.0)], |row| row.get(0)).optional())
        .map_err(|error| unreadable(layout, &error))
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
        crc(connection, layout, Seq(from.0 - 1))?.ok_or_else(|| missing(layout, Seq(from.0 - 1)))?
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
    if next <= meta.head.0 {
        return Err(missing(layout, Seq(next)));
    }
    if next != meta.head.0 + 1 || before != meta.crc {
        return Err(failure::damaged(layout, format!("the log does not end with record {}", meta.head.0)));
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

/// From where on the records are looked at when a store is opened. What a newer program closed in order may say what this
/// one does not know, so all of that is looked at.
pub(crate) fn tail(connection: &Connection, layout: &Layout, meta: &Meta) -> Result<Seq, JournalError> {
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0));
    if version.map_err(|error| unreadable(layout, &error))? > VERSION {
        return Ok(meta.oldest);
    }
    let since = meta.head.0.saturating_sub(TAIL_CHECKED).max(meta.checked.0);
    Ok(Seq((since + 1).max(meta.oldest.0)))
}

/// The checksum of each row by its place.
pub(crate) type RowSums = HashMap<i64, u32, BuildHasherDefault<hash::OfPlace>>;

/// All rows that are not retired, each checked, and the checksum of each.
pub(crate) fn live(
    connection: &Connection,
    layout: &Layout,
    meta: &Meta,
) -> Result<(Vec<Row>, RowSums), JournalError> {
    let sql = |error| unreadable(layout, &error);
    let (mut rows, mut crcs) = (Vec::new(), RowSums::default());
    let mut found = Sum::default();
    let mut statement = connection
        .prepare("SELECT place, id, body, crc FROM live WHERE place BETWEEN ?1 AND ?2 ORDER BY place")
        .map_err(sql)?;
    for kind in RowKind::ALL {
        let mut things = statement.query(places_from(kind, 0)).map_err(sql)?;
        while let Some(row) = things.next().map_err(sql)? {
            let (row, crc) = thing(kind, row).map_err(sql)?;
            if hash::row(&row) != crc {
                let damage = format!("the row of {} {} does not fit its checksum", kind.as_str(), row.key);
                return Err(failure::damaged(layout, damage));
            }
            found.add(crc);
            crcs.insert(place_of(kind, row.key), crc);
            rows.push(row);
        }
    }
    compare(layout, "rows of what is open", meta.live, found)?;
    Ok((rows, crcs))
}

/// Compares what is there with what was committed.
pub(crate) fn compare(layout: &Layout, what: &str, were: Sum, are: Sum) -> Result<(), JournalError> {
    if were == are {
        return Ok(());
    }
    let damage = if were.count == are.count {
        format!("the {what} are not those that were committed")
    } else {
        format!("{} {what} were committed, and {} can be read", were.count, are.count)
    };
    Err(failure::damaged(layout, damage))
}
