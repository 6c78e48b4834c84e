//! Where each open run is: a record of a run names its fence alone.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use fanin_protocol::Fence;

use crate::state::Node;

/// Open runs by their fences.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Runs(HashMap<Fence, Node, BuildHasherDefault<Spread>>);

impl Runs {
    pub(crate) fn get(&self, fence: Fence) -> Option<Node> {
        self.0.get(&fence).copied()
    }

    pub(crate) fn insert(&mut self, fence: Fence, node: Node) {
        self.0.insert(fence, node);
    }

    pub(crate) fn remove(&mut self, fence: Fence) {
        self.0.remove(&fence);
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those that began before this place, oldest first.
    pub(crate) fn before(&self, place: Fence) -> Vec<Node> {
        let mut older: Vec<_> = self.0.iter().filter(|(fence, _)| **fence < place).collect();
        older.sort_unstable_by_key(|(fence, _)| **fence);
        older.into_iter().map(|(_, node)| *node).collect()
    }
}

// In the order of the fences: a state has one text.
impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<_> = self.0.iter().collect();
        runs.sort_unstable_by_key(|(fence, _)| **fence);
        f.debug_map().entries(runs).finish()
    }
}

/// Spreads fences over a table. They are numbers that the machine counts, so nobody chooses them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio: neighbours land far apart, in the high bits as well.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
