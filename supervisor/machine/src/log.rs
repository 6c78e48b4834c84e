//! The newest records in memory, and cursors that read them.
//!
//! The one writer appends and never waits for a reader beyond a lock that is held for a few moves of pointers. A
//! reader keeps its own place, so a slow one costs only itself: it is told from where it can go on. Nothing here
//! filters, and nothing that must happen depends on a record being read.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc as StdArc, OnceLock};
use std::task::{Context, Poll, Waker};

use fanin_protocol::limits::READ_BATCH;
use fanin_protocol::{Entry, LogId, Seq};

use crate::sync::{Arc, Mutex};

mod sleepers;

use sleepers::Sleepers;

/// The tail of a log: at least the newest `tail` records, and at most one segment more.
pub struct Log {
    id: LogId,
    /// Records that are kept at the least.
    tail: u64,
    /// Records of a segment.
    width: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Contiguous, oldest first; all are full but the last.
    segments: VecDeque<StdArc<Segment>>,
    /// The oldest record that is kept; the next one to come while there is none.
    oldest: Seq,
    /// The newest record; 0 for none. Slots up to here are filled.
    head: Seq,
    closed: bool,
    sleepers: Sleepers,
}

/// A run of records. Each slot is filled once by the writer; readers look only at those up to the head they saw
/// under the lock, and need no lock to do so.
///
/// Segments and entries are in std's `Arc` also under loom: they are handed over under the lock and nothing depends on
/// when the last one lets go, so loom would only try orders that make no difference.
struct Segment {
    slots: Box<[OnceLock<StdArc<Entry>>]>,
}

/// What a reader finds behind its place.
#[derive(Debug)]
pub enum Read {
    /// The next records.
    Entries(Entries),
    /// Nothing yet.
    UpToDate,
    /// The next records are no longer kept. It can go on before `oldest`.
    Behind {
        /// The oldest record that is kept.
        oldest: Seq,
    },
    /// Nothing, and nothing will come.
    Closed,
}

impl Log {
    /// An empty log that keeps at least `tail` records, one at the least.
    pub fn new(id: LogId, tail: usize) -> Self {
        let tail = tail.max(1);
        Self {
            id,
            tail: tail as u64,
            width: tail.min(READ_BATCH),
            inner: Mutex::new(Inner {
                segments: VecDeque::new(),
                oldest: Seq(1),
                head: Seq(0),
                closed: false,
                sleepers: Sleepers::default(),
            }),
        }
    }

    /// The log's name.
    pub const fn id(&self) -> &LogId {
        &self.id
    }

    /// The newest record; 0 for none.
    pub fn head(&self) -> Seq {
        self.inner.lock().head
    }

    /// The oldest record that is kept; the first one to come while there is none.
    pub fn oldest(&self) -> Seq {
        self.inner.lock().oldest
    }

