//! Who has a file open, as far as this system shows it. It looks, and touches nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fanin_protocol::text;

/// How long another may look at a store, or write to it, before that counts as having it open.
pub(crate) const LOOKS: Duration = Duration::from_secs(1);

/// How often a process that has one open is looked at meanwhile.
const AGAIN: Duration = Duration::from_millis(10);

/// Another process that has one of these files open, in words. Those of other people can be invisible; the lock that a
/// repair takes finds them.
pub(crate) fn of(files: &[PathBuf]) -> Option<String> {
    let files: Vec<PathBuf> = files.iter().filter_map(|file| file.canonicalize().ok()).collect();
    let own = std::process::id();
    let processes =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|pid| *pid != own).find(|pid| keeps_open(*pid, &files)).map(|pid: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("process {pid} ({})", text::one_line(&name))
    })
}

/// True where a process has one open for longer than a look takes. A child that is being started has all that its parent
/// had, until it becomes another program; nothing tells when that is so.
fn keeps_open(pid: u32, files: &[PathBuf]) -> bool {
    let until = Instant::now() + LOOKS;
    while has_open(pid, files) {
        if Instant::now() >= until {
            return true;
        }
        thread::sleep(AGAIN);
    }
    false
}

fn has_open(pid: u32, files: &[PathBuf]) -> bool {
    let Ok(open) = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")) else { return false };
    open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).any(|target| files.contains(&target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_counts_that_keeps_a_file_open_and_not_one_that_lets_it_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        fs::write(&path, "x").unwrap();
        let files = [path.clone()];
        assert_eq!(of(&files), None);
        let file = File::open(&path).unwrap();
        assert_eq!(of(&files), None, "this process does not count");
        let holding = |words: &str| {
            let input = Stdio::from(file.try_clone().unwrap());
            let mut command = Command::new("sh");
            command.args(["-c", words]).stdin(input).stdout(Stdio::null()).spawn().unwrap()
        };
        let mut keeps = holding("exec sleep 1000");
        let found = of(&files);
        keeps.kill().unwrap();
        keeps.wait().unwrap();
        assert!(found.is_some_and(|found| found.starts_with(&format!("process {} (", keeps.id()))));
        let mut lets_go = holding("sleep 0.1; exec sleep 1000 < /dev/null");
        let found = of(&files);
        lets_go.kill().unwrap();
        lets_go.wait().unwrap();
        assert_eq!(found, None);
    }
}
