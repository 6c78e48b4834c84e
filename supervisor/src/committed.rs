//! How far a journal has come: what waits until its record is on disk waits here. It decides nothing.

use std::pin::pin;
use std::time::Duration;

use fanin_protocol::Seq;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::core::CallError;

/// The place up to which everything is committed, and whether more will be.
#[derive(Debug)]
pub(crate) struct Committed {
    at: Mutex<At>,
    /// For threads.
    moved: Condvar,
    /// For tasks.
    told: Notify,
}

#[derive(Debug)]
struct At {
    seq: Seq,
    /// Why there is no room for anything new now.
    no_room: Option<CallError>,
    over: Option<Over>,
}

#[derive(Debug)]
enum Over {
    /// In order: the store is closed.
    Closed,
    /// Nothing is committed any more (C-4).
    Failed(CallError),
}

impl Committed {
    pub(crate) fn new(seq: Seq) -> Self {
        let at = At { seq, no_room: None, over: None };
        Self { at: Mutex::new(at), moved: Condvar::new(), told: Notify::new() }
    }

    fn change(&self, change: impl FnOnce(&mut At)) {
        change(&mut self.at.lock());
        self.moved.notify_all();
        self.told.notify_waiters();
    }

    /// Up to where all is on disk.
    pub(crate) fn head(&self) -> Seq {
        self.at.lock().seq
    }

    /// All up to here is on disk.
    pub(crate) fn advance(&self, seq: Seq) {
        self.change(|at| at.seq = seq);
    }

    /// There is no room for anything new, or there is again.
    pub(crate) fn set_room(&self, no_room: Option<CallError>) {
        self.at.lock().no_room = no_room;
    }

    /// Nothing more will be committed, and the store is closed.
    pub(crate) fn close(&self) {
        self.change(|at| {
            at.over.get_or_insert(Over::Closed);
        });
    }

    /// Nothing more can be committed.
    pub(crate) fn fail(&self, error: CallError) {
        self.change(|at| {
            at.over.get_or_insert(Over::Failed(error));
        });
    }

    /// Why nothing is committed any more; `None` as well where the store was closed in order.
    pub(crate) fn failure(&self) -> Option<CallError> {
        match &self.at.lock().over {
            Some(Over::Failed(error)) => Some(error.clone()),
            Some(Over::Closed) | None => None,
        }
    }

    /// Why nothing new can be taken on now.
    pub(crate) fn no_room(&self) -> Option<CallError> {
        self.at.lock().no_room.clone()
    }

    /// Waits until all up to a place is on disk.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn reaches(&self, seq: Seq) -> Result<(), CallError> {
        loop {
            // Registered before the look, so that a commit between look and wait is not missed.
            let mut told = pin!(self.told.notified());
            told.as_mut().enable();
            if let Some(reached) = self.at.lock().reached(seq) {
                return reached;
            }
            told.await;
        }
    }

    /// As [`Committed::reaches`], with a thread, and for so long at the most.
    pub(crate) fn reaches_within(&self, seq: Seq, wait: Duration) -> Result<(), CallError> {
        let mut at = self.at.lock();
        loop {
            if let Some(reached) = at.reached(seq) {
                return reached;
            }
            // Each commit moves it, so a look waits as long again at the most for each of those before its own.
            if self.moved.wait_for(&mut at, wait).timed_out() {
                return at.reached(seq).unwrap_or(Err(CallError::Busy));
            }
        }
    }

    /// Waits until the store is closed or has failed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn is_over(&self) {
        loop {
            let mut told = pin!(self.told.notified());
            told.as_mut().enable();
            if self.at.lock().over.is_some() {
                return;
            }
            told.await;
        }
    }
}

impl At {
    fn reached(&self, seq: Seq) -> Option<Result<(), CallError>> {
        match &self.over {
            _ if self.seq >= seq => Some(Ok(())),
            Some(Over::Failed(error)) => Some(Err(error.clone())),
            Some(Over::Closed) => Some(Err(CallError::Closed)),
            None => None,
        }
    }
}
