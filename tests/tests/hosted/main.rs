//! `fanin exec` with `fakeagent` as the parent: it launches, ends its turn, and is woken once.

mod crash;
mod mail;
mod storm;
mod turns;
mod watches;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The program.
const FANIN: &str = env!("CARGO_BIN_EXE_program");

/// The agent.
const FAKE: &str = env!("CARGO_BIN_EXE_fakeagent");

/// What nothing here may exceed; a hang fails instead of blocking.
const PATIENCE: Duration = Duration::from_secs(60);

/// What would change how it behaves, from wherever these tests are run.
const SURROUNDINGS: [&str; 5] = ["FANIN_PARENT", "FANIN_RIGHTS", "FANIN_MAIL", "FANIN_RUN", "GITHUB_ACTIONS"];

/// A folder with agents, and a state folder of its own.
struct Place {
    folder: TempDir,
}

impl Place {
    /// Each way of the fake agent that a parent can have is an agent.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent =
            |name: &str| format!("[agents.{name}]\ncommand = [{FAKE:?}, \"{name}\"]\nrights = \"full\"\n");
        let agents = ["keeps", "well", "forgets", "dies", "mute"].map(agent).concat();
        fs::write(folder.path().join("fanin.toml"), agents).unwrap();
        fs::write(folder.path().join("prompts"), "").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with these words.
    fn fanin(&self, words: &[&str]) -> Command {
        let mut command = Command::new(FANIN);
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("FANIN_STATE_DIR", self.path(".state")).env("XDG_CONFIG_HOME", self.path(".config"));
        for name in SURROUNDINGS {
            command.env_remove(name);
        }
        command
    }

    /// Starts it, with its outputs in files.
    fn start(&self, words: &[&str]) -> Running {
        let files = ["out", "err"].map(|name| self.path(name));
        let [out, err] = files.clone().map(|path| fs::File::create(path).unwrap());
        let child = self.fanin(words).stdout(out).stderr(err).spawn().unwrap();
        Running { child, files }
    }

    fn run(&self, words: &[&str]) -> Ended {
        self.start(words).end()
    }

    /// `fanin exec` with the agent that keeps its sessions, and this script.
    fn exec(&self, script: &str) -> Ended {
        self.run(&["exec", "--agent", "keeps", script])
    }

    /// What the agent was asked so far.
    fn prompts(&self) -> Vec<String> {
        let all = fs::read_to_string(self.path("prompts")).unwrap();
        all.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until a file is there.
    fn made(&self, name: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.path(name).exists() {
            let said = fs::read_to_string(self.path("err")).unwrap_or_default();
            assert!(Instant::now() < end, "{name} was never made: {said}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The records of the one parent there is, as documents.
    fn events(&self) -> Vec<Value> {
        let parents: Vec<_> = fs::read_dir(self.path(".state/runs")).unwrap().collect();
        let [Ok(parent)] = &parents[..] else { panic!("{parents:?}") };
        let out = self.fanin(&["events", "--json", parent.file_name().to_str().unwrap()]).output().unwrap();
        let lines = String::from_utf8(out.stdout).unwrap();
        let records = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        records.filter(|record: &Value| record["kind"].is_string()).collect()
    }

    /// Processes of this place that are alive: each has its folder as its own, or is what it was told to run.
    fn alive(&self) -> Vec<String> {
        let here = self.folder.path();
        let is_here = |pid: &Path| fs::read_link(pid.join("cwd")).is_ok_and(|cwd| cwd == here);
        let word =
            |pid: &Path| fs::read_to_string(pid.join("cmdline")).unwrap_or_default().replace('\0', " ");
        let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        all.filter(|pid| is_here(pid)).map(|pid| word(&pid)).filter(|word| !word.is_empty()).collect()
    }
}

/// A program at work. It is killed when this is dropped.
struct Running {
    child: Child,
    files: [PathBuf; 2],
}

impl Running {
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits until it has said so.
    fn wait_for(&self, words: &str) {
        let end = Instant::now() + PATIENCE;
        while !fs::read_to_string(&self.files[1]).unwrap().contains(words) {
            assert!(Instant::now() < end, "it never said {words:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn end(mut self) -> Ended {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let said = fs::read_to_string(&self.files[1]).unwrap();
            assert!(Instant::now() < end, "it did not end: {said}");
            std::thread::sleep(Duration::from_millis(5));
        };
        let [out, err] = self.files.clone().map(|path| fs::read_to_string(path).unwrap());
        Ended { code: status.code(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended where the test is done with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came of a program.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    fn document(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// The step that launches shell lines in the background.
fn background(lines: &[&str]) -> String {
    let tasks: Vec<_> = lines.iter().map(|line| serde_json::json!({ "shell": line })).collect();
    format!("call task_parallel {}", serde_json::json!({ "background": true, "tasks": tasks }))
}
