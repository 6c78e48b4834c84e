//! A run of records that readers share. It never changes, so reading it takes no lock.
//!
//! Segments are in std's `Arc` also under loom: they are handed over under the log's lock and nothing depends on when
//! the last one lets go, so loom would only try orders that make no difference.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fanin_protocol::{Entry, LogId, Seq};

/// Contiguous records, one at the least.
pub(super) struct Segment {
    log: LogId,
    first: Seq,
    entries: Vec<Entry>,
    /// What readers made of the records, one a record; nothing where none asked.
    encoded: OnceLock<Box<[Encoded]>>,
}

/// A record in each form, once somebody asked for it.
type Encoded = [OnceLock<Result<Bytes, EncodeError>>; 2];

/// A form in which readers want the bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An envelope in MessagePack.
    MessagePack = 0,
    /// A document on one line.
    Json = 1,
}

/// A record cannot be written in a form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record cannot be encoded: {0}")]
pub struct EncodeError(pub Arc<str>);

impl Segment {
    pub(super) fn new(log: LogId, first: Seq, mut entries: Vec<Entry>) -> Self {
        // A reader that keeps up makes segments of a few records: they must not hold the room of many.
        entries.shrink_to_fit();
        Self { log, first, entries, encoded: OnceLock::new() }
    }

    pub(super) const fn first(&self) -> Seq {
        self.first
    }

    /// Its last record.
    pub(super) const fn end(&self) -> Seq {
        Seq(self.first.0 + self.entries.len() as u64 - 1)
    }
}

/// A reader's share of a segment.
struct Share(Arc<Segment>);

/// Records that were taken over in one lock, in order. Keeps one segment of the log alive and no more.
pub struct Entries {
    segment: Arc<Segment>,
    /// A share of the segment that is this reader's alone, once it has handed out a record: handles are counted here, and
    /// not in the one place where all readers would.
    own: Option<Arc<Share>>,
    next: usize,
    end: usize,
}

impl Entries {
    /// From a record of the segment on, `max` at the most.
    pub(super) fn new(segment: &Arc<Segment>, from: Seq, max: usize) -> Self {
        let next = usize::try_from(from.0 - segment.first.0).unwrap_or(usize::MAX);
        let end = segment.entries.len().min(next.saturating_add(max));
        Self { segment: Arc::clone(segment), own: None, next, end }
    }

    /// Records that were read elsewhere, contiguous; `None` where there is none.
    pub fn of(log: LogId, entries: Vec<Entry>) -> Option<Self> {
        let first = entries.first()?.seq;
        let count = entries.len();
        Some(Self::new(&Arc::new(Segment::new(log, first, entries)), first, count))
    }

    /// The next record that somebody wants; those before it are passed over.
    pub fn next_where(&mut self, mut wanted: impl FnMut(&Entry) -> bool) -> Option<Shared> {
        let rest = self.segment.entries.get(self.next..self.end).unwrap_or_default();
        let Some(passed) = rest.iter().position(&mut wanted) else {
            self.next = self.end;
            return None;
        };
        let index = self.next + passed;
        self.next = index + 1;
        let own = self.own.get_or_insert_with(|| Arc::new(Share(Arc::clone(&self.segment))));
        Some(Shared { share: Arc::clone(own), index })
    }
}

impl Iterator for Entries {
    type Item = Shared;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_where(|_| true)
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

/// One record of the log, where it lies. Cheap to clone; keeps its segment alive.
#[derive(Clone)]
pub struct Shared {
    share: Arc<Share>,
    /// Below the number of its entries.
    index: usize,
}

impl Shared {
    /// The name of its log.
    pub fn log(&self) -> &LogId {
        &self.share.0.log
    }

    /// The record's bytes in a form: those that another reader has, or what `encode` makes of it now, once for all.
    ///
    /// Readers that ask while another one encodes wait for it. The log's writer never does.
    ///
    /// # Errors
    ///
    /// What `encode` said, to all who ask.
    pub fn bytes(
        &self,
        form: Form,
        encode: impl FnOnce(&Entry) -> Result<Bytes, EncodeError>,
    ) -> Result<Bytes, EncodeError> {
        let segment = &self.share.0;
        let new = || segment.entries.iter().map(|_| Encoded::default()).collect();
        let forms = segment.encoded.get_or_init(new).get(self.index);
        match forms.and_then(|forms| forms.get(form as usize)) {
            Some(bytes) => bytes.get_or_init(|| encode(self)).clone(),
            None => encode(self),
        }
    }
}

impl Deref for Shared {
    type Target = Entry;

    #[expect(
        clippy::indexing_slicing,
        reason = "made by `Entries` alone, below the length of what never changes"
    )]
    fn deref(&self) -> &Entry {
        &self.share.0.entries[self.index]
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Shared {}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
