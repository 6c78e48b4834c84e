//! A record as bytes: an envelope with the kind as a string and the body raw, so that a reader keeps what a newer
//! writer wrote.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event::{About, Entry, Within};
use crate::id::{Fence, GroupId, JobId, Lifetime, Seq, SessionId};
use crate::limits::NESTING_MAX;
use crate::record::Record;

/// The version of the envelope's own layout.
pub const FORMAT_VERSION: u16 = 1;

/// The kind of an envelope that stands in for a record that was lost. It is ignorable and has no body.
pub const LOST_KIND: &str = "lost";

/// Why bytes are not a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The envelope cannot be read.
    #[error("broken envelope: {0}")]
    Envelope(#[source] rmp_serde::decode::Error),
    /// The envelope has a layout that this program does not know.
    #[error("envelope format {found} is newer than {FORMAT_VERSION}, the newest this program reads")]
    Newer {
        /// Its format version.
        found: u16,
    },
    /// The kind is known and its body cannot be read.
    #[error("broken body of `{kind}`: {source}")]
    Body {
        /// The kind.
        kind: String,
        /// What is wrong.
        source: rmp_serde::decode::Error,
    },
}

/// A record as it is stored and sent. Unknown kinds keep their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Format version of this layout.
    pub v: u16,
    /// Place in the log.
    pub seq: Seq,
    /// Time in milliseconds since the Unix epoch; never falls (C-8).
    pub ts_ms: u64,
    /// The record's kind.
    pub kind: String,
    /// True where a reader that does not know the kind may go on without it.
    pub ignorable: bool,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Ids::is_empty")]
    pub ids: Ids,
    /// The body in MessagePack with field names.
    #[serde(with = "raw")]
    pub body: Bytes,
}

/// The ids that a record is about, beside those in its body: a `run.ended` names its run alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// The session at the root of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The group, or that of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Which life of the job's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lifetime>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Fence>,
}

impl Ids {
    fn of(entry: &Entry) -> Self {
        let About { within, job, lifetime } = &*entry.about;
        let (session, group) = match within.as_deref() {
            Some(Within { session, group }) => (session.clone(), group.clone()),
            None => (None, None),
        };
        Self { session, group, job: job.clone(), lifetime: *lifetime, run: entry.run }
    }

    /// True where it is about the log itself.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The ids as bytes, for a store that keeps them beside the body.
    ///
    /// # Errors
    ///
    /// [`rmp_serde::encode::Error`] where a value cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, rmp_serde::encode::Error> {
        rmp_serde::to_vec_named(self)
    }

    /// Reads what [`Ids::encode`] made.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Envelope`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        bounded(bytes).map_err(DecodeError::Envelope)
    }
}

pub(crate) mod raw {
    use bytes::Bytes;
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(body: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(body)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        struct Raw;
        impl Visitor<'_> for Raw {
            type Value = Bytes;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes::copy_from_slice(bytes))
            }
            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
                Ok(bytes.into())
            }
        }
        deserializer.deserialize_byte_buf(Raw)
    }
}

impl Envelope {
    /// Wraps an entry of the log.
    ///
    /// # Errors
    ///
    /// As [`Record::encode_body`].
    pub fn wrap(entry: &Entry) -> Result<Self, rmp_serde::encode::Error> {
        Self::wrap_with(entry, &mut Encoder::default())
    }

    /// As [`Envelope::wrap`], for one of many.
    ///
    /// # Errors
    ///
    /// As [`Record::encode_body`].
    pub fn wrap_with(entry: &Entry, encoder: &mut Encoder) -> Result<Self, rmp_serde::encode::Error> {
        Ok(Self {
            v: FORMAT_VERSION,
            seq: entry.seq,
            ts_ms: entry.ts_ms,
            kind: entry.record.kind().to_owned(),
            ignorable: entry.record.is_ignorable(),
            ids: Ids::of(entry),
            body: entry.record.encode_body_with(encoder)?,
        })
    }

