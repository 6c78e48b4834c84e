//! An entry of the log, and a place in it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Fence, GroupId, IdError, JobId, Lifetime, LogId, Seq, SessionId};
use crate::record::Record;

/// What a record is about, as far as its writer knows it: how events are told apart without the machine's state.
///
/// A `run.ended` names its run alone; only the machine knows whose run that is, so it says so here. A part that
/// does not apply is `None`, also where several would: one `message.taken` may close the messages of many groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Where it belongs; shared by all jobs of a group.
    pub within: Option<Arc<Within>>,
    /// The job.
    pub job: Option<JobId>,
    /// Which life of that job's id.
    pub lifetime: Option<Lifetime>,
}

/// Where a thing belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Within {
    /// The session at the root of it.
    pub session: Option<SessionId>,
    /// The job's group, or the group itself.
    pub group: Option<GroupId>,
}

impl About {
    /// A session, or a group of one.
    pub fn of(session: Option<SessionId>, group: Option<GroupId>) -> Self {
        Self { within: Some(Arc::new(Within { session, group })), ..Self::default() }
    }

    /// The session at the root of it.
    pub fn session(&self) -> Option<&SessionId> {
        self.within.as_ref()?.session.as_ref()
    }

    /// The job's group, or the group itself.
    pub fn group(&self) -> Option<&GroupId> {
        self.within.as_ref()?.group.as_ref()
    }
}

/// One record at its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place, contiguous from 1.
    pub seq: Seq,
    /// Its time in milliseconds since the Unix epoch; never falls.
    pub ts_ms: u64,
    /// What it is about, shared by all records of one job.
    pub about: Arc<About>,
    /// The run that it is about: of the job, or the turn of the session.
    pub run: Option<Fence>,
    /// The fact.
    pub record: Record,
}

/// The document of an event; its field order is the one people read.
#[derive(Serialize)]
struct Document<'a> {
    log: &'a LogId,
    seq: Seq,
    ts_ms: u64,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<Lifetime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Fence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a GroupId>,
    body: serde_json::Value,
}

impl Entry {
    /// The entry as a `fanin.event/1` document, without prompts and outputs (B-10).
    ///
    /// Ids that do not apply are left out.
    ///
    /// # Errors
    ///
    /// As [`Record::json_body`].
    pub fn to_json(&self, log: &LogId) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::to_value(Document {
            log,
            seq: self.seq,
            ts_ms: self.ts_ms,
            kind: self.record.kind(),
            session: self.about.session(),
            job: self.about.job.as_ref(),
            lifetime: self.about.lifetime,
            run: self.run,
            group: self.about.group(),
            body: self.record.redacted().json_body()?,
        })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::{Next, RunEnded, RunOutcome, StoreClosed};

    // Each record of a fan-out takes the room of the largest: with a quarter more, small groups paid a third more.
    #[test]
    fn what_is_rare_makes_no_record_larger() {
        assert!(size_of::<Entry>() <= 168, "{}", size_of::<Entry>());
    }

    #[test]
    fn a_document_says_what_its_record_is_about_and_shows_no_content() {
        let ended = RunEnded {
            run: Fence(6),
            outcome: RunOutcome::Failed,
            next: Next::Settle,
            cause: None,
            code: None,
            message: Some("the password is swordfish".into()),
            exit: None,
            output: None,
            left: None,
        };
        let about = About {
            job: JobId::parse("scan").ok(),
            lifetime: Some(Lifetime(3)),
            ..About::of(SessionId::parse("main").ok(), GroupId::parse("g").ok())
        };
        let entry =
            Entry { seq: Seq(7), ts_ms: 11, about: about.into(), run: Some(Fence(6)), record: ended.into() };
        assert_eq!(
            entry.to_json(&LogId::parse("log").unwrap()).unwrap(),
            json!({
                "log": "log", "seq": 7, "ts_ms": 11, "kind": "run.ended",
                "session": "main", "job": "scan", "lifetime": 3, "run": 6, "group": "g",
                "body": { "run": 6, "outcome": "failed", "next": "settle" },
            })
        );
    }

    #[test]
    fn what_does_not_apply_is_left_out() {
        let record = StoreClosed { queued: 0 }.into();
        let entry = Entry { seq: Seq(1), ts_ms: 2, about: Arc::default(), run: None, record };
        assert_eq!(
            entry.to_json(&LogId::parse("log").unwrap()).unwrap(),
            json!({ "log": "log", "seq": 1, "ts_ms": 2, "kind": "store.closed", "body": { "queued": 0 } })
        );
    }

    #[test]
    fn a_cursor_reads_back_as_itself() {
        let cursor = Cursor { log: LogId::from_uuid([7; 16]), seq: Seq(42) };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert!(matches!("log".parse::<Cursor>(), Err(CursorError::Form(_))));
        assert!(matches!("log:-1".parse::<Cursor>(), Err(CursorError::Form(_))));
        assert!(matches!("a/b:1".parse::<Cursor>(), Err(CursorError::Log(_))));
    }
}
