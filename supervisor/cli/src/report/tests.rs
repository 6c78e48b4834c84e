//! What people are shown of a result.

use expect_test::{Expect, expect};

use fanin_protocol::{Cause, Code, JobLimits};

use super::*;
use crate::testing::{entry, result, with_output};

fn written(result: &CombinedResult, policy: Policy, kept: impl Fn(&ResultEntry) -> Option<Kept>) -> String {
    let limits = JobLimits { run_ms: Some(500), ..JobLimits::default() };
    let words = Words::new(vec![limits; result.entries.len()]);
    let description = Some("what  this\nis");
    let report = Report { description, result, policy, words: &words, style: Style::PLAIN, members: &[] };
    let mut out = Vec::new();
    report.write(&mut out, result.entries.iter().map(Cow::Borrowed), kept).unwrap();
    String::from_utf8(out).unwrap()
}

fn check(result: &CombinedResult, expected: &Expect) {
    expected.assert_eq(&written(result, Policy::FAIL_FAST, |_| None));
}

fn numbers(n: usize) -> String {
    (1..=n).map(|n| format!("{n}\n")).collect()
}

#[test]
fn entries_stand_in_launch_order_and_failed_output_at_the_end() {
    let mut never = entry("never", Status::Cancelled, Some((Cause::Group, None)));
    never.started_at_ms = None;
    let mut crashed = entry("crashed", Status::Error, Some((Cause::Failed, Some(Code::ExitStatus))));
    crashed.exit_code = Some(101);
    let mut spawn = entry("no such", Status::Error, Some((Cause::Spawn, Some(Code::ProgramNotFound))));
    spawn.message = Some("program `x` was not found".into());
    let mut all = result(vec![
        with_output(crashed, "why it crashed\n"),
        with_output(entry("fine", Status::Completed, None), "an answer\n\nof three lines\n"),
        spawn,
        never,
        with_output(entry("too slow", Status::Error, Some((Cause::Timeout, Some(Code::Run)))), "half"),
    ]);
    all.stopped_by = Some(Threshold::NotOk);
    check(
        &all,
        &expect![[r#"
            what this is
            5 tasks: 1 completed, 3 failed, 1 cancelled, in 2.0s; the rest was stopped after the first failure
            ✗ crashed      1.0s  failed
            ✓ fine         1.0s  completed
                an answer

                of three lines
            ✗ no such      1.0s  not started: program `x` was not found
            – never           -  stopped with the rest of the group; never started
            ✗ too slow     1.0s  timed out after 500ms

            ✗ crashed: failed
                why it crashed

            ✗ no such: not started: program `x` was not found
                (no output)

            ✗ too slow: timed out after 500ms
                half
        "#]],
    );
}

#[test]
fn a_long_output_is_cut_to_its_last_lines_and_says_so() {
    let members = [Status::Completed, Status::Error].map(|status| {
        let cause = (status == Status::Error).then_some((Cause::Failed, None));
        with_output(entry(status.as_str(), status, cause), &numbers(30))
    });
    check(
        &result(members.into()),
        &expect![[r#"
            what this is
            2 tasks: 1 completed, 1 failed, in 2.0s
            ✓ completed     1.0s  completed
                [... the last 20 of 30 lines ...]
                11
                12
                13
                14
                15
                16
                17
                18
                19
                20
                21
                22
                23
                24
                25
                26
                27
                28
                29
                30
            ✗ error         1.0s  failed

            ✗ error: failed
                [... the last 20 of 30 lines ...]
                11
                12
                13
                14
                15
                16
                17
                18
                19
                20
                21
                22
                23
                24
                25
                26
                27
                28
                29
                30
        "#]],
    );
}

#[test]
fn an_output_of_exactly_one_screen_is_not_cut() {
    let one = result(vec![with_output(entry("a", Status::Completed, None), &numbers(SHOWN_LINES_MAX))]);
    assert!(!written(&one, Policy::ALL, |_| None).contains("[..."));
}

#[test]
fn text_of_a_task_cannot_forge_an_entry_or_reach_the_terminal() {
    let hostile = "\x1b[2J\u{2713} other  completed\r\u{202e}x\n".to_owned() + &"y".repeat(2_000);
    check(
        &result(vec![with_output(entry("bad\x1b[1m\nlabel", Status::Completed, None), &hostile)]),
        &expect![[r#"
            what this is
            1 task: 1 completed, in 2.0s
            ✓ bad label     1.0s  completed
                ✓ other  completed
                x
                yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy [... 1000 bytes more]
        "#]],
    );
}

#[test]
fn what_the_result_leaves_out_is_read_from_what_was_kept() {
    let mut cut = with_output(entry("a", Status::Error, Some((Cause::Failed, None))), "cut");
    cut.output.as_mut().unwrap().truncated = true;
    let result = result(vec![cut]);
    let kept = |text: &str, is_whole| {
        written(&result, Policy::ALL, |_| Some(Kept { text: text.to_owned(), is_whole }))
    };
    assert!(kept("all of it", true).ends_with("    all of it\n"));
    assert!(kept(&numbers(30), true).contains("    [... the last 20 of 30 lines ...]\n    11\n"));
    assert!(kept(&numbers(30), false).contains("    [... the last 20 lines of 3 bytes ...]\n    11\n"));
}

#[test]
fn a_task_that_is_alone_is_told_once() {
    let failed = entry("alone", Status::Error, Some((Cause::Failed, None)));
    check(
        &result(vec![failed]),
        &expect![[r#"
            what this is
            1 task: 0 completed, 1 failed, in 2.0s
            ✗ alone     1.0s  failed
                (no output)
        "#]],
    );
}

#[test]
fn a_list_longer_than_a_screen_ends_with_its_header() {
    let tasks = |n: usize| {
        let mut tasks = vec![entry("a", Status::Completed, None); n - 1];
        tasks.push(entry("b", Status::Error, Some((Cause::Failed, None))));
        written(&result(tasks), Policy::ALL, |_| None)
    };
    let header = "20 tasks: 19 completed, 1 failed, in 2.0s";
    assert_eq!(tasks(20).matches(header).count(), 1);
    assert!(
        tasks(21).ends_with("\n✗ b: failed\n    (no output)\n\n21 tasks: 20 completed, 1 failed, in 2.0s\n")
    );
}

#[test]
fn the_header_names_the_rule_that_stopped_the_rest() {
    let header = |status, stopped_by, policy| {
        let mut one = result(vec![entry("a", status, Some((Cause::Group, None)))]);
        one.stopped_by = Some(stopped_by);
        let text = written(&one, policy, |_| None);
        text.lines().nth(1).unwrap().split_once("2.0s").unwrap().1.to_owned()
    };
    let stopped = |stopped_by, policy| header(Status::Cancelled, stopped_by, policy);
    let not_ok = Policy { not_ok: Some(2), ..Policy::ALL };
    let deadline = Policy { at_ms: Some(90_000), ..Policy::ALL };
    for (said, expected) in [
        (stopped(Threshold::Ok, Policy::ANY), "; the rest was stopped after the first that completed"),
        (stopped(Threshold::Ok, Policy::quorum(3)), "; the rest was stopped once 3 had completed"),
        (stopped(Threshold::NotOk, Policy::FAIL_FAST), "; the rest was stopped after the first failure"),
        (stopped(Threshold::NotOk, not_ok), "; the rest was stopped after 2 failures"),
        (stopped(Threshold::Deadline, deadline), "; the rest was stopped at the deadline of 90s"),
        // There was no rest.
        (header(Status::Error, Threshold::NotOk, Policy::FAIL_FAST), ""),
    ] {
        assert_eq!(said, expected);
    }
}

#[test]
fn what_is_not_sure_is_said() {
    let mut lost = entry("lost", Status::Cancelled, Some((Cause::Shutdown, None)));
    lost.unreaped = true;
    let mut late = entry("late", Status::Cancelled, Some((Cause::User, None)));
    late.completed_anyway = true;
    let mut many = result(vec![lost, late]);
    (many.counts.launched, many.unreaped) = (5, 2);
    check(
        &many,
        &expect![[r#"
            what this is
            5 tasks: 0 completed, 2 cancelled, in 2.0s
            – lost     1.0s  cancelled; it did not end in time and may still be alive
            – late     1.0s  cancelled; it had done its work when it was stopped
            (not listed: 3 tasks)
            (not listed, did not end in time and may still be alive: 1 task)
        "#]],
    );
}
