//! A client of a fanin service, such as `fanin serve`: calls, and streams that survive a restart of it.
//!
//! A [`Client`] speaks the protocol of `docs/protocol.md`. Each call is a future that can be dropped: the service is told
//! that nobody waits any more. What a call is offered ([`Offered`]) is taken by `ack`; dropped without it, or lost with the
//! connection, it is owed as before. A connection that broke is made again by the next call.
//!
//! Records come from [`Client::subscribe`], outputs from [`Client::follow`]. Each is a connection of its own, which goes at
//! the pace of its reader, and is made again where it broke, from the place where it was: nothing is lost, and nothing
//! comes twice.
//!
//! ```no_run
//! use fanin_client::{Client, Item, Subscribe};
//!
//! # async fn watch() -> Result<(), fanin_client::ClientError> {
//! let client = Client::unix("/run/user/1000/fanin/0123456789abcdef.sock");
//! let mut events = client.subscribe(Subscribe::default());
//! while let Some(item) = events.next().await? {
//!     if let Item::Event(event) = item {
//!         println!("{} {}", event.seq, event.kind);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod calls;
mod client;
mod connect;
mod connection;
mod error;
mod launch;
mod offered;
mod stream;

pub use client::{Client, Options};
pub use connect::{Connect, Connecting, Halves, Unix};
pub use error::ClientError;
pub use fanin_protocol as protocol;
pub use fanin_protocol::wire::{
    After, Answer, Call, CancelCall, Cancelled, EventFilter, GroupInfo, Item, JobCall, LaunchCall, Launched,
    NewJob, OpenSession, OutputCall, OutputPage, ServiceState, Since, StatusInfo, StopWhat, Subscribe,
    WaitCall, Waited, Welcome,
};
pub use launch::{Foreground, Returned};
pub use offered::{GroupResult, Message, Offered, Turn};
pub use stream::{Events, Pages};
