//! The table of processes as `/proc` shows it. It only looks, and what it says may be over a moment later: whoever
//! acts on it verifies first.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use fanin_protocol::LogId;
use fanin_protocol::process::RUN_VARIABLE;

/// Where processes are looked for.
#[derive(Debug, Clone)]
pub struct Table {
    root: PathBuf,
}

impl Default for Table {
    /// The system's own.
    fn default() -> Self {
        Self::at("/proc")
    }
}

/// A process, as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub pid: u32,
    /// Who started it, or has taken it over.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its program, as the system names it.
    pub program: String,
    /// When it started, in clock ticks since the machine did.
    pub start: u64,
    /// It has ended and waits to be reaped.
    pub is_defunct: bool,
}

impl Table {
    /// A table at another place than `/proc`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The process of that number, if there is one.
    pub fn entry(&self, pid: u32) -> Option<Entry> {
        // A process that ended since the listing has no file any more.
        let stat = std::fs::read(self.of(pid).join("stat")).ok()?;
        Entry::parse(pid, &String::from_utf8_lossy(&stat))
    }

    /// All processes; none where there is no such folder.
    pub fn all(&self) -> Vec<Entry> {
        self.pids().filter_map(|pid| self.entry(pid)).collect()
    }

    /// All that descend from `root`, without it: parents before their children.
    pub fn below(&self, root: u32) -> Vec<Entry> {
        let mut others = self.all();
        let (mut found, mut next) = (Vec::new(), vec![root]);
        while !next.is_empty() {
            let (children, rest): (Vec<_>, Vec<_>) =
                others.into_iter().partition(|entry| entry.pid != root && next.contains(&entry.parent));
            others = rest;
            next = children.iter().map(|entry| entry.pid).collect();
            found.extend(children);
        }
        found
    }

    /// All whose environment names this run. Those of other users cannot be seen into.
    pub fn of_run(&self, mark: &str) -> Vec<Entry> {
        let wanted = format!("{RUN_VARIABLE}={mark}");
        self.with(|variable| variable == wanted.as_bytes())
    }

    /// All whose environment names any run of this log. Those of other users cannot be seen into.
    pub fn of_log(&self, log: &LogId) -> Vec<Entry> {
        let wanted = format!("{RUN_VARIABLE}={log}:");
        self.with(|variable| variable.starts_with(wanted.as_bytes()))
    }

    fn with(&self, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<Entry> {
        let carries = |pid: &u32| self.environment(*pid).split(|byte| *byte == 0).any(&is_wanted);
        self.pids().filter(carries).filter_map(|pid| self.entry(pid)).collect()
    }

    /// The number of this process in this table: another one than it knows itself by where it was put into a space of
    /// numbers of its own. `None` where there is no such table.
    pub fn this(&self) -> Option<u32> {
        std::fs::read_link(self.root.join("self")).ok()?.to_str()?.parse().ok()
    }

    /// The environment that a process was started with, a NUL after each variable; empty where it cannot be seen.
    pub(crate) fn environment(&self, pid: u32) -> Vec<u8> {
        std::fs::read(self.of(pid).join("environ")).unwrap_or_default()
    }

    /// The words of a process, a NUL after each; empty where it cannot be seen.
    pub(crate) fn command_line(&self, pid: u32) -> Vec<u8> {
        std::fs::read(self.of(pid).join("cmdline")).unwrap_or_default()
    }

    /// Which start of the machine this is; `None` where the system does not say.
    pub fn boot_id(&self) -> Option<Arc<str>> {
        static SYSTEM: OnceLock<Option<Arc<str>>> = OnceLock::new();
        let read = || {
            let text = std::fs::read_to_string(self.root.join("sys/kernel/random/boot_id")).ok()?;
            Some(text.trim().into())
        };
        if self.root == Path::new("/proc") { SYSTEM.get_or_init(read).clone() } else { read() }
    }

    fn of(&self, pid: u32) -> PathBuf {
        self.root.join(pid.to_string())
    }

    fn pids(&self) -> impl Iterator<Item = u32> + use<> {
        let listed = std::fs::read_dir(&self.root).ok().into_iter().flatten();
        listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
    }
}

impl Entry {
    /// Reads a line of `/proc/PID/stat`.
    fn parse(pid: u32, stat: &str) -> Option<Self> {
        // The name stands in brackets and may hold brackets and spaces itself.
        let (program, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // A process whose first thread ended while others work shows the same state.
        let threads: u32 = fields.get(17)?.parse().ok()?;
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            program: program.to_owned(),
            start: fields.get(19)?.parse().ok()?,
            is_defunct: matches!(*fields.first()?, "Z" | "X") && threads <= 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, state: &str, parent: u32, threads: u32) -> String {
        format!("80 ({name}) {state} {parent} 77 70 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 99 5 6")
    }

    #[test]
    fn a_line_is_read_whatever_the_name() {
        let entry = Entry::parse(80, &line("a) Z (b", "S", 7, 1)).unwrap();
        let expected =
            Entry { pid: 80, parent: 7, group: 77, program: "a) Z (b".into(), start: 99, is_defunct: false };
        assert_eq!(entry, expected);
        assert!(Entry::parse(80, &line("sh", "Z", 1, 1)).unwrap().is_defunct);
        assert!(!Entry::parse(80, &line("sh", "Z", 1, 3)).unwrap().is_defunct);
        assert_eq!(Entry::parse(80, "garbage"), None);
    }

    #[test]
    fn the_real_file_has_the_fields_where_they_are_looked_for() {
        let table = Table::default();
        let this = table.entry(std::process::id()).unwrap();
        assert_eq!(this.program, std::fs::read_to_string("/proc/self/comm").unwrap().trim_end());
        assert_eq!(this.parent, std::os::unix::process::parent_id());
        assert!(!this.is_defunct && this.start > 0);
        assert!(table.all().contains(&this));
        assert!(table.below(this.parent).contains(&this));
        assert!(table.boot_id().is_some_and(|id| id.len() == 36), "{:?}", table.boot_id());
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, parent) in [(10, 1), (11, 10), (12, 11), (9, 12), (13, 1), (14, 13)] {
            std::fs::create_dir(dir.path().join(pid.to_string())).unwrap();
            std::fs::write(dir.path().join(format!("{pid}/stat")), line("p", "S", parent, 1)).unwrap();
        }
        let below = Table::at(dir.path()).below(10);
        assert_eq!(below.iter().map(|entry| entry.pid).collect::<Vec<_>>(), [11, 12, 9]);
    }

    #[test]
    fn a_run_is_found_by_its_whole_mark() {
        let dir = tempfile::tempdir().unwrap();
        let environs = [
            (1, "A=b\0FANIN_RUN=log:7\0C=d\0"),
            (2, "FANIN_RUN=log:7\0"),
            (3, "FANIN_RUN=log:70\0"),
            (4, "OLD_FANIN_RUN=log:7\0"),
            (5, ""),
        ];
        for (pid, environ) in environs {
            std::fs::create_dir(dir.path().join(pid.to_string())).unwrap();
            std::fs::write(dir.path().join(format!("{pid}/stat")), line("p", "S", 1, 1)).unwrap();
            std::fs::write(dir.path().join(format!("{pid}/environ")), environ).unwrap();
        }
        let mut found: Vec<u32> =
            Table::at(dir.path()).of_run("log:7").iter().map(|entry| entry.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
    }
}
