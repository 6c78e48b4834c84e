//! Who has a file open, as far as this system shows it. It looks, and touches nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// Another process that has one of these files open, in words. Those of other people can be invisible; the lock that a repair
/// takes finds them.
pub(crate) fn of(files: &[PathBuf]) -> Option<String> {
    let files: Vec<PathBuf> = files.iter().filter_map(|file| file.canonicalize().ok()).collect();
    let own = std::process::id();
    let processes =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|pid| *pid != own).find(|pid| has_open(*pid, &files)).map(|pid: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("process {pid} ({})", name.trim())
    })
}

fn has_open(pid: u32, files: &[PathBuf]) -> bool {
    let Ok(open) = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")) else { return false };
    open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).any(|target| files.contains(&target))
}
