//! What is done to a damaged store, when a person has said so: nothing that is sound is lost, the store as it was is kept,
//! and what is lost is named.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fanin_protocol::{Lifetime, LogId, RowKind, Seq};
use fanin_supervisor::journal::JournalError;
use rusqlite::Connection;

use crate::database::{self, signed, unreadable, unsigned};
use crate::hash::Sum;
use crate::journal::{self, now_ms};
use crate::layout::{Layout, open_private, place_of, places_from};
use crate::mark::{Mark, Reached};
use crate::meta::Meta;
use crate::outputs;
use crate::owner::Ownership;
use crate::{check, failure, hash, mend, salvage};

/// What a repair came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// What is lost, in words; empty where nothing is, and then nothing was changed.
    pub lost: Vec<String>,
    /// Where the store is as it was; `None` where nothing was changed.
    pub kept: Option<PathBuf>,
    /// The log's name: another one where records or the last changes are lost.
    pub log: Option<LogId>,
    /// The newest record that is left.
    pub head: Seq,
    /// Where the log goes on: no number of a lost record comes again.
    pub next: Seq,
}

/// Goes on with what is sound of the store in a folder. The store as it was is kept beside it.
///
/// Records that are not what they were are lost one by one, and so are rows and outputs; those that are sound stay. Where
/// a record is lost the log goes on as `log`, and readers are told of a gap.
///
/// # Errors
///
/// [`JournalError::Owned`] where a process has it; [`JournalError::Damaged`] or [`JournalError::Foreign`] where
/// nothing can be read at all; [`JournalError::Io`] and [`JournalError::Full`]. No copy stays then, unless the loss
/// was committed already and only the high-water mark could not be written.
pub fn repair_accept_loss(dir: impl AsRef<Path>, log: &LogId) -> Result<Repaired, JournalError> {
    let layout = Layout::of(dir.as_ref());
    database::refuse_unowned(&layout)?;
    let owner = Ownership::take(&layout)?;
    // First: what a change that is taken back leaves in SQLite's own log stands where something sound may have stood.
    let kept = Copied::new(&layout, "damaged")?;
    let reached = Mark::look(&layout);
    let Some(Mended { meta, lost, head }) = in_place(&layout, reached.as_ref(), log).or_else(|damage| {
        let is_damage = matches!(damage, JournalError::Damaged { .. });
        if is_damage { anew(&layout, reached.as_ref(), log, damage).map(Some) } else { Err(damage) }
    })?
    else {
        kept.remove()?;
        let meta = Meta::read(&database::open(&layout, reached.as_ref())?, &layout)?;
        let (head, next) = (meta.head, meta.head.next());
        return Ok(Repaired { lost: Vec::new(), kept: None, log: meta.log, head, next });
    };
    let kept = kept.keep();
    let mut mark = Mark::open(&layout)?;
    if let Some(log) = meta.log.clone() {
        // Both halves, so that none shows the old log.
        let reached = Reached { log, seq: meta.head, crc: meta.crc, commits: meta.commits };
        mark.write(&layout, &reached)?;
        mark.write(&layout, &reached)?;
    }
    mark.sync(&layout)?;
    drop(owner);
    Ok(Repaired { lost, kept: Some(kept), log: meta.log, head, next: meta.head.next() })
}

/// Puts the store in order where it is; `None` where it is sound, and then nothing is changed.
fn in_place(layout: &Layout, reached: Option<&Reached>, log: &LogId) -> Result<Option<Mended>, JournalError> {
    let connection = database::open(layout, reached)?;
    let sql = |error| failure::of(layout, &error);
    let transaction = connection.unchecked_transaction().map_err(sql)?;
    let mut mended = mended(&transaction, layout, reached, log)?;
    if mended.lost.is_empty() {
        return Ok(None);
    }
    mended.seal(&transaction, layout, reached)?;
    // First: without it a check would take what was given up for damage.
    tell(layout, &mended.lost).map_err(|error| failure::of_file(layout, "repaired", &error))?;
    transaction.commit().map_err(sql)?;
    Ok(Some(mended))
}

/// Makes a new database of what can be read of one that is `damage`d too much to be changed, and puts it in its place.
fn anew(
    layout: &Layout,
    reached: Option<&Reached>,
    log: &LogId,
    damage: JournalError,
) -> Result<Mended, JournalError> {
    // To be read: what is kept stays as it was.
    let copy = Copied::new(layout, "mended")?;
    let (connection, fresh, mut mended) = salvaged(&copy, reached, log, damage)?;
    let sql = |error| failure::of(&fresh, &error);
    // A copy stays one.
    if mended.meta.place == database::place(layout)? {
        mended.meta.place = database::place(&fresh)?;
    }
    mended.seal(&connection, &fresh, reached)?;
    connection.execute_batch("COMMIT").map_err(sql)?;
    connection.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(())).map_err(sql)?;
    drop(connection);
    let file = |error: io::Error| failure::of_file(layout, "store.db", &error);
    File::open(fresh.database()).and_then(|database| database.sync_all()).map_err(file)?;
    tell(layout, &mended.lost).map_err(|error| failure::of_file(layout, "repaired", &error))?;
    // The old one's go first: they would be taken for those of the new one.
    for name in ["store.db-wal", "store.db-shm"] {
        match fs::remove_file(layout.dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file(error)),
            Ok(()) | Err(_) => {}
        }
    }
    fs::rename(fresh.database(), layout.database()).and_then(|()| layout.sync()).map_err(file)?;
    copy.remove()?;
    Ok(mended)
}

