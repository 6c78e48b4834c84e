//! Cases of what leaves the memory: not too early, not too late, and what is answered then (SC-23).

use std::time::Duration;

use fanin_supervisor::protocol::limits::{FINISHED_AGE, FINISHED_JOBS};
use fanin_supervisor::protocol::{JobId, Lifetime, Status};
use fanin_supervisor::{CallError, JobFilter, Session, Supervisor};
use fanin_tests::cases::*;

const MINUTE: Duration = Duration::from_secs(60);

fn id(text: &str) -> JobId {
    JobId::parse(text).unwrap()
}

/// Time passes, and what is due then is done: nobody else runs.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Longer than what is over is kept: an hour, and up to a full minute.
async fn pass_all() {
    pass(FINISHED_AGE + 2 * MINUTE).await;
}

/// So many jobs that end at once, in one group whose result is taken. The alarm of that moment is over as well.
async fn taken(session: &Session, jobs: usize) {
    session.fan_out((0..jobs).map(|_| idle("other"))).await.unwrap().wait(STUCK).await.unwrap();
    pass(Duration::from_millis(1)).await;
}

fn code<T: std::fmt::Debug>(answer: Result<T, CallError>) -> &'static str {
    answer.unwrap_err().code()
}

fn listed(supervisor: &Supervisor) -> Vec<Lifetime> {
    let all = JobFilter { limit: usize::MAX, ..JobFilter::default() };
    supervisor.list(&all).unwrap().jobs.iter().map(|job| job.lifetime).collect()
}

// B48: a job whose result was taken can be looked at for an hour, and every call then says that it was there once.
#[tokio::test(start_paused = true)]
async fn a_taken_job_is_kept_for_an_hour_and_expires() {
    let (supervisor, session) = start_with_parent().await;
    let job = session.start(idle("a").id(id("a"))).await.unwrap();
    let lifetime = job.lifetime();
    job.wait(STUCK).await.unwrap();
    pass(FINISHED_AGE - MINUTE).await;
    assert_eq!(supervisor.get(&id("a")).unwrap().status, Status::Completed);
    assert_eq!(supervisor.output(&id("a")).unwrap().text(), "done");
    pass(3 * MINUTE).await;
    let a = id("a");
    assert_eq!(code(supervisor.get(&a)), "expired");
    assert_eq!(code(supervisor.get_exact(&a, lifetime)), "expired");
    assert_eq!(code(supervisor.output(&a)), "expired");
    assert_eq!(code(supervisor.why(&a)), "expired");
    assert_eq!(code(supervisor.cancel(&a).await), "expired");
    assert_eq!(code(supervisor.extend(&a, "more").await), "expired");
    assert_eq!(code(supervisor.promote(&a).await), "expired");
    assert_eq!(code(supervisor.extend_time(&a, MINUTE).await), "expired");
    assert_eq!(supervisor.follow(&a, 0).unwrap_err().code(), "expired");
    assert_eq!(supervisor.read_output(&a, 0, 1).unwrap_err().code(), "expired");
    assert_eq!(session.wait_all(&[a], STUCK).await.unwrap_err().code(), "expired");
    assert_eq!(code(supervisor.get(&id("b"))), "unknown_job");
    assert_eq!(listed(&supervisor), []);
}

// B48: what lives, waits or is owed stays, however much comes and goes beside it and however long that takes.
#[tokio::test(start_paused = true)]
async fn what_lives_or_is_owed_is_never_let_go() {
    let supervisor = Supervisor::builder().slots(2).start().await.unwrap();
    let (session, owing) =
        (supervisor.session("parent").await.unwrap(), supervisor.session("owing").await.unwrap());
    let gate = Gate::new();
    let half = session.fan_out([idle("h0").id(id("h0")), gated("h1", &gate).id(id("h1"))]).await.unwrap();
    drop(owing.start(idle("owed").id(id("owed"))).await.unwrap());
    taken(&session, 2 * FINISHED_JOBS).await;
    drop(owing.start(gated("running", &gate).id(id("running"))).await.unwrap());
    drop(owing.start(idle("queued").id(id("queued"))).await.unwrap());
    for _ in 0..3 {
        pass_all().await;
    }
    let status = |name| supervisor.get(&id(name)).unwrap().status;
    assert_eq!(["h0", "h1"].map(status), [Status::Completed, Status::Running]);
    assert_eq!(
        ["owed", "running", "queued"].map(status),
        [Status::Completed, Status::Running, Status::Queued]
    );
    assert_eq!(listed(&supervisor).len(), 5, "the others are gone");
    // A wait on a long done and a running job gets both.
    let both = async { session.wait_all(&[id("h0"), id("h1")], None).await.unwrap() };
    let (both, ()) = tokio::join!(both, async { gate.open() });
    assert_eq!(both.entries.iter().map(output).collect::<Vec<_>>(), ["done", "h1"]);
    drop(half);
    assert_eq!(output(&owing.next_wake().await.unwrap().ack().await.unwrap().entries[0]), "done");
}

