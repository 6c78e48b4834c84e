//! What is said at the door of the mail: one line of JSON each way, then one more where a mail is handed over. It does no I/O.

use std::sync::Arc;

use fanin_protocol::JobId;
use serde::{Deserialize, Serialize};

/// Who comes, and what for. It has no `Debug`: a token and a message are nobody's business.
#[derive(Serialize, Deserialize)]
pub(super) struct Hello {
    /// What proves of which run it is; without one it is known by its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    pub(super) ask: Ask,
}

/// What it wants.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    /// The tools of a member: what follows is MCP.
    Mcp,
    /// To send.
    Send { to: String, text: Arc<str> },
    /// To receive. Once a mail is there it is told so ([`Answer::Ready`]), and takes it by a line of its own.
    Receive { from: Option<String>, timeout_ms: u64 },
}

/// What is answered.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// It is let in.
    Welcome,
    /// The mail is in the mailbox.
    Sent,
    /// There is a mail, for whoever is still there.
    Ready,
    /// The mail, which is nobody else's any more.
    Mail(Mail),
    /// None came in time.
    Nothing,
    /// Nothing was done, or nothing more will come.
    Refused { code: String, message: String },
}

/// A mail as it is shown.
#[derive(Serialize, Deserialize)]
pub(super) struct Mail {
    /// What the sender is called in its group.
    pub(super) from: Arc<str>,
    /// The sender's job.
    pub(super) job: JobId,
    pub(super) text: Arc<str>,
}

impl Answer {
    pub(super) fn refused(code: &str, message: impl ToString) -> Self {
        Self::Refused { code: code.to_owned(), message: message.to_string() }
    }
}

/// The line that takes a mail.
pub(super) const TAKE: &str = "take\n";

/// A line of it. Texts and numbers: there is nothing in it that could not be written.
pub(super) fn line(message: &impl Serialize) -> String {
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}
