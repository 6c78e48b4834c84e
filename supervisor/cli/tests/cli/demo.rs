//! The pitch in one command, which checks what it prints.

use std::process::Command;
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
