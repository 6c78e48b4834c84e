//! What a service has given to a request: results that are not taken yet, and turns. It goes back when it is dropped, or its
//! connection is lost.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use fanin_protocol::wire::{Answer, Call};
use fanin_protocol::{CombinedResult, Hit, MessageId, SessionId};

use crate::connection::{Connection, Pending};
use crate::error::ClientError;

/// A result that is offered: it is held for this client and comes to nobody else, until it is taken by [`Offered::ack`].
/// Dropped without that it is owed as before.
#[must_use = "a result that is not acknowledged is owed again"]
pub struct Offered<T> {
    found: T,
    given: Given,
}

impl<T> Offered<T> {
    pub(crate) const fn new(found: T, given: Given) -> Self {
        Self { found, given }
    }

    /// Takes it: it is delivered, once it has returned, and comes never again.
    ///
    /// # Errors
    ///
    /// [`ClientError`]: it was not taken, or with [`ClientError::Lost`] that is not known; then it may come again.
    ///
    /// # Cancel safety
    ///
    /// Dropped, whether it was taken is not known.
    pub async fn ack(mut self) -> Result<T, ClientError> {
        self.given.settle(|of| Call::Ack { of }).await?;
        Ok(self.found)
    }

    /// Another view of what was found.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Offered<U> {
        Offered { found: map(self.found), given: self.given }
    }
}

impl<T> Deref for Offered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.found
    }
}

impl<T: fmt::Debug> fmt::Debug for Offered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Offered").field(&self.found).finish()
    }
}

/// The result of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupResult {
    /// The combined result.
    pub result: Arc<CombinedResult>,
    /// The parent had it before, from another wait or a wake.
    pub already_delivered: bool,
}

/// The next message of a session's inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The result of a group.
    Wake(Arc<CombinedResult>),
    /// A user's words.
    Words {
        /// Their key.
        key: MessageId,
        /// What was said.
        text: Arc<str>,
    },
    /// A watch fired.
    Hit(Hit),
}

/// An open turn of a session: its parent is busy, and its wakes are held. Dropped, or lost with its connection, it ends.
#[derive(Debug)]
#[must_use = "a turn that is dropped ends"]
pub struct Turn {
    session: SessionId,
    given: Given,
}

impl Turn {
    pub(crate) const fn new(session: SessionId, given: Given) -> Self {
        Self { session, given }
    }

    /// Whose turn it is.
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; it ends all the same.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a drop ends it as well.
    pub async fn end(mut self) -> Result<(), ClientError> {
        self.given.settle(|of| Call::TurnEnd { of, failed: None }).await
    }

    /// Ends it as one that failed.
    ///
    /// # Errors
    ///
    /// As [`Turn::end`].
    ///
    /// # Cancel safety
    ///
    /// As [`Turn::end`]: dropped, it ends, and not as one that failed.
    pub async fn fail(mut self, why: impl Into<String>) -> Result<(), ClientError> {
        let failed = Some(why.into());
        self.given.settle(|of| Call::TurnEnd { of, failed }).await
    }
}

/// What a request was given, by its number. Dropped, it goes back.
#[derive(Debug)]
pub(crate) struct Given {
    connection: Arc<Connection>,
    id: u64,
    is_settled: bool,
}

impl Given {
    /// What this request was given, which has ended.
    pub(crate) fn of(pending: &Pending) -> Self {
        Self { connection: Arc::clone(pending.connection()), id: pending.id(), is_settled: false }
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Ends it with a call.
    pub(crate) async fn settle(&mut self, call: impl FnOnce(u64) -> Call) -> Result<(), ClientError> {
        let mut pending = self.connection.ask(call(self.id)).await?;
        let (answer, _) = pending.end().await?;
        match answer {
            Answer::Done => {
                self.is_settled = true;
                Ok(())
            }
            _ => Err(pending.unexpected()),
        }
    }

    /// It is gone by another call.
    pub(crate) const fn is_gone(&mut self) {
        self.is_settled = true;
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if !self.is_settled {
            self.connection.cancel(self.id);
        }
    }
}
