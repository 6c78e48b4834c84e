//! Why a call gave nothing.

use std::io;

use fanin_protocol::Fault;
use fanin_protocol::wire::{FrameError, Refused};

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody serves there.
    #[error("no service answers at {place}: {source}")]
    NotRunning {
        /// Where it would be.
        place: String,
        /// The system's word.
        source: io::Error,
    },
    /// The service does not serve this client: it speaks other versions, or has too many clients.
    #[error("{}{}", .0.fault.message, .0.fault.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    Refused(Box<Refused>),
    /// The connection ended before the answer came: whether the call was carried out is not known.
    #[error("the connection to the service was lost: {0}")]
    Lost(String),
    /// The service refused the call, or could not carry it out.
    #[error("{}", .0.message)]
    Call(Box<Fault>),
    /// What came is no answer to what was asked.
    #[error("the service answered {call} with something else")]
    Unexpected {
        /// The call.
        call: &'static str,
    },
    /// A frame that is none, or a request that fits into none.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl ClientError {
    /// A stable name; each has a row in `docs/errors.md`. That of a call is the service's.
    pub fn code(&self) -> &str {
        match self {
            Self::NotRunning { .. } => "not_running",
            Self::Refused(refused) => &refused.fault.code,
            Self::Lost(_) => "connection_lost",
            Self::Call(fault) => &fault.code,
            Self::Unexpected { .. } => "unexpected_answer",
            Self::Frame(error) => error.code(),
        }
    }

    /// True where the same call may work in a moment.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotRunning { .. } | Self::Lost(_) => true,
            Self::Refused(refused) => refused.fault.retryable,
            Self::Call(fault) => fault.retryable,
            Self::Unexpected { .. } | Self::Frame(_) => false,
        }
    }

    /// True where nobody serves: with a store, others may do the work.
    pub const fn is_not_running(&self) -> bool {
        matches!(self, Self::NotRunning { .. })
    }

    /// The error as a document (`fanin.error/1`).
    pub fn fault(&self) -> Fault {
        match self {
            Self::Refused(refused) => refused.fault.clone(),
            Self::Call(fault) => (**fault).clone(),
            Self::NotRunning { .. } | Self::Lost(_) | Self::Unexpected { .. } | Self::Frame(_) => Fault {
                code: self.code().to_owned(),
                message: self.to_string(),
                hint: None,
                retryable: self.is_retryable(),
            },
        }
    }
}

impl From<Fault> for ClientError {
    fn from(fault: Fault) -> Self {
        Self::Call(Box::new(fault))
    }
}
