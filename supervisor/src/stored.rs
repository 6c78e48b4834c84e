//! A store as it is read by somebody who does not own it: its owner may be at work, or dead. Nothing here writes, and
//! nothing is recovered.

use std::sync::Arc;

use fanin_machine::{Facts, JobFilter, Named, State, why};
use fanin_protocol::envelope::LOST_KIND;
use fanin_protocol::limits::{PAGE_JOBS, READ_BATCH, STORED_LOOKS_MAX};
use fanin_protocol::{
    Account, Cause, Entry, Envelope, GroupId, JobId, JobInfo, JobList, LogId, Reason, RowKind, Seq, Status,
};

use crate::clock;
use crate::find::{self, FindError};
use crate::journal::{JournalError, JournalReader, RecordPage, Row};
use crate::output::JobOutput;
use crate::past::Past;

pub use crate::stored_follow::StoredFollow;
pub use fanin_machine::GroupInfo;

/// A place that no log reaches, also where numbers have a sign.
const BEYOND: Seq = Seq(i64::MAX.cast_unsigned());

/// Rows that are read at once.
const ROWS: usize = 1_000;

/// What a store held when it was read.
#[derive(Debug)]
pub struct Stored {
    reader: Arc<dyn JournalReader>,
    state: State,
    is_owned: bool,
}

impl Stored {
    /// Reads a store. `is_owned` says whether a live process has it: without one, nothing of it runs (B22).
    ///
    /// While its owner writes, what is read can be of moments that lie close together: it is read again where that
    /// was so, a few times.
    ///
    /// # Errors
    ///
    /// [`JournalError::Damaged`] and [`JournalError::Io`].
    pub fn read(reader: Arc<dyn JournalReader>, is_owned: bool) -> Result<Self, JournalError> {
        let mut at = look(&*reader)?;
        let mut looks = 1;
        loop {
            let rows = rows(&*reader)?;
            let after = look(&*reader)?;
            if after.head == at.head || looks == STORED_LOOKS_MAX {
                let state = state(&at, &rows)?.lined_up(clock::system_ms());
                return Ok(Self { reader, state, is_owned });
            }
            (at, looks) = (after, looks + 1);
        }
    }

    /// The log's name; `None` where nothing was ever written.
    pub fn log(&self) -> Option<&LogId> {
        self.state.facts().log()
    }

    /// The newest record.
    pub fn head(&self) -> Seq {
        self.state.facts().head()
    }

    /// The time of the newest record, in milliseconds since the Unix epoch: the last that is known where nobody has it.
    pub const fn last_ms(&self) -> u64 {
        self.state.facts().ts_ms()
    }

    /// True where a live process has it.
    pub const fn is_owned(&self) -> bool {
        self.is_owned
    }

    /// True where its owner died: nobody has it, and it was not closed in order.
    pub fn is_interrupted(&self) -> bool {
        let facts = self.state.facts();
        !self.is_owned && facts.epoch() > Seq(0) && !facts.is_closed()
    }

    /// Jobs, oldest first, a page at a time, as [`Supervisor::list`](crate::Supervisor::list).
    pub fn list(&self, filter: &JobFilter) -> JobList {
        // What is shown of a dead owner's job is not what its row says, so it is looked at after that.
        let all = JobFilter { status: None, limit: usize::MAX, ..filter.clone() };
        let jobs = self.state.jobs(&all).jobs.into_iter().map(|job| self.shown(job));
        let mut jobs = jobs.filter(|job| filter.status.is_none_or(|status| status == job.status));
        let limit = if filter.limit == 0 { PAGE_JOBS } else { filter.limit };
        let page = jobs.by_ref().take(limit).collect();
        JobList { jobs: page, next: jobs.next().map(|job| job.lifetime) }
    }

    /// A job as it stands; `None` where the id is not known.
    pub fn get(&self, job: &JobId) -> Option<JobInfo> {
        self.state.job_info(job).map(|job| self.shown(job))
    }

    /// Groups, oldest first.
    pub fn groups(&self) -> impl Iterator<Item = GroupInfo> {
        self.state.group_infos()
    }

    /// A group as it stands; `None` where the id is not known.
    pub fn group(&self, group: &GroupId) -> Option<GroupInfo> {
        self.state.group_info(group)
    }

    /// How the account of a session, a group or a job stands; `None` where the id is not known.
    pub fn account(&self, of: &Named) -> Option<Account> {
        self.state.account(of).ok()
    }

