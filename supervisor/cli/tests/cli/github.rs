//! Inside a step of GitHub Actions: groups, annotations and a summary, and no word of a task that the runner obeys.

use std::fs;
use std::path::Path;
use std::process::Command;

use fanin_protocol::limits::SUMMARY_BYTES_MAX;
use serde_json::Value;
use tempfile::tempdir;

use crate::common::{Ended, Running, fanin};

/// What the runner would do with each line, by the rules of its own parser. `resume` is the token of `stop-commands`.
#[derive(Debug, Default)]
struct Runner {
    resume: Option<String>,
    /// Commands that were obeyed, with their properties and data as they stand.
    obeyed: Vec<(String, String, String)>,
    /// Lines of text.
    text: Vec<String>,
}

impl Runner {
    fn read(lines: &str) -> Self {
        let mut runner = Self::default();
        lines.lines().for_each(|line| runner.line(line));
        assert_eq!(runner.resume, None, "commands stay stopped");
        runner
    }

    fn line(&mut self, line: &str) {
        let command = line.trim_start().strip_prefix("::").and_then(|rest| rest.split_once("::"));
        let old = line.split_once("##[").and_then(|(_, rest)| rest.split_once(']'));
        let Some((command, data)) = command.or(old) else { return self.text.push(line.to_owned()) };
        let (name, properties) = command.split_once(' ').unwrap_or((command, ""));
        match &self.resume {
            Some(token) if token == name => self.resume = None,
            Some(_) => self.text.push(line.to_owned()),
            None if name == "stop-commands" => self.resume = Some(data.to_owned()),
            None => self.obeyed.push((name.into(), properties.into(), data.into())),
        }
    }

    fn obeyed(&self, name: &str) -> Vec<(&str, &str)> {
        let of = self.obeyed.iter().filter(|(obeyed, ..)| obeyed == name);
        of.map(|(_, properties, data)| (properties.as_str(), data.as_str())).collect()
    }
}

fn step(folder: &Path, words: &[&str]) -> Command {
    let mut command = fanin(folder, &[&["run"], words].concat());
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", folder.join("summary.md"));
    command
}

fn run(folder: &Path, words: &[&str]) -> Ended {
    Running::start(step(folder, words)).end()
}

/// Says what a runner would obey, in both of its forms.
const HOSTILE: &str = "printf '::error::a\\n   ::set-env name=A::b\\nx ##[add-mask]c\\n::stop-commands::t\\n::t::\\n::endgroup::\\n'; exit 3";

