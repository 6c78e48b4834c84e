//! A test command: built by cargo in the copy, and run within a limit. No shell is involved.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

/// A test that a fault makes run for longer hangs; the slowest ones take a few seconds without.
const TEST_LIMIT: Duration = Duration::from_secs(180);

/// `cargo test` of one test binary, maybe with settings before it and names of tests behind it.
#[derive(Debug)]
pub(crate) struct TestCommand {
    settings: Vec<(String, String)>,
    /// What cargo is told: the package and the binary.
    target: Vec<String>,
    /// Names of tests before the `--`.
    names: Vec<String>,
    /// What stands behind it.
    rest: Vec<String>,
}

impl TestCommand {
    /// Reads `NAME=value.. cargo test -p PACKAGE --lib | --test NAME [TEST] [-- WORDS]`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace().map(str::to_owned).peekable();
        let mut settings = Vec::new();
        while let Some(setting) = words.next_if(|word| word.contains('=')) {
            let (name, value) = setting.split_once('=').unwrap_or_default();
            settings.push((name.to_owned(), value.to_owned()));
        }
        if (words.next().as_deref(), words.next().as_deref()) != (Some("cargo"), Some("test")) {
            return Err(format!("`{text}` is no `cargo test`"));
        }
        let (mut target, mut names, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" => rest.extend(words.by_ref()),
                "-p" | "--test" | "--bin" => {
                    let value = words.next().ok_or_else(|| format!("`{word}` names nothing"))?;
                    target.extend([word, value]);
                }
                "--lib" | "--release" => target.push(word),
                flag if flag.starts_with('-') => return Err(format!("`{flag}` is not for a narrow command")),
                _ => names.push(word),
            }
        }
        let has = |flags: &[&str]| target.iter().any(|word| flags.contains(&word.as_str()));
        if !has(&["-p"]) || !has(&["--lib", "--test", "--bin"]) {
            return Err(format!("`{text}` does not name one package and one of its test binaries"));
        }
        Ok(Self { settings, target, names, rest })
    }

    /// Other flags of the compiler mean another build of everything: it gets a folder of its own.
    fn has_flags(&self) -> bool {
        self.settings.iter().any(|(name, _)| name == "RUSTFLAGS")
    }
}

impl fmt::Display for TestCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.settings {
            write!(f, "{name}={value} ")?;
        }
        f.write_str("cargo test")?;
        for word in self.target.iter().chain(&self.names) {
            write!(f, " {word}")?;
        }
        if !self.rest.is_empty() {
            write!(f, " -- {}", self.rest.join(" "))?;
        }
        Ok(())
    }
}

/// Where commands are built and run.
pub(crate) struct Build {
    folder: PathBuf,
    place: PathBuf,
}

/// What a build gave.
pub(crate) enum Built {
    Program(Program),
    /// It does not compile; the compiler's words are in this file.
    Not(PathBuf),
}

/// A test binary, and the folder of its package.
pub(crate) struct Program {
    path: PathBuf,
    package: PathBuf,
}

/// What a run gave.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    /// It was killed at the limit.
    pub(crate) hung: bool,
    /// Names of the tests that failed.
    pub(crate) failed: Vec<String>,
    /// Tests that passed.
    pub(crate) passed: usize,
    /// What it wrote.
    pub(crate) log: PathBuf,
}

impl Build {
    pub(crate) fn new(folder: &Path, place: &Path) -> Self {
        Self { folder: folder.to_owned(), place: place.to_owned() }
    }

