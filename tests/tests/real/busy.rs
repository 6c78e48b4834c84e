//! A model that has too much to do (429, 529): agents try again by themselves or give up, and either is bounded and named.

use std::fs;

use serde_json::Value;

use crate::agent::Place;
use crate::model::WOKEN;
use crate::parent::{CLAUDE, CODEX, Known, end};

// Told that it asks too often Claude goes on asking, and says nothing of it: the limits of its job bound it. Told that there is too
// much to do it gives up after a while, and says so.
#[test]
fn a_worker_whose_model_is_busy_goes_on_later_or_ends_at_its_limit() {
    let Some(place) = Place::new(CLAUDE.variable) else { return };
    place.model.is_busy("HELLO soon", 2, 429);
    place.model.is_busy("HELLO never", usize::MAX, 429);
    let task = |id: &str, more: &str| {
        format!("[[task]]\nid = \"{id}\"\nagent = \"claude\"\nprompt = \"HELLO {id}\"\n{more}")
    };
    place.model.is_busy("HELLO nobody", usize::MAX, 529);
    let manifest = task("soon", "") + &task("never", "idle = \"6s\"\n") + &task("nobody", "");
    fs::write(place.path("project/busy.toml"), manifest).unwrap();
    let child = CLAUDE.fanin(&place, &["run", "--json", "busy.toml"]).spawn().unwrap();
    let (code, out, err) = end(&place, child);
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let told = |entry: &Value| {
        ["status", "cause", "code"].map(|key| entry[key].as_str().unwrap_or_default().to_owned()).join(" ")
    };
    let entries = document["entries"].as_array().unwrap();
    let told: Vec<_> = entries.iter().map(told).collect();
    let expected = ["completed  ", "error timeout idle", "error failed "].map(str::to_owned);
    assert_eq!((code, &told[..]), (Some(1), &expected[..]), "{out}");
    assert!(entries[2]["message"].as_str().unwrap().contains("529"), "{out}");
    assert!(place.model.was_asked("HELLO never"));
}

/// The parent's model is busy in the turn of its wake.
fn is_woken_all_the_same(agent: &Known, times: usize, status: u16, prompts: usize) {
    let Some(place) = Place::new(agent.variable) else { return };
    place.model.is_busy(WOKEN, times, status);
    let document = agent.exec(&place, &[], "HOSTED go");
    assert_eq!(document["results"].as_array().unwrap().len(), 1, "{document}");
    let mut woken = place.model.questions(WOKEN);
    assert_eq!(woken.len(), times + 1, "{woken:?}");
    // One prompt that is tried again by the agent is the same; one that is told again says so.
    woken.dedup();
    assert_eq!(woken.len(), prompts, "{woken:?}");
    assert!(woken.iter().all(|prompt| prompt.contains("\nslept 6\n")), "{woken:?}");
}

// Claude tries again by itself.
#[test]
fn a_parent_that_tries_again_by_itself_is_woken_once() {
    is_woken_all_the_same(&CLAUDE, 2, 529, 1);
}

// Codex gives the turn up: what it was woken with is taken by nobody, and comes again.
#[test]
fn a_parent_whose_turn_fails_for_that_is_told_again() {
    is_woken_all_the_same(&CODEX, 1, 429, 2);
}

// With nothing to come to it, it is over, and its error says why.
#[test]
fn a_parent_whose_first_turn_fails_for_that_says_so() {
    let Some(place) = Place::new(CODEX.variable) else { return };
    place.model.is_busy("HOSTED go", usize::MAX, 429);
    let child = CODEX.fanin(&place, &["exec", "--agent", "codex", "HOSTED go"]).spawn().unwrap();
    let (code, out, err) = end(&place, child);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("429") && err.ends_with("fanin: exit 1 (turn_failed)\n"), "{err}");
}
