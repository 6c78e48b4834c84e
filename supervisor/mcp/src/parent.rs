//! A parent that is hosted: what it has launched, over however many connections. It is there before the first of them, and
//! after the last.

use std::sync::Arc;

use fanin_protocol::{Bounds, Budget, SessionId};
use fanin_supervisor::{CallError, Session, SessionError, Supervisor};

use crate::running::{BOUNDS, Running};

/// A parent whose turns somebody hosts, while it has our tools over connections that come and go. It is in no turn at first.
/// Clones are the same.
#[derive(Debug, Clone)]
pub struct Parent {
    pub(crate) running: Arc<Running>,
}

impl Parent {
    /// A parent of this supervisor, under this session: found where it is open. It, and all that it launches, may use so
    /// much; `wakes` is how often it is woken at the most without a word of its user, where somebody has said so (W-7). One
    /// that is found keeps what it has.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub async fn open(
        supervisor: Supervisor,
        session: SessionId,
        (budget, wakes): (Budget, Option<u32>),
    ) -> Result<Self, SessionError> {
        let bounds = Bounds { budget, wakes: wakes.or(BOUNDS.wakes), ..BOUNDS };
        let parent = Self { running: Arc::new(Running::of(supervisor, session, bounds).await?) };
        parent.end_turn();
        Ok(parent)
    }

    /// Its session: its turns are the host's, and its wakes.
    pub fn session(&self) -> &Session {
        &self.running.session
    }

    /// A turn of it begins: calls may wait for results, and hand them over.
    pub fn begin_turn(&self) {
        self.running.set_turn(true);
    }

    /// Its turn is over: nobody hears what a call answers from now on. Calls that wait are answered without a result, which
    /// is for whoever wakes the parent; what they launched goes on (BAR-12).
    pub fn end_turn(&self) {
        self.running.set_turn(false);
    }

    /// Ends it where nothing is to come: from then on nothing is launched over any connection. False where a job is not over
    /// or a result was not taken.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`]: ask again.
    pub async fn close_when_done(&self) -> Result<bool, CallError> {
        self.running.close_when_done().await
    }
}
