//! Calls that are not answered yet, and what each answer hands over. A result counts as taken when the answer that holds it
//! was written; where the client has cancelled the call, or is gone, it is owed as before.

use std::collections::HashMap;

use fanin_protocol::Hit;
use fanin_protocol::limits::MCP_CALLS_MAX;
use fanin_supervisor::{GroupResult, Mail, Offered, Waited, Wake};
use parking_lot::Mutex;
use rmcp::model::RequestId;
use tokio::sync::watch;

/// What an answer hands over.
pub(crate) enum Owed {
    Group(Offered<GroupResult>),
    Jobs(Offered<Waited>),
    Wake(Wake),
    Hit(Offered<Hit>),
    Mail(Offered<Mail>),
}

/// All that one answer hands over. Dropped, it is owed again.
pub(crate) type Delivery = Vec<Owed>;

/// Takes what was handed over.
pub(crate) async fn take(delivery: Delivery) {
    for owed in delivery {
        match owed {
            Owed::Group(result) => drop(result.take()),
            Owed::Jobs(waited) => drop(waited.take()),
            Owed::Hit(hit) => drop(hit.take()),
            Owed::Mail(mail) => drop(mail.take()),
            Owed::Wake(wake) => {
                // It comes again then, and the text says the same.
                if let Err(error) = wake.ack().await {
                    tracing::warn!(%error, "a result that was written could not be taken");
                }
            }
        }
    }
}

/// The open calls of one client.
#[derive(Debug)]
pub(crate) struct Calls {
    open: Mutex<Open>,
    /// How many there are, for whoever waits for the last one.
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    calls: HashMap<RequestId, Call>,
    /// Answers that are being written.
    writing: usize,
}

struct Call {
    /// Tells calls apart that were given the same id.
    number: u64,
    /// How many calls were open when it came, itself among them.
    open: usize,
    /// Once it has an answer.
    delivery: Option<Delivery>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self { open: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl Calls {
    /// A call was read.
    pub(crate) fn arrive(&self, id: &RequestId) {
        self.change(|open| {
            open.next += 1;
            let others = open.calls.len() - usize::from(open.calls.contains_key(id));
            let call = Call { number: open.next, open: others + 1, delivery: None };
            open.calls.insert(id.clone(), call).and_then(|call| call.delivery)
        });
    }

    /// The number of a call that was read; `None` where it was cancelled since.
    ///
    /// # Errors
    ///
    /// How many were open when it came, where that is too many.
    pub(crate) fn number(&self, id: &RequestId) -> Result<Option<u64>, usize> {
        let open = self.open.lock();
        match open.calls.get(id) {
            Some(call) if call.open > MCP_CALLS_MAX => Err(call.open),
            call => Ok(call.map(|call| call.number)),
        }
    }

    /// A call has its answer, which hands this over once it was written.
    pub(crate) fn answer(&self, id: &RequestId, number: Option<u64>, delivery: Delivery) {
        let mut open = self.open.lock();
        match open.calls.get_mut(id) {
            Some(call) if Some(call.number) == number => call.delivery = Some(delivery),
            // Nobody reads it any more. What it would have handed over is dropped outside of the lock.
            Some(_) | None => drop(open),
        }
    }

    /// The client has cancelled it, or its answer is being dropped.
    pub(crate) fn forget(&self, id: &RequestId) {
        self.change(|open| open.calls.remove(id).and_then(|call| call.delivery));
    }

    /// The answer to a call is about to be written; [`Calls::written`] follows.
    pub(crate) fn write(&self, id: &RequestId) -> Option<Delivery> {
        let mut open = self.open.lock();
        let call = open.calls.remove(id)?;
        open.writing += 1;
        Some(call.delivery.unwrap_or_default())
    }

    /// An answer was written, and what it handed over is taken.
    pub(crate) fn written(&self) {
        self.change(|open| {
            open.writing = open.writing.saturating_sub(1);
            None
        });
    }

    /// Waits until every call has its answer, and that is written.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn idle(&self) {
        // The sender is here, so that it ends with a count alone.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    fn change(&self, change: impl FnOnce(&mut Open) -> Option<Delivery>) {
        let mut open = self.open.lock();
        let dropped = change(&mut open);
        let count = open.calls.len() + open.writing;
        self.count.send_replace(count);
        drop(open);
        // A waiter leaves through the gate.
        drop(dropped);
    }
}
