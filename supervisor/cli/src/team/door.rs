//! The door of the mail, for programs that are part of a job with mail: a socket beside the store. Who may come in is decided
//! here, and nowhere else; to whom a job may send is the machine's.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fanin_mcp::serve_member;
use fanin_process::{Ancestry, Table, own_mark};
use fanin_protocol::ParentMark;
use fanin_protocol::limits::{GATE_PAUSE, GATE_WAIT, MAIL_CLIENTS_MAX, MAIL_HELLO_WAIT, MAIL_LINE_BYTES_MAX};
use fanin_supervisor::{CallError, KnownRun, Mailbox, Refusal, Supervisor};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::TeamError;
use super::wire::{self, Answer, Ask, Hello, Mail, TAKE};
use crate::socket::{Listening, Place, Socket};

/// The socket's name in its folder.
const NAME: &str = "mail.sock";

/// The door before anybody is let in: who comes waits in line.
#[derive(Debug)]
pub(crate) struct Door {
    socket: Socket,
    name: Arc<str>,
}

/// A door at which somebody serves. Dropped, everybody is cut off and the socket goes.
#[derive(Debug)]
pub(crate) struct OpenDoor {
    _serving: JoinSet<()>,
    _place: Place,
}

impl Door {
    /// Opens it in this folder, which is ours alone, or among the temporary files.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn open(folder: Option<&Path>) -> io::Result<Self> {
        let socket = Socket::open(folder, NAME)?;
        let name = socket.name()?.into();
        Ok(Self { socket, name })
    }

    /// Where it is.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Lets in whoever is part of a job with mail. `warn` is told of those who could not come.
    pub(crate) fn serve(
        self,
        supervisor: Supervisor,
        warn: impl Fn(String) + Send + Sync + 'static,
    ) -> OpenDoor {
        let (listening, place) = self.socket.split();
        let mut serving = JoinSet::new();
        serving.spawn(async move { serve(&listening, &supervisor, warn).await });
        OpenDoor { _serving: serving, _place: place }
    }
}

async fn serve(listening: &Listening, supervisor: &Supervisor, warn: impl Fn(String)) {
    let mut clients = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = listening.next(&warn) => stream,
            Some(_) = clients.join_next() => continue,
        };
        // Whoever is nobody's is told so by what it is answered; it is no business of whoever reads our warnings.
        let Ok(pid) = listening.peer(&stream) else { continue };
        if clients.len() >= MAIL_CLIENTS_MAX {
            let busy = format!("{MAIL_CLIENTS_MAX} programs send or receive mail; try again");
            // A new connection has room for it.
            let _ = stream.try_write(wire::line(&Answer::refused(CallError::Busy.code(), busy)).as_bytes());
            continue;
        }
        let client = Client::new(supervisor.clone(), stream, pid);
        clients.spawn(client.served());
    }
}

