//! A tool call of a run, and the one rule that closes an orphaned one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::Fence;

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// A tool call.
    Tool,
    /// A question to a person, a permission among them.
    Question,
}

/// Where a part is; `completed` and `error` never change again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// Announced, not begun.
    Pending,
    /// Begun.
    Running,
    /// Over, well.
    Completed,
    /// Over, not well.
    Error,
}

impl PartState {
    /// True for the two states that never change again.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Error)
    }
}

/// A tool call. Its key is (run, call); times are milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPart {
    /// The run that made it.
    pub run: Fence,
    /// The call's id inside its run.
    pub call: Arc<str>,
    /// Tool or question.
    pub kind: PartKind,
    /// The tool's name.
    pub name: Arc<str>,
    /// Where it is.
    pub state: PartState,
    /// When it was announced.
    pub created_ms: u64,
    /// When it began. Once set it is never rewritten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<u64>,
    /// The latest time recorded for it.
    pub last_ms: u64,
    /// Its host stopped before it ended: it may or may not have taken effect.
    #[serde(default)]
    pub interrupted: bool,
}

impl ToolPart {
    /// A part that was just announced.
    pub const fn pending(run: Fence, call: Arc<str>, name: Arc<str>, kind: PartKind, now_ms: u64) -> Self {
        Self {
            run,
            call,
            kind,
            name,
            state: PartState::Pending,
            created_ms: now_ms,
            start_ms: None,
            end_ms: None,
            last_ms: now_ms,
            interrupted: false,
        }
    }

    /// The part moved on to `state` at `now_ms`, or `None` where it may not: a terminal part stays, and no part
    /// goes back. A missing step is inserted: a part that ends without having begun began when it was created.
    #[must_use]
    pub fn moved(&self, state: PartState, now_ms: u64) -> Option<Self> {
        if self.state.is_terminal() || state <= self.state {
            return None;
        }
        let mut next = self.clone();
        let now_ms = now_ms.max(self.last_ms);
        next.state = state;
        next.last_ms = now_ms;
        match state {
            PartState::Pending => return None,
            PartState::Running => next.start_ms = Some(now_ms),
            PartState::Completed | PartState::Error => {
                let start = next.start_ms.unwrap_or(self.created_ms);
                next.start_ms = Some(start);
                next.end_ms = Some(now_ms.max(start));
            }
        }
        Some(next)
    }

    /// The part closed as an orphan at `now_ms`, or `None` where it is over already: repairing twice is repairing
    /// once.
    ///
    /// Holds whatever the clock did: the state is `error`, `interrupted` is true, and the end is not
    /// before the start nor before any time recorded for the part. A part without a start gets its creation.
    #[must_use]
    pub fn interrupt(&self, now_ms: u64) -> Option<Self> {
        if self.state.is_terminal() {
            return None;
        }
        let start = self.start_ms.unwrap_or(self.created_ms);
        let end = now_ms.max(start).max(self.last_ms).max(self.created_ms);
        let mut next = self.clone();
        next.state = PartState::Error;
        next.interrupted = true;
        next.start_ms = Some(start);
        next.end_ms = Some(end);
        next.last_ms = end;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(now: u64) -> ToolPart {
        ToolPart::pending(Fence(1), "c".into(), "bash".into(), PartKind::Tool, now)
    }

    #[test]
    fn a_terminal_part_never_changes() {
        let done = part(5).moved(PartState::Running, 6).unwrap().moved(PartState::Completed, 9).unwrap();
        assert_eq!(done.interrupt(100), None);
        assert_eq!(done.moved(PartState::Error, 100), None);
        assert_eq!((done.start_ms, done.end_ms), (Some(6), Some(9)));
    }

    #[test]
    fn a_part_does_not_go_back() {
        let running = part(5).moved(PartState::Running, 6).unwrap();
        assert_eq!(running.moved(PartState::Pending, 7), None);
        assert_eq!(running.moved(PartState::Running, 7), None);
    }

    proptest! {
        #[test]
        fn an_interrupted_part_keeps_the_four_invariants(
            created: u64, start: Option<u64>, last: u64, now: u64, begun: bool,
        ) {
            let mut orphan = part(created);
            orphan.start_ms = start;
            orphan.last_ms = last;
            if begun { orphan.state = PartState::Running; }
            let closed = orphan.interrupt(now).unwrap();
            prop_assert_eq!(closed.state, PartState::Error);
            prop_assert!(closed.interrupted);
            prop_assert!(closed.end_ms >= closed.start_ms);
            prop_assert!(closed.end_ms.unwrap() >= now.max(last));
            prop_assert!(start.is_none() || closed.start_ms == start);
            prop_assert_eq!(closed.interrupt(now), None);
        }
    }
}
