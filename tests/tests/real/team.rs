//! A team whose members need each other, launched by the real opencode that we host: killed in the middle and resumed, it gives
//! one result and one wake.

use serde_json::{Value, json};

use crate::agent::{Place, until};
use crate::model::WOKEN;
use crate::parent::{FANIN, OPENCODE, alive, end};

/// Seven members: some are opencode, one fails, one runs out of time, and one works until it is stopped.
fn team() -> Value {
    let worker = |id: &str| json!({"id": id, "agent": "opencode", "prompt": "WORK after 1 seconds"});
    let shell = |id: &str, line: &str, depends: &[&str]| json!({"id": id, "shell": line, "depends": depends});
    let mut slow = shell("slow", "sleep 600", &[]);
    slow["timeout"] = "1s".into();
    let mut report = worker("report");
    report["depends"] = json!(["lint", "slow", "fixes", "tests"]);
    report["on_failed_dependency"] = "run".into();
    let stays = "while [ -e opencode.json ]; do sleep 0.1; done";
    json!([
        worker("plan"),
        shell("build", "echo built", &["plan"]),
        shell("lint", "echo two warnings; exit 3", &["build"]),
        slow,
        shell("fixes", "echo never", &["lint"]),
        shell("tests", stays, &["build"]),
        report,
    ])
}

/// How many records of this kind the store of the parent has.
fn count(place: &Place, kind: &str) -> usize {
    let out = place.ours(FANIN, ("opencode", &["acp"]), &["events", "--json"]).output().unwrap();
    String::from_utf8(out.stdout).unwrap().matches(&format!("\"kind\":\"{kind}\"")).count()
}

#[test]
fn a_team_that_is_killed_in_the_middle_gives_one_result_and_one_wake() {
    let Some(place) = Place::new("FANIN_OPENCODE") else { return };
    place.model.calls(&[("task_parallel", json!({"tasks": team(), "background": true}))]);
    let mut child = OPENCODE.fanin(&place, &["exec", "--agent", "opencode", "CALLS go"]).spawn().unwrap();
    // All but the one that stays, and the one that needs it.
    until("the end of five members", || count(&place, "job.ended") == 5);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.model.questions(WOKEN), Vec::<String>::new());

    let (code, out, err) = end(&place, OPENCODE.fanin(&place, &["resume", "--json"]).spawn().unwrap());
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((code, &document["text"]), (Some(0), &"closing words".into()), "{out}{err}");
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 1, "{out}");
    let told = |entry: &Value| {
        let word = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", word("label"), word("status"), word("cause"))
    };
    let entries: Vec<_> = results[0]["entries"].as_array().unwrap().iter().map(told).collect();
    let expected = [
        "plan completed ",
        "build completed ",
        "lint error failed",
        "slow error timeout",
        "fixes error dependency",
        "tests error interrupted",
        "report completed ",
    ];
    assert_eq!(entries, expected, "{out}");
    let woken = place.model.questions(WOKEN);
    assert_eq!(woken.len(), 1, "{woken:?}");
    // What waited was told of all that it needs, also of what the crash took.
    let report = place.model.last("WORK after ");
    for words in ["two warnings", "interrupted", "dependency"] {
        assert!(report.contains(words), "{report}");
    }
    assert_eq!((count(&place, "group.fired"), count(&place, "message.taken")), (1, 1));
    assert_eq!(alive(&place), Vec::<String>::new());
}
