//! A store in a folder of its own.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use fanin_sanitize::testing::{self, Sample};
use fanin_sanitize::{
    Counts, Only, OpenCode, Options, Repaired, SanitizeError, Undone, repair, report, undo,
};
use tempfile::TempDir;

/// When repairs are made, in these tests: after all that is in the samples.
pub(crate) const NOW: u64 = 1_800_000_000_000;

pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new(sample: Sample) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        testing::opencode(&place.store(), sample).unwrap();
        place
    }

    pub(crate) fn of(calls: usize, running: usize) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        testing::opencode_of(&place.store(), calls, running).unwrap();
        place
    }

    /// The same store, elsewhere. Nobody has it open.
    pub(crate) fn copied(&self) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::copy(self.store(), place.store()).unwrap();
        place
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("opencode.db")
    }

    /// True where a file of the folder has this in its name.
    pub(crate) fn has(&self, part: &str) -> bool {
        fs::read_dir(self.folder())
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().contains(part))
    }

    pub(crate) fn change(&self, words: &str) {
        testing::change(&self.store(), words).unwrap();
    }

    pub(crate) fn rows(&self) -> BTreeSet<String> {
        testing::rows(&self.store()).unwrap()
    }

    pub(crate) fn counts(&self) -> Counts {
        report(&OpenCode, &self.store(), &Only::All).unwrap().counts()
    }

    pub(crate) fn repair(&self) -> Result<Repaired, SanitizeError> {
        self.repair_only(Only::All)
    }

    pub(crate) fn repair_only(&self, only: Only<'_>) -> Result<Repaired, SanitizeError> {
        repair(&OpenCode, &self.store(), &Options { only, force: false, now_ms: NOW })
    }

    pub(crate) fn undo(&self) -> Result<Undone, SanitizeError> {
        undo(&OpenCode, &self.store(), false)
    }

    /// Every file of the folder by its name, with a sum of its bytes. What processes share of the write-ahead log is
    /// left out: it is no part of the store, SQLite makes it from the log again.
    pub(crate) fn files(&self) -> Vec<(String, u64)> {
        let sum = |path: PathBuf| {
            let mut hash = DefaultHasher::new();
            fs::read(&path).unwrap().hash(&mut hash);
            (path.file_name().unwrap().to_string_lossy().into_owned(), hash.finish())
        };
        let files = fs::read_dir(self.folder()).unwrap().map(|entry| sum(entry.unwrap().path()));
        let mut files: Vec<_> = files.filter(|(name, _)| !name.ends_with("-shm")).collect();
        files.sort();
        files
    }
}

/// Counts of this many calls, messages and jobs.
pub(crate) fn counts(running: usize, pending: usize, messages: usize, jobs: usize) -> Counts {
    Counts { running, pending, pending_without_time: pending, messages, jobs }
}
