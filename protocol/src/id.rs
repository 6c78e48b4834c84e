//! Names of things: ids that callers or chance give, and the sequence numbers that tell lives apart.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::limits::ID_BYTES_MAX;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text is empty.
    #[error("an id is empty; use 1 to 64 characters of A-Z a-z 0-9 _ -")]
    Empty,
    /// The text is longer than [`ID_BYTES_MAX`].
    #[error("id `{id}...` has {len} characters; at most 64 are allowed")]
    TooLong {
        /// Its first characters.
        id: String,
        /// Its length in bytes.
        len: usize,
    },
    /// A character is not allowed.
    #[error("id `{id}` holds {found:?}; use only A-Z a-z 0-9 _ -")]
    Character {
        /// The whole text.
        id: String,
        /// The first character that is not allowed.
        found: char,
    },
}

// An id is an id already: what takes anything that may become one takes it too.
impl From<std::convert::Infallible> for IdError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// An id as it is kept: chance gives 16 bytes, a caller gives a short text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Repr {
    Random([u8; 16]),
    Given(Arc<str>),
}

// Not derived: the bytes alone are half of what a derived one would hash, and every job's id is hashed.
impl Hash for Repr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Random(bytes) => state.write(bytes),
            Self::Given(text) => text.hash(state),
        }
    }
}

impl Repr {
    fn parse(text: &str, prefix: &str) -> Result<Self, IdError> {
        if let Some(bytes) = text.strip_prefix(prefix).and_then(hex_16) {
            return Ok(Self::Random(bytes));
        }
        if text.is_empty() {
            return Err(IdError::Empty);
        }
        if text.len() > ID_BYTES_MAX {
            return Err(IdError::TooLong { id: text.chars().take(16).collect(), len: text.len() });
        }
        if let Some(found) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || *c == '_' || *c == '-')) {
            return Err(IdError::Character { id: text.to_owned(), found });
        }
        Ok(Self::Given(text.into()))
    }

    fn begins(&self, prefix: &str, start: &str) -> bool {
        match self {
            Self::Random(bytes) => {
                let digit = |at: usize| {
                    let byte = bytes.get(at / 2)?;
                    char::from_digit(u32::from(if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 }), 16)
                };
                match start.strip_prefix(prefix) {
                    Some(digits) => digits.chars().enumerate().all(|(at, wanted)| digit(at) == Some(wanted)),
                    None => prefix.starts_with(start),
                }
            }
            Self::Given(text) => text.starts_with(start),
        }
    }

    /// The id in one piece, whoever takes it: a `String` that grows for its second piece is allocated twice.
    fn write<R>(&self, prefix: &str, take: impl FnOnce(&str) -> R) -> Result<R, std::str::Utf8Error> {
        match self {
            Self::Random(bytes) => {
                let mut text = [0; PREFIX + 32];
                let (start, digits) = text.split_at_mut(PREFIX);
                start.copy_from_slice(prefix.as_bytes());
                digits.copy_from_slice(&hex(bytes));
                std::str::from_utf8(&text).map(take)
            }
            Self::Given(text) => Ok(take(text)),
        }
    }
}

/// Bytes of each prefix.
const PREFIX: usize = 4;

/// As 32 lowercase hex digits.
fn hex(bytes: &[u8; 16]) -> [u8; 32] {
    let digit = |half: u8| if half < 10 { b'0' + half } else { b'a' + half - 10 };
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    digits
}

/// Reads exactly 32 lowercase hex digits.
fn hex_16(text: &str) -> Option<[u8; 16]> {
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair.iter().try_fold(0u8, |value, digit| {
            let digit = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            Some(value << 4 | digit)
        })?;
    }
    Some(bytes)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        ///
        /// Either `
        #[doc = $prefix]
        /// ` and 32 lowercase hex digits of a random UUID, or a caller's own text of 1 to 64
        /// characters `[A-Za-z0-9_-]` (C-7).
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Repr);

        impl $name {
            /// The id of a random UUID's 16 bytes.
            pub const fn from_uuid(bytes: [u8; 16]) -> Self {
                Self(Repr::Random(bytes))
            }

            /// Reads an id.
            ///
            /// # Errors
            ///
            /// [`IdError`] where the text is empty, too long, or holds another character.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                Repr::parse(text, $prefix).map(Self)
            }

            /// True where the id, as it is written, begins so.
            pub fn begins(&self, start: &str) -> bool {
                self.0.begins($prefix, start)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write($prefix, |text| f.write_str(text)).map_err(|_| fmt::Error)?
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write($prefix, |text| f.write_str(text)).map_err(|_| fmt::Error)?
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = IdError;

            fn try_from(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }

        impl TryFrom<&$name> for $name {
            type Error = IdError;

            fn try_from(id: &$name) -> Result<Self, IdError> {
                Ok(id.clone())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.write($prefix, |text| serializer.serialize_str(text)).map_err(ser::Error::custom)?
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(de::Error::custom)
            }
        }
    };
}

