//! The one set of timers. A timer names what it is for; its fence decides whether it still means anything.

use std::collections::BTreeMap;

use fanin_protocol::{Fence, Lifetime};

use crate::clock::Mono;
use crate::state::{GroupKey, JobKey};

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A queued job's limit.
    Queue(Lifetime),
    /// A run's limit.
    Run(Fence),
    /// The grace of a stop is over.
    Force(Fence),
    /// A forced stop did not end the run.
    Unreaped(Fence),
    /// A group's deadline.
    Deadline,
}

/// Whose timer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Job(JobKey),
    Group(GroupKey),
}

/// All timers that run, soonest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    due: BTreeMap<(Mono, Owner, u8), Purpose>,
    by_owner: BTreeMap<Owner, Vec<(Mono, u8)>>,
}

impl Purpose {
    const fn slot(self) -> u8 {
        match self {
            Self::Queue(_) => 0,
            Self::Run(_) => 1,
            Self::Force(_) => 2,
            Self::Unreaped(_) => 3,
            Self::Deadline => 4,
        }
    }
}

impl Timers {
    pub(crate) fn arm(&mut self, at: Mono, owner: Owner, purpose: Purpose) {
        self.due.insert((at, owner, purpose.slot()), purpose);
        self.by_owner.entry(owner).or_default().push((at, purpose.slot()));
    }

    /// Drops what is armed for `owner`: nothing of a job that is over stays behind.
    pub(crate) fn clear(&mut self, owner: Owner) {
        for (at, slot) in self.by_owner.remove(&owner).unwrap_or_default() {
            self.due.remove(&(at, owner, slot));
        }
    }

    /// Takes the first timer that is due.
    pub(crate) fn pop(&mut self, now: Mono) -> Option<(Owner, Purpose)> {
        let first = self.due.first_entry()?;
        let (at, owner, slot) = *first.key();
        if at > now {
            return None;
        }
        let purpose = first.remove();
        if let Some(armed) = self.by_owner.get_mut(&owner) {
            armed.retain(|timer| *timer != (at, slot));
            if armed.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
        Some((owner, purpose))
    }

    /// When the next is due.
    pub(crate) fn next(&self) -> Option<Mono> {
        self.due.first_key_value().map(|((at, ..), _)| *at)
    }

    /// How many run.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }
}
