//! A process group that we made: signals to all of it, and whether anything of it is left. It never signals a group
//! that is ours or everybody's.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, kill_process_group, test_kill_process_group, waitpgid,
};

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
    pub(crate) fn is_gone(self, closely: bool) -> bool {
        if test_kill_process_group(self.0) == Err(Errno::SRCH) {
            return true;
        }
        // Where this process is the init of its container, a command's orphans are its children.
        while let Ok(Some(_)) = waitpgid(self.0, WaitOptions::NOHANG) {}
        if test_kill_process_group(self.0) == Err(Errno::SRCH) {
            return true;
        }
        let members = if closely { self.members() } else { Vec::new() };
        !members.is_empty() && members.iter().all(|member| member.defunct)
    }

    /// The processes of the group that are not defunct, for people: `4711 (sleep), 4712 (cat)`.
    pub(crate) fn survivors(self) -> String {
        let alive = self.members().into_iter().filter(|member| !member.defunct);
        let names: Vec<String> =
            alive.take(8).map(|member| format!("{} ({})", member.pid, member.name)).collect();
        if names.is_empty() { format!("processes of group {}", self.0) } else { names.join(", ") }
    }

    /// What `/proc` says about the group; empty where there is no `/proc`.
    fn members(self) -> Vec<Member> {
        let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
        processes
            .filter_map(|entry| {
                let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
                // A process that ended since the listing has no file any more.
                let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
                Member::parse(pid, self.0, &String::from_utf8_lossy(&stat))
            })
            .collect()
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Member {
    pid: u32,
    name: String,
    defunct: bool,
}

impl Member {
    /// Reads a line of `/proc/PID/stat`; `None` for a process of another group.
    fn parse(pid: u32, group: Pid, stat: &str) -> Option<Self> {
        // The name stands in brackets and may hold brackets and spaces itself.
        let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields.get(2)?.parse() != Ok(group.as_raw_nonzero().get()) {
            return None;
        }
        // A process whose first thread ended while others work shows the same state.
        let threads: u32 = fields.get(17)?.parse().ok()?;
        let defunct = matches!(*fields.first()?, "Z" | "X") && threads <= 1;
        Some(Self { pid, name: name.to_owned(), defunct })
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
    fn a_line_of_proc_is_read_whatever_the_name() {
        let group = Pid::from_raw(77).unwrap();
        let line = |name: &str, state: &str, group: i32, threads: u32| {
            format!("80 ({name}) {state} 1 {group} 77 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 99")
        };
        let parse = |line: String| Member::parse(80, group, &line);
        let alive = parse(line("a) Z (b", "S", 77, 1)).unwrap();
        assert_eq!(alive, Member { pid: 80, name: "a) Z (b".into(), defunct: false });
        assert!(parse(line("sh", "Z", 77, 1)).unwrap().defunct);
        assert!(!parse(line("sh", "Z", 77, 3)).unwrap().defunct);
        assert_eq!(parse(line("sh", "S", 78, 1)), None);
        assert_eq!(parse("garbage".into()), None);
    }

    #[test]
    fn the_real_file_has_the_fields_where_they_are_looked_for() {
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        let own = Group(getpgrp()).members();
        let this = own.iter().find(|member| member.pid == std::process::id()).unwrap();
        assert_eq!(this.name, name.trim_end());
        assert!(!this.defunct);
    }
}
