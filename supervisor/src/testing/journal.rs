//! What every store must keep, as one check that a store's tests call, and a store in memory that keeps it. It knows no
//! store in particular, and looks at one through [`Journal`] and [`JournalReader`] alone.
//!
//! ```
//! use fanin_supervisor::journal::Journal;
//! use fanin_supervisor::testing::journal::{MemoryStore, conforms};
//!
//! conforms(|| {
//!     let store = MemoryStore::new();
//!     move || Ok(Box::new(store.open()?) as Box<dyn Journal>)
//! });
//! ```

mod memory;
mod suite;

pub use memory::{MemoryJournal, MemoryStore};
pub use suite::conforms;

use bytes::Bytes;
use fanin_protocol::envelope::FORMAT_VERSION;
use fanin_protocol::record::{Level, SessionClosed, StoreOpened};
use fanin_protocol::{Envelope, Ids, Lifetime, LogId, Record, RowKind, Seq, SessionId};

use crate::journal::{Batch, Change, Journal, JournalError, JournalReader, Opened, Row, StoredOutput};

/// The name of the log in these batches.
pub fn log_id() -> LogId {
    LogId::from_uuid([7; 16])
}

/// A record that says little; the first one, with number 1, opens the log.
///
/// # Panics
///
/// Where it cannot be encoded.
pub fn record(seq: u64) -> Envelope {
    let record = match seq {
        1 => Record::StoreOpened(StoreOpened {
            log: log_id(),
            level: Level::Memory,
            previous: None,
            clean: false,
        }),
        _ => {
            Record::SessionClosed(SessionClosed { session: SessionId::from_uuid([seq.to_le_bytes()[0]; 16]) })
        }
    };
    let body = record.encode_body().unwrap_or_else(|error| panic!("{error}"));
    Envelope {
        v: FORMAT_VERSION,
        seq: Seq(seq),
        ts_ms: 1_000 + seq,
        kind: record.kind().to_owned(),
        ignorable: record.is_ignorable(),
        ids: Ids::default(),
        body: body.into(),
    }
}

/// A batch of the first epoch: so many records behind `after`, and nothing else.
pub fn batch(after: u64, records: u64) -> Batch {
    Batch {
        after: Seq(after),
        epoch: Seq(1),
        records: (1..=records).map(|n| record(after + n)).collect(),
        ..Batch::default()
    }
}

/// A row whose body is this text.
pub fn row(kind: RowKind, key: u64, id: &str, body: &str) -> Row {
    Row { kind, key, id: id.to_owned(), body: Bytes::copy_from_slice(body.as_bytes()) }
}

/// All that a store shows: what recovery reads, each record, each row, and the outputs of the first jobs.
///
/// Two looks at one store that nobody wrote are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// What recovery reads.
    pub opened: Opened,
    /// From the oldest that is kept.
    pub records: Vec<Envelope>,
    /// Retired ones too, by kind and key.
    pub rows: Vec<Row>,
    /// By job; those that have none are left out.
    pub outputs: Vec<(u64, StoredOutput)>,
}

impl Shown {
    /// Looks at a store, page by page, and at the outputs of jobs below `jobs`.
    ///
    /// # Errors
    ///
    /// As [`Journal::load`] and the calls of [`JournalReader`].
    pub fn of(journal: &mut dyn Journal, jobs: u64) -> Result<Self, JournalError> {
        let opened = journal.load()?;
        let reader = journal.reader();
        let records = records(&*reader)?;
        let mut rows = Vec::new();
        for kind in RowKind::ALL {
            let mut from = 0;
            loop {
                let page = reader.rows(kind, from, 100)?;
                let Some(last) = page.last() else { break };
                from = last.key + 1;
                rows.extend(page);
            }
        }
        let mut outputs = Vec::new();
        for job in 0..jobs {
            outputs.extend(reader.output(Lifetime(job))?.map(|output| (job, output)));
        }
        Ok(Self { opened, records, rows, outputs })
    }
}

/// All records of a store, page by page.
///
/// # Errors
///
/// As [`JournalReader::page`].
pub fn records(reader: &dyn JournalReader) -> Result<Vec<Envelope>, JournalError> {
    let mut records: Vec<Envelope> = Vec::new();
    loop {
        let from = records.last().map_or(Seq(1), |record| record.seq.next());
        let page = reader.page(from, 100)?;
        if page.records.is_empty() {
            return Ok(records);
        }
        records.extend(page.records);
    }
}

/// A change that puts a row.
pub fn put(kind: RowKind, key: u64, id: &str, body: &str) -> Change {
    Change::Put(row(kind, key, id, body))
}

/// A change that retires a row.
pub fn retire(kind: RowKind, key: u64, id: &str, body: &str) -> Change {
    Change::Retire(row(kind, key, id, body))
}
