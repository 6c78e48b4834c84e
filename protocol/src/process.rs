//! What records say of processes: how a job's were held together, and what of them could not be stopped. It looks at
//! no process.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The variable in a job's environment that names its run, as `LOG:FENCE`.
///
/// No other run has the same value, so what carries it belongs to that run (RE-2).
pub const RUN_VARIABLE: &str = "FANIN_RUN";

/// The variable in a job's environment that proves to its supervisor who is part of its run (SEC-3). It is in no record and
/// no log, and worth nothing once the run has ended.
pub const TOKEN_VARIABLE: &str = "FANIN_TOKEN";

/// The variable in the environment of a job that may have mail: the socket where its supervisor takes and hands out what the
/// jobs of its group send each other. Who may come in is decided there, so it is no secret.
pub const MAIL_VARIABLE: &str = "FANIN_MAIL";

/// How the processes of a job are held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Containment {
    /// By a shim of its own: all that descends from it, whatever group or session that is in (SC-4).
    Shim,
    /// By its process group alone: what leaves the group is out of reach.
    Group,
    /// A way that a newer writer knows and this reader does not.
    #[serde(other)]
    Unknown,
}

impl Containment {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shim => "shim",
            Self::Group => "group",
            Self::Unknown => "unknown",
        }
    }
}

/// What the processes of a run left when its main one had ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// How many were alive then and were stopped by the rule of 14.6.
    pub stopped: u32,
    /// Its shim was lost: what carried the run's mark was killed, but nobody can vouch that this was all.
    pub shim_lost: bool,
    /// Those that could not be stopped, [`LEFT_NAMED_MAX`](crate::limits::LEFT_NAMED_MAX) at the most.
    pub alive: Arc<[LeftProcess]>,
}

impl Left {
    /// True where something of the run may still be alive (J-18).
    pub fn is_unreaped(&self) -> bool {
        self.shim_lost || !self.alive.is_empty()
    }
}

/// A process that could not be stopped. Pid and start together are its identity until the machine starts again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftProcess {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did.
    pub pid_start: u64,
    /// Its program, as the system names it.
    pub program: String,
}
