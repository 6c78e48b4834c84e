//! What a run puts out while it runs: one store, which the run writes to and readers read from. Nobody waits for a
//! reader, and one who is not there costs nothing.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fanin_protocol::Lifetime;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::follow::Source;
use crate::head_tail::HeadTail;
use crate::journal::OutputChange;
use crate::output::JobOutput;
use crate::page::OutputPage;

/// Where the output of one run is. Most jobs only return something, and are over before anybody asks: they cost no store.
pub(crate) struct OutputPlace {
    /// Set by whoever is first: to write, to read, or to end without either.
    place: OnceLock<Place>,
    /// Whose it is.
    job: Lifetime,
    /// Bytes that are kept at the most.
    max: u64,
}

enum Place {
    /// In a store that the run and readers share.
    Shared(Arc<RunOutput>),
    /// The run is over, and nobody had asked for it before: what its body returned, where that is anything.
    Returned(Option<Box<JobOutput>>),
}

impl OutputPlace {
    /// Nowhere yet.
    pub(crate) const fn new(job: Lifetime, max: u64) -> Self {
        Self { place: OnceLock::new(), job, max }
    }

    fn place(&self) -> &Place {
        self.place.get_or_init(|| Place::Shared(Arc::new(RunOutput::new(self.job, self.max))))
    }

    /// Adds bytes at the end, and says where they are then. A run that is over adds nothing.
    pub(crate) fn write(&self, bytes: &[u8]) -> Option<&Arc<RunOutput>> {
        match self.place() {
            Place::Shared(output) => output.write(bytes).then_some(output),
            Place::Returned(_) => None,
        }
    }

    /// Where it can be read, also while the run goes on.
    pub(crate) fn source(&self) -> Source {
        match self.place() {
            Place::Shared(output) => Source::Run(Arc::clone(output)),
            Place::Returned(output) => Source::Kept(output.as_deref().cloned().unwrap_or_default()),
        }
    }

    /// The run is over and its body returned `last`, which stands behind what it has written. Gives all of it.
    pub(crate) fn end(&self, last: JobOutput) -> JobOutput {
        let returned = || Place::Returned((last.bytes_total() > 0).then(|| Box::new(last.clone())));
        match self.place.get_or_init(returned) {
            Place::Shared(output) => output.end(last),
            Place::Returned(_) => last,
        }
    }
}

/// A store that a run writes to and readers read from.
#[derive(Debug)]
pub(crate) struct RunOutput {
    job: Lifetime,
    kept: Mutex<Stage>,
    changed: Notify,
    /// A journal will look at it.
    is_listed: AtomicBool,
    /// Up to here a journal has it. Changed by the thread of the journal alone.
    saved: AtomicU64,
}

/// What a journal has not got yet of an output.
#[derive(Debug)]
pub(crate) struct Unsaved {
    output: Arc<RunOutput>,
    /// What is to be committed.
    pub(crate) changes: Vec<OutputChange>,
    /// Where the next part begins.
    next: u64,
    /// Bytes of the part.
    pub(crate) bytes: usize,
}

impl Unsaved {
    /// It is committed. Gives the output where there is more of it.
    pub(crate) fn saved(self) -> Option<Arc<RunOutput>> {
        self.output.saved.store(self.next, Ordering::Relaxed);
        (self.output.total() > self.next).then_some(self.output)
    }

    /// It could not be committed: the output is to be looked at again.
    pub(crate) fn left(self) -> Arc<RunOutput> {
        self.output
    }
}

#[derive(Debug)]
enum Stage {
    Open(HeadTail),
    Over(JobOutput),
}

impl RunOutput {
    /// Keeps `max` bytes at the most.
    fn new(job: Lifetime, max: u64) -> Self {
        Self {
            job,
            kept: Mutex::new(Stage::Open(HeadTail::new(max))),
            changed: Notify::new(),
            is_listed: AtomicBool::new(false),
            saved: AtomicU64::new(0),
        }
    }

    fn write(&self, bytes: &[u8]) -> bool {
        match &mut *self.kept.lock() {
            Stage::Open(store) => store.push(bytes),
            Stage::Over(_) => return false,
        }
        self.changed.notify_waiters();
        true
    }

    /// Somebody will look at it; false where that was known.
    pub(crate) fn list(&self) -> bool {
        !self.is_listed.swap(true, Ordering::AcqRel)
    }

    /// What a journal has not got of it, `max` bytes at the most; `None` where that is nothing, and once the run is over:
    /// its end brings all that is kept. The middle of a long output goes as it grows.
    pub(crate) fn unsaved(self: Arc<Self>, max: usize) -> Option<Unsaved> {
        // Before the look: what is written after it is for the next one.
        self.is_listed.store(false, Ordering::Release);
        let (job, saved) = (self.job, self.saved.load(Ordering::Relaxed));
        let mut changes = Vec::new();
        let (next, bytes) = {
            let kept = self.kept.lock();
            let Stage::Open(store) = &*kept else { return None };
            let (at, bytes) = store.after(saved, max);
            if bytes.is_empty() {
                return None;
            }
            let (len, next) = (bytes.len(), at + bytes.len() as u64);
            changes.push(OutputChange::Append { job, at, bytes: bytes.into() });
            // What came between was never seen here, so what lies before it belongs to the middle now.
            let middle = store.middle(next);
            let end = if at > saved { middle.end.max(at) } else { middle.end };
            if end > middle.start {
                changes.push(OutputChange::Drop { job, range: middle.start..end });
            }
            (next, len)
        };
        Some(Unsaved { output: self, changes, next, bytes })
    }

