//! A server from its first message to its end: the end of the input, or a word of the host, stops what it runs, within two
//! seconds (14.10).

use std::sync::Arc;
use std::time::Duration;

use fanin_protocol::limits::{
    MCP_CLOSE, MCP_DRAIN, MCP_GRACE, MCP_LINE_BYTES_MAX, MCP_RECORDS, MCP_WRITE_WAIT,
};
use fanin_supervisor::Mailbox;
use rmcp::ServerHandler;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::calls::Calls;
use crate::host::Host;
use crate::member::Member;
use crate::parent::Parent;
use crate::patient::Patient;
use crate::pipe::Pipe;
use crate::running::Running;
use crate::server::Server;

/// From the end of the input until jobs that did not end are left to their shims.
const TIME: Duration = MCP_DRAIN.saturating_add(MCP_GRACE).saturating_add(MCP_RECORDS);

/// Why a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its client has closed the input.
    ClientGone,
    /// The host has told it.
    Told,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goodbye {
    /// Why.
    pub end: End,
    /// Jobs did not end in time after their forced stop; something of them may still be alive.
    pub unreaped: bool,
}

/// Why there was no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The first message was not one that begins a session.
    #[error("the client did not begin a session of MCP: {0}")]
    Handshake(String),
}

impl ServeError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Handshake(_) => "mcp_handshake",
        }
    }
}

/// Serves one client over two ends of a stream, until it is gone or `told` is ready. Nothing is written there but messages of
/// the protocol, and nothing exists before the first launch.
///
/// Then nothing more is launched, open calls have [`MCP_DRAIN`] for their answers, and what runs is stopped: as
/// `client_gone` where the client went, as `shutdown` where the host said so.
///
/// # Errors
///
/// [`ServeError`]; nothing was launched.
///
/// # Cancel safety
///
/// Not cancel safe: dropped, jobs are stopped without a record of it.
pub async fn serve<H, R, W>(
    host: H,
    (read, write): (R, W),
    told: impl Future<Output = ()>,
) -> Result<Goodbye, ServeError>
where
    H: Host,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let calls = Arc::<Calls>::default();
    let (gone, mut is_gone) = watch::channel(false);
    let (over, is_over) = watch::channel(false);
    let lines = AsyncRwTransport::new_server(read, Patient::new(write, MCP_WRITE_WAIT))
        .with_max_line_length(MCP_LINE_BYTES_MAX);
    let pipe = Pipe::new(lines, Arc::clone(&calls), gone, is_over);
    let server = Server::new(host, Arc::clone(&calls), None);
    let theirs = server.clone();
    let session = async {
        let ended = rmcp::serve_server(theirs, pipe).await?.waiting().await;
        tracing::debug!(?ended, "the session is over");
        Ok(())
    };
    let mut session = std::pin::pin!(session);
    let gone_by_now = async { drop(is_gone.wait_for(|is_gone| *is_gone).await) };
    let end = tokio::select! {
        // Ended by itself: the first message was none that begins a session, or nothing can be written any more.
        ended = &mut session => return close_early(&server, ended).await,
        () = gone_by_now => End::ClientGone,
        () = told => End::Told,
    };
    let closing = async {
        let unreaped = close(&server, &calls, end).await;
        // Where nobody listens any more it is over already.
        let _ = over.send(true);
        unreaped
    };
    // The session goes on meanwhile: calls are answered, also by the ends of their jobs.
    let mut closing = std::pin::pin!(closing);
    let unreaped = tokio::select! {
        unreaped = &mut closing => {
            if tokio::time::timeout(MCP_CLOSE, session).await.is_err() {
                tracing::warn!("the last answers were not read");
            }
            unreaped
        }
        _ = &mut session => closing.await,
    };
    Ok(Goodbye { end, unreaped })
}

/// Serves one client of a parent that is hosted, until it is gone or `told` is ready. Others may be served at the same time,
/// and each may wait for what another has launched.
///
/// A client that goes stops nothing: calls that are open have [`MCP_DRAIN`] for their answers, then their waits leave and
/// their jobs go on (BAR-12). Their results are for whoever wakes the parent.
///
/// # Errors
///
/// [`ServeError`]; nothing was launched over this connection.
///
/// # Cancel safety
///
/// Cancel safe: dropped, the connection is cut, which stops no job.
pub async fn serve_parent<H, R, W>(
    host: H,
    parent: &Parent,
    (read, write): (R, W),
    told: impl Future<Output = ()>,
) -> Result<End, ServeError>
where
    H: Host,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let calls = Arc::<Calls>::default();
    let (over, is_over) = watch::channel(false);
    let server = Server::new(host, Arc::clone(&calls), Some(parent));
    let theirs = server.clone();
    connection(theirs, (&calls, &over, is_over), (read, write), told, || server.end()).await
}

