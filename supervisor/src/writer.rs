//! The commit point of a supervisor with a journal: one thread that takes what steps have decided, commits it as one
//! batch, and only then lets replies, events and effects out (C-3). It holds the gate to take a batch, never to write
//! one. What arrives meanwhile is the next batch. What jobs put out while they run comes along a few times a second.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fanin_machine::pump::Batch as _;
use fanin_machine::{Command, EncodeRowError, Limit, RowChange};
use fanin_protocol::envelope::Encoder;
use fanin_protocol::limits::{
    FULL_RETRY, LOW_SPACE_TOLD, OUTPUT_SAVE_BYTES_MAX, OUTPUT_SAVE_EVERY, OUTPUTS_SAVE_BYTES_MAX,
};
use fanin_protocol::{Envelope, Seq};
use parking_lot::{Condvar, Mutex};

use crate::clock::Moment;
use crate::committed::Committed;
use crate::core::{CallError, Core, Released};
use crate::journal::{Batch, Change, Journal, JournalError, JournalReader, Row};
use crate::lines;
use crate::run_output::{RunOutput, Unsaved};

/// What the core keeps of its journal.
#[derive(Debug)]
pub(crate) struct Store {
    bell: Bell,
    /// What runs have put out since it was saved last, oldest first.
    outputs: Mutex<VecDeque<Arc<RunOutput>>>,
    pub(crate) committed: Committed,
    pub(crate) reader: Arc<dyn JournalReader>,
}

impl Store {
    pub(crate) fn new(head: Seq, reader: Arc<dyn JournalReader>) -> Self {
        let (bell, outputs) = (Bell::default(), Mutex::default());
        Self { bell, outputs, committed: Committed::new(head), reader }
    }

    /// There is something to commit.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// A run has put out something. It is saved in a moment, with what others put out until then (P1 is about records).
    pub(crate) fn put_out(&self, output: &Arc<RunOutput>) {
        if output.list() {
            self.outputs.lock().push_back(Arc::clone(output));
            self.bell.ring_later();
        }
    }
}

/// Wakes the writer.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<Rung>,
    heard: Condvar,
}

#[derive(Debug, Default)]
struct Rung {
    now: bool,
    /// Since when there is something that may wait for a moment.
    later: Option<Moment>,
}

impl Rung {
    /// How long that may still wait.
    fn left(&self) -> Option<Duration> {
        self.later.map(|since| since.left_of(OUTPUT_SAVE_EVERY))
    }
}

impl Bell {
    fn ring(&self) {
        if !std::mem::replace(&mut self.rung.lock().now, true) {
            self.heard.notify_one();
        }
    }

    fn ring_later(&self) {
        let mut rung = self.rung.lock();
        if rung.later.is_none() {
            rung.later = Some(Moment::now());
            self.heard.notify_one();
        }
    }

    /// Waits for a ring since the last one, and until what may wait has waited; with a limit for that long alone.
    fn wait(&self, limit: Option<Duration>) {
        let mut rung = self.rung.lock();
        while !rung.now {
            match limit.or_else(|| rung.left()) {
                None => self.heard.wait(&mut rung),
                Some(left) if self.heard.wait_for(&mut rung, left).timed_out() => break,
                Some(_) => {}
            }
        }
        rung.now = false;
    }

    /// As [`Bell::wait`], for what is to be done at once alone; false where it did not ring.
    fn wait_for(&self, limit: Duration) -> bool {
        let mut rung = self.rung.lock();
        if !rung.now {
            self.heard.wait_for(&mut rung, limit);
        }
        std::mem::take(&mut rung.now)
    }

    /// True where what may wait has waited; it counts as done then.
    fn take_later(&self) -> bool {
        let mut rung = self.rung.lock();
        rung.left() == Some(Duration::ZERO) && rung.later.take().is_some()
    }
}

/// What was decided and is not committed yet, as it was taken from behind the gate.
#[derive(Default)]
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
    epoch: Seq,
    /// There is no room for anything new.
    is_short: bool,
    /// When a record said so last.
    told: Option<Moment>,
    /// When there was no room for what was put out.
    left: Option<Moment>,
}

/// Starts the thread. It ends with the supervisor.
pub(crate) fn start(
    core: &Arc<Core>,
    store: Arc<Store>,
    journal: Box<dyn Journal>,
    head: Seq,
) -> std::io::Result<()> {
    let core = Arc::downgrade(core);
    let writer =
        Writer { core, store, journal, head, epoch: Seq(0), is_short: false, told: None, left: None };
    std::thread::Builder::new().name("fanin-journal".into()).spawn(move || writer.run()).map(drop)
}

