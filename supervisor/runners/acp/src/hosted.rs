//! An agent that we host as a parent: one conversation over many turns. Its turns are its session's, its tools are those
//! that it is given, and nothing here decides when it has another turn.

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::Agent;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{McpServer, McpServerStdio, SessionId};
use fanin_protocol::limits::AGENT_IDLE;
use fanin_protocol::{AgentSpec, Cause, Code};
use fanin_supervisor::{Failure, JobOutput, StopSignal, StopStage, Voice};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::AcpRunner;
use crate::agents::Way;
use crate::ending;
use crate::life::Life;
use crate::listener::{Listener, Said};
use crate::program::{Gone, Patience, Pipes, Program};
use crate::run;
use crate::talk::{self, Place, Trouble};
use crate::wire::Wire;

/// A program that serves tools to the agent, over its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServer {
    /// What the agent knows it by.
    pub name: String,
    /// The program: a whole path.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The tools that the agent may call whatever its rights are: what they do is held to these by whoever serves them.
    pub tools: Vec<String>,
}

impl ToolServer {
    /// The same with one argument more.
    pub(crate) fn with_argument(&self, argument: &str) -> Self {
        let mut server = self.clone();
        server.args.push(argument.to_owned());
        server
    }

    /// As an agent is told of it.
    pub(crate) fn served(self) -> McpServer {
        McpServer::Stdio(McpServerStdio::new(self.name, self.command).args(self.args))
    }

    /// The names that agents give its tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let server = &self.name;
        let of = move |tool: &String| {
            [
                format!("{server}_{tool}"),
                format!("mcp__{server}__{tool}"),
                format!("{server}/{tool}"),
                format!("{server}.{tool}"),
                // A title of Codex.
                format!("Tool: {server}/{tool}"),
            ]
        };
        self.tools.iter().flat_map(of)
    }
}

/// An agent to be hosted.
#[derive(Debug, Clone)]
pub struct Hosting {
    /// Which agent, where, and what it may do. Its prompt is not used.
    pub spec: AgentSpec,
    /// Tools for it.
    pub tools: Vec<ToolServer>,
    /// The agent's session in an earlier life, to go on with.
    pub session: Option<String>,
    /// Raised to stop it: politely, its turn is cancelled; by force, its processes are killed.
    pub stop: Arc<StopSignal>,
}

/// Which session of the agent a turn is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// A new one: it knows nothing.
    New,
    /// That of an earlier life, with all it knew.
    Loaded,
    /// That of the turn before.
    Same,
}

/// What became of a turn.
#[derive(Debug)]
pub struct Answered {
    /// Its last message, where there was one.
    pub output: Option<JobOutput>,
    /// Why it did not come to a good end.
    pub failure: Option<Failure>,
    /// The agent has ended the turn itself, and can have another.
    pub is_answered: bool,
}

/// A conversation with an agent that is hosted. Dropped, the agent's processes are killed at once.
#[derive(Debug)]
pub struct Conversation {
    asks: mpsc::Sender<Ask>,
    held: JoinSet<Over>,
    /// The agent's session, once it has one.
    session: Option<String>,
    /// Once it was seen.
    over: Option<Over>,
}

/// What is asked of the one who talks.
#[derive(Debug)]
enum Ask {
    Begin(Voice, oneshot::Sender<Result<(SessionId, Opened), Trouble>>),
    Prompt(String, oneshot::Sender<(Said, Result<Option<Failure>, Trouble>)>),
}

/// How the agent's program ended.
#[derive(Debug)]
struct Over {
    gone: Gone,
    fault: Option<String>,
    was_forced: bool,
}

