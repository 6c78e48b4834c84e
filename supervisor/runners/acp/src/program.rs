//! An agent's program: started and held like a command, with a pipe to its input, and ended with all that it started.

use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fanin_process::{Given, Identity, Input, NotStarted, Tree};
use fanin_protocol::cause::Exit;
use fanin_protocol::limits::{
    AGENT_EXIT_WAIT, AGENT_STDERR_BYTES_MAX, GRACE_MAX, LEFTOVER_GRACE, PIPE_DRAIN, READ_BYTES,
    READS_IN_A_ROW,
};
use fanin_protocol::{CommandSpec, Left};
use fanin_supervisor::{Bound, HeadTail};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::{Instant, sleep_until, timeout};

/// A program that was started.
pub(crate) struct Program {
    tree: Tree,
    /// Read on once the conversation is over; `None` after its end.
    out: Option<Out>,
    errors: Errors,
}

/// The pipes that a conversation goes over.
pub(crate) type Pipes = (pipe::Sender, Out);

/// What an agent writes. It outlives the conversation: one that ends in order and has a last word meets no closed pipe.
#[derive(Clone)]
pub(crate) struct Out(Arc<Mutex<ChildStdout>>);

impl AsyncRead for Out {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_read(cx, buffer)
    }
}

/// How a program left.
#[derive(Debug)]
pub(crate) struct Gone {
    /// `None` where that is lost, or where it was we who ended it.
    pub(crate) exit: Option<Exit>,
    pub(crate) left: Option<Left>,
    pub(crate) is_shim_lost: bool,
    /// The end of what it wrote to its standard error.
    pub(crate) errors: String,
}

/// How patient its end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Its work is done: it may end by itself, and is asked to soon.
    Done,
    /// It is told to stop: it is asked at once and may take until the force.
    Stopped,
}

impl Program {
    /// Starts it. The conversation's pipes come with it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, or the program, kills its processes at once.
    pub(crate) async fn start(
        spec: &CommandSpec,
        shim: Option<&Path>,
        mark: &str,
        forced: impl Future<Output = ()>,
    ) -> Result<(Self, Pipes, Bound), (NotStarted, Option<Left>)> {
        let given = Given { input: Input::Piped, is_bare: true };
        let (tree, pipes) = Tree::start(spec, given, shim, mark).map_err(|error| (error, None))?;
        let out = Out(Arc::new(Mutex::new(pipes.out)));
        let mut program = Self { tree, out: Some(out.clone()), errors: Errors::new(pipes.err) };
        let started = program.until_started(spec, forced).await;
        match (started, pipes.input) {
            (Ok(identity), Some(input)) => {
                let bound = program.bound(identity);
                Ok((program, (input, out), bound))
            }
            // It was asked for above; without it there is nobody to talk to.
            (Ok(_), None) => {
                let lost = NotStarted {
                    code: fanin_protocol::Code::Os,
                    message: "it has no standard input".to_owned(),
                    is_safe: true,
                };
                Err((lost, program.end(Patience::Done, std::future::ready(())).await.left))
            }
            (Err(error), _) => Err((error, program.end(Patience::Done, std::future::ready(())).await.left)),
        }
    }

    async fn until_started(
        &mut self,
        spec: &CommandSpec,
        forced: impl Future<Output = ()>,
    ) -> Result<Identity, NotStarted> {
        let mut forced = pin!(forced);
        let mut is_forced = false;
        poll_fn(|cx| {
            if !is_forced && forced.as_mut().poll(cx).is_ready() {
                is_forced = true;
                self.tree.kill();
            }
            self.tree.poll_started(spec, cx)
        })
        .await
    }

    fn bound(&self, Identity { pid, start, boot }: Identity) -> Bound {
        Bound {
            pid: Some(pid),
            pid_start: Some(start),
            boot_id: boot,
            // It leads a group of its own.
            pgid: Some(pid),
            containment: Some(self.tree.containment()),
            ..Bound::default()
        }
    }

