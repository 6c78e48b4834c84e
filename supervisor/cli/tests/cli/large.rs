//! Ten thousand tasks in every report. Nearly all are carried from a run that is made by hand: what is tested is what is
//! written, not how quickly a machine starts programs.

use std::fs;

use fanin_protocol::limits::{JUNIT_OUTPUTS_BYTES_MAX, SUMMARY_BYTES_MAX};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::common::{Running, fanin};

const TASKS: usize = 10_000;

#[test]
fn ten_thousand_tasks_fit_every_report_and_the_one_that_failed_is_in_each() {
    let folder = tempdir().unwrap();
    let command = |words: &[&str]| {
        let mut command = fanin(folder.path(), words);
        command.env("FANIN_STATE_DIR", folder.path()).env("GITHUB_ACTIONS", "true");
        command.env("GITHUB_STEP_SUMMARY", folder.path().join("summary.md"));
        command
    };
    let first =
        Running::start(command(&["run", "--json", "--quiet", "--no-github", "printf %02000d 1"])).end();
    let first: Value = serde_json::from_str(&first.stdout).unwrap();
    let group = first["group"].as_str().unwrap();
    let run = folder.path().join("runs").join(group);
    let mut plan: Value = serde_json::from_slice(&fs::read(run.join("plan.json")).unwrap()).unwrap();
    let mut task = plan["tasks"][0].clone();
    task["carried"] = json!({ "from": group, "entry": first["entries"][0] });
    let mut tasks = vec![task; TASKS];
    tasks[7] = plan["tasks"][0].clone();
    tasks[7]["label"] = "the odd one".into();
    tasks[7]["spec"]["command"]["line"]["shell"] = "exit 3".into();
    plan["tasks"] = tasks.into();
    fs::write(run.join("plan.json"), plan.to_string()).unwrap();
    fs::remove_file(run.join("result.json")).unwrap();

    let ended = Running::start(command(&["run", "--quiet", "--junit", "out.xml", "--again", group])).end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let junit = fs::read_to_string(folder.path().join("out.xml")).unwrap();
    assert_eq!(junit.matches("<testcase ").count(), TASKS);
    assert_eq!(junit.matches("<failure ").count(), 1);
    let bound = JUNIT_OUTPUTS_BYTES_MAX + TASKS * 400;
    assert!(junit.len() < bound, "{} bytes", junit.len());
    let summary = fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(summary.len() as u64 <= SUMMARY_BYTES_MAX);
    assert!(summary.contains("| the odd one | ✗ failed | "), "{}", &summary[..1_000]);
    assert!(ended.stdout.contains("::error title=the odd one::failed: exit status 3"));
    let header = "10000 tasks: 9999 completed, 1 failed, in ";
    assert!(ended.stdout.lines().nth(1).unwrap().starts_with(header), "{}", &ended.stdout[..200]);
    // The new run is complete in itself: what it carried is there to be carried once more.
    let again = ended.again();
    let kept = fs::read(folder.path().join("runs").join(again[2]).join("result.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["entries"].as_array().unwrap().len(), TASKS);
    assert_eq!(kept["entries_omitted"], 0);
}
