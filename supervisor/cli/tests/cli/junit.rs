//! The JUnit report: there whenever the run is over, well-formed whatever tasks write, and told to be impossible before
//! anything starts.

use std::fs;
use std::path::Path;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use tempfile::tempdir;

use crate::common::{Running, fanin, run};

/// One case of a report.
#[derive(Debug, Default, PartialEq, Eq)]
struct Case {
    name: String,
    /// `failure`, `error`, `skipped`, or nothing, with its message.
    what: String,
    message: String,
    output: String,
}

/// A report as a reader of XML sees it.
struct Report {
    suite: Vec<(String, String)>,
    cases: Vec<Case>,
}

impl Report {
    fn of(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')), "{text:?}");
        let mut reader = Reader::from_str(&text);
        let (mut report, mut place) = (Self { suite: Vec::new(), cases: Vec::new() }, String::new());
        loop {
            match reader.read_event().unwrap() {
                Event::Start(start) => {
                    place = name(&start);
                    report.begin(&start);
                }
                Event::Empty(start) => report.begin(&start),
                Event::End(_) => place.clear(),
                Event::Text(text) if place == "system-out" => {
                    report.cases.last_mut().unwrap().output.push_str(&text);
                }
                Event::GeneralRef(reference) if place == "system-out" => {
                    let c = match &*reference {
                        "lt" => '<',
                        "gt" => '>',
                        "amp" => '&',
                        "quot" => '"',
                        "apos" => '\'',
                        other => panic!("{other}"),
                    };
                    report.cases.last_mut().unwrap().output.push(c);
                }
                Event::Eof => return report,
                _ => {}
            }
        }
    }

    fn begin(&mut self, start: &BytesStart<'_>) {
        match name(start).as_str() {
            "testsuite" => self.suite = attributes(start),
            "testcase" => self.cases.push(Case { name: attribute(start, "name"), ..Case::default() }),
            what @ ("failure" | "error" | "skipped") => {
                let case = self.cases.last_mut().unwrap();
                assert!(!attribute(start, "type").is_empty());
                (case.what, case.message) = (what.to_owned(), attribute(start, "message"));
            }
            _ => {}
        }
    }

    fn counts(&self) -> [&str; 4] {
        ["tests", "failures", "errors", "skipped"]
            .map(|wanted| &*self.suite.iter().find(|(name, _)| name == wanted).unwrap().1)
    }

    fn whats(&self) -> Vec<(&str, &str)> {
        self.cases.iter().map(|case| (&*case.name, &*case.what)).collect()
    }
}

fn name(start: &BytesStart<'_>) -> String {
    start.name().as_ref().to_owned()
}

fn attributes(start: &BytesStart<'_>) -> Vec<(String, String)> {
    let pairs = start.attributes().map(|attribute| {
        let attribute = attribute.unwrap();
        let name = attribute.key.as_ref().to_owned();
        (name, quick_xml::escape::unescape(&attribute.value).unwrap().into_owned())
    });
    pairs.collect()
}

fn attribute(start: &BytesStart<'_>, wanted: &str) -> String {
    attributes(start).into_iter().find(|(name, _)| name == wanted).unwrap_or_default().1
}

#[test]
fn each_task_is_a_case_that_counts_by_its_cause() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("out.xml");
    let words = [
        &["--junit", "out.xml", "-c", "1", "--fail-fast", "--task", "good=echo fine"][..],
        &["--task", "bad=echo reason; exit 3", "--task", "never=touch never"],
    ];
    let ended = run(folder.path(), &words.concat());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let report = Report::of(&path);
    assert_eq!(report.whats(), [("good", ""), ("bad", "failure"), ("never", "skipped")]);
    assert_eq!(report.counts(), ["3", "1", "0", "1"]);
    assert_eq!((&*report.cases[0].output, &*report.cases[1].output), ("fine", "reason"));
    assert_eq!(report.cases[1].message, "failed: exit status 3");
    let ended = run(folder.path(), &["--junit", "out.xml", "--task", "no=/no/such/program"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(Report::of(&path).whats(), [("no", "failure")], "the shell found no program");
    fs::write(folder.path().join("m.toml"), "[[task]]\nid = 'no'\ncommand = ['/no/such']\n").unwrap();
    run(folder.path(), &["--junit", "out.xml", "m.toml"]);
    assert_eq!(Report::of(&path).counts(), ["1", "0", "1", "0"]);
}

#[test]
fn what_tasks_write_cannot_break_a_report() {
    let folder = tempdir().unwrap();
    let hostile =
        r#"printf '</system-out>]]><failure a="b">&amp;\000\001\033[31m\302\205\377\376\357\277\276end'"#;
    let words = ["--junit", "out.xml", "--task", "a=true", hostile];
    assert_eq!(run(folder.path(), &words).code, Some(0));
    let report = Report::of(&folder.path().join("out.xml"));
    assert_eq!(report.whats()[1].1, "");
    assert!(report.cases[1].name.contains("</system-out>]]><failure a=\"b\">&amp;"), "{:?}", report.cases[1]);
    assert_eq!(report.cases[1].output, "</system-out>]]><failure a=\"b\">&amp;\u{fffd}\u{fffd}\u{fffd}end");
}

#[test]
fn a_run_that_was_stopped_has_its_report() {
    let folder = tempdir().unwrap();
    let words = ["run", "--junit", "out.xml", "-c", "1", "--task", "up=sleep 600", "--task", "next=true"];
    let mut running = Running::start(fanin(folder.path(), &words));
    running.wait_for("start ");
    running.signal("HUP");
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let report = Report::of(&folder.path().join("out.xml"));
    assert_eq!(report.whats(), [("up", "error"), ("next", "skipped")]);
    assert_eq!(report.cases[0].message, "cancelled (hang-up)");
}

#[test]
fn a_place_that_takes_no_report_is_told_before_anything_starts() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for path in ["no/such/folder/out.xml", ".", "file/out.xml", "/"] {
        let ended = run(folder.path(), &["--junit", path, "touch started"]);
        assert_eq!(ended.code, Some(2), "{path}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: --junit: "), "{}", ended.stderr);
    }
    assert!(!folder.path().join("started").exists());
}

#[test]
fn a_report_that_cannot_be_written_in_the_end_is_our_failure_and_costs_no_result() {
    let folder = tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let words = ["--quiet", "--json", "--junit", "sub/out.xml", "rmdir sub"];
    let ended = run(folder.path(), &words);
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    let said: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(said["code"], "junit");
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&document["exit"]["code"], &document["outcome"]), (&70.into(), &"all_ok".into()));
}

#[test]
fn tasks_of_one_label_are_told_apart_and_carried_ones_say_so() {
    let folder = tempdir().unwrap();
    let ended = run(folder.path(), &["--junit", "out.xml", "test -e x", "test -e x", "echo ok"]);
    let path = folder.path().join("out.xml");
    let names: Vec<_> = Report::of(&path).cases.into_iter().map(|case| case.name).collect();
    assert_eq!(names, ["test -e x (task_1)", "test -e x (task_2)", "echo ok"]);
    let again = [&ended.again()[..], &["--junit", "out.xml"]].concat();
    Running::start(fanin(folder.path(), &again)).end();
    let carried = &Report::of(&path).cases[2];
    assert!(
        carried.output.starts_with("[completed in grp_") && carried.output.ends_with("\nok"),
        "{carried:?}"
    );
}
