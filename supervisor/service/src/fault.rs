//! Why a call was not carried out, as a client is told: the codes of the library, and those of a connection.

use std::time::Duration;

use fanin_protocol::Fault;
use fanin_protocol::limits::{
    FAN_OUT_BYTES_MAX, LAUNCH_CALLS_MAX, LAUNCH_CALLS_PER, SERVICE_CALLS_MAX, SERVICE_CLIENTS_MAX,
    SERVICE_HELD_MAX,
};
use fanin_supervisor::{
    CallError, FilterError, FindError, LaunchError, OutputError, SessionError, SubscribeError, WaitError,
};

/// What a service refuses, whatever its supervisor would say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallFault {
    /// Too many clients are connected.
    #[error("{SERVICE_CLIENTS_MAX} clients are connected; at most so many may be")]
    TooManyClients,
    /// The client has too many requests open.
    #[error("{SERVICE_CALLS_MAX} requests of this client are not answered yet; at most so many may be")]
    CallsFull,
    /// It holds too much.
    #[error(
        "this client holds {SERVICE_HELD_MAX} offers, turns and fan-outs; it has to give some back first"
    )]
    HeldFull,
    /// Too many calls that launch came in too short a time; so long it takes until the next may.
    #[error(
        "{LAUNCH_CALLS_MAX} calls that launch in {} s are the most; the next may come in {} ms",
        LAUNCH_CALLS_PER.as_secs(),
        .0.as_millis()
    )]
    LaunchesTooFast(Duration),
    /// The number of the request stands for another one.
    #[error("request {0} is open already; each has a number of its own")]
    RequestInUse(u64),
    /// It is no request that this program knows.
    #[error("no request that this service knows: {0}")]
    UnknownCall(String),
    /// The request has been given nothing that this call is for.
    #[error("request {of} holds no {what}")]
    NotHeld {
        /// The request.
        of: u64,
        /// What was wanted.
        what: &'static str,
    },
    /// The parts of a fan-out are more than may be kept.
    #[error("the jobs of this client's fan-outs have more than {} MiB", FAN_OUT_BYTES_MAX >> 20)]
    FanOutTooLarge,
    /// A folder that would be another one here.
    #[error("job {index}: {folder:?} is no absolute path, and the service is started elsewhere")]
    RelativeFolder {
        /// The job's place in the call, from 0.
        index: usize,
        /// The folder.
        folder: String,
    },
    /// A session is needed, and none was named.
    #[error("no session is named; open one first")]
    SessionMissing,
    /// What the client is part of may not do this (SEC-3).
    #[error("this client is part of job {job}, which may not {what}")]
    PartOfJob {
        /// The job.
        job: String,
        /// What was asked, after "may not".
        what: String,
    },
    /// The answer is longer than a frame.
    #[error("the answer has more bytes than a frame may have; ask for less at a time")]
    AnswerTooLong,
    /// The request was given up by its client.
    #[error("the request was cancelled")]
    RequestCancelled,
    /// A bug of ours.
    #[error("the request ended by an internal error; the service's log says where")]
    Internal,
    /// The client is cut off.
    #[error("{0}")]
    BadFrame(String),
    /// The service ends.
    #[error("the service ends; what it knows is in its store, and the next one goes on with it")]
    ServiceEnds,
}

impl CallFault {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooManyClients => "clients_full",
            Self::CallsFull => "calls_full",
            Self::HeldFull => "held_full",
            Self::LaunchesTooFast(_) => "launches_too_fast",
            Self::RequestInUse(_) => "request_in_use",
            Self::UnknownCall(_) => "unknown_call",
            Self::NotHeld { .. } => "not_held",
            Self::FanOutTooLarge => "fan_out_too_large",
            Self::RelativeFolder { .. } => "relative_folder",
            Self::SessionMissing => "session_missing",
            Self::PartOfJob { .. } => "part_of_job",
            Self::AnswerTooLong => "answer_too_long",
            Self::RequestCancelled => "request_cancelled",
            Self::Internal => "service_internal",
            Self::BadFrame(_) => "bad_frame",
            Self::ServiceEnds => "service_ends",
        }
    }

    const fn is_retryable(&self) -> bool {
        match self {
            Self::TooManyClients
            | Self::CallsFull
            | Self::HeldFull
            | Self::LaunchesTooFast(_)
            | Self::ServiceEnds => true,
            Self::RequestInUse(_)
            | Self::UnknownCall(_)
            | Self::NotHeld { .. }
            | Self::FanOutTooLarge
            | Self::RelativeFolder { .. }
            | Self::SessionMissing
            | Self::PartOfJob { .. }
            | Self::AnswerTooLong
            | Self::RequestCancelled
            | Self::Internal
            | Self::BadFrame(_) => false,
        }
    }
}

impl From<CallFault> for Fault {
    fn from(fault: CallFault) -> Self {
        Self {
            code: fault.code().to_owned(),
            message: fault.to_string(),
            hint: None,
            retryable: fault.is_retryable(),
        }
    }
}

/// What the library refuses, or could not do.
pub(crate) trait AsFault {
    fn fault(&self) -> Fault;
}

/// True where the same call may work in a moment, or once something was made room for.
fn is_retryable(code: &str) -> bool {
    ["busy", "store_low", "store_full", "queue_full", "inbox_full", "still_reaping"].contains(&code)
}

macro_rules! as_fault {
    ($($error:ty),*) => {
        $(impl AsFault for $error {
            fn fault(&self) -> Fault {
                let code = self.code();
                Fault {
                    code: code.to_owned(),
                    message: self.to_string(),
                    hint: None,
                    retryable: is_retryable(code),
                }
            }
        })*
    };
}

as_fault!(CallError, LaunchError, WaitError, SessionError, SubscribeError, FindError, OutputError);

impl AsFault for FilterError {
    fn fault(&self) -> Fault {
        SubscribeError::Filter(self.clone()).fault()
    }
}
