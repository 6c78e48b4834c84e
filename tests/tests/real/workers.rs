//! The real opencode as a worker: what it may do, what it leaves, and how it is stopped.

use std::path::Path;
use std::time::Duration;

use fanin_acp::{AcpRunner, Agent, Agents};
use fanin_protocol::{AgentSpec, PartState, Record, Rights};
use fanin_supervisor::{Delivery, Filter, JobSpec, Session, Since, Supervisor};
use fanin_tests::cases::assert_nothing_lives;

use crate::agent::{PATIENCE, Place, until};

/// opencode as it is known, with its program and its home in this place, and all rights.
fn opencode(place: &Place) -> Agents {
    let agents = Agents::default();
    let mut agent: Agent = agents.find("opencode").unwrap().clone().rights(Rights::Full);
    agent.command = place.words().into_iter().chain(["acp".to_owned()]).collect();
    agent.env.extend(place.variables());
    agents.with("opencode", agent)
}

async fn start(place: &Place) -> (Supervisor, Session) {
    let runner =
        AcpRunner::new(opencode(place)).with_shim(env!("CARGO_BIN_EXE_host")).answer_within(PATIENCE);
    let supervisor = Supervisor::builder().runner(runner).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    (supervisor, session)
}

/// A prompt in the project of a place.
fn spec(place: &Place, prompt: &str, rights: Rights) -> JobSpec {
    let agent = AgentSpec::new("opencode", prompt).cwd(place.path("project")).rights(rights);
    JobSpec::new(prompt, agent).start_timeout(PATIENCE)
}

/// All records so far of these kinds.
async fn records(supervisor: &Supervisor, kinds: &[&'static str]) -> Vec<Record> {
    let mut all = supervisor.subscribe(Filter::all().kinds(kinds), Since::Start).await.unwrap();
    let mut records = Vec::new();
    while let Ok(Delivery::Event(event)) = all.try_next() {
        records.push(event.record().clone());
    }
    records
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_works_within_its_rights_and_wakes_its_parent_once() {
    let Some(place) = Place::new("FANIN_OPENCODE") else { return };
    let (supervisor, session) = start(&place).await;
    let specs = [
        spec(&place, "HELLO there", Rights::ReadOnly),
        spec(&place, "TOUCH go denied", Rights::ReadOnly),
        spec(&place, "TOUCH go edited", Rights::Edit),
        spec(&place, "TOUCH go allowed", Rights::Full),
    ];
    session.fan_out(specs).await.unwrap();
    let wake = tokio::time::timeout(3 * PATIENCE, session.next_wake()).await.unwrap().unwrap();
    let told: Vec<_> = wake
        .result()
        .entries
        .iter()
        .map(|entry| {
            let text = entry.output.as_ref().map_or("", |output| output.text.trim());
            format!("{} {text} {}", entry.summary(), entry.message.as_deref().unwrap_or_default())
        })
        .collect();
    let expected = ["AFTER ok", "noted", "noted", "noted"].map(|text| format!("completed {text} "));
    assert_eq!(told, expected);
    wake.ack().await.unwrap();
    let is_there = |name: &str| Path::new(&place.path("project")).join(name).exists();
    assert_eq!(["denied", "edited", "allowed"].map(is_there), [false, false, true]);
    let bound = records(&supervisor, &["run.bound"]).await;
    let is_named = |record: &Record| matches!(record, Record::RunBound(bound) if bound.external_session.as_deref().is_some_and(|id| id.starts_with("ses")));
    assert_eq!((bound.len(), bound.iter().filter(|record| is_named(record)).count()), (4, 4));
    let ended = records(&supervisor, &["part"]).await.into_iter().filter(
        |record| matches!(record, Record::ToolPart(part) if part.state == PartState::Completed && &*part.name == "execute"),
    );
    assert_eq!(ended.count(), 1, "the one command that ran");
    assert_nothing_lives(&supervisor);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_that_waits_for_its_model_is_stopped_in_time_and_leaves_nothing() {
    let Some(place) = Place::new("FANIN_OPENCODE") else { return };
    let (supervisor, session) = start(&place).await;
    let job = session.start(spec(&place, "WORK slow", Rights::ReadOnly)).await.unwrap();
    let asked = || place.model.was_asked("WORK slow");
    tokio::task::block_in_place(|| until("the request to the model", asked));
    job.cancel().await.unwrap();
    let entry = job.wait(Duration::from_secs(30)).await.unwrap();
    assert_eq!((entry.summary().as_str(), entry.unreaped), ("cancelled{user}", false));
    assert_nothing_lives(&supervisor);
}
