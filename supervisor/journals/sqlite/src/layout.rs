//! What lies in a store's folder, and how its database is laid out.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fanin_protocol::{RowKind, text};

/// Marks the database as one of ours: "fani" in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x6661_6e69;
/// The version of the layout. A newer major cannot be read; a newer minor adds what this program may ignore.
pub(crate) const MAJOR: i32 = 2;
pub(crate) const MINOR: i32 = 0;
/// As it stands in `user_version`.
pub(crate) const VERSION: i32 = MAJOR * 1000 + MINOR;

/// The tables. A row of `live` is a thing as it is now; one of `retired` is over and is found by its id. Each row has a
/// checksum of its own, since SQLite has none for its pages, and `meta` a sum of them, so that a row that vanished is
/// missed. A row of `put_out` does the same for the pieces of one job.
///
/// A row's `place` is its kind and key in one number, see [`place_of`]; both are shown for people. Ids are random, so an
/// index of all of them would be written in another page for each row that retires: of each 4,096 places it has a part of
/// its own, which a look-up goes through from the newest on.
pub(crate) const SCHEMA: &str = "
CREATE TABLE meta(
    id INTEGER PRIMARY KEY CHECK(id = 1), store TEXT NOT NULL, place TEXT NOT NULL, log TEXT, head INTEGER NOT NULL,
    ts_ms INTEGER NOT NULL, crc INTEGER NOT NULL, epoch INTEGER NOT NULL, commits INTEGER NOT NULL,
    live INTEGER NOT NULL, live_digest INTEGER NOT NULL, retired INTEGER NOT NULL, retired_digest INTEGER NOT NULL,
    outputs INTEGER NOT NULL, outputs_digest INTEGER NOT NULL, oldest INTEGER NOT NULL,
    oldest_crc INTEGER NOT NULL, checked INTEGER NOT NULL, own INTEGER NOT NULL) STRICT;
CREATE TABLE log(
    seq INTEGER PRIMARY KEY, ts_ms INTEGER NOT NULL, v INTEGER NOT NULL, kind TEXT NOT NULL,
    ignorable INTEGER NOT NULL, ids BLOB NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL) STRICT;
CREATE TABLE live(
    place INTEGER PRIMARY KEY, id TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL,
    kind TEXT AS (CASE place >> 56 WHEN 0 THEN 'store' WHEN 1 THEN 'session' WHEN 2 THEN 'group' WHEN 3 THEN 'job'
        WHEN 4 THEN 'message' END),
    key INTEGER AS (place & 0xffffffffffffff)) STRICT;
CREATE TABLE retired(
    place INTEGER PRIMARY KEY, id TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    kind TEXT AS (CASE place >> 56 WHEN 0 THEN 'store' WHEN 1 THEN 'session' WHEN 2 THEN 'group' WHEN 3 THEN 'job'
        WHEN 4 THEN 'message' END),
    key INTEGER AS (place & 0xffffffffffffff)) STRICT;
CREATE INDEX retired_id ON retired(place >> 12, id);
CREATE INDEX retired_at ON retired(at_ms);
CREATE TABLE output(
    job INTEGER NOT NULL, at INTEGER NOT NULL, bytes BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY(job, at)) STRICT;
CREATE TABLE put_out(
    job INTEGER PRIMARY KEY, total INTEGER NOT NULL, pieces INTEGER NOT NULL, digest INTEGER NOT NULL,
    crc INTEGER NOT NULL, at_ms INTEGER NOT NULL) STRICT;
CREATE INDEX put_out_at ON put_out(at_ms);
";

/// Where the row of a thing lies: its kind in the highest byte, its key in the others, so that rows come by kind and then
/// by key. No key is so large: places are given in order from 0, and messages have the numbers of their records.
pub(crate) const fn place_of(kind: RowKind, key: u64) -> i64 {
    let key = if key < KEYS { key } else { KEYS - 1 };
    (number_of(kind) << 56 | key).cast_signed()
}

/// The key in a place.
pub(crate) const fn key_at(place: i64) -> u64 {
    place.cast_unsigned() % KEYS
}

/// All places of a kind, from a key on.
pub(crate) const fn places_from(kind: RowKind, key: u64) -> (i64, i64) {
    (place_of(kind, key), place_of(kind, KEYS - 1))
}

/// Keys of each kind; the last of them is no key.
const KEYS: u64 = 1 << 56;

/// As in the tables.
const fn number_of(kind: RowKind) -> u64 {
    match kind {
        RowKind::Store => 0,
        RowKind::Session => 1,
        RowKind::Group => 2,
        RowKind::Job => 3,
        RowKind::Message => 4,
    }
}

/// The files of a store.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) dir: PathBuf,
}

impl Layout {
    pub(crate) fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("store.db")
    }

    pub(crate) fn owner(&self) -> PathBuf {
        self.dir.join("owner.lock")
    }

    pub(crate) fn mark(&self) -> PathBuf {
        self.dir.join("hwm")
    }

    pub(crate) fn repaired(&self) -> PathBuf {
        self.dir.join("repaired")
    }

    pub(crate) fn ballast(&self) -> PathBuf {
        self.dir.join("ballast")
    }

    /// For messages.
    pub(crate) fn name(&self) -> String {
        text::path(&self.dir)
    }

    /// Makes the folder, for its owner's eyes alone.
    pub(crate) fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)
    }

    /// Brings to disk that the files are there, and the folder itself.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()?;
        match self.dir.canonicalize()?.parent() {
            Some(above) => File::open(above)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Opens a file for reading and writing, made for its owner's eyes alone where it is not there.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}