id!(
    /// Names a job.
    JobId,
    "job_"
);
id!(
    /// Names a session: the parent that launches jobs and is woken.
    SessionId,
    "ses_"
);
id!(
    /// Names a group of jobs; also the key of its result's message (BAR-4).
    GroupId,
    "grp_"
);
id!(
    /// Names a message that somebody posts: its key. The result of a group goes by the group's id.
    MessageId,
    "msg_"
);
id!(
    /// Names a log: a cursor of one log means nothing in another (B-7).
    LogId,
    "log_"
);

impl MessageId {
    /// The key of a watch's firing (SC-22).
    pub fn of_firing(watch: Lifetime, number: u32) -> Self {
        Self(Repr::Given(format!("watch-{watch}-{number}").into()))
    }
}

/// A node of the tree: a session or a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeId {
    /// A session.
    Session(SessionId),
    /// A job.
    Job(JobId),
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => id.fmt(f),
            Self::Job(id) => id.fmt(f),
        }
    }
}

/// What an id names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// A session.
    Session(SessionId),
    /// A job.
    Job(JobId),
    /// A group.
    Group(GroupId),
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => write!(f, "session {id}"),
            Self::Job(id) => write!(f, "job {id}"),
            Self::Group(id) => write!(f, "group {id}"),
        }
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        // `#12`: the state search tells sequence numbers from other numbers by this mark.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "#{}", self.0)
            }
        }
    };
}

number!(
    /// The place of a record in its log: contiguous from 1 (C-8). 0 is "before the first".
    Seq
);
number!(
    /// One life of a job's id: the sequence number of its `job.queued`.
    Lifetime
);
number!(
    /// One run of a node: the sequence number of its `run.started`. Every report shows it.
    Fence
);

impl Seq {
    /// The next place.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_id_reads_back_as_itself() {
        let id = JobId::from_uuid([0xab; 16]);
        assert_eq!(id.to_string(), format!("job_{}", "ab".repeat(16)));
        assert_eq!(JobId::parse(&id.to_string()).unwrap(), id);
    }

    #[test]
    fn an_id_begins_as_it_is_written() {
        let bytes = std::array::from_fn(|at| [0x0f, 0xa1, 0x90][at % 3]);
        for id in [JobId::from_uuid(bytes), JobId::parse("scan").unwrap()] {
            let text = id.to_string();
            assert!((0..=text.len()).all(|len| id.begins(&text[..len])), "{text}");
            let longer = format!("{text}0");
            for wrong in ["x", "job_1", "job_0f0", "scan-", "grp_0fa1", longer.as_str()] {
                assert!(!id.begins(wrong), "{text} does not begin with {wrong}");
            }
        }
    }

    #[test]
    fn an_id_of_another_kind_is_only_a_name() {
        let text = GroupId::from_uuid([1; 16]).to_string();
        assert_eq!(JobId::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn bad_ids_say_what_is_wrong() {
        assert_eq!(JobId::parse(""), Err(IdError::Empty));
        assert!(matches!(JobId::parse("a/b"), Err(IdError::Character { found: '/', .. })));
        assert!(matches!(JobId::parse(&"x".repeat(65)), Err(IdError::TooLong { len: 65, .. })));
        assert!(JobId::parse(&"x".repeat(64)).is_ok());
    }

    #[test]
    fn uppercase_hex_is_a_given_name_and_stays_as_it_was_written() {
        let text = format!("job_{}", "AB".repeat(16));
        assert_eq!(JobId::parse(&text).unwrap().to_string(), text);
    }
}
