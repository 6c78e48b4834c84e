//! Reading the output of a job, also while it runs: by offset, or following it to its end.

use std::fmt;
use std::sync::Arc;

use fanin_bus::{Filter, Since, Subscription};
use fanin_protocol::{JobId, Lifetime};

use crate::core::{CallError, Core};
use crate::launched::Job;
use crate::output::JobOutput;
use crate::page::OutputPage;
use crate::run_output::RunOutput;
use crate::supervisor::Supervisor;

/// Why there is no page of a job's output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// Newer outputs took its place in memory.
    #[error("of the {total} bytes of {job} only the excerpt in its result is kept; read that with `output`")]
    NotKept {
        /// The job.
        job: JobId,
        /// Bytes that were put out.
        total: u64,
    },
    /// The supervisor could not be asked, or refused.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl OutputError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotKept { .. } => "output_not_kept",
            Self::Call(error) => error.code(),
        }
    }
}

/// Where the output of a job is, as it was looked up.
pub(crate) struct Found {
    /// Its newest run, counted from 1.
    pub(crate) run: u32,
    pub(crate) is_over: bool,
    pub(crate) source: Source,
}

pub(crate) enum Source {
    /// With the run, which may still write.
    Run(Arc<RunOutput>),
    /// It does not change any more.
    Kept(JobOutput),
}

impl Source {
    fn total(&self) -> u64 {
        match self {
            Self::Run(output) => output.total(),
            Self::Kept(output) => output.bytes_total(),
        }
    }

    pub(crate) fn output(&self) -> JobOutput {
        match self {
            Self::Run(output) => output.output(),
            Self::Kept(output) => output.clone(),
        }
    }
}

impl Found {
    fn page(&self, job: &JobId, asked: u64, max: usize) -> Result<OutputPage, OutputError> {
        let page = match &self.source {
            Source::Run(output) => output.page(asked, max),
            Source::Kept(output) => output.page(asked, max),
        };
        let Self { run, is_over, .. } = *self;
        let not_kept = || OutputError::NotKept { job: job.clone(), total: self.source.total() };
        page.map(|page| OutputPage { run, is_over, ..page }).ok_or_else(not_kept)
    }
}

impl Supervisor {
    /// A part of what a job in its newest life put out, also while it runs: from `offset` on, `max` bytes at the most
    /// and never more than [`OUTPUT_PAGE_BYTES_MAX`](fanin_protocol::limits::OUTPUT_PAGE_BYTES_MAX), which 0 stands for.
    ///
    /// Of a job that was tried more than once it is what the newest run put out; [`OutputPage::run`] says which. Between
    /// the start and the end of a long output bytes are dropped: a page that would begin there begins behind them and
    /// says so.
    ///
    /// # Errors
    ///
    /// [`OutputError::NotKept`] for an old job of which only the excerpt is left; [`CallError`] for a job that is not
    /// known, and where the supervisor is busy.
    pub fn read_output(&self, job: &JobId, offset: u64, max: usize) -> Result<OutputPage, OutputError> {
        let lifetime = self.owner.core().lifetime_of(job)?;
        self.read_output_exact(job, lifetime, offset, max)
    }

    /// As [`Supervisor::read_output`], for this life of the job, also where its id has another one by now.
    ///
    /// # Errors
    ///
    /// As [`Supervisor::read_output`].
    pub fn read_output_exact(
        &self,
        job: &JobId,
        lifetime: Lifetime,
        offset: u64,
        max: usize,
    ) -> Result<OutputPage, OutputError> {
        self.owner.core().find_output(job, lifetime)?.page(job, offset, max)
    }

    /// Follows what a job in its newest life puts out, from an offset to the end of the job.
    ///
    /// # Errors
    ///
    /// [`CallError`] for a job that is not known, and where the supervisor is busy.
    pub fn follow(&self, job: &JobId, from: u64) -> Result<Follow, CallError> {
        let lifetime = self.owner.core().lifetime_of(job)?;
        self.follow_exact(job, lifetime, from)
    }

    /// As [`Supervisor::follow`], for this life of the job.
    ///
    /// # Errors
    ///
    /// As [`Supervisor::follow`].
    pub fn follow_exact(&self, job: &JobId, lifetime: Lifetime, from: u64) -> Result<Follow, CallError> {
        Follow::new(self.owner.core(), job, lifetime, from)
    }
}

