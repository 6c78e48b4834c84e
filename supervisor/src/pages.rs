//! Old records of a journal for subscribers, read on threads that may block.

use std::sync::Arc;

use fanin_bus::{Page, PageFuture, Pages};
use fanin_protocol::Seq;
use tokio::runtime::Handle;

use crate::journal::{JournalReader, RecordPage};

/// Reads pages of a journal.
#[derive(Debug)]
pub(crate) struct JournalPages {
    reader: Arc<dyn JournalReader>,
    runtime: Handle,
}

impl JournalPages {
    pub(crate) const fn new(reader: Arc<dyn JournalReader>, runtime: Handle) -> Self {
        Self { reader, runtime }
    }
}

impl Pages for JournalPages {
    fn page(&self, from: Seq, max: usize) -> PageFuture {
        let reader = Arc::clone(&self.reader);
        let read = self.runtime.spawn_blocking(move || {
            let found = reader.page(from, max).map_err(|error| Arc::<str>::from(error.to_string()))?;
            entries(&found)
        });
        Box::pin(async move {
            match read.await {
                Ok(read) => read,
                Err(error) => Err(error.to_string().into()),
            }
        })
    }
}

/// What can be told of a page. A kind that a newer program wrote is passed over: a subscriber here could not read it.
fn entries(found: &RecordPage) -> Result<Page, Arc<str>> {
    let last = found.records.last().map_or(found.head, |record| record.seq);
    let mut entries = Vec::with_capacity(found.records.len());
    for envelope in &found.records {
        entries.extend(envelope.entry().map_err(|error| error.to_string())?);
    }
    Ok(Page { oldest: found.oldest, last, entries })
}
