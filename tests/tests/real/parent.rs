//! Real agents as parents that we host: they launch with our tools, end their turn, and are woken once.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use fanin_acp::Agents;
use serde_json::Value;

use crate::agent::{PATIENCE, Place, until};
use crate::fan_out::{assert_at_once, is_a_workers};
use crate::model::WOKEN;

/// The program.
pub(crate) const FANIN: &str = env!("CARGO_BIN_EXE_program");

/// An agent that is known, and the variable that names its program.
pub(crate) struct Known {
    name: &'static str,
    pub(crate) variable: &'static str,
}

pub(crate) const OPENCODE: Known = Known { name: "opencode", variable: "FANIN_OPENCODE" };
pub(crate) const CLAUDE: Known = Known { name: "claude", variable: "FANIN_CLAUDE_ACP" };
pub(crate) const CODEX: Known = Known { name: "codex", variable: "FANIN_CODEX_ACP" };

impl Known {
    /// `fanin` with these words, and the agent in this place.
    pub(crate) fn fanin(&self, place: &Place, words: &[&str]) -> Command {
        let agents = Agents::default();
        let args: Vec<_> =
            agents.find(self.name).unwrap().command.iter().skip(1).map(String::as_str).collect();
        let mut command = place.ours(FANIN, (self.name, &args), words);
        let file = |name: &str| fs::File::create(place.path(name)).unwrap();
        command.stdout(file("out")).stderr(file("err"));
        command
    }

    /// Hosts it with this objective, to its end: the document.
    pub(crate) fn exec(&self, place: &Place, words: &[&str], objective: &str) -> Value {
        let all = [&["exec", "--agent", self.name, "--json"], words, &[objective]].concat();
        let (code, out, err) = end(place, self.fanin(place, &all).spawn().unwrap());
        let document: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        let text = document["text"].as_str().unwrap_or_default();
        // A notice of the agent's own can stand before it.
        assert!(code == Some(0) && text.ends_with("closing words"), "{code:?} {out}{err}");
        assert_eq!(alive(place), Vec::<String>::new());
        document
    }
}

/// `fanin` with these words, and opencode as it is known.
fn fanin(place: &Place, words: &[&str]) -> Command {
    OPENCODE.fanin(place, words)
}

pub(crate) fn end(place: &Place, mut child: Child) -> (Option<i32>, String, String) {
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
pub(crate) fn alive(place: &Place) -> Vec<String> {
    let project = place.path("project");
    let is_here = |pid: &Path| fs::read_link(pid.join("cwd")).is_ok_and(|cwd| cwd == project);
    let words = |pid: &Path| fs::read_to_string(pid.join("cmdline")).unwrap_or_default().replace('\0', " ");
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|pid| is_here(pid)).map(|pid| words(&pid)).filter(|words| !words.is_empty()).collect()
}

/// It launches three shell lines of 2, 4 and 6 s, ends its turn, and is woken once.
fn launches_three_jobs(agent: &Known) {
    let Some(place) = Place::new(agent.variable) else { return };
    let document = agent.exec(&place, &[], "HOSTED go");
    let woken = place.model.questions(WOKEN);
    assert_eq!(woken.len(), 1, "{woken:?}");
    let places =
        ["slept 2", "slept 4", "slept 6"].map(|words| woken[0].find(&format!("\n{words}\n")).unwrap());
    assert!(places.is_sorted(), "{}", woken[0]);
    let duration = document["results"][0]["duration_ms"].as_u64().unwrap();
    assert!((6_000..9_000).contains(&duration), "{duration} ms for jobs of 2, 4 and 6 s at once");
}

#[test]
fn opencode_launches_three_jobs_ends_its_turn_and_is_woken_once() {
    launches_three_jobs(&OPENCODE);
}

#[test]
fn claude_launches_three_jobs_ends_its_turn_and_is_woken_once() {
    launches_three_jobs(&CLAUDE);
}

#[test]
fn codex_launches_three_jobs_ends_its_turn_and_is_woken_once() {
    launches_three_jobs(&CODEX);
}

