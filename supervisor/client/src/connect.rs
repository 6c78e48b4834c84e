//! How a service is reached: over a socket, or by whatever way a program has.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// What comes from a service, and what goes to it.
pub type Halves = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// A connection on its way.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Halves>> + Send + 'a>>;

/// A way to a service. It is gone again each time a connection is needed: for the first call, for each stream, and after one
/// was lost.
pub trait Connect: Send + Sync + fmt::Debug {
    /// Connects.
    fn connect(&self) -> Connecting<'_>;

    /// Where that is, for people.
    fn place(&self) -> String;
}

/// The socket of a service.
#[derive(Debug, Clone)]
pub struct Unix(pub PathBuf);

impl Connect for Unix {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let (reader, writer) = UnixStream::connect(&self.0).await?.into_split();
            let halves: Halves = (Box::new(reader), Box::new(writer));
            Ok(halves)
        })
    }

    fn place(&self) -> String {
        self.0.display().to_string()
    }
}
