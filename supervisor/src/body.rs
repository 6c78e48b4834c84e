//! One run as a future: its body inside, its guard outside, and nothing that escapes either.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fanin_machine::guard::Guard;
use fanin_protocol::limits::PANIC_BYTES_MAX;
use fanin_protocol::{Cause, text};

use crate::context::RunContext;
use crate::runner::{Ending, RunFuture};

/// What makes the future of a run, on the run's own task.
pub(crate) type Body = Box<dyn FnOnce(RunContext) -> RunFuture + Send>;

/// What makes the future of each run of a job that may run again.
pub(crate) type Rerun = Arc<dyn Fn(RunContext) -> RunFuture + Send + Sync>;

/// What a closure job does.
pub(crate) enum Work {
    /// For one run.
    Once(Body),
    /// For as many as there are.
    Again(Rerun),
}

/// The future of a run.
///
/// The guard was made before it, outside: a task aborted before its first poll never runs a line of the body, so a
/// guard made inside would never be dropped (J-20). The body is dropped before the guard reports, so that what a
/// report says is gone is gone.
pub(crate) struct Run<F: FnOnce(Option<Ending>)> {
    stage: Stage,
    guard: Option<Guard<Ending, F>>,
}

enum Stage {
    Start(Body, RunContext),
    Running(RunFuture),
    Over,
}

impl<F: FnOnce(Option<Ending>)> Run<F> {
    pub(crate) fn new(body: Body, context: RunContext, guard: Guard<Ending, F>) -> Self {
        Self { stage: Stage::Start(body, context), guard: Some(guard) }
    }
}

impl<F: FnOnce(Option<Ending>) + Unpin> Future for Run<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let run = self.get_mut();
        // A panic in one body ends that body. What it shares with others is behind locks that do not poison.
        let ending = match catch_unwind(AssertUnwindSafe(|| run.stage.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(ending)) => Ok(ending),
            Err(panic) => Err(panic),
        };
        let ending = match (ending, run.stage.clear()) {
            (Ok(ending), Ok(())) => ending,
            (Err(panic), cleared) => {
                cleared.map_err(text_of).ok();
                Ending::failed(Cause::Panic, None, text_of(panic))
            }
            (Ok(_), Err(panic)) => Ending::failed(Cause::Panic, None, text_of(panic)),
        };
        if let Some(guard) = run.guard.take() {
            guard.settle(ending);
        }
        Poll::Ready(())
    }
}

impl<F: FnOnce(Option<Ending>)> Drop for Run<F> {
    fn drop(&mut self) {
        if let Err(panic) = self.stage.clear() {
            // The run was stopped: how its destructor went changes nothing of that (J-19).
            tracing::warn!(text = %text_of(panic), "a job's destructor panicked while the job was stopped");
        }
        drop(self.guard.take());
    }
}

impl Stage {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if let Self::Start(..) = self
            && let Self::Start(body, context) = std::mem::replace(self, Self::Over)
        {
            if context.is_cancelled() {
                // The stop came between the start and this first poll: not a line of the body runs (B35).
                drop(body);
                return Poll::Ready(Ending::failed(Cause::Failed, None, "stopped before it began"));
            }
            *self = Self::Running(body(context));
        }
        match self {
            Self::Running(future) => future.as_mut().poll(cx),
            Self::Start(..) | Self::Over => Poll::Pending,
        }
    }

    /// Drops the body; a panic of its destructor is caught.
    fn clear(&mut self) -> Result<(), Box<dyn Any + Send>> {
        let stage = std::mem::replace(self, Self::Over);
        catch_unwind(AssertUnwindSafe(|| drop(stage)))
    }
}

/// Drops a body that never started. Its destructor is anybody's code: a panic of it ends nothing but itself.
pub(crate) fn discard<T>(body: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(body))) {
        tracing::warn!(text = %text_of(panic), "the destructor of a job that never started panicked");
    }
}

/// The text of a panic, whose payload is gone after it.
fn text_of(panic: Box<dyn Any + Send>) -> String {
    let text = panic_text(&*panic);
    // A payload may panic when it is dropped, and so may that one's: the second is left where it is.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    text
}

/// A panic's text, cut to what a screen shows (SC-7).
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let full = if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.as_str()
    } else {
        "a panic without a text"
    };
    text::cut(full, PANIC_BYTES_MAX).to_owned()
}
