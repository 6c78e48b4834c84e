//! The store as its owner has it: opened once, then batch after batch, each one transaction and one sync.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fanin_protocol::envelope::Encoder;
use fanin_protocol::record::Level;
use fanin_protocol::spec::millis;
use fanin_protocol::{FORMAT_VERSION, Record, Seq};
use fanin_supervisor::journal::{Batch, Change, Journal, JournalError, JournalReader, Opened, Row};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::ballast::{self, Ballast};
use crate::database::{self, RowSums, signed};
use crate::layout::{Layout, key_at, place_of};
use crate::mark::{Mark, Reached};
use crate::meta::Meta;
use crate::outputs::write_outputs;
use crate::owner::Ownership;
use crate::prune::Pruning;
use crate::reader::StoreReader;
use crate::{failure, hash};

/// How a store is opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Take over a folder that is a copy of another store. It gets a name of its own.
    pub adopt: bool,
    /// Use a folder on a network file system, where locks and syncs may not hold what they promise.
    pub allow_network_fs: bool,
}

/// What was written and synced so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Syncs {
    /// Batches that were committed; each is one sync of the write-ahead log.
    pub commits: u64,
    /// Syncs of the high-water mark.
    pub mark: u64,
}

/// A store that this process owns.
#[derive(Debug)]
pub struct SqliteJournal {
    layout: Layout,
    connection: Connection,
    meta: Meta,
    mark: Mark,
    ballast: Ballast,
    reader: Arc<StoreReader>,
    pruning: Pruning,
    /// The checksum of each row that is not retired.
    crcs: RowSums,
    notes: Vec<String>,
    commits: u64,
    /// Why nothing is written any more (C-4).
    failed: Option<JournalError>,
    is_loaded: bool,
    /// Last, so that the store is whole before another can have it.
    _owner: Ownership,
}

impl SqliteJournal {
    /// Opens the store in a folder, and makes it where there is none. The process owns it until the journal is dropped.
    ///
    /// # Errors
    ///
    /// [`JournalError::Owned`] where another process has it; [`JournalError::Foreign`] where another program or a newer
    /// one wrote it, or it is a copy, or lies on a network file system; [`JournalError::Damaged`] where records that were
    /// committed are gone or not what they were; [`JournalError::Full`] and [`JournalError::Io`].
    pub fn open(dir: impl AsRef<Path>, options: &Options) -> Result<Self, JournalError> {
        let layout = Layout::of(dir.as_ref());
        layout.make().map_err(|error| failure::of_file(&layout, "the folder cannot be made", &error))?;
        if !options.allow_network_fs {
            refuse_network(&layout)?;
        }
        database::refuse_unowned(&layout)?;
        let owner = Ownership::take(&layout)?;
        let reached = Mark::look(&layout);
        let connection = database::open(&layout, reached.as_ref())?;
        let mut meta = Meta::read(&connection, &layout)?;
        let place = database::place(&layout)?;
        let is_copy = meta.place != place;
        if is_copy && !options.adopt {
            return Err(copied(&layout, &meta));
        }
        let notes = against_mark(&connection, &layout, &meta, reached.as_ref())?;
        let tail = database::tail(&connection, &layout, &meta)?;
        database::check_log(&connection, &layout, &meta, tail, |record| refuse_unknown(&layout, record))?;
        if is_copy {
            meta.store = uuid::Uuid::new_v4().simple().to_string();
            meta.place = place;
            meta.write(&connection).map_err(|error| failure::of(&layout, &error))?;
        }
        let mark = Mark::open(&layout)?;
        let reader = Arc::new(StoreReader::open(&layout.dir)?);
        let ballast = Ballast::take(&layout);
        Ok(Self {
            connection,
            meta,
            mark,
            ballast,
            reader,
            pruning: Pruning::default(),
            crcs: RowSums::default(),
            notes,
            commits: 0,
            failed: None,
            is_loaded: false,
            layout,
            _owner: owner,
        })
    }

    /// The store's own name: 32 hex digits by chance, which no other store has, nor a copy that was adopted.
    pub fn store(&self) -> &str {
        &self.meta.store
    }

    /// What was committed and synced since it was opened.
    pub const fn syncs(&self) -> Syncs {
        Syncs { commits: self.commits, mark: self.mark.syncs }
    }

