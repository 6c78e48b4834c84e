//! The built program, in a folder of its own, with a bound on every wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// What nothing in these tests may exceed; a hang fails instead of blocking.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What would change how `fanin` behaves, from wherever these tests are run.
const SURROUNDINGS: [&str; 5] = ["NO_COLOR", "CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "TERM_PROGRAM"];

/// `fanin` with these words, to be run in `folder`. What it keeps goes below that, where the folder is the test's own: none
/// hears of another's crash.
pub(crate) fn fanin(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fanin"));
    command.args(words).current_dir(folder).stdin(Stdio::null());
    // A clone may lie anywhere, also where temporary folders do, and `folder` may be written with `..`.
    let written = folder.canonicalize().unwrap();
    let is_its_own = !Path::new(env!("CARGO_MANIFEST_DIR")).starts_with(written);
    let state = if is_its_own {
        folder.join(".state")
    } else {
        concat!(env!("CARGO_TARGET_TMPDIR"), "/state").into()
    };
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("FANIN_")) {
        command.env_remove(name);
    }
    command.env("FANIN_STATE_DIR", state).env("XDG_CONFIG_HOME", folder.join(".config"));
    for name in SURROUNDINGS {
        command.env_remove(name);
    }
    command
}

/// What came of a program that ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The line on standard error that names the exit code: the last one, save for the command to run again.
    pub(crate) fn last_word(&self) -> &str {
        let is_again = |line: &&str| line.starts_with("fanin run --again ");
        self.stderr.lines().rev().find(|line| !is_again(line)).unwrap_or_default()
    }

    /// The words of the command to run again what did not complete: the last line on standard error.
    pub(crate) fn again(&self) -> Vec<&str> {
        let last = self.stderr.lines().last().unwrap_or_default();
        let words = last.strip_prefix("fanin ").unwrap_or_else(|| panic!("no command: {}", self.stderr));
        words.split(' ').collect()
    }
}

/// Runs `fanin run` with these words to its end.
pub(crate) fn run(folder: &Path, words: &[&str]) -> Ended {
    let mut all = vec!["run"];
    all.extend(words);
    Running::start(fanin(folder, &all)).end()
}

/// Runs `fanin run` with these words and this standard input.
pub(crate) fn run_with_input(folder: &Path, words: &[&str], input: &str) -> Ended {
    let mut all = vec!["run"];
    all.extend(words);
    let file = folder.join("input");
    std::fs::write(&file, input).unwrap();
    let mut command = fanin(folder, &all);
    command.stdin(std::fs::File::open(&file).unwrap());
    Running::start(command).end()
}

/// A program that may still be at work. It is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    seen: String,
    shown: String,
}

impl Running {
    /// Starts it, with both of its outputs read.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdout, stderr, seen: String::new(), shown: String::new() }
    }

    /// Waits for a line on standard error that contains `words`.
    pub(crate) fn wait_for(&mut self, words: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.stderr.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no line with {words:?} in: {}", self.seen));
            self.seen.push_str(&line);
            if line.contains(words) {
                return;
            }
        }
    }

    /// Waits for a line on standard output that contains `words`, and returns it.
    pub(crate) fn says(&mut self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.stdout.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no line with {words:?} in: {}", self.shown));
            self.shown.push_str(&line);
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Waits until standard output is this, so far.
    pub(crate) fn shows(&mut self, all: &str) {
        let end = Instant::now() + PATIENCE;
        while self.shown != all {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.stdout.recv_timeout(left);
            self.shown.push_str(&line.unwrap_or_else(|_| panic!("not {all:?} but {:?}", self.shown)));
        }
    }

    /// The next line of standard output; `None` at its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line in: {}", self.seen),
        }
    }

    /// Its process.
    #[cfg(target_os = "linux")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        send(self.child.id(), name);
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let status = wait(&mut self.child);
        self.shown.extend(self.stdout.iter());
        self.seen.extend(self.stderr.iter());
        let stdout = std::mem::take(&mut self.shown);
        Ended { code: status.code(), stdout, stderr: std::mem::take(&mut self.seen) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a child, at most as long as patience lasts.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut bytes = Vec::new();
        while from.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            if send.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    receive
}

/// Waits until a task has made this file.
pub(crate) fn made(folder: impl AsRef<Path>, name: &str) {
    let end = Instant::now() + PATIENCE;
    while !folder.as_ref().join(name).exists() {
        assert!(Instant::now() < end, "{name} was never made");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal by name.
pub(crate) fn send(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -s {name} {pid}");
}

/// Both ends of a stream that takes nothing more until somebody reads.
pub(crate) fn full() -> (UnixStream, OwnedFd) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    for size in [4_096, 1] {
        let bytes = vec![b'.'; size];
        while let Ok(written) = writer.write(&bytes) {
            assert!(written > 0);
        }
    }
    writer.set_nonblocking(false).unwrap();
    (reader, writer.into())
}

/// Waits until a process has this signal caught.
#[cfg(target_os = "linux")]
pub(crate) fn catches(pid: u32, signal: u32) {
    let end = Instant::now() + PATIENCE;
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (signal - 1) != 0
    };
    while !caught() {
        assert!(Instant::now() < end, "signal {signal} was never caught");
        std::thread::sleep(Duration::from_millis(5));
    }
}
