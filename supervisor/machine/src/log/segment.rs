//! A run of records that readers share. It never changes, so reading it takes no lock.
//!
//! Segments are in std's `Arc` also under loom: they are handed over under the log's lock and nothing depends on when
//! the last one lets go, so loom would only try orders that make no difference.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use fanin_protocol::{Entry, Seq};

/// Contiguous records, one at the least.
pub(super) struct Segment {
    first: Seq,
    entries: Vec<Entry>,
}

impl Segment {
    pub(super) fn new(first: Seq, mut entries: Vec<Entry>) -> Self {
        // A reader that keeps up makes segments of a few records: they must not hold the room of many.
        entries.shrink_to_fit();
        Self { first, entries }
    }

    pub(super) const fn first(&self) -> Seq {
        self.first
    }

    /// Its last record.
    pub(super) const fn end(&self) -> Seq {
        Seq(self.first.0 + self.entries.len() as u64 - 1)
    }
}

/// Records that were taken over in one lock, in order. Keeps one segment of the log alive and no more.
pub struct Entries {
    segment: Arc<Segment>,
    next: usize,
    end: usize,
}

impl Entries {
    /// From a record of the segment on, `max` at the most.
    pub(super) fn new(segment: &Arc<Segment>, from: Seq, max: usize) -> Self {
        let next = usize::try_from(from.0 - segment.first.0).unwrap_or(usize::MAX);
        let end = segment.entries.len().min(next.saturating_add(max));
        Self { segment: Arc::clone(segment), next, end }
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
        Some(Shared { segment: Arc::clone(&self.segment), index })
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
    segment: Arc<Segment>,
    /// Below the number of its entries.
    index: usize,
}

impl Deref for Shared {
    type Target = Entry;

    #[expect(
        clippy::indexing_slicing,
        reason = "made by `Entries` alone, below the length of what never changes"
    )]
    fn deref(&self) -> &Entry {
        &self.segment.entries[self.index]
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
