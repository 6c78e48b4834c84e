//! The notice on a terminal. `script` gives the program one; where it is not there, only what holds elsewhere is tested.

use std::path::Path;
use std::process::Command;

use tempfile::tempdir;

use crate::common::{Running, fanin};

const BELL: char = '\x07';

/// What stands on the terminal of `fanin run` after these words; `None` where no terminal can be made.
fn shown(folder: &Path, words: &str, variables: &[(&str, &str)]) -> Option<String> {
    if Command::new("script").arg("--version").output().is_err() {
        assert!(std::env::var_os("FANIN_REQUIRE").is_none(), "`script` is needed");
        return None;
    }
    // For what `fanin` sets apart from where these tests run.
    let plain = fanin(folder, &[]);
    let mut command = Command::new("script");
    let line = format!("{} run --quiet {words} true", env!("CARGO_BIN_EXE_fanin"));
    command.args(["-qec", &line, "/dev/null"]).current_dir(folder);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env_remove("TMUX").env_remove("LC_TERMINAL").env("TERM", "xterm-256color");
    command.envs(variables.iter().copied()).stdin(std::process::Stdio::null());
    let ended = Running::start(command).end();
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    Some(ended.stdout)
}

#[test]
fn a_terminal_is_told_where_that_is_wanted_and_a_machine_never() {
    let folder = tempdir().unwrap();
    let is_told = |words: &str, variables: &[(&str, &str)]| {
        shown(folder.path(), words, variables).map(|shown| shown.contains(BELL))
    };
    let Some(told) = is_told("--notify", &[]) else { return };
    assert!(told);
    // It was short.
    assert_eq!(is_told("", &[]), Some(false));
    assert_eq!(is_told("--notify --no-notify", &[]), Some(false));
    for variable in
        [("CI", "true"), ("GITHUB_ACTIONS", "true"), ("FANIN_PARENT", "run/job/1/1"), ("TERM", "dumb")]
    {
        assert_eq!(is_told("--notify --no-github", &[variable]), Some(false), "{variable:?}");
    }
    let kitty = shown(folder.path(), "--notify", &[("TERM", "xterm-kitty")]).unwrap();
    assert!(kitty.contains("\x1b]9;fanin: 1 task: 1 completed, in "), "{kitty:?}");
}

#[test]
fn what_is_no_terminal_gets_no_notice() {
    let folder = tempdir().unwrap();
    let ended = Running::start(fanin(folder.path(), &["run", "--notify", "true"])).end();
    assert!(!ended.stderr.contains(BELL) && !ended.stdout.contains(BELL));
}
