//! The client as its user holds it: a way to a service, and the connection that its calls share.

use std::path::PathBuf;
use std::sync::Arc;

use fanin_protocol::Seq;
use fanin_protocol::wire::{Answer, Call, Welcome};
use tokio::sync::Mutex;

use crate::connect::{Connect, Unix};
use crate::connection::{Connection, Pending};
use crate::error::ClientError;

/// Who a client says it is.
#[derive(Clone)]
pub struct Options {
    /// Name and version of the program, for people.
    pub program: String,
    /// What proves that it is part of a run, where it is:
    /// [`TOKEN_VARIABLE`](fanin_protocol::process::TOKEN_VARIABLE) of its environment.
    pub token: Option<String>,
}

impl Default for Options {
    /// This library, with the token of the environment.
    fn default() -> Self {
        let token = std::env::var(fanin_protocol::process::TOKEN_VARIABLE).ok();
        Self { program: concat!("fanin-client ", env!("CARGO_PKG_VERSION")).to_owned(), token }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the token.
        f.debug_struct("Options").field("program", &self.program).finish_non_exhaustive()
    }
}

/// A client of a service. Clones are the same client and share a connection, which is made by the first call, and again by
/// the next one after it was lost.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) way: Box<dyn Connect>,
    pub(crate) options: Options,
    current: Mutex<Option<Arc<Connection>>>,
}

impl Client {
    /// A client of the service with this socket. Nothing is connected yet.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Unix(path.into()), Options::default())
    }

    /// A client that goes this way.
    pub fn new(way: impl Connect + 'static, options: Options) -> Self {
        let shared = Shared { way: Box::new(way), options, current: Mutex::new(None) };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Connects, where that was not done yet, and says who answers.
    ///
    /// # Errors
    ///
    /// [`ClientError::NotRunning`] where nobody does; [`ClientError::Refused`] where that is one of another version.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped, there is no connection, or one that the next call uses.
    pub async fn connect(&self) -> Result<Welcome, ClientError> {
        self.connection().await.map(|connection| connection.welcome().clone())
    }

    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, ClientError> {
        let mut current = self.shared.current.lock().await;
        match current.as_ref().filter(|connection| !connection.is_lost()) {
            Some(connection) => Ok(Arc::clone(connection)),
            None => {
                let connection = Connection::open(&*self.shared.way, &self.shared.options).await?;
                Ok(Arc::clone(current.insert(connection)))
            }
        }
    }

    pub(crate) async fn ask(&self, call: Call) -> Result<Pending, ClientError> {
        self.connection().await?.ask(call).await
    }

    /// Asks anything that has one answer, and gives that as it came. What the answer offers stays with the request, and is
    /// given back as soon as this returns: for that there are methods of their own.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, the service is told that nobody waits; what the call had done by then is done.
    pub async fn call(&self, call: Call) -> Result<Answer, ClientError> {
        self.call_at(call).await.map(|(answer, _)| answer)
    }

    /// As [`Client::call`]; of a call that changes something also the place up to which the records tell of it (B-3).
    ///
    /// # Errors
    ///
    /// As [`Client::call`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::call`].
    pub async fn call_at(&self, call: Call) -> Result<(Answer, Option<Seq>), ClientError> {
        let is_offer = offers(&call);
        let mut pending = self.ask(call).await?;
        let answered = pending.end().await?;
        if is_offer {
            pending.connection().cancel(pending.id());
        }
        Ok(answered)
    }
}

/// True for a call whose request is given something.
const fn offers(call: &Call) -> bool {
    matches!(
        call,
        Call::Run { .. }
            | Call::WaitAll(_)
            | Call::WaitAny(_)
            | Call::WaitGroup { .. }
            | Call::NextWake { .. }
            | Call::NextMessage { .. }
            | Call::TurnBegin { .. }
    )
}
