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
const fn spread(run: Fence) -> u64 {
    // 2^64 divided by the golden ratio: neighbours land far apart, in the high bits; the table looks at the low ones too.
    run.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}
