//! A run of records that readers share. It never changes, so reading it takes no lock.
//!
//! Segments are in std's `Arc` also under loom: they are handed over under the log's lock and nothing depends on when
//! the last one lets go, so loom would only try orders that make no difference.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fanin_protocol::{Entry, LogId, Seq};

/// Times that records may come to a segment. Each reader that keeps up makes the records since the last look a part of
/// their own, and many readers look at many moments: they share the segment all the same.
pub(super) const PARTS: usize = 32;

/// Contiguous records, one at the least. What is in it never changes; more may come behind it.
pub(super) struct Segment {
    log: LogId,
    first: Seq,
    parts: [OnceLock<Part>; PARTS],
}

/// Records that came to a segment at once.
struct Part {
    /// Records of the segment before them.
    before: usize,
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
    const fn new(log: LogId, first: Seq) -> Self {
        Self { log, first, parts: [const { OnceLock::new() }; PARTS] }
    }

    #[expect(
        clippy::indexing_slicing,
        clippy::expect_used,
        reason = "a place is given out by `Entries` alone, of a record that is there and never changes"
    )]
    fn at(&self, place: Place) -> (&Part, &Entry) {
        let part = self.parts[place.part].get().expect("a place in a part that is there");
        (part, &part.entries[place.index])
    }
}

/// A segment as the log's writer holds it, who alone adds to it.
pub(super) struct Held {
    segment: Arc<Segment>,
    parts: usize,
    len: usize,
}

impl Held {
    /// A segment of these records, one at the least.
    pub(super) fn new(log: LogId, first: Seq, entries: Vec<Entry>) -> Self {
        let mut new = Self { segment: Arc::new(Segment::new(log, first)), parts: 0, len: 0 };
        new.add(entries);
        new
    }

    /// True where so many records more have a place in it, of at most `width`.
    pub(super) const fn has_room(&self, more: usize, width: usize) -> bool {
        self.parts < PARTS && self.len.saturating_add(more) <= width
    }

    /// Adds records that go on from its end.
    pub(super) fn add(&mut self, mut entries: Vec<Entry>) {
        // A reader that keeps up makes parts of a few records: they must not hold the room of many.
        entries.shrink_to_fit();
        let added = entries.len();
        let part = Part { before: self.len, entries, encoded: OnceLock::new() };
        let free = self.segment.parts.get(self.parts);
        let is_new = free.is_some_and(|free| free.set(part).is_ok());
        debug_assert!(is_new, "log: a segment without room");
        self.parts += 1;
        self.len += added;
    }

    pub(super) fn first(&self) -> Seq {
        self.segment.first
    }

    /// Its last record.
    pub(super) fn end(&self) -> Seq {
        Seq(self.segment.first.0 + self.len as u64 - 1)
    }
}

/// A reader's share of a segment.
struct Share(Arc<Segment>);

/// Where a record lies in its segment.
#[derive(Debug, Clone, Copy)]
struct Place {
    part: usize,
    /// In the part.
    index: usize,
}

/// Records that were taken over in one lock, in order. Keeps one segment of the log alive and no more.
pub struct Entries {
    segment: Arc<Segment>,
    /// The next record.
    next: Place,
    left: usize,
}

impl Entries {
    /// From a record of the segment on, `max` at the most.
    pub(super) fn new(held: &Held, from: Seq, max: usize) -> Self {
        let segment = &held.segment;
        let before = usize::try_from(from.0 - segment.first.0).unwrap_or(usize::MAX);
        let parts = segment.parts.get(..held.parts).unwrap_or_default();
        let starts = |part: &OnceLock<Part>| part.get().is_some_and(|part| part.before <= before);
        let part = parts.partition_point(starts).saturating_sub(1);
        let start = parts.get(part).and_then(OnceLock::get).map_or(0, |part| part.before);
        let next = Place { part, index: before - start };
        Self { segment: Arc::clone(segment), next, left: held.len.saturating_sub(before).min(max) }
    }

    /// Records that were read elsewhere, contiguous; `None` where there is none.
    pub fn of(log: LogId, entries: Vec<Entry>) -> Option<Self> {
        let first = entries.first()?.seq;
        let count = entries.len();
        Some(Self::new(&Held::new(log, first, entries), first, count))
    }

    /// The next record that somebody wants; those before it are passed over.
    pub fn next_where(&mut self, wanted: impl FnMut(&Entry) -> bool) -> Option<Shared> {
        let place = self.find_next(wanted)?;
        Some(self.share(place))
    }

    /// As [`Entries::next_where`], into a handle that is there, which costs next to nothing where it is one of these
    /// entries: a reader that looks at one record after the other needs no more. False where there is none.
    pub fn next_into(&mut self, shared: &mut Shared, wanted: impl FnMut(&Entry) -> bool) -> bool {
        let Some(place) = self.find_next(wanted) else { return false };
        if Arc::ptr_eq(&shared.share.0, &self.segment) {
            shared.place = place;
        } else {
            *shared = self.share(place);
        }
        true
    }

    #[inline]
    fn find_next(&mut self, mut wanted: impl FnMut(&Entry) -> bool) -> Option<Place> {
        while self.left > 0 {
            let part = self.segment.parts.get(self.next.part)?.get()?;
            let rest = part.entries.get(self.next.index..).unwrap_or_default();
            let rest = rest.get(..self.left).unwrap_or(rest);
            if let Some(passed) = rest.iter().position(&mut wanted) {
                let found = Place { index: self.next.index + passed, ..self.next };
                self.left -= passed + 1;
                self.next.index = found.index + 1;
                return Some(found);
            }
            self.left -= rest.len();
            self.next = Place { part: self.next.part + 1, index: 0 };
        }
        None
    }

    /// A handle of its own: handles are counted there, and not in the one place where all readers would.
    fn share(&self, place: Place) -> Shared {
        Shared { share: Arc::new(Share(Arc::clone(&self.segment))), place }
    }
}

impl Iterator for Entries {
    type Item = Shared;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_where(|_| true)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
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
    place: Place,
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
        let (part, _) = self.share.0.at(self.place);
        let new = || part.entries.iter().map(|_| Encoded::default()).collect();
        let forms = part.encoded.get_or_init(new).get(self.place.index);
        match forms.and_then(|forms| forms.get(form as usize)) {
            Some(bytes) => bytes.get_or_init(|| encode(self)).clone(),
            None => encode(self),
        }
    }
}

impl Deref for Shared {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        self.share.0.at(self.place).1
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
