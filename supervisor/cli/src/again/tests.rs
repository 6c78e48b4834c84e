//! Which tasks are run again, and what comes of both runs.

use std::path::PathBuf;

use fanin_protocol::{Cause, CommandSpec, GroupId, JobId, JobLimits, OnFailedDependency};

use super::*;
use crate::plan::Carried;
use crate::testing::{entry, result, with_output};

fn from() -> GroupId {
    GroupId::from_uuid([9; 16])
}

fn task(label: &str) -> Task {
    let spec = Spec::Command(CommandSpec::shell("true"));
    Task {
        id: None,
        label: label.into(),
        spec,
        limits: JobLimits::default(),
        depends: Vec::new(),
        on_failed_dependency: OnFailedDependency::Skip,
        sends: Vec::new(),
        carried: None,
    }
}

fn done(label: &str) -> Task {
    let entry = with_output(entry(label, Status::Completed, None), &"o".repeat(300));
    Task { carried: Some(Box::new(Carried { from: from(), entry })), ..task(label) }
}

/// The tasks once those that were not carried have run.
fn over(tasks: Vec<Task>) -> Vec<Member> {
    let origin = |task: Task| match task.carried {
        Some(carried) => Origin::Carried(carried),
        None => Origin::Ran(JobId::parse(&task.label).unwrap()),
    };
    tasks.into_iter().map(|task| Member { id: None, origin: origin(task) }).collect()
}

fn earlier(tasks: Vec<Task>, policy: Policy) -> Earlier {
    let plan = Plan { description: None, tasks, concurrency: 3, policy, fail_on: None, again_of: None };
    Earlier { group: from(), started_in: PathBuf::from("/there"), plan }
}

#[test]
fn the_rest_runs_where_it_ran_and_a_flag_wins() {
    let mut own = task("own");
    // A limit that could never pass beside the flag is lowered to it.
    own.limits.idle_ms = Some(60_000);
    let Spec::Command(command) = &mut own.spec else { panic!() };
    command.cwd = Some("sub".into());
    let flags = Flags {
        timeout: Some(std::time::Duration::from_secs(1)),
        env: vec![("A".into(), "flag".into())],
        ..Flags::default()
    };
    let plan = plan(earlier(vec![done("done"), own, task("other")], Policy::ALL), &flags).unwrap();
    assert_eq!(plan.again_of, Some(from()));
    let Spec::Command(done) = &plan.tasks[0].spec else { panic!() };
    assert_eq!((&done.cwd, plan.tasks[0].limits.run_ms), (&None, None));
    assert_eq!(plan.tasks[1].limits.idle_ms, Some(1_000));
    for (place, folder) in [(1, "/there/sub"), (2, "/there/")] {
        let Spec::Command(command) = &plan.tasks[place].spec else { panic!() };
        assert_eq!(command.cwd.as_deref(), Some(Path::new(folder)));
        assert_eq!(command.env["A"], "flag");
        assert_eq!(plan.tasks[place].limits.run_ms, Some(1_000));
    }
}

#[test]
fn counts_of_a_policy_go_on_where_they_stood() {
    let of = |policy| rest(policy, 2, 1);
    assert_eq!(of(Policy::quorum(3)), Policy::quorum(1));
    assert_eq!(of(Policy::quorum(2)), Policy::ALL);
    assert_eq!(of(Policy::FAIL_FAST), Policy::FAIL_FAST);
    assert_eq!(
        of(Policy { not_ok: Some(2), at_ms: Some(5), ..Policy::ALL }),
        Policy { at_ms: Some(5), ..Policy::ALL }
    );
}

#[test]
fn both_runs_make_one_result_in_launch_order() {
    let members = over(vec![done("a"), task("b"), done("c"), task("d")]);
    let failed = entry("b", Status::Error, Some((Cause::Failed, None)));
    let ran = result(vec![failed, with_output(entry("d", Status::Completed, None), "d")]);
    let merged = merge(ran, &members);
    let seen: Vec<_> = merged.entries.iter().map(|entry| (entry.index, entry.label.as_deref())).collect();
    assert_eq!(seen, [(0, Some("a")), (1, Some("b")), (2, Some("c")), (3, Some("d"))]);
    assert_eq!(merged.counts, Counts { launched: 4, completed: 3, error: 1, cancelled: 0 });
    assert_eq!((merged.outcome, merged.entries_omitted), (Outcome::Partial, 0));
}

#[test]
fn a_large_result_lists_what_did_not_complete_and_a_small_share_of_its_output() {
    let mut tasks: Vec<_> = (0..RESULT_ENTRIES_MAX).map(|n| done(&format!("t{n}"))).collect();
    tasks.push(task("last"));
    let ran = result(vec![with_output(
        entry("last", Status::Error, Some((Cause::Failed, None))),
        &"x".repeat(1_000),
    )]);
    let merged = merge(ran, &over(tasks));
    assert_eq!(merged.entries.len(), 1);
    assert_eq!(merged.entries[0].index, 1_000);
    assert_eq!(merged.entries_omitted, 1_000);
    let output = merged.entries[0].output.as_ref().unwrap();
    assert!(output.text.len() <= share(1_001) && output.truncated, "{output:?}");
    assert_eq!(output.bytes_total, 1_000);
}

#[test]
fn an_output_is_cut_below_the_size_of_a_mark_as_well() {
    for (bytes, is_cut) in [(299, true), (300, false), (50, true), (0, true)] {
        let mut entry = with_output(entry("a", Status::Completed, None), &"o".repeat(300));
        entry.shorten(bytes);
        let output = entry.output.unwrap();
        assert!(output.text.len() <= bytes);
        assert_eq!(output.truncated, is_cut);
    }
}
