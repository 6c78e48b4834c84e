//! Who a process is. A number alone is nobody: it goes to others when its process is gone, so nothing is signalled
//! here before start and boot were compared (SC-5).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::table::{Entry, Table};

/// A process and no other: number, start, and the start of the machine that both belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did.
    pub start: u64,
    /// Which start of the machine; `None` where the system does not say.
    pub boot: Option<Arc<str>>,
}

impl Identity {
    /// The process that has this number now.
    pub fn of(table: &Table, pid: u32) -> Option<Self> {
        Some(Self::seen(table, &table.entry(pid)?))
    }

    pub(crate) fn seen(table: &Table, entry: &Entry) -> Self {
        Self { pid: entry.pid, start: entry.start, boot: table.boot_id() }
    }

    /// The process, where it is there and is still this one. `None` where it is gone, where its number belongs to
    /// another by now, or where it is this very process or the first of all.
    pub fn find(&self, table: &Table) -> Option<Found> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        if pid.is_init() || self.pid == std::process::id() {
            return None;
        }
        // The descriptor comes first. It is one of whoever has the number now, and who is seen with the right start
        // after that has had the number since: the two are the same.
        let found = Found::open(pid);
        let entry = table.entry(self.pid)?;
        (entry.start == self.start && table.boot_id() == self.boot).then_some(found)
    }
}

/// A process that was verified.
///
/// Its signals reach it or nobody. Where the system has no descriptors of processes, or none is free, that holds only
/// as long as the number was not given away since.
#[derive(Debug)]
pub struct Found {
    pid: Pid,
    descriptor: Option<OwnedFd>,
}

impl Found {
    fn open(pid: Pid) -> Self {
        #[cfg(target_os = "linux")]
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok();
        #[cfg(not(target_os = "linux"))]
        let descriptor = None;
        Self { pid, descriptor }
    }

    /// Asks it to end (SIGTERM).
    ///
    /// # Errors
    ///
    /// The system's: it is gone, or belongs to another user.
    pub fn terminate(&self) -> io::Result<()> {
        self.signal(Signal::TERM).map_err(Into::into)
    }

    /// Ends it (SIGKILL).
    ///
    /// # Errors
    ///
    /// As [`Found::terminate`].
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL).map_err(Into::into)
    }

    pub(crate) fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        match &self.descriptor {
            #[cfg(target_os = "linux")]
            Some(descriptor) => pidfd_send_signal(descriptor, signal),
            #[cfg(not(target_os = "linux"))]
            Some(_) => kill_process(self.pid, signal),
            None => kill_process(self.pid, signal),
        }
    }
}
