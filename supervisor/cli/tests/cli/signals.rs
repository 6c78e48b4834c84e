//! Signals: once drains, twice stops, a third time kills; each says so, and the exit code tells.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use crate::common::catches;
use crate::common::{Running, fanin, full, made, send, wait};
use fanin_protocol::limits::{KILL_SLACK, KILL_WAIT, STDERR_WAIT};
use tempfile::tempdir;

/// Says that it started, then waits for a file.
const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.01; done; echo finished";
/// Ignores a polite stop. Its child does as well.
const DEAF: &str = "trap '' TERM; touch deaf; while :; do sleep 0.05; done";

fn start(folder: &tempfile::TempDir, words: &[&str]) -> Running {
    Running::start(fanin(folder.path(), &[&["run"], words].concat()))
}

#[test]
fn once_lets_running_tasks_finish_and_starts_nothing_more() {
    let folder = tempdir().unwrap();
    let mut running = start(&folder, &["-c", "1", UNTIL_GO, "touch never"]);
    running.wait_for("start ");
    running.signal("INT");
    running.wait_for("draining: running tasks may finish (30s), nothing new starts");
    fs::write(folder.path().join("go"), "").unwrap();
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(ended.last_word(), "fanin: exit 130 (signal_int)");
    assert!(ended.stdout.contains("1 completed, 1 cancelled"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("finished") && ended.stdout.contains("cancelled (Ctrl-C); never started"),
        "{}",
        ended.stdout
    );
    assert!(!folder.path().join("never").exists());
}

#[test]
fn a_drain_in_which_all_work_completes_is_no_failure() {
    let folder = tempdir().unwrap();
    let mut running = start(&folder, &[UNTIL_GO]);
    running.wait_for("start ");
    running.signal("TERM");
    running.wait_for("draining");
    fs::write(folder.path().join("go"), "").unwrap();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn at_the_end_of_the_drain_what_still_runs_is_stopped() {
    let folder = tempdir().unwrap();
    let mut running = start(&folder, &["--drain", "100ms", "sleep 600"]);
    running.wait_for("start ");
    running.signal("TERM");
    running.wait_for("draining: running tasks may finish (100ms)");
    running.wait_for("stopping what still runs");
    let ended = running.end();
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
    assert_eq!(ended.last_word(), "fanin: exit 143 (signal_term)");
    assert!(ended.stdout.contains("cancelled (TERM)"), "{}", ended.stdout);
}

#[test]
fn twice_stops_with_a_short_grace() {
    let folder = tempdir().unwrap();
    let mut running =
        start(&folder, &["trap 'echo cleaned up; exit' TERM; touch up; while :; do sleep 0.01; done"]);
    made(&folder, "up");
    running.signal("INT");
    running.wait_for("draining");
    running.signal("INT");
    running.wait_for("stopping all tasks (2s), then they are killed");
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(ended.stdout.contains("    cleaned up\n"), "{}", ended.stdout);
}

#[test]
fn thrice_kills_what_does_not_listen() {
    let folder = tempdir().unwrap();
    let mut running = start(&folder, &[DEAF]);
    made(&folder, "deaf");
    running.signal("INT");
    running.wait_for("draining");
    running.signal("INT");
    running.wait_for("stopping all tasks");
    let killed = Instant::now();
    running.signal("INT");
    running.wait_for("killing all tasks");
    let ended = running.end();
    assert!(killed.elapsed() < Duration::from_secs(2), "the grace of the second signal was waited for");
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(ended.stdout.contains("cancelled (Ctrl-C)"), "{}", ended.stdout);
}

#[test]
fn a_hang_up_stops_at_once() {
    let folder = tempdir().unwrap();
    let mut running = start(&folder, &["sleep 600"]);
    running.wait_for("start ");
    running.signal("HUP");
    running.wait_for("stopping all tasks");
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(ended.last_word(), "fanin: exit 130 (signal_hup)");
}

#[test]
fn a_stuck_display_does_not_hold_a_signal_up() {
    let folder = tempdir().unwrap();
    // Nobody reads standard error, and its pipe takes less than half of what these tasks make fanin say.
    let names: Vec<_> = (0..450).map(|n| format!("{n:0>150}")).collect();
    fs::write(folder.path().join("input"), names.join("\n") + "\nlast").unwrap();
    let last = "trap 'touch stopped; exit' TERM; touch started; while :; do sleep 0.01; done";
    let template = format!("[ {{}} != last ] || {{ {last}; }}");
    let mut command = fanin(folder.path(), &["run", "--each", &template]);
    command.stdin(fs::File::open(folder.path().join("input")).unwrap());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    made(&folder, "started");
    // Two of one kind could become one on their way.
    for name in ["INT", "TERM"] {
        send(child.id(), name);
    }
    made(&folder, "stopped");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.len() > 2 * 65_536, "the pipe was never full");
    assert!(said.contains("draining") && said.contains("stopping all tasks"), "{said}");
    assert!(matches!(wait(&mut child).code(), Some(130 | 143)));
}

#[test]
fn thrice_ends_the_program_though_nobody_reads_anything() {
    let folder = tempdir().unwrap();
    let (_stdout, out) = full();
    let (_stderr, err) = full();
    // It says that a second signal came, and goes on.
    let last = "trap 'touch stopped' TERM; touch started; while :; do sleep 0.05; done";
    let words = [vec!["run", "-c", "5"], vec!["true"; 120], vec![last]].concat();
    let mut child = fanin(folder.path(), &words).stdout(out).stderr(err).spawn().unwrap();
    made(&folder, "started");
    // Two of one kind could become one on their way.
    for name in ["INT", "TERM"] {
        send(child.id(), name);
    }
    made(&folder, "stopped");
    send(child.id(), "INT");
    let killed = Instant::now();
    assert!(matches!(wait(&mut child).code(), Some(130 | 143)));
    let bound = KILL_WAIT + KILL_SLACK + STDERR_WAIT;
    assert!(killed.elapsed() < bound + Duration::from_secs(5), "{:?}", killed.elapsed());
}

/// `fanin run` with these words, where these signals are ignored already.
#[cfg(target_os = "linux")]
fn start_with_ignored(folder: &tempfile::TempDir, signals: &str, words: &[&str]) -> Running {
    let program = fanin(folder.path(), &[]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("trap '' {signals}; exec \"$@\""), "sh"]).arg(program.get_program());
    shell.arg("run").args(words).current_dir(folder.path()).stdin(Stdio::null());
    Running::start(shell)
}

