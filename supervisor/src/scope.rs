//! The only module that spawns tasks: what it starts, it can stop and wait for.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// All tasks of a supervisor.
#[derive(Debug)]
pub(crate) struct Scope {
    runtime: Handle,
    tasks: Arc<Tasks>,
}

/// How many tasks are alive. Counted here and not by tokio-util's tracker: it counts each task and each share of
/// itself, which is four writes more to one place that every core writes to.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    alive: AtomicUsize,
    /// Told when the last one is gone.
    none: Notify,
}

impl Tasks {
    fn enter(&self) {
        self.alive.fetch_add(1, Ordering::Relaxed);
    }

    /// A task is gone. For its own last drop, behind all else that it owned.
    pub(crate) fn leave(&self) {
        if self.alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.none.notify_waiters();
        }
    }
}

/// Leaves when it is dropped.
struct Present(Arc<Tasks>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Scope {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, tasks: Arc::default() }
    }

    /// Starts a task. On a runtime that is shutting down the future is dropped at once, before this returns.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        // The future goes first, whether it ran or not.
        let task = (future, Present(Arc::clone(&self.tasks)));
        self.spawn_leaving(async move {
            let (future, _present) = task;
            future.await;
        })
    }

    /// As [`Scope::spawn`], for a future that calls [`Tasks::leave`] itself when it is dropped, as its last act.
    pub(crate) fn spawn_leaving(&self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.tasks.enter();
        self.runtime.spawn(future).abort_handle()
    }

    /// Where its tasks run.
    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// To leave by.
    pub(crate) const fn tasks(&self) -> &Arc<Tasks> {
        &self.tasks
    }

    /// Waits until no task is left. Tasks that block their thread are waited for as well.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn wait(&self) {
        loop {
            // Made before the look, so that an end between look and wait is not missed.
            let none = self.tasks.none.notified();
            if self.len() == 0 {
                return;
            }
            none.await;
        }
    }

    /// Tasks that are alive.
    pub(crate) fn len(&self) -> usize {
        self.tasks.alive.load(Ordering::Acquire)
    }
}
