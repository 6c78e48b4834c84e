//! A conversation with an agent: who it is, a session, prompts, and their answers. A job's has one prompt, and one for each
//! follow-up that came meanwhile; a parent's has as many as it has turns. Every step has a limit of time; that of the prompt is the run's own.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, Implementation, InitializeRequest, LoadSessionRequest, McpServer,
    NewSessionRequest, PromptRequest, RequestPermissionRequest, RequestPermissionResponse, SessionId,
    SessionModeState, SessionNotification, SetSessionModeRequest, StopReason,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, ErrorCode, is_incoming_transport_closed, on_receive_notification,
    on_receive_request,
};
use fanin_protocol::Rights;
use fanin_protocol::limits::AGENT_CANCEL_WAIT;
use fanin_supervisor::Bound;
use tokio::net::unix::pipe::Sender;
use tokio::time::timeout;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use crate::life::Life;
use crate::listener::Listener;
use crate::program::{Out, Pipes};
use crate::wire::{Reader, Wire, Writer};

/// How a conversation ended.
#[derive(Debug)]
pub(crate) enum Talked {
    /// Our prompt was answered.
    Answered {
        reason: StopReason,
        /// We had asked for its end.
        was_cancelled: bool,
    },
    /// It came to nothing before the prompt was sent: nothing has taken effect.
    Unprompted(Trouble),
    /// The prompt was sent, and no answer came.
    Broken(Trouble),
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No answer in time.
    Late { to: &'static str, limit: Duration },
    /// It wants somebody to log in.
    LoggedOut(String),
    /// It answered that it cannot.
    Refused { to: &'static str, text: String },
    /// Nothing would hold it to what it may do.
    Unheld(String),
    /// Its output has ended, or its input is closed.
    Gone,
    /// The job was told to stop.
    Stopped,
    /// The job was told to stop, and its grace passed without an answer.
    Forced,
    /// Where the agent's session is found could not be kept.
    NotKept(String),
}

/// One question to an agent and all that belongs to it.
pub(crate) struct Question {
    pub(crate) place: Place,
    pub(crate) prompt: String,
}

/// What each session of an agent is opened with.
pub(crate) struct Place {
    pub(crate) cwd: PathBuf,
    /// Tools for it.
    pub(crate) servers: Vec<McpServer>,
    /// What only this agent knows.
    pub(crate) meta: serde_json::Map<String, serde_json::Value>,
    /// Its modes that hold it to what it may do, the best one first.
    pub(crate) modes: Vec<String>,
    /// How long each step before the prompt may take.
    pub(crate) limit: Duration,
    /// How to find the agent; its session is added.
    pub(crate) bound: Bound,
}

/// Talks to the agent behind these pipes until our prompt is answered.
///
/// # Cancel safety
///
/// Dropping the future closes both pipes, and takes back nothing that the agent did.
pub(crate) async fn talk(
    pipes: Pipes,
    wire: &Arc<Wire>,
    listener: Arc<Listener>,
    question: Question,
) -> Talked {
    let theirs = Arc::clone(&listener);
    let converse = async move |agent: &ConnectionTo<Agent>| converse(agent, &theirs, question).await;
    match connected(pipes, wire, &listener, converse).await {
        Some(talked) => talked,
        // The pipes failed beneath the conversation.
        None if listener.is_following() => Talked::Broken(Trouble::Gone),
        None => Talked::Unprompted(Trouble::Gone),
    }
}

/// Works with the agent behind these pipes, which the listener hears meanwhile. `None` where the pipes failed beneath.
///
/// # Cancel safety
///
/// As [`talk`].
pub(crate) async fn connected<T>(
    pipes: Pipes,
    wire: &Arc<Wire>,
    listener: &Arc<Listener>,
    work: impl AsyncFnOnce(&ConnectionTo<Agent>) -> T,
) -> Option<T> {
    let updates = Arc::clone(listener);
    let permissions = Arc::clone(listener);
    let worked = Client
        .v1()
        .name("fanin")
        .on_receive_notification(
            async move |told: SessionNotification, _: ConnectionTo<Agent>| {
                updates.update(told);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |asked: RequestPermissionRequest,
                        responder: Responder<RequestPermissionResponse>,
                        _: ConnectionTo<Agent>| {
                responder.respond(RequestPermissionResponse::new(permissions.answer(&asked)))
            },
            on_receive_request!(),
        )
        .connect_with(streams(pipes, wire), async move |agent: ConnectionTo<Agent>| Ok(work(&agent).await))
        .await;
    worked.ok()
}

/// Asks an agent who it is, and nothing else.
pub(crate) async fn greet(pipes: Pipes, wire: &Arc<Wire>, limit: Duration) -> Result<String, Trouble> {
    let greeted = Client.v1().name("fanin").connect_with(
        streams(pipes, wire),
        async move |agent: ConnectionTo<Agent>| {
            Ok(initialize(&agent, limit).await.map(|greeted| greeted.name))
        },
    );
    greeted.await.unwrap_or(Err(Trouble::Gone))
}

fn streams(
    (input, output): Pipes,
    wire: &Arc<Wire>,
) -> ByteStreams<Compat<Writer<Sender>>, Compat<Reader<Out>>> {
    let (writer, reader) = (Writer::new(input, Arc::clone(wire)), Reader::new(output, Arc::clone(wire)));
    ByteStreams::new(writer.compat_write(), reader.compat())
}

async fn converse(agent: &ConnectionTo<Agent>, listener: &Listener, question: Question) -> Talked {
    let Question { place, prompt } = question;
    let opened = async {
        initialize(agent, place.limit).await?;
        let session = place.open(agent, listener.rights()).await?;
        keep(listener, &session, place.bound.clone()).await?;
        Ok(session)
    };
    let session = match unless_stopped(listener.life(), opened).await {
        Ok(session) => session,
        Err(trouble) => return Talked::Unprompted(trouble),
    };
    listener.follow(session.clone());
    listener.life().listen();
    let mut prompt = prompt;
    loop {
        match ask(agent, listener.life(), session.clone(), prompt).await {
            // What was asked meanwhile is the next prompt (J-24).
            Ok((StopReason::EndTurn, false)) => match listener.life().follow_up().await {
                Some(words) => {
                    listener.ask_again();
                    prompt = words.as_ref().to_owned();
                }
                None => return Talked::Answered { reason: StopReason::EndTurn, was_cancelled: false },
            },
            Ok((reason, was_cancelled)) => return Talked::Answered { reason, was_cancelled },
            Err(trouble) => return Talked::Broken(trouble),
        }
    }
}

/// Records where the session of the run that is open is found, before anything of it is asked (J-3).
pub(crate) async fn keep(listener: &Listener, session: &SessionId, bound: Bound) -> Result<(), Trouble> {
    let (external_session, rights) = (Some(session.to_string()), Some(listener.rights()));
    let bound = Bound { external_session, rights, ..bound };
    let voice = listener.voice().ok_or_else(|| Trouble::NotKept("no run is open".to_owned()))?;
    voice.bound_and_kept(bound).await.map_err(|error| Trouble::NotKept(error.to_string()))
}

/// What a step gives, unless it is told to stop before.
pub(crate) async fn unless_stopped<T>(
    life: &Life,
    step: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    tokio::select! {
        biased;
        () = life.cancelled() => Err(Trouble::Stopped),
        done = step => done,
    }
}

/// What an agent says of itself.
pub(crate) struct Greeted {
    /// Its name and version, where it gives any.
    name: String,
    /// It can go on with a session of an earlier life.
    pub(crate) can_load: bool,
}

/// Asks an agent who it is.
pub(crate) async fn initialize(agent: &ConnectionTo<Agent>, limit: Duration) -> Result<Greeted, Trouble> {
    const METHOD: &str = "initialize";
    // An answer of another version is refused beneath us. No files and no terminals of ours: an agent uses its own.
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(ClientCapabilities::new())
        .client_info(Implementation::new("fanin", env!("CARGO_PKG_VERSION")));
    let answer = in_time(METHOD, limit, agent.send_request(request).block_task()).await?;
    let name = answer.agent_info.map_or_else(String::new, |info| format!("{} {}", info.name, info.version));
    Ok(Greeted { name, can_load: answer.agent_capabilities.load_session })
}

impl Place {
    /// Opens a session, in a mode for these rights.
    pub(crate) async fn open(
        &self,
        agent: &ConnectionTo<Agent>,
        rights: Rights,
    ) -> Result<SessionId, Trouble> {
        let request = NewSessionRequest::new(self.cwd.clone()).mcp_servers(self.servers.clone());
        let request = agent.send_request(request.meta(self.meta()));
        let opened = in_time("session/new", self.limit, request.block_task()).await?;
        self.hold(agent, &opened.session_id, (opened.modes, rights)).await?;
        Ok(opened.session_id)
    }

    /// Goes on with a session of an earlier life, in a mode for these rights. `replayed` is told once the agent has told of
    /// that life.
    pub(crate) async fn load(
        &self,
        agent: &ConnectionTo<Agent>,
        session: &SessionId,
        rights: Rights,
        replayed: impl FnOnce(),
    ) -> Result<(), Trouble> {
        let request =
            LoadSessionRequest::new(session.clone(), self.cwd.clone()).mcp_servers(self.servers.clone());
        let request = agent.send_request(request.meta(self.meta()));
        let loaded = in_time("session/load", self.limit, request.block_task()).await?;
        replayed();
        self.hold(agent, session, (loaded.modes, rights)).await
    }

    fn meta(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
        (!self.meta.is_empty()).then(|| self.meta.clone())
    }

    /// Sets the mode that holds the agent to its rights. One that has modes and none of those is not asked anything, unless it
    /// may do all; one without modes is held by the answers to its questions alone.
    async fn hold(
        &self,
        agent: &ConnectionTo<Agent>,
        session: &SessionId,
        (offered, rights): (Option<SessionModeState>, Rights),
    ) -> Result<(), Trouble> {
        let Some(offered) = offered.filter(|_| !self.modes.is_empty()) else { return Ok(()) };
        let mut refused = None;
        for mode in &self.modes {
            if &*offered.current_mode_id.0 == mode.as_str() {
                return Ok(());
            }
            if !offered.available_modes.iter().any(|known| &*known.id.0 == mode.as_str()) {
                continue;
            }
            let request = SetSessionModeRequest::new(session.clone(), mode.clone());
            let set = agent.send_request(request).block_task();
            match in_time("session/set_mode", self.limit, set).await {
                Ok(_) => return Ok(()),
                Err(Trouble::Refused { text, .. }) => {
                    refused = Some(format!("refuses mode `{mode}` ({text})"))
                }
                Err(trouble) => return Err(trouble),
            }
        }
        if rights == Rights::Full {
            return Ok(());
        }
        let none = || format!("has no mode `{}`", self.modes.join("` or `"));
        let why = refused.unwrap_or_else(none);
        Err(Trouble::Unheld(format!("the agent {why}, which would hold it to {rights}")))
    }
}

/// Sends the prompt and waits for its answer; a stop is handed on, and then waited for only so long.
pub(crate) async fn ask(
    agent: &ConnectionTo<Agent>,
    life: &Life,
    session: SessionId,
    prompt: String,
) -> Result<(StopReason, bool), Trouble> {
    const METHOD: &str = "session/prompt";
    // Its text is nobody's business.
    tracing::debug!(bytes = prompt.len(), "prompted");
    let request = PromptRequest::new(session.clone(), vec![prompt.into()]);
    let mut answer = pin!(agent.send_request(request).block_task());
    tokio::select! {
        biased;
        answer = &mut answer => {
            let answer = answer.map_err(|error| trouble(METHOD, &error))?;
            return Ok((answer.stop_reason, false));
        }
        () = life.cancelled() => {}
    }
    agent.send_notification(CancelNotification::new(session)).map_err(|error| trouble(METHOD, &error))?;
    let answer = in_time(METHOD, AGENT_CANCEL_WAIT, answer).await?;
    Ok((answer.stop_reason, true))
}

async fn in_time<T>(
    to: &'static str,
    limit: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Trouble> {
    match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(|error| trouble(to, &error)),
        Err(_) => Err(Trouble::Late { to, limit }),
    }
}

fn trouble(to: &'static str, error: &Error) -> Trouble {
    let text = match &error.data {
        Some(data) => format!("{} ({data})", error.message),
        None => error.message.clone(),
    };
    match error.code {
        // What the connection itself says when the pipe has ended, and no answer of anybody.
        _ if is_incoming_transport_closed(error) => Trouble::Gone,
        ErrorCode::AUTH_REQUIRED => Trouble::LoggedOut(text),
        code => Trouble::Refused { to, text: format!("{text}, code {}", i32::from(code)) },
    }
}
