//! Answers the protocol of fanin from a supervisor: over a Unix socket, or over a pipe in memory.
//!
//! A [`Service`] serves any stream of bytes. It decides nothing that the library does not: each call is one of the
//! library's. What it adds is what a connection needs: who a client is ([`Peer`]), bounds on what it may ask at once, and its
//! end. A client that is gone has left its waits, given back what it was offered, and ended its turns and streams; the jobs
//! that it launched go on.
//!
//! [`Listener`] is the socket. It looks after who may come in, and after the place where it is.

mod answer;
mod caller;
mod calls;
mod client;
mod convert;
mod fault;
mod held;
mod launch;
mod listener;
mod outbox;
mod rates;
mod service;
mod stream;

pub use caller::{Origin, Peer};
pub use fault::CallFault;
pub use listener::{Listener, SocketError};
pub use service::{ConnectionError, Identify, Options, Service, Stop};