/// A new database of what can be read of a copy, in order, in a transaction that nobody has committed yet.
fn salvaged(
    copy: &Copied<'_>,
    reached: Option<&Reached>,
    log: &LogId,
    damage: JournalError,
) -> Result<(Connection, Layout, Mended), JournalError> {
    let fresh = Layout::of(&copy.dir.join("fresh"));
    let made = || {
        salvage::into_new(&Layout::of(&copy.dir), &fresh)?;
        let connection = database::open(&fresh, None)?;
        connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| failure::of(&fresh, &error))?;
        let mut mended = mended(&connection, &fresh, reached, log)?;
        if mended.lost.is_empty() {
            mended.lost.push("pages of its database that held nothing".to_owned());
        }
        Ok((connection, mended))
    };
    match made() {
        Ok((connection, mended)) => Ok((connection, fresh, mended)),
        // What was found first says where to look.
        Err(JournalError::Damaged { .. }) => Err(damage),
        Err(other) => Err(other),
    }
}

/// Tries what [`repair_accept_loss`] would do, on a copy that goes again, and says what would be lost.
///
/// # Errors
///
/// As [`repair_accept_loss`]; it would say the same.
pub fn try_repair(dir: impl AsRef<Path>) -> Result<Vec<String>, JournalError> {
    let layout = Layout::of(dir.as_ref());
    database::refuse_unowned(&layout)?;
    let _owner = Ownership::take(&layout)?;
    let copy = Copied::new(&layout, "tried")?;
    let tried = Layout::of(&copy.dir);
    let reached = Mark::look(&tried);
    let log = LogId::from_uuid(uuid::Uuid::new_v4().into_bytes());
    let lost = match in_order(&tried, reached.as_ref(), &log) {
        Err(damage @ JournalError::Damaged { .. }) => salvaged(&copy, reached.as_ref(), &log, damage)?.2.lost,
        lost => lost?,
    };
    copy.remove()?;
    Ok(lost)
}

/// What would be lost of a store if it was put in order where it is.
fn in_order(layout: &Layout, reached: Option<&Reached>, log: &LogId) -> Result<Vec<String>, JournalError> {
    let connection = database::open(layout, reached)?;
    let transaction = connection.unchecked_transaction().map_err(|error| failure::of(layout, &error))?;
    Ok(mended(&transaction, layout, reached, log)?.lost)
}

/// What is left of a store, in a transaction that nobody has committed yet.
struct Mended {
    meta: Meta,
    lost: Vec<String>,
    head: Seq,
}

impl Mended {
    /// Writes how far the store is now: all of it was looked at, and no older mark fits it.
    fn seal(
        &mut self,
        connection: &Connection,
        layout: &Layout,
        reached: Option<&Reached>,
    ) -> Result<(), JournalError> {
        let meta = &mut self.meta;
        meta.checked = meta.head;
        meta.commits = reached.map_or(0, |reached| reached.commits).max(meta.commits) + 1;
        meta.write(connection).map_err(|error| failure::of(layout, &error))
    }
}

fn mended(
    transaction: &Connection,
    layout: &Layout,
    reached: Option<&Reached>,
    log: &LogId,
) -> Result<Mended, JournalError> {
    let mut meta = Meta::read(transaction, layout)?;
    let unseen = match reached {
        Some(reached) => journal::lost(transaction, layout, &meta, reached)?,
        None => None,
    };
    let batches = reached.map_or(0, |reached| reached.commits).saturating_sub(meta.commits);
    let mend::Lost { words: mut lost, head } = mend::records(transaction, layout, &mut meta, reached)?;
    if batches > 0 {
        lost.push(format!("the last changes of rows and outputs ({batches} batches)"));
    } else if lost.is_empty() {
        // Every record fits, and they are those of another past.
        lost.extend(unseen);
    }
    if !lost.is_empty() {
        meta.log = Some(log.clone());
    }
    lost.extend(drop_damaged_rows(transaction, layout, &mut meta)?);
    lost.extend(drop_damaged_outputs(transaction, layout, &mut meta)?);
    // Pages of which nothing is missed may be damaged too, and what is deleted on one of these need not be gone.
    check::whole(transaction, layout, &meta, &mut |_| {})?;
    Ok(Mended { meta, lost, head })
}

/// Writes down what was given up, behind what was before.
fn tell(layout: &Layout, lost: &[String]) -> io::Result<()> {
    let mut file = open_private(&layout.repaired())?;
    file.seek(SeekFrom::End(0))?;
    lost.iter().try_for_each(|lost| writeln!(file, "{lost}"))?;
    file.sync_all()?;
    layout.sync()
}

