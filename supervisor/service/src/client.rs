//! One client, from its first frame to its last. All that was given to it goes back when it is gone.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use fanin_protocol::Fault;
use fanin_protocol::limits::{HELLO_WAIT, READ_BYTES, SERVICE_CALLS_MAX, SERVICE_IDLE_WAIT};
use fanin_protocol::wire::{
    self, Answer, Asked, Call, FrameError, Hello, Refused, Request, Told, Welcome, Welcomed,
};
use fanin_supervisor::{CallRate, Supervisor};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::timeout;

use crate::answer;
use crate::caller::{Caller, Peer};
use crate::calls;
use crate::fault::{AsFault, CallFault};
use crate::held::Holdings;
use crate::outbox::{Outbox, PutError};
use crate::service::{About, ConnectionError, Inner};

/// A client as its calls see it.
#[derive(Debug)]
pub(crate) struct Client {
    service: Arc<Inner>,
    pub(crate) caller: Caller,
    pub(crate) holdings: Holdings,
    outbox: Outbox,
    rate: Arc<CallRate>,
}

impl Client {
    pub(crate) fn supervisor(&self) -> &Supervisor {
        self.service.supervisor()
    }

    pub(crate) fn about(&self) -> &About {
        self.service.about()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.service.is_draining()
    }

    pub(crate) fn clients(&self) -> u32 {
        self.service.clients()
    }

    pub(crate) fn ask_to_stop(&self, drain_ms: Option<u64>) {
        self.service.ask_to_stop(drain_ms.map(Duration::from_millis));
    }

    /// A call that launches has come.
    pub(crate) fn enter_launch(&self) -> Result<(), CallFault> {
        self.rate.enter().map_err(CallFault::LaunchesTooFast)
    }

    /// Tells it something of a request that goes on.
    pub(crate) async fn tell(&self, told: &Told) -> Result<(), Fault> {
        self.outbox.put(told).await.map_err(untold)
    }

    /// As [`Client::tell`], for an event that was encoded before.
    pub(crate) async fn tell_event(&self, id: u64, envelope: &[u8]) -> Result<(), Fault> {
        self.outbox.put_event(id, envelope).await.map_err(untold)
    }

    /// Answers a request.
    async fn reply(&self, id: u64, answer: Result<Answer, Fault>, changes: bool) -> Result<(), PutError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => return self.outbox.put(&Told::Fault { id, fault }).await,
        };
        let seq = if changes { self.supervisor().newest().ok() } else { None };
        let mut told = Told::Reply { id, answer, seq };
        match self.outbox.put(&told).await {
            Err(PutError::Frame(FrameError::TooLong { .. })) => {}
            put => return put,
        }
        if let Told::Reply { answer, .. } = told {
            told = match answer::shortened(answer) {
                Ok(answer) => Told::Reply { id, answer, seq },
                Err(fault) => Told::Fault { id, fault: fault.into() },
            };
        }
        match self.outbox.put(&told).await {
            Err(PutError::Frame(FrameError::TooLong { .. })) => {
                self.outbox.put(&Told::Fault { id, fault: CallFault::AnswerTooLong.into() }).await
            }
            put => put,
        }
    }
}

fn untold(error: PutError) -> Fault {
    match error {
        PutError::Gone => CallFault::ServiceEnds.into(),
        PutError::Frame(error) => {
            tracing::error!(%error, "a message cannot be sent");
            CallFault::AnswerTooLong.into()
        }
    }
}