    /// What a job waits for; empty once it is over.
    pub fn why(&self, job: &JobId) -> Vec<Reason> {
        self.get(job).map(|info| info.why).unwrap_or_default()
    }

    /// What a group or its wake waits for; empty once nothing is owed.
    pub fn why_group(&self, group: &GroupId) -> Vec<Reason> {
        let reasons = why::group(&self.state, group);
        if self.is_interrupted() && !reasons.is_empty() { vec![Reason::Unowned] } else { reasons }
    }

    /// What is kept of a job's output, that of its newest run: all of it, or the excerpt of its record. Of a job that
    /// runs, or ran when its owner died, it is what the store was told, which is all but the last
    /// [`OUTPUT_SAVE_EVERY`](fanin_protocol::limits::OUTPUT_SAVE_EVERY) of it. `None` where the id is not known.
    ///
    /// # Errors
    ///
    /// [`JournalError::Damaged`] and [`JournalError::Io`].
    pub fn output(&self, job: &JobId) -> Result<Option<JobOutput>, JournalError> {
        let Some(info) = self.state.job_info(job) else { return Ok(None) };
        if let Some(stored) = self.reader.output(info.lifetime)? {
            return Ok(Some(JobOutput::of_stored(&stored)));
        }
        // What was at work as the rows were read may have ended since, and then its record has all of it.
        let excerpt = if info.status.is_terminal() {
            self.state.output_of(info.lifetime)
        } else {
            Past::find(&*self.reader, &[(job.clone(), Some(info.lifetime))])?.state.output_of(info.lifetime)
        };
        Ok(Some(excerpt.as_ref().map(JobOutput::of_excerpt).unwrap_or_default()))
    }

    /// Reads a job's output as its owner writes it, from an offset on. `None` where the id is not known.
    pub fn follow(&self, job: &JobId, from: u64) -> Option<StoredFollow> {
        let lifetime = self.state.job_info(job)?.lifetime;
        Some(StoredFollow::new(Arc::clone(&self.reader), job.clone(), lifetime, from))
    }

    /// Finds a session, a job or a group, as [`Supervisor::find`](crate::Supervisor::find).
    ///
    /// # Errors
    ///
    /// [`FindError`].
    pub fn find(&self, start: &str) -> Result<Named, FindError> {
        find::find_in(&self.state, start)
    }

    /// Its records from the first that is kept on.
    pub fn records(&self) -> Records {
        Records::new(Arc::clone(&self.reader))
    }

    /// A job as it stands without an owner: what ran does not run.
    fn shown(&self, job: JobInfo) -> JobInfo {
        if !self.is_interrupted() || job.status.is_terminal() {
            return job;
        }
        let (status, cause, reason) = match job.status {
            Status::Queued => (Status::Queued, None, Reason::Unowned),
            Status::Running | Status::Completed | Status::Error | Status::Cancelled => {
                (Status::Error, Some(Cause::Interrupted), Reason::NotRecovered)
            }
        };
        JobInfo { status, cause, phase: Some(reason.phase().to_owned()), why: vec![reason], ..job }
    }
}

/// Where a log is.
fn look(reader: &dyn JournalReader) -> Result<RecordPage, JournalError> {
    let page = reader.page(BEYOND, 1)?;
    // The last record has the time of the newest fact.
    if page.head == Seq(0) { Ok(page) } else { reader.page(page.head, 1) }
}

/// All rows. What names others is read before them: nothing that was there when it was read is gone later.
fn rows(reader: &dyn JournalReader) -> Result<Vec<Vec<Row>>, JournalError> {
    let mut all = Vec::new();
    for kind in RowKind::ALL.into_iter().rev() {
        all.push(rows_of(reader, kind)?);
    }
    all.reverse();
    Ok(all)
}

fn rows_of(reader: &dyn JournalReader, kind: RowKind) -> Result<Vec<Row>, JournalError> {
    let (mut rows, mut from) = (Vec::new(), 0);
    loop {
        let page = reader.rows(kind, from, ROWS)?;
        let Some(last) = page.last().map(|row| row.key) else { return Ok(rows) };
        from = last + 1;
        rows.extend(page);
    }
}

fn state(at: &RecordPage, rows: &[Vec<Row>]) -> Result<State, JournalError> {
    let ts_ms = at.records.last().map_or(0, |record| record.ts_ms);
    let seen = rows.iter().flatten().map(|row| (row.kind, row.key, &*row.body));
    State::seen(at.log.clone(), at.head, ts_ms, seen).map_err(|error| damaged(at.log.as_ref(), &error))
}