/// One program at the door.
struct Client {
    supervisor: Supervisor,
    pid: u32,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Client {
    fn new(supervisor: Supervisor, stream: UnixStream, pid: u32) -> Self {
        let (reader, writer) = stream.into_split();
        Self { supervisor, pid, reader: BufReader::new(reader), writer }
    }

    /// Answers what it asks. Where it is gone there is nobody to be told of it.
    async fn served(mut self) {
        let Ok(Some(line)) = timeout(MAIL_HELLO_WAIT, self.line()).await else { return };
        let Ok(Hello { token, ask }) = serde_json::from_slice(&line) else {
            self.answer(&TeamError::BadHello.into()).await;
            return;
        };
        let mailbox = match self.admit(token.as_deref()).await {
            Ok(mailbox) => mailbox,
            Err(refused) => {
                self.answer(&refused).await;
                return;
            }
        };
        match ask {
            Ask::Mcp => {
                if self.answer(&Answer::Welcome).await {
                    let told = std::future::pending();
                    if let Err(error) = serve_member(mailbox, (self.reader, self.writer), told).await {
                        // Its agent sees the end of the connection.
                        drop(error);
                    }
                }
            }
            Ask::Send { to, text } => {
                let sent = patiently(|| mailbox.send(&to, Arc::clone(&text))).await;
                let answer = sent.map_or_else(|error| refused(&error), |()| Answer::Sent);
                self.answer(&answer).await;
            }
            Ask::Receive { from, timeout_ms } => {
                self.receive(&mailbox, from.as_deref(), Duration::from_millis(timeout_ms)).await;
            }
        }
    }

    /// Waits for a mail for as long as somebody is there. It is taken once that one says so, and told to nobody else then.
    async fn receive(&mut self, mailbox: &Mailbox, from: Option<&str>, limit: Duration) {
        let received = tokio::select! {
            biased;
            received = mailbox.receive(from, limit) => received,
            // It has nothing to say now: whatever comes is its end.
            _ = self.reader.fill_buf() => return,
        };
        let answer = match received {
            Ok(None) => Answer::Nothing,
            Err(error) => Answer::refused(error.code(), &error),
            Ok(Some(offered)) => {
                if !self.answer(&Answer::Ready).await {
                    return;
                }
                match timeout(MAIL_HELLO_WAIT, self.line()).await {
                    Ok(Some(line)) if line == TAKE.as_bytes() => {}
                    // Dropped, it is there for whoever receives next.
                    _ => return,
                }
                let mail = offered.take();
                let called = mail.label.unwrap_or_else(|| mail.from.to_string().into());
                Answer::Mail(Mail { from: called, job: mail.from, text: mail.text })
            }
        };
        self.answer(&answer).await;
    }

    /// A whole line; `None` where the other side has ended, or says too much.
    async fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.reader).take(MAIL_LINE_BYTES_MAX as u64);
        bounded.read_until(b'\n', &mut line).await.ok()?;
        Some(line).filter(|line| line.ends_with(b"\n"))
    }

    /// True where it was written.
    async fn answer(&mut self, answer: &Answer) -> bool {
        let line = wire::line(answer);
        matches!(timeout(MAIL_HELLO_WAIT, self.writer.write_all(line.as_bytes())).await, Ok(Ok(())))
    }

    /// Finds the run that it is part of: by the token of that run, or without one by the processes above it. Where both say
    /// something both count: a token that was read elsewhere lets in nobody who is part of another job (SEC-3).
    async fn admit(&self, token: Option<&str>) -> Result<Mailbox, Answer> {
        let busy = |error: CallError| refused(&error);
        let above = Ancestry::of(&Table::default(), self.pid).parent;
        let above = above.filter(|mark| depth(Some(mark)) > depth(own_mark()));
        let run = match token.filter(|token| !token.is_empty()) {
            Some(token) => {
                let run = patiently(|| async { self.supervisor.run_of(token) }).await.map_err(busy)?;
                let ended = "no run that lives here: its run has ended, or it is another's";
                let run = run.ok_or(TeamError::BadToken(ended))?;
                if above.is_some_and(|mark| !is_of(&mark, &run)) {
                    let other = "another job than the one that this program is part of";
                    return Err(TeamError::BadToken(other).into());
                }
                run
            }
            None => {
                let mark = above.ok_or(TeamError::NoJob)?;
                let run = patiently(|| async { self.supervisor.run_in(&mark) }).await.map_err(busy)?;
                run.ok_or(TeamError::NoJob)?
            }
        };
        if !run.has_mail {
            return Err(refused(&CallError::Refused(Refusal::NoTeam)));
        }
        let mailbox = patiently(|| async { self.supervisor.mailbox(&run) }).await.map_err(busy)?;
        mailbox.ok_or_else(|| TeamError::NoJob.into())
    }
}

fn depth(mark: Option<&ParentMark>) -> u32 {
    mark.map_or(0, |mark| mark.depth)
}

/// True where this is the mark of that run's job.
fn is_of(mark: &ParentMark, run: &KnownRun) -> bool {
    (&mark.session, &mark.job, mark.lifetime) == (&run.session, &run.job, run.lifetime)
}

impl From<TeamError> for Answer {
    fn from(error: TeamError) -> Self {
        Self::refused(error.code(), error)
    }
}

fn refused(error: &CallError) -> Answer {
    Answer::refused(error.code(), error)
}

/// Asks again while the gate is busy.
async fn patiently<T, F: Future<Output = Result<T, CallError>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, CallError> {
    let until = Instant::now() + GATE_WAIT;
    loop {
        match ask().await {
            Err(CallError::Busy) if Instant::now() < until => sleep(GATE_PAUSE).await,
            answered => return answered,
        }
    }
}
