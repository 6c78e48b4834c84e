//! Who a client is, and what it may do: one that is part of a job acts for that job alone (SEC-3 to SEC-5).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use fanin_client::{CancelCall, Client, ClientError, LaunchCall, OpenSession, StopWhat, WaitCall};
use fanin_protocol::{JobFilter, JobId, Lifetime, NodeId, ParentMark, Rights, SessionId};
use fanin_service::{Origin, Peer};

use crate::common::{Served, command, launch, served_to, session};

/// What is said of processes.
type Said = Arc<Mutex<HashMap<u32, Origin>>>;

async fn served() -> (Served, Said) {
    let said = Said::default();
    let asked = Arc::clone(&said);
    let served = served_to(move |pid| asked.lock().unwrap().get(&pid).cloned().unwrap_or_default()).await;
    (served, said)
}

fn part_of(session: &str, job: &JobId, lifetime: Lifetime, (depth, depth_max): (u32, u32)) -> Origin {
    let session = SessionId::parse(session).unwrap();
    let parent = ParentMark { session, job: job.clone(), lifetime, depth, depth_max };
    Origin { parent: Some(parent), rights: Rights::Full }
}

fn below(labels: &[&str]) -> LaunchCall {
    LaunchCall { jobs: labels.iter().map(|label| command(label)).collect(), ..LaunchCall::default() }
}

fn stop(job: &JobId) -> CancelCall {
    CancelCall { what: StopWhat::Job(job.clone().into()), grace_ms: None }
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T, ClientError>) {
    assert_eq!(answer.unwrap_err().code(), "part_of_job");
}

/// What no client that is part of a job may do.
async fn acts_for_no_other(inside: &Client, main: &SessionId, other: &JobId) {
    is_refused(inside.launch(launch(main, &["a"])).await);
    is_refused(inside.next_wake(Some(main)).await);
    is_refused(inside.turn(main).await);
    is_refused(inside.post(main, "words", None).await);
    is_refused(inside.close_session(main).await);
    is_refused(inside.cancel(stop(other)).await);
    is_refused(inside.extend(other, None, "more").await);
    is_refused(inside.shutdown(None).await);
    let named = OpenSession { session: Some(main.clone()), ..OpenSession::default() };
    is_refused(inside.open_session(named).await);
    // It reads what all may read.
    inside.get(other.clone()).await.unwrap();
    inside.status().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_of_a_job_launches_below_its_job_and_changes_nothing_else() {
    let (served, said) = served().await;
    let client = served.client();
    let main = session(&client).await;
    let launched = client.launch(launch(&main, &["slow", "slow"])).await.unwrap();
    served.runner.until_started("slow").await;
    let (job, other) = (&launched.jobs[0], &launched.jobs[1]);
    said.lock().unwrap().insert(7, part_of("main", job, launched.lifetimes[0], (1, 8)));
    let inside = served.client_of(Peer::Process(7));
    let group = inside.launch(below(&["slow", "a"])).await.unwrap();
    let filter = JobFilter { below: Some(NodeId::Job(job.clone())), ..JobFilter::default() };
    let found = client.list(filter).await.unwrap();
    assert_eq!(found.jobs.iter().map(|job| job.job.clone()).collect::<Vec<_>>(), group.jobs);
    let wait = WaitCall { session: None, jobs: vec![group.jobs[1].clone()], limit_ms: None };
    assert_eq!(inside.wait_all(wait).await.unwrap().ack().await.unwrap().entries.len(), 1);
    acts_for_no_other(&inside, &main, other).await;
    inside.cancel(stop(&group.jobs[0])).await.unwrap();
    served.gate.open();
    client.wait_group(Some(&main), &launched.group, None).await.unwrap().ack().await.unwrap();
    is_refused(inside.launch(below(&["late"])).await);
}

#[tokio::test(start_paused = true)]
async fn a_process_of_another_supervisors_job_goes_no_deeper_than_it_may() {
    let (served, said) = served().await;
    let client = served.client();
    let main = session(&client).await;
    let other = client.launch(launch(&main, &["slow"])).await.unwrap().jobs.remove(0);
    let job = JobId::parse("elsewhere").unwrap();
    said.lock().unwrap().insert(7, part_of("outer", &job, Lifetime(3), (1, 2)));
    said.lock().unwrap().insert(8, part_of("outer", &job, Lifetime(3), (2, 2)));
    let inside = served.client_of(Peer::Process(7));
    acts_for_no_other(&inside, &main, &other).await;
    let own = inside.open_session(OpenSession::default()).await.unwrap();
    let launched = inside.launch(launch(&own, &["slow"])).await.unwrap();
    served.runner.until_started("slow").await;
    // A job of that one is at its depth.
    said.lock()
        .unwrap()
        .insert(9, part_of(&own.to_string(), &launched.jobs[0], launched.lifetimes[0], (1, 1)));
    let deeper = served.client_of(Peer::Process(9)).launch(below(&["a"])).await.unwrap_err();
    assert_eq!(deeper.code(), "depth");
    inside.cancel(stop(&launched.jobs[0])).await.unwrap();
    is_refused(served.client_of(Peer::Process(8)).open_session(OpenSession::default()).await);
}

#[tokio::test(start_paused = true)]
async fn a_process_below_an_agent_launches_nothing_that_may_do_more() {
    let (served, said) = served().await;
    let main = session(&served.client()).await;
    said.lock().unwrap().insert(7, Origin { parent: None, rights: Rights::Edit });
    let inside = served.client_of(Peer::Process(7));
    is_refused(inside.launch(launch(&main, &["a"])).await);
    let mut agent = launch(&main, &["a"]);
    for (rights, is_allowed) in [(None, false), (Some(Rights::Full), false), (Some(Rights::Edit), true)] {
        let mut spec = fanin_protocol::AgentSpec::new("worker", "count the files");
        spec.rights = rights;
        agent.jobs[0].spec = spec.into();
        let error = inside.launch(agent.clone()).await.unwrap_err();
        // There are no agents here, which is a refusal of its own.
        assert_eq!(error.code() == "no_runner", is_allowed, "{rights:?}: {}", error.code());
    }
}
