//! An entry of the log, and a place in it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{IdError, LogId, Seq};
use crate::record::Record;

/// One record at its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place, contiguous from 1.
    pub seq: Seq,
    /// Its time in milliseconds since the Unix epoch; never falls.
    pub ts_ms: u64,
    /// The fact.
    pub record: Record,
}

impl Entry {
    /// The entry as a `fanin.event/1` document, without prompts and outputs (B-10).
    ///
    /// # Errors
    ///
    /// As [`Record::json_body`].
    pub fn to_json(&self, log: &LogId) -> Result<serde_json::Value, serde_json::Error> {
        Ok(serde_json::json!({
            "log": log,
            "seq": self.seq,
            "ts_ms": self.ts_ms,
            "kind": self.record.kind(),
            "body": self.record.redacted().json_body()?,
        }))
    }
}

/// A place in a log: all up to and with `seq` has been seen. Written `log:seq`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor {
    /// Which log.
    pub log: LogId,
    /// The last place seen; 0 for none.
    pub seq: Seq,
}

/// Why a text is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CursorError {
    /// There is no colon, or no number behind it.
    #[error("cursor `{0}` is not of the form log:seq")]
    Form(String),
    /// The log's name is not one.
    #[error(transparent)]
    Log(#[from] IdError),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.log, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let form = || CursorError::Form(text.to_owned());
        let (log, seq) = text.rsplit_once(':').ok_or_else(form)?;
        Ok(Self { log: LogId::parse(log)?, seq: Seq(seq.parse().map_err(|_| form())?) })
    }
}

impl TryFrom<String> for Cursor {
    type Error = CursorError;

    fn try_from(text: String) -> Result<Self, CursorError> {
        text.parse()
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.to_string()
    }
}
