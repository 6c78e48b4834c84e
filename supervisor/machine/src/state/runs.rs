//! Where each open run is: a record of a run names its fence alone. It says nothing that the runs do not say, so it
//! shows nothing either.

use std::fmt;

use fanin_protocol::Fence;
use hashbrown::HashTable;

use crate::state::Node;

/// Nodes by the fences of their open runs. The fences stay with the runs: `fence` says that of a node.
#[derive(Clone, Default)]
pub(crate) struct Runs(HashTable<Node>);

impl Runs {
    pub(crate) fn get(&self, run: Fence, fence: impl Fn(Node) -> Option<Fence>) -> Option<Node> {
        self.0.find(spread(run), |node| fence(*node) == Some(run)).copied()
    }

    pub(crate) fn insert(&mut self, run: Fence, node: Node, fence: impl Fn(Node) -> Option<Fence>) {
        self.0.insert_unique(spread(run), node, |node| fence(*node).map_or(0, spread));
    }

    /// Takes a run out, as long as its node still has it.
    pub(crate) fn remove(&mut self, run: Fence, fence: impl Fn(Node) -> Option<Fence>) {
        if let Ok(found) = self.0.find_entry(spread(run), |node| fence(*node) == Some(run)) {
            found.remove();
        }
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Nodes with an open run, in no order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> {
        self.0.iter().copied()
    }
}

// The same runs are open where the same nodes have them.
impl PartialEq for Runs {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
    }
}

impl Eq for Runs {}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// Spreads fences over a table. They are numbers that the machine counts, so nobody chooses them.
///
/// Runs that began together lie together, as what ends in one step as a rule began in one: a table of a million runs is
/// then not looked at in a million places. Runs further apart land far apart.
const fn spread(run: Fence) -> u64 {
    // 2^64 divided by the golden ratio: the high bits of the product differ for neighbours. The table looks at the highest
    // bits to compare, and at the lowest for the place.
    let mixed = (run.0 >> NEAR_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) << NEAR_BITS;
    let tag = run.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) & TAG;
    tag | (mixed | run.0 & ((1 << NEAR_BITS) - 1)) & !TAG
}

/// So many neighbours, as a power of two, lie together.
const NEAR_BITS: u32 = 6;
/// The bits that the table compares.
const TAG: u64 = 0x7f << 57;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn fences_in_any_step_are_spread_over_all_of_a_table() {
        for step in (1..70).chain([100, 128, 1_000, 1_024, 4_096, 65_536, 1 << 20]) {
            // As a table of twice as many places has them, in groups of 16.
            let mut groups = BTreeMap::new();
            for run in 1..=1_000 {
                *groups.entry(spread(Fence(run * step)) % 2_048 / 16).or_insert(0) += 1;
            }
            let fullest = groups.values().max().copied().unwrap_or_default();
            assert!(fullest <= 64, "step {step}: {fullest} runs in one group");
        }
    }
}
