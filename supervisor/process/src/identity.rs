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

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn a_process_is_found_and_signalled_while_it_is_itself() {
        let (table, mut child) = (Table::default(), sleeper());
        let identity = Identity::of(&table, child.id()).unwrap();
        identity.find(&table).unwrap().terminate().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert!(identity.find(&table).is_none(), "it is reaped");
    }

    // B40, SC-5: the number is there and belongs to another.
    #[test]
    fn a_number_that_was_given_away_is_nobody() {
        let (table, mut child) = (Table::default(), sleeper());
        let now = Identity::of(&table, child.id()).unwrap();
        let others = [
            Identity { start: now.start - 1, ..now.clone() },
            Identity { start: now.start + 1, ..now.clone() },
            Identity { boot: Some("another-start-of-the-machine".into()), ..now.clone() },
            Identity { boot: None, ..now.clone() },
        ];
        for other in others {
            assert!(other.find(&table).is_none(), "{other:?} is not {now:?}");
        }
        // Nor what the table has of another start by the time that the descriptor is open.
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(now.pid.to_string());
        std::fs::create_dir(&folder).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", now.pid)).unwrap();
        std::fs::write(folder.join("stat"), stat.replace(&format!(" {} ", now.start), " 1 ")).unwrap();
        let reused = Table::at(dir.path());
        assert!(Identity { boot: None, ..now.clone() }.find(&reused).is_none());
        // And a hunt for what that table shows reaches nobody.
        let seen = Identity { start: now.start, ..Identity::of(&reused, now.pid).unwrap() };
        assert!(seen.find(&reused).is_none());
        assert!(child.try_wait().unwrap().is_none(), "it was signalled");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    // A descriptor stays with its process, whoever has the number afterwards.
    #[test]
    fn what_was_found_and_is_gone_gets_no_signal() {
        let (table, mut child) = (Table::default(), sleeper());
        let found = Identity::of(&table, child.id()).unwrap().find(&table).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.kill().unwrap_err().kind(), io::Error::from_raw_os_error(3).kind());
    }

    #[test]
    fn neither_this_process_nor_the_first_is_ever_found() {
        let table = Table::default();
        for pid in [0, 1, std::process::id(), u32::MAX] {
            let identity =
                Identity::of(&table, pid).unwrap_or(Identity { pid, start: 0, boot: table.boot_id() });
            assert!(identity.find(&table).is_none(), "{pid}");
        }
    }
}
