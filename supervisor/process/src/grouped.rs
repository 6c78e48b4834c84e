//! A command that is held by its process group. What leaves the group is out of reach, and no signal goes to a group
//! whose number may belong to others by now.

use std::future::Future as _;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fanin_protocol::cause::Exit;
use fanin_protocol::limits::{KILL_REPORT, LEFTOVER_LOOK};
use fanin_protocol::process::{MAIL_VARIABLE, RUN_VARIABLE, TOKEN_VARIABLE};
use fanin_protocol::{Code, CommandSpec, Left};
use rustix::process::{Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::group::Group;
use crate::hunt;
use crate::identity::Identity;
use crate::spawn::{self, NotStarted, failed};
use crate::table::Table;
use crate::tree::{self, Given, Pipes};
use crate::watch::{self, Watch};

/// Pause before the second look whether what a command left is gone. It doubles from look to look.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// From this pause on each process is looked at: what is gone soon does not cost a walk over all of them.
const CLOSE_LOOK: Duration = Duration::from_millis(16);

/// A command's leader and the group it leads.
#[derive(Debug)]
pub(crate) struct Grouped {
    /// The leader; `None` once it is reaped. Until then the group's number is held by it, even as a zombie.
    leader: Option<Child>,
    /// How the leader ended, from its reaping until it is asked for.
    status: Option<io::Result<ExitStatus>>,
    /// `None` once the leader has ended.
    watch: Option<Watch>,
    group: Group,
    identity: Identity,
    table: Table,
    was_asked: bool,
    killed_at: Option<Instant>,
    /// How many the leader left; `None` before the first look.
    found: Option<u32>,
    pause: Duration,
    /// Made when it is first needed; most commands leave nothing.
    alarm: Option<Pin<Box<Sleep>>>,
    is_gone: bool,
}

impl Grouped {
    pub(crate) fn start(spec: &CommandSpec, given: Given, mark: &str) -> Result<(Self, Pipes), NotStarted> {
        watch::keep_ended().map_err(failed("cannot learn of the end of processes"))?;
        let (theirs, ours) = tree::input(given.input).map_err(failed("cannot make a pipe"))?;
        let (program, args) = spawn::words(spec);
        let mut command = Command::new(program);
        if given.is_bare {
            command.env_clear();
        }
        // Those of a job around us are not for this one.
        command.env_remove(TOKEN_VARIABLE).env_remove(MAIL_VARIABLE);
        command.args(args).envs(&spec.env).env(RUN_VARIABLE, mark).process_group(0).kill_on_drop(true);
        command.stdin(tree::stdio(theirs)).stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        let mut leader = command.spawn().map_err(|error| spawn::explain(spec, &error))?;
        let pipes = Pipes::of(&mut leader, ours);
        // A child that leads no group of its own is killed when it is dropped here, by its pid alone.
        let (group, pipes) = leader
            .id()
            .and_then(Group::led_by)
            .zip(pipes)
            .ok_or_else(|| NotStarted::new(Code::Os, "its process group cannot be managed"))?;
        let table = Table::default();
        let pid = group.leader().as_raw_nonzero().get().unsigned_abs();
        // It is not reaped, so what the table says of its number is said of it.
        let identity = Identity::of(&table, pid).unwrap_or(Identity { pid, start: 0, boot: None });
        let mut tree = Self {
            leader: Some(leader),
            status: None,
            watch: None,
            group,
            identity,
            table,
            was_asked: false,
            killed_at: None,
            found: None,
            pause: FIRST_LOOK,
            alarm: None,
            is_gone: false,
        };
        let watch = Watch::new(group.leader()).map_err(failed("cannot watch the started process"));
        tree.watch = Some(watch.map_err(NotStarted::after_start)?);
        Ok((tree, pipes))
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity.clone()
    }

    pub(crate) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(watch) = &mut self.watch {
            if let Err(error) = ready!(watch.poll_ended(cx)) {
                tracing::warn!(pid = self.identity.pid, %error, "cannot watch a command");
                self.look();
            }
            self.watch = None;
        }
        Poll::Ready(())
    }

    /// Reaps the leader and waits for the rest; killed before, it waits only so long.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Option<Left>> {
        ready!(self.poll_reaped(cx));
        loop {
            if self.look_for_rest() {
                let stopped = self.found.unwrap_or(0);
                return Poll::Ready((stopped > 0).then(|| Left { stopped, ..Left::default() }));
            }
            let now = Instant::now();
            if self.killed_at.is_some_and(|at| now >= at + KILL_REPORT) {
                let alive = hunt::named(self.group.members(&self.table)).into();
                return Poll::Ready(Some(Left { stopped: 0, shim_lost: false, alive }));
            }
            let at = now + self.pause;
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if alarm.is_elapsed() {
                alarm.as_mut().reset(at);
                self.pause = LEFTOVER_LOOK.min(self.pause * 2);
            }
            ready!(alarm.as_mut().poll(cx));
        }
    }

    pub(crate) fn exit(&mut self) -> io::Result<Exit> {
        let status =
            self.status.take().unwrap_or_else(|| Err(io::Error::other("it was asked for before")))?;
        match (status.code(), status.signal()) {
            (Some(status), _) => Ok(Exit::Status(status)),
            (None, Some(signal)) => Ok(Exit::Signal(signal)),
            (None, None) => Err(io::Error::other("it ended without one")),
        }
    }

    pub(crate) fn ask(&mut self) {
        if !std::mem::replace(&mut self.was_asked, true) && self.killed_at.is_none() {
            self.signal(Signal::TERM);
            // One that is stopped acts on it only once it goes on.
            self.signal(Signal::CONT);
        }
    }

    pub(crate) fn kill(&mut self) {
        if self.killed_at.is_none() {
            self.signal(Signal::KILL);
            self.killed_at = Some(Instant::now());
            self.pause = FIRST_LOOK;
        }
    }

    /// Sends `signal` to all of the group; once the leader is reaped only if something of the group is left.
    fn signal(&mut self, signal: Signal) {
        if self.leader.is_none() && self.group.is_gone(&self.table, false) {
            return;
        }
        let reached = self.group.signal(signal);
        if !reached && self.leader.is_some() {
            // The leader has left its group. It is not reaped, so its number is its own.
            if let Err(error) = kill_process(self.group.leader(), signal) {
                tracing::warn!(pid = self.identity.pid, ?signal, %error, "cannot signal a command");
            }
        }
    }

    /// Reaps the leader if it has ended, or finds that somebody else did.
    fn look(&mut self) {
        if let Some(status) = self.leader.as_mut().and_then(|leader| leader.try_wait().transpose()) {
            self.leader = None;
            self.status = Some(status);
        }
    }

    /// Takes the leader's exit status; it is killed first if it has not ended.
    fn poll_reaped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.look();
        if self.leader.is_some() {
            self.kill();
        }
        if let Some(leader) = &mut self.leader {
            let status = ready!(pin!(leader.wait()).poll(cx));
            self.leader = None;
            self.status = Some(status);
        }
        Poll::Ready(())
    }

    /// Whether the reaped leader's group is gone as well; see [`Group::is_gone`].
    fn look_for_rest(&mut self) -> bool {
        self.is_gone = self.is_gone || self.group.is_gone(&self.table, self.pause >= CLOSE_LOOK);
        if !self.is_gone && self.found.is_none() {
            let alive = self.group.members(&self.table).iter().filter(|member| !member.is_defunct).count();
            self.found = Some(u32::try_from(alive).unwrap_or(u32::MAX));
        }
        self.is_gone
    }
}

