//! One connection: requests by their numbers, and what comes back for them. A stream reads its own, without any of this.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, BytesMut};
use fanin_protocol::limits::{HELLO_WAIT, READ_BYTES, SERVICE_ROOM_BYTES};
use fanin_protocol::wire::{
    self, Answer, Asked, Call, Hello, Item, Request, Told, VERSIONS, Welcome, Welcomed,
};
use fanin_protocol::{Fault, Seq};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::client::Options;
use crate::connect::{Connect, Halves};
use crate::error::ClientError;

/// What came for a request, at its end.
pub(crate) type End = Result<(Answer, Option<Seq>), Fault>;

/// A connection whose first frames were exchanged, for one that reads for itself.
pub(crate) struct Met {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) come: BytesMut,
    pub(crate) welcome: Welcome,
}

/// Connects, and says who we are.
pub(crate) async fn meet(way: &dyn Connect, options: &Options) -> Result<Met, ClientError> {
    let not_running = |source| ClientError::NotRunning { place: way.place(), source };
    let late = |_| not_running(io::ErrorKind::TimedOut.into());
    let halves = timeout(HELLO_WAIT, way.connect()).await.map_err(late)?.map_err(not_running)?;
    timeout(HELLO_WAIT, greet(halves, options)).await.map_err(late)?
}

async fn greet((mut reader, mut writer): Halves, options: &Options) -> Result<Met, ClientError> {
    let hello = Hello { versions: VERSIONS, program: options.program.clone(), token: options.token.clone() };
    let mut bytes = BytesMut::new();
    wire::encode(&hello, &mut bytes)?;
    // Refused for their number, clients are told before they have said anything: what cannot be written is told by what came.
    let written = writer.write_all(&bytes).await;
    let mut come = BytesMut::with_capacity(READ_BYTES);
    let welcomed = loop {
        if let Some(frame) = wire::take(&mut come)? {
            break wire::decode(&frame)?;
        }
        match reader.read_buf(&mut come).await {
            Ok(0) => return Err(lost(written.err().as_ref())),
            Ok(_) => {}
            Err(error) => return Err(lost(Some(&error))),
        }
    };
    match welcomed {
        Welcomed::Welcome(welcome) => Ok(Met { reader, writer, come, welcome }),
        Welcomed::Refused(refused) => Err(ClientError::Refused(Box::new(refused))),
    }
}

fn lost(error: Option<&io::Error>) -> ClientError {
    ClientError::Lost(error.map_or_else(|| "it was closed".to_owned(), ToString::to_string))
}

/// A connection that requests share. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Connection {
    welcome: Welcome,
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// What requests and the task of their connection share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to be written.
    more: Notify,
    /// There is room for more.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    waiting: HashMap<u64, Waiting>,
    out: BytesMut,
    /// Why nothing comes any more.
    lost: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    /// For the first item of a request that has one.
    item: Option<oneshot::Sender<Item>>,
    end: oneshot::Sender<End>,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(way: &dyn Connect, options: &Options) -> Result<Arc<Self>, ClientError> {
        let Met { reader, writer, come, welcome } = meet(way, options).await?;
        let shared = Arc::<Shared>::default();
        let task = tokio::spawn(converse(Arc::clone(&shared), reader, writer, come)).abort_handle();
        Ok(Arc::new(Self { welcome, shared, task }))
    }

    pub(crate) const fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.shared.state().lost.is_some()
    }

    /// Asks.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped before it returns, nothing was asked.
    pub(crate) async fn ask(self: &Arc<Self>, call: Call) -> Result<Pending, ClientError> {
        let name = call.name();
        let ((end, ended), (item, first)) = (oneshot::channel(), oneshot::channel());
        let waiting = Waiting { item: (name == "run").then_some(item), end };
        let mut request = Some((call, waiting));
        loop {
            // Before the look: what makes room after it is heard of.
            let room = self.shared.room.notified();
            {
                let mut state = self.shared.state();
                if let Some(why) = &state.lost {
                    return Err(ClientError::Lost(why.clone()));
                }
                if state.out.len() < SERVICE_ROOM_BYTES
                    && let Some((call, waiting)) = request.take()
                {
                    let id = state.last + 1;
                    wire::encode(&Asked::Request(Request { id, call }), &mut state.out)?;
                    state.last = id;
                    state.waiting.insert(id, waiting);
                    drop(state);
                    self.shared.more.notify_one();
                    let connection = Arc::clone(self);
                    return Ok(Pending { connection, id, name, first, ended, is_over: false });
                }
            }
            room.await;
        }
    }

    /// Nobody wants a request any more, or what it was given.
    pub(crate) fn cancel(&self, id: u64) {
        let mut state = self.shared.state();
        let waiting = state.waiting.remove(&id);
        let is_told = state.lost.is_none() && wire::encode(&Asked::Cancel(id), &mut state.out).is_ok();
        drop(state);
        drop(waiting);
        if is_told {
            self.shared.more.notify_one();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in it is left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, why: String) {
        let mut state = self.state();
        state.lost.get_or_insert(why);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
        self.room.notify_waiters();
    }

    /// What came. An answer that nobody waits for any more was cancelled, and is no matter.
    fn told(&self, told: Told) -> Result<(), String> {
        match told {
            Told::Reply { id, answer, seq } => self.end(id, Ok((answer, seq))),
            Told::Fault { id, fault } => self.end(id, Err(fault)),
            Told::Item { id, item } => {
                let first = self.state().waiting.get_mut(&id).and_then(|waiting| waiting.item.take());
                if let Some(first) = first {
                    // Whoever does not look at it is told the end.
                    let _ = first.send(item);
                }
            }
            Told::Goodbye(fault) => return Err(fault.message),
        }
        Ok(())
    }

    fn end(&self, id: u64, end: End) {
        let waiting = self.state().waiting.remove(&id);
        if let Some(waiting) = waiting {
            // One that was dropped in this moment cancels what it was given.
            let _ = waiting.end.send(end);
        }
    }
}

