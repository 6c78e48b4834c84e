//! The process tree of a job: how it is started, held together, stopped and reaped, and who a process is.
//!
//! [`Tree`] is one command and all that it starts. With a shim it is held by a process of its own ([`shim`]) that all
//! its orphans fall to, whatever session they are in, and that ends them when this process is gone; without one by
//! its process group. Nothing here signals a process by a number that may be another's by now ([`Identity`]), and
//! nothing adds code to a child before its `exec`: that would turn the fast spawn of the system into a copy of all
//! our memory.

mod ancestry;
mod group;
mod grouped;
mod hunt;
mod identity;
#[cfg(target_os = "linux")]
mod lost;
pub mod shim;
#[cfg(target_os = "linux")]
mod shimmed;
mod spawn;
mod survivors;
mod table;
mod tree;
mod watch;
#[cfg(target_os = "linux")]
mod wire;

pub use ancestry::{Ancestry, mail_above, own_mark};
pub use identity::{Found, Identity};
pub use spawn::NotStarted;
pub use survivors::{is_alive, may_live, stop_survivors};
pub use table::{Entry, Table};
pub use tree::{Given, Input, Pipes, Tree, read_now};