    fn write(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let mut meta = self.meta.clone();
        let (layout, crcs) = (&self.layout, &self.crcs);
        let sql = |error| failure::of(layout, &error);
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
        // What is on disk decides, not what is in memory: another owner may have written (ST-8).
        let stored = Meta::read(&transaction, layout)?;
        if stored != meta {
            return Err(JournalError::Fenced(format!(
                "the log ends at {} of epoch {} and not at {} of epoch {}",
                stored.head.0, stored.epoch.0, meta.head.0, meta.epoch.0
            )));
        }
        write_records(&transaction, batch, &mut meta).map_err(sql)?;
        let changed = write_rows(&transaction, batch, &mut meta, crcs).map_err(sql)?;
        write_outputs(&transaction, batch, &mut meta).map_err(sql)?;
        self.pruning.step(&transaction, &mut meta, !batch.outputs.is_empty()).map_err(sql)?;
        meta.commits += 1;
        meta.write(&transaction).map_err(sql)?;
        transaction.commit().map_err(sql)?;
        self.commits += 1;
        for (place, crc) in changed {
            match crc {
                Some(crc) => self.crcs.insert(place, crc),
                None => self.crcs.remove(&place),
            };
        }
        self.meta = meta;
        let Some(log) = self.meta.log.clone() else { return Ok(()) };
        let Meta { head: seq, crc, commits, .. } = self.meta;
        let reached = Reached { log, seq, crc, commits };
        match self.mark.write(&self.layout, &reached) {
            // The batch is there; a mark that lags behind sees less, and is written with the next.
            Err(JournalError::Full(error)) => {
                tracing::warn!(%error, "the high-water mark lags behind");
                Ok(())
            }
            written => written,
        }
    }
}

fn copied(layout: &Layout, meta: &Meta) -> JournalError {
    JournalError::Foreign {
        store: layout.name(),
        found: format!("it is a copy of store {}, or was moved from another disk", meta.store),
        known: format!(
            "stores where they were made; `fanin store adopt {}` takes a copy over under a name of its own",
            layout.name()
        ),
    }
}

/// What was committed once is still there: the mark says how far that was.
fn against_mark(
    connection: &Connection,
    layout: &Layout,
    meta: &Meta,
    reached: Option<&Reached>,
) -> Result<Vec<String>, JournalError> {
    let Some(reached) = reached else {
        let is_new = meta.head == Seq(0);
        let note = "the high-water mark could not be read and was begun anew".to_owned();
        return Ok(if is_new { Vec::new() } else { vec![note] });
    };
    lost(connection, layout, meta, reached)?
        .map_or(Ok(Vec::new()), |lost| Err(failure::damaged(layout, lost)))
}

/// What the mark has seen and the database has not, in words.
pub(crate) fn lost(
    connection: &Connection,
    layout: &Layout,
    meta: &Meta,
    reached: &Reached,
) -> Result<Option<String>, JournalError> {
    let Reached { log, seq, crc, commits } = reached;
    if meta.log.as_ref() != Some(log) {
        return Ok(Some(format!("it has another log than the one with records 1 to {} of {log}", seq.0)));
    }
    if *seq > meta.head {
        let first = meta.head.0 + 1;
        return Ok(Some(format!("records {first} to {} were committed and are gone", seq.0)));
    }
    if *commits > meta.commits {
        let batches = commits - meta.commits;
        return Ok(Some(format!("the last changes of rows and outputs are gone ({batches} batches)")));
    }
    // An older record is gone with age, or is the one before the oldest.
    let there = if *seq < meta.oldest { None } else { database::crc(connection, layout, *seq)? };
    Ok(match there {
        Some(there) if there != *crc => Some(format!("record {} is not the one that was committed", seq.0)),
        Some(_) | None => None,
    })
}

/// A record that says something which this program does not know and may not pass over (ST-6).
fn refuse_unknown(layout: &Layout, record: &fanin_protocol::Envelope) -> Result<(), JournalError> {
    if record.v > FORMAT_VERSION {
        return Err(JournalError::Foreign {
            store: layout.name(),
            found: format!("record {} has format {}", record.seq.0, record.v),
            known: format!("records of format {FORMAT_VERSION}"),
        });
    }
    match record.record() {
        Ok(Some(_)) => Ok(()),
        Ok(None) if record.ignorable => Ok(()),
        Ok(None) => Err(JournalError::Foreign {
            store: layout.name(),
            found: format!("record {} is a `{}`, which a newer program wrote", record.seq.0, record.kind),
            known: "the kinds of records of this version".into(),
        }),
        Err(error) => Err(failure::damaged(layout, format!("record {}: {error}", record.seq.0))),
    }
}

/// Refuses a folder whose file system is known to be another machine's.
fn refuse_network(layout: &Layout) -> Result<(), JournalError> {
    const NETWORK: [&str; 9] =
        ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "fuse.glusterfs"];
    // Where there is no such table nothing can be said.
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return Ok(()) };
    let dir = layout.dir.canonicalize().unwrap_or_else(|_| layout.dir.clone());
    let kind = mounts
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let at = left.split(' ').nth(4)?.replace("\\040", " ");
            dir.starts_with(&at).then_some((at.len(), right.split(' ').next()?))
        })
        .max_by_key(|(len, _)| *len)
        .map(|(_, kind)| kind);
    match kind {
        Some(kind) if NETWORK.contains(&kind) => Err(JournalError::Foreign {
            store: layout.name(),
            found: format!("it lies on a network file system ({kind})"),
            known:
                "local file systems: set FANIN_STATE_DIR to a folder on one, or `Options::allow_network_fs`"
                    .into(),
        }),
        Some(_) | None => Ok(()),
    }
}

