//! A record as bytes: an envelope with the kind as a string and the body raw, so that a reader keeps what a newer
//! writer wrote.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event::Entry;
use crate::id::Seq;
use crate::limits::NESTING_MAX;
use crate::record::Record;

/// The version of the envelope's own layout.
pub const FORMAT_VERSION: u16 = 1;

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
    /// The body in MessagePack with field names.
    #[serde(with = "raw")]
    pub body: Bytes,
}

mod raw {
    use bytes::Bytes;
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(body: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(body)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
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
        Ok(Self {
            v: FORMAT_VERSION,
            seq: entry.seq,
            ts_ms: entry.ts_ms,
            kind: entry.record.kind().to_owned(),
            ignorable: entry.record.is_ignorable(),
            body: entry.record.encode_body()?.into(),
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

    /// The typed record; `None` where this program does not know the kind.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Body`].
    pub fn record(&self) -> Result<Option<Record>, DecodeError> {
        Record::decode(&self.kind, &self.body)
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
