//! What stays of the runs that are kept.

use std::fs::{self, FileTimes};
use std::time::{Duration, Instant, SystemTime};

use fanin_protocol::limits::KEPT_RUNS_AGE;
use fanin_protocol::{CommandSpec, JobLimits, OnFailedDependency, Policy, Spec};
use tempfile::{TempDir, tempdir};

use super::earlier::EarlierError;
use super::*;
use crate::plan::Task;

fn begin(state: &TempDir, group: &GroupId) -> Keep {
    let spec = Spec::Command(CommandSpec::shell("true"));
    let task = Task {
        id: None,
        label: "a".into(),
        spec,
        limits: JobLimits::default(),
        depends: Vec::new(),
        on_failed_dependency: OnFailedDependency::Skip,
        sends: Vec::new(),
        carried: None,
    };
    let plan = Plan {
        description: None,
        tasks: vec![task],
        concurrency: 1,
        policy: Policy::ALL,
        fail_on: None,
        again_of: None,
    };
    Keep::begin(state.path(), group, &plan, Path::new("/"), 1).unwrap()
}

/// Makes a run look as if it was kept so long ago.
fn age(state: &TempDir, group: &GroupId, age: Duration) {
    let plan = layout::run(state.path(), group).join(layout::PLAN);
    let times = FileTimes::new().set_modified(SystemTime::now() - age);
    File::options().write(true).open(plan).unwrap().set_times(times).unwrap();
}

/// Finds a run whose keeper was dropped. A process that another test forks has its lock as well, until it is another
/// program.
fn find(state: &TempDir, name: &str) -> Earlier {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match Earlier::find(state.path(), name) {
            Err(EarlierError::Owned(_)) if Instant::now() < end => std::thread::yield_now(),
            found => return found.unwrap(),
        }
    }
}

fn group(n: u8) -> GroupId {
    GroupId::from_uuid([n; 16])
}

fn is_kept(state: &TempDir, n: u8) -> bool {
    layout::run(state.path(), &group(n)).exists()
}

#[test]
fn old_runs_go_and_those_at_work_stay() {
    let state = tempdir().unwrap();
    let old = KEPT_RUNS_AGE + Duration::from_secs(60);
    let at_work = begin(&state, &group(1));
    drop((begin(&state, &group(2)), begin(&state, &group(3))));
    age(&state, &group(1), old);
    age(&state, &group(2), old);
    age(&state, &group(3), KEPT_RUNS_AGE - Duration::from_secs(60));
    begin_until_gone(&state, 2, 10);
    assert_eq!([1, 2, 3, 10].map(|n| is_kept(&state, n)), [true, false, true, true]);
    drop(at_work);
    begin_until_gone(&state, 1, 60);
    assert_eq!([1, 3, 10, 60].map(|n| is_kept(&state, n)), [false, true, true, true]);
}

/// Begins runs, each of which lets old ones go, until that one is gone. A child that another test starts has the locks of
/// this process until its exec, so the first may still find it at work.
fn begin_until_gone(state: &TempDir, n: u8, from: u8) {
    let more = (from..from + 50).find(|more| {
        drop(begin(state, &group(*more)));
        !is_kept(state, n)
    });
    assert!(more.is_some(), "run {n} stays");
}

#[test]
fn what_another_process_had_begun_to_remove_is_removed() {
    let state = tempdir().unwrap();
    let left = layout::runs(state.path()).join(".gone-grp_x");
    fs::create_dir_all(left.join("more")).unwrap();
    drop(begin(&state, &group(1)));
    assert!(!left.exists() && is_kept(&state, 1));
}

#[test]
fn a_folder_that_is_there_already_is_nobodys_new_run() {
    let state = tempdir().unwrap();
    drop(begin(&state, &group(1)));
    let plan = find(&state, &group(1).to_string()).plan;
    assert!(Keep::begin(state.path(), &group(1), &plan, Path::new("/"), 1).is_err());
    assert!(is_kept(&state, 1));
}

#[test]
fn a_plan_is_read_as_it_was_kept() {
    let state = tempdir().unwrap();
    drop(begin(&state, &group(1)));
    let earlier = find(&state, "0101");
    assert_eq!((earlier.group, earlier.started_in.as_path()), (group(1), Path::new("/")));
    assert_eq!(earlier.plan.tasks.len(), 1);
    assert_eq!(earlier.plan.tasks[0].spec, Spec::Command(CommandSpec::shell("true")));
}