#[test]
fn each_output_is_a_group_and_each_failure_an_annotation() {
    let folder = tempdir().unwrap();
    let ended =
        run(folder.path(), &["--task", "good=echo fine", "--task", "50%, a: b=echo the reason; exit 3"]);
    // A name with such signs is no id.
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let text = "[[task]]\nid = 'good'\nshell = 'echo fine'\n[[task]]\nlabel = '50%, a: b'\nshell = 'echo the reason; exit 3'\n";
    fs::write(folder.path().join("m.toml"), text).unwrap();
    let ended = run(folder.path(), &["m.toml"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let runner = Runner::read(&ended.stdout);
    assert_eq!(
        runner.obeyed("group"),
        [("", "\u{2713} good: completed"), ("", "\u{2717} 50%25, a: b: exit status 3")]
    );
    assert_eq!(runner.obeyed("endgroup").len(), 2);
    let annotation = ("title=50%25%2C a%3A b", "failed: exit status 3%0Athe reason");
    assert_eq!(runner.obeyed("error"), [annotation]);
    assert!(runner.text.iter().any(|line| line.starts_with("2 tasks: 1 completed, 1 failed")), "{runner:?}");
}

#[test]
fn no_word_of_a_task_is_obeyed() {
    let folder = tempdir().unwrap();
    for words in [&[HOSTILE][..], &["--json", HOSTILE]] {
        let ended = run(folder.path(), words);
        assert_eq!(ended.code, Some(1));
        for (name, said) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
            let runner = Runner::read(said);
            let foreign: Vec<_> = runner
                .obeyed
                .iter()
                .filter(|(command, ..)| !["group", "endgroup", "error"].contains(&command.as_str()))
                .collect();
            assert!(foreign.is_empty(), "{name}: {foreign:?}");
            for (properties, data) in runner.obeyed("error") {
                assert!(properties.starts_with("title=printf ") && data.starts_with("failed: "), "{data}");
            }
        }
        let groups = usize::from(!words.contains(&"--json"));
        assert_eq!(Runner::read(&ended.stdout).obeyed("endgroup").len(), groups);
    }
    // The words themselves are all there.
    let ended = run(folder.path(), &[HOSTILE]);
    assert!(
        ended.stdout.contains("    ::error::a\n") && ended.stdout.contains("x ##[add-mask]c"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_document_stays_one_and_its_annotations_are_on_standard_error() {
    let folder = tempdir().unwrap();
    let ended = run(folder.path(), &["--json", "--task", "bad=echo '##[x]y'; false"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["entries"][0]["output"]["text"], "##[x]y\n");
    assert_eq!(
        Runner::read(&ended.stderr).obeyed("error"),
        [("title=bad", "failed: exit status 1%0A##[x]y")]
    );
    assert!(folder.path().join("summary.md").exists());
    assert_eq!(run(folder.path(), &["--json", "--quiet", "false"]).stderr, "");
}

#[test]
fn the_summary_is_a_table_that_follows_what_the_step_has_written() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("summary.md");
    fs::write(&path, "before").unwrap();
    let text = "description = 'a *check*'\n[[task]]\nid = 'good'\nshell = 'true'\n[[task]]\nlabel = 'a|b <img src=x>'\nshell = 'exit 3'\n";
    fs::write(folder.path().join("m.toml"), text).unwrap();
    run(folder.path(), &["m.toml"]);
    let summary = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = summary.lines().collect();
    assert_eq!(lines[0], "before");
    assert!(lines[1].starts_with(r"### 2 tasks\: 1 completed\, 1 failed\, in "), "{summary}");
    assert_eq!(lines[3..7], [r"a \*check\*", "", "| task | status | time | cause |", "|---|---|---|---|"]);
    assert!(
        lines[7].starts_with("| good | \u{2713} completed | ") && lines[7].ends_with(" |  |"),
        "{summary}"
    );
    assert!(lines[8].starts_with(r"| a\|b \<img src\=x\> | ✗ failed | "), "{summary}");
    assert!(lines[8].ends_with(" | exit status 3 |"), "{summary}");
}

#[test]
fn a_summary_that_cannot_be_added_is_a_warning() {
    let folder = tempdir().unwrap();
    for bad in ["no/such/summary.md", "."] {
        let mut command = step(folder.path(), &["--quiet", "true"]);
        command.env("GITHUB_STEP_SUMMARY", bad);
        let ended = Running::start(command).end();
        assert_eq!(ended.code, Some(0));
        assert!(ended.stderr.starts_with("fanin: warning: the summary of the step "), "{}", ended.stderr);
    }
    let full = usize::try_from(SUMMARY_BYTES_MAX).unwrap() - 50;
    fs::write(folder.path().join("summary.md"), "x".repeat(full)).unwrap();
    let ended = run(folder.path(), &["--quiet", "true"]);
    assert!(ended.stderr.contains("the summary of the step"), "{}", ended.stderr);
    assert_eq!(fs::metadata(folder.path().join("summary.md")).unwrap().len(), full as u64);
    let mut command = step(folder.path(), &["--quiet", "true"]);
    command.env_remove("GITHUB_STEP_SUMMARY");
    assert_eq!(Running::start(command).end().stderr, "");
}

#[test]
fn annotations_have_a_bound_and_say_what_they_leave_out() {
    let folder = tempdir().unwrap();
    let errors = |n: usize| {
        let ended = run(folder.path(), &vec!["false"; n]);
        let runner = Runner::read(&ended.stdout);
        let errors = runner.obeyed("error");
        (errors.len(), errors.last().unwrap().1.to_owned())
    };
    assert_eq!(errors(10), (10, "failed: exit status 1".to_owned()));
    assert_eq!(errors(12), (10, "and 3 tasks more that failed".to_owned()));
}

#[test]
fn elsewhere_and_where_it_is_not_wanted_nothing_of_it_is_there() {
    let folder = tempdir().unwrap();
    for (value, words) in [("false", &["echo x; false"][..]), ("true", &["--no-github", "echo x; false"])] {
        let mut command = step(folder.path(), words);
        command.env("GITHUB_ACTIONS", value);
        let ended = Running::start(command).end();
        assert!(!ended.stdout.contains("::") && !ended.stderr.contains("::"), "{}", ended.stdout);
    }
    assert!(!folder.path().join("summary.md").exists());
}
