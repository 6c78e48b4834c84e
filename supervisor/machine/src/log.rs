//! The newest records in memory, and cursors that read them.
//!
//! The one writer appends and never waits for a reader beyond a lock that is held for a few moves of pointers. A
//! reader keeps its own place, so a slow one costs only itself: it is told from where it can go on. Nothing here
//! filters, and nothing that must happen depends on a record being read.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::vec::Drain;
use std::{fmt, mem};

use fanin_protocol::limits::{READ_BATCH, WAKES_AT_ONCE};
use fanin_protocol::{Entry, LogId, Seq};

use crate::sync::{Arc, Mutex};

mod herald;
mod segment;
mod sleepers;

pub use herald::Herald;
use herald::Heralds;
use segment::Held;
pub use segment::{EncodeError, Entries, Form, Shared};
use sleepers::Sleepers;

/// The tail of a log: at least the newest `tail` records, and at most one segment more.
pub struct Log {
    id: LogId,
    /// Records that are kept at the least.
    tail: u64,
    /// Records of a segment at the most.
    width: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    id: LogId,
    /// Contiguous, oldest first. Each is shared with readers; only to the newest more may come.
    segments: VecDeque<Held>,
    /// The newest records, which no reader has asked for yet.
    open: Vec<Entry>,
    /// The oldest record that is kept; the next one to come while there is none.
    oldest: Seq,
    /// The newest record; 0 for none.
    head: Seq,
    closed: bool,
    sleepers: Sleepers,
    heralds: Heralds,
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
        Self::resume(id, tail, Seq(0))
    }

    /// As [`Log::new`], for a log that goes on after a record that is not kept here.
    pub fn resume(id: LogId, tail: usize, head: Seq) -> Self {
        let tail = tail.max(1);
        Self {
            id: id.clone(),
            tail: tail as u64,
            width: tail.min(READ_BATCH),
            inner: Mutex::new(Inner {
                id,
                segments: VecDeque::new(),
                open: Vec::new(),
                oldest: head.next(),
                head,
                closed: false,
                sleepers: Sleepers::default(),
                heralds: Heralds::default(),
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

    /// Appends a batch, then wakes the readers that sleep, once each. Where there are many of them and a [`Herald`], it
    /// wakes the herald instead.
    ///
    /// For the one writer: batches must not overlap in time, their `seq` goes on from the head without a gap, and
    /// nothing comes after [`Log::close`]. Readers may see the front of a long batch before its end is there. The
    /// batch is left empty with its room, to be filled again.
    pub fn append(&self, batch: &mut Vec<Entry>) {
        // Of a batch that is longer than all that is kept, the front would be gone with its end.
        let kept = usize::try_from(self.tail).unwrap_or(usize::MAX).saturating_add(self.width);
        let passed = batch.len().saturating_sub(kept);
        if passed > 0 {
            let cut = self.inner.lock().pass(passed as u64);
            drop(cut);
            drop(batch.drain(..passed));
        }
        let mut rest = batch.drain(..);
        while rest.len() > 0 {
            let mut inner = self.inner.lock();
            inner.fill(&mut rest, self.width);
            let cut = inner.cut(self.tail);
            // The last part takes the sleepers: whoever lay down between two parts is among them.
            let wakers = if rest.len() == 0 { inner.wakers() } else { Vec::new() };
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
            let mut wakers = inner.sleepers.take();
            wakers.extend(inner.heralds.call());
            wakers
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
    /// Moves entries in until the open segment is full.
    fn fill(&mut self, rest: &mut Drain<'_, Entry>, width: usize) {
        debug_assert!(!self.closed, "log: {} after the end", self.head.next());
        let room = width.saturating_sub(self.open.len()).min(rest.len());
        self.open.reserve(room);
        for entry in rest.take(room) {
            debug_assert_eq!(entry.seq, self.head.next(), "log: a record out of its place");
            self.head = self.head.next();
            self.open.push(entry);
        }
        if self.open.len() >= width {
            self.share(width);
        }
    }

    /// Counts records that are not kept, and takes out all before them. The caller drops these without the lock.
    fn pass(&mut self, records: u64) -> (VecDeque<Held>, Vec<Entry>) {
        self.head = Seq(self.head.0 + records);
        self.oldest = self.head.next();
        (mem::take(&mut self.segments), mem::take(&mut self.open))
    }

    /// Makes the newest records part of a segment that readers can share. They need no lock to read it, and the writer
    /// none of theirs: what is shared never changes.
    fn share(&mut self, width: usize) {
        let entries = mem::take(&mut self.open);
        let Some(first) = entries.first().map(|entry| entry.seq) else { return };
        match self.segments.back_mut() {
            Some(newest) if newest.has_room(entries.len(), width) => newest.add(entries),
            _ => self.segments.push_back(Held::new(self.id.clone(), first, entries)),
        }
    }

    /// Takes out the oldest segments if enough is kept without them. The caller drops them without the lock.
    fn cut(&mut self, tail: u64) -> Vec<Held> {
        let mut cut = Vec::new();
        while let Some(first) = self.segments.front()
            && self.head.0 >= first.end().0.saturating_add(tail)
        {
            self.oldest = first.end().next();
            cut.extend(self.segments.pop_front());
        }
        cut
    }

    /// Whom an append has to wake.
    fn wakers(&mut self) -> Vec<Waker> {
        // Under loom even one goes to the herald: a few readers are all that it can try.
        let few = if cfg!(loom) { 0 } else { WAKES_AT_ONCE };
        if self.sleepers.asleep <= few || !self.heralds.is_there() {
            return self.sleepers.take();
        }
        self.heralds.call().into_iter().collect()
    }

    fn read(&mut self, after: Seq, max: usize, width: usize) -> Read {
        if after >= self.head {
            return if self.closed { Read::Closed } else { Read::UpToDate };
        }
        if after.next() < self.oldest {
            return Read::Behind { oldest: self.oldest };
        }
        if self.segments.back().is_none_or(|last| last.end() <= after) {
            self.share(width);
        }
        // Who keeps up reads the newest; the others are looked up.
        let newest = self.segments.back().filter(|last| last.first() <= after.next());
        let found = newest.or_else(|| {
            let index = self.segments.partition_point(|segment| segment.end() <= after);
            self.segments.get(index)
        });
        let Some(segment) = found else {
            debug_assert!(false, "log: no segment for {}", after.next());
            return Read::Behind { oldest: self.oldest };
        };
        Read::Entries(Entries::new(segment, after.next(), max.max(1)))
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
