//! Plans against a naive reference: one that looks at all members again and again, and knows no counts and no order of
//! edges. Up to 64 jobs, every way to fail, and crashes in between; and large ones, whose cost is counted.

// A helper that panics is a failed test.
#![allow(clippy::panic, clippy::indexing_slicing)]

use fanin_protocol::record::JobEnded;
use fanin_protocol::{Cause, Edges, OnFailedDependency, PlanProblem, Status};
use fanin_tests::op::{How, Op, script};
use fanin_tests::{Options, World};
use proptest::prelude::*;

/// A job of a plan: what it needs, and what becomes of it.
#[derive(Debug, Clone)]
struct Planned {
    on: Vec<u32>,
    on_failed: OnFailedDependency,
    /// Its body ends well.
    is_well: bool,
}

/// What the reference says of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Completed,
    Failed,
    /// And whose end began it.
    Skipped(u32),
    Stopped,
}

/// Jobs whose needs point to a lower rank in a random order of them, so that they are no circle.
fn plans(most: usize) -> impl Strategy<Value = Vec<Planned>> {
    let then = prop::sample::select(&OnFailedDependency::ALL[..]);
    let job = (prop::collection::vec(any::<prop::sample::Index>(), 0..4), then, prop::bool::weighted(0.8));
    let jobs = prop::collection::vec(job, 1..=most);
    (jobs, any::<u64>()).prop_map(|(jobs, seed)| {
        let len = jobs.len();
        let mut ranked: Vec<u32> = (0..len as u32).collect();
        ranked.sort_by_key(|place| (u64::from(*place) + 1).wrapping_mul(seed | 1));
        let mut planned =
            vec![Planned { on: Vec::new(), on_failed: OnFailedDependency::Skip, is_well: true }; len];
        for (rank, (on, on_failed, is_well)) in jobs.into_iter().enumerate() {
            let on =
                if rank == 0 { Vec::new() } else { on.iter().map(|at| ranked[at.index(rank)]).collect() };
            planned[ranked[rank] as usize] = Planned { on, on_failed, is_well };
        }
        planned
    })
}

/// The script of a plan, as one launch.
fn launch(plan: &[Planned]) -> String {
    let mut text = "launch as=g resume=rerun".to_owned();
    for (place, job) in plan.iter().enumerate() {
        text.push_str(&format!(" j{place}"));
        for (n, on) in job.on.iter().enumerate() {
            text.push_str(&format!("{}j{on}", if n == 0 { '>' } else { '+' }));
        }
        if !job.on.is_empty() {
            text.push_str(match job.on_failed {
                OnFailedDependency::Skip => "",
                OnFailedDependency::Run => "?",
                OnFailedDependency::FailTeam => "!",
            });
        }
    }
    text
}

/// What is over, by looking at all jobs until nothing changes any more. Gives those that may start.
fn follow(plan: &[Planned], told: &mut [Option<Told>]) -> Vec<usize> {
    let failed = |told: Option<Told>| matches!(told, Some(Told::Failed | Told::Skipped(_)));
    let before = told.to_vec();
    loop {
        let is_skipped = |place: &usize| {
            let job = &plan[*place];
            let needs_failed = job.on.iter().any(|on| failed(told[*on as usize]));
            told[*place].is_none() && needs_failed && job.on_failed != OnFailedDependency::Run
        };
        let Some(place) = (0..plan.len()).find(is_skipped) else { break };
        told[place] = Some(Told::Skipped(0));
    }
    for place in 0..plan.len() {
        if before[place].is_none() && told[place].is_some() {
            told[place] = Some(Told::Skipped(root(plan, &before, told, place)));
        }
    }
    let is_vital = |place: &usize| plan[*place].on_failed == OnFailedDependency::FailTeam;
    if (0..plan.len()).filter(is_vital).any(|place| matches!(told[place], Some(Told::Skipped(_)))) {
        told.iter_mut().filter(|told| told.is_none()).for_each(|told| *told = Some(Told::Stopped));
    }
    let is_ready = |place: &usize| {
        told[*place].is_none() && plan[*place].on.iter().all(|on| told[*on as usize].is_some())
    };
    (0..plan.len()).filter(is_ready).collect()
}