    /// Builds the command's test binary. `what` names the log.
    pub(crate) async fn build(&self, command: &TestCommand, what: &str) -> Result<Built, String> {
        let log = self.log(what, "build");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["test", "--no-run", "--message-format=json-render-diagnostics"])
            .args(&command.target)
            .envs(command.settings.iter().map(|(name, value)| (name, value)))
            .env("CARGO_TARGET_DIR", self.place.join(if command.has_flags() { "flags" } else { "target" }))
            .env("CARGO_TERM_COLOR", "never")
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stderr(create(&log)?)
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        if !output.status.success() {
            return Ok(Built::Not(log));
        }
        let found = String::from_utf8_lossy(&output.stdout).lines().filter_map(program).next_back();
        found.map(Built::Program).ok_or_else(|| format!("`{command}` builds no test binary"))
    }

    /// Runs the tests, for as long as they may take.
    pub(crate) async fn run(
        &self,
        command: &TestCommand,
        program: &Program,
        what: &str,
    ) -> Result<Ran, String> {
        let log = self.log(what, "test");
        let unusable = |error| format!("cannot run {}: {error}", program.path.display());
        // What it writes goes to files: a process that a fault leaves behind may keep a pipe open for ever.
        let mut child = Command::new(&program.path)
            .args(command.names.iter().chain(&command.rest))
            .envs(command.settings.iter().map(|(name, value)| (name, value)))
            .env("CARGO_MANIFEST_DIR", &program.package)
            .current_dir(&program.package)
            .stdin(Stdio::null())
            .stdout(create(&log)?)
            .stderr(create(&self.log(what, "panics"))?)
            .kill_on_drop(true)
            .spawn()
            .map_err(unusable)?;
        let status = match timeout(TEST_LIMIT, child.wait()).await {
            Ok(status) => Some(status.map_err(unusable)?),
            Err(_) => {
                child.kill().await.map_err(unusable)?;
                None
            }
        };
        let text = std::fs::read(&log).map_err(|error| format!("cannot read {}: {error}", log.display()))?;
        Ok(Ran::of(status, &String::from_utf8_lossy(&text), log))
    }

    fn log(&self, what: &str, step: &str) -> PathBuf {
        self.place.join("logs").join(format!("{what}.{step}.log"))
    }
}

impl Ran {
    /// Reads what a test binary wrote: `test NAME ... ok`, and the sum at the end.
    fn of(status: Option<ExitStatus>, text: &str, log: PathBuf) -> Self {
        let told = |end: &str| {
            let names = text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(end));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        let is_told = text.lines().any(|line| line.starts_with("test result: FAILED"));
        Self {
            code: status.and_then(|status| status.code()),
            hung: status.is_none(),
            failed: if is_told { failures(text) } else { Vec::new() },
            passed: told(" ... ok").len(),
            log,
        }
    }
}

/// Names under the last `failures:`. The lines of the tests themselves may hold what the tests wrote.
fn failures(text: &str) -> Vec<String> {
    let list = text.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
    list.lines().map_while(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
}

/// The test binary that a line of cargo's tells of.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    is_test.then_some(Program { path: message["executable"].as_str()?.into(), package })
}

fn create(path: &Path) -> Result<File, String> {
    let failed = |error| format!("cannot write {}: {error}", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
    File::create(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_command_is_read_and_shown_as_it_was() {
        let text = "RUSTFLAGS=--cfg=loom cargo test -p fanin-machine --test loom log a -- --exact -q";
        let command = TestCommand::parse(text).unwrap();
        assert_eq!(command.to_string(), text);
        assert_eq!(command.target, ["-p", "fanin-machine", "--test", "loom"]);
        assert!(command.has_flags());
    }

    #[test]
    fn a_wide_command_is_refused() {
        for text in
            ["cargo test", "cargo test -p a", "cargo test --lib", "cargo test -p a --test b --all", "make"]
        {
            assert!(TestCommand::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_failed_is_read_from_the_sum_alone() {
        let text = "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nfailures:\n    no\n\n\
            failures:\n    b\n    c::d\n\ntest result: FAILED. 1 passed; 2 failed\n";
        let ran = Ran::of(Some(ExitStatus::from_raw(101 << 8)), text, PathBuf::new());
        assert_eq!((ran.code, ran.hung, ran.passed), (Some(101), false, 1));
        assert_eq!(ran.failed, ["b", "c::d"]);
        let cut_short = text.split("test result").next().unwrap();
        assert!(Ran::of(None, cut_short, PathBuf::new()).failed.is_empty());
    }
}
