//! A process group that we made: signals to all of it, and whether anything of it is left. It never signals a group
//! that is ours or everybody's.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, kill_process_group, test_kill_process_group, waitpgid,
};

use crate::table::{Entry, Table};

/// The process group of one command; its number is the pid of the process that leads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group(Pid);

impl Group {
    /// The group that the child `pid` leads; `None` for a number that would reach other processes than its own.
    pub(crate) fn led_by(pid: u32) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        (!pid.is_init() && pid != getpgrp()).then_some(Self(pid))
    }

    /// The leader.
    pub(crate) const fn leader(self) -> Pid {
        self.0
    }

    /// Sends `signal` to every process of the group.
    ///
    /// The caller knows that the number is still this group's: its leader is not reaped, or a look just now found
    /// the group not empty. False where there was no process to signal.
    pub(crate) fn signal(self, signal: Signal) -> bool {
        match kill_process_group(self.0, signal) {
            Ok(()) => true,
            Err(Errno::SRCH) => false,
            Err(error) => {
                tracing::warn!(group = %self.0, ?signal, %error, "cannot signal a command's group");
                true
            }
        }
    }

    /// Looks for what is left of the group after its leader was reaped.
    ///
    /// `closely` looks at each process as well: where nobody reaps orphans, defunct ones keep a group not empty for
    /// ever. That costs a walk over all processes.
    pub(crate) fn is_gone(self, table: &Table, closely: bool) -> bool {
        if test_kill_process_group(self.0) == Err(Errno::SRCH) {
            return true;
        }
        // Where this process is the init of its container, a command's orphans are its children.
        while let Ok(Some(_)) = waitpgid(self.0, WaitOptions::NOHANG) {}
        if test_kill_process_group(self.0) == Err(Errno::SRCH) {
            return true;
        }
        let members = if closely { self.members(table) } else { Vec::new() };
        !members.is_empty() && members.iter().all(|member| member.is_defunct)
    }

    /// The processes of the group, defunct ones too; none where the system does not show them.
    pub(crate) fn members(self, table: &Table) -> Vec<Entry> {
        let mut members = table.all();
        members.retain(|entry| i32::try_from(entry.group) == Ok(self.0.as_raw_nonzero().get()));
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_group_is_made_of_numbers_that_reach_others() {
        let own = u32::try_from(getpgrp().as_raw_nonzero().get()).unwrap();
        for pid in [0, 1, own, u32::MAX] {
            assert_eq!(Group::led_by(pid), None, "{pid}");
        }
    }

    #[test]
    fn the_members_of_our_own_group_hold_this_process() {
        let own = Group(getpgrp()).members(&Table::default());
        assert!(own.iter().any(|member| member.pid == std::process::id() && !member.is_defunct));
    }
}
