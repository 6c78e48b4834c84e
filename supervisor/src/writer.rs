//! The commit point of a supervisor with a journal: one thread that takes what steps have decided, commits it as one
//! batch, and only then lets replies, events and effects out (C-3). It holds the gate to take a batch, never to write
//! one. What arrives meanwhile is the next batch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fanin_machine::pump::Batch as _;
use fanin_machine::{EncodeRowError, RowChange};
use fanin_protocol::limits::FULL_RETRY;
use fanin_protocol::{Envelope, Seq};
use parking_lot::{Condvar, Mutex};

use crate::committed::Committed;
use crate::core::{CallError, Core, Released};
use crate::journal::{Batch, Change, Journal, JournalError, JournalReader, Row};

/// What the core keeps of its journal.
#[derive(Debug)]
pub(crate) struct Store {
    bell: Bell,
    pub(crate) committed: Committed,
    pub(crate) reader: Arc<dyn JournalReader>,
}

impl Store {
    pub(crate) fn new(head: Seq, reader: Arc<dyn JournalReader>) -> Self {
        Self { bell: Bell::default(), committed: Committed::new(head), reader }
    }

    /// There is something to commit.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }
}

/// Wakes the writer.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    fn ring(&self) {
        let mut rung = self.rung.lock();
        if !std::mem::replace(&mut *rung, true) {
            self.heard.notify_one();
        }
    }

    /// Waits for a ring since the last one.
    fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            self.heard.wait(&mut rung);
        }
        *rung = false;
    }

    /// As [`Bell::wait`], for so long at the most; false where it did not ring.
    fn wait_for(&self, limit: Duration) -> bool {
        let mut rung = self.rung.lock();
        if !*rung {
            self.heard.wait_for(&mut rung, limit);
        }
        std::mem::take(&mut *rung)
    }
}

/// What was decided and is not committed yet, as it was taken from behind the gate.
pub(crate) struct Taken {
    pub(crate) released: Released,
    pub(crate) rows: Vec<RowChange>,
    /// The epoch's number.
    pub(crate) epoch: Seq,
}

/// The thread's own.
struct Writer {
    core: Weak<Core>,
    store: Arc<Store>,
    journal: Box<dyn Journal>,
    /// What is committed so far.
    head: Seq,
}

/// Starts the thread. It ends with the supervisor.
pub(crate) fn start(
    core: &Arc<Core>,
    store: Arc<Store>,
    journal: Box<dyn Journal>,
    head: Seq,
) -> std::io::Result<()> {
    let writer = Writer { core: Arc::downgrade(core), store, journal, head };
    std::thread::Builder::new().name("fanin-journal".into()).spawn(move || writer.run()).map(drop)
}

impl Writer {
    fn run(mut self) {
        let mut is_idle = true;
        let failed = loop {
            // A ring may be heard while a commit waits for room, so it is waited for only where nothing is left.
            if is_idle {
                self.store.bell.wait();
            }
            // Without a core nobody is left who could decide anything.
            let Some(core) = self.core.upgrade() else { break None };
            match self.next(&core) {
                Ok(Flow::Idle) => is_idle = true,
                Ok(Flow::Goes) => is_idle = false,
                Ok(Flow::IsOver) => break None,
                Err(error) => break Some((core, error)),
            }
        };
        let Some((core, error)) = failed else {
            if let Err(error) = self.journal.close() {
                tracing::error!(%error, "the store could not be closed in order; the next opening checks it");
            }
            return self.store.committed.close();
        };
        tracing::error!(%error, "nothing more is decided or recorded");
        // What was decided and not committed is dropped: nobody may see it.
        self.store.committed.fail(error);
        core.fail();
    }

    /// Commits what was decided, and lets it out.
    fn next(&mut self, core: &Arc<Core>) -> Result<Flow, CallError> {
        let Some(mut taken) = core.take_decided()? else { return Ok(Flow::Idle) };
        let batch = batch(&mut taken, self.head).map_err(CallError::Store)?;
        self.commit(core, &batch, &mut taken.released).map_err(CallError::Store)?;
        self.head = Seq(batch.after.0 + batch.records.len() as u64);
        let low = self.journal.is_low().then(|| JournalError::Full("less than 64 MiB are free".into()));
        // Events before replies: who was answered and then subscribes to what is new is told nothing old.
        core.log.append(&mut taken.released.out.records);
        self.store.committed.advance(self.head, low);
        let is_over = taken.released.is_end();
        while !taken.released.is_empty() {
            // What lies behind an act that panicked is carried out all the same, so that no wake waits for it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| core.release(&mut taken.released))) {
                tracing::error!(?panic, "an effect panicked");
            }
        }
        Ok(if is_over { Flow::IsOver } else { Flow::Goes })
    }

    /// Commits a batch, again and again while there is no room. Stops are let out without waiting for it (ST-9).
    fn commit(
        &mut self,
        core: &Arc<Core>,
        batch: &Batch,
        released: &mut Released,
    ) -> Result<(), JournalError> {
        let mut tried = false;
        loop {
            let full = match self.journal.append(batch) {
                Err(error @ JournalError::Full(_)) => error,
                done => return done,
            };
            if !std::mem::replace(&mut tried, true) {
                tracing::warn!(error = %full, "nothing new is taken on until there is room");
                self.store.committed.set_full(full);
                released.take_stops().into_iter().for_each(|act| core.carry_out(act));
            }
            while self.store.bell.wait_for(FULL_RETRY) {
                core.take_stops().into_iter().for_each(|act| core.carry_out(act));
            }
        }
    }
}

enum Flow {
    /// There was nothing to commit.
    Idle,
    Goes,
    IsOver,
}

/// What is to be committed, in the words of the journal.
fn batch(taken: &mut Taken, after: Seq) -> Result<Batch, JournalError> {
    let encode =
        |error: &dyn std::fmt::Display| JournalError::Io(format!("a record cannot be encoded: {error}"));
    let records = taken.released.out.records.iter().map(Envelope::wrap).collect::<Result<_, _>>();
    let rows = taken.rows.drain(..).map(|RowChange { kind, key, id, body, retired }| {
        let row = Row { kind, key, id, body: body.encode()?.into() };
        Ok(if retired { Change::Retire(row) } else { Change::Put(row) })
    });
    let rows = rows.collect::<Result<_, EncodeRowError>>();
    Ok(Batch {
        after,
        epoch: taken.epoch,
        records: records.map_err(|error| encode(&error))?,
        rows: rows.map_err(|error| encode(&error))?,
        outputs: std::mem::take(&mut taken.released.outputs),
    })
}