/// Takes out rows that are not what they were, and counts what is left.
fn drop_damaged_rows(
    connection: &Connection,
    layout: &Layout,
    meta: &mut Meta,
) -> Result<Vec<String>, JournalError> {
    let sql = |error| unreadable(layout, &error);
    let mut lost = Vec::new();
    for (table, sum) in [("live", &mut meta.live), ("retired", &mut meta.retired)] {
        let (mut left, mut named) = (Sum::default(), 0);
        for kind in RowKind::ALL {
            let mut damaged = Vec::new();
            let query = format!(
                "SELECT place, id, body, crc FROM {table} WHERE place BETWEEN ?1 AND ?2 ORDER BY place"
            );
            let mut statement = connection.prepare(&query).map_err(sql)?;
            let mut rows = statement.query(places_from(kind, 0)).map_err(sql)?;
            while let Some(row) = rows.next().map_err(sql)? {
                let (row, crc) = database::thing(kind, row).map_err(sql)?;
                if hash::row(&row) == crc {
                    left.add(crc);
                } else {
                    damaged.push(row.key);
                }
            }
            for key in damaged {
                let delete = format!("DELETE FROM {table} WHERE place = ?1");
                connection.execute(&delete, [place_of(kind, key)]).map_err(sql)?;
                lost.push(format!("the row of {} {key}", kind.as_str()));
                named += 1;
            }
        }
        lost.extend(vanished(*sum, left, named, "rows"));
        *sum = left;
    }
    Ok(lost)
}

/// Takes out outputs that are not what they were, and counts what is left.
fn drop_damaged_outputs(
    connection: &Connection,
    layout: &Layout,
    meta: &mut Meta,
) -> Result<Vec<String>, JournalError> {
    let sql = |error| unreadable(layout, &error);
    let (mut lost, mut left) = (Vec::new(), Sum::default());
    let mut statement = connection.prepare("SELECT job, crc FROM put_out ORDER BY job").map_err(sql)?;
    let jobs = statement.query_map([], |row| Ok((unsigned(row.get(0)?), row.get(1)?))).map_err(sql)?;
    let jobs: Vec<(u64, u32)> = jobs.collect::<Result<_, _>>().map_err(sql)?;
    for (job, crc) in jobs {
        if outputs::read(connection, layout, Lifetime(job), 0).is_ok() {
            left.add(crc);
            continue;
        }
        for table in ["output", "put_out"] {
            let delete = format!("DELETE FROM {table} WHERE job = ?1");
            connection.execute(&delete, [signed(job)]).map_err(sql)?;
        }
        lost.push(format!("the output of job {job}"));
    }
    let alone = "DELETE FROM output WHERE job NOT IN (SELECT job FROM put_out)";
    connection.execute(alone, []).map_err(sql)?;
    let named = lost.len() as u64;
    lost.extend(vanished(meta.outputs, left, named, "outputs"));
    meta.outputs = left;
    Ok(lost)
}

/// What is missing beside what was named, in words.
fn vanished(were: Sum, are: Sum, named: u64, what: &str) -> Option<String> {
    let missing = were.count.saturating_sub(are.count.saturating_add(named));
    // As many are there, but not those: an old page stands in for a newer one.
    let is_other = missing == 0 && named == 0 && were != are;
    if is_other {
        return Some(format!("the newest of some {what}"));
    }
    (missing > 0).then(|| format!("{missing} {what} that are gone"))
}

/// The store as it was, file by file, in a folder of its own. It goes when this is dropped, unless kept.
struct Copied<'l> {
    layout: &'l Layout,
    dir: PathBuf,
    stays: bool,
}

impl<'l> Copied<'l> {
    fn new(layout: &'l Layout, name: &str) -> Result<Self, JournalError> {
        let io = |error: io::Error| failure::of_file(layout, "it cannot be kept as it was", &error);
        let dir = layout.dir.join(format!("{name}-{}", now_ms()));
        DirBuilder::new().mode(0o700).create(&dir).map_err(io)?;
        let copied = Self { layout, dir, stays: false };
        for entry in fs::read_dir(&layout.dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            let is_wanted =
                entry.file_name().to_string_lossy().starts_with("store.db") || entry.path() == layout.mark();
            if is_wanted {
                let to = copied.dir.join(entry.file_name());
                fs::copy(entry.path(), &to).map_err(io)?;
                // Whatever somebody made of the file's own mode.
                fs::set_permissions(&to, Permissions::from_mode(0o600)).map_err(io)?;
            }
        }
        Ok(copied)
    }

    /// Where it stays.
    fn keep(mut self) -> PathBuf {
        self.stays = true;
        self.dir.clone()
    }

    fn remove(mut self) -> Result<(), JournalError> {
        self.stays = true;
        fs::remove_dir_all(&self.dir).map_err(|error| failure::of_file(self.layout, "the copy stays", &error))
    }
}

impl Drop for Copied<'_> {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::warn!(%error, copy = %self.dir.display(), "the copy of the store stays");
        }
    }
}
