//! Why a tool did not do what was asked: in words that name the input and the way out, with a stable code.

use std::time::Duration;

use fanin_protocol::Fault;
use fanin_protocol::limits::{LAUNCH_CALLS_MAX, LAUNCH_CALLS_PER, MCP_CALLS_MAX, PROBLEMS_SHOWN_MAX};
use fanin_supervisor::{CallError, LaunchError, OutputError, WaitError};

use crate::host::{Problem, StartFailed};

/// Why a tool did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are not those of the tool.
    #[error("{0}")]
    Arguments(String),
    /// Tasks that cannot be run.
    #[error("{}", lines(.0))]
    Tasks(Vec<Problem>),
    /// Neither a job nor a group of this connection.
    #[error("`{0}` is no job or group that was launched over this connection")]
    NotLaunched(String),
    /// The program is part of a job that may launch none.
    #[error("this is a worker, and workers launch no workers")]
    Worker,
    /// Too many calls are open.
    #[error("{0} calls are open; at most {MCP_CALLS_MAX} may be")]
    TooManyCalls(usize),
    /// Too many calls of tools that launch came in too short a time; so long it takes until the next may.
    #[error(
        "{LAUNCH_CALLS_MAX} calls of `subagent` and `task_parallel` in {} s are the most; the next may come in {} s",
        LAUNCH_CALLS_PER.as_secs(),
        .0.as_millis().div_ceil(1_000)
    )]
    TooFast(Duration),
    /// The client is gone, or the program was told to end.
    #[error("the server is about to end and launches nothing more")]
    Ending,
    /// There is nothing to launch with.
    #[error(transparent)]
    Start(#[from] StartFailed),
    /// The launch was refused.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The wait brought no result.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The output cannot be read.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The supervisor refused.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl ToolError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Arguments(_) => "bad_arguments",
            Self::Tasks(_) => "bad_tasks",
            Self::NotLaunched(_) => "not_launched",
            Self::Worker => "worker",
            Self::TooManyCalls(_) => "too_many_calls",
            Self::TooFast(_) => "too_fast",
            Self::Ending => "ending",
            Self::Start(failed) => failed.code,
            Self::Launch(error) => error.code(),
            Self::Wait(error) => error.code(),
            Self::Output(error) => error.code(),
            Self::Call(error) => error.code(),
        }
    }

    /// True where the same may succeed in a moment.
    pub(crate) fn is_busy(&self) -> bool {
        self.code() == CallError::Busy.code()
    }

    /// As it is shown.
    pub(crate) fn fault(&self) -> Fault {
        let code = self.code();
        let is_retryable = matches!(
            code,
            "busy"
                | "too_many_calls"
                | "too_fast"
                | "store_low"
                | "store_full"
                | "mailbox_full"
                | "mailbox_reset"
        );
        Fault {
            code: code.to_owned(),
            message: self.to_string(),
            hint: hint(code).map(ToOwned::to_owned),
            retryable: is_retryable,
        }
    }
}

/// The way out, where the message does not say it.
fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "bad_arguments" | "bad_tasks" => "correct the arguments and call again; nothing was started",
        "not_launched" | "unknown_job" | "unknown_group" => {
            "`jobs` without arguments lists the ids there are"
        }
        "worker" => "do the work yourself, here",
        "too_many_calls" => "wait for the answers of those that are open, then call again",
        "too_fast" => "do not call in a loop: launch what there is to do once, and wait for its result",
        "ending" => "connect again; nothing was started",
        "spawn_total" => {
            "do the rest yourself: the number is for one connection, and for all of them of a parent that fanin hosts"
        }
        "not_accepted" => "wait for the result; what is missing then can be a new job",
        "output_not_kept" => "the excerpt in the result is all that is left",
        "busy" => "call again in a moment",
        "store_low" | "store_full" => "free some space on the disk, then call again",
        "mailbox_full" => {
            "do something else and send again later, or leave it out; it is no fault of your task"
        }
        "mailbox_reset" => "receive again",
        "sends_spent" => "put the rest into your answer",
        "not_allowed" => "mail goes one way: put it into your answer instead",
        "target_finished" => "go on without it",
        "expired" => "the result was handed over before; call `subagent` for new work",
        _ => return None,
    })
}

fn lines(problems: &[Problem]) -> String {
    let line = |Problem { index, key, what }: &Problem| {
        let dot = if key.is_empty() { "" } else { "." };
        match index {
            Some(index) => format!("tasks[{index}]{dot}{key}: {what}"),
            None => format!("{key}: {what}"),
        }
    };
    let mut lines: Vec<_> = problems.iter().take(PROBLEMS_SHOWN_MAX).map(line).collect();
    if let Some(more) = problems.len().checked_sub(PROBLEMS_SHOWN_MAX).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}
