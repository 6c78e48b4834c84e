//! How often each process may launch: over all of its connections, so that a new one is no way round (SEC-8).

use std::collections::HashMap;
use std::sync::Arc;

use fanin_protocol::limits::SERVICE_CLIENTS_MAX;
use fanin_supervisor::CallRate;
use parking_lot::Mutex;

/// The rates of those that are connected, and of those that were.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    known: Mutex<HashMap<u32, Arc<CallRate>>>,
}

impl Rates {
    /// That of a process; one of its own for a client that is none.
    pub(crate) fn of(&self, pid: Option<u32>) -> Arc<CallRate> {
        let Some(pid) = pid else { return Arc::default() };
        let mut known = self.known.lock();
        if known.len() >= 2 * SERVICE_CLIENTS_MAX {
            // Half of them at the least are of nobody who is connected.
            known.retain(|_, rate| Arc::strong_count(rate) > 1);
        }
        Arc::clone(known.entry(pid).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_one_process_share_a_rate_and_those_that_are_gone_take_no_room() {
        let rates = Rates::default();
        let one = rates.of(Some(7));
        assert!(Arc::ptr_eq(&one, &rates.of(Some(7))));
        assert!(!Arc::ptr_eq(&one, &rates.of(Some(8))));
        assert!(!Arc::ptr_eq(&rates.of(None), &rates.of(None)));
        for pid in 100..10_000 {
            rates.of(Some(pid));
            assert!(rates.known.lock().len() <= 2 * SERVICE_CLIENTS_MAX);
        }
        assert!(Arc::ptr_eq(&one, &rates.of(Some(7))), "one that is connected stays");
    }
}
