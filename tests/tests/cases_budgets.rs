//! Budgets as a library user has them: what is admitted, who is told, and that the same sums are told live, at the end and
//! after a restart (M30 to M32, B76, B77).

use fanin_supervisor::protocol::{Account, Bounds, Budget, Dimension, Policy, Reason, Spent, Status};
use fanin_supervisor::testing::{Gate, woken};
use fanin_supervisor::{
    CallError, GroupOptions, JobError, JobSpec, LaunchError, Named, Refusal, RunContext, Session,
    SessionOptions, StartError, Supervisor, Used,
};
use fanin_tests::cases::*;
use fanin_tests::stores::{journal, start_over};

/// Millionths of a dollar.
fn usd(micros: u64) -> Budget {
    Budget { usd_micros: Some(micros), ..Budget::NONE }
}

fn cost(source: &str, micros: u64) -> Used {
    Used { source: source.into(), cost_usd_micros: Some(micros), ..Used::default() }
}

/// A session that may cost so much.
async fn session(supervisor: &Supervisor, budget: Budget) -> Session {
    let bounds = Some(Bounds { budget, ..Bounds::default() });
    supervisor.session_with("parent", SessionOptions { profile: None, bounds }).await.unwrap()
}

fn account(supervisor: &Supervisor, session: &Session) -> Account {
    supervisor.account(&Named::Session(session.id().clone())).unwrap()
}

/// A body that has cost so much as it starts, and waits at a gate.
fn costs(label: &str, micros: u64, gate: &Gate) -> JobSpec {
    let gate = gate.clone();
    JobSpec::run(label, move |ctx: RunContext| async move {
        gate.passed().await;
        ctx.used(cost("bill", micros));
        Ok("done".into())
    })
}

// B77: cap 1.00, spent 0.90; five with an estimate of 0.09 at once. One is admitted, four are told, all five are in the
// one result.
#[tokio::test]
async fn of_five_that_fit_one_by_one_the_first_is_admitted_and_four_are_told() {
    let supervisor = start().await;
    let session = session(&supervisor, usd(1_000_000)).await;
    let open = Gate::new();
    open.open();
    session.fan_out([costs("before", 900_000, &open)]).await.unwrap();
    woken(&session).await;
    assert_eq!(account(&supervisor, &session).spent.cost_usd_micros, Some(900_000));

    let gate = Gate::new();
    let five = (0..5).map(|n| costs(&format!("job {n}"), 90_000, &gate).estimate_usd_micros(90_000));
    let group = session.fan_out(five).await.unwrap();
    let stand: Vec<_> = group.jobs().iter().map(|job| supervisor.get(job).unwrap()).collect();
    let phases: Vec<_> = stand.iter().map(|job| job.phase.clone().unwrap()).collect();
    assert_eq!(phases, ["working", "budget", "budget", "budget", "budget"]);
    let waits = Reason::Budget { asked_usd_micros: 90_000, left_usd_micros: 100_000 };
    assert_eq!(supervisor.why(&group.jobs()[4]).unwrap(), [waits]);
    assert_eq!(account(&supervisor, &session).reserved_usd_micros, 90_000);

    gate.open();
    let result = woken(&session).await;
    let ends: Vec<_> = result.entries.iter().map(|entry| entry.summary()).collect();
    let told = "error{budget usd}";
    assert_eq!(ends, ["completed", told, told, told, told]);
    assert!(result.entries.iter().skip(1).all(|entry| entry.runs == 0));
    assert_eq!((result.cost_usd_micros, result.cost_unknown), (Some(90_000), 0));
    let at_end = account(&supervisor, &session);
    assert_eq!((at_end.spent.cost_usd_micros, at_end.reserved_usd_micros), (Some(990_000), 0));
    assert_no_wake_now(&session);
    assert_nothing_lives(&supervisor);
}

