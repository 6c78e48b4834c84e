//! One command from its start to the end of all that it started. It ends no earlier, and waits for nothing without
//! a limit but the command itself.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fanin_protocol::limits::{
    GRACE_MAX, KILL_WAIT, LEFTOVER_GRACE, LEFTOVER_LOOK, OUTPUT_BYTES_MAX, PIPE_DRAIN, PROGRESS_EVERY,
};
use fanin_protocol::{Cause, Code, CommandSpec};
use fanin_supervisor::{Ending, Failure, JobOutput, StopStage};
use rustix::process::Signal;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::capture::Capture;
use crate::ending;
use crate::group::Group;
use crate::host::Host;
use crate::pipes::Pipes;
use crate::spawn;
use crate::tree::Tree;
use crate::watch::{self, Watch};

/// Pause before the second look whether what a command left is gone. It doubles from look to look.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// From this pause on each process is looked at: what is gone soon does not cost a walk over all of them.
const CLOSE_LOOK: Duration = Duration::from_millis(16);

/// Runs a command to its end.
///
/// # Cancel safety
///
/// Dropping the future kills the command's group at once; nothing of it stays defunct.
pub(crate) async fn run(spec: &CommandSpec, host: &dyn Host) -> Ending {
    if host.stage() != StopStage::None {
        return Ending::failed(Cause::Failed, None, "stopped before it was started");
    }
    let mut run = match Run::start(spec, host) {
        Ok(run) => run,
        Err(failure) => {
            return Ending { failure: Some(failure), exit: None, output: JobOutput::default() };
        }
    };
    run.until_ended().await;
    run.drain().await;
    let status = run.reap().await;
    let survivors = run.clear().await;
    ending::of(status, survivors.as_deref(), run.finish())
}

/// A command that was started.
struct Run<'h> {
    host: &'h dyn Host,
    tree: Tree,
    /// `None` once the leader has ended.
    watch: Option<Watch>,
    pipes: Pipes,
    capture: Capture,
    /// How far the stop has gone, as far as the tree was told.
    stage: StopStage,
    /// Waits for the next stage; `None` after the last.
    stop: Option<Pin<Box<dyn Future<Output = ()> + Send + 'h>>>,
    /// When the step we are in looks again, whatever happens.
    due: Option<Instant>,
    /// No progress line before this.
    next_line: Option<Instant>,
    /// Made when it is first needed; most commands are over before.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// What a run may have to act on.
enum Event {
    /// The stop went on to this stage.
    Stop(StopStage),
    /// The leader is a zombie, or can no longer be watched.
    Ended(io::Result<()>),
    /// Both pipes have ended.
    Closed,
    /// It is time to look again.
    Due,
}

impl<'h> Run<'h> {
    fn start(spec: &CommandSpec, host: &'h dyn Host) -> Result<Self, Failure> {
        watch::keep_ended().map_err(|error| {
            spawn::failure(Code::Os, &format!("cannot learn of the end of processes: {error}"))
        })?;
        let mut child = spawn::spawn(spec)?;
        let pipes = Pipes::of(&mut child);
        // A child that leads no group of its own is killed when it is dropped here, by its pid alone.
        let group = child.id().and_then(Group::led_by);
        let group = group.ok_or_else(|| spawn::failure(Code::Os, "its process group cannot be managed"))?;
        let tree = Tree::new(child, group);
        let watch = Watch::new(tree.pid()).map_err(|error| {
            spawn::failure(Code::Os, &format!("cannot watch the started process: {error}"))
        })?;
        host.bound(tree.pid().as_raw_nonzero().get().unsigned_abs());
        Ok(Self {
            host,
            tree,
            watch: Some(watch),
            pipes,
            capture: Capture::new(spec.output_bytes_max.unwrap_or(OUTPUT_BYTES_MAX)),
            stage: StopStage::None,
            stop: Some(host.beyond(StopStage::None)),
            due: None,
            next_line: None,
            alarm: None,
        })
    }

    /// Waits for the leader's end, and hands stops on to the tree.
    async fn until_ended(&mut self) {
        loop {
            match self.next().await {
                Event::Stop(stage) => self.stop_tree(stage),
                Event::Ended(Ok(())) => return,
                Event::Ended(Err(error)) => {
                    tracing::warn!(pid = %self.tree.pid(), %error, "cannot watch a command");
                    self.tree.look();
                    return;
                }
                Event::Closed | Event::Due => {}
            }
        }
    }

    /// Reads on for a while: what the leader left may still write.
    async fn drain(&mut self) {
        if self.pipes.are_closed() {
            return;
        }
        self.due = Some(Instant::now() + PIPE_DRAIN);
        while !self.pipes.are_closed() && self.stage < StopStage::Forced {
            match self.next().await {
                Event::Stop(stage) => self.stop_tree(stage),
                Event::Due => return,
                Event::Closed | Event::Ended(_) => {}
            }
        }
        self.due = None;
    }

    /// Asks what the leader left to stop, while the zombie still holds the group's number, and then takes its
    /// status. What was asked before is not asked again: to many programs a second request means "at once".
    async fn reap(&mut self) -> io::Result<ExitStatus> {
        if self.stage == StopStage::None {
            self.tree.signal(Signal::TERM);
        }
        self.tree.reap().await
    }

    /// Waits until nothing of the group is left; returns what a KILL did not end.
    ///
    /// In a stop what the leader left has the rest of the stop's grace, like the leader had.
    async fn clear(&mut self) -> Option<String> {
        if self.tree.is_gone(false) {
            return None;
        }
        let grace = if self.stage == StopStage::None { LEFTOVER_GRACE } else { GRACE_MAX };
        let kill_at = Instant::now() + grace;
        let mut give_up_at = None;
        let mut pause = FIRST_LOOK;
        while !self.tree.is_gone(pause >= CLOSE_LOOK) {
            let now = Instant::now();
            match give_up_at {
                None if self.stage == StopStage::Forced || now >= kill_at => {
                    self.tree.signal(Signal::KILL);
                    give_up_at = Some(now + KILL_WAIT);
                    pause = FIRST_LOOK;
                }
                Some(at) if now >= at => return Some(self.tree.survivors()),
                None | Some(_) => {}
            }
            self.due = Some(now + pause);
            pause = LEFTOVER_LOOK.min(pause * 2);
            // Whatever it is, the next turn looks at it: output was read, a stage was noted, or it is time.
            self.next().await;
        }
        None
    }

    /// The output, with what the pipes still hold.
    fn finish(mut self) -> JobOutput {
        self.pipes.sweep(&mut self.capture);
        self.capture.finish()
    }

    fn stop_tree(&mut self, stage: StopStage) {
        match stage {
            StopStage::None => {}
            StopStage::Polite => {
                self.tree.signal(Signal::TERM);
                // One that is stopped acts on it only once it goes on.
                self.tree.signal(Signal::CONT);
            }
            StopStage::Forced => self.tree.signal(Signal::KILL),
        }
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
            return Poll::Ready(Event::Stop(self.stage));
        }
        if let Some(watch) = &mut self.watch
            && let Poll::Ready(ended) = watch.poll_ended(cx)
        {
            self.watch = None;
            return Poll::Ready(Event::Ended(ended));
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
