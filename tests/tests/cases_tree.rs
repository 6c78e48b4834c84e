//! Cases of the tree: jobs that launch jobs, join them, and take them along.

use std::time::Duration;

use fanin_supervisor::protocol::{Cause, Reason, Status};
use fanin_supervisor::{JobError, JobFilter, JobOutput, JobSpec, RunContext, Session, Supervisor};
use fanin_tests::cases::*;

/// Lets others go on until this has come true.
async fn until(is_so: impl Fn() -> bool) {
    soon(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A job that puts out its label.
fn ok(label: &'static str) -> JobSpec {
    JobSpec::run(label, move |_| async move { Ok(label.into()) })
}

async fn start_with_slots(slots: usize) -> (Supervisor, Session) {
    let supervisor = Supervisor::builder().slots(slots).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    (supervisor, session)
}

// B18: the job is not over until its work is, and the end of that work reaches the job's parent.
#[tokio::test(start_paused = true)]
async fn a_job_that_leaves_work_behind_is_over_with_that_work() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let left = gate.clone();
    let group = session
        .fan_out([JobSpec::run("leaver", |ctx| async move {
            ctx.start(gated("left", &left)).await?;
            Ok("returned".into())
        })])
        .await
        .unwrap();
    let mut wake = Box::pin(session.next_wake());
    assert!(poll_once(wake.as_mut()).is_pending());
    let job = group.jobs()[0].clone();
    until(|| supervisor.get(&job).unwrap().phase.as_deref() == Some("joining")).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(poll_once(wake.as_mut()).is_pending(), "woken with work left behind");
    let info = supervisor.get(&job).unwrap();
    assert_eq!((info.status, info.phase.as_deref()), (Status::Running, Some("joining")));
    assert!(matches!(&info.why[..], [Reason::Children { open: 1, first }] if first.len() == 1));

    gate.open();
    let wake = soon(wake).await.unwrap().ack().await.unwrap();
    assert_eq!(wake.entries.iter().map(output).collect::<Vec<_>>(), ["returned"]);
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
}

// B18: a body takes what it launched, by a wait or by its own wakes, and its siblings see nothing of it.
#[tokio::test(start_paused = true)]
async fn a_job_waits_for_its_children_and_is_woken_by_them() {
    let (supervisor, session) = start_with_parent().await;
    session
        .fan_out([JobSpec::run("parent", |ctx: RunContext| async move {
            let group = ctx.fan_out([ok("a"), ok("b")]).await?;
            let waited = group.wait(Duration::from_secs(5)).await?;
            ctx.start(ok("c")).await?;
            let wake = ctx.next_wake().await?.ack().await?;
            Ok(format!("{} then {}", waited.counts.completed, output(&wake.entries[0])).into())
        })])
        .await
        .unwrap();
    let wake = soon(session.next_wake()).await.unwrap().ack().await.unwrap();
    assert_eq!(wake.entries.iter().map(output).collect::<Vec<_>>(), ["2 then c"]);
    no_wake(&session).await;
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
}

/// A job with three children that run and two that wait, none of which ends by itself.
async fn family(ctx: RunContext) -> Result<JobOutput, JobError> {
    let never = |n| {
        JobSpec::run(format!("child_{n}"), |ctx: RunContext| async move {
            ctx.cancelled().await;
            Ok("stopped".into())
        })
    };
    ctx.fan_out((0..5).map(never)).await?;
    ctx.cancelled().await;
    Ok("stopped".into())
}

// B34
#[tokio::test(start_paused = true)]
async fn a_cancelled_parent_takes_all_five_children_along() {
    let (supervisor, session) = start_with_slots(4).await;
    let parent = session.start(JobSpec::run("parent", family)).await.unwrap();
    until(|| supervisor.list(&JobFilter::default()).unwrap().jobs.len() == 6).await;
    parent.cancel().await.unwrap();
    let entry = soon(parent.wait(Duration::from_secs(15))).await.unwrap();
    assert_eq!((entry.status, entry.cause), (Status::Cancelled, Some(Cause::User)));
    let jobs = supervisor.list(&JobFilter::default()).unwrap().jobs;
    let children: Vec<_> = jobs.iter().filter(|info| info.job != *parent.id()).collect();
    assert_eq!(children.len(), 5);
    assert!(
        children.iter().all(|info| (info.status, info.cause) == (Status::Cancelled, Some(Cause::Parent)))
    );
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
}