/// Writes what is asked and reads what is told, until one of both ends.
async fn converse(
    shared: Arc<Shared>,
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    mut writer: Box<dyn AsyncWrite + Send + Unpin>,
    mut come: BytesMut,
) {
    let why = tokio::select! {
        why = read(&shared, &mut reader, &mut come) => why,
        why = write(&shared, &mut writer) => why,
    };
    shared.lose(why);
}

async fn read(shared: &Shared, reader: &mut (impl AsyncRead + Unpin), come: &mut BytesMut) -> String {
    loop {
        loop {
            let told = match wire::take(come) {
                Ok(None) => break,
                Ok(Some(frame)) => wire::decode(&frame),
                Err(error) => Err(error),
            };
            if let Err(why) = told.map_err(|error| error.to_string()).and_then(|told| shared.told(told)) {
                return why;
            }
        }
        come.reserve(READ_BYTES);
        match reader.read_buf(come).await {
            Ok(0) => return "it was closed".to_owned(),
            Ok(_) => {}
            Err(error) => return error.to_string(),
        }
    }
}

async fn write(shared: &Shared, writer: &mut (impl AsyncWrite + Unpin)) -> String {
    let mut taken = BytesMut::new();
    loop {
        std::mem::swap(&mut shared.state().out, &mut taken);
        if taken.is_empty() {
            shared.more.notified().await;
            continue;
        }
        shared.room.notify_waiters();
        while taken.has_remaining() {
            match writer.write_buf(&mut taken).await {
                Ok(0) => return "it takes nothing more".to_owned(),
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
        }
        if let Err(error) = writer.flush().await {
            return error.to_string();
        }
        taken.clear();
    }
}

/// A request that was asked. Dropped before its end, the service is told that nobody waits.
#[derive(Debug)]
pub(crate) struct Pending {
    connection: Arc<Connection>,
    id: u64,
    name: &'static str,
    first: oneshot::Receiver<Item>,
    ended: oneshot::Receiver<End>,
    is_over: bool,
}

impl Pending {
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    pub(crate) const fn unexpected(&self) -> ClientError {
        ClientError::Unexpected { call: self.name }
    }

    /// The first item, where the request has one; `None` once its end is there without it.
    pub(crate) async fn item(&mut self) -> Option<Item> {
        (&mut self.first).await.ok()
    }

    /// The end.
    pub(crate) async fn end(&mut self) -> Result<(Answer, Option<Seq>), ClientError> {
        let ended = (&mut self.ended).await;
        self.is_over = true;
        match ended {
            Ok(end) => Ok(end?),
            Err(_) => {
                let why = self.connection.shared.state().lost.clone();
                Err(ClientError::Lost(why.unwrap_or_else(|| "it was closed".to_owned())))
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection.cancel(self.id);
        }
    }
}
