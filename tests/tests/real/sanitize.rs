//! Stores that the real opencode makes: killed in the middle of a fan-out, repaired, and opened by it again.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fanin_sanitize::{
    Counts, Format, INTERRUPTED, Only, OpenCode, Options, Repaired, SanitizeError, repair, report, testing,
    undo,
};
use serde_json::Value;

use crate::agent::{Agent, Place, until};

fn counts(store: &Path) -> Counts {
    report(&OpenCode, store, &Only::All).map(|scan| scan.counts()).unwrap_or_default()
}

pub(crate) fn repaired(format: &dyn Format, store: &Path) -> Result<Repaired, SanitizeError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let options = Options { only: Only::All, force: false, now_ms: now.as_millis().try_into().unwrap() };
    repair(format, store, &options)
}

/// All tool calls of a session, as opencode shows them.
fn calls(agent: &Agent, session: &str) -> Vec<Value> {
    let messages = agent.get(&format!("/session/{session}/message"));
    let parts =
        messages.as_array().unwrap().iter().flat_map(|message| message["parts"].as_array().unwrap().clone());
    parts.filter(|part| part["type"] == "tool").collect()
}

/// The first cells of a row: its table and its id.
fn names<'r>(rows: impl Iterator<Item = &'r String>) -> BTreeSet<String> {
    rows.map(|row| row.split('|').take(2).collect::<Vec<_>>().join("|")).collect()
}

/// What is open in the store of [`killed`]: in the parent two tasks and a command, two commands in a child; arguments that
/// were cut; five messages that have these, and one job.
const OPEN: Counts = Counts { running: 5, pending: 1, pending_without_time: 1, messages: 5, jobs: 1 };

/// Has opencode make a store and kills it in the middle of a fan-out. The sessions: the parent, and one whose arguments
/// never came to an end.
fn killed(place: &Place) -> [String; 2] {
    let store = place.store();
    let agent = Agent::start(place);
    let parent = agent.session();
    agent.prompt(&parent, "PARENT go");
    let cut = agent.session();
    agent.prompt(&cut, "ARGS go");
    // A background job that its user stops: opencode tells nobody, and nobody has lost it.
    let stopped = agent.session();
    agent.prompt(&stopped, "BACKGROUND go");
    let child = || Some(calls(&agent, &stopped).first()?["state"]["metadata"]["jobId"].as_str()?.to_owned());
    let works = |child: String| !agent.messages(&child, "assistant").is_empty();
    until("the background job", || child().is_some_and(works));
    let child = child().unwrap();
    agent.post(&format!("/session/{child}/abort"), &Value::Null);
    until("the stop of it", || is_completed(&agent.messages(&child, "assistant")));
    until("the fan-out", || counts(&store) == OPEN);
    let live = repaired(&OpenCode, &store).unwrap_err();
    assert_eq!(live.code(), "sanitize_in_use", "{live}");
    assert!(live.to_string().contains("process "), "{live}");
    agent.kill();
    assert_eq!(OpenCode.user(&store), None);
    assert_eq!(counts(&store), OPEN);
    [parent, cut]
}

fn is_completed(messages: &[Value]) -> bool {
    messages.iter().all(|message| !message["time"]["completed"].is_null())
}

/// What opencode makes of the repaired store: what was open is shown as errors, and each session takes a new question.
fn goes_on(place: &Place, [parent, cut]: &[String; 2]) {
    let agent = Agent::start(place);
    let shown = [calls(&agent, parent), calls(&agent, cut)].concat();
    let is_open =
        |call: &&Value| ["running", "pending"].iter().any(|status| call["state"]["status"] == *status);
    assert_eq!(shown.iter().find(is_open), None);
    let errors: Vec<_> = shown.iter().filter(|call| call["state"]["status"] == "error").collect();
    assert_eq!(errors.len(), 4, "{shown:#?}");
    for call in &errors {
        let state = &call["state"];
        assert!(state["error"].as_str().unwrap().starts_with(INTERRUPTED), "{call}");
        assert_eq!(state["metadata"]["interrupted"], true);
        assert!(state["time"]["end"].as_u64() >= state["time"]["start"].as_u64());
    }
    for (session, question) in [(parent, "HELLO again"), (cut, "HELLO there")] {
        let answer = agent.ask(session, question);
        let answers = answer["parts"].as_array().unwrap().iter().filter(|part| part["text"] == "AFTER ok");
        assert_eq!(answers.count(), 1, "{answer}");
    }
    let asked = place.model.last("HELLO again");
    assert_eq!(asked.matches(INTERRUPTED).count(), 4, "three calls and the lost job: {asked}");
    assert!(asked.contains("Background task failed: job s2"), "{asked}");
    assert_eq!(place.model.last("HELLO there").matches(INTERRUPTED).count(), 1);
    agent.kill();
}

#[test]
fn a_store_of_the_real_opencode_that_was_killed_is_repaired_and_goes_on() {
    let Some(place) = Place::new("FANIN_OPENCODE") else { return };
    let store = place.store();
    let sessions = killed(&place);

    let before = testing::rows(&store).unwrap();
    let done = repaired(&OpenCode, &store).unwrap();
    assert_eq!((done.before.counts(), done.after.total(), counts(&store).total()), (OPEN, 0, 0));
    let after = testing::rows(&store).unwrap();
    let (gone, new) = (names(before.difference(&after)), names(after.difference(&before)));
    assert_eq!(gone.len(), 11, "six calls and five messages changed: {gone:#?}");
    assert_eq!(new.len(), 13, "a message and its part were added: {new:#?}");
    assert!(
        gone.is_subset(&new) && new.iter().all(|row| row.starts_with("part|") || row.starts_with("message|"))
    );
    let second = repaired(&OpenCode, &store).unwrap();
    assert_eq!((second.before.counts().total(), second.backup), (0, None));
    assert_eq!(testing::rows(&store).unwrap(), after);

    goes_on(&place, &sessions);

    // The conversation went on behind the repair; taking it back leaves that.
    let undone = undo(&OpenCode, &store, false).unwrap();
    assert_eq!((undone.restored, undone.kept), (13, 0));
    assert_eq!(counts(&store), OPEN);
    let last = testing::rows(&store).unwrap();
    assert!(last.iter().any(|row| row.contains("AFTER ok")));
    let messages = before.iter().filter(|row| row.starts_with("part|") || row.starts_with("message|"));
    assert!(messages.collect::<Vec<_>>().into_iter().all(|row| last.contains(row)));
}

#[test]
fn a_store_of_the_real_opencode_that_ended_in_order_has_nothing_open() {
    let Some(place) = Place::new("FANIN_OPENCODE") else { return };
    let agent = Agent::start(&place);
    let session = agent.session();
    agent.prompt(&session, "DONE go");
    // The call, and then the notice and the answer to it.
    until("the wake", || agent.messages(&session, "user").len() == 2);
    until("the answer", || {
        let messages = agent.messages(&session, "assistant");
        messages.len() >= 3 && is_completed(&messages)
    });
    agent.kill();
    assert_eq!(counts(&place.store()), Counts::default());
    assert_eq!(repaired(&OpenCode, &place.store()).unwrap().backup, None);
}
