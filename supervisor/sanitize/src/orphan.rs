//! What is found in a store, in words that all formats share. It decides nothing.

use std::collections::{HashMap, HashSet};
use std::ops::AddAssign;

use fanin_protocol::{PartState, ToolPart};
use serde::Serialize;

/// What nobody will ever end. `key` is the row's own name in its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Orphan {
    /// A tool call that is `pending` or `running`.
    Part {
        /// Its row.
        key: String,
        /// What is known of it, as the machine knows it.
        part: ToolPart,
        /// The session of the subagent that it started.
        child: Option<String>,
        /// No time at all is recorded in it.
        is_timeless: bool,
    },
    /// A message of an assistant that was never completed.
    Message {
        /// Its row.
        key: String,
        /// When it began, in milliseconds since 1970.
        created_ms: u64,
        /// The latest time recorded for it.
        last_ms: u64,
    },
    /// A background job whose result never came, behind a call that is `completed`.
    Job {
        /// The row of the call that launched it.
        key: String,
        /// The job's id, which is that of its session.
        job: String,
        /// What it was called.
        label: String,
        /// The latest time recorded in the session that waits for it.
        after_ms: u64,
    },
}

/// How many there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Tool calls left `running`.
    pub running: usize,
    /// Tool calls left `pending`.
    pub pending: usize,
    /// Those of the pending ones that have no time at all.
    pub pending_without_time: usize,
    /// Messages of an assistant that were never completed.
    pub messages: usize,
    /// Background jobs whose result never came.
    pub jobs: usize,
}

impl Counts {
    /// All of them; a pending call without a time counts once.
    pub const fn total(&self) -> usize {
        self.running + self.pending + self.messages + self.jobs
    }

    fn count(&mut self, orphan: &Orphan) {
        match orphan {
            Orphan::Part { part, is_timeless, .. } => match part.state {
                PartState::Pending => {
                    self.pending += 1;
                    self.pending_without_time += usize::from(*is_timeless);
                }
                PartState::Running | PartState::Completed | PartState::Error => self.running += 1,
            },
            Orphan::Message { .. } => self.messages += 1,
            Orphan::Job { .. } => self.jobs += 1,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.running += other.running;
        self.pending += other.pending;
        self.pending_without_time += other.pending_without_time;
        self.messages += other.messages;
        self.jobs += other.jobs;
    }
}

/// A session, and what was found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scanned {
    /// Its id.
    pub session: String,
    /// The session that it is a subagent of.
    pub parent: Option<String>,
    /// What people call it.
    pub title: String,
    /// What was found, in the store's order.
    pub orphans: Vec<Orphan>,
}

impl Scanned {
    /// How many there are of each kind.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.orphans.iter().for_each(|orphan| counts.count(orphan));
        counts
    }
}

/// A store as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The version of its layout, as the store names it.
    pub version: String,
    /// All sessions, oldest first.
    pub sessions: Vec<Scanned>,
}

impl Scan {
    /// How many there are of each kind in all sessions.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.sessions.iter().for_each(|session| counts += session.counts());
        counts
    }

    /// The sessions that are asked for; `None` where there is no such session.
    #[must_use]
    pub fn only(mut self, only: &Only<'_>) -> Option<Self> {
        let Only::Session(wanted) = *only else { return Some(self) };
        let above: HashMap<&str, &str> = self
            .sessions
            .iter()
            .filter_map(|scanned| Some((scanned.session.as_str(), scanned.parent.as_deref()?)))
            .collect();
        let is_wanted = |session: &str| {
            let (mut at, mut seen) = (session, HashSet::new());
            // A damaged store may have a session above itself.
            while at != wanted && seen.insert(at) {
                match above.get(at) {
                    Some(parent) => at = parent,
                    None => return false,
                }
            }
            at == wanted
        };
        let kept: Vec<bool> = self.sessions.iter().map(|scanned| is_wanted(&scanned.session)).collect();
        let mut kept = kept.into_iter();
        self.sessions.retain(|_| kept.next().unwrap_or_default());
        (!self.sessions.is_empty()).then_some(self)
    }
}

/// Which sessions of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only<'a> {
    /// Every one.
    All,
    /// This one and those of its subagents, at any depth.
    Session(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(sessions: &[(&str, Option<&str>)]) -> Scan {
        let scanned = |(session, parent): &(&str, Option<&str>)| Scanned {
            session: (*session).to_owned(),
            parent: parent.map(ToOwned::to_owned),
            title: String::new(),
            orphans: Vec::new(),
        };
        Scan { version: "1".into(), sessions: sessions.iter().map(scanned).collect() }
    }

    fn names(scan: Option<Scan>) -> Vec<String> {
        scan.map(|scan| scan.sessions.into_iter().map(|scanned| scanned.session).collect())
            .unwrap_or_default()
    }

    #[test]
    fn a_session_comes_with_all_below_it_and_nothing_beside_it() {
        let all = [("a", None), ("b", Some("a")), ("c", Some("b")), ("d", None), ("e", Some("gone"))];
        assert_eq!(names(scan(&all).only(&Only::Session("a"))), ["a", "b", "c"]);
        assert_eq!(names(scan(&all).only(&Only::Session("b"))), ["b", "c"]);
        assert_eq!(scan(&all).only(&Only::Session("x")), None);
        assert_eq!(scan(&all).only(&Only::All), Some(scan(&all)));
    }

    #[test]
    fn sessions_that_are_above_themselves_end_the_search() {
        assert_eq!(scan(&[("a", Some("b")), ("b", Some("a"))]).only(&Only::Session("c")), None);
    }
}
