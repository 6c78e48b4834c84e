//! What a client has been given and has not taken or given back. It goes by the request that it was given to; dropped, an
//! offer is owed again, a turn ends, and a fan-out was never asked for.

use std::collections::HashMap;

use fanin_protocol::Hit;
use fanin_protocol::limits::{FAN_OUT_BYTES_MAX, SERVICE_HELD_MAX};
use fanin_protocol::wire::{LaunchCall, NewJob};
use fanin_supervisor::{CallError, GroupResult, Offered, Turn, Waited, Wake, Words};
use parking_lot::Mutex;

use crate::fault::CallFault;

/// One thing.
#[derive(Debug)]
pub(crate) enum Held {
    Wake(Wake),
    Words(Words),
    Hit(Offered<Hit>),
    Jobs(Offered<Waited>),
    Group(Offered<GroupResult>),
    Turn(Turn),
    FanOut(FanOut),
}

/// A launch of which not all jobs have come.
#[derive(Debug)]
pub(crate) struct FanOut {
    pub(crate) launch: LaunchCall,
    /// Bytes in which its jobs came.
    bytes: usize,
}

/// All that one client holds.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    held: Mutex<HashMap<u64, Held>>,
}

impl Holdings {
    /// Keeps something for a request.
    pub(crate) fn keep(&self, id: u64, held: Held) -> Result<(), CallFault> {
        let mut all = self.held.lock();
        if all.len() >= SERVICE_HELD_MAX {
            drop(all);
            return Err(CallFault::HeldFull);
        }
        let before = all.insert(id, held);
        drop(all);
        debug_assert!(before.is_none(), "request {id} is given two things");
        Ok(())
    }

    /// True where the request holds something.
    pub(crate) fn has(&self, id: u64) -> bool {
        self.held.lock().contains_key(&id)
    }

    /// Gives back what a request holds.
    pub(crate) fn release(&self, id: u64) {
        let held = self.held.lock().remove(&id);
        // Outside of the lock: it tells the supervisor.
        drop(held);
    }

    /// Gives back all.
    pub(crate) fn release_all(&self) {
        let all = std::mem::take(&mut *self.held.lock());
        drop(all);
    }

    /// Takes what an acknowledgement is for.
    pub(crate) fn take_offer(&self, of: u64) -> Result<Held, CallFault> {
        let is_offer = |held: &Held| {
            matches!(held, Held::Wake(_) | Held::Words(_) | Held::Hit(_) | Held::Jobs(_) | Held::Group(_))
        };
        self.take_where(of, "offer", is_offer)
    }

    /// Takes a turn.
    pub(crate) fn take_turn(&self, of: u64) -> Result<Turn, CallFault> {
        match self.take_where(of, "turn", |held| matches!(held, Held::Turn(_)))? {
            Held::Turn(turn) => Ok(turn),
            Held::Wake(_)
            | Held::Words(_)
            | Held::Hit(_)
            | Held::Jobs(_)
            | Held::Group(_)
            | Held::FanOut(_) => Err(CallFault::NotHeld { of, what: "turn" }),
        }
    }

    /// Takes a fan-out, to launch it.
    pub(crate) fn take_fan_out(&self, of: u64) -> Result<LaunchCall, CallFault> {
        match self.take_where(of, "fan-out", |held| matches!(held, Held::FanOut(_)))? {
            Held::FanOut(fan_out) => Ok(fan_out.launch),
            Held::Wake(_)
            | Held::Words(_)
            | Held::Hit(_)
            | Held::Jobs(_)
            | Held::Group(_)
            | Held::Turn(_) => Err(CallFault::NotHeld { of, what: "fan-out" }),
        }
    }

    /// Begins a fan-out, of which the first jobs came in so many bytes.
    pub(crate) fn begin_fan_out(&self, id: u64, launch: LaunchCall, bytes: usize) -> Result<(), CallFault> {
        if Self::fan_out_bytes(&self.held.lock()) + bytes > FAN_OUT_BYTES_MAX {
            return Err(CallFault::FanOutTooLarge);
        }
        self.keep(id, Held::FanOut(FanOut { launch, bytes }))
    }

    /// Adds jobs to a fan-out. One that grows too large is gone: it could not be whole any more.
    pub(crate) fn add_to_fan_out(&self, of: u64, jobs: Vec<NewJob>, bytes: usize) -> Result<(), CallFault> {
        let mut all = self.held.lock();
        let before = Self::fan_out_bytes(&all);
        let Some(Held::FanOut(fan_out)) = all.get_mut(&of) else {
            return Err(CallFault::NotHeld { of, what: "fan-out" });
        };
        if before + bytes > FAN_OUT_BYTES_MAX {
            let gone = all.remove(&of);
            drop(all);
            drop(gone);
            return Err(CallFault::FanOutTooLarge);
        }
        fan_out.launch.jobs.extend(jobs);
        fan_out.bytes += bytes;
        Ok(())
    }

    fn fan_out_bytes(all: &HashMap<u64, Held>) -> usize {
        let bytes = all.values().map(|held| match held {
            Held::FanOut(fan_out) => fan_out.bytes,
            Held::Wake(_)
            | Held::Words(_)
            | Held::Hit(_)
            | Held::Jobs(_)
            | Held::Group(_)
            | Held::Turn(_) => 0,
        });
        bytes.sum()
    }

    fn take_where(
        &self,
        of: u64,
        what: &'static str,
        is_it: impl FnOnce(&Held) -> bool,
    ) -> Result<Held, CallFault> {
        let mut all = self.held.lock();
        match all.remove(&of) {
            Some(held) if is_it(&held) => Ok(held),
            Some(other) => {
                all.insert(of, other);
                Err(CallFault::NotHeld { of, what })
            }
            None => Err(CallFault::NotHeld { of, what }),
        }
    }
}

impl Held {
    /// Takes an offer: it is delivered, and comes never again.
    pub(crate) async fn ack(self) -> Result<(), CallError> {
        match self {
            Self::Wake(wake) => wake.ack().await.map(drop),
            Self::Words(words) => words.ack().await.map(drop),
            Self::Hit(hit) => hit.ack().await.map(drop),
            Self::Jobs(jobs) => jobs.ack().await.map(drop),
            Self::Group(group) => group.ack().await.map(drop),
            Self::Turn(turn) => turn.end().await,
            Self::FanOut(_) => Ok(()),
        }
    }
}
