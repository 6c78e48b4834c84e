//! Who has a file open, as far as this system shows it. It looks, and touches nothing.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A process that has a store open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

/// Another process that has one of these files open. Those of other people can be invisible; the lock that a repair
/// takes finds them.
pub(crate) fn of(files: &[PathBuf]) -> Option<User> {
    let files: Vec<PathBuf> = files.iter().filter_map(|file| file.canonicalize().ok()).collect();
    let own = std::process::id();
    let processes =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|pid| *pid != own).find(|pid| has_open(*pid, &files)).map(|pid: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        User { pid, name: name.trim().to_owned() }
    })
}

fn has_open(pid: u32, files: &[PathBuf]) -> bool {
    let Ok(open) = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")) else { return false };
    open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).any(|target| files.contains(&target))
}
