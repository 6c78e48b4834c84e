//! What a command's run needs of the supervisor. It is a trait, so that runs are tested without one.

use std::future::Future;
use std::pin::Pin;

use fanin_supervisor::{Bound, RunContext, StopStage};

/// The supervisor, as one run sees it.
pub(crate) trait Host: Send + Sync {
    /// The run's name among those of all supervisors.
    fn mark(&self) -> String;

    /// How far a stop has gone.
    fn stage(&self) -> StopStage;

    /// Waits until a stop has gone further than `stage`.
    fn beyond(&self, stage: StopStage) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Takes who the started command is.
    fn bound(&self, bound: Bound);

    /// The command has written something: a sign of work.
    fn beat(&self);

    /// Takes output.
    fn write(&self, bytes: &[u8]);

    /// Takes the latest line of output.
    fn progress(&self, line: &str);
}

impl Host for RunContext {
    fn mark(&self) -> String {
        Self::mark(self)
    }

    fn stage(&self) -> StopStage {
        Self::stage(self)
    }

    fn beyond(&self, stage: StopStage) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        match stage {
            StopStage::None => Box::pin(self.cancelled()),
            StopStage::Polite | StopStage::Forced => Box::pin(self.forced()),
        }
    }

    fn bound(&self, bound: Bound) {
        Self::bound(self, bound);
    }

    fn beat(&self) {
        Self::beat(self);
    }

    fn write(&self, bytes: &[u8]) {
        Self::write(self, bytes);
    }

    fn progress(&self, line: &str) {
        Self::progress(self, line);
    }
}
