//! How things end: the five statuses, the causes behind two of them, and finer codes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::Dimension;

/// The five public statuses of a job; they are final as a list (section 2 of the semantics).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Launched, not started yet.
    Queued,
    /// Started and not over.
    Running,
    /// Over: the body ended well.
    Completed,
    /// Over: it did not end well; the cause says how.
    Error,
    /// Over: somebody stopped it; the cause says who.
    Cancelled,
}

impl Status {
    /// True for the three statuses that never change again.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Error | Self::Cancelled)
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a job ended as `error` or `cancelled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Error: the body said so, or a command left with another status than 0.
    Failed,
    /// Error: the body panicked.
    Panic,
    /// Error: it could not be started.
    Spawn,
    /// Error: a limit of time passed; the code says which.
    Timeout,
    /// Error: its budget was used up.
    Budget,
    /// Error: a job it needs did not complete.
    Dependency,
    /// Error: the supervisor stopped before the job did.
    Interrupted,
    /// Cancelled: a person or the launching program asked for it.
    User,
    /// Cancelled: its parent ended.
    Parent,
    /// Cancelled: its group's policy stopped the rest.
    Group,
    /// Cancelled: the supervisor shut down in order.
    Shutdown,
    /// Cancelled: the client that launched it went away.
    ClientGone,
    /// A cause that a newer writer knows and this reader does not.
    #[serde(other)]
    Unknown,
}

impl Cause {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Panic => "panic",
            Self::Spawn => "spawn",
            Self::Timeout => "timeout",
            Self::Budget => "budget",
            Self::Dependency => "dependency",
            Self::Interrupted => "interrupted",
            Self::User => "user",
            Self::Parent => "parent",
            Self::Group => "group",
            Self::Shutdown => "shutdown",
            Self::ClientGone => "client_gone",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A finer word below a [`Cause`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Timeout: from launch to the first start.
    Queue,
    /// Timeout: from the start of a run until its runner had it in hand.
    Start,
    /// Timeout: one run.
    Run,
    /// Timeout: all runs together.
    Total,
    /// Timeout: a run without a sign of work.
    Idle,
    /// Failed: a turn without any part, text or usage (J-23).
    NoOutput,
    /// Failed: it ended well, and left a follow-up unanswered that it had accepted (J-24).
    Unanswered,
    /// Interrupted: its supervisor ended with it too often, so it was not started again (RE-5).
    Exhausted,
    /// Failed: the same call again and again, without another one between (SC-15).
    NoProgress,
    /// Failed: checks of a watch, one after the other, could not be made.
    CheckFailed,
    /// Failed: a command left with another status than 0.
    ExitStatus,
    /// Failed: a signal from outside ended the command.
    Signal,
    /// Spawn: the program does not exist.
    ProgramNotFound,
    /// Spawn: the working folder does not exist or is no folder.
    BadFolder,
    /// Spawn: the system refused the program or the folder.
    PermissionDenied,
    /// Spawn: another reason of the system.
    Os,
    /// Spawn or failed: the shim that held the command's processes together was lost.
    ShimLost,
    /// Spawn: the agent wants somebody to log in first; another try changes nothing.
    AuthRequired,
    /// Spawn: the agent's program was started, and opened no session: no answer in time, or a wrong one.
    Handshake,
    /// Failed: the agent closed its output, or wrote what is none of the protocol.
    Protocol,
    /// Failed: the agent stopped at a limit of its own.
    AgentLimit,
    /// Failed: the agent refused to go on.
    Refusal,
    /// Budget: money.
    Usd,
    /// Budget: tokens of models.
    Tokens,
    /// Budget: calls of models.
    Steps,
    /// Budget: the times of runs, added up.
    Time,
    /// A code that a newer writer knows and this reader does not.
    #[serde(other)]
    Unknown,
}

impl Code {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Start => "start",
            Self::Run => "run",
            Self::Total => "total",
            Self::Idle => "idle",
            Self::NoOutput => "no_output",
            Self::Unanswered => "unanswered",
            Self::Exhausted => "exhausted",
            Self::NoProgress => "no_progress",
            Self::CheckFailed => "check_failed",
            Self::ExitStatus => "exit_status",
            Self::Signal => "signal",
            Self::ProgramNotFound => "program_not_found",
            Self::BadFolder => "bad_folder",
            Self::PermissionDenied => "permission_denied",
            Self::Os => "os",
            Self::ShimLost => "shim_lost",
            Self::AuthRequired => "auth_required",
            Self::Handshake => "handshake",
            Self::Protocol => "protocol",
            Self::AgentLimit => "agent_limit",
            Self::Refusal => "refusal",
            Self::Usd => "usd",
            Self::Tokens => "tokens",
            Self::Steps => "steps",
            Self::Time => "time",
            Self::Unknown => "unknown",
        }
    }
}

impl From<Dimension> for Code {
    fn from(dimension: Dimension) -> Self {
        match dimension {
            Dimension::Usd => Self::Usd,
            Dimension::Tokens => Self::Tokens,
            Dimension::Steps => Self::Steps,
            Dimension::Time => Self::Time,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a command's process left: one of the two is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Its exit status, 0 to 255.
    Status(i32),
    /// The signal that ended it.
    Signal(i32),
}
