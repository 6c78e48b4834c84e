//! The seam to a store: the log of records, the rows of what is known, and what jobs put out. A journal keeps bytes and
//! decides nothing: what a row means is the machine's business.
//!
//! `append` is a compare-and-set on the head of the log, so that of two owners at most one writes. What it has returned
//! from survives what the journal's [`Level`] says.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
pub use fanin_protocol::RowKind;
use fanin_protocol::record::Level;
use fanin_protocol::{Envelope, Lifetime, LogId, Seq};

/// Why a store cannot do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process owns the store.
    #[error("the store {store} is in use: {owner}")]
    Owned {
        /// Which store.
        store: String,
        /// Who has it, as far as it says.
        owner: String,
    },
    /// What is there was not written by this program, or by a newer one. Nothing was touched.
    #[error("the store {store} cannot be used: {found}; this program knows {known}")]
    Foreign {
        /// Which store.
        store: String,
        /// What is there.
        found: String,
        /// What this program knows.
        known: String,
    },
    /// Something that was committed is damaged or gone. Nothing was changed.
    #[error("the store {store} is damaged: {damage}")]
    Damaged {
        /// Which store.
        store: String,
        /// What is damaged, and which records are lost.
        damage: String,
    },
    /// No room. The batch was rolled back whole; the same one may be tried again.
    #[error("no space is left for the store: {0}")]
    Full(String),
    /// The log does not end where the writer thinks, or belongs to another epoch: another owner has written.
    #[error("the store was written by another owner: {0}")]
    Fenced(String),
    /// Reading or writing failed. Whether the last batch is there is not known.
    #[error("the store failed: {0}")]
    Io(String),
}

impl JournalError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Owned { .. } => "store_owned",
            Self::Foreign { .. } => "store_foreign",
            Self::Damaged { .. } => "store_damaged",
            Self::Full(_) => "store_full",
            Self::Fenced(_) => "store_fenced",
            Self::Io(_) => "store_io",
        }
    }
}

/// A thing as it is now, in bytes that only the machine reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it is.
    pub kind: RowKind,
    /// Its place; never given to another thing of its kind.
    pub key: u64,
    /// The id under which people ask for it; empty where it has none.
    pub id: String,
    /// MessagePack with field names.
    pub body: Bytes,
}

/// What happens to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is new, or not as it was.
    Put(Row),
    /// It is over and nobody needs it to go on, and this is what it was at the end: recovery does not read it, and it is
    /// still found by its id.
    Retire(Row),
}

/// A piece of what a job put out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputChange {
    /// Bytes behind those that are there: of a run that goes on.
    Append {
        /// Whose.
        job: Lifetime,
        /// Which byte of the output the first one is, counted from 0.
        at: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// The middle of an output that is longer than what is kept of it: pieces that lie wholly in it are let go.
    Drop {
        /// Whose.
        job: Lifetime,
        /// From which byte up to which.
        range: Range<u64>,
    },
    /// All that is kept of a run's output in place of what is there: its run is over, or a new one has begun.
    Replace {
        /// Whose.
        job: Lifetime,
        /// The pieces that are kept, each with the place of its first byte, in order and without overlap.
        pieces: Vec<(u64, Bytes)>,
        /// Bytes that were put out in all.
        total: u64,
    },
    /// Its job has left the memory. From now on it may go with age; before, it never does.
    Retire {
        /// Whose.
        job: Lifetime,
    },
}

impl OutputChange {
    /// Whose output it changes.
    pub const fn job(&self) -> Lifetime {
        match self {
            Self::Append { job, .. }
            | Self::Drop { job, .. }
            | Self::Replace { job, .. }
            | Self::Retire { job } => *job,
        }
    }
}

/// What is committed at once: all or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The head of the log before it: a store whose head is another one refuses the batch.
    pub after: Seq,
    /// The epoch of the writer: the sequence number of its `store.opened`, which may be in this batch.
    pub epoch: Seq,
    /// The records, contiguous from the one after `after`. There may be none.
    pub records: Vec<Envelope>,
    /// What became of rows, at most one change a row.
    pub rows: Vec<Change>,
    /// What was put out.
    pub outputs: Vec<OutputChange>,
}

impl Batch {
    /// True where there is nothing to commit.
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty() && self.rows.is_empty() && self.outputs.is_empty()
    }
}

