//! The one message that tells a parent that a group is over.

use std::fmt;
use std::sync::Arc;

use fanin_protocol::CombinedResult;

use crate::core::CallError;
use crate::wait::Waiter;

/// A wake: the result of a group, handed to its parent. Dropped without [`Wake::ack`] it is given back and comes
/// again.
#[must_use = "a wake that is not acknowledged comes again"]
pub struct Wake {
    result: Arc<CombinedResult>,
    waiter: Waiter,
}

impl Wake {
    pub(crate) const fn new(result: Arc<CombinedResult>, waiter: Waiter) -> Self {
        Self { result, waiter }
    }

    /// The combined result, in launch order. What a wait took before is marked as a reference.
    pub fn result(&self) -> &CombinedResult {
        &self.result
    }

    /// As [`Wake::result`], shared.
    pub fn shared(&self) -> Arc<CombinedResult> {
        Arc::clone(&self.result)
    }

    /// Takes the wake: it is delivered, and never comes again.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor was shut down meanwhile; [`CallError::Busy`], and the wake comes again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone; dropped there, the wake comes again.
    pub async fn ack(self) -> Result<Arc<CombinedResult>, CallError> {
        let Self { result, waiter } = self;
        waiter.acknowledge().await?;
        Ok(result)
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake").field("group", &self.result.group).finish_non_exhaustive()
    }
}
