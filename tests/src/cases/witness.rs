//! Who reads every record of a supervisor, from the first to the end, and checks that each may follow the others.

use std::sync::Arc;

use fanin_protocol::{Entry, text};
use fanin_supervisor::{Delivery, Filter, Since, Supervisor};
use tokio::task::JoinHandle;

use crate::ledger::Ledger;

/// A witness at work. It sees what the supervisor released, whatever raced inside.
#[derive(Debug)]
pub struct Witness(JoinHandle<Ledger>);

impl Witness {
    /// Begins to read.
    ///
    /// # Panics
    ///
    /// Where it cannot subscribe. What breaks a rule, and a record that was missed, is told by [`Witness::at_end`].
    pub async fn of(supervisor: &Supervisor) -> Self {
        let mut events = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
        Self(tokio::spawn(async move {
            let mut ledger = Ledger::default();
            while let Some(delivery) = events.next().await {
                match delivery {
                    Delivery::Event(event) => take_in(&mut ledger, &event),
                    other => panic!("the witness was too slow: {other:?}"),
                }
            }
            ledger
        }))
    }

    /// What there was to see until the supervisor was dropped.
    ///
    /// # Panics
    ///
    /// Where a record broke a rule (G1, G2, G4, G5, G7).
    pub async fn at_drop(self) -> Ledger {
        super::soon(self.0).await.unwrap()
    }

    /// As [`Witness::at_drop`], after an orderly shutdown: nothing is open, and the last record says so.
    ///
    /// # Panics
    ///
    /// Where something is, or a record broke a rule.
    pub async fn at_end(self) -> Ledger {
        let ledger = self.at_drop().await;
        assert!(!ledger.open, "the records end without store.closed");
        assert_eq!((ledger.running, ledger.queued), (0, 0));
        assert!(ledger.jobs.values().all(|job| job.ended.is_some()));
        assert!(ledger.groups.values().all(|group| group.fired.is_some() || group.voided));
        ledger
    }
}

fn take_in(ledger: &mut Ledger, event: &fanin_supervisor::Event) {
    let entry = Entry {
        seq: event.seq(),
        ts_ms: event.ts_ms(),
        about: Arc::new(event.about().clone()),
        run: event.run(),
        record: event.record().clone(),
    };
    if let Err(broken) = ledger.take_in(&entry) {
        // A large group has a long result; its start says which it is.
        let (broken, entry) = (broken.to_string(), format!("{entry:?}"));
        panic!("{}\nat {}", text::cut(&broken, 2_000), text::cut(&entry, 2_000));
    }
}