    /// Appends a batch, then wakes the readers that sleep, once each.
    ///
    /// For the one writer: batches must not overlap in time, their `seq` goes on from the head without a gap, and
    /// nothing comes after [`Log::close`]. Readers may see the front of a long batch before its end is there. The
    /// batch is left empty with its room, to be filled again.
    pub fn append(&self, batch: &mut Vec<Entry>) {
        let mut rest = batch.drain(..);
        while rest.len() > 0 {
            let mut inner = self.inner.lock();
            inner.fill(&mut rest, self.width);
            let cut = inner.cut(self.tail, self.width);
            // The last part takes the sleepers: whoever lay down between two parts is among them.
            let wakers = if rest.len() == 0 { inner.sleepers.take() } else { Vec::new() };
            drop(inner);
            drop(cut);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Ends the log: readers find [`Read::Closed`] after the last record.
    pub fn close(&self) {
        let wakers = {
            let mut inner = self.inner.lock();
            inner.closed = true;
            inner.sleepers.take()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Reads on after a place: one record at the least if there is one, `max` at the most, often fewer.
    ///
    /// A place above the head is not wrong: what it waits for is still to come.
    pub fn read(&self, after: Seq, max: usize) -> Read {
        self.inner.lock().read(after, max, self.width)
    }
}

impl Inner {
    /// Moves entries in until the last segment is full.
    fn fill(&mut self, rest: &mut impl Iterator<Item = Entry>, width: usize) {
        debug_assert!(!self.closed, "log: {} after the end", self.head.next());
        let kept = self.head.next().0 - self.oldest.0;
        let used = (kept % width as u64) as usize;
        if used == 0 {
            self.segments.push_back(StdArc::new(Segment::new(width)));
        }
        let slots = self.segments.back().into_iter().flat_map(|last| last.slots.iter().skip(used));
        for (slot, entry) in slots.zip(rest) {
            debug_assert_eq!(entry.seq, self.head.next(), "log: a record out of its place");
            let filled = slot.set(entry.into());
            debug_assert!(filled.is_ok(), "log: {} twice", self.head.next());
            self.head = self.head.next();
        }
    }

    /// Takes out the oldest segment if enough is kept without it.
    ///
    /// Once after each `fill` is enough, since that adds one segment at the most. The caller drops it without the lock.
    fn cut(&mut self, tail: u64, width: usize) -> Option<StdArc<Segment>> {
        let next = Seq(self.oldest.0 + width as u64);
        if self.head.next().0 < next.0.saturating_add(tail) {
            return None;
        }
        self.oldest = next;
        self.segments.pop_front()
    }

    fn read(&self, after: Seq, max: usize, width: usize) -> Read {
        if after >= self.head {
            return if self.closed { Read::Closed } else { Read::UpToDate };
        }
        let Some(skip) = after.next().0.checked_sub(self.oldest.0) else {
            return Read::Behind { oldest: self.oldest };
        };
        let (index, start) = ((skip / width as u64) as usize, (skip % width as u64) as usize);
        let Some(segment) = self.segments.get(index) else {
            debug_assert!(false, "log: no segment for {}", after.next());
            return Read::Behind { oldest: self.oldest };
        };
        let there = usize::try_from(self.head.0 - after.0).unwrap_or(usize::MAX);
        let end = width.min(start.saturating_add(there.min(max.max(1))));
        Read::Entries(Entries { segment: StdArc::clone(segment), next: start, end })
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        f.debug_struct("Log")
            .field("id", &self.id)
            .field("oldest", &inner.oldest)
            .field("head", &inner.head)
            .field("closed", &inner.closed)
            .finish_non_exhaustive()
    }
}

impl Segment {
    fn new(width: usize) -> Self {
        Self { slots: (0..width).map(|_| OnceLock::new()).collect() }
    }
}

/// Records that were taken over in one lock, in order. Keeps one segment of the log alive and no more.
pub struct Entries {
    segment: StdArc<Segment>,
    next: usize,
    end: usize,
}

impl Entries {
    /// As `next`, without a share of its own in the entry.
    pub fn next_ref(&mut self) -> Option<&StdArc<Entry>> {
        let index = (self.next < self.end).then_some(self.next)?;
        self.next += 1;
        let entry = self.segment.slots.get(index).and_then(OnceLock::get);
        debug_assert!(entry.is_some(), "log: an empty slot below the head");
        entry
    }
}

impl Iterator for Entries {
    type Item = StdArc<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_ref().cloned()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Entries {}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("left", &self.len()).finish_non_exhaustive()
    }
}

/// One who reads a log and sleeps where there is nothing to read. Dropping it leaves nothing behind in the log.
pub struct Reader {
    log: Arc<Log>,
    /// Its place among the sleepers, from the first sleep on.
    berth: Option<usize>,
}

impl Reader {
    /// A reader of a log. It costs the log nothing until it sleeps.
    pub const fn new(log: Arc<Log>) -> Self {
        Self { log, berth: None }
    }

    /// The log that it reads.
    pub const fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// As [`Log::read`], but pending instead of [`Read::UpToDate`]: the next append or the end wakes.
    ///
    /// Looking and lying down are one step under the lock, so no append falls between them. Only the waker of the
    /// last call is kept.
    pub fn poll_read(&mut self, cx: &Context<'_>, after: Seq, max: usize) -> Poll<Read> {
        let mut inner = self.log.inner.lock();
        match inner.read(after, max, self.log.width) {
            Read::UpToDate => {
                let old = inner.sleepers.enter(&mut self.berth, cx.waker());
                drop(inner);
                drop(old);
                Poll::Pending
            }
            found => Poll::Ready(found),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(berth) = self.berth {
            let old = self.log.inner.lock().sleepers.leave(berth);
            drop(old);
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("log", &self.log.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
