//! Owns the processes of one command. Whatever happens to the run, its drop leaves nothing of them alive or defunct,
//! and no signal goes to a group whose number may belong to others by now.

use std::io;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::runtime::Handle;

use crate::group::Group;

/// A command's leader and the group it leads.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The leader; `None` once it is reaped. Until then the group's number is held by it, even as a zombie.
    leader: Option<Child>,
    /// How the leader ended, from its reaping until it is asked for.
    status: Option<io::Result<ExitStatus>>,
    group: Group,
    gone: bool,
}

impl Tree {
    /// Owns `leader`, which was started as the leader of a new group.
    pub(crate) const fn new(leader: Child, group: Group) -> Self {
        Self { leader: Some(leader), status: None, group, gone: false }
    }

    /// The leader's pid, which is the group's number too.
    pub(crate) const fn pid(&self) -> Pid {
        self.group.leader()
    }

    /// Sends `signal` to all of the group; once the leader is reaped only if something of the group is left.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.leader.is_none() && self.is_gone(false) {
            return;
        }
        let reached = self.group.signal(signal);
        if !reached && self.leader.is_some() {
            // The leader has left its group. It is not reaped, so its number is its own.
            if let Err(error) = kill_process(self.pid(), signal) {
                tracing::warn!(pid = %self.pid(), ?signal, %error, "cannot signal a command");
            }
        }
    }

    /// Reaps the leader if it has ended, or finds that somebody else did.
    pub(crate) fn look(&mut self) {
        if let Some(status) = self.leader.as_mut().and_then(|leader| leader.try_wait().transpose()) {
            self.leader = None;
            self.status = Some(status);
        }
    }

    /// Takes the leader's exit status; it is killed first if it has not ended.
    ///
    /// # Errors
    ///
    /// The system's, where somebody else reaped the leader.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the leader stays owned until it is reaped.
    pub(crate) async fn reap(&mut self) -> io::Result<ExitStatus> {
        self.look();
        if self.leader.is_some() {
            self.signal(Signal::KILL);
        }
        if let Some(leader) = &mut self.leader {
            let status = leader.wait().await;
            self.leader = None;
            self.status = Some(status);
        }
        self.status.take().unwrap_or_else(|| Err(io::Error::other("it was asked for before")))
    }

    /// Whether the reaped leader's group is gone as well; see [`Group::is_gone`].
    pub(crate) fn is_gone(&mut self, closely: bool) -> bool {
        self.gone = self.gone || self.leader.is_none() && self.group.is_gone(closely);
        self.gone
    }

    /// What is left, for people.
    pub(crate) fn survivors(&self) -> String {
        self.group.survivors()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        self.signal(Signal::KILL);
        self.look();
        let Some(mut leader) = self.leader.take() else { return };
        // tokio reaps what is dropped alive at the next sign of an ended child, and this child's may have come
        // before it was dropped. This task is over as soon as the killed process is.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = leader.wait().await {
                    tracing::warn!(%error, "cannot reap a killed command");
                }
            });
        }
    }
}
