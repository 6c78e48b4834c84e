//! The same session over a store on disk that dies inside a commit: the write-ahead log is torn in the middle of it or
//! in its last byte, or has all of it while the high-water mark still stands before it (ST-4, ST-5).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fanin_sqlite::{Options, SqliteJournal, check};
use fanin_supervisor::journal::{Batch, Journal, JournalError, JournalReader, Opened};
use fanin_supervisor::protocol::record::Level;
use fanin_supervisor::stored::LogFold;
use fanin_tests::cut::Side;
use parking_lot::Mutex;

use crate::life::{calm, first_commands, later_commands, live, work};
use crate::told::{Told, is_at_the_end};
use crate::{records, runtime};

/// The files of a store at one moment.
#[derive(Debug, Clone, Default)]
struct Image {
    database: Vec<u8>,
    log: Vec<u8>,
    mark: Vec<u8>,
}

fn paths(dir: &Path) -> [PathBuf; 3] {
    ["store.db", "store.db-wal", "hwm"].map(|name| dir.join(name))
}

impl Image {
    fn of(dir: &Path) -> Self {
        // What is not there yet is empty.
        let [database, log, mark] = paths(dir).map(|path| fs::read(path).unwrap_or_default());
        Self { database, log, mark }
    }

    /// In a folder of its own: what is left of the dead process in this one must not be shared with it.
    fn write(&self, dir: &Path) {
        for (path, bytes) in paths(dir).iter().zip([&self.database, &self.log, &self.mark]) {
            fs::write(path, bytes).unwrap();
        }
    }
}

/// A journal that keeps its files as they are around one commit.
#[derive(Debug)]
struct Watched {
    inner: SqliteJournal,
    dir: PathBuf,
    at: usize,
    asked: usize,
    around: Arc<Mutex<[Image; 2]>>,
}

impl Journal for Watched {
    fn level(&self) -> Level {
        self.inner.level()
    }

    fn load(&mut self) -> Result<Opened, JournalError> {
        self.inner.load()
    }

    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.asked += 1;
        if self.asked != self.at {
            return self.inner.append(batch);
        }
        let before = Image::of(&self.dir);
        self.inner.append(batch)?;
        *self.around.lock() = [before, Image::of(&self.dir)];
        Ok(())
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        self.inner.reader()
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        Box::new(self.inner).close()
    }
}

/// What a death inside a commit can leave of it, and whether the commit is among that.
fn torn([before, after]: &[Image; 2]) -> Vec<(&'static str, Image, bool)> {
    let mut images = vec![("the mark is behind", Image { mark: before.mark.clone(), ..after.clone() }, true)];
    // Else the log begins anew with it, and what was before is in the database.
    if after.database == before.database && after.log.starts_with(&before.log) {
        let middle = before.log.len().midpoint(after.log.len());
        for (what, len) in [("cut in the middle", middle), ("cut in its last byte", after.log.len() - 1)] {
            images.push((what, Image { log: after.log[..len].to_vec(), ..before.clone() }, false));
        }
    }
    images
}

#[test]
fn a_death_inside_a_commit_leaves_all_of_it_or_nothing() {
    let (mut commits, mut images) = (0, 0);
    for at in 1.. {
        let runtime = runtime();
        let dir = tempfile::tempdir().unwrap();
        let around = Arc::default();
        let inner = SqliteJournal::open(dir.path(), &Options::default()).unwrap();
        let (path, kept) = (dir.path().to_owned(), Arc::clone(&around));
        let journal = Watched { inner, dir: path, at, asked: 0, around: kept };
        let told = (first_commands(), Told::default());
        let life = runtime.block_on(live(journal, &[], Some((at, Side::After)), told, work));
        if !life.was_cut {
            break;
        }
        commits = at;
        for (what, image, is_in) in torn(&around.lock()) {
            println!("commit {at}, {what}");
            let dir = tempfile::tempdir().unwrap();
            image.write(dir.path());
            let left = &life.batches[..life.batches.len() - usize::from(!is_in)];
            let copy = Options { adopt: true, ..Options::default() };
            let journal = SqliteJournal::open(dir.path(), &copy).unwrap();
            let told = (later_commands(), life.told.clone());
            let later = runtime.block_on(live(journal, left, None, told, calm));
            let log = records(&later.batches);
            later.told.holds(&log);
            is_at_the_end(&log);
            let (mut fold, mut stored) = (LogFold::default(), Vec::new());
            let report = check(dir.path(), |record| {
                fold.take(record);
                stored.push(record.clone());
            });
            assert_eq!(fold.compare(&report.unwrap().rows), Ok(true), "rows and records");
            assert_eq!(stored, log, "what is on disk");
            images += 1;
        }
    }
    println!("{commits} commits, {images} images");
    assert!(commits > 40 && images > 2 * commits, "{commits} commits, {images} images");
}