/// The first in launch order of those whose ends led to this skip: what was skipped before knows its own.
fn root(plan: &[Planned], before: &[Option<Told>], told: &[Option<Told>], place: usize) -> u32 {
    let of = |on: &u32| match (before[*on as usize], told[*on as usize]) {
        (Some(Told::Skipped(root)), _) => Some(root),
        (None, Some(Told::Skipped(_))) => Some(root(plan, before, told, *on as usize)),
        (_, Some(Told::Failed)) => Some(*on),
        _ => None,
    };
    plan[place].on.iter().filter_map(of).min().expect("something that it needs did not complete")
}

fn of_record(end: &JobEnded) -> Told {
    match (end.status, end.cause) {
        (Status::Completed, _) => Told::Completed,
        (Status::Error, Some(Cause::Dependency)) => Told::Skipped(end.root.expect("it has a root")),
        (Status::Cancelled, Some(Cause::Group)) => Told::Stopped,
        (Status::Error, Some(Cause::Failed)) => Told::Failed,
        _ => panic!("an end that nobody asked for: {end:?}"),
    }
}

fn world() -> World {
    let options = Options { wall_stands: true, keep_log: true, keep_rows: true, ..Options::default() };
    let mut world = World::new(options);
    perform(&mut world, "open; session s");
    world
}

fn perform(world: &mut World, text: &str) {
    for op in script(text).ops {
        world.perform(&op).unwrap_or_else(|broken| panic!("{op}: {broken}"));
    }
}

fn job(place: usize) -> fanin_protocol::JobId {
    fanin_protocol::JobId::parse(&format!("j{place}")).unwrap()
}

/// Runs a plan. What may run does at the same time, and ends in the order that `picks` says; a pick over 200 is a crash.
fn compare(plan: &[Planned], picks: &[u8]) -> Result<(), TestCaseError> {
    let mut world = world();
    perform(&mut world, &launch(plan));
    let mut told: Vec<Option<Told>> = vec![None; plan.len()];
    let mut picks = picks.iter().cycle();
    let mut crashes = 0;
    loop {
        let ready = follow(plan, &mut told);
        let running: Vec<usize> =
            (0..plan.len()).filter(|place| world.ledger.job(&job(*place)).run.is_some()).collect();
        let stopping = |place: &usize| world.ledger.job(&job(*place)).stop.is_some();
        // Those that run and are stopped are not over yet, for the machine.
        if let Some(place) = running.iter().find(|place| stopping(place)) {
            perform(&mut world, &format!("end j{place} failed"));
            continue;
        }
        prop_assert_eq!(&running, &ready);
        for (place, told) in told.iter().enumerate() {
            let ended = world.ledger.job(&job(place)).ended.as_ref().map(of_record);
            prop_assert_eq!(&ended, told, "job {}", place);
        }
        if ready.is_empty() {
            break;
        }
        let pick = *picks.next().unwrap_or(&0);
        if pick > 200 && crashes < 2 {
            crashes += 1;
            perform(&mut world, "crash; open");
            continue;
        }
        let place = ready[usize::from(pick) % ready.len()];
        let how = if plan[place].is_well { How::Ok } else { How::Failed };
        world.perform(&Op::End(job(place), how)).map_err(|broken| TestCaseError::fail(broken.to_string()))?;
        told[place] = Some(if plan[place].is_well { Told::Completed } else { Told::Failed });
    }
    let group = world.ledger.groups.values().next().ok_or_else(|| TestCaseError::fail("no group"))?;
    prop_assert!(group.fired.is_some(), "it has not fired");
    world.fold_holds().map_err(|broken| TestCaseError::fail(broken.to_string()))
}