fn damaged(log: Option<&LogId>, error: &dyn std::fmt::Display) -> JournalError {
    let store = log.map(ToString::to_string).unwrap_or_default();
    JournalError::Damaged { store, damage: error.to_string() }
}

/// What comes next in a store's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredRecord {
    /// A record, and what it is about.
    Known(Entry),
    /// A newer program wrote it, and it may be passed over.
    Unknown {
        /// Its place.
        seq: Seq,
        /// Its time, in milliseconds since the Unix epoch.
        ts_ms: u64,
        /// Its kind.
        kind: String,
    },
    /// These records are no longer kept, or were lost.
    Gap {
        /// The first of them.
        from: Seq,
        /// The last of them.
        to: Seq,
    },
}

impl StoredRecord {
    const fn is_gap(&self) -> bool {
        matches!(self, Self::Gap { .. })
    }
}

/// The records of a store in order, a page at a time, each with what it is about as its writer has told the store.
#[derive(Debug)]
pub struct Records {
    reader: Arc<dyn JournalReader>,
    next: Seq,
    head: Seq,
    log: Option<LogId>,
}

impl Records {
    fn new(reader: Arc<dyn JournalReader>) -> Self {
        Self { reader, next: Seq(1), head: Seq(0), log: None }
    }

    /// The log's name; `None` before the first page.
    pub const fn log(&self) -> Option<&LogId> {
        self.log.as_ref()
    }

    /// The newest record that there was when the last page was read.
    pub const fn head(&self) -> Seq {
        self.head
    }

    /// The next records; none where all that is there was read. Later there may be more.
    ///
    /// # Errors
    ///
    /// [`JournalError::Damaged`] and [`JournalError::Io`].
    pub fn page(&mut self) -> Result<Vec<StoredRecord>, JournalError> {
        let page = self.reader.page(self.next, READ_BATCH)?;
        let mut found = Vec::new();
        if page.oldest > self.next {
            found.push(StoredRecord::Gap { from: self.next, to: Seq(page.oldest.0 - 1) });
            self.next = page.oldest;
        }
        self.head = page.head;
        self.log = page.log;
        for envelope in page.records {
            let seq = envelope.seq;
            self.next = seq.next();
            if envelope.kind != LOST_KIND {
                found.push(self.known(envelope)?);
            } else if let Some(StoredRecord::Gap { to, .. }) = found.last_mut().filter(|last| last.is_gap()) {
                *to = seq;
            } else {
                found.push(StoredRecord::Gap { from: seq, to: seq });
            }
        }
        Ok(found)
    }

    fn known(&self, envelope: Envelope) -> Result<StoredRecord, JournalError> {
        let entry = envelope.entry().map_err(|error| damaged(self.log.as_ref(), &error))?;
        let Envelope { seq, ts_ms, kind, .. } = envelope;
        Ok(entry.map_or(StoredRecord::Unknown { seq, ts_ms, kind }, StoredRecord::Known))
    }
}

/// A log folded from its first record on, to be compared with the rows beside it (ST-3).
#[derive(Debug, Default)]
pub struct LogFold {
    facts: Facts,
    /// A record is not there, or one of a kind that only a newer program knows: what it says is not known.
    is_partial: bool,
    /// The first record that cannot follow those before it.
    wrong: Option<String>,
}

impl LogFold {
    /// Takes in the next record.
    pub fn take(&mut self, record: &Envelope) {
        let Envelope { seq, ts_ms, .. } = *record;
        self.is_partial |= seq != self.facts.head().next();
        if self.is_partial || self.wrong.is_some() {
            return;
        }
        match record.record() {
            Ok(None) => self.is_partial = true,
            Ok(Some(known)) => {
                self.wrong = self.facts.apply(seq, ts_ms, &known).err().map(|error| error.to_string());
            }
            Err(error) => self.wrong = Some(format!("record {}: {error}", seq.0)),
        }
    }

    /// Whether rows of what is open, or was not let go yet, say what the records say; `false` where that cannot be told,
    /// since the oldest records are no longer kept or some are of a newer program.
    ///
    /// # Errors
    ///
    /// The first difference, in words.
    pub fn compare(&self, rows: &[Row]) -> Result<bool, String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        // Of a repaired log there may be no record yet.
        if self.is_partial || self.facts.head() == Seq(0) && !rows.is_empty() {
            return Ok(false);
        }
        let rows = rows.iter().map(|row| (row.kind, row.key, &*row.body));
        self.facts.compare(rows).map(|()| true).map_err(|error| error.to_string())
    }
}