// BU-7: what runs is stopped, and what it has put out is kept.
#[tokio::test]
async fn what_is_stopped_by_its_budget_keeps_its_output_and_says_why() {
    let (_supervisor, session) = start_with_parent().await;
    let body = |ctx: RunContext| async move {
        ctx.write("half of it\n");
        ctx.used(Used { source: "calls".into(), steps: Some(3), ..Used::default() });
        ctx.cancelled().await;
        Err(JobError::new("stopped"))
    };
    let job = JobSpec::run("busy", body).budget(Budget { steps: Some(3), ..Budget::NONE });
    let entry = session.start(job).await.unwrap().wait(STUCK).await.unwrap();
    assert_eq!(entry.summary(), "error{budget steps}");
    assert_eq!(entry.output.unwrap().text.as_ref(), "half of it\n");
    let message = entry.message.unwrap();
    assert!(
        message.starts_with("`steps` of the budget of the job is used up: 3 steps of 3 steps"),
        "{message}"
    );
    assert_eq!(entry.usage.unwrap().steps, Some(3));
}

// B76: a parent, three jobs and one with another meter; a report is repeated, and one falls.
#[tokio::test]
async fn totals_are_the_same_live_at_the_end_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = start_over(dir.path()).await;
    let session = session(&supervisor, usd(10_000_000)).await;
    let turn = session.turn().await.unwrap();
    turn.used(cost("model", 1_000));
    turn.used(cost("model", 5_000));
    turn.used(cost("model", 5_000));
    turn.end().await.unwrap();
    let gate = Gate::new();
    let job = |name: &'static str| {
        let gate = gate.clone();
        JobSpec::run(name, move |ctx: RunContext| async move {
            ctx.used(cost("model", 200));
            ctx.used(cost("model", 100));
            ctx.used(cost("model", 200));
            if name == "two meters" {
                ctx.used(Used { tokens: Some(7), ..cost("other model", 30) });
            }
            gate.passed().await;
            Ok("done".into())
        })
    };
    let group = session.fan_out(["a", "b", "c", "two meters"].map(job)).await.unwrap();
    let expected = Spent { cost_usd_micros: Some(5_000 + 4 * 200 + 30), tokens: Some(7), ..Spent::default() };
    // All have told before any of them waits.
    let live = async {
        while account(&supervisor, &session).spent != expected {
            tokio::task::yield_now().await;
        }
    };
    soon(live).await;
    gate.open();
    let result = woken(&session).await;
    assert_eq!((result.cost_usd_micros, result.tokens), (Some(830), Some(7)));
    assert_eq!(account(&supervisor, &session).spent, expected);
    let jobs: Vec<_> = group.jobs().iter().map(|job| supervisor.get(job).unwrap().usage.unwrap()).collect();
    supervisor.shutdown().await;

    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    assert_eq!(account(&supervisor, &session).spent, expected);
    let after: Vec<_> = group.jobs().iter().map(|job| supervisor.get(job).unwrap().usage.unwrap()).collect();
    assert_eq!(jobs, after);
    let group = supervisor.account(&Named::Group(group.id().clone())).unwrap();
    assert_eq!(group.spent.cost_usd_micros, Some(830));
    // The budget goes on where it stood.
    let rest = 10_000_000 - 5_830;
    let too_much = JobSpec::run("much", |_| async { Ok("".into()) }).estimate_usd_micros(rest + 1);
    let enough = JobSpec::run("enough", |_| async { Ok("".into()) }).estimate_usd_micros(rest);
    let group = session.fan_out([too_much, enough]).await.unwrap();
    let ends = group.wait(STUCK).await.unwrap();
    let ends: Vec<_> = ends.entries.iter().map(|entry| entry.summary()).collect();
    assert_eq!(ends, ["error{budget usd}", "completed"]);
    supervisor.shutdown().await;
}

