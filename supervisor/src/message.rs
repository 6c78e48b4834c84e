//! Messages as their sender and their taker hold them.

use std::fmt;
use std::sync::Arc;

use fanin_protocol::{Hit, MessageId};

use crate::core::CallError;
use crate::offered::Offered;
use crate::wait::Waiter;
use crate::wake::Wake;

/// A message that was accepted and is owed until it is taken: to a session until it asks, to a job until its run does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Its key, also in its records.
    pub key: MessageId,
    /// False where a message of this key was known, and nothing was posted (J-21).
    pub created: bool,
}

/// What comes next in a session's inbox.
#[derive(Debug)]
#[must_use = "a message that is not acknowledged comes again"]
pub enum Message {
    /// The result of a group.
    Wake(Wake),
    /// A user's words.
    Words(Words),
    /// A watch fired. Dropped without [`Offered::take`] it is given back and comes again.
    Hit(Offered<Hit>),
}

/// A user's words, handed to a session. Dropped without [`Words::ack`] they are given back and come again.
#[must_use = "words that are not acknowledged come again"]
pub struct Words {
    key: MessageId,
    text: Arc<str>,
    waiter: Waiter,
}

impl Words {
    pub(crate) const fn new(key: MessageId, text: Arc<str>, waiter: Waiter) -> Self {
        Self { key, text, waiter }
    }

    /// The message's key.
    pub const fn key(&self) -> &MessageId {
        &self.key
    }

    /// What was said.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Takes the words: they are delivered, and never come again.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor was shut down meanwhile; [`CallError::Busy`], and they come again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone; dropped there, the words come again.
    pub async fn ack(self) -> Result<Arc<str>, CallError> {
        let Self { text, waiter, .. } = self;
        waiter.acknowledge().await?;
        Ok(text)
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what was said: that is content (SEC-6).
        f.debug_struct("Words").field("key", &self.key).finish_non_exhaustive()
    }
}
