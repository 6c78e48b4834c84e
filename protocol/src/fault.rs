//! An error as other programs read it.

use serde::{Deserialize, Serialize};

/// A refused or failed request (`fanin.error/1`). Each code has a row in `docs/errors.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// A stable name, such as `unknown_job`.
    pub code: String,
    /// What is wrong, naming the input.
    pub message: String,
    /// The way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// True where the same request may succeed later.
    pub retryable: bool,
}