impl Job {
    /// A part of what this life of the job put out. See [`Supervisor::read_output`].
    ///
    /// # Errors
    ///
    /// As [`Supervisor::read_output`].
    pub fn read_output(&self, offset: u64, max: usize) -> Result<OutputPage, OutputError> {
        self.core().find_output(self.id(), self.lifetime())?.page(self.id(), offset, max)
    }

    /// Follows what this life of the job puts out, from an offset to its end. See [`Supervisor::follow`].
    ///
    /// # Errors
    ///
    /// [`CallError`] where the supervisor is closed.
    pub fn follow(&self, from: u64) -> Result<Follow, CallError> {
        Follow::new(self.core(), self.id(), self.lifetime(), from)
    }
}

/// A reader of a job's output, which waits for what is still to come.
///
/// It gets every byte that is kept, in order and once, and is told what was dropped before it came there. Where the job
/// is tried again it goes on with the start of the new run: [`OutputPage::run`] is another then. Being slow costs only
/// itself, and dropping it leaves nothing behind. It keeps no supervisor alive.
pub struct Follow {
    core: Arc<Core>,
    job: JobId,
    lifetime: Lifetime,
    /// Records that may change where the output is.
    events: Subscription,
    is_closed: bool,
    /// Where it is: the run, and the place in what that puts out.
    run: u32,
    next: u64,
    /// Where the output was, until a record says otherwise.
    found: Option<Found>,
}

impl Follow {
    /// Of a job in its newest life, from its beginning.
    pub(crate) fn of(core: &Arc<Core>, job: &JobId) -> Result<Self, CallError> {
        let lifetime = core.lifetime_of(job)?;
        Self::new(core, job, lifetime, 0)
    }

    fn new(core: &Arc<Core>, job: &JobId, lifetime: Lifetime, from: u64) -> Result<Self, CallError> {
        let filter = Filter::job(job.clone()).kinds(["run.started", "run.ended", "job.ended"]);
        // Fails for a filter or a place that is wrong, and these are not.
        let events = Subscription::new(Arc::clone(&core.log), filter, Since::Now);
        Ok(Self {
            core: Arc::clone(core),
            job: job.clone(),
            lifetime,
            events: events.map_err(|_| CallError::Poisoned)?,
            is_closed: false,
            run: 0,
            next: from,
            found: None,
        })
    }

    /// Waits for more; `None` once the job is over and all was read.
    ///
    /// # Errors
    ///
    /// [`OutputError::NotKept`] where the reader came so late that only the excerpt is left; [`CallError::Closed`] where
    /// the supervisor is gone before the job was over; [`CallError::Busy`], after which the same call may work.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what a dropped future did not return comes with the next call.
    pub async fn next_page(&mut self) -> Result<Option<OutputPage>, OutputError> {
        loop {
            if let Some(page) = self.page()? {
                self.next = page.next;
                return Ok(Some(page));
            }
            if self.found.as_ref().is_some_and(|found| found.is_over) {
                return Ok(None);
            }
            if self.is_closed {
                return Err(CallError::Closed.into());
            }
            self.changed().await;
        }
    }

    /// The next page, if there is one.
    fn page(&mut self) -> Result<Option<OutputPage>, OutputError> {
        let found = match self.found.take() {
            Some(found) => found,
            None => self.core.find_output(&self.job, self.lifetime)?,
        };
        if found.run != self.run {
            // Another try begins from its start; the place that was asked for is one of the first that is met.
            self.next = if self.run == 0 { self.next } else { 0 };
            self.run = found.run;
        }
        let found = self.found.insert(found);
        if self.next >= found.source.total() {
            return Ok(None);
        }
        found.page(&self.job, self.next, 0).map(Some)
    }

    /// Waits until there may be more.
    async fn changed(&mut self) {
        let more = async {
            match self.found.as_ref().map(|found| &found.source) {
                Some(Source::Run(output)) => output.beyond(self.next).await,
                Some(Source::Kept(_)) | None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = more => {}
            event = self.events.next() => {
                self.is_closed = event.is_none();
                self.found = None;
            }
        }
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow")
            .field("job", &self.job)
            .field("lifetime", &self.lifetime)
            .field("run", &self.run)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