impl AcpRunner {
    /// Starts an agent that is hosted, with the program held as a job's is. `first` is the voice of its first turn.
    ///
    /// # Errors
    ///
    /// [`Failure`]: nothing of it runs.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the agent's processes at once.
    pub async fn host(&self, hosting: Hosting, first: &Voice) -> Result<Conversation, Failure> {
        let refused = |why: String| Failure::new(Cause::Spawn, None, why);
        let Hosting { spec, tools, session, stop } = hosting;
        self.agents.check(&spec).map_err(refused)?;
        let agent = self.agents.find(&spec.agent).map_err(refused)?;
        if agent.way == Way::Command {
            return Err(refused(format!(
                "agent `{}` is a command, and only one that speaks ACP can be a parent",
                spec.agent
            )));
        }
        let cwd = run::folder(&spec)?;
        let rights = self.agents.rights(&spec, std::iter::empty());
        let mut started = agent.started(&spec, rights, std::env::vars_os());
        started.env.extend(agent.env_as_parent.get(&rights).cloned().unwrap_or_default());
        let mark = first.mark();
        let start = Program::start(&started, self.shim.as_deref(), &mark, stop.reached(StopStage::Forced));
        let (program, pipes, bound) = match start.await {
            Ok(started) => started,
            Err((error, _)) => return Err(Failure::new(Cause::Spawn, Some(error.code), error.message)),
        };
        let life = Life::parent(Arc::clone(&stop));
        let ours = tools.iter().flat_map(ToolServer::names).collect();
        let listener = Listener::new(life, rights, spec.output_bytes_max).with_tools(ours);
        let servers = tools.into_iter().map(ToolServer::served);
        let (asks, asked) = mpsc::channel(1);
        let host = Host {
            listener: Arc::new(listener),
            place: Place {
                cwd,
                servers: servers.collect(),
                meta: agent.session_meta.clone(),
                modes: agent.modes.get(&rights).cloned().unwrap_or_default(),
                limit: self.answer_wait,
                bound,
            },
            earlier: session.map(SessionId::new),
            session: None,
            asked,
        };
        let mut held = JoinSet::new();
        held.spawn(hold(program, pipes, host, stop));
        Ok(Conversation { asks, held, session: None, over: None })
    }
}

impl Conversation {
    /// Begins a turn: the agent has a session then, and where that is found is kept. The first turn opens it: that of the
    /// earlier life where the agent can load one, else a new one.
    ///
    /// # Errors
    ///
    /// [`Failure`]: nothing was asked of it.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: dropped, the turn may have begun.
    pub async fn begin(&mut self, turn: Voice) -> Result<Opened, Failure> {
        let (answer, answered) = oneshot::channel();
        // Where nobody takes it, nobody answers.
        let _ = self.asks.send(Ask::Begin(turn, answer)).await;
        match answered.await {
            Ok(Ok((session, opened))) => {
                self.session = Some(session.to_string());
                Ok(opened)
            }
            Ok(Err(Trouble::Gone)) | Err(_) => Err(self.failure(false).await),
            Ok(Err(trouble)) => Err(ending::alone(&trouble, false)),
        }
    }

    /// Gives the agent a prompt and waits for its answer. A turn that was begun has one.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: dropped, the agent goes on with it.
    pub async fn prompt(&mut self, text: String) -> Answered {
        let (answer, answered) = oneshot::channel();
        // As above.
        let _ = self.asks.send(Ask::Prompt(text, answer)).await;
        let (output, ended) = match answered.await {
            Ok((said, ended)) => (said.output, ended),
            Err(_) => (None, Err(Trouble::Gone)),
        };
        let is_answered = ended.is_ok();
        let failure = match ended {
            Ok(failure) => failure,
            Err(Trouble::Gone) => Some(self.failure(true).await),
            Err(trouble) => Some(ending::alone(&trouble, true)),
        };
        Answered { output, failure, is_answered }
    }

    /// The agent's session, once a turn has begun in it: it can be gone on with by [`Hosting::session`].
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Ends it, with all that the agent has started. `None` where nothing of it is left.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the agent's processes at once.
    pub async fn end(mut self) -> Option<Failure> {
        self.settle().await;
        let left = self.over.as_ref().is_some_and(|over| {
            over.gone.is_shim_lost || over.gone.left.as_ref().is_some_and(|left| left.is_unreaped())
        });
        left.then(|| Failure::new(Cause::Failed, Some(Code::Os), "processes of the agent may still be alive"))
    }

    /// Waits for the end of the program, whose conversation is over.
    async fn settle(&mut self) {
        let (asks, _) = mpsc::channel(1);
        // The last one who asks is gone, and that is the end of the conversation.
        self.asks = asks;
        if self.over.is_none() {
            self.over = self.held.join_next().await.and_then(Result::ok);
        }
    }

    /// Why there is no answer: the agent is gone.
    async fn failure(&mut self, was_prompted: bool) -> Failure {
        self.settle().await;
        match &self.over {
            Some(over) => {
                let trouble = if over.was_forced { Trouble::Forced } else { Trouble::Gone };
                ending::without_answer(&trouble, over.fault.as_deref(), &over.gone, was_prompted)
            }
            None => Failure::new(Cause::Panic, None, "the conversation with the agent broke off"),
        }
    }
}

