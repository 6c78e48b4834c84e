//! The tools of fanin over MCP: launch one job or several, be told once, watch, wait, look, follow up, cancel.
//!
//! A client of MCP is a parent that we do not host: nothing can wake it between its calls. So a result is handed over in
//! one of two ways, once: by a call that waits for it, or with the answer to the next call of any tool. It counts as taken
//! when that answer was written.
//!
//! A parent that is hosted has its turns beside its clients ([`Parent`]): a result goes to a call that waits for it, else to
//! whoever wakes the parent. Its clients come and go, and stop nothing by that.
//!
//! A job whose group has mail is served two tools of its own ([`serve_member`]), and none of the others.
//!
//! This crate knows MCP and the supervisor. What a task may be, and where jobs are kept, is the [`Host`]'s; it alone names
//! `rmcp`.

mod arguments;
mod calls;
mod fault;
mod host;
mod launch;
mod look;
mod member;
mod parent;
mod patient;
mod pipe;
mod progress;
mod reply;
mod running;
mod serve;
mod server;
mod steer;
mod tools;
mod wait;
mod watch;

pub use fault::ToolError;
pub use host::{Amounts, Host, Made, Problem, StartFailed, Task, WatchTask};
pub use member::MEMBER_TOOLS;
pub use parent::Parent;
pub use serve::{End, Goodbye, ServeError, serve, serve_member, serve_parent};
pub use tools::TOOLS;