/// Serves one program that is part of a job, until it is gone or `told` is ready: it can send and receive the mail of that
/// job, and nothing else.
///
/// A mail counts as received when the answer that holds it was written; where the client has cancelled the call, or is gone,
/// it is still there for whoever receives next.
///
/// # Errors
///
/// [`ServeError`].
///
/// # Cancel safety
///
/// Cancel safe: dropped, the connection is cut, which takes no mail.
pub async fn serve_member<R, W>(
    mailbox: Mailbox,
    (read, write): (R, W),
    told: impl Future<Output = ()>,
) -> Result<End, ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let calls = Arc::<Calls>::default();
    let (over, is_over) = watch::channel(false);
    let member = Member::new(mailbox, Arc::clone(&calls), is_over.clone());
    connection(member, (&calls, &over, is_over), (read, write), told, || {}).await
}

/// Serves one client that stops nothing by going. `end` is called before its session ends.
async fn connection<S, R, W>(
    server: S,
    (calls, over, is_over): (&Arc<Calls>, &watch::Sender<bool>, watch::Receiver<bool>),
    (read, write): (R, W),
    told: impl Future<Output = ()>,
    end: impl Fn(),
) -> Result<End, ServeError>
where
    S: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (gone, mut is_gone) = watch::channel(false);
    let lines = AsyncRwTransport::new_server(read, Patient::new(write, MCP_WRITE_WAIT))
        .with_max_line_length(MCP_LINE_BYTES_MAX);
    let pipe = Pipe::new(lines, Arc::clone(calls), gone, is_over);
    let session = async {
        let ended = rmcp::serve_server(server, pipe).await?.waiting().await;
        tracing::debug!(?ended, "the session of a client is over");
        Ok(())
    };
    let mut session = std::pin::pin!(session);
    let gone_by_now = async { drop(is_gone.wait_for(|is_gone| *is_gone).await) };
    let why = tokio::select! {
        ended = &mut session => {
            end();
            return match ended {
                Err(ServerInitializeError::ConnectionClosed(_)) | Ok(()) => Ok(End::ClientGone),
                Err(error) => Err(ServeError::Handshake(error.to_string())),
            };
        }
        () = gone_by_now => End::ClientGone,
        () = told => End::Told,
    };
    let closing = async {
        let drained = tokio::time::timeout(MCP_DRAIN, calls.idle()).await;
        if drained.is_err() {
            tracing::debug!("calls of a client that is gone are open; what they wait for goes on");
        }
        // Before the session ends: that is no cancel of its calls.
        end();
        over.send_replace(true);
    };
    let mut closing = std::pin::pin!(closing);
    tokio::select! {
        () = &mut closing => drop(tokio::time::timeout(MCP_CLOSE, session).await),
        _ = &mut session => end(),
    }
    Ok(why)
}

async fn close_early<H: Host>(
    server: &Server<H>,
    ended: Result<(), ServerInitializeError>,
) -> Result<Goodbye, ServeError> {
    match ended {
        Err(ServerInitializeError::ConnectionClosed(_)) | Ok(()) => {
            let unreaped = stop(server, End::ClientGone, Instant::now() + TIME).await;
            Ok(Goodbye { end: End::ClientGone, unreaped })
        }
        Err(error) => Err(ServeError::Handshake(error.to_string())),
    }
}

/// Lets open calls be answered, and stops what runs. True where something may still be alive.
async fn close<H: Host>(server: &Server<H>, calls: &Calls, end: End) -> bool {
    let until = Instant::now() + TIME;
    if end == End::ClientGone && tokio::time::timeout(MCP_DRAIN, calls.idle()).await.is_err() {
        tracing::debug!("calls are open; their jobs are stopped");
    }
    // Time that no call has needed is the jobs', and the store's.
    stop(server, end, until).await
}

async fn stop<H: Host>(server: &Server<H>, end: End, until: Instant) -> bool {
    server.end();
    let Some(running) = server.running() else { return false };
    // First: no job starts in the place of one that goes.
    running.supervisor.drain();
    if end == End::ClientGone && tokio::time::timeout_at(until, tell(&running)).await.is_err() {
        tracing::warn!("jobs of a client that is gone are stopped without saying why");
    }
    running.supervisor.stop_all(MCP_GRACE);
    let drained = tokio::time::timeout_at(until, running.supervisor.drained()).await;
    if tokio::time::timeout_at(until + MCP_CLOSE, running.supervisor.shutdown()).await.is_err() {
        tracing::warn!("the store could not be closed in time; what is committed is there");
    }
    drained.is_err()
}

/// Tells all that runs to stop, and why.
async fn tell(running: &Running) {
    for group in running.groups().await {
        // One that cannot be told so is told by what follows.
        if let Err(error) = group.client_gone(MCP_GRACE).await {
            tracing::warn!(%error, "the jobs of a client that is gone are stopped without saying why");
        }
    }
}