/// Holds the agent's program while the conversation goes on, and ends it.
async fn hold(mut program: Program, pipes: Pipes, host: Host, stop: Arc<StopSignal>) -> Over {
    let wire = Arc::new(Wire::default());
    let listener = Arc::clone(&host.listener);
    {
        let serve = async move |agent: &ConnectionTo<Agent>| host.serve(agent).await;
        let talk = talk::connected(pipes, &wire, &listener, serve);
        program.while_talking(talk, stop.reached(StopStage::Forced)).await;
    }
    let patience = if stop.stage() == StopStage::None { Patience::Done } else { Patience::Stopped };
    let gone = program.end(patience, stop.reached(StopStage::Forced)).await;
    let was_forced = stop.stage() == StopStage::Forced;
    Over { gone, fault: wire.fault().map(ToOwned::to_owned), was_forced }
}

/// The one who talks.
struct Host {
    listener: Arc<Listener>,
    place: Place,
    earlier: Option<SessionId>,
    session: Option<SessionId>,
    asked: mpsc::Receiver<Ask>,
}

impl Host {
    /// Does what is asked, one after the other, until nobody asks any more.
    async fn serve(mut self, agent: &ConnectionTo<Agent>) {
        while let Some(ask) = self.asked.recv().await {
            // Who asked and is gone needs no answer.
            match ask {
                Ask::Begin(voice, answer) => drop(answer.send(self.begin(agent, voice).await)),
                Ask::Prompt(text, answer) => drop(answer.send(self.prompt(agent, text).await)),
            }
        }
    }

    async fn begin(
        &mut self,
        agent: &ConnectionTo<Agent>,
        voice: Voice,
    ) -> Result<(SessionId, Opened), Trouble> {
        let listener = Arc::clone(&self.listener);
        listener.begin(voice);
        talk::unless_stopped(listener.life(), async {
            let (session, opened) = match self.session.clone() {
                Some(session) => (session, Opened::Same),
                None => self.open(agent).await?,
            };
            listener.follow(session.clone());
            talk::keep(&listener, &session, self.place.bound.clone()).await?;
            self.session = Some(session.clone());
            Ok((session, opened))
        })
        .await
    }

    async fn open(&mut self, agent: &ConnectionTo<Agent>) -> Result<(SessionId, Opened), Trouble> {
        let rights = self.listener.rights();
        let can_load = talk::initialize(agent, self.place.limit).await?.can_load;
        if let Some(earlier) = self.earlier.take().filter(|_| can_load) {
            self.listener.replay(earlier.clone());
            let mut is_replayed = false;
            let replayed = || {
                is_replayed = true;
                self.listener.replayed();
            };
            match self.place.load(agent, &earlier, rights, replayed).await {
                Ok(()) => return Ok((earlier, Opened::Loaded)),
                // It does not know it any more.
                Err(Trouble::Refused { .. }) if !is_replayed => self.listener.forget_replay(),
                Err(trouble) => return Err(trouble),
            }
        }
        Ok((self.place.open(agent, rights).await?, Opened::New))
    }

    async fn prompt(
        &self,
        agent: &ConnectionTo<Agent>,
        text: String,
    ) -> (Said, Result<Option<Failure>, Trouble>) {
        let asked = match self.session.clone() {
            None => Err(Trouble::NotKept("no turn has begun".to_owned())),
            Some(session) => tokio::select! {
                asked = talk::ask(agent, self.listener.life(), session, text) => asked,
                () = idle(self.listener.life()) => {
                    Err(Trouble::Late { to: "session/prompt", limit: AGENT_IDLE })
                }
            },
        };
        let said = self.listener.finish();
        let ended = asked.map(|(reason, was_cancelled)| ending::of_turn(reason, was_cancelled, &said));
        (said, ended)
    }
}

/// Waits until a parent has shown no sign of work for as long as an agent may.
async fn idle(life: &Life) {
    while let Some(sign) = life.last_sign() {
        let until = sign + AGENT_IDLE;
        sleep_until(until).await;
        if life.last_sign() == Some(sign) {
            return;
        }
    }
    std::future::pending().await
}
