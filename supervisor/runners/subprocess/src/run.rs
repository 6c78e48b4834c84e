//! One command from its start to the end of all that it started. It ends no earlier, and waits for nothing without
//! a limit but the command itself.

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fanin_process::{Identity, Input, NotStarted, Tree};
use fanin_protocol::limits::{GRACE_MAX, LEFTOVER_GRACE, PIPE_DRAIN, PROGRESS_EVERY};
use fanin_protocol::{Cause, CommandSpec, Left};
use fanin_supervisor::{Bound, Ending, Failure, StopStage};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::capture::Capture;
use crate::ending;
use crate::host::Host;
use crate::pipes::Pipes;

/// Runs a command to its end, through the shim at this path if there is one.
///
/// # Cancel safety
///
/// Dropping the future kills the command's processes at once; nothing of them stays defunct.
pub(crate) async fn run(spec: &CommandSpec, shim: Option<&Path>, host: &dyn Host) -> Ending {
    if host.stage() != StopStage::None {
        return Ending::failed(Cause::Failed, None, "stopped before it was started");
    }
    let mut run = match Run::start(spec, shim, host) {
        Ok(run) => run,
        Err(error) => return not_started(error, None),
    };
    if let Err(error) = run.until_started().await {
        return not_started(error, run.clear().await);
    }
    run.until_ended().await;
    run.drain().await;
    let left = run.clear().await;
    let (exit, is_lost) = (run.tree.exit(), run.tree.is_shim_lost());
    run.finish();
    ending::of(exit, is_lost, left)
}

fn not_started(NotStarted { code, message, is_safe }: NotStarted, left: Option<Left>) -> Ending {
    let failure = Failure::new(Cause::Spawn, Some(code), message);
    let failure = if is_safe { failure.before_start() } else { failure };
    Ending { left, ..failure.into() }
}

/// A command that was started.
struct Run<'h> {
    spec: &'h CommandSpec,
    host: &'h dyn Host,
    tree: Tree,
    /// What is waited for of the tree.
    step: Step,
    pipes: Pipes,
    capture: Capture<'h>,
    /// How far the stop has gone, as far as the tree was told.
    stage: StopStage,
    /// Waits for the next stage; `None` after the last.
    stop: Option<Pin<Box<dyn Future<Output = ()> + Send + 'h>>>,
    /// When the step we are in is over, whatever happens.
    due: Option<Instant>,
    /// No progress line before this.
    next_line: Option<Instant>,
    /// Made when it is first needed; most commands are over before.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// Where the tree is on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Starting,
    Running,
    /// The leader has ended; its output is waited for.
    Draining,
    Clearing,
}

/// What a run may have to act on.
enum Event {
    /// The stop went on to another stage.
    Stop,
    Started(Result<Identity, NotStarted>),
    /// The leader has ended, or nobody can tell any more.
    Ended,
    /// Nothing of the tree is left, or nothing that can be ended.
    Gone(Option<Left>),
    /// Both pipes have ended.
    Closed,
    /// It is time.
    Due,
}

impl<'h> Run<'h> {
    fn start(spec: &'h CommandSpec, shim: Option<&Path>, host: &'h dyn Host) -> Result<Self, NotStarted> {
        let (tree, pipes) = Tree::start(spec, Input::None, shim, &host.mark())?;
        Ok(Self {
            spec,
            host,
            tree,
            step: Step::Starting,
            pipes: Pipes::of(pipes),
            capture: Capture::new(|bytes| host.write(bytes)),
            stage: StopStage::None,
            stop: Some(host.beyond(StopStage::None)),
            due: None,
            next_line: None,
            alarm: None,
        })
    }

    /// Waits for the command's start, and says who it is.
    async fn until_started(&mut self) -> Result<(), NotStarted> {
        loop {
            if let Event::Started(started) = self.next().await {
                let Identity { pid, start, boot } = started?;
                self.host.bound(Bound {
                    pid: Some(pid),
                    pid_start: Some(start),
                    boot_id: boot,
                    // It leads a group of its own.
                    pgid: Some(pid),
                    containment: Some(self.tree.containment()),
                    ..Bound::default()
                });
                return Ok(());
            }
        }
    }

