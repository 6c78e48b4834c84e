//! What a job put out: all that was kept, and the excerpt that a record may hold.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use fanin_protocol::limits::RESULT_ENTRY_BYTES_MAX;
use fanin_protocol::{Output, Private, text};

use crate::head_tail;
use crate::journal::StoredOutput;
use crate::page::{Kept, OutputPage};

/// Output of a job as it was kept. Bytes are kept as they came; text is made from them when it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutput {
    bytes: Bytes,
    bytes_total: u64,
    truncated: bool,
    /// Which bytes of the stream these are; `None` for an excerpt, where nobody can tell any more.
    kept: Option<Kept>,
}

impl JobOutput {
    /// Output that was kept whole.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let bytes_total = bytes.len() as u64;
        Self { bytes, bytes_total, truncated: false, kept: Some(Kept::whole(bytes_total)) }
    }

    /// Head and tail, joined by a marker.
    pub(crate) fn cut(bytes: Vec<u8>, kept: Kept) -> Self {
        Self { bytes: bytes.into(), bytes_total: kept.total, truncated: true, kept: Some(kept) }
    }

    /// The bytes that were kept.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Bytes that were put out in all.
    pub const fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// True where [`JobOutput::bytes`] is not all of it.
    pub const fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// The bytes as text; what is no UTF-8 is shown as U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// The excerpt of a record, as output.
    pub(crate) fn of_excerpt(excerpt: &Output) -> Self {
        let text = excerpt.text.reveal().map_or("", |text| text);
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let Output { bytes_total, truncated, invalid_utf8, .. } = *excerpt;
        let kept = (!truncated && !invalid_utf8).then(|| Kept::whole(bytes_total));
        Self { bytes, bytes_total, truncated, kept }
    }

    /// A part of it; `None` where only an excerpt is left.
    pub(crate) fn page(&self, asked: u64, max: usize) -> Option<OutputPage> {
        let kept = self.kept?;
        Some(kept.page(asked, max, |Range { start, end }| {
            // The tail is at the end of the bytes, whatever stands before it.
            let before = if start < kept.head { 0 } else { kept.total - self.bytes.len() as u64 };
            let place = |at: u64| usize::try_from(at - before).unwrap_or(usize::MAX);
            if start < end { self.bytes.slice(place(start)..place(end)) } else { Bytes::new() }
        }))
    }

    /// True where only the excerpt of a record is left: text, in which what is no UTF-8 was replaced, and which has a marker
    /// for what was left out.
    pub const fn is_excerpt(&self) -> bool {
        self.kept.is_none()
    }

    /// The pieces that are kept, in order, each with the place of its first byte and without a marker; of an excerpt, the
    /// whole of it.
    pub fn pieces(&self) -> Vec<(u64, Bytes)> {
        let Some(Kept { head, tail, total }) = self.kept.filter(|kept| !kept.is_whole()) else {
            return vec![(0, self.bytes.clone())];
        };
        let len = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(self.bytes.len());
        let pieces = [
            (0, self.bytes.slice(..len(head))),
            (tail, self.bytes.slice(self.bytes.len() - len(total - tail)..)),
        ];
        pieces.into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect()
    }

    /// What a store kept: pieces that begin the output, and pieces that end it.
    pub(crate) fn of_stored(stored: &StoredOutput) -> Self {
        let mut bytes = Vec::new();
        let (mut head, mut tail, mut end) = (None, stored.total, 0);
        for (at, piece) in &stored.pieces {
            if *at > end {
                bytes.extend_from_slice(head_tail::marker(*at - end).as_bytes());
                (head, tail) = (head.or(Some(end)), *at);
            }
            bytes.extend_from_slice(piece);
            end = *at + piece.len() as u64;
        }
        let kept = head.map_or(Kept::whole(end), |head| Kept { head, tail, total: stored.total });
        if kept.is_whole() { Self::whole(bytes) } else { Self::cut(bytes, kept) }
    }

    /// The excerpt for a record; `None` where there was no output.
    pub(crate) fn excerpt(&self) -> Option<Output> {
        if self.bytes_total == 0 {
            return None;
        }
        let text = self.text();
        let kept: Arc<str> = text::excerpt(&text, RESULT_ENTRY_BYTES_MAX).into();
        Some(Output {
            truncated: self.truncated || kept.len() < text.len(),
            invalid_utf8: matches!(text, Cow::Owned(_)),
            text: Private::new(kept),
            bytes_total: self.bytes_total,
        })
    }
}

impl Default for JobOutput {
    fn default() -> Self {
        Self::whole(Bytes::new())
    }
}

impl From<&str> for JobOutput {
    fn from(text: &str) -> Self {
        Self::whole(text.as_bytes().to_vec())
    }
}

impl From<String> for JobOutput {
    fn from(text: String) -> Self {
        Self::whole(text)
    }
}

impl From<Vec<u8>> for JobOutput {
    fn from(bytes: Vec<u8>) -> Self {
        Self::whole(bytes)
    }
}

impl From<()> for JobOutput {
    fn from((): ()) -> Self {
        Self::default()
    }
}
