//! Which jobs went last: enough to tell an id that expired from one that never was.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use fanin_protocol::JobId;
use fanin_protocol::limits::EVICTED_IDS;

/// The ids of the jobs that went last, by their hashes: enough to tell `expired` from `unknown`.
#[derive(Clone, Default)]
pub(super) struct Evicted {
    hasher: RandomState,
    /// By each hash, when it went last: the number of its newest place in `order`.
    known: HashMap<u64, u64>,
    /// Oldest first.
    order: VecDeque<u64>,
    /// The number of the next place.
    next: u64,
}

impl Evicted {
    /// A job went.
    pub(super) fn insert(&mut self, id: &JobId) {
        let hash = self.hasher.hash_one(id);
        self.known.insert(hash, self.next);
        self.order.push_back(hash);
        self.next += 1;
        if self.order.len() > EVICTED_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            // An id whose newer life went later stays.
            let place = self.next - self.order.len() as u64 - 1;
            if self.known.get(&oldest) == Some(&place) {
                self.known.remove(&oldest);
            }
        }
    }

    /// True where a job of this id was among those that went last.
    pub(super) fn contains(&self, id: &JobId) -> bool {
        self.known.contains_key(&self.hasher.hash_one(id))
    }

    /// How many are known.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len().max(self.order.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_evicted_ids_are_known_and_older_ones_are_not() {
        let id = |n: usize| JobId::parse(&format!("job-{n}")).unwrap();
        let mut evicted = Evicted::default();
        (0..=EVICTED_IDS).for_each(|n| evicted.insert(&id(n)));
        assert!(!evicted.contains(&id(0)) && evicted.contains(&id(1)), "one too many, and the oldest went");
        // A newer life of the oldest goes: it is the newest now.
        evicted.insert(&id(1));
        (0..EVICTED_IDS - 1).for_each(|n| evicted.insert(&id(EVICTED_IDS + 1 + n)));
        assert!(evicted.contains(&id(1)), "it went among the last");
        evicted.insert(&id(3 * EVICTED_IDS));
        assert!(!evicted.contains(&id(1)), "it went too long ago");
        assert_eq!((evicted.known.len(), evicted.order.len()), (EVICTED_IDS, EVICTED_IDS));
    }
}
