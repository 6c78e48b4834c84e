//! `fanin watch`, and the tool `watch` of the built program (SC-22).

use std::fs;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::common::{Running, fanin, made};
use crate::mcp::Agent;

#[test]
fn it_ends_with_0_once_it_fired_as_often_as_it_should_and_says_what_it_saw() {
    let folder = tempdir().unwrap();
    let line = "printf 'fine\\nERROR one\\nfine\\n'; sleep 60";
    let ended = Running::start(fanin(folder.path(), &["watch", "--match", "^ERROR", line])).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ERROR one\n"), "{}", ended.stderr);
    let ended = Running::start(fanin(folder.path(), &["watch", "--json", "--", "true"])).end();
    let hit: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.code, &hit["schema"], &hit["number"]), (Some(0), &json!("fanin.hit/1"), &json!(1)));
    assert_eq!((&hit["label"], &hit["text"]), (&json!("true"), &json!("the check succeeded")));
}

#[test]
fn a_life_that_is_over_is_1_and_wrong_words_are_2() {
    let folder = tempdir().unwrap();
    let ended = Running::start(fanin(folder.path(), &["watch", "--for", "300ms", "false"])).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("the watch ended as error{timeout total}"), "{}", ended.stderr);
    for (words, said) in [
        (&["watch", "--every", "10ms", "true"][..], "--every: 10ms is less than 1.0s"),
        (&["watch", "--times", "11", "true"], "--times: 11; a watch fires 1 to 10 times"),
        (&["watch", "--for", "25h", "true"], "--for: "),
        (&["watch", "--match", "(", "true"], "--match: "),
        (&["watch"], "SHELL LINE"),
    ] {
        let ended = Running::start(fanin(folder.path(), words)).end();
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn a_signal_stops_what_it_runs() {
    let folder = tempdir().unwrap();
    let words = ["watch", "--match", "x", "touch up; exec sleep 60"];
    let running = Running::start(fanin(folder.path(), &words));
    made(folder.path(), "up");
    running.signal("INT");
    let ended = running.end();
    assert_eq!(
        (ended.code, ended.last_word()),
        (Some(130), "fanin: exit 130 (signal_int)"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_agent_is_told_of_what_a_watch_of_a_job_saw() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    let line = "echo fine; until test -e go; do sleep 0.05; done; echo ERR late; sleep 60";
    let said = agent.call("subagent", &json!({ "shell": line, "id": "build", "background": true }));
    let job = said["running"][0]["tasks"][0]["job"].clone();
    let said = agent.call("watch", &json!({ "job": job, "pattern": "ERR", "label": "errors" }));
    assert!(said["summary"].as_str().unwrap().ends_with("is watching"), "{said}");
    fs::write(folder.path().join("go"), "").unwrap();
    let said = agent.call("wait_for_subagents", &json!({}));
    assert_eq!(said["fired"][0]["text"], "ERR late", "{said}");
    assert_eq!(said["fired"][0]["watch"], "errors", "{said}");
}
