//! What a job's body sees of the supervisor.

use std::sync::Arc;

use fanin_protocol::limits::PROGRESS_BYTES_MAX;
use fanin_protocol::{Fence, JobId, text};
use parking_lot::Mutex;

use crate::stop::{StopSignal, StopStage};

/// What a run needs while it lives, shared between driver and body. Progress is the latest value only (B-1).
#[derive(Debug)]
pub(crate) struct RunCell {
    pub(crate) stop: StopSignal,
    progress: Mutex<Option<Arc<str>>>,
}

impl RunCell {
    pub(crate) fn progress(&self) -> Option<Arc<str>> {
        self.progress.lock().clone()
    }
}
