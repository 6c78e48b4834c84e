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
use pin_project_lite::pin_project;
use tokio::task::AbortHandle;

use crate::context::{RunCell, RunContext};
use crate::runner::Ending;
use crate::scope::Scope;

/// A job's work before it starts. It knows the type of its future, so that the future lies in its task and nowhere
/// else.
pub(crate) type Body = Box<dyn FnOnce(Start<'_>) -> AbortHandle + Send>;

/// The same for a job that may run again: each call starts one run.
pub(crate) type Rerun = Arc<dyn Fn(Start) -> AbortHandle + Send + Sync>;

/// What a closure job does.
pub(crate) enum Work {
    /// For one run.
    Once(Body),
    /// For as many as there are.
    Again(Rerun),
}

/// The work of the jobs of a launch, one each. Where nothing comes of the launch, or it is dropped at the gate, each is
/// dropped for itself: its destructor is anybody's code.
#[derive(Default)]
pub(crate) struct Works(Vec<Option<Work>>);

impl Works {
    pub(crate) fn push(&mut self, work: Option<Work>) {
        self.0.push(work);
    }

    pub(crate) fn take(mut self) -> Vec<Option<Work>> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Works {
    fn drop(&mut self) {
        self.0.drain(..).for_each(discard);
    }
}

/// A run that is about to start.
pub(crate) struct Start<'a> {
    pub(crate) cell: Arc<RunCell>,
    /// That of the cell's core, at hand.
    pub(crate) scope: &'a Scope,
}

impl Start<'_> {
    /// Starts the run's task. `body` is called on it, and makes the future of the run.
    pub(crate) fn spawn<F, Fut>(self, body: F) -> AbortHandle
    where
        F: FnOnce(RunContext) -> Fut + Send + 'static,
        Fut: Future<Output = Ending> + Send + 'static,
    {
        let Self { cell, scope } = self;
        let context = RunContext { cell: Arc::clone(&cell) };
        let run = Arc::clone(&cell);
        // The guard is made here, before the task exists: one aborted before its first poll never runs a line of the
        // body, so a guard made inside would never be dropped (J-20).
        let guard = Guard::new(move |ending| run.ended(ending));
        let (stage, guard) = (Stage::Start { start: Some((body, context)) }, Some(guard));
        scope.spawn_leaving(Run { stage, guard, cell })
    }
}

pin_project! {
    /// The future of a run.
    ///
    /// The body is dropped before the guard reports, so that what a report says is gone is gone.
    struct Run<F, Fut, G: FnOnce(Option<Ending>)> {
        #[pin]
        stage: Stage<F, Fut>,
        guard: Option<Guard<Ending, G>>,
        cell: Arc<RunCell>,
    }

    impl<F, Fut, G: FnOnce(Option<Ending>)> PinnedDrop for Run<F, Fut, G> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Err(panic) = clear(this.stage) {
                // The run was stopped: how its destructor went changes nothing of that (J-19). Its text is the job's, and
                // no line of ours (SEC-6).
                discard_panic(panic);
                tracing::warn!(job = %this.cell.job, "a job's destructor panicked while the job was stopped");
            }
            drop(this.guard.take());
            this.cell.core().scope.tasks().leave();
        }
    }
}

pin_project! {
    #[project = StageNow]
    enum Stage<F, Fut> {
        Start { start: Option<(F, RunContext)> },
        Running { #[pin] future: Fut },
        Over,
    }
}

impl<F, Fut, G> Future for Run<F, Fut, G>
where
    F: FnOnce(RunContext) -> Fut,
    Fut: Future<Output = Ending>,
    G: FnOnce(Option<Ending>),
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut run = self.project();
        // A panic in one body ends that body. What it shares with others is behind locks that do not poison.
        let ending = match catch_unwind(AssertUnwindSafe(|| poll(run.stage.as_mut(), cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(ending)) => Ok(ending),
            Err(panic) => Err(panic),
        };
        let ending = match (ending, clear(run.stage)) {
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

fn poll<F, Fut>(mut stage: Pin<&mut Stage<F, Fut>>, cx: &mut Context<'_>) -> Poll<Ending>
where
    F: FnOnce(RunContext) -> Fut,
    Fut: Future<Output = Ending>,
{
    if let StageNow::Start { start } = stage.as_mut().project()
        && let Some((body, context)) = start.take()
    {
        if context.is_cancelled() {
            // The stop came between the start and this first poll: not a line of the body runs (B35).
            drop(body);
            return Poll::Ready(Ending::failed(Cause::Failed, None, "stopped before it began"));
        }
        let future = body(context);
        stage.set(Stage::Running { future });
    }
    match stage.project() {
        StageNow::Running { future } => future.poll(cx),
        StageNow::Start { .. } | StageNow::Over => Poll::Pending,
    }
}

/// Drops the body; a panic of its destructor is caught.
fn clear<F, Fut>(mut stage: Pin<&mut Stage<F, Fut>>) -> Result<(), Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| stage.set(Stage::Over)))
}

/// Drops a body that never started. Its destructor is anybody's code: a panic of it ends nothing but itself.
pub(crate) fn discard<T>(body: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(body))) {
        discard_panic(panic);
        tracing::warn!("the destructor of a job that never started panicked");
    }
}

/// The text of a panic, whose payload is gone after it.
fn text_of(panic: Box<dyn Any + Send>) -> String {
    let text = panic_text(&*panic);
    discard_panic(panic);
    text
}

/// Drops what a panic was thrown with.
fn discard_panic(panic: Box<dyn Any + Send>) {
    // A payload may panic when it is dropped, and so may that one's: the second is left where it is.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
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