impl Drop for Grouped {
    fn drop(&mut self) {
        if self.is_gone {
            return;
        }
        self.signal(Signal::KILL);
        self.look();
        if let Some(leader) = self.leader.take() {
            reap(leader);
        }
    }
}

/// Reaps a child that was told to end.
///
/// tokio reaps what is dropped alive at the next sign of an ended child, and this child's may have come before it was
/// dropped. This task is over as soon as the child is.
pub(crate) fn reap(mut child: Child) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move {
            if let Err(error) = child.wait().await {
                tracing::warn!(%error, "cannot reap a killed command");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use rustix::process::{getpid, set_child_subreaper};
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// Set in the process that a test makes for itself.
    const ALONE: &str = "FANIN_TEST_ALONE";

    // A process that orphans fall to cannot be one in which other tests wait for theirs.
    #[tokio::test]
    async fn orphans_that_become_our_children_are_reaped() {
        if std::env::var_os(ALONE).is_none() {
            let name = "grouped::tests::orphans_that_become_our_children_are_reaped";
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let output = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
            return;
        }
        // As for the first process of a container.
        set_child_subreaper(Some(getpid())).unwrap();
        let branch = "sh -c 'sleep 60 & wait' &";
        let spec = CommandSpec::shell(format!("{branch} {branch} {branch} echo ready; wait"));
        for forced in [false, true] {
            let (mut tree, mut pipes) = Grouped::start(&spec, Given::default(), "test:1").unwrap();
            let mut ready = [0; 6];
            pipes.out.read_exact(&mut ready).await.unwrap();
            if forced {
                tree.kill()
            } else {
                tree.ask()
            }
            poll_fn(|cx| tree.poll_ended(cx)).await;
            tokio::time::timeout(Duration::from_secs(20), poll_fn(|cx| tree.poll_gone(cx))).await.unwrap();
            assert_eq!(tree.exit().unwrap(), Exit::Signal(if forced { 9 } else { 15 }));
            assert_eq!(tree.group.members(&tree.table), []);
        }
    }
}
