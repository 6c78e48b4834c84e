//! A command that is held by a shim, seen from the supervisor. The shim alone signals and reaps the command; this
//! side tells it when, and looks after the command only once the shim is lost.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Lifeline;
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::task::{Context, Poll, ready};

use fanin_protocol::cause::Exit;
use fanin_protocol::limits::{KILL_REPORT, SHIM_SLACK};
use fanin_protocol::process::{MAIL_VARIABLE, RUN_VARIABLE, TOKEN_VARIABLE};
use fanin_protocol::{Code, CommandSpec, Left};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::ancestry;
use crate::grouped;
use crate::identity::Identity;
use crate::lost;
use crate::shim::SUBCOMMAND;
use crate::spawn::{self, NotStarted, failed};
use crate::table::Table;
use crate::tree::{self, Given, Pipes};
use crate::wire::{self, ASK, KILL, Order, Report};

/// A command's shim.
#[derive(Debug)]
pub(crate) struct Shimmed {
    /// The shim; `None` once it is reaped.
    shim: Option<Child>,
    /// The lifeline; `None` once the shim has closed it.
    control: Option<UnixStream>,
    mark: String,
    /// What the shim has not taken yet.
    outgoing: Vec<u8>,
    /// What it has said and is not whole.
    incoming: Vec<u8>,
    started: Option<Result<Identity, io::Error>>,
    leader: Option<Identity>,
    exit: Option<Exit>,
    /// Its last word.
    gone: Option<Left>,
    /// Why it is lost: without a last word, or without any word for too long.
    lost: Option<String>,
    sweep: Option<JoinHandle<Left>>,
    was_asked: bool,
    /// Made by the kill: when the shim must have given its last word.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Shimmed {
    pub(crate) fn start(
        spec: &CommandSpec,
        given: Given,
        shim: &Path,
        mark: &str,
    ) -> Result<(Self, Pipes), NotStarted> {
        let (theirs, ours) = tree::input(given.input).map_err(failed("cannot make a pipe"))?;
        // Both ends are closed by any exec. Only the shim itself gets one, as its standard input, so that no other
        // process that is started at this moment can keep the lifeline open.
        let (control, other) = Lifeline::pair().map_err(failed("cannot make a lifeline"))?;
        let mut command = Command::new(shim);
        command.arg0("fanin").arg(SUBCOMMAND).arg(mark).env(RUN_VARIABLE, mark).process_group(0);
        command.args(ancestry::words(|name| spec.env.get(name).map(String::as_str)));
        // Those of a job around us, where there is one: the order has the job's own.
        command.env_remove(TOKEN_VARIABLE).env_remove(MAIL_VARIABLE);
        command.stdin(OwnedFd::from(other)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = command.spawn();
        // It holds the other end of the lifeline.
        drop(command);
        let mut child = spawned.map_err(failed(format!("cannot start the shim {shim:?}")))?;
        // What fails from here on closes the lifeline, and the shim goes without having started anything.
        let pipes = Pipes::of(&mut child, ours)
            .ok_or_else(|| NotStarted::new(Code::Os, "its pipes cannot be managed"))?;
        let mut outgoing = order(spec, mark, theirs.is_some(), given.is_bare).encode();
        let sent = control.set_nonblocking(true).and_then(|()| hand_over(&control, &outgoing, theirs));
        outgoing.drain(..sent.map_err(failed("cannot reach the shim"))?);
        let control = UnixStream::from_std(control).map_err(failed("cannot reach the shim"))?;
        let tree = Self {
            shim: Some(child),
            control: Some(control),
            mark: mark.to_owned(),
            outgoing,
            incoming: Vec::new(),
            started: None,
            leader: None,
            exit: None,
            gone: None,
            lost: None,
            sweep: None,
            was_asked: false,
            patience: None,
        };
        Ok((tree, pipes))
    }

    pub(crate) fn poll_started(
        &mut self,
        spec: &CommandSpec,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Identity, NotStarted>> {
        self.poll_heard(cx);
        match (self.started.take(), &self.lost) {
            (Some(started), _) => Poll::Ready(started.map_err(|error| spawn::explain(spec, &error))),
            (None, Some(why)) => Poll::Ready(Err(NotStarted::new(Code::ShimLost, why).after_start())),
            (None, None) => Poll::Pending,
        }
    }

    pub(crate) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_heard(cx);
        if self.exit.is_some() || self.lost.is_some() || self.gone.is_some() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Option<Left>> {
        self.poll_heard(cx);
        if self.lost.is_some() {
            return self.poll_swept(cx).map(Some);
        }
        let Some(left) = &self.gone else { return Poll::Pending };
        let left = (*left != Left::default()).then(|| left.clone());
        ready!(self.poll_reaped(cx));
        Poll::Ready(left)
    }

    pub(crate) fn exit(&mut self) -> io::Result<Exit> {
        let why = || self.lost.clone().unwrap_or_else(|| "the shim has not told it".into());
        self.exit.ok_or_else(|| io::Error::other(why()))
    }

    pub(crate) const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    pub(crate) fn ask(&mut self) {
        if !std::mem::replace(&mut self.was_asked, true) && self.patience.is_none() {
            self.say(ASK);
        }
    }

    pub(crate) fn kill(&mut self) {
        if self.patience.is_none() {
            self.say(KILL);
            self.patience = Some(Box::pin(sleep_until(Instant::now() + KILL_REPORT + SHIM_SLACK)));
        }
    }

    fn say(&mut self, word: u8) {
        self.outgoing.push(word);
        // At once where that can be: whoever asks may not poll again.
        if let Some(control) = &self.control
            && let Ok(sent) = control.try_write(&self.outgoing)
        {
            self.outgoing.drain(..sent);
        }
    }

    /// Takes in what the shim says, until it has said its last word or is lost.
    fn poll_heard(&mut self, cx: &mut Context<'_>) {
        if self.gone.is_some() || self.lost.is_some() {
            return;
        }
        if let Some(patience) = &mut self.patience
            && patience.as_mut().poll(cx).is_ready()
        {
            return self.lose("its shim does not answer".into());
        }
        let Poll::Ready(heard) = self.poll_talk(cx) else { return };
        if self.gone.is_some() {
            return;
        }
        match heard {
            // A shim that is killed has closed the lifeline just before it can be reaped.
            Ok(()) => match self.poll_exited(cx) {
                Poll::Ready(status) => self.lose(died(status)),
                Poll::Pending => {}
            },
            Err(error) => self.lose(format!("its shim cannot be heard: {error}")),
        }
    }

    /// Moves bytes both ways; ready once the shim has closed the lifeline.
    fn poll_talk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let broken = |_| io::Error::other("it speaks another version");
        while let Some(control) = &mut self.control {
            send(control, &mut self.outgoing, cx);
            if ready!(read(control, &mut self.incoming, cx))? == 0 {
                self.control = None;
            }
            while let Some(body) = wire::take_frame(&mut self.incoming).map_err(broken)? {
                self.heard(Report::decode(&body).map_err(broken)?);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn heard(&mut self, report: Report) {
        match report {
            Report::Started { pid, start } => {
                let identity = Identity { pid, start, boot: Table::default().boot_id() };
                self.leader = Some(identity.clone());
                self.started = Some(Ok(identity));
            }
            Report::NotStarted { errno, text } => {
                let error =
                    if errno == 0 { io::Error::other(text) } else { io::Error::from_raw_os_error(errno) };
                self.started = Some(Err(error));
                self.gone = Some(Left::default());
            }
            Report::Ended(exit) => self.exit = Some(exit),
            Report::Gone { stopped } => self.gone = Some(Left { stopped, ..Left::default() }),
            Report::Left { stopped, alive } => {
                self.gone = Some(Left { stopped, shim_lost: false, alive: alive.into() });
            }
        }
    }

    /// The shim is no use any more: it goes, and what it held is looked for.
    fn lose(&mut self, why: String) {
        tracing::warn!(mark = self.mark, %why, "a shim is lost");
        self.lost = Some(why);
        self.control = None;
        if let Some(shim) = &mut self.shim
            && let Err(error) = shim.start_kill()
        {
            tracing::warn!(mark = self.mark, %error, "cannot kill a lost shim");
        }
    }

    fn poll_swept(&mut self, cx: &mut Context<'_>) -> Poll<Left> {
        // Before the sweep: a shim that was only slow could still start something.
        ready!(self.poll_reaped(cx));
        let (leader, mark) = (&self.leader, &self.mark);
        let sweep = self.sweep.get_or_insert_with(|| {
            let (leader, mark) = (leader.clone(), mark.clone());
            tokio::task::spawn_blocking(move || lost::sweep(&Table::default(), leader.as_ref(), &mark))
        });
        let swept = ready!(pin!(sweep).poll(cx));
        // It does not panic, and is aborted only with the runtime.
        Poll::Ready(swept.unwrap_or(Left { shim_lost: true, ..Left::default() }))
    }

    /// Reaps the shim, which goes by itself or was killed.
    fn poll_reaped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let status = ready!(self.poll_exited(cx));
        if let Err(error) = status {
            tracing::warn!(mark = self.mark, %error, "cannot reap a shim");
        }
        Poll::Ready(())
    }

    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<ExitStatus>>> {
        let Some(shim) = &mut self.shim else { return Poll::Ready(Ok(None)) };
        let status = ready!(pin!(shim.wait()).poll(cx));
        self.shim = None;
        Poll::Ready(status.map(Some))
    }
}

impl Drop for Shimmed {
    fn drop(&mut self) {
        if self.gone.is_none() && self.lost.is_none() {
            // With the word the tree is killed at once; without, at the end of the lifeline, it is asked first.
            self.say(KILL);
        }
        self.control = None;
        if let Some(shim) = self.shim.take() {
            grouped::reap(shim);
        }
    }
}

/// The order for a command.
fn order(spec: &CommandSpec, mark: &str, has_stdin: bool, is_bare: bool) -> Order {
    let (program, args) = spawn::words(spec);
    let mut env: Vec<_> = spec.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    env.push((RUN_VARIABLE.into(), mark.into()));
    Order { program: program.into(), args, cwd: spec.cwd.clone(), env, has_stdin, is_bare }
}

/// Sends the first bytes of the order, with the descriptor that belongs to it; returns how many went at once.
fn hand_over(control: &Lifeline, bytes: &[u8], stdin: Option<io::PipeReader>) -> io::Result<usize> {
    let descriptors: Vec<_> = stdin.iter().map(|stdin| stdin.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("a descriptor does not fit"));
    }
    loop {
        match sendmsg(control, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            // A shim that is gone already is found by its end.
            Err(Errno::PIPE) => return Ok(bytes.len()),
            sent => return sent.map_err(Into::into),
        }
    }
}

/// Sends what can be sent.
fn send(control: &mut UnixStream, outgoing: &mut Vec<u8>, cx: &mut Context<'_>) {
    while !outgoing.is_empty() {
        match Pin::new(&mut *control).poll_write(cx, outgoing) {
            Poll::Ready(Ok(sent)) => drop(outgoing.drain(..sent)),
            // It is gone; what it said before can still be read.
            Poll::Ready(Err(_)) => outgoing.clear(),
            Poll::Pending => return,
        }
    }
}

/// Reads what is there; 0 at the end.
fn read(control: &mut UnixStream, incoming: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut space = [MaybeUninit::uninit(); 512];
    let mut buffer = ReadBuf::uninit(&mut space);
    match ready!(Pin::new(control).poll_read(cx, &mut buffer)) {
        Ok(()) => {
            incoming.extend_from_slice(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        }
        // It was killed before it had read all: the same end.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Poll::Ready(Ok(0)),
        Err(error) => Poll::Ready(Err(error)),
    }
}

/// How a shim ended that had not given its last word.
fn died(status: io::Result<Option<ExitStatus>>) -> String {
    match status {
        Ok(Some(status)) => format!("its shim ended too early: {status}"),
        Ok(None) => "its shim ended too early".into(),
        Err(error) => format!("its shim ended too early: {error}"),
    }
}
