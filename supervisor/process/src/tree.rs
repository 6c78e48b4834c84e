//! One command and all that it starts, by whichever way it is held. Whatever happens to the run, its drop leaves
//! nothing alive that can be reached, and nothing defunct.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::task::{Context, Poll};

use fanin_protocol::cause::Exit;
use fanin_protocol::{CommandSpec, Containment, Left};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdout};

use crate::grouped::Grouped;
use crate::identity::Identity;
#[cfg(target_os = "linux")]
use crate::shimmed::Shimmed;
use crate::spawn::NotStarted;

/// What a command reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Input {
    /// Nothing: its standard input is at its end at once (B105).
    #[default]
    None,
    /// A pipe from us.
    Piped,
}

/// What a command is started with, beside what its spec says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    /// What it reads.
    pub input: Input,
    /// It does not inherit our environment: the variables of its spec, and the marks of its run, are all it has.
    pub is_bare: bool,
}

impl From<Input> for Given {
    fn from(input: Input) -> Self {
        Self { input, is_bare: false }
    }
}

/// Our ends of a command's pipes.
#[derive(Debug)]
pub struct Pipes {
    /// Where it was asked for.
    pub input: Option<pipe::Sender>,
    /// Its standard output.
    pub out: ChildStdout,
    /// Its standard error.
    pub err: ChildStderr,
}

impl Pipes {
    pub(crate) fn of(child: &mut Child, input: Option<pipe::Sender>) -> Option<Self> {
        Some(Self { input, out: child.stdout.take()?, err: child.stderr.take()? })
    }
}

/// The standard input of a command, and our end of it.
pub(crate) fn input(input: Input) -> io::Result<(Option<io::PipeReader>, Option<pipe::Sender>)> {
    match input {
        Input::None => Ok((None, None)),
        Input::Piped => {
            let (theirs, ours) = io::pipe()?;
            Ok((Some(theirs), Some(pipe::Sender::from_owned_fd(ours.into())?)))
        }
    }
}

/// Reads what a pipe of [`Pipes`] holds, without asking the runtime whether it has noticed.
///
/// # Errors
///
/// The system's; `WouldBlock` where there is nothing.
pub fn read_now(pipe: impl AsFd, space: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(pipe, space)?)
}

/// A command's standard input where it is a direct child of ours.
pub(crate) fn stdio(theirs: Option<io::PipeReader>) -> Stdio {
    theirs.map_or_else(Stdio::null, Stdio::from)
}

/// A command that was started, with all of its processes.
///
/// The steps come in this order: [`poll_started`](Self::poll_started), [`poll_ended`](Self::poll_ended),
/// [`poll_gone`](Self::poll_gone). [`ask`](Self::ask) and [`kill`](Self::kill) may come at any time and act once.
///
/// Dropped, it is killed at once. What cannot be waited for then is reaped by the runtime.
#[derive(Debug)]
pub struct Tree(Way);

#[derive(Debug)]
enum Way {
    Group(Box<Grouped>),
    #[cfg(target_os = "linux")]
    Shim(Box<Shimmed>),
}

impl Tree {
    /// Starts a command: through the shim at this path, or as a process group of its own where there is none.
    ///
    /// `mark` names the run among those of all supervisors and goes into the command's environment.
    ///
    /// # Errors
    ///
    /// [`NotStarted`]. With a shim the command's own reasons come by [`poll_started`](Self::poll_started).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with I/O enabled.
    pub fn start(
        spec: &CommandSpec,
        given: impl Into<Given>,
        shim: Option<&Path>,
        mark: &str,
    ) -> Result<(Self, Pipes), NotStarted> {
        let given = given.into();
        #[cfg(target_os = "linux")]
        if let Some(shim) = shim {
            let (tree, pipes) = Shimmed::start(spec, given, shim, mark)?;
            return Ok((Self(Way::Shim(Box::new(tree))), pipes));
        }
        #[cfg(not(target_os = "linux"))]
        let _ = shim;
        let (tree, pipes) = Grouped::start(spec, given, mark)?;
        Ok((Self(Way::Group(Box::new(tree))), pipes))
    }

    /// How it is held together.
    pub const fn containment(&self) -> Containment {
        match &self.0 {
            Way::Group(_) => Containment::Group,
            #[cfg(target_os = "linux")]
            Way::Shim(_) => Containment::Shim,
        }
    }

    /// Ready once the command runs; its main process leads a group of its own. `spec` is that of the start.
    ///
    /// # Errors
    ///
    /// [`NotStarted`]: nothing runs, unless the code is `shim_lost`; [`poll_gone`](Self::poll_gone) tells.
    pub fn poll_started(
        &mut self,
        spec: &CommandSpec,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Identity, NotStarted>> {
        match &mut self.0 {
            Way::Group(tree) => Poll::Ready(Ok(tree.identity())),
            #[cfg(target_os = "linux")]
            Way::Shim(tree) => tree.poll_started(spec, cx),
        }
    }

    /// Ready once the main process has ended, or nobody can tell any more.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Way::Group(tree) => tree.poll_ended(cx),
            #[cfg(target_os = "linux")]
            Way::Shim(tree) => tree.poll_ended(cx),
        }
    }

    /// Ready once nothing is left, or what is left cannot be ended; for that it must have been killed before.
    ///
    /// Called once the main process has ended. `None` where that one had left nothing.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Option<Left>> {
        match &mut self.0 {
            Way::Group(tree) => tree.poll_gone(cx),
            #[cfg(target_os = "linux")]
            Way::Shim(tree) => tree.poll_gone(cx),
        }
    }

    /// How the main process left. Asked for once, when the tree is gone.
    ///
    /// # Errors
    ///
    /// Where that is lost, and why.
    pub fn exit(&mut self) -> io::Result<Exit> {
        match &mut self.0 {
            Way::Group(tree) => tree.exit(),
            #[cfg(target_os = "linux")]
            Way::Shim(tree) => tree.exit(),
        }
    }

    /// True where the shim that held it is lost.
    pub const fn is_shim_lost(&self) -> bool {
        match &self.0 {
            Way::Group(_) => false,
            #[cfg(target_os = "linux")]
            Way::Shim(tree) => tree.is_lost(),
        }
    }

    /// Asks all of it to end (SIGTERM), the first time: to many programs a second request means "at once".
    pub fn ask(&mut self) {
        match &mut self.0 {
            Way::Group(tree) => tree.ask(),
            #[cfg(target_os = "linux")]
            Way::Shim(tree) => tree.ask(),
        }
    }

    /// Ends all of it (SIGKILL).
    pub fn kill(&mut self) {
        match &mut self.0 {
            Way::Group(tree) => tree.kill(),
            #[cfg(target_os = "linux")]
            Way::Shim(tree) => tree.kill(),
        }
    }
}
