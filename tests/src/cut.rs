//! A journal that is cut at a commit, as by a crash: before it, or after it and before anybody hears of it. What it has
//! committed is kept, so that another store can be made of the same batches.

use std::sync::Arc;

use fanin_protocol::Envelope;
use fanin_protocol::record::Level;
use fanin_supervisor::journal::{Batch, Journal, JournalError, JournalReader, Opened};
use fanin_supervisor::testing::journal::MemoryStore;
use parking_lot::Mutex;
use tokio::sync::watch;

/// On which side of a commit the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Nothing of it is in the store.
    Before,
    /// All of it is, and nobody was told.
    After,
}

/// Which commit is the last, counted from 1; `None` for none.
pub type Cut = Option<(usize, Side)>;

/// What a store has committed, in order.
#[derive(Debug, Clone)]
pub struct Committed {
    kept: Arc<Mutex<Kept>>,
    /// True once the journal is gone, and nothing can follow.
    gone: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct Kept {
    batches: Vec<Batch>,
    was_cut: bool,
}

impl Committed {
    /// The batches so far.
    pub fn batches(&self) -> Vec<Batch> {
        self.kept.lock().batches.clone()
    }

    /// The records so far.
    pub fn records(&self) -> Vec<Envelope> {
        self.kept.lock().batches.iter().flat_map(|batch| &batch.records).cloned().collect()
    }

    /// True once the cut was reached.
    pub fn was_cut(&self) -> bool {
        self.kept.lock().was_cut
    }

    /// Waits until nobody holds the journal any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn gone(&self) {
        // The sender tells it as it goes, so an error says the same.
        drop(self.gone.clone().wait_for(|gone| *gone).await);
    }
}

/// Tells that the journal is gone.
#[derive(Debug)]
struct Gone(watch::Sender<bool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// A journal over another one, which it cuts.
#[derive(Debug)]
pub struct CutJournal<J> {
    inner: J,
    cut: Cut,
    asked: usize,
    kept: Arc<Mutex<Kept>>,
    /// Last, so that the store is let go of before that is told.
    gone: Gone,
}

impl<J: Journal> CutJournal<J> {
    /// Cuts this one there. Of what it holds already the batches are given.
    pub fn new(inner: J, before: Vec<Batch>, cut: Cut) -> (Self, Committed) {
        let kept = Arc::new(Mutex::new(Kept { batches: before, was_cut: false }));
        let (sender, gone) = watch::channel(false);
        let committed = Committed { kept: Arc::clone(&kept), gone };
        (Self { inner, cut, asked: 0, kept, gone: Gone(sender) }, committed)
    }
}

impl<J: Journal> Journal for CutJournal<J> {
    fn level(&self) -> Level {
        self.inner.level()
    }

    fn load(&mut self) -> Result<Opened, JournalError> {
        self.inner.load()
    }

    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.asked += 1;
        let side = self.cut.filter(|(at, _)| *at == self.asked).map(|(_, side)| side);
        let mut kept = self.kept.lock();
        assert!(!kept.was_cut, "a store that is gone is asked for another commit");
        kept.was_cut = side.is_some();
        let dead = || JournalError::Io("the process is dead".into());
        if side == Some(Side::Before) {
            return Err(dead());
        }
        self.inner.append(batch)?;
        kept.batches.push(batch.clone());
        if side.is_some() { Err(dead()) } else { Ok(()) }
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        self.inner.reader()
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        let Self { inner, gone, .. } = *self;
        let closed = Box::new(inner).close();
        drop(gone);
        closed
    }
}

/// Writes batches to a store that is empty.
///
/// # Errors
///
/// As [`Journal::append`].
pub fn replay(journal: &mut impl Journal, batches: &[Batch]) -> Result<(), JournalError> {
    journal.load()?;
    batches.iter().try_for_each(|batch| journal.append(batch))
}

/// A store in memory that has committed these.
///
/// # Panics
///
/// Where they do not follow each other.
pub fn memory_of(batches: &[Batch]) -> MemoryStore {
    let store = MemoryStore::new();
    let written = store.open().and_then(|mut journal| replay(&mut journal, batches));
    written.unwrap_or_else(|error| panic!("{error}"));
    store
}
