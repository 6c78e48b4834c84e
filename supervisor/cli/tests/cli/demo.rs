//! The pitch in one command, which checks what it prints.

use std::fs::File;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

#[test]
fn the_demo_ends_well_in_time_and_leaves_nothing() {
    let started = Instant::now();
    let ran = Command::new(env!("CARGO_BIN_EXE_fanin")).arg("demo").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    assert!(started.elapsed() < Duration::from_secs(20), "it took {:?}", started.elapsed());
    let last = out.lines().last().unwrap();
    assert!(last.starts_with("launched 5, finished 5, woken 1, left running 0"), "{out}");
    assert!(
        out.contains("deploy  error{interrupted}") && out.contains("docs    completed: 3 pages"),
        "{out}"
    );
}

fn demo(words: &[&str], out: Option<File>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fanin"));
    if let Some(out) = out {
        command.stdout(out);
    }
    command
        .arg("demo")
        .args(words)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap()
}

#[test]
fn what_cannot_be_told_is_a_failure() {
    let ran = demo(&[], Some(File::options().write(true).open("/dev/full").unwrap()));
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(70), "{err}");
    assert!(err.contains("standard output: ") && err.ends_with("fanin: exit 70 (internal)\n"), "{err}");
}

#[test]
fn it_has_no_words() {
    for words in [&["x"][..], &["first"], &["second", "a", "b"], &["x", "y"]] {
        let ran = demo(words, None);
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{words:?}: {err}");
        assert!(err.contains(&format!("unexpected argument '{}' found", words[0])), "{err}");
        assert!(err.contains("Usage: fanin demo") && err.ends_with("fanin: exit 2 (usage)\n"), "{err}");
    }
}
