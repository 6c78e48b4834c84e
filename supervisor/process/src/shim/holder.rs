//! One job from its order to the end of all that it started. It waits for the job, its orphans, the supervisor and
//! the clock, and for nothing else.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fanin_protocol::cause::Exit;
use fanin_protocol::limits::{KILL_REPORT, LEFTOVER_LOOK, ORPHAN_GRACE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::control::Control;
use crate::group::Group;
use crate::hunt;
use crate::table::Table;
use crate::wire::{ASK, KILL, Order, Report};

/// From the KILL of the group to the first look at what has left it: most trees are gone by then, and no walk is made.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// Does all of it.
///
/// # Errors
///
/// Where nothing was ordered, or could not be held.
pub(super) fn run() -> io::Result<()> {
    let mut control = Control::take()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    let prepared = prepare();
    let Some((order, stdin)) = control.order()? else { return Ok(()) };
    let started = prepared.and_then(|signals| Ok((start(order, stdin, &null)?, signals)));
    match started {
        Ok((group, Signals { children, stops })) => Holder::new(control, group).hold(&children, &stops),
        // The system's reasons, such as a full table of descriptors, are the job's: nothing of it runs.
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(0);
            control.say(&Report::NotStarted { errno, text: error.to_string() });
            Ok(())
        }
    }
}

/// What tells of signals.
struct Signals {
    children: UnixStream,
    stops: UnixStream,
}

/// Makes this process one that can hold others.
fn prepare() -> io::Result<Signals> {
    // Whoever started our supervisor may have left it descriptors that outlive an exec: the job gets none of them.
    close_fds::set_fds_cloexec(3, &[]);
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_name(c"fanin-shim")?;
    Ok(Signals { children: caught(&[SIGCHLD])?, stops: caught(&[SIGTERM, SIGINT, SIGHUP])? })
}

/// Starts the job as the leader of a group of its own, and lets go of its pipes: their end is the job's end.
fn start(order: Order, stdin: Option<OwnedFd>, null: &File) -> io::Result<Group> {
    let mut command = Command::new(&order.program);
    if order.is_bare {
        command.env_clear();
    }
    command.args(order.args).envs(order.env).process_group(0);
    command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    if let Some(cwd) = order.cwd {
        command.current_dir(cwd);
    }
    let child = command.spawn()?;
    dup2_stdout(null)?;
    dup2_stderr(null)?;
    // It is reaped with all others, by whatever number; this handle would only know of its own.
    Group::led_by(child.id()).ok_or_else(|| io::Error::other("its process group cannot be managed"))
}

