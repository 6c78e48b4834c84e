//! A result that is offered to whoever waited and not taken yet: for those who have to hand it on first.

use std::fmt;
use std::ops::Deref;

use crate::core::CallError;
use crate::wait::Waiter;

/// What a wait has found, before it is taken. It reads as the result itself.
///
/// A wait over a connection has the result before whoever asked has it. Until [`Offered::take`] the result is held for
/// it and comes to nobody else as a wake; dropped without it the waiter has left, and the result is owed as before
/// (BAR-12).
#[must_use = "a result that is not taken is owed again"]
pub struct Offered<T> {
    found: T,
    /// `None` where nothing is left to be taken.
    waiter: Option<Waiter>,
}

impl<T> Offered<T> {
    pub(crate) const fn new(found: T, waiter: Waiter) -> Self {
        Self { found, waiter: Some(waiter) }
    }

    /// Of what was delivered before.
    pub(crate) const fn past(found: T) -> Self {
        Self { found, waiter: None }
    }

    /// Takes it: it is delivered, once, and no wake shows it again.
    pub fn take(self) -> T {
        if let Some(waiter) = self.waiter {
            waiter.take();
        }
        self.found
    }

    /// As [`Offered::take`], and waits until that is kept wherever records are: for those who tell others that it is.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor was shut down meanwhile; [`CallError::Busy`], and it is owed again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone; dropped there, the result is owed again.
    pub async fn ack(self) -> Result<T, CallError> {
        if let Some(waiter) = self.waiter {
            waiter.acknowledge().await?;
        }
        Ok(self.found)
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
