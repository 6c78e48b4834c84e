//! The document of `--json`.

use crate::common::run;
use serde_json::{Value, json};
use tempfile::tempdir;

fn document(words: &[&str]) -> (Option<i32>, Value) {
    let folder = tempdir().unwrap();
    let ended = run(folder.path(), &[&["--json"], words].concat());
    assert!(ended.stderr.contains("start ") && !ended.stderr.contains("fanin: exit"), "{}", ended.stderr);
    assert!(ended.stdout.ends_with('\n') && ended.stdout.lines().count() == 1, "{}", ended.stdout);
    (ended.code, serde_json::from_str(&ended.stdout).unwrap())
}

#[test]
fn the_document_has_the_result_and_the_exit_code() {
    let (code, document) =
        document(&["--task", "good=printf 'a\\0b'", "--task", "bad=exit 4", "no-such-program-here"]);
    assert_eq!(code, Some(1));
    assert_eq!(document["schema"], "fanin.result/1");
    assert_eq!(document["exit"], json!({ "code": 1, "name": "some_not_completed" }));
    assert_eq!(document["outcome"], "partial");
    assert_eq!(document["counts"], json!({ "launched": 3, "completed": 1, "error": 2, "cancelled": 0 }));
    assert!(document["group"].is_string() && document["session"].is_string(), "{document}");
    assert!(document["duration_ms"].is_u64());
    let entries = document["entries"].as_array().unwrap();
    let part = |key: &str| entries.iter().map(|entry| entry[key].clone()).collect::<Vec<_>>();
    assert_eq!(part("index"), [0, 1, 2]);
    assert_eq!(part("label"), ["good", "bad", "no-such-program-here"]);
    assert_eq!(part("status"), ["completed", "error", "error"]);
    assert_eq!(part("exit_code"), [json!(0), json!(4), json!(127)]);
    assert_eq!(entries[0]["output"]["text"], "a\0b");
    assert_eq!(entries[0]["output"]["bytes_total"], 3);
    assert_eq!(entries[0]["output"]["handle"], entries[0]["job"]);
    assert_eq!(entries[1]["output"], Value::Null);
}

#[test]
fn each_entry_has_the_id_that_its_task_was_given() {
    let ids = |words: &[&str]| document(words).1["tasks"].clone();
    let task = |index: u32, id: &str| json!({ "index": index, "id": id, "carried_from": null });
    assert_eq!(ids(&["--task", "lint=true", "true"]), json!([task(0, "lint"), task(1, "task_2")]));
    let folder = tempdir().unwrap();
    let manifest = folder.path().join("m.toml");
    std::fs::write(&manifest, "[[task]]\nid = 'a'\nlabel = 'b'\nshell = 'true'\n").unwrap();
    assert_eq!(ids(&[manifest.to_str().unwrap()]), json!([task(0, "a")]));
}

#[test]
fn a_run_that_is_fine_says_so() {
    let (code, document) = document(&["true"]);
    assert_eq!(code, Some(0));
    assert_eq!(document["exit"], json!({ "code": 0, "name": "done" }));
    assert_eq!(document["outcome"], "all_ok");
}

#[test]
fn an_error_is_a_document_too() {
    let folder = tempdir().unwrap();
    for words in [["--json", "no/such.toml"], ["--json", "--no-such-flag"]] {
        let ended = run(folder.path(), &words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
        let document: Value = serde_json::from_str(&ended.stderr).unwrap();
        assert_eq!((&document["schema"], &document["code"]), (&json!("fanin.error/1"), &json!("usage")));
        let named = words[1].trim_start_matches('-');
        let message = document["message"].as_str().unwrap();
        assert!(
            message.contains(named) && !message.contains("Usage") && !message.starts_with("error"),
            "{document}"
        );
    }
}
