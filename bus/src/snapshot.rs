//! How things stand at one place of the log: where a late subscriber begins.

use fanin_protocol::{Cursor, GroupId, JobInfo};

/// What the records up to `at` made of the jobs and groups that a filter covers.
///
/// It is taken in one look at the state, together with the place. [`Subscription::after`](crate::Subscription::after)
/// that place delivers each later record once: no hole between the two and no duplicate (B46).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// All up to and with this place is in it, and nothing behind.
    pub at: Cursor,
    /// Jobs that are not over, in the order of their launch.
    pub jobs: Vec<JobInfo>,
    /// Groups that have neither fired nor been voided.
    pub groups: Vec<GroupId>,
}
