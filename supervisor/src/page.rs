//! A page of what a job put out: which bytes are kept, and which of them a reader gets. Nothing here holds any.

use std::ops::Range;

use bytes::Bytes;
use fanin_protocol::limits::OUTPUT_PAGE_BYTES_MAX;

/// A part of a job's output, by offsets into all that its run put out.
///
/// Bytes are given as they came, so a page may begin or end inside a character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPage {
    /// The bytes from `offset` up to `next`; empty where there are none yet, or none any more.
    pub bytes: Bytes,
    /// Where the bytes begin: where the reader asked, or behind what was dropped there.
    pub offset: u64,
    /// Where the next page begins.
    pub next: u64,
    /// Bytes that were put out so far.
    pub total: u64,
    /// What was put out between the place asked for and `offset`, and was not kept. Start and end of a long output are
    /// kept, and what lies between is dropped.
    pub dropped: Option<Range<u64>>,
    /// Which run of the job put it out, counted from 1; 0 before the first.
    pub run: u32,
    /// The job is over: `total` is final.
    pub is_over: bool,
}

impl OutputPage {
    /// True where nothing comes behind this page.
    pub const fn is_last(&self) -> bool {
        self.is_over && self.next >= self.total
    }
}

/// Which bytes of a stream are kept: those before `head`, and those from `tail` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) head: u64,
    pub(crate) tail: u64,
    pub(crate) total: u64,
}

impl Kept {
    /// All of them.
    pub(crate) const fn whole(total: u64) -> Self {
        Self { head: total, tail: total, total }
    }

    pub(crate) const fn is_whole(self) -> bool {
        self.head >= self.tail
    }

    /// The page from `asked` on, of `max` bytes at the most, with bytes from where they are.
    pub(crate) fn page(self, asked: u64, max: usize, bytes: impl FnOnce(Range<u64>) -> Bytes) -> OutputPage {
        let Self { head, tail, total } = self;
        let (offset, end) = match asked {
            asked if asked < head => (asked, head),
            asked if asked < total => (asked.max(tail), total),
            asked => (asked, asked),
        };
        let max = if max == 0 { OUTPUT_PAGE_BYTES_MAX } else { max.min(OUTPUT_PAGE_BYTES_MAX) };
        let next = end.min(offset.saturating_add(max as u64));
        OutputPage {
            bytes: bytes(offset..next),
            offset,
            next,
            total,
            dropped: (asked < offset).then_some(asked..offset),
            run: 0,
            is_over: false,
        }
    }
}