impl Writer {
    fn run(mut self) {
        let mut is_idle = true;
        let failed = loop {
            // A ring may be heard while a commit waits for room, so it is waited for only where nothing is left.
            if is_idle {
                // Nothing tells that there is room again.
                self.store.bell.wait(self.is_short.then_some(FULL_RETRY));
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
        self.store.outputs.lock().clear();
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

    /// Commits what was decided and put out, and lets it out.
    fn next(&mut self, core: &Arc<Core>) -> Result<Flow, CallError> {
        if self.is_short {
            self.look_for_room(core);
        }
        let taken = core.take_decided()?;
        let is_over = taken.as_ref().is_some_and(|taken| taken.released.is_end());
        let mut unsaved = self.unsaved(is_over);
        if taken.is_none() && unsaved.is_empty() {
            return Ok(Flow::Idle);
        }
        let mut taken = taken.unwrap_or_else(|| Taken { epoch: self.epoch, ..Taken::default() });
        self.epoch = taken.epoch;
        let batch = batch(&mut taken, self.head).map_err(CallError::Store)?;
        self.head = Seq(batch.after.0 + batch.records.len() as u64);
        self.commit(core, batch, &mut unsaved, &mut taken.released).map_err(CallError::Store)?;
        self.look_for_room(core);
        // Events before replies: who was answered and then subscribes to what is new is told nothing old.
        lines::tell(&taken.released.out.records, core.log_content);
        core.log.append(&mut taken.released.out.records);
        self.store.committed.advance(self.head);
        while !taken.released.is_empty() {
            // What lies behind an act that panicked is carried out all the same, so that no wake waits for it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| core.release(&mut taken.released))) {
                tracing::error!(?panic, "an effect panicked");
            }
        }
        unsaved.into_iter().filter_map(Unsaved::saved).for_each(|output| self.store.put_out(&output));
        Ok(if is_over { Flow::IsOver } else { Flow::Goes })
    }

    /// What runs have put out, where it is time to save it; at the end what there is. Where space is short it waits: what
    /// is left is for records.
    fn unsaved(&self, is_over: bool) -> Vec<Unsaved> {
        let mut unsaved = Vec::new();
        if self.is_short || !(self.store.bell.take_later() || is_over) {
            return unsaved;
        }
        let mut bytes = 0;
        // Those of now alone: one that is written to meanwhile is listed again, and of each there is one part a commit.
        let mut listed = std::mem::take(&mut *self.store.outputs.lock());
        while bytes < OUTPUTS_SAVE_BYTES_MAX
            && let Some(output) = listed.pop_front()
        {
            if let Some(part) = output.unsaved(OUTPUT_SAVE_BYTES_MAX) {
                bytes += part.bytes;
                unsaved.push(part);
            }
        }
        // The others have waited already, but not for longer than those that come now.
        if !listed.is_empty() {
            let mut outputs = self.store.outputs.lock();
            listed.append(&mut outputs);
            *outputs = listed;
            drop(outputs);
            self.store.bell.ring_later();
        }
        unsaved
    }

    /// Commits a batch, again and again while there is no room. Stops are let out without waiting for it, and what was
    /// put out is left for later (ST-9). Where there is nothing to commit all that was decided before is on disk.
    fn commit(
        &mut self,
        core: &Arc<Core>,
        mut batch: Batch,
        unsaved: &mut Vec<Unsaved>,
        released: &mut Released,
    ) -> Result<(), JournalError> {
        let decided = batch.outputs.len();
        batch.outputs.extend(unsaved.iter_mut().flat_map(|part| std::mem::take(&mut part.changes)));
        while !batch.is_empty() {
            let full = match self.journal.append(&batch) {
                Err(error @ JournalError::Full(_)) => error,
                done => return done,
            };
            self.is_short(core, CallError::Full(full));
            released.take_stops().into_iter().for_each(|act| core.carry_out(act));
            if !unsaved.is_empty() {
                batch.outputs.truncate(decided);
                self.left = Some(Moment::now());
                for part in unsaved.drain(..) {
                    self.store.put_out(&part.left());
                }
                continue;
            }
            while self.store.bell.wait_for(FULL_RETRY) {
                core.take_stops().into_iter().for_each(|act| core.carry_out(act));
            }
        }
        Ok(())
    }

    /// Nothing new is taken on, and a record says so; not again and again where a disk is at the edge.
    fn is_short(&mut self, core: &Arc<Core>, why: CallError) {
        let is_new = !std::mem::replace(&mut self.is_short, true);
        if is_new && self.told.is_none_or(|told| told.left_of(LOW_SPACE_TOLD).is_zero()) {
            self.told = Some(Moment::now());
            tracing::warn!(%why, "space is short");
            core.post(Command::Limit(Limit::LowSpace));
        }
        self.store.committed.set_room(Some(why));
    }

    /// Looks how much space there is: behind each commit, and now and then where it is short. That there is none for what
    /// was put out is believed for as long as that is not tried again.
    fn look_for_room(&mut self, core: &Arc<Core>) {
        let is_left = self.left.is_some_and(|left| !left.left_of(FULL_RETRY).is_zero());
        if self.journal.is_low() {
            self.is_short(core, CallError::Low);
        } else if self.is_short && !is_left {
            self.is_short = false;
            self.store.committed.set_room(None);
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
    let wrong = |error: EncodeRowError| JournalError::Io(format!("a record cannot be encoded: {error}"));
    let mut encoder = Encoder::for_batch();
    let mut records = Vec::with_capacity(taken.released.out.records.len());
    for entry in &taken.released.out.records {
        records.push(Envelope::wrap_with(entry, &mut encoder).map_err(wrong)?);
    }
    let mut rows = Vec::with_capacity(taken.rows.len());
    for RowChange { kind, key, id, body, retired } in taken.rows.drain(..) {
        let row = Row { kind, key, id, body: body.encode_with(&mut encoder).map_err(wrong)? };
        rows.push(if retired { Change::Retire(row) } else { Change::Put(row) });
    }
    let outputs = std::mem::take(&mut taken.released.outputs);
    Ok(Batch { after, epoch: taken.epoch, records, rows, outputs })
}
