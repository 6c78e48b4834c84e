//! What a run puts out while it runs: one store, which the run writes to and readers read from. Nobody waits for a
//! reader, and one who is not there costs nothing.

use std::pin::pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::follow::Source;
use crate::head_tail::HeadTail;
use crate::output::JobOutput;
use crate::page::OutputPage;

/// Where the output of one run is. Most jobs only return something, and are over before anybody asks: they cost no store.
pub(crate) struct OutputPlace {
    /// Set by whoever is first: to write, to read, or to end without either.
    place: OnceLock<Place>,
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
    pub(crate) const fn new(max: u64) -> Self {
        Self { place: OnceLock::new(), max }
    }

    fn place(&self) -> &Place {
        self.place.get_or_init(|| Place::Shared(Arc::new(RunOutput::new(self.max))))
    }

    /// Adds bytes at the end. A run that is over adds nothing.
    pub(crate) fn write(&self, bytes: &[u8]) {
        match self.place() {
            Place::Shared(output) => output.write(bytes),
            Place::Returned(_) => {}
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
    kept: Mutex<Stage>,
    changed: Notify,
}

#[derive(Debug)]
enum Stage {
    Open(HeadTail),
    Over(JobOutput),
}

impl RunOutput {
    /// Keeps `max` bytes at the most.
    fn new(max: u64) -> Self {
        Self { kept: Mutex::new(Stage::Open(HeadTail::new(max))), changed: Notify::new() }
    }

    fn write(&self, bytes: &[u8]) {
        match &mut *self.kept.lock() {
            Stage::Open(store) => store.push(bytes),
            Stage::Over(_) => return,
        }
        self.changed.notify_waiters();
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