fn write_records(connection: &Connection, batch: &Batch, meta: &mut Meta) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT INTO log VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    let mut ids_room = Encoder::default();
    for record in &batch.records {
        if meta.log.is_none() {
            meta.log = match record.record() {
                Ok(Some(Record::StoreOpened(opened))) => Some(opened.log),
                _ => None,
            };
        }
        let ids = ids_room
            .encode_here(&record.ids)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let crc = hash::record(meta.crc, record, ids);
        let (seq, ts_ms) = (signed(record.seq.0), signed(record.ts_ms));
        let (v, kind, ignorable, body) = (record.v, &record.kind, record.ignorable, &*record.body);
        insert.execute(params![seq, ts_ms, v, kind, ignorable, ids, body, crc])?;
        (meta.head, meta.ts_ms, meta.crc) = (record.seq, record.ts_ms, crc);
    }
    meta.epoch = batch.epoch;
    Ok(())
}

type Changed = Vec<(i64, Option<u32>)>;

fn write_rows(
    connection: &Connection,
    batch: &Batch,
    meta: &mut Meta,
    crcs: &RowSums,
) -> rusqlite::Result<Changed> {
    let mut put = connection.prepare_cached("INSERT OR REPLACE INTO live VALUES(?1, ?2, ?3, ?4)")?;
    let mut drop_row = connection.prepare_cached("DELETE FROM live WHERE place = ?1")?;
    let mut retire = connection.prepare_cached("INSERT INTO retired VALUES(?1, ?2, ?3, ?4, ?5)")?;
    let mut retire_again =
        connection.prepare_cached("INSERT OR REPLACE INTO retired VALUES(?1, ?2, ?3, ?4, ?5)")?;
    let mut was = connection.prepare_cached("SELECT crc FROM retired WHERE place = ?1")?;
    let mut changed = Vec::with_capacity(batch.rows.len());
    for change in &batch.rows {
        let (Change::Put(row) | Change::Retire(row)) = change;
        let place = place_of(row.kind, row.key);
        if key_at(place) != row.key {
            return Err(rusqlite::Error::IntegralValueOutOfRange(0, signed(row.key)));
        }
        let was_live = crcs.get(&place);
        if let Some(before) = was_live {
            meta.live.remove(*before);
        }
        let crc = hash::row(row);
        let Row { id, body, .. } = row;
        match change {
            Change::Put(_) => {
                put.execute(params![place, id, &**body, crc])?;
                meta.live.add(crc);
                changed.push((place, Some(crc)));
            }
            Change::Retire(_) => {
                // What is open was not retired before: a place is never given twice.
                let insert = if was_live.is_some() {
                    drop_row.execute([place])?;
                    &mut retire
                } else {
                    let before = was.query_row([place], |row| row.get(0));
                    if let Some(before) = before.optional()? {
                        meta.retired.remove(before);
                    }
                    &mut retire_again
                };
                meta.retired.add(crc);
                insert.execute(params![place, id, &**body, crc, signed(meta.ts_ms)])?;
                changed.push((place, None));
            }
        }
    }
    Ok(changed)
}

impl Journal for SqliteJournal {
    fn level(&self) -> Level {
        Level::Durable
    }

    fn load(&mut self) -> Result<Opened, JournalError> {
        let (rows, crcs) = database::live(&self.connection, &self.layout, &self.meta)?;
        self.crcs = crcs;
        self.is_loaded = true;
        let Meta { log, head, ts_ms, .. } = self.meta.clone();
        Ok(Opened { log, head, ts_ms, rows, notes: self.notes.clone() })
    }

    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if !self.is_loaded {
            // The sum of the rows is kept by what they were.
            self.load()?;
        }
        let follows = batch.records.iter().zip(batch.after.0 + 1..).all(|(record, seq)| record.seq.0 == seq);
        let is_next = batch.after == self.meta.head && batch.epoch >= self.meta.epoch;
        let written = if is_next && follows {
            self.write(batch)
        } else {
            Err(JournalError::Fenced(format!(
                "the log ends at {} of epoch {}, and what should follow {} is of epoch {}",
                self.meta.head.0, self.meta.epoch.0, batch.after.0, batch.epoch.0
            )))
        };
        match &written {
            Ok(()) if self.commits.is_multiple_of(64) => self.ballast.restore(&self.layout),
            Ok(()) => {}
            Err(JournalError::Full(_)) => {
                // The room is for the next try.
                self.ballast.give(&self.layout);
            }
            Err(error) => self.failed = Some(error.clone()),
        }
        written
    }

    fn is_low(&mut self) -> bool {
        ballast::is_low(&self.layout)
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::clone(&self.reader) as Arc<dyn JournalReader>
    }

    fn close(mut self: Box<Self>) -> Result<(), JournalError> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.meta.checked = self.meta.head;
        self.meta.write(&self.connection).map_err(|error| failure::of(&self.layout, &error))?;
        self.mark.sync(&self.layout)?;
        // The next owner takes it again: many stores that are over would keep much space for nobody.
        self.ballast.give(&self.layout);
        let checkpoint =
            self.connection.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(()));
        checkpoint.map_err(|error| failure::of(&self.layout, &error))
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests;