    /// The bytes of the envelope.
    ///
    /// # Errors
    ///
    /// [`rmp_serde::encode::Error`] where a value cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, rmp_serde::encode::Error> {
        rmp_serde::to_vec_named(self)
    }

    /// Reads an envelope; its body is not looked at.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Envelope`] and [`DecodeError::Newer`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let envelope: Self = bounded(bytes).map_err(DecodeError::Envelope)?;
        if envelope.v > FORMAT_VERSION {
            return Err(DecodeError::Newer { found: envelope.v });
        }
        Ok(envelope)
    }

    /// The entry of the log; `None` where this program does not know the kind.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Body`].
    pub fn entry(&self) -> Result<Option<Entry>, DecodeError> {
        let Some(record) = self.record()? else { return Ok(None) };
        let Ids { session, group, job, lifetime, run } = self.ids.clone();
        let within = (session.is_some() || group.is_some()).then(|| Arc::new(Within { session, group }));
        let about = Arc::new(About { within, job, lifetime });
        Ok(Some(Entry { seq: self.seq, ts_ms: self.ts_ms, about, run, record }))
    }

    /// The typed record; `None` where this program does not know the kind.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Body`].
    pub fn record(&self) -> Result<Option<Record>, DecodeError> {
        Record::decode(&self.kind, &self.body)
    }
}

/// Encodes one thing after another, each into bytes of just its size: to grow those a little at a time takes longer than
/// the encoding.
#[derive(Debug, Default)]
pub struct Encoder {
    room: Vec<u8>,
    /// Where the next thing goes, and the size of the next block; 0 where each has memory of its own.
    block: BytesMut,
    next: usize,
}

/// The first block is for a few small things, the last for as many as come.
const BLOCKS: std::ops::RangeInclusive<usize> = 2 * 1024..=64 * 1024;

impl Encoder {
    /// One for things that go together: those that are small share blocks of memory. A block is free again once the last
    /// thing in it is.
    pub fn for_batch() -> Self {
        Self { next: *BLOCKS.start(), ..Self::default() }
    }

    /// MessagePack with field names.
    ///
    /// # Errors
    ///
    /// [`rmp_serde::encode::Error`] where a value cannot be encoded, such as a path that is no UTF-8.
    pub fn encode(&mut self, value: &impl Serialize) -> Result<Bytes, rmp_serde::encode::Error> {
        let len = self.encode_here(value)?.len();
        // What is large would leave much of a block unused.
        if len > self.next / 4 {
            return Ok(Bytes::copy_from_slice(&self.room));
        }
        if self.block.capacity() < len {
            self.block = BytesMut::with_capacity(self.next);
            self.next = (self.next * 2).min(*BLOCKS.end());
        }
        self.block.extend_from_slice(&self.room);
        Ok(self.block.split().freeze())
    }

    /// As [`Encoder::encode`], for bytes that are not kept.
    ///
    /// # Errors
    ///
    /// As [`Encoder::encode`].
    pub fn encode_here(&mut self, value: &impl Serialize) -> Result<&[u8], rmp_serde::encode::Error> {
        self.room.clear();
        rmp_serde::encode::write_named(&mut self.room, value)?;
        Ok(&self.room)
    }
}

pub(crate) fn decode_body<T: DeserializeOwned>(kind: &str, body: &Bytes) -> Result<T, DecodeError> {
    bounded(body).map_err(|source| DecodeError::Body { kind: kind.to_owned(), source })
}

/// Decodes with a bound on nesting, so that hostile bytes end in an error and not in an exhausted stack.
fn bounded<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(NESTING_MAX);
    T::deserialize(&mut reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_of_a_batch_are_encoded_as_each_alone() {
        let texts: Vec<String> = [3, 500, 0, 511, 600, 20_000].iter().map(|len| "x".repeat(*len)).collect();
        let mut together = Encoder::for_batch();
        // More than the largest block holds, all of it kept.
        let encoded: Vec<(&String, Bytes)> =
            texts.iter().cycle().take(2_000).map(|text| (text, together.encode(text).unwrap())).collect();
        for (text, bytes) in encoded {
            assert_eq!(bytes, Encoder::default().encode(text).unwrap(), "{}", text.len());
            assert_eq!(rmp_serde::from_slice::<String>(&bytes).unwrap(), *text);
        }
    }

    #[test]
    fn small_things_lie_together_and_large_ones_alone() {
        let mut encoder = Encoder::for_batch();
        let mut encode = |len: usize| encoder.encode(&"x".repeat(len)).unwrap().as_ptr().addr();
        let (one, large, next) = (encode(100), encode(10_000), encode(100));
        assert_eq!(next - one, 102, "the header of such a text has two bytes");
        assert!(large.abs_diff(one) > 2_048, "{large} is in the block of {one}");
    }
}
