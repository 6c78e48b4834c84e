//! What a crash left open in the transcripts of agents: tool calls that say `running` for ever, messages that were never
//! completed, background jobs whose result never came. It finds and counts them, and repairs them when a person says so.
//!
//! It needs no supervisor and starts nothing. A [`Format`] knows one kind of store and nothing of what is right;
//! [`plan`] says what is right and knows no store; [`report`], [`repair`] and [`undo`] put them in order. What is told and
//! promised: `docs/sanitize.md`.
//!
//! ```no_run
//! use fanin_sanitize::{Only, OpenCode, report};
//!
//! # fn example() -> Result<(), fanin_sanitize::SanitizeError> {
//! let scan = report(&OpenCode, "opencode.db".as_ref(), &Only::All)?;
//! println!("{} calls still run", scan.counts().running);
//! # Ok(())
//! # }
//! ```

mod backup;
mod codex;
mod error;
mod format;
mod object;
mod opencode;
mod orphan;
mod plan;
mod repair;
#[cfg(feature = "testing")]
pub mod testing;
mod users;

pub use codex::Codex;
pub use error::SanitizeError;
pub use format::{Format, Store};
pub use opencode::OpenCode;
pub use orphan::{Counts, Only, Orphan, Scan, Scanned};
pub use plan::{Fix, INTERRUPTED, Lost, Plan, plan};
pub use repair::{Options, Repaired, Undone, repair, report, undo};