// B48: where there is too much, what was read first goes first, and what nobody will read goes last.
#[tokio::test(start_paused = true)]
async fn too_many_go_in_the_order_in_which_they_were_read() {
    let (supervisor, session) = start_with_parent().await;
    let closed = supervisor.session("closed").await.unwrap();
    closed.start(gated("unread", &Gate::new()).id(id("unread"))).await.unwrap();
    closed.start(idle("owed").id(id("owed"))).await.unwrap();
    over(&supervisor, &[id("owed")]).await;
    closed.close().await.unwrap();
    over(&supervisor, &[id("unread")]).await;
    let (first, second) = (
        session.start(idle("first").id(id("first"))).await.unwrap(),
        session.start(idle("second").id(id("second"))).await.unwrap(),
    );
    second.wait(STUCK).await.unwrap();
    first.wait(STUCK).await.unwrap();
    taken(&session, FINISHED_JOBS - 4).await;
    assert_eq!(listed(&supervisor).len(), FINISHED_JOBS);
    taken(&session, 1).await;
    assert_eq!(code(supervisor.get(&id("second"))), "expired");
    taken(&session, 1).await;
    assert_eq!(code(supervisor.get(&id("first"))), "expired");
    taken(&session, FINISHED_JOBS - 2).await;
    assert!(
        ["unread", "owed"].iter().all(|name| supervisor.get(&id(name)).is_ok()),
        "what was read goes before"
    );
    assert_eq!(listed(&supervisor).len(), FINISHED_JOBS);
    // A group that is more than may be kept goes as it is taken, and as a whole; now what is unread goes as well.
    taken(&session, 2 * FINISHED_JOBS).await;
    assert!(listed(&supervisor).len() <= FINISHED_JOBS);
}

// B47: a session that waits to go after its jobs does not keep those of others, nor its own, which nobody will read.
#[tokio::test(start_paused = true)]
async fn jobs_of_closed_sessions_go_as_well() {
    let supervisor = Supervisor::builder().start().await.unwrap();
    for name in ["a", "b"] {
        let session = supervisor.session(name).await.unwrap();
        let gate = Gate::new();
        session.fan_out((0..FINISHED_JOBS).map(|_| gated("void", &gate))).await.unwrap();
        session.close().await.unwrap();
        supervisor.drained().await;
    }
    pass(Duration::from_millis(1)).await;
    assert_eq!(listed(&supervisor).len(), FINISHED_JOBS, "the first go, as there are too many");
    pass_all().await;
    assert_eq!(listed(&supervisor), [], "and the others after an hour");
}

// B41: an old life goes when it is due, and the new one of its id does not mind.
#[tokio::test(start_paused = true)]
async fn a_new_life_is_not_hit_by_the_end_of_the_old_one() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let old = session.start(idle("a").id(id("a"))).await.unwrap();
    let life = old.lifetime();
    old.wait(STUCK).await.unwrap();
    pass(FINISHED_AGE - MINUTE).await;
    let new = session.start(gated("a", &gate).id(id("a")).again()).await.unwrap();
    assert!(supervisor.get_exact(&id("a"), life).is_ok());
    pass(3 * MINUTE).await;
    assert_eq!(code(supervisor.get_exact(&id("a"), life)), "expired");
    assert_eq!(supervisor.get(&id("a")).unwrap().lifetime, new.lifetime());
    gate.open();
    assert_eq!(output(&new.wait(STUCK).await.unwrap()), "a");
    pass_all().await;
    assert_eq!(code(supervisor.get(&id("a"))), "expired");
    // An id that has expired is free.
    assert_eq!(
        output(&session.start(idle("a").id(id("a"))).await.unwrap().wait(STUCK).await.unwrap()),
        "done"
    );
}

// A list is read while jobs vanish from it: what stays is there once, in its order.
#[tokio::test(start_paused = true)]
async fn pages_join_while_jobs_vanish() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let mut stays = Vec::new();
    for _ in 0..30 {
        taken(&session, 3).await;
        stays.push(session.start(gated("stays", &gate)).await.unwrap().lifetime());
    }
    let mut seen = Vec::new();
    let mut page = supervisor.list(&JobFilter { limit: 25, ..JobFilter::default() }).unwrap();
    seen.extend(page.jobs.iter().map(|job| job.lifetime));
    pass_all().await;
    while let Some(from) = page.next {
        page = supervisor.list(&JobFilter { from: Some(from), limit: 7, ..JobFilter::default() }).unwrap();
        seen.extend(page.jobs.iter().map(|job| job.lifetime));
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "none comes twice");
    assert!(stays.iter().all(|life| seen.contains(life)), "none that stays is skipped");
    assert_eq!(listed(&supervisor), stays);
}

// A closed session goes after its jobs, and its id can be opened again.
#[tokio::test(start_paused = true)]
async fn a_closed_session_goes_and_can_be_opened_again() {
    let (supervisor, session) = start_with_parent().await;
    session.start(idle("a").id(id("a"))).await.unwrap();
    over(&supervisor, &[id("a")]).await;
    session.close().await.unwrap();
    assert_eq!(supervisor.session("parent").await.unwrap_err().code(), "session_closed");
    for _ in 0..3 {
        pass_all().await;
    }
    assert_eq!(code(supervisor.get(&id("a"))), "expired");
    let again = supervisor.session("parent").await.unwrap();
    assert_eq!(output(&again.start(idle("b")).await.unwrap().wait(STUCK).await.unwrap()), "done");
}