/// True where a job is reached from itself, by asking each for all that it needs, all over again.
fn is_circle(on: &[Vec<u32>]) -> bool {
    (0..on.len()).any(|first| {
        let mut reached = vec![false; on.len()];
        let mut next: Vec<u32> = on[first].clone();
        while let Some(at) = next.pop() {
            if !std::mem::replace(&mut reached[at as usize], true) {
                next.extend(&on[at as usize]);
            }
        }
        reached[first]
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn plans_go_as_the_reference_says(plan in plans(64), picks in prop::collection::vec(any::<u8>(), 1..80)) {
        compare(&plan, &picks)?;
    }

    #[test]
    fn circles_are_found_and_their_way_is_one(
        on in prop::collection::vec(prop::collection::vec(0..24_u32, 0..3), 24)
    ) {
        let edges = Edges::new(on.iter().map(|on| (on.clone(), OnFailedDependency::Skip)));
        let problems = edges.problems(on.len());
        prop_assert_eq!(!problems.is_empty(), is_circle(&on), "{:?}", problems);
        for problem in problems {
            match problem {
                PlanProblem::Itself { member, .. } => prop_assert!(on[member as usize].contains(&member)),
                PlanProblem::Cycle { path, .. } => {
                    prop_assert!(path.len() > 1);
                    for (place, at) in path.iter().enumerate() {
                        let next = path[(place + 1) % path.len()];
                        prop_assert!(on[*at as usize].contains(&next), "{:?}", path);
                    }
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

// B66: a long circle is one, and its way is told by its beginning.
#[test]
fn a_long_circle_is_found_without_recursion() {
    let len = 100_000_u32;
    let edges = Edges::new((0..len).map(|place| (vec![(place + 1) % len], OnFailedDependency::Skip)));
    let problems = edges.problems(len as usize);
    let [PlanProblem::Cycle { path, .. }] = problems.as_slice() else {
        panic!("{} problems", problems.len())
    };
    assert_eq!(path.len(), len as usize);
    let said = problems[0].describe(|place| format!("t{place}"));
    assert!(said.starts_with("a circle: `t0` needs `t1` needs") && said.ends_with("needs `t0`"), "{said}");
    assert!(said.contains("99980 more in a row") && said.len() < 400, "{said}");
}

/// A large plan, of which the first job fails or completes; all others follow. Not every promise is asked for each step:
/// that would cost more than the machine.
fn large(launch: &str, how: &str) -> World {
    let options = Options { wall_stands: true, sparse: u32::MAX, ..Options::default() };
    let mut world = World::new(options);
    perform(&mut world, "open; session s");
    perform(&mut world, launch);
    perform(&mut world, &format!("end j0 {how}"));
    world
}

fn chain(len: usize) -> String {
    let each = (1..len).map(|n| format!(" j{n}>j{}", n - 1));
    format!("launch as=g j0{}", each.collect::<String>())
}

// T-4: all in one step, however long the chain, and the stack does not grow with it.
#[test]
fn a_chain_of_five_hundred_is_skipped_in_one_step() {
    let world = large(&chain(500), "failed");
    let group = world.ledger.groups.values().next().unwrap();
    let fired = group.fired.as_ref().expect("all are over");
    assert_eq!((fired.counts.error, fired.counts.launched), (500, 500));
    let skipped = |entry: &&fanin_protocol::ResultEntry| entry.cause == Some(Cause::Dependency);
    assert!(fired.entries.iter().filter(skipped).all(|entry| entry.root == Some(0)));
    assert_eq!(fired.entries.iter().filter(skipped).count(), 499);
    assert_eq!(fired.entries[499].message.as_deref(), Some("needs `j0`, which ended error{failed}"));
}

#[test]
fn a_chain_of_five_hundred_runs_one_by_one() {
    let mut world = large(&chain(500), "ok");
    for n in 1..500 {
        assert_eq!(world.ledger.running, 1);
        perform(&mut world, &format!("end j{n}"));
    }
    assert_eq!(world.ledger.groups.values().next().unwrap().fired.as_ref().unwrap().counts.completed, 500);
}

/// One before, many between, one behind.
fn diamond(len: usize) -> String {
    let between: String = (1..len - 1).map(|n| format!(" j{n}>j0")).collect();
    let on: Vec<String> = (1..len - 1).map(|n| format!("j{n}")).collect();
    format!("launch as=g j0{between} j{}>{}", len - 1, on.join("+"))
}

// As many as a result lists: the rules of the records are asked for all of it.
#[test]
fn a_diamond_is_skipped_in_one_step() {
    let world = large(&diamond(1_000), "failed");
    let fired = world.ledger.groups.values().next().unwrap().fired.clone().expect("all are over");
    assert_eq!((fired.counts.error, fired.entries.len()), (1_000, 1_000));
}