// BU-7, BU-8: a crash in the middle changes no sum, and frees what was set aside.
#[tokio::test]
async fn a_crash_charges_nothing_twice_and_frees_what_was_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = start_over(dir.path()).await;
    let session = session(&supervisor, usd(1_000)).await;
    let gate = Gate::new();
    let body = |ctx: RunContext| async move {
        ctx.used(cost("bill", 300));
        ctx.cancelled().await;
        Err(JobError::new("stopped"))
    };
    session.start(JobSpec::run("lost", body).estimate_usd_micros(800)).await.unwrap();
    let waits = costs("waits", 1, &gate).estimate_usd_micros(600);
    let waits = session.start(waits).await.unwrap();
    let told = async {
        while account(&supervisor, &session).spent.cost_usd_micros != Some(300) {
            tokio::task::yield_now().await;
        }
    };
    soon(told).await;
    assert_eq!(account(&supervisor, &session).reserved_usd_micros, 500);
    assert_eq!(supervisor.get(waits.id()).unwrap().phase.as_deref(), Some("budget"));
    // The records so far are on disk once a later call has been answered.
    supervisor.session("another").await.unwrap();
    drop((session, waits, supervisor));

    let supervisor = Supervisor::builder().journal(journal(dir.path()).await).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let now = account(&supervisor, &session);
    assert_eq!((now.spent.cost_usd_micros, now.reserved_usd_micros), (Some(300), 0));
    assert_eq!(now.spent.unaccounted_max_usd_micros, 500);
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_person_raises_what_is_used_up() {
    let supervisor = start().await;
    let session = session(&supervisor, usd(100)).await;
    let gate = Gate::new();
    gate.open();
    let run = async |label: &str| {
        let job = session.start(costs(label, 100, &gate)).await.unwrap();
        job.wait(STUCK).await.unwrap().status
    };
    let named = Named::Session(session.id().clone());
    // It ends as its use is told: whichever of the two comes first.
    run("all of it").await;
    assert_eq!(run("nothing left").await, Status::Error);
    supervisor.set_budget(&named, usd(300)).await.unwrap();
    assert_eq!(run("more").await, Status::Completed);
    for wrong in [Budget::NONE, usd(0), Budget { steps: Some(5), ..Budget::NONE }] {
        let error = supervisor.set_budget(&named, wrong).await.unwrap_err();
        assert_eq!(error.code(), "bad_limit", "{wrong:?}");
    }
    let nobody = Named::Group(fanin_supervisor::protocol::GroupId::parse("nobody").unwrap());
    assert_eq!(supervisor.account(&nobody).unwrap_err().code(), "unknown_group");
}

#[tokio::test]
async fn a_budget_of_nothing_is_refused_at_every_door() {
    let bounds = Bounds { budget: usd(0), ..Bounds::default() };
    let error = Supervisor::builder().bounds(bounds).start().await.unwrap_err();
    assert!(matches!(error, StartError::Call(CallError::Refused(Refusal::BadLimit(_)))), "{error:?}");
    let (supervisor, session) = start_with_parent().await;
    let options = SessionOptions { profile: None, bounds: Some(bounds) };
    assert!(supervisor.session_with("other", options).await.is_err());
    let job = || JobSpec::run("a", |_| async { Ok("".into()) });
    let options = GroupOptions { policy: Policy::ALL.with_budget(usd(0)), ..GroupOptions::default() };
    let refused = [
        session.fan_out_with(options, [job()]).await.map(drop),
        session.start(job().budget(usd(0))).await.map(drop),
        session.start(job().estimate_usd_micros(u64::MAX)).await.map(drop),
    ];
    for (refused, code) in refused.into_iter().zip(["bad_policy", "bad_spec", "bad_spec"]) {
        let Err(LaunchError::Call(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.code(), code);
    }
    assert_eq!(supervisor.list(&Default::default()).unwrap().jobs.len(), 0);
    assert_eq!(Dimension::Usd.as_str(), "usd");
}
