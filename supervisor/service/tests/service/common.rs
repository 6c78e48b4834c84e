//! A service in this process, and clients of it over pipes in memory.

use bytes::BytesMut;
use fanin_client::{Client, Connect, Connecting, Halves, LaunchCall, NewJob, OpenSession, Options};
use fanin_protocol::wire::{self, Asked, Call, Hello, Request, Told, VERSIONS, Welcomed};
use fanin_protocol::{CommandSpec, SessionId};
use fanin_service::{Identify, Origin, Peer, Service};
use fanin_supervisor::testing::{FakeRunner, Gate, script};
use fanin_supervisor::{Builder, Supervisor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};

/// Bytes that a pipe holds.
const PIPE: usize = 64 * 1024;

/// A supervisor in memory and its service. Jobs labelled `slow` end once the gate is open, others at once.
pub(crate) struct Served {
    pub(crate) supervisor: Supervisor,
    pub(crate) service: Service,
    pub(crate) runner: FakeRunner,
    pub(crate) gate: Gate,
}

pub(crate) async fn served() -> Served {
    served_with(Supervisor::builder()).await
}

/// As [`served`], to clients that are processes of which this is said.
pub(crate) async fn served_to(identify: impl Fn(u32) -> Origin + Send + Sync + 'static) -> Served {
    served_as(Supervisor::builder(), Box::new(identify)).await
}

pub(crate) async fn served_with(builder: Builder) -> Served {
    served_as(builder, Box::new(|_| Origin::default())).await
}

async fn served_as(builder: Builder, identify: Box<Identify>) -> Served {
    let gate = Gate::new();
    let runner = FakeRunner::commands()
        .on("slow", script().held_by(&gate).completes("at last"))
        .otherwise(script().completes("done"));
    let supervisor = builder.runner(runner.clone()).start().await.unwrap();
    let options = fanin_service::Options { program: "fanin test".to_owned(), since_ms: 1, identify };
    let service = Service::new(supervisor.clone(), options).unwrap();
    Served { supervisor, service, runner, gate }
}

impl Served {
    pub(crate) fn client(&self) -> Client {
        self.client_of(Peer::Own)
    }

    /// A client that is this process.
    pub(crate) fn client_of(&self, peer: Peer) -> Client {
        let options = Options { program: "a test".to_owned(), token: None };
        Client::new(Pipe(self.service.clone(), peer), options)
    }

    /// A client that speaks in bytes, behind the handshake.
    pub(crate) async fn raw(&self) -> Raw {
        let mut raw = self.stranger();
        raw.send(&hello()).await;
        let Welcomed::Welcome(welcome) = raw.read().await.unwrap() else { panic!("refused") };
        assert_eq!(welcome.version, VERSIONS.newest);
        raw
    }

    /// A client that has said nothing yet.
    pub(crate) fn stranger(&self) -> Raw {
        Raw { stream: connect(&self.service, Peer::Own), come: BytesMut::new() }
    }
}

/// The way to a service in this process.
#[derive(Debug)]
pub(crate) struct Pipe(Service, Peer);

impl Connect for Pipe {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let (reader, writer) = split(connect(&self.0, self.1));
            let halves: Halves = (Box::new(reader), Box::new(writer));
            Ok(halves)
        })
    }

    fn place(&self) -> String {
        "a pipe".to_owned()
    }
}

fn connect(service: &Service, peer: Peer) -> DuplexStream {
    let (ours, theirs) = duplex(PIPE);
    let service = service.clone();
    tokio::spawn(async move { service.serve(split(theirs), peer).await });
    ours
}

pub(crate) fn hello() -> Hello {
    Hello { versions: VERSIONS, program: "a test".to_owned(), token: None }
}

/// A client that may do what no client should.
pub(crate) struct Raw {
    pub(crate) stream: DuplexStream,
    come: BytesMut,
}

impl Raw {
    pub(crate) async fn send(&mut self, message: &impl Serialize) {
        let mut bytes = BytesMut::new();
        wire::encode(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, id: u64, call: Call) {
        self.send(&Asked::Request(Request { id, call })).await;
    }

    /// The next frame; `None` at the end.
    pub(crate) async fn read<T: DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            if let Some(frame) = wire::take(&mut self.come).unwrap() {
                return Some(wire::decode(&frame).unwrap());
            }
            if self.stream.read_buf(&mut self.come).await.unwrap() == 0 {
                assert!(self.come.is_empty(), "half a frame");
                return None;
            }
        }
    }

    /// The code of the next fault, and of which request.
    pub(crate) async fn fault(&mut self) -> (u64, String) {
        match self.read().await {
            Some(Told::Fault { id, fault }) => (id, fault.code),
            Some(Told::Goodbye(fault)) => (0, fault.code),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn command(label: &str) -> NewJob {
    NewJob::new(label, CommandSpec::shell("true"))
}

/// A launch of jobs with these labels.
pub(crate) fn launch(session: &SessionId, labels: &[&str]) -> LaunchCall {
    LaunchCall {
        session: Some(session.clone()),
        jobs: labels.iter().map(|label| command(label)).collect(),
        ..LaunchCall::default()
    }
}

pub(crate) async fn session(client: &Client) -> SessionId {
    let session = Some(SessionId::parse("main").unwrap());
    client.open_session(OpenSession { session, ..OpenSession::default() }).await.unwrap()
}

/// Lets all that can go on do so, until this holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never: {what}");
}
