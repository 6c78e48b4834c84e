//! The output of a job as somebody reads it who does not own its store: a look at a time, also while the job runs.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use fanin_protocol::limits::OUTPUT_PAGE_BYTES_MAX;
use fanin_protocol::{JobId, Lifetime, Output};

use crate::journal::{JournalError, JournalReader, StoredOutput};
use crate::output::JobOutput;
use crate::page::OutputPage;
use crate::past::Past;

/// A reader of a job's output in a store.
///
/// It gets every byte that is kept, in order and once, and is told what was dropped before it came there. Where the job
/// is tried again it goes on with the start of the new run: [`OutputPage::run`] is another then.
pub struct StoredFollow {
    reader: Arc<dyn JournalReader>,
    job: JobId,
    lifetime: Lifetime,
    run: u32,
    next: u64,
    is_over: bool,
}

/// What the rows of a job say.
#[derive(PartialEq)]
struct Look {
    run: u32,
    is_over: bool,
    excerpt: Option<Output>,
}

impl StoredFollow {
    pub(crate) const fn new(
        reader: Arc<dyn JournalReader>,
        job: JobId,
        lifetime: Lifetime,
        from: u64,
    ) -> Self {
        Self { reader, job, lifetime, run: 0, next: from, is_over: false }
    }

    /// True once the job is over, and all was read that is kept of it.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// What has come since the last page; `None` where that is nothing, and later there may be more.
    ///
    /// # Errors
    ///
    /// [`JournalError::Damaged`] and [`JournalError::Io`].
    pub fn next_page(&mut self) -> Result<Option<OutputPage>, JournalError> {
        loop {
            let Some(look) = self.look()? else {
                // It has been let go of.
                self.is_over = true;
                return Ok(None);
            };
            if look.run != self.run {
                // Another try begins from its start; the place that was asked for is one of the first that is met.
                self.next = if self.run == 0 { self.next } else { 0 };
                self.run = look.run;
            }
            let stored = self.reader.output_from(self.lifetime, self.next);
            // What was read is of the run that the job had before and after it.
            if !look.is_over && self.look()?.as_ref() != Some(&look) {
                continue;
            }
            let page = match stored? {
                Some(stored) => page(&stored, self.next),
                None => kept(look.excerpt.as_ref(), self.next),
            };
            let Some(page) = page else {
                self.is_over = look.is_over;
                return Ok(None);
            };
            self.next = page.next;
            return Ok(Some(OutputPage { run: look.run, is_over: look.is_over, ..page }));
        }
    }

    fn look(&self) -> Result<Option<Look>, JournalError> {
        let past = Past::find(&*self.reader, &[(self.job.clone(), Some(self.lifetime))])?;
        Ok(past.first().map(|info| Look {
            run: info.runs,
            is_over: info.status.is_terminal(),
            excerpt: past.state.output_of(info.lifetime),
        }))
    }
}

/// What stands at a place or behind it, up to where something is missing.
fn page(stored: &StoredOutput, asked: u64) -> Option<OutputPage> {
    let end = |(at, piece): &(u64, Bytes)| at + piece.len() as u64;
    let mut pieces = stored.pieces.iter().skip_while(|piece| end(piece) <= asked).peekable();
    let offset = pieces.peek()?.0.max(asked);
    let (mut next, mut bytes) = (offset, Vec::new());
    while let Some((at, piece)) = pieces.next_if(|(at, _)| *at <= next && bytes.len() < OUTPUT_PAGE_BYTES_MAX)
    {
        let from = usize::try_from(next - at).unwrap_or(usize::MAX);
        let left = piece.get(from..).unwrap_or_default();
        let left = left.get(..left.len().min(OUTPUT_PAGE_BYTES_MAX - bytes.len())).unwrap_or_default();
        bytes.extend_from_slice(left);
        next += left.len() as u64;
    }
    let dropped = (asked < offset).then_some(asked..offset);
    Some(OutputPage {
        bytes: bytes.into(),
        offset,
        next,
        total: stored.total,
        dropped,
        run: 0,
        is_over: false,
    })
}

/// The same of what a record has. Of one that has not all of it the rest counts as dropped.
fn kept(excerpt: Option<&Output>, asked: u64) -> Option<OutputPage> {
    let output = JobOutput::of_excerpt(excerpt?);
    let total = output.bytes_total();
    if asked >= total {
        return None;
    }
    let gone = OutputPage {
        bytes: Bytes::new(),
        offset: total,
        next: total,
        total,
        dropped: Some(asked..total),
        run: 0,
        is_over: false,
    };
    Some(output.page(asked, 0).unwrap_or(gone))
}

impl fmt::Debug for StoredFollow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredFollow")
            .field("job", &self.job)
            .field("lifetime", &self.lifetime)
            .field("run", &self.run)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