/// A stream that can be read once one of these signals came.
fn caught(signals: &[i32]) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for signal in signals {
        pipe::register(*signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// How far a stop has gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    None,
    Asked,
    /// Killed at first then; to be looked at again then, and later after that pause.
    Killed {
        since: Instant,
        next: Instant,
        pause: Duration,
    },
}

/// The job that is held.
struct Holder {
    control: Control,
    table: Table,
    group: Group,
    /// Its main process is not reaped, so the group's number is its own.
    is_led: bool,
    stage: Stage,
    /// Without a supervisor: when what was asked to end is killed.
    kill_at: Option<Instant>,
    /// Nobody is at the other end any more.
    is_orphan: bool,
    /// Alive after the main process, and stopped.
    stopped: usize,
}

impl Holder {
    fn new(control: Control, group: Group) -> Self {
        Self {
            control,
            table: Table::default(),
            group,
            is_led: true,
            stage: Stage::None,
            kill_at: None,
            is_orphan: false,
            stopped: 0,
        }
    }

    /// Holds the job until nothing of it is left, or what is left cannot be ended.
    fn hold(&mut self, children: &UnixStream, stops: &UnixStream) -> io::Result<()> {
        let pid = self.group.leader().as_raw_nonzero().get().unsigned_abs();
        // It is not reaped yet, so this is its start and no other's.
        let start = self.table.entry(pid).map_or(0, |entry| entry.start);
        self.control.say(&Report::Started { pid, start });
        let early = self.control.early();
        self.obey(&early);
        loop {
            if self.reap() {
                self.control.say(&Report::Gone { stopped: self.stopped() });
                return Ok(());
            }
            if !self.press(Instant::now()) {
                let alive = hunt::named(self.below());
                self.control.say(&Report::Left { stopped: self.stopped(), alive });
                return Ok(());
            }
            self.wait(children, stops)?;
        }
    }

    /// Waits until something happens or is due, and takes in what was said.
    fn wait(&mut self, children: &UnixStream, stops: &UnixStream) -> io::Result<()> {
        let due = match self.stage {
            Stage::Killed { next, .. } => Some(next),
            Stage::None | Stage::Asked => self.kill_at,
        };
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut watched = [
            PollFd::new(children, PollFlags::IN),
            PollFd::new(stops, PollFlags::IN),
            PollFd::new(&self.control, PollFlags::IN),
        ];
        // Without a supervisor its end of the lifeline is readable for ever.
        let watched = if self.is_orphan { watched.split_at_mut(2).0 } else { &mut watched[..] };
        match poll(watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [_, was_told, has_said] =
            [0, 1, 2].map(|place| watched.get(place).is_some_and(|watched| !watched.revents().is_empty()));
        drain(children);
        if was_told {
            drain(stops);
            self.stop_alone();
        }
        if has_said {
            match self.control.hear() {
                Some(said) => self.obey(&said),
                None => {
                    self.is_orphan = true;
                    self.stop_alone();
                }
            }
        }
        Ok(())
    }

    fn obey(&mut self, said: &[u8]) {
        for word in said {
            match *word {
                ASK => self.ask(),
                KILL => self.kill(),
                // A word of a newer supervisor; the end of the lifeline is what counts.
                _ => {}
            }
        }
    }

    /// Nobody tells when the grace is over: this process does.
    fn stop_alone(&mut self) {
        self.ask();
        self.kill_at = self.kill_at.or_else(|| Some(Instant::now() + ORPHAN_GRACE));
    }

    /// Asks all of the tree to end, once: to many programs a second request means "at once".
    fn ask(&mut self) {
        if self.stage != Stage::None {
            return;
        }
        self.stage = Stage::Asked;
        if self.is_led {
            self.group.signal(Signal::TERM);
            // One that is stopped acts on it only once it goes on.
            self.group.signal(Signal::CONT);
        }
        let group = self.is_led.then(|| self.group.leader().as_raw_nonzero().get().unsigned_abs());
        let mut others = self.below();
        others.retain(|entry| !entry.is_defunct && Some(entry.group) != group);
        hunt::ask(&self.table, others.iter());
        if !self.is_led {
            self.stopped = others.len();
        }
    }

    fn kill(&mut self) {
        if matches!(self.stage, Stage::Killed { .. }) {
            return;
        }
        let since = Instant::now();
        let is_all = self.is_led && self.group.signal(Signal::KILL);
        let next = if is_all { since + FIRST_LOOK } else { since };
        self.stage = Stage::Killed { since, next, pause: FIRST_LOOK };
    }

    /// Goes on with a kill where that is due; false where it has lasted too long.
    fn press(&mut self, now: Instant) -> bool {
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill();
        }
        let Stage::Killed { since, next, pause } = self.stage else { return true };
        if now >= since + KILL_REPORT {
            return false;
        }
        if now >= next {
            let killed = hunt::kill(&self.table, || self.below());
            if !self.is_led && self.stopped == 0 {
                self.stopped = killed;
            }
            self.stage = Stage::Killed { since, next: now + pause, pause: LEFTOVER_LOOK.min(pause * 2) };
        }
        true
    }

    /// Reaps what has ended; true where nothing of the tree is left.
    ///
    /// That is certain: all that lives below this process is its child or the child of one that is, and orphans
    /// become its children.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.reaped(pid, status),
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn reaped(&mut self, pid: Pid, status: WaitStatus) {
        if !self.is_led || pid != self.group.leader() {
            return;
        }
        self.is_led = false;
        let exit = match status.terminating_signal() {
            Some(signal) => Exit::Signal(signal),
            None => Exit::Status(status.exit_status().unwrap_or(0)),
        };
        self.control.say(&Report::Ended(exit));
    }

    fn below(&self) -> Vec<crate::table::Entry> {
        self.table.below(std::process::id())
    }

    fn stopped(&self) -> u32 {
        u32::try_from(self.stopped).unwrap_or(u32::MAX)
    }
}

/// Takes out what signals left in their stream; how many they were says nothing.
fn drain(mut caught: &UnixStream) {
    let mut bytes = [0; 64];
    while io::Read::read(&mut caught, &mut bytes).is_ok_and(|read| read == bytes.len()) {}
}