/// Serves a client to its end.
pub(crate) async fn serve<R, W>(
    service: Arc<Inner>,
    (mut reader, mut writer): (R, W),
    peer: Peer,
) -> Result<(), ConnectionError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut come = BytesMut::with_capacity(READ_BYTES);
    let met = timeout(HELLO_WAIT, meet(&service, &mut reader, &mut writer, &mut come, peer));
    let Some(caller) = met.await.map_err(|_| ConnectionError::Silent)?? else { return Ok(()) };
    let (holdings, outbox, rate) = (Holdings::default(), Outbox::default(), service.rate(peer));
    let client = Arc::new(Client { service, caller, holdings, outbox, rate });
    let written = client.outbox.write_to(&mut writer);
    tokio::pin!(written);
    let mut conversation = Conversation::new(Arc::clone(&client), reader, come);
    let ended = tokio::select! {
        ended = conversation.hold() => ended,
        written = &mut written => match written {
            Ok(()) => Ok(()),
            Err(error) => Err(ConnectionError::Io(error)),
        },
    };
    conversation.over().await;
    let goodbye = match &ended {
        Ok(()) if client.service.is_ending() => Some(CallFault::ServiceEnds),
        Err(ConnectionError::Frame(error)) => Some(CallFault::BadFrame(error.to_string())),
        Ok(()) | Err(_) => None,
    };
    if matches!(ended, Err(ConnectionError::Io(_))) {
        return ended;
    }
    let last = async {
        if let Some(fault) = goodbye {
            // Where it is gone already nobody minds.
            let _ = client.outbox.put(&Told::Goodbye(fault.into())).await;
        }
        client.outbox.close();
    };
    let (_, written) = tokio::join!(last, written);
    ended.and(written.map_err(ConnectionError::Io))
}

/// The first two frames. `None` where the client was refused, and told so.
async fn meet(
    service: &Arc<Inner>,
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    come: &mut BytesMut,
    peer: Peer,
) -> Result<Option<Caller>, ConnectionError> {
    let frame = loop {
        if let Some(frame) = wire::take(come)? {
            break frame;
        }
        if reader.read_buf(come).await? == 0 {
            // One that only looked whether somebody is here.
            return if come.is_empty() {
                Ok(None)
            } else {
                Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())
            };
        }
    };
    let hello: Hello = wire::decode(&frame)?;
    let about = service.about();
    let welcomed = match wire::agree(wire::VERSIONS, &about.program, &hello) {
        Err(refused) => Err(refused),
        Ok(version) => {
            let origin = service.origin(peer);
            let caller = Caller::of(service.supervisor(), hello.token.as_deref(), origin);
            caller.map(|caller| (version, caller)).map_err(|error| refused(about, error.fault()))
        }
    };
    match welcomed {
        Ok((version, caller)) => {
            let (program, log) = (about.program.clone(), service.log().clone());
            let welcome = Welcome { version, program, log, pid: std::process::id() };
            send(writer, &Welcomed::Welcome(welcome)).await?;
            Ok(Some(caller))
        }
        Err(refused) => {
            send(writer, &Welcomed::Refused(refused)).await?;
            Ok(None)
        }
    }
}

/// Tells a client that it is not served.
pub(crate) async fn refuse(
    about: &About,
    writer: &mut (impl AsyncWrite + Unpin),
    fault: CallFault,
) -> Result<(), ConnectionError> {
    send(writer, &Welcomed::Refused(refused(about, fault.into()))).await
}

fn refused(about: &About, fault: Fault) -> Refused {
    Refused { versions: wire::VERSIONS, program: about.program.clone(), fault }
}

async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> Result<(), ConnectionError> {
    let mut bytes = BytesMut::new();
    wire::encode(message, &mut bytes)?;
    writer.write_all(&bytes).await?;
    writer.flush().await?;
    Ok(())
}

/// The service ends.
async fn ended(ending: &mut watch::Receiver<bool>) {
    // An error says that the service is gone, which is an end as well.
    let _ = ending.wait_for(|is_ending| *is_ending).await;
}

/// What of a request can be read where its call is none that is known.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bare {
    Request { id: u64 },
}

/// What a client and the service say, one frame after the other.
struct Conversation<R> {
    client: Arc<Client>,
    reader: R,
    come: BytesMut,
    /// The calls that wait.
    tasks: JoinSet<()>,
    running: HashMap<u64, AbortHandle>,
    requests: HashMap<Id, u64>,
    /// Requests of these that the client does not want any more.
    given_up: HashSet<u64>,
}

impl<R: AsyncRead + Unpin> Conversation<R> {
    fn new(client: Arc<Client>, reader: R, come: BytesMut) -> Self {
        let (tasks, running) = (JoinSet::new(), HashMap::new());
        Self { client, reader, come, tasks, running, requests: HashMap::new(), given_up: HashSet::new() }
    }