#[test]
#[cfg(target_os = "linux")]
fn a_hang_up_that_is_ignored_from_the_start_stays_ignored() {
    let folder = tempdir().unwrap();
    let mut running = start_with_ignored(&folder, "HUP", &[UNTIL_GO]);
    running.wait_for("start ");
    running.signal("HUP");
    // Had the hang-up counted, this would be the second signal, or the last.
    running.signal("INT");
    running.wait_for("draining");
    fs::write(folder.path().join("go"), "").unwrap();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("stopping"), "{}", ended.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_that_is_ignored_from_the_start_stays_ignored_and_a_term_does_not() {
    let folder = tempdir().unwrap();
    let mut running = start_with_ignored(&folder, "INT TERM", &[UNTIL_GO]);
    running.wait_for("start ");
    running.signal("INT");
    running.signal("TERM");
    running.wait_for("draining");
    fs::write(folder.path().join("go"), "").unwrap();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("stopping"), "{}", ended.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_before_anything_is_started_has_its_exit_code_and_line() {
    for (name, number, code) in [("HUP", 1, 130), ("INT", 2, 130), ("TERM", 15, 143)] {
        let word = format!("signal_{}", name.to_lowercase());
        for is_json in [false, true] {
            let folder = tempdir().unwrap();
            // Its standard input never ends.
            let (input, _held) = std::io::pipe().unwrap();
            let json = is_json.then_some("--json");
            let words: Vec<_> = ["run", "--each", "touch {}"].into_iter().chain(json).collect();
            let mut command = fanin(folder.path(), &words);
            command.stdin(input);
            let running = Running::start(command);
            catches(running.id(), number);
            running.signal(name);
            let ended = running.end();
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{}", ended.stderr);
            if is_json {
                let document: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
                assert_eq!(document["code"], word);
            } else {
                assert_eq!(ended.stderr, format!("fanin: exit {code} ({word})\n"));
            }
        }
    }
}

#[test]
fn no_process_of_a_task_is_left_behind() {
    let folder = tempdir().unwrap();
    let mut running = start(&folder, &["echo $$ > pid.part; mv pid.part pid; sleep 600 & wait"]);
    made(&folder, "pid");
    running.signal("HUP");
    running.wait_for("stopping all tasks");
    running.end();
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    // What is dead and waits to be reaped by somebody else is not alive.
    let list = std::process::Command::new("ps").args(["-A", "-o", "pgid=,stat=,args="]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let alive = list.lines().find(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(pid.trim()) && words.next().is_some_and(|stat| !stat.starts_with('Z'))
    });
    assert_eq!(alive, None);
    assert!(list.lines().count() > 1, "ps shows no process at all");
}
