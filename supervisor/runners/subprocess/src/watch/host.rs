//! The supervisor, as what a watch runs sees it: a check's output is looked at and not kept, and its end is the watch's to
//! say.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use fanin_protocol::limits::WATCH_CHECK_BYTES_MAX;
use fanin_supervisor::{Bound, RunContext, StopSignal, StopStage};
use tokio::sync::Notify;

use super::lines::Lines;
use crate::host::Host;

/// As far as the run's own stop has gone, or that of the watch.
fn stage(context: &RunContext, stop: &StopSignal) -> StopStage {
    context.stage().max(stop.stage())
}

async fn beyond(context: &RunContext, stop: &StopSignal, stage: StopStage) {
    let next = if stage == StopStage::None { StopStage::Polite } else { StopStage::Forced };
    let own = async {
        match next {
            StopStage::None | StopStage::Polite => context.cancelled().await,
            StopStage::Forced => context.forced().await,
        }
    };
    tokio::select! {
        () = own => {}
        () = stop.reached(next) => {}
    }
}

/// One check.
pub(crate) struct CheckHost<'c> {
    context: &'c RunContext,
    is_first: bool,
    /// Its own limit.
    pub(crate) stop: StopSignal,
    output: Mutex<VecDeque<u8>>,
}

impl<'c> CheckHost<'c> {
    pub(crate) fn new(context: &'c RunContext, is_first: bool) -> Self {
        Self { context, is_first, stop: StopSignal::new(), output: Mutex::default() }
    }

    /// The end of what it has put out.
    pub(crate) fn output(&self) -> String {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(output.make_contiguous()).into_owned()
    }
}

impl Host for CheckHost<'_> {
    fn mark(&self) -> String {
        self.context.mark()
    }

    fn stage(&self) -> StopStage {
        stage(self.context, &self.stop)
    }

    fn beyond(&self, stage: StopStage) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(beyond(self.context, &self.stop, stage))
    }

    fn bound(&self, bound: Bound) {
        // Once says that the watch is at work. A day of checks would be a hundred thousand records, and what a crash leaves
        // of a check is found by its mark.
        if self.is_first {
            self.context.bound(bound);
        }
    }

    fn beat(&self) {
        self.context.beat();
    }

    fn write(&self, bytes: &[u8]) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.extend(bytes);
        let over = output.len().saturating_sub(WATCH_CHECK_BYTES_MAX);
        output.drain(..over);
    }

    fn progress(&self, line: &str) {
        self.context.progress(line);
    }
}

/// A command that goes on, whose lines are looked at.
pub(crate) struct LinesHost<'c, F> {
    context: &'c RunContext,
    /// Ends it where nothing is left to look for.
    pub(crate) stop: StopSignal,
    lines: Mutex<Lines>,
    look: F,
    /// There may be something to fire.
    pub(crate) more: Notify,
}

impl<'c, F: Fn(&str) + Send + Sync> LinesHost<'c, F> {
    pub(crate) fn new(context: &'c RunContext, look: F) -> Self {
        Self { context, stop: StopSignal::new(), lines: Mutex::default(), look, more: Notify::new() }
    }

    /// Nothing more comes.
    pub(crate) fn finish(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).finish(&self.look);
    }
}

impl<F: Fn(&str) + Send + Sync> Host for LinesHost<'_, F> {
    fn mark(&self) -> String {
        self.context.mark()
    }

    fn stage(&self) -> StopStage {
        stage(self.context, &self.stop)
    }

    fn beyond(&self, stage: StopStage) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(beyond(self.context, &self.stop, stage))
    }

    fn bound(&self, bound: Bound) {
        self.context.bound(bound);
    }

    fn beat(&self) {
        self.context.beat();
    }

    fn write(&self, bytes: &[u8]) {
        self.context.write(bytes);
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).feed(bytes, &self.look);
        self.more.notify_one();
    }

    fn progress(&self, line: &str) {
        self.context.progress(line);
    }
}