    /// Waits for the leader's end, and hands stops on to the tree.
    async fn until_ended(&mut self) {
        self.step = Step::Running;
        while !matches!(self.next().await, Event::Ended) {}
        self.step = Step::Draining;
    }

    /// Reads on for a while: what the leader left may still write.
    async fn drain(&mut self) {
        if self.pipes.are_closed() {
            return;
        }
        self.due = Some(Instant::now() + PIPE_DRAIN);
        while !self.pipes.are_closed() && self.stage < StopStage::Forced {
            if let Event::Due = self.next().await {
                return;
            }
        }
        self.due = None;
    }

    /// Asks what the leader left to stop, and waits until nothing is left or a KILL did not end it.
    ///
    /// In a stop what the leader left has the rest of the stop's grace, like the leader had.
    async fn clear(&mut self) -> Option<Left> {
        self.step = Step::Clearing;
        let grace = if self.stage == StopStage::None { LEFTOVER_GRACE } else { GRACE_MAX };
        self.tree.ask();
        self.due = Some(Instant::now() + grace);
        loop {
            match self.next().await {
                Event::Gone(left) => return left,
                Event::Due => self.tree.kill(),
                Event::Stop | Event::Started(_) | Event::Ended | Event::Closed => {}
            }
        }
    }

    /// Puts out what the pipes still hold.
    fn finish(mut self) {
        self.pipes.sweep(&mut self.capture);
        self.capture.finish();
    }

    async fn next(&mut self) -> Event {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        // Stop and end come first: output may be without end, and reading it uses up a task's turn.
        if let Some(stop) = &mut self.stop
            && stop.as_mut().poll(cx).is_ready()
        {
            self.stage = self.host.stage();
            self.stop = (self.stage < StopStage::Forced).then(|| self.host.beyond(self.stage));
            match self.stage {
                StopStage::None => {}
                StopStage::Polite => self.tree.ask(),
                StopStage::Forced => self.tree.kill(),
            }
            return Poll::Ready(Event::Stop);
        }
        if let Poll::Ready(event) = self.poll_tree(cx) {
            return Poll::Ready(event);
        }
        let was_closed = self.pipes.are_closed();
        let closed = !was_closed && self.pipes.poll_read(cx, &mut self.capture).is_ready();
        if self.capture.take_fed() {
            self.host.beat();
        }
        if closed {
            return Poll::Ready(Event::Closed);
        }
        self.poll_alarm(cx)
    }

    fn poll_tree(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        match self.step {
            Step::Starting => self.tree.poll_started(self.spec, cx).map(Event::Started),
            Step::Running => self.tree.poll_ended(cx).map(|()| Event::Ended),
            // What it is told still has to go out.
            Step::Draining => match self.tree.poll_ended(cx) {
                Poll::Ready(()) | Poll::Pending => Poll::Pending,
            },
            Step::Clearing => self.tree.poll_gone(cx).map(Event::Gone),
        }
    }

    /// Shows the latest line when it may be shown, and is ready when the step's time has come.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            self.show_line();
            let line_at = self.next_line.filter(|_| self.capture.has_line());
            let Some(at) = self.due.into_iter().chain(line_at).min() else { return Poll::Pending };
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if alarm.deadline() != at {
                alarm.as_mut().reset(at);
            }
            ready!(alarm.as_mut().poll(cx));
            if self.due.take_if(|due| *due <= at).is_some() {
                return Poll::Ready(Event::Due);
            }
        }
    }

    fn show_line(&mut self) {
        if !self.capture.has_line() {
            return;
        }
        let now = Instant::now();
        if self.next_line.is_none_or(|at| at <= now)
            && let Some(line) = self.capture.take_line()
        {
            self.next_line = Some(now + PROGRESS_EVERY);
            self.host.progress(&line);
        }
    }
}
