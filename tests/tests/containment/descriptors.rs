//! What a command inherits: three descriptors, whatever its supervisor was left (SC-4).

use std::process::Command;

use fanin_supervisor::JobSpec;
use fanin_tests::cases::process::{parent_of, until};

use super::{HOST, start};

/// Lists the descriptors of the shell that runs it: no redirection, which it would keep one for, and none that was
/// open for the list alone.
const LIST: &str = "for f in /proc/$$/fd/*; do [ -e $f ] && echo ${f##*/}; done";

fn open(pid: &str) -> Vec<u32> {
    let mut open: Vec<u32> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().parse().unwrap())
        .collect();
    open.sort_unstable();
    open
}

#[tokio::test]
async fn a_command_has_its_three_descriptors_and_its_shim_the_lifeline() {
    let mut shimmed = start().await;
    let (job, pid) = shimmed.shell("echo ready; exec sleep 60").await;
    until("asleep", || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() == "sleep").await;
    // Its loader has the libraries open for a moment.
    until("three descriptors", || open(&pid.to_string()) == [0, 1, 2]).await;
    let shim = parent_of(pid);
    let lifeline = std::fs::read_link(format!("/proc/{shim}/fd/3")).unwrap();
    assert!(lifeline.to_string_lossy().starts_with("socket:"), "{lifeline:?}");
    // It holds none of the command's pipes, whose end would not come otherwise.
    for descriptor in [0, 1, 2] {
        let link = std::fs::read_link(format!("/proc/{shim}/fd/{descriptor}")).unwrap();
        assert_eq!(link.to_string_lossy(), "/dev/null");
    }
    job.cancel().await.unwrap();
    shimmed.ended(&job).await;
}

// Many at once, from several threads: no lifeline and no pipe of one is seen by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commands_that_start_together_see_nothing_of_each_other() {
    let shimmed = start().await;
    let specs = (0..100).map(|n| JobSpec::shell(format!("{n}"), LIST));
    let group = shimmed.session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
    let result = group.wait(3 * fanin_tests::cases::STUCK).await.unwrap();
    for entry in &result.entries {
        assert_eq!(&*entry.output.as_ref().unwrap().text, "0\n1\n2\n", "{}", entry.summary());
    }
}

// The supervisor was left descriptors by its own parent that outlive an exec: they go no further.
#[test]
fn descriptors_of_the_supervisors_parent_go_no_further() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("exec 5</dev/null 7>{}; exec '{HOST}' '{LIST}'", dir.path().join("left").display());
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let ended = said.lines().find_map(|line| line.strip_prefix("run.ended ")).unwrap();
    let ended: serde_json::Value = serde_json::from_str(ended).unwrap();
    assert_eq!(ended["output"]["text"], "0\n1\n2\n");
}
