//! What all clients share: the supervisor, who they are, how many there may be, and the end.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use fanin_protocol::LogId;
use fanin_protocol::limits::SERVICE_CLIENTS_MAX;
use fanin_protocol::wire::FrameError;
use fanin_supervisor::{CallError, CallRate, Supervisor};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::caller::{Origin, Peer};
use crate::client;
use crate::fault::CallFault;
use crate::outbox::PutError;
use crate::rates::Rates;

/// Says what the processes above a client say of it. It is asked once for each client, and may look at the system.
pub type Identify = dyn Fn(u32) -> Origin + Send + Sync;

/// How a service is set up.
pub struct Options {
    /// Name and version of the program, for people.
    pub program: String,
    /// Since when it serves, in milliseconds since 1970.
    pub since_ms: u64,
    /// Who a client is.
    pub identify: Box<Identify>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("program", &self.program).finish_non_exhaustive()
    }
}

/// Why a client was not served to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// It said nothing.
    #[error("a client did not say who it is")]
    Silent,
    /// It sent what is no frame, or no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Its connection broke, or it took nothing for too long.
    #[error("the connection of a client broke: {0}")]
    Io(#[from] io::Error),
}

impl ConnectionError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Silent => "client_silent",
            Self::Frame(error) => error.code(),
            Self::Io(_) => "client_io",
        }
    }
}

impl From<PutError> for ConnectionError {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Gone => Self::Io(io::ErrorKind::BrokenPipe.into()),
            PutError::Frame(error) => Self::Frame(error),
        }
    }
}

/// That the service shall end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// How long what runs may go on; the service's own time without one.
    pub drain: Option<Duration>,
}

/// Answers clients from a supervisor. Clones are the same service.
///
/// It starts nothing and ends nothing by itself: whoever has it waits for [`Service::asked_to_stop`], and ends it.
#[derive(Debug, Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

/// Who serves.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) program: String,
    pub(crate) since_ms: u64,
}

pub(crate) struct Inner {
    supervisor: Supervisor,
    log: LogId,
    about: About,
    identify: Box<Identify>,
    rates: Rates,
    clients: AtomicU32,
    is_draining: AtomicBool,
    stop: watch::Sender<Option<Stop>>,
    ending: watch::Sender<bool>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("about", &self.about)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

/// A client that is connected, counted as long as this lives.
struct Counted(Arc<Inner>);

impl Counted {
    fn enter(inner: &Arc<Inner>) -> Option<Self> {
        let most = u32::try_from(SERVICE_CLIENTS_MAX).unwrap_or(u32::MAX);
        let more = |count: u32| (count < most).then_some(count + 1);
        inner.clients.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(Arc::clone(inner)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service {
    /// A service of this supervisor.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`].
    pub fn new(supervisor: Supervisor, options: Options) -> Result<Self, CallError> {
        let log = supervisor.standings()?.head.log;
        let Options { program, since_ms, identify } = options;
        let inner = Inner {
            supervisor,
            log,
            about: About { program, since_ms },
            identify,
            rates: Rates::default(),
            clients: AtomicU32::new(0),
            is_draining: AtomicBool::new(false),
            stop: watch::channel(None).0,
            ending: watch::channel(false).0,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Serves one client to its end: what it sends, and where its answers go. One that is too many is told so.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`], for the log: the client has what was its due by then.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the client is gone: it leaves its waits, and what it was given goes back. Jobs go on.
    pub async fn serve<R, W>(&self, (reader, mut writer): (R, W), peer: Peer) -> Result<(), ConnectionError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        match Counted::enter(&self.inner) {
            Some(_counted) => client::serve(Arc::clone(&self.inner), (reader, writer), peer).await,
            None => client::refuse(&self.inner.about, &mut writer, CallFault::TooManyClients).await,
        }
    }

    /// Waits until a client asks for the end of the service.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn asked_to_stop(&self) -> Stop {
        let mut asked = self.inner.stop.subscribe();
        let stop = asked.wait_for(Option::is_some).await.ok().and_then(|stop| *stop);
        match stop {
            Some(stop) => stop,
            // Only where the service itself is gone.
            None => std::future::pending().await,
        }
    }

    /// From now on the status says that the service drains.
    pub fn set_draining(&self) {
        self.inner.is_draining.store(true, Ordering::Relaxed);
    }

    /// Ends all connections: each client is told so, once what it is owed was written. Calls that wait leave.
    pub fn end(&self) {
        self.inner.ending.send_replace(true);
    }
}

impl Inner {
    pub(crate) const fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    pub(crate) const fn about(&self) -> &About {
        &self.about
    }

    pub(crate) const fn log(&self) -> &LogId {
        &self.log
    }

    pub(crate) fn clients(&self) -> u32 {
        self.clients.load(Ordering::Relaxed)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    pub(crate) fn ask_to_stop(&self, drain: Option<Duration>) {
        self.stop.send_replace(Some(Stop { drain }));
    }

    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    pub(crate) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    pub(crate) fn origin(&self, peer: Peer) -> Origin {
        match peer {
            Peer::Own => Origin::default(),
            Peer::Process(pid) => (self.identify)(pid),
        }
    }

    pub(crate) fn rate(&self, peer: Peer) -> Arc<CallRate> {
        self.rates.of(peer.pid())
    }
}