/// With the right to read alone it has three workers of its own kind: our tools are allowed all the same.
fn has_workers(agent: &Known) {
    let Some(place) = Place::new(agent.variable) else { return };
    let document = agent.exec(&place, &["--rights", "read-only"], &format!("AGENTS go {}", agent.name));
    let woken = place.model.questions(WOKEN);
    assert_eq!(woken.len(), 1, "{woken:?}");
    let entries = document["results"][0]["entries"].as_array().unwrap();
    let said =
        |entry: &Value| entry["output"]["text"].as_str().is_some_and(|text| text.trim().ends_with("worked"));
    assert!(entries.len() == 3 && entries.iter().all(said), "{entries:#?}");
    let asked = place.model.seen("WORK after ");
    let children: Vec<_> = asked.iter().filter(|seen| is_a_workers(seen)).collect();
    assert_eq!(children.len(), 3);
    let begun = children.iter().map(|child| child.at).min().unwrap();
    let starts: Vec<_> = children.iter().map(|child| child.at - begun).collect();
    let ends: Vec<_> = children.iter().map(|child| child.answered.unwrap() - begun).collect();
    assert_at_once(agent.name, &starts, &ends, Duration::from_secs(3));
    // What they launch workers with is ours alone.
    let own = ["Agent", "Task", "Workflow", "task", "multi_agent_v1/spawn_agent"];
    for seen in place.model.seen("") {
        let tools = seen.request["tools"].as_array().cloned().unwrap_or_default();
        let name =
            |tool: &Value| tool["name"].as_str().or(tool["function"]["name"].as_str()).map(str::to_owned);
        let has: Vec<_> = tools.iter().filter_map(name).filter(|name| own.contains(&name.as_str())).collect();
        assert_eq!(has, Vec::<String>::new());
    }
}

#[test]
fn opencode_that_may_only_read_has_workers_of_its_own() {
    has_workers(&OPENCODE);
}

#[test]
fn claude_that_may_only_read_has_workers_of_its_own() {
    has_workers(&CLAUDE);
}

#[test]
fn codex_that_may_only_read_has_workers_of_its_own() {
    has_workers(&CODEX);
}

/// Kills it once that is so, goes on, and checks what came of it.
fn is_resumed_with_one_wake(round: u32, objective: &str, is_at: impl Fn(&Place) -> bool) {
    let Some(place) = Place::new("FANIN_OPENCODE") else { return };
    let words = ["exec", "--agent", "opencode", objective];
    let mut child = fanin(&place, &words).spawn().unwrap();
    until("the moment", || is_at(&place));
    child.kill().unwrap();
    child.wait().unwrap();
    let child = fanin(&place, &["resume", "--json"]).spawn().unwrap();
    let (code, out, err) = end(&place, child);
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((code, &document["text"]), (Some(0), &"closing words".into()), "round {round}: {out}{err}");
    let woken = place.model.questions(WOKEN);
    assert_eq!(woken.len(), 1, "round {round}: {woken:?}");
    assert!(
        woken[0].contains("error{interrupted}") && !woken[0].contains("lost your context"),
        "{}",
        woken[0]
    );
    // It knows what it was asked: the session is its own.
    assert!(place.model.last(WOKEN).contains(objective));
    let session = document["session"].as_str().unwrap();
    let words = ["events", "--json", session];
    let (_, events, _) = end(&place, fanin(&place, &words).spawn().unwrap());
    assert_eq!(open_parts(&events), Vec::<String>::new(), "round {round}");
    assert_eq!(alive(&place), Vec::<String>::new(), "round {round}");
}

/// 5 by hand: `FANIN_ROUNDS=5`.
fn rounds() -> u32 {
    std::env::var("FANIN_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap())
}

#[test]
fn opencode_that_was_killed_in_mid_fan_out_is_resumed_with_one_wake() {
    let is_over = |place: &Place| {
        let said = fs::read_to_string(place.path("err")).unwrap_or_default();
        said.contains("it is woken when 3 jobs are over")
    };
    (0..rounds()).for_each(|round| is_resumed_with_one_wake(round, "HELD go", is_over));
}

// Its jobs run, and a command of its own: a call of it that has no end in its store.
#[test]
fn opencode_that_was_killed_in_mid_turn_is_resumed_with_one_wake() {
    let is_in_turn =
        |place: &Place| ["midturn", "launched"].iter().all(|file| place.path("project").join(file).exists());
    (0..rounds()).for_each(|round| is_resumed_with_one_wake(round, "MIDTURN go", is_in_turn));
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