/// What a store holds when it is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// The log's name; `None` where the store is new.
    pub log: Option<LogId>,
    /// Its last record; 0 where there is none.
    pub head: Seq,
    /// The time of that record, in milliseconds since the Unix epoch.
    pub ts_ms: u64,
    /// All rows that are not retired, by kind in the order of [`RowKind`], then by key.
    pub rows: Vec<Row>,
    /// What was found and set right at the opening, in words for people: a tail that was never acknowledged and was cut.
    pub notes: Vec<String>,
}

/// A store that this process owns. All calls come from one thread.
pub trait Journal: Send + fmt::Debug + 'static {
    /// What survives what.
    fn level(&self) -> Level;

    /// What the store holds. Called once, before the first [`Journal::append`].
    ///
    /// # Errors
    ///
    /// [`JournalError::Damaged`] and [`JournalError::Io`].
    fn load(&mut self) -> Result<Opened, JournalError>;

    /// Commits a batch. When it returns, all of it survives what the level says; where it fails, nothing of it is there,
    /// but after [`JournalError::Io`] that is not known.
    ///
    /// # Errors
    ///
    /// [`JournalError::Full`], after which the same batch may be tried again; [`JournalError::Fenced`] where `after` is
    /// not the head or the epoch is over; [`JournalError::Io`].
    fn append(&mut self, batch: &Batch) -> Result<(), JournalError>;

    /// True where so little space is left that nothing new should be taken on (ST-9).
    fn is_low(&mut self) -> bool {
        false
    }

    /// A way to read, from any thread, while batches are written.
    fn reader(&self) -> Arc<dyn JournalReader>;

    /// Ends the ownership in order: what has to be on disk is there afterwards, and another process may open the store.
    ///
    /// # Errors
    ///
    /// As [`Journal::append`].
    fn close(self: Box<Self>) -> Result<(), JournalError>;
}

/// Reads what was committed. It needs no ownership and holds up no writer.
pub trait JournalReader: Send + Sync + fmt::Debug {
    /// Records from a place on, `max` at the most.
    ///
    /// # Errors
    ///
    /// [`JournalError::Damaged`] where a record does not fit its checksum, [`JournalError::Io`].
    fn page(&self, from: Seq, max: usize) -> Result<RecordPage, JournalError>;

    /// The newest row of that id whose place is below `before`, retired or not: an id has one for each of its lives.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`].
    fn find_before(&self, kind: RowKind, id: &str, before: u64) -> Result<Option<Row>, JournalError>;

    /// The newest row of that id, retired or not.
    ///
    /// # Errors
    ///
    /// As [`JournalReader::find_before`].
    fn find(&self, kind: RowKind, id: &str) -> Result<Option<Row>, JournalError> {
        self.find_before(kind, id, u64::MAX)
    }

    /// A row by its place, retired or not.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`].
    fn row(&self, kind: RowKind, key: u64) -> Result<Option<Row>, JournalError>;

    /// Rows, retired ones too, by key from a place on, `max` at the most.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`].
    fn rows(&self, kind: RowKind, from: u64, max: usize) -> Result<Vec<Row>, JournalError>;

    /// What is kept of a job's output; `None` where it never put anything out or nothing of it is kept.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`].
    fn output(&self, job: Lifetime) -> Result<Option<StoredOutput>, JournalError> {
        self.output_from(job, 0)
    }

    /// As [`JournalReader::output`], for one who reads on: pieces that end at `from` or before are left out.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`].
    fn output_from(&self, job: Lifetime, from: u64) -> Result<Option<StoredOutput>, JournalError>;
}

/// Records of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPage {
    /// The log's name; `None` where nothing was ever written.
    pub log: Option<LogId>,
    /// The oldest record that is kept; 1 where none was cut.
    pub oldest: Seq,
    /// The newest record.
    pub head: Seq,
    /// Contiguous from the place that was asked for, or from the oldest that is kept where that is later.
    pub records: Vec<Envelope>,
}

/// What is kept of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredOutput {
    /// The pieces, each with the place of its first byte, in order and without overlap.
    pub pieces: Vec<(u64, Bytes)>,
    /// Bytes that were put out in all, as far as the store was told.
    pub total: u64,
}
