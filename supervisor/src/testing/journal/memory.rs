//! A store in memory: what is committed is there for the next who opens it, and ends with the last handle. For tests,
//! and as the least that a journal is. It never touches a disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use fanin_protocol::record::Level;
use fanin_protocol::{Envelope, Lifetime, LogId, Record, RowKind, Seq};
use parking_lot::Mutex;

use crate::journal::{
    Batch, Change, Journal, JournalError, JournalReader, Opened, OutputChange, RecordPage, Row, StoredOutput,
};

/// A store in memory; clones are handles of the same one.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    is_owned: bool,
    log: Option<LogId>,
    epoch: Seq,
    records: Vec<Envelope>,
    live: BTreeMap<(RowKind, u64), Row>,
    retired: BTreeMap<(RowKind, u64), Row>,
    outputs: BTreeMap<u64, StoredOutput>,
}

/// The ownership of a [`MemoryStore`], until it is dropped.
#[derive(Debug)]
pub struct MemoryJournal {
    store: MemoryStore,
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the store over.
    ///
    /// # Errors
    ///
    /// [`JournalError::Owned`] while another journal of it lives.
    pub fn open(&self) -> Result<MemoryJournal, JournalError> {
        if std::mem::replace(&mut self.held.lock().is_owned, true) {
            return Err(JournalError::Owned { store: "memory".into(), owner: "this process".into() });
        }
        Ok(MemoryJournal { store: self.clone() })
    }
}

impl Drop for MemoryJournal {
    fn drop(&mut self) {
        self.store.held.lock().is_owned = false;
    }
}

impl Held {
    fn head(&self) -> Seq {
        self.records.last().map_or(Seq(0), |record| record.seq)
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Put(row) => {
                self.live.insert((row.kind, row.key), row);
            }
            Change::Retire(row) => {
                self.live.remove(&(row.kind, row.key));
                self.retired.insert((row.kind, row.key), row);
            }
        }
    }

    fn put_out(&mut self, change: OutputChange) {
        match change {
            OutputChange::Append { job, at, bytes } => {
                let output = self.outputs.entry(job.0).or_default();
                output.total = at + bytes.len() as u64;
                output.pieces.push((at, bytes));
            }
            OutputChange::Drop { job, range } => {
                if let Some(output) = self.outputs.get_mut(&job.0) {
                    let is_in = |at: u64, len: usize| range.start <= at && at + len as u64 <= range.end;
                    output.pieces.retain(|(at, bytes)| !is_in(*at, bytes.len()));
                }
            }
            // Nothing of it goes with age.
            OutputChange::Retire { .. } => {}
            OutputChange::Replace { job, pieces, .. } if pieces.is_empty() => {
                self.outputs.remove(&job.0);
            }
            OutputChange::Replace { job, pieces, total } => {
                self.outputs.insert(job.0, StoredOutput { pieces, total });
            }
        }
    }
}

impl Journal for MemoryJournal {
    fn level(&self) -> Level {
        Level::Memory
    }

    fn load(&mut self) -> Result<Opened, JournalError> {
        let held = self.store.held.lock();
        let last = held.records.last();
        Ok(Opened {
            log: held.log.clone(),
            head: held.head(),
            ts_ms: last.map_or(0, |record| record.ts_ms),
            rows: held.live.values().cloned().collect(),
            notes: Vec::new(),
        })
    }

    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let mut held = self.store.held.lock();
        let follows = batch.records.iter().zip(batch.after.0 + 1..).all(|(record, seq)| record.seq.0 == seq);
        if batch.after != held.head() || batch.epoch < held.epoch || !follows {
            return Err(JournalError::Fenced(format!("the log ends at {}", held.head().0)));
        }
        if held.log.is_none()
            && let Some(Ok(Some(Record::StoreOpened(opened)))) = batch.records.first().map(Envelope::record)
        {
            held.log = Some(opened.log);
        }
        held.epoch = batch.epoch;
        held.records.extend(batch.records.iter().cloned());
        batch.rows.iter().cloned().for_each(|change| held.change(change));
        batch.outputs.iter().cloned().for_each(|change| held.put_out(change));
        Ok(())
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::new(self.store.clone())
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        Ok(())
    }
}

impl JournalReader for MemoryStore {
    fn page(&self, from: Seq, max: usize) -> Result<RecordPage, JournalError> {
        let held = self.held.lock();
        let records = held.records.iter().filter(|record| record.seq >= from).take(max).cloned().collect();
        Ok(RecordPage { log: held.log.clone(), oldest: Seq(1), head: held.head(), records })
    }

    fn find_before(&self, kind: RowKind, id: &str, before: u64) -> Result<Option<Row>, JournalError> {
        let held = self.held.lock();
        let newest = |rows: &BTreeMap<(RowKind, u64), Row>| {
            rows.values().rfind(|row| row.kind == kind && row.id == id && row.key < before).cloned()
        };
        Ok(newest(&held.live).or_else(|| newest(&held.retired)))
    }

    fn row(&self, kind: RowKind, key: u64) -> Result<Option<Row>, JournalError> {
        let held = self.held.lock();
        Ok(held.live.get(&(kind, key)).or_else(|| held.retired.get(&(kind, key))).cloned())
    }

    fn rows(&self, kind: RowKind, from: u64, max: usize) -> Result<Vec<Row>, JournalError> {
        let held = self.held.lock();
        let range = (kind, from)..=(kind, u64::MAX);
        let mut rows: Vec<Row> = held
            .retired
            .range(range.clone())
            .chain(held.live.range(range))
            .map(|(_, row)| row.clone())
            .collect();
        rows.sort_by_key(|row| row.key);
        rows.truncate(max);
        Ok(rows)
    }

    fn output_from(&self, job: Lifetime, from: u64) -> Result<Option<StoredOutput>, JournalError> {
        let mut output = self.held.lock().outputs.get(&job.0).cloned();
        if let Some(output) = &mut output {
            output.pieces.retain(|(at, bytes)| at + bytes.len() as u64 > from);
        }
        Ok(output)
    }
}
