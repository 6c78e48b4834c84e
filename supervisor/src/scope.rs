//! The only module that spawns tasks: what it starts, it can stop and wait for.

use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

/// All tasks of a supervisor.
#[derive(Debug)]
pub(crate) struct Scope {
    runtime: Handle,
    tasks: TaskTracker,
}

impl Scope {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, tasks: TaskTracker::new() }
    }

    /// Starts a task. On a runtime that is shutting down the future is dropped at once, before this returns.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(self.tasks.track_future(future)).abort_handle()
    }

    /// Waits until no task is left. Tasks that block their thread are waited for as well.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn wait(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Tasks that are alive.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }
}
