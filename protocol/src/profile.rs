//! What a tree of jobs may grow to: two profiles, chosen by who launches and never by an argument of a job.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::limits::{
    AGENT_DEPTH_MAX, AGENT_GROUP_MAX, AGENT_GROUP_MIN, AGENT_PROMPT_BYTES_MAX, AGENT_QUEUE_JOBS_ALL_MAX,
    AGENT_QUEUE_JOBS_MAX, AGENT_SLOTS, AGENT_SPAWN_TOTAL, AGENT_WAKES, AGENT_WAKES_PER_MINUTE, DEPTH_MAX,
    DEPTH_MAX_MAX, GROUP_MEMBERS_MAX, PROMPT_BYTES_MAX, QUEUE_JOBS_MAX,
};

/// Who drives a session (14.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// A model: small groups, no jobs below jobs, a total for life.
    Agent,
    /// A person or a program.
    #[default]
    Operator,
}

impl Profile {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Operator => "operator",
        }
    }

    /// Its bounds.
    pub const fn bounds(self) -> Bounds {
        match self {
            Self::Agent => Bounds {
                depth: AGENT_DEPTH_MAX,
                group_min: AGENT_GROUP_MIN,
                group_max: AGENT_GROUP_MAX,
                spawn_total: Some(AGENT_SPAWN_TOTAL),
                prompt_bytes: AGENT_PROMPT_BYTES_MAX,
                queue: AGENT_QUEUE_JOBS_MAX,
                queue_all: AGENT_QUEUE_JOBS_ALL_MAX,
                slots: Some(AGENT_SLOTS),
                wakes: Some(AGENT_WAKES),
                wakes_per_minute: Some(AGENT_WAKES_PER_MINUTE),
                budget: Budget::NONE,
            },
            Self::Operator => Bounds {
                depth: DEPTH_MAX,
                group_min: 1,
                group_max: GROUP_MEMBERS_MAX,
                spawn_total: None,
                prompt_bytes: PROMPT_BYTES_MAX,
                queue: QUEUE_JOBS_MAX,
                queue_all: QUEUE_JOBS_MAX,
                slots: None,
                wakes: None,
                wakes_per_minute: None,
                budget: Budget::NONE,
            },
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a session and all below it may grow to. A launch beyond any of these is refused before anything exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// How far below its session a job may hang; the jobs of the session itself are at 1.
    pub depth: u32,
    /// Members of a fan-out at the least. A single start is none.
    pub group_min: usize,
    /// Members of a fan-out at the most.
    pub group_max: usize,
    /// Jobs of the tree for life, at all depths; `None` for no bound.
    pub spawn_total: Option<u32>,
    /// Longest prompt of an agent job, in bytes.
    pub prompt_bytes: usize,
    /// Jobs of the tree that may wait for their first start.
    pub queue: usize,
    /// Jobs of all trees that may wait for it, as seen by a launch in this one.
    pub queue_all: usize,
    /// Jobs of the tree that may hold a slot at once; `None` for no bound but the supervisor's.
    pub slots: Option<u32>,
    /// Wakes of the tree until its user says something; then they stay owed (W-7). `None` for no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes: Option<u32>,
    /// Wakes of the tree in a minute; what is above that comes later. `None` for no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes_per_minute: Option<u32>,
    /// What the session, and all below it, may use in its life.
    #[serde(default, skip_serializing_if = "Budget::is_none")]
    pub budget: Budget,
}

impl Default for Bounds {
    fn default() -> Self {
        Profile::Operator.bounds()
    }
}

impl Bounds {
    /// Checks that something could be launched at all.
    ///
    /// # Errors
    ///
    /// [`BoundsError`] names the bound, and what it may be.
    pub fn check(&self) -> Result<(), BoundsError> {
        let known = |bound, value: usize, min: usize, max: usize| {
            if (min..=max).contains(&value) { Ok(()) } else { Err(BoundsError { bound, value, min, max }) }
        };
        let count = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        known("depth", count(self.depth), 1, count(DEPTH_MAX_MAX))?;
        known("group_max", self.group_max, 1, GROUP_MEMBERS_MAX)?;
        known("group_min", self.group_min, 1, self.group_max)?;
        known("spawn_total", self.spawn_total.map_or(1, count), 1, usize::MAX)?;
        known("prompt_bytes", self.prompt_bytes, 1, PROMPT_BYTES_MAX)?;
        known("queue", self.queue, 1, QUEUE_JOBS_MAX)?;
        known("queue_all", self.queue_all, 1, QUEUE_JOBS_MAX)?;
        known("slots", self.slots.map_or(1, count), 1, usize::MAX)?;
        known("wakes", self.wakes.map_or(1, count), 1, usize::MAX)?;
        known("wakes_per_minute", self.wakes_per_minute.map_or(1, count), 1, usize::MAX)
    }
}

/// A bound that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bound}: {value} is not from {min} to {max}")]
pub struct BoundsError {
    /// Its name.
    pub bound: &'static str,
    /// What was given.
    pub value: usize,
    /// The least it may be.
    pub min: usize,
    /// The most it may be.
    pub max: usize,
}
