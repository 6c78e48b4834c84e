//! The one place where facts change: a record is applied. Recovery is this, over the stored records.

use std::sync::Arc;

use fanin_protocol::{About, Entry, Fence, Record, Seq};

use crate::state::{Facts, GroupKey, JobKey};

mod find;
mod group;
mod job;
mod run;
mod session;
mod taken;

/// A record that cannot follow the ones before it. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq} `{kind}` cannot follow: {why}")]
pub struct FoldError {
    /// The record's place.
    pub seq: Seq,
    /// Its kind.
    pub kind: &'static str,
    /// Which rule it breaks.
    pub why: &'static str,
}

/// What the writer of a record knows of where things are. It is checked, and only saves the way over the ids.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Near {
    /// Nothing.
    Unknown,
    /// The job that the record is about.
    Job(JobKey),
    /// The open group that a job joins.
    Group(GroupKey),
}

impl Near {
    pub(crate) const fn job(self) -> Option<JobKey> {
        match self {
            Self::Job(key) => Some(key),
            Self::Unknown | Self::Group(_) => None,
        }
    }
}

/// What a record is about, and which run.
pub(crate) type Subject = (Arc<About>, Option<Fence>);

pub(crate) type Applied = Result<Subject, &'static str>;

impl Facts {
    /// Applies a record and says what it is about.
    ///
    /// # Errors
    ///
    /// [`FoldError`] where the record does not fit the facts (J-15); they are as before.
    pub fn apply(&mut self, seq: Seq, ts_ms: u64, record: &Record) -> Result<Subject, FoldError> {
        self.apply_near(seq, ts_ms, record, Near::Unknown)
    }

    /// As [`Facts::apply`], by one who knows something of it.
    pub(crate) fn apply_near(
        &mut self,
        seq: Seq,
        ts_ms: u64,
        record: &Record,
        hint: Near,
    ) -> Result<Subject, FoldError> {
        let about = if seq != self.head.next() {
            Err("its place is not the next one")
        } else if ts_ms < self.ts_ms {
            Err("its time is before that of the record before it")
        } else {
            self.touch_before(record, hint);
            self.apply_body(seq, ts_ms, record, hint)
        };
        let about = about.map_err(|why| FoldError { seq, kind: record.kind(), why })?;
        self.head = seq;
        self.ts_ms = ts_ms;
        Ok(about)
    }

    /// Folds a log from its beginning.
    ///
    /// # Errors
    ///
    /// [`FoldError`] of the first record that does not fit.
    pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Self, FoldError> {
        let mut facts = Self::default();
        for entry in entries {
            facts.apply(entry.seq, entry.ts_ms, &entry.record)?;
        }
        Ok(facts)
    }

    fn apply_body(&mut self, seq: Seq, ts_ms: u64, record: &Record, hint: Near) -> Applied {
        match record {
            Record::StoreOpened(body) => {
                self.log.get_or_insert_with(|| body.log.clone());
                self.epoch = seq;
                self.closed = false;
                Ok(nothing())
            }
            Record::StoreClosed(_) => {
                self.closed = true;
                Ok(nothing())
            }
            Record::SessionOpened(body) => self.session_opened(&body.session, body.bounds),
            Record::SessionClosed(body) => self.session_closed(&body.session),
            Record::JobQueued(body) => self.job_queued(seq, ts_ms, body, hint),
            Record::JobStopping(body) => self.job_stopping(body, hint),
            Record::JobEnded(body) => self.job_ended(ts_ms, body, hint),
            Record::RunStarted(body) => self.run_started(Fence(seq.0), ts_ms, body, hint),
            Record::RunBound(body) => self.run_bound(body.run, hint),
            Record::RunEnded(body) => self.run_ended(body, hint),
            Record::ToolPart(part) => self.part(part, hint),
            Record::GroupSealed(body) => self.group_sealed(ts_ms, body),
            Record::GroupFired(body) => self.group_fired(seq, body),
            Record::GroupVoided(body) => self.group_voided(body),
            Record::MessagePosted(body) => self.message_posted(seq, body),
            Record::MessageTaken(body) => self.message_taken(body),
            Record::LimitsSet(body) => self.limits_set(body, hint),
            Record::Note(body) => {
                let job = body.job.as_ref().and_then(|id| self.about_noted(id, body.run));
                let group = || self.group_key(body.details.as_ref()?.group.as_ref()?);
                let about = job.or_else(|| group().map(|key| self.about_group(key).0));
                Ok((about.unwrap_or_default(), body.run))
            }
            Record::Usage(body) => self.used(body, hint),
            // No command of this version produces it; an older reader of it would be this one.
            Record::MessageSent(_) => Err("this version does not know what follows from it"),
        }
    }
}

/// A record about the log itself.
fn nothing() -> Subject {
    (Arc::default(), None)
}

/// All of these, where each is there and none twice.
pub(crate) fn distinct<K: Copy + Ord>(keys: impl Iterator<Item = Option<K>>) -> Option<Vec<K>> {
    let keys = keys.collect::<Option<Vec<K>>>()?;
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    sorted.dedup();
    (sorted.len() == keys.len()).then_some(keys)
}

fn next_key(len: usize) -> Result<u32, &'static str> {
    u32::try_from(len).map_err(|_| "more than four thousand million of a kind")
}
