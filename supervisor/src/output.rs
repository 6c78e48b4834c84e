//! What a job put out: all that was kept, and the excerpt that a record may hold.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use fanin_protocol::limits::RESULT_ENTRY_BYTES_MAX;
use fanin_protocol::{Output, Private, text};

/// Output of a job as it was kept. Bytes are kept as they came; text is made from them when it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobOutput {
    bytes: Bytes,
    bytes_total: u64,
    truncated: bool,
}

impl JobOutput {
    /// Output that was kept whole.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { bytes_total: bytes.len() as u64, bytes, truncated: false }
    }

    /// Head and tail, joined by a marker, of output of `bytes_total` bytes.
    pub fn cut(bytes: impl Into<Bytes>, bytes_total: u64) -> Self {
        Self { bytes: bytes.into(), bytes_total, truncated: true }
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
        Self { bytes, bytes_total: excerpt.bytes_total, truncated: excerpt.truncated }
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
