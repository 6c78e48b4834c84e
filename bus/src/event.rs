//! What a subscription delivers. An event shows ids and facts, and content only to who asks for it by name.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use fanin_machine::log::{EncodeError, Form, Shared};
use fanin_protocol::{
    About, Entry, Envelope, Fence, GroupId, JobId, Lifetime, LogId, Record, Seq, SessionId,
};

/// One record as a subscriber sees it. Cheap to clone; keeps alive the segment of the log in which its
/// record lies, up to [`READ_BATCH`](fanin_protocol::limits::READ_BATCH) records.
#[derive(Clone, PartialEq, Eq)]
pub struct Event(pub(crate) Shared);

impl Event {
    /// Its place in the log, contiguous from 1.
    pub fn seq(&self) -> Seq {
        self.0.seq
    }

    /// Its time in milliseconds since the Unix epoch; never falls from one event to the next.
    pub fn ts_ms(&self) -> u64 {
        self.0.ts_ms
    }

    /// Its kind, such as `job.ended`.
    pub fn kind(&self) -> &'static str {
        self.0.record.kind()
    }

    /// The record. Prompts and outputs in it are [`Private`](fanin_protocol::Private); other texts, such as the
    /// message of a failure, are not, so don't print a record where content must not be shown.
    pub fn record(&self) -> &Record {
        &self.0.record
    }

    /// What it is about, but for the run.
    pub fn about(&self) -> &About {
        &self.0.about
    }

    /// The session at the root of it, where there is one.
    pub fn session(&self) -> Option<&SessionId> {
        self.0.about.session()
    }

    /// The job, where it is about one.
    pub fn job(&self) -> Option<&JobId> {
        self.0.about.job.as_ref()
    }

    /// Which life of the job's id.
    pub fn lifetime(&self) -> Option<Lifetime> {
        self.0.about.lifetime
    }

    /// The run, where it is about one.
    pub fn run(&self) -> Option<Fence> {
        self.0.run
    }

    /// The group, where it is about one or about its member.
    pub fn group(&self) -> Option<&GroupId> {
        self.0.about.group()
    }

    /// The event as one line of JSON, its `fanin.event/1` document with a line feed; without prompts and outputs (B-10).
    ///
    /// It is encoded once, however many subscribers want it, and shared.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] where a value cannot be encoded.
    pub fn json_line(&self) -> Result<Bytes, EncodeError> {
        self.0.bytes(Form::Json, |entry| {
            let mut line =
                serde_json::to_vec(&entry.to_json(self.0.log()).map_err(unencoded)?).map_err(unencoded)?;
            line.push(b'\n');
            Ok(line.into())
        })
    }

    /// The event as an envelope in MessagePack, without prompts and outputs (B-10). It is encoded once, as
    /// [`Event::json_line`].
    ///
    /// # Errors
    ///
    /// [`EncodeError`] where a value cannot be encoded.
    pub fn message_pack(&self) -> Result<Bytes, EncodeError> {
        self.0.bytes(Form::MessagePack, |entry| {
            let record = entry.record.redacted();
            let entry = Entry { record, about: Arc::clone(&entry.about), ..*entry };
            let envelope = Envelope::wrap(&entry).map_err(unencoded)?;
            envelope.encode().map(Bytes::from).map_err(unencoded)
        })
    }

    /// The event as a `fanin.event/1` document of the log that it came from, without prompts and outputs (B-10).
    ///
    /// # Errors
    ///
    /// As [`Record::json_body`].
    pub fn to_json(&self, log: &LogId) -> Result<serde_json::Value, serde_json::Error> {
        self.0.to_json(log)
    }
}

fn unencoded(error: impl fmt::Display) -> EncodeError {
    EncodeError(error.to_string().into())
}

// Not derived: a record's own `Debug` shows labels and the messages of failures.
/// The event, or how many records were missed.
impl<E: fmt::Display> fmt::Display for Delivery<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => event.fmt(f),
            Self::Lagged { from, to, missed } => write!(f, "missed {missed} records, {from} to {to}"),
            Self::Unreadable { at, problem } => write!(f, "record {at} cannot be read: {problem}"),
        }
    }
}

/// One line: place, kind, and the ids that it is about.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seq(), self.kind())?;
        let session = self.session().map(|id| ("session", id as &dyn fmt::Display));
        let group = self.group().map(|id| ("group", id as &dyn fmt::Display));
        let job = self.job().map(|id| ("job", id as &dyn fmt::Display));
        let run = self.0.run.as_ref().map(|run| ("run", run as &dyn fmt::Display));
        [session, group, job, run].into_iter().flatten().try_for_each(|(name, id)| write!(f, " {name}={id}"))
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("seq", &self.0.seq)
            .field("kind", &self.kind())
            .field("about", &self.0.about)
            .finish_non_exhaustive()
    }
}

/// What comes next in a subscription: an [`Event`], or `&Event` where it is lent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery<E = Event> {
    /// A record that the filter lets through.
    Event(E),
    /// The subscriber was too slow, or began too late: these records are no longer kept. The subscription goes on with
    /// the oldest record that is; it is not closed.
    Lagged {
        /// The first record that was missed.
        from: Seq,
        /// The last one.
        to: Seq,
        /// How many: all records of the log from `from` to `to`, since nobody can say which the filter would have let
        /// through.
        missed: u64,
    },
    /// What is kept outside of memory could not be read from this record on. Nothing follows: a later subscription may
    /// try again.
    Unreadable {
        /// The first record that could not be read.
        at: Seq,
        /// Why, in words.
        problem: Arc<str>,
    },
}

impl<E> Delivery<E> {
    /// The same, with something else for the event.
    pub fn map<F>(self, event: impl FnOnce(E) -> F) -> Delivery<F> {
        match self {
            Self::Event(one) => Delivery::Event(event(one)),
            Self::Lagged { from, to, missed } => Delivery::Lagged { from, to, missed },
            Self::Unreadable { at, problem } => Delivery::Unreadable { at, problem },
        }
    }
}

impl Delivery<&Event> {
    /// The same with an event to keep.
    #[must_use]
    pub fn cloned(self) -> Delivery {
        self.map(Event::clone)
    }
}