    fn end(&self, last: JobOutput) -> JobOutput {
        let mut stage = self.kept.lock();
        let whole = match &mut *stage {
            // What is returned and nothing else is kept as it is.
            Stage::Open(store) if store.total() == 0 => last,
            Stage::Open(store) => {
                store.push(last.bytes());
                std::mem::replace(store, HeadTail::new(0)).finish()
            }
            Stage::Over(whole) => return whole.clone(),
        };
        *stage = Stage::Over(whole.clone());
        drop(stage);
        self.changed.notify_waiters();
        whole
    }

    /// What is kept so far, or for good.
    pub(crate) fn output(&self) -> JobOutput {
        match &*self.kept.lock() {
            Stage::Open(store) => store.output(),
            Stage::Over(whole) => whole.clone(),
        }
    }

    /// A part of it.
    pub(crate) fn page(&self, asked: u64, max: usize) -> Option<OutputPage> {
        match &*self.kept.lock() {
            Stage::Open(store) => Some(store.kept().page(asked, max, |range| Bytes::from(store.copy(range)))),
            Stage::Over(whole) => whole.page(asked, max),
        }
    }

    /// Waits until more than `place` bytes were put out.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn beyond(&self, place: u64) {
        loop {
            // Registered before the look, so that a write between look and wait is not missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.total() > place {
                return;
            }
            changed.await;
        }
    }

    /// Bytes that were put out so far.
    pub(crate) fn total(&self) -> u64 {
        match &*self.kept.lock() {
            Stage::Open(store) => store.total(),
            Stage::Over(whole) => whole.bytes_total(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a store makes of changes.
    #[derive(Default)]
    struct Saved {
        pieces: Vec<(u64, Bytes)>,
    }

    impl Saved {
        fn take(&mut self, unsaved: Unsaved) -> bool {
            for change in &unsaved.changes {
                match change {
                    OutputChange::Append { at, bytes, .. } => self.pieces.push((*at, bytes.clone())),
                    OutputChange::Drop { range, .. } => {
                        let end = |(at, piece): &(u64, Bytes)| at + piece.len() as u64;
                        self.pieces.retain(|piece| piece.0 < range.start || end(piece) > range.end);
                    }
                    OutputChange::Replace { .. } | OutputChange::Retire { .. } => panic!("{change:?}"),
                }
            }
            unsaved.saved().is_some()
        }

        /// The pieces, joined where nothing is missing between them.
        fn joined(&self) -> Vec<(u64, Vec<u8>)> {
            let mut joined: Vec<(u64, Vec<u8>)> = Vec::new();
            for (at, piece) in &self.pieces {
                match joined.last_mut() {
                    Some((start, bytes)) if *start + bytes.len() as u64 == *at => {
                        bytes.extend_from_slice(piece)
                    }
                    _ => joined.push((*at, piece.to_vec())),
                }
            }
            joined
        }
    }

    // However writes and looks fall, and however little one look takes: start and end are there, once and in order, and
    // no more than the bound and two parts.
    #[test]
    fn what_is_saved_is_start_and_end_whenever_it_is_looked_at() {
        let mut random = 1u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let byte = |at: u64| (at * 31 % 251).to_le_bytes()[0];
        for trial in 0..2_000 {
            let (max, part) = (1 + below(400), usize::try_from(1 + below(200)).unwrap());
            let output = Arc::new(RunOutput::new(Lifetime(1), max));
            let (mut total, mut saved) = (0, Saved::default());
            for _ in 0..below(40) {
                let len = below(150);
                output.write(&(total..total + len).map(byte).collect::<Vec<u8>>());
                total += len;
                if below(3) == 0
                    && let Some(unsaved) = Arc::clone(&output).unsaved(part)
                {
                    saved.take(unsaved);
                }
            }
            while Arc::clone(&output).unsaved(part).is_some_and(|unsaved| saved.take(unsaved)) {}
            let joined = saved.joined();
            let whole =
                joined.iter().all(|(start, bytes)| bytes.iter().zip(*start..).all(|(b, at)| *b == byte(at)));
            assert!(whole, "trial {trial}: other bytes");
            let kept: u64 = joined.iter().map(|(_, bytes)| bytes.len() as u64).sum();
            assert!(kept <= max + 3 + 2 * part as u64, "trial {trial}: {kept} of {max} by {part}");
            assert!(kept >= total.min(max), "trial {trial}: {kept} of {total}, {max} are kept");
            assert!(joined.len() <= 2, "trial {trial}: {} holes", joined.len());
            let last = joined.last().map_or(0, |(start, bytes)| start + bytes.len() as u64);
            assert_eq!(last, total, "trial {trial}");
        }
    }

    #[test]
    fn a_run_that_is_over_leaves_nothing_to_save() {
        let output = Arc::new(RunOutput::new(Lifetime(1), 100));
        output.write(b"text");
        output.end(JobOutput::from("end"));
        assert!(output.unsaved(10).is_none());
    }
}
