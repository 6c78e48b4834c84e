//! What lies in a store's folder, and how its database is laid out.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fanin_protocol::text;

/// Marks the database as one of ours: "fani" in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x6661_6e69;
/// The version of the layout. A newer major cannot be read; a newer minor adds what this program may ignore.
pub(crate) const MAJOR: i32 = 1;
pub(crate) const MINOR: i32 = 0;
/// As it stands in `user_version`.
pub(crate) const VERSION: i32 = MAJOR * 1000 + MINOR;

/// The tables. A row of `live` is a thing as it is now; one of `retired` is over and is found by its id. Each row has a
/// checksum of its own, since SQLite has none for its pages, and `meta` a sum of them, so that a row that vanished is
/// missed. A row of `put_out` does the same for the pieces of one job.
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
    kind TEXT NOT NULL, key INTEGER NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY(kind, key)) STRICT, WITHOUT ROWID;
CREATE TABLE retired(
    kind TEXT NOT NULL, key INTEGER NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, PRIMARY KEY(kind, key)) STRICT, WITHOUT ROWID;
CREATE INDEX retired_id ON retired(kind, id);
CREATE INDEX retired_at ON retired(at_ms);
CREATE TABLE output(
    job INTEGER NOT NULL, at INTEGER NOT NULL, bytes BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY(job, at)) STRICT;
CREATE TABLE put_out(
    job INTEGER PRIMARY KEY, total INTEGER NOT NULL, pieces INTEGER NOT NULL, digest INTEGER NOT NULL,
    crc INTEGER NOT NULL, at_ms INTEGER NOT NULL) STRICT;
CREATE INDEX put_out_at ON put_out(at_ms);
";

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