    /// Goes on with a conversation until it is over. `None` where force came first, or where the program has ended and
    /// the conversation did not soon after.
    pub(crate) async fn while_talking<T>(
        &mut self,
        talk: impl Future<Output = T>,
        forced: impl Future<Output = ()>,
    ) -> Option<T> {
        let (mut talk, mut forced) = (pin!(talk), pin!(forced));
        let mut next = poll_fn(|cx| {
            if forced.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Some(None));
            }
            self.errors.poll_take(cx);
            if let Poll::Ready(talked) = talk.as_mut().poll(cx) {
                return Poll::Ready(Some(Some(talked)));
            }
            self.tree.poll_ended(cx).map(|()| None)
        });
        match (&mut next).await {
            Some(talked) => talked,
            // What it had written is still in the pipe.
            None => timeout(PIPE_DRAIN, talk).await.ok(),
        }
    }

    /// Takes what it still writes, and drops it.
    fn poll_drain(&mut self, cx: &mut Context<'_>) {
        if let Some(out) = &mut self.out
            && poll_pieces(out, cx, |_| {}).is_ready()
        {
            self.out = None;
        }
    }

    /// Ends it with all that it started. The conversation is over, and its input closed.
    pub(crate) async fn end(mut self, patience: Patience, forced: impl Future<Output = ()>) -> Gone {
        let mut forced = Force { future: pin!(forced), is_here: false };
        let now = Instant::now();
        let mut due = match patience {
            Patience::Done => now + AGENT_EXIT_WAIT,
            Patience::Stopped => now,
        };
        let mut stage = Stage::Waiting;
        let mut was_ended_by_us = false;
        while self.tree_ended(due, &mut forced, stage).await.is_none() {
            was_ended_by_us = true;
            let from = if forced.is_here { Stage::Asked } else { stage };
            (stage, due) = self.next_stage(from, patience);
        }
        // Asked again what the main process has left.
        self.tree.ask();
        due = Instant::now() + if patience == Patience::Stopped { GRACE_MAX } else { LEFTOVER_GRACE };
        if stage == Stage::Killed {
            self.tree.kill();
        }
        let left = loop {
            match self.tree_gone(due, &mut forced, stage).await {
                Some(left) => break left,
                None => {
                    stage = Stage::Killed;
                    self.tree.kill();
                }
            }
        };
        self.errors.sweep();
        let exit = self.tree.exit().ok().filter(|_| !was_ended_by_us);
        let is_shim_lost = self.tree.is_shim_lost();
        Gone { exit, left, is_shim_lost, errors: self.errors.text() }
    }

    fn next_stage(&mut self, stage: Stage, patience: Patience) -> (Stage, Instant) {
        match stage {
            Stage::Waiting => {
                self.tree.ask();
                let grace = if patience == Patience::Stopped { GRACE_MAX } else { LEFTOVER_GRACE };
                (Stage::Asked, Instant::now() + grace)
            }
            Stage::Asked | Stage::Killed => {
                self.tree.kill();
                (Stage::Killed, Instant::now() + GRACE_MAX)
            }
        }
    }

    /// Waits for the end of the main process; `None` at the time, or when force comes.
    async fn tree_ended(
        &mut self,
        due: Instant,
        forced: &mut Force<'_, impl Future<Output = ()>>,
        stage: Stage,
    ) -> Option<()> {
        self.step(due, forced, stage, |tree, cx| tree.poll_ended(cx)).await
    }

    async fn tree_gone(
        &mut self,
        due: Instant,
        forced: &mut Force<'_, impl Future<Output = ()>>,
        stage: Stage,
    ) -> Option<Option<Left>> {
        self.step(due, forced, stage, |tree, cx| tree.poll_gone(cx)).await
    }

    async fn step<T>(
        &mut self,
        due: Instant,
        forced: &mut Force<'_, impl Future<Output = ()>>,
        stage: Stage,
        poll: impl Fn(&mut Tree, &mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let mut alarm = pin!(sleep_until(due));
        poll_fn(|cx| {
            self.errors.poll_take(cx);
            self.poll_drain(cx);
            if let Poll::Ready(done) = poll(&mut self.tree, cx) {
                return Poll::Ready(Some(done));
            }
            // Once killed there is nothing more that could be done to it.
            let is_due =
                stage != Stage::Killed && (alarm.as_mut().poll(cx).is_ready() || forced.poll(cx).is_ready());
            if is_due { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}

/// The force of a stop. It stays once it is here, so it can be asked for again.
struct Force<'f, F> {
    future: Pin<&'f mut F>,
    is_here: bool,
}

impl<F: Future<Output = ()>> Force<'_, F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.is_here = self.is_here || self.future.as_mut().poll(cx).is_ready();
        if self.is_here { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Asked,
    Killed,
}

/// Reads what is there; ready at the pipe's end, or at an error, after which there is nothing more of it.
fn poll_pieces(
    pipe: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
    mut take: impl FnMut(&[u8]),
) -> Poll<()> {
    let mut space = [MaybeUninit::uninit(); READ_BYTES];
    for _ in 0..READS_IN_A_ROW {
        let mut buffer = ReadBuf::uninit(&mut space);
        match ready!(Pin::new(&mut *pipe).poll_read(cx, &mut buffer)) {
            Ok(()) if !buffer.filled().is_empty() => take(buffer.filled()),
            Ok(()) | Err(_) => return Poll::Ready(()),
        }
    }
    // A runaway writer gives way: the next poll goes on.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// The end of what it writes to its standard error. It is read to its end, so that nobody waits for a reader.
struct Errors {
    pipe: Option<ChildStderr>,
    kept: HeadTail,
}

impl Errors {
    fn new(pipe: ChildStderr) -> Self {
        Self { pipe: Some(pipe), kept: HeadTail::new(AGENT_STDERR_BYTES_MAX as u64) }
    }

    /// Takes what is there.
    fn poll_take(&mut self, cx: &mut Context<'_>) {
        if let Some(pipe) = &mut self.pipe
            && poll_pieces(pipe, cx, |piece| self.kept.push(piece)).is_ready()
        {
            self.pipe = None;
        }
    }

    /// Takes what was written before the end and was not read.
    fn sweep(&mut self) {
        let mut space = vec![0; READ_BYTES];
        let Some(pipe) = self.pipe.take() else { return };
        while let Ok(len @ 1..) = fanin_process::read_now(&pipe, &mut space) {
            self.kept.push(space.get(..len).unwrap_or_default());
        }
    }

    fn text(&self) -> String {
        self.kept.output().text().trim().to_owned()
    }
}
