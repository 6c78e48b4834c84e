//! The one set of timers. A timer names what it is for; its fence decides whether it still means anything.

use std::collections::BTreeMap;

use fanin_protocol::{Fence, JobKind, Lifetime};

use crate::clock::Mono;
use crate::state::{GroupKey, JobKey, Payer, SessionKey};

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A queued job's limit.
    Queue(Lifetime),
    /// A run's limit until its runner has it in hand.
    Start(Fence),
    /// A run's limit.
    Run(Fence),
    /// The limit of all runs of a job.
    Total(Lifetime),
    /// A run may be idle.
    Idle(Fence),
    /// A job's next try is due.
    Backoff(Lifetime),
    /// The grace of a stop is over.
    Force(Fence),
    /// A forced stop did not end the run.
    Unreaped(Fence),
    /// A group's deadline.
    Deadline,
    /// Jobs of a kind may start again.
    Refill,
    /// It is time to look for quiet groups.
    Look,
    /// What runs has used up a budget of time.
    Spent,
    /// A session may be woken again.
    Woken,
}

/// Whose timer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Job(JobKey),
    Group(GroupKey),
    Kind(JobKind),
    Payer(Payer),
    Session(SessionKey),
    All,
}

/// All timers that run, soonest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    due: BTreeMap<(Mono, Owner, u8), Purpose>,
    by_owner: BTreeMap<Owner, Vec<(Mono, u8)>>,
}

impl Purpose {
    /// Of two that are due at once the first one here decides: a default that was lowered to fit a limit above it is
    /// never the one that is named.
    const fn slot(self) -> u8 {
        match self {
            Self::Queue(_) => 0,
            Self::Total(_) => 1,
            Self::Run(_) => 2,
            Self::Idle(_) => 3,
            Self::Start(_) => 4,
            Self::Backoff(_) => 5,
            Self::Force(_) => 6,
            Self::Unreaped(_) => 7,
            Self::Deadline => 8,
            Self::Refill => 9,
            Self::Look => 10,
            Self::Spent => 11,
            Self::Woken => 12,
        }
    }
}

impl Timers {
    pub(crate) fn arm(&mut self, at: Mono, owner: Owner, purpose: Purpose) {
        self.due.insert((at, owner, purpose.slot()), purpose);
        self.by_owner.entry(owner).or_default().push((at, purpose.slot()));
    }

    /// Arms a timer in place of the one of this purpose, if there is one.
    pub(crate) fn rearm(&mut self, at: Mono, owner: Owner, purpose: Purpose) {
        self.disarm(owner, purpose);
        self.arm(at, owner, purpose);
    }

    /// Drops the timer of this purpose, whichever run or lifetime it names.
    pub(crate) fn disarm(&mut self, owner: Owner, purpose: Purpose) {
        let Some(armed) = self.by_owner.get_mut(&owner) else { return };
        let slot = purpose.slot();
        let due = &mut self.due;
        armed.retain(|(at, known)| *known != slot || due.remove(&(*at, owner, slot)).is_none());
        if armed.is_empty() {
            self.by_owner.remove(&owner);
        }
    }

    /// True where a timer of this purpose runs, whichever run or lifetime it names.
    pub(crate) fn is_armed(&self, owner: Owner, purpose: Purpose) -> bool {
        self.by_owner.get(&owner).is_some_and(|armed| armed.iter().any(|(_, slot)| *slot == purpose.slot()))
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
