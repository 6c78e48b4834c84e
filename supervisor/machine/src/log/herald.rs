//! Wakes the readers of a log in place of its writer, who then wakes one and not many. It decides nothing, and where it
//! is gone the writer does it again.

use std::fmt;
use std::task::{Context, Poll, Waker};

use crate::log::Log;
use crate::sync::Arc;

/// What a log knows of its herald.
#[derive(Default)]
pub(super) struct Heralds {
    is_there: bool,
    /// It was called and has not come yet: it will wake all who sleep by then.
    is_called: bool,
    /// To call it, while it waits.
    waker: Option<Waker>,
}

impl Heralds {
    pub(super) const fn is_there(&self) -> bool {
        self.is_there
    }

    /// Calls the herald; whom to wake for it, if it waits.
    pub(super) fn call(&mut self) -> Option<Waker> {
        self.is_called = true;
        self.waker.take()
    }
}

/// One who wakes the readers of a log, on a task of its own. Records that come before it is there are told with the same
/// wake, so that readers find more of them at once.
///
/// Dropping it wakes all who sleep, and from then on the writer does so.
pub struct Herald {
    log: Arc<Log>,
}

impl Herald {
    /// The herald of a log, which has one at the most.
    pub fn new(log: Arc<Log>) -> Self {
        log.inner.lock().heralds.is_there = true;
        Self { log }
    }

    /// Wakes all who sleep whenever it is called, and is ready once the log is closed.
    pub fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        let mut inner = self.log.inner.lock();
        if inner.closed {
            return Poll::Ready(());
        }
        let called = std::mem::take(&mut inner.heralds.is_called);
        let wakers = if called { inner.sleepers.take() } else { Vec::new() };
        let old = inner.heralds.waker.replace(cx.waker().clone());
        drop(inner);
        drop(old);
        wakers.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        let (old, wakers) = {
            let mut inner = self.log.inner.lock();
            (std::mem::take(&mut inner.heralds), inner.sleepers.take())
        };
        drop(old);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Herald {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Herald").field("log", self.log.id()).finish_non_exhaustive()
    }
}
