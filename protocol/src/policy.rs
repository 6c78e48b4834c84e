//! When the rest of a group is told to stop. A group fires when all its members ended, whatever the policy.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::limits::LIMIT_MAX;
use crate::spec::millis;

/// `stop_rest_when`: the first of these that comes true stops the members still alive. None set: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct Policy {
    /// Once this many members completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<u32>,
    /// Once this many members ended otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ok: Option<u32>,
    /// Once this many milliseconds passed since the group was sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// What the members, and all below them, may use. Once it is used up they end as `error{budget}`.
    #[serde(default, skip_serializing_if = "Budget::is_none")]
    pub budget: Budget,
}

impl Policy {
    /// All members run to their end (the default).
    pub const ALL: Self = Self { ok: None, not_ok: None, at_ms: None, budget: Budget::NONE };
    /// The first that completes stops the rest.
    pub const ANY: Self = Self { ok: Some(1), not_ok: None, at_ms: None, budget: Budget::NONE };
    /// The first that does not complete stops the rest.
    pub const FAIL_FAST: Self = Self { ok: None, not_ok: Some(1), at_ms: None, budget: Budget::NONE };

    /// `n` that complete stop the rest.
    pub const fn quorum(n: u32) -> Self {
        Self { ok: Some(n), not_ok: None, at_ms: None, budget: Budget::NONE }
    }

    /// And the rest is stopped once this long has passed since the group was sealed, whatever has ended.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { at_ms: Some(millis(deadline)), ..self }
    }

    /// And all members together may use no more than this.
    #[must_use]
    pub const fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Checks the counts against the number of members, and the deadline against what can be honoured.
    ///
    /// # Errors
    ///
    /// A sentence that names the rule and what would be right.
    pub fn check(&self, members: usize) -> Result<(), String> {
        for (name, count) in [("ok", self.ok), ("not_ok", self.not_ok)] {
            match count {
                Some(0) => {
                    return Err(format!(
                        "policy: {name} = 0 would stop all before they start; use 1 or more"
                    ));
                }
                Some(n) if n as usize > members => {
                    return Err(format!("policy: {name} = {n} can never be met by {members} members"));
                }
                _ => {}
            }
        }
        self.budget.check().map_err(|error| format!("budget: {error}"))?;
        match self.at_ms {
            Some(0) => Err("deadline: zero would stop all before they start".into()),
            Some(ms) if Duration::from_millis(ms) > LIMIT_MAX => {
                Err(format!("deadline: {ms} ms is more than ten years; leave it out for no limit"))
            }
            _ => Ok(()),
        }
    }
}

/// Which rule of a [`Policy`] stopped the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// Enough members completed.
    Ok,
    /// Too many members did not complete.
    NotOk,
    /// The deadline passed.
    Deadline,
    /// A member that the whole group cannot do without was not started, since one that it needs did not complete (T-4).
    Dependency,
}

impl Threshold {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotOk => "not_ok",
            Self::Deadline => "deadline",
            Self::Dependency => "dependency",
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
