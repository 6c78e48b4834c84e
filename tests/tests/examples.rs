//! The programs of `examples/`, run: what they show a reader has to be so.

use std::fs;

use fanin_protocol::{Outcome, Status};

#[allow(dead_code, reason = "its main is for `cargo run`")]
#[path = "../../examples/fan_out.rs"]
mod fan_out;
#[allow(dead_code, reason = "its main is for `cargo run`")]
#[path = "../../examples/wake_after_turn.rs"]
mod wake_after_turn;

#[tokio::test]
async fn the_survey_counts_and_tells_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("src")).unwrap();
    fs::create_dir_all(folder.path().join("target")).unwrap();
    fs::write(folder.path().join("src/lib.rs"), "one\ntwo\n").unwrap();
    fs::write(folder.path().join("build.rs"), "three\n").unwrap();
    fs::write(folder.path().join("target/made.rs"), "not counted\n").unwrap();

    let result = fan_out::survey(folder.path()).await.unwrap();
    assert_eq!(result.outcome, Outcome::Partial);
    let entries: Vec<_> = result.entries.iter().map(|entry| (entry.label.as_deref(), entry.status)).collect();
    assert_eq!(
        entries,
        [
            (Some("rust files"), Status::Completed),
            (Some("lines of rust"), Status::Completed),
            (Some("readme"), Status::Error),
        ]
    );
    let counted: Vec<_> =
        result.entries.iter().filter_map(|entry| entry.output.as_ref()).map(|output| &*output.text).collect();
    assert_eq!(counted, ["2", "3"]);
    assert_eq!(result.entries[2].message.as_deref(), Some("there is no README.md"));
}

#[tokio::test]
async fn the_parent_is_woken_once_after_its_turn() {
    assert_eq!(
        wake_after_turn::converse().await.unwrap(),
        [
            "in the turn: quick is completed",
            "woken: 2 of 2 jobs completed",
            "quick: known already",
            "slow: heard \"the bell\"",
        ]
    );
}
