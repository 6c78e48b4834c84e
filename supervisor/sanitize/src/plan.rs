//! What is done about what was found: one rule for every format, and for a tool call the machine's own. It
//! touches no store.

use fanin_protocol::ToolPart;

use crate::orphan::{Orphan, Scan, Scanned};

/// How every text begins that a repair leaves behind.
pub const INTERRUPTED: &str = "interrupted by a restart; it may or may not have taken effect";

/// A change of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// A tool call becomes an error.
    Close {
        /// Its row.
        key: String,
        /// What it becomes.
        part: ToolPart,
        /// What is said of it.
        text: String,
    },
    /// A message is completed, as aborted.
    Complete {
        /// Its row.
        key: String,
        /// When it ended, in milliseconds since 1970.
        end_ms: u64,
        /// What is said of it.
        text: &'static str,
    },
    /// A session is told, by a message that is added, that jobs are lost. Nothing that is there changes.
    Tell {
        /// The session.
        session: String,
        /// When the message is written: behind all that is there.
        at_ms: u64,
        /// The jobs, in launch order.
        lost: Vec<Lost>,
    },
}

/// A lost job, as its session is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The row of the call that launched it.
    pub key: String,
    /// Its id.
    pub job: String,
    /// What it was called.
    pub label: String,
    /// What is said of it.
    pub text: String,
}

/// All changes of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the store's order.
    pub fixes: Vec<Fix>,
}

impl Plan {
    /// True where nothing is to be changed.
    pub const fn is_empty(&self) -> bool {
        self.fixes.is_empty()
    }
}

/// What a scan calls for at `now_ms`. It is a function of the two alone: the same scan and time make the same plan.
#[must_use]
pub fn plan(scan: &Scan, now_ms: u64) -> Plan {
    Plan { fixes: scan.sessions.iter().flat_map(|session| of_session(session, now_ms)).collect() }
}

fn of_session(scanned: &Scanned, now_ms: u64) -> Vec<Fix> {
    let (mut fixes, mut lost, mut at_ms) = (Vec::new(), Vec::new(), now_ms);
    for orphan in &scanned.orphans {
        match orphan {
            Orphan::Part { key, part, child, .. } => {
                fixes.extend(part.interrupt(now_ms).map(|part| Fix::Close {
                    key: key.clone(),
                    part,
                    text: with_child(child.as_deref()),
                }))
            }
            Orphan::Message { key, created_ms, last_ms } => {
                let end_ms = now_ms.max(*created_ms).max(*last_ms);
                fixes.push(Fix::Complete { key: key.clone(), end_ms, text: INTERRUPTED });
            }
            Orphan::Job { key, job, label, after_ms } => {
                at_ms = at_ms.max(after_ms.saturating_add(1));
                let (key, job, label) = (key.clone(), job.clone(), label.clone());
                let text = with_child(Some(&job));
                lost.push(Lost { key, job, label, text });
            }
        }
    }
    if !lost.is_empty() {
        fixes.push(Fix::Tell { session: scanned.session.clone(), at_ms, lost });
    }
    fixes
}

fn with_child(child: Option<&str>) -> String {
    match child {
        Some(child) => format!("{INTERRUPTED}; what was done is in session {child}"),
        None => INTERRUPTED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fanin_protocol::{Fence, PartKind, PartState};

    fn scan(orphans: Vec<Orphan>) -> Scan {
        let session = Scanned { session: "s".into(), parent: None, title: String::new(), orphans };
        Scan { version: "1".into(), sessions: vec![session] }
    }

    #[test]
    fn an_end_is_never_before_anything_that_is_recorded() {
        let part = ToolPart::pending(Fence(0), "c".into(), "bash".into(), PartKind::Tool, 900);
        let orphans = vec![
            Orphan::Part { key: "p".into(), part, child: None, is_timeless: true },
            Orphan::Message { key: "m".into(), created_ms: 100, last_ms: 700 },
            Orphan::Job { key: "l".into(), job: "j".into(), label: "x".into(), after_ms: 800 },
        ];
        let [Fix::Close { part, text, .. }, Fix::Complete { end_ms, .. }, Fix::Tell { at_ms, lost, .. }] =
            &plan(&scan(orphans), 500).fixes[..]
        else {
            panic!("one fix for each");
        };
        assert_eq!((part.state, part.interrupted), (PartState::Error, true));
        assert_eq!((part.start_ms, part.end_ms), (Some(900), Some(900)));
        assert_eq!((*end_ms, *at_ms), (700, 801));
        assert_eq!(text, INTERRUPTED);
        assert!(lost[0].text.ends_with("session j"), "{}", lost[0].text);
    }

    #[test]
    fn a_session_is_told_once_of_all_that_it_lost() {
        let job = |job: &str| Orphan::Job {
            key: format!("launch {job}"),
            job: job.into(),
            label: String::new(),
            after_ms: 1,
        };
        let plan = plan(&scan(vec![job("a"), job("b")]), 5);
        let [Fix::Tell { at_ms: 5, lost, .. }] = &plan.fixes[..] else { panic!("{plan:?}") };
        assert_eq!(lost.iter().map(|lost| lost.job.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_part_that_is_over_is_left_alone() {
        let part = ToolPart::pending(Fence(0), "c".into(), "bash".into(), PartKind::Tool, 1);
        let part = part.moved(PartState::Completed, 2).unwrap();
        let orphan = Orphan::Part { key: "p".into(), part, child: None, is_timeless: false };
        assert!(plan(&scan(vec![orphan]), 9).is_empty());
    }
}