    /// Answers until the client or the service ends.
    async fn hold(&mut self) -> Result<(), ConnectionError> {
        let client = Arc::clone(&self.client);
        let mut ending = client.service.ending();
        loop {
            while let Some(frame) = wire::take(&mut self.come)? {
                self.frame(&frame).await?;
            }
            self.come.reserve(READ_BYTES);
            let is_begun = !self.come.is_empty();
            let read = async {
                let read = self.reader.read_buf(&mut self.come);
                if !is_begun {
                    return read.await;
                }
                let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
                timeout(SERVICE_IDLE_WAIT, read).await.unwrap_or_else(late)
            };
            tokio::select! {
                read = read => match read? {
                    0 if is_begun => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    0 => return Ok(()),
                    _ => {}
                },
                Some(ended) = self.tasks.join_next_with_id(), if !self.running.is_empty() => {
                    self.ended(ended).await?;
                }
                () = ended(&mut ending) => return Ok(()),
            }
        }
    }

    async fn frame(&mut self, frame: &[u8]) -> Result<(), ConnectionError> {
        match wire::decode(frame) {
            Ok(Asked::Request(Request { id, call })) => self.request(id, call, frame.len()).await,
            Ok(Asked::Cancel(id)) => {
                self.cancel(id);
                Ok(())
            }
            Err(error) => match wire::decode(frame) {
                Ok(Bare::Request { id }) => Ok(self
                    .client
                    .reply(id, Err(CallFault::UnknownCall(error.to_string()).into()), false)
                    .await?),
                Err(_) => Err(error.into()),
            },
        }
    }

    async fn request(&mut self, id: u64, call: Call, bytes: usize) -> Result<(), ConnectionError> {
        if self.running.contains_key(&id) || self.client.holdings.has(id) {
            return Ok(self.client.reply(id, Err(CallFault::RequestInUse(id).into()), false).await?);
        }
        let changes = calls::changes(&call);
        if let Err(fault) = self.client.caller.check(self.client.supervisor(), &call) {
            return Ok(self.client.reply(id, Err(fault), false).await?);
        }
        let call = match answer::at_once(&self.client, id, call, bytes) {
            ControlFlow::Break(answer) => return Ok(self.client.reply(id, answer, changes).await?),
            ControlFlow::Continue(call) => call,
        };
        while self.running.len() >= SERVICE_CALLS_MAX {
            let Some(ended) = self.tasks.try_join_next_with_id() else {
                return Ok(self.client.reply(id, Err(CallFault::CallsFull.into()), false).await?);
            };
            self.ended(ended).await?;
        }
        let client = Arc::clone(&self.client);
        let task = self.tasks.spawn(async move {
            let answer = calls::carry_out(&client, id, call).await;
            if let Err(error) = client.reply(id, answer, changes).await {
                // Its connection ends, and says why.
                tracing::debug!(id, %error, "an answer is not sent");
            }
        });
        self.requests.insert(task.id(), id);
        self.running.insert(id, task);
        Ok(())
    }

    /// The client does not want a request any more, answered or not.
    fn cancel(&mut self, id: u64) {
        if let Some(task) = self.running.get(&id) {
            task.abort();
            self.given_up.insert(id);
        }
        self.client.holdings.release(id);
    }

    /// A call is over.
    async fn ended(&mut self, ended: Result<(Id, ()), JoinError>) -> Result<(), ConnectionError> {
        let (task, error) = match ended {
            Ok((task, ())) => (task, None),
            Err(error) => (error.id(), Some(error)),
        };
        let Some(id) = self.requests.remove(&task) else { return Ok(()) };
        self.running.remove(&id);
        if self.given_up.remove(&id) {
            // It may have been given something while it was cancelled.
            self.client.holdings.release(id);
        }
        let fault = match error {
            None => return Ok(()),
            Some(error) if error.is_cancelled() => CallFault::RequestCancelled,
            Some(error) => {
                tracing::error!(id, %error, "a request panicked");
                self.client.holdings.release(id);
                CallFault::Internal
            }
        };
        Ok(self.client.reply(id, Err(fault.into()), false).await?)
    }

    /// All that the client waited for, or was given, goes back.
    async fn over(&mut self) {
        self.tasks.shutdown().await;
        self.client.holdings.release_all();
    }
}
