//! The real opencode as a parent that we host: it launches with our tools, ends its turn, and is woken once.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::{PATIENCE, Place, until};
use crate::model::WOKEN;

/// The program.
const FANIN: &str = env!("CARGO_BIN_EXE_program");

/// `fanin` with these words, and opencode as it is known.
fn fanin(place: &Place, words: &[&str]) -> Command {
    let mut command = place.ours(FANIN, ("opencode", "acp"), words);
    let file = |name: &str| fs::File::create(place.path(name)).unwrap();
    command.stdout(file("out")).stderr(file("err"));
    command
}

fn end(place: &Place, mut child: Child) -> (Option<i32>, String, String) {
    let until = Instant::now() + 3 * PATIENCE;
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it did not end: {}", read("err"));
        }
        thread::sleep(Duration::from_millis(20));
    };
    (status.code(), read("out"), read("err"))
}

/// Processes that work in this place.
fn alive(place: &Place) -> Vec<String> {
    let project = place.path("project");
    let is_here = |pid: &Path| fs::read_link(pid.join("cwd")).is_ok_and(|cwd| cwd == project);
    let words = |pid: &Path| fs::read_to_string(pid.join("cmdline")).unwrap_or_default().replace('\0', " ");
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|pid| is_here(pid)).map(|pid| words(&pid)).filter(|words| !words.is_empty()).collect()
}

#[test]
fn opencode_launches_three_jobs_ends_its_turn_and_is_woken_once() {
    let Some(place) = Place::new("FANIN_OPENCODE") else { return };
    let words = ["exec", "--agent", "opencode", "--json", "HOSTED go"];
    let child = fanin(&place, &words).spawn().unwrap();
    let (code, out, err) = end(&place, child);
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((code, &document["text"]), (Some(0), &"closing words".into()), "{out}{err}");
    let woken = place.model.questions(WOKEN);
    assert_eq!(woken.len(), 1, "{woken:?}");
    let places =
        ["slept 2", "slept 4", "slept 6"].map(|words| woken[0].find(&format!("\n{words}\n")).unwrap());
    assert!(places.is_sorted(), "{}", woken[0]);
    let duration = document["results"][0]["duration_ms"].as_u64().unwrap();
    assert!((6_000..9_000).contains(&duration), "{duration} ms for jobs of 2, 4 and 6 s at once");
    assert_eq!(alive(&place), Vec::<String>::new());
}

// 5 by hand: FANIN_ROUNDS=5.
#[test]
fn opencode_that_was_killed_in_mid_fan_out_is_resumed_with_one_wake() {
    let rounds = std::env::var("FANIN_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let Some(place) = Place::new("FANIN_OPENCODE") else { return };
        let words = ["exec", "--agent", "opencode", "HOSTED go"];
        let mut child = fanin(&place, &words).spawn().unwrap();
        let err = || fs::read_to_string(place.path("err")).unwrap();
        until("the end of its turn", || err().contains("it is woken when 3 jobs are over"));
        child.kill().unwrap();
        child.wait().unwrap();
        let child = fanin(&place, &["resume", "--json"]).spawn().unwrap();
        let (code, out, err) = end(&place, child);
        let document: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        assert_eq!(
            (code, &document["text"]),
            (Some(0), &"closing words".into()),
            "round {round}: {out}{err}"
        );
        let woken = place.model.questions(WOKEN);
        assert_eq!(woken.len(), 1, "round {round}: {woken:?}");
        assert!(
            woken[0].contains("error{interrupted}") && !woken[0].contains("lost your context"),
            "{}",
            woken[0]
        );
        // It knows what it was asked: the session is its own.
        assert!(place.model.last(WOKEN).contains("HOSTED go"));
        let session = document["session"].as_str().unwrap();
        let words = ["events", "--json", session];
        let (_, events, _) = end(&place, fanin(&place, &words).spawn().unwrap());
        assert_eq!(open_parts(&events), Vec::<String>::new(), "round {round}");
        assert_eq!(alive(&place), Vec::<String>::new(), "round {round}");
    }
}

/// Parts that have no end.
fn open_parts(events: &str) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    let mut seen = 0;
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["kind"] != "part" {
            continue;
        }
        seen += 1;
        let name = format!("{}/{}", event["run"], event["body"]["call"]);
        open.retain(|known| *known != name);
        if matches!(event["body"]["state"].as_str(), Some("pending" | "running")) {
            open.push(name);
        }
    }
    assert!(seen > 0, "the launch was a call: {events}");
    open
}
