//! Whose work an agent does: one run of a job, or turn after turn of a parent. What it shows of itself goes there, and what
//! stops it comes from there.

use std::fmt;
use std::sync::Arc;

use fanin_protocol::limits::{GATE_PAUSE, GATE_WAIT};
use fanin_supervisor::{CallError, RunContext, StopSignal, StopStage};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// Whose work it is.
pub(crate) enum Life {
    /// A job's, for one turn.
    Run(RunContext),
    /// A parent's, which we host.
    Parent {
        /// Raised to end it.
        stop: Arc<StopSignal>,
        /// The last sign of work.
        sign: Mutex<Instant>,
    },
}

impl Life {
    pub(crate) fn parent(stop: Arc<StopSignal>) -> Self {
        Self::Parent { stop, sign: Mutex::new(Instant::now()) }
    }

    /// Says that the work goes on.
    pub(crate) fn beat(&self) {
        match self {
            Self::Run(context) => context.beat(),
            Self::Parent { sign, .. } => *sign.lock() = Instant::now(),
        }
    }

    /// Says how far it has come. Nobody asks how far a parent has.
    pub(crate) fn progress(&self, line: &str) {
        match self {
            Self::Run(context) => context.progress(line),
            Self::Parent { .. } => self.beat(),
        }
    }

    /// The last sign of work of a parent; a job's is its limits' business.
    pub(crate) fn last_sign(&self) -> Option<Instant> {
        match self {
            Self::Run(_) => None,
            Self::Parent { sign, .. } => Some(*sign.lock()),
        }
    }

    /// True where what it uses is to be told at once. Where nobody can say, it is told too often rather than too late.
    pub(crate) fn is_budgeted(&self) -> bool {
        match self {
            Self::Run(context) => context.is_budgeted().unwrap_or(true),
            Self::Parent { .. } => false,
        }
    }

    /// Takes follow-ups from now on. A parent's words come with its turns.
    pub(crate) fn listen(&self) {
        match self {
            Self::Run(context) => context.listen(),
            Self::Parent { .. } => {}
        }
    }

    /// The follow-up that came first, or `None`: then none is accepted any more.
    pub(crate) async fn follow_up(&self) -> Option<Arc<str>> {
        let Self::Run(context) = self else { return None };
        let until = Instant::now() + GATE_WAIT;
        loop {
            match context.last_message().await {
                Err(CallError::Busy) if Instant::now() < until => sleep(GATE_PAUSE).await,
                Ok(words) => return words,
                // One that was accepted counts as unanswered then.
                Err(error) => {
                    tracing::warn!(%error, "whether there is a follow-up is not known");
                    return None;
                }
            }
        }
    }

    /// True once it was told to stop.
    pub(crate) fn is_cancelled(&self) -> bool {
        match self {
            Self::Run(context) => context.is_cancelled(),
            Self::Parent { stop, .. } => stop.stage() >= StopStage::Polite,
        }
    }

    /// Waits until it is told to stop.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn cancelled(&self) {
        match self {
            Self::Run(context) => context.cancelled().await,
            Self::Parent { stop, .. } => stop.reached(StopStage::Polite).await,
        }
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(context) => f.debug_tuple("Run").field(context).finish(),
            Self::Parent { stop, .. } => f.debug_tuple("Parent").field(stop).finish(),
        }
    }
}
