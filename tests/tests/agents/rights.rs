//! What agents ask for, and what they are answered.

use std::sync::Arc;

use fanin_protocol::{JobKind, Spec};
use fanin_supervisor::{Bound, Ending, RunContext, RunFuture, Runner};

use super::*;

/// What an agent with these rights is told when it asks for each of these kinds.
async fn told(place: &Place, rights: Rights, kinds: &[&str]) -> Vec<String> {
    let script: String = kinds.iter().map(|kind| format!("ask {kind} {kind};")).collect();
    let spec = AgentSpec::new("well", script).rights(rights);
    let entry = place.ended(JobSpec::new("job", spec)).await;
    assert_eq!(entry.summary(), "completed");
    text(&entry).lines().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn permission_is_given_by_rights_and_by_the_kind_of_an_answer() {
    let place = place().await;
    let kinds = ["read", "search", "edit", "delete", "execute", "fetch", "unsaid"];
    for (rights, allowed) in [(Rights::ReadOnly, 2), (Rights::Edit, 4), (Rights::Full, 7)] {
        let told = told(&place, rights, &kinds).await;
        let expected =
            (0..kinds.len()).map(|n| if n < allowed { "the allow_once" } else { "the reject_once" });
        assert_eq!(told, expected.collect::<Vec<_>>(), "{rights}");
    }
}

// B80: nobody is asked, so nobody has denied.
#[tokio::test]
async fn a_question_is_a_part_that_says_why_it_was_answered_so() {
    let place = place().await;
    told(&place, Rights::Edit, &["edit", "execute"]).await;
    let parts = [
        "permission-1 edit: allowed_by_rights: Pending Completed",
        "permission-2 full: denied_no_human: Pending Error",
    ];
    assert_eq!(place.parts().await, parts);
}

#[tokio::test]
async fn a_call_that_was_announced_as_more_than_it_asks_for_counts_as_more() {
    let place = place().await;
    let spec = AgentSpec::new("well", "tool a execute; ask a read; done a").rights(Rights::Edit);
    let entry = place.ended(JobSpec::new("job", spec)).await;
    assert_eq!(text(&entry), "the reject_once\n");
}

// B78: whatever a task asks for, its agent's configuration and the supervisor's ceiling hold.
#[tokio::test]
async fn no_task_has_more_rights_than_its_agent() {
    let few = Agents::none().with("well", Agent::acp([FAKE, "well"]));
    let capped = Agents::none().with("well", fake("well")).at_most(Rights::ReadOnly);
    for agents in [few, capped] {
        let place = place_of(agents).await;
        assert_eq!(told(&place, Rights::Full, &["edit"]).await, ["the reject_once"]);
        let entry = place.run("env FANIN_RIGHTS").await;
        assert_eq!(text(&entry), "read-only");
        let bound = place.records(&["run.bound"]).await;
        let is_few = |record: &Record| matches!(record, Record::RunBound(bound) if bound.rights == Some(Rights::ReadOnly));
        assert!(bound.len() == 2 && bound.iter().all(is_few), "{bound:?}");
    }
}

/// Runs a command by launching an agent below its job, which says what it may do.
#[derive(Debug)]
struct Launches;

impl Runner for Launches {
    fn kind(&self) -> JobKind {
        JobKind::Command
    }

    fn check(&self, _: &Spec) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, _: Arc<Spec>, context: RunContext) -> RunFuture {
        Box::pin(async move {
            context.bound(Bound::default());
            let spec = AgentSpec::new("well", "env FANIN_RIGHTS").rights(Rights::Full);
            let job = context.start(JobSpec::new("child", spec)).await.unwrap();
            let entry = job.wait(STUCK).await.unwrap();
            Ending::completed(text(&entry).into())
        })
    }
}

// B78: below an agent's job the rights of that job hold, whatever the child asks for.
#[tokio::test]
async fn no_job_has_more_rights_than_one_above_it() {
    let agents = agents().with("boss", Agent::command(["x", "{prompt}"]).rights(Rights::Full));
    let runner = AcpRunner::new(agents).with_shim(HOST).with_commands(Launches);
    let supervisor = Supervisor::builder().runner(runner).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    for rights in Rights::ALL {
        let boss = AgentSpec::new("boss", "go").rights(rights);
        let job = session.start(JobSpec::new("job", boss)).await.unwrap();
        assert_eq!(text(&job.wait(STUCK).await.unwrap()), rights.as_str());
    }
}

#[tokio::test]
async fn an_agent_has_no_files_and_terminals_of_ours() {
    let place = place().await;
    assert_eq!(text(&place.run("read").await), "read -32601");
}

/// A fake agent whose sessions have modes, and which is told these of them.
fn with_modes(way: &str, modes: [&str; 3]) -> Agents {
    let mut agent = fake(way);
    for (rights, mode) in Rights::ALL.into_iter().zip(modes) {
        // One that it never offers is passed over.
        agent = agent.modes(rights, ["unheard-of", mode]);
    }
    agent.session_meta.insert("fake".to_owned(), 1.into());
    Agents::none().with("agent", agent)
}

// Its own configuration can have it in a mode in which it asks nothing.
#[tokio::test]
async fn an_agent_with_modes_is_in_that_of_its_rights_before_it_is_asked() {
    let place = place_of(with_modes("modal", ["asks", "edits", "does-all"])).await;
    for (rights, mode) in Rights::ALL.into_iter().zip(["asks", "edits", "unset"]) {
        let spec = AgentSpec::new("agent", "mode; say  ; meta").rights(rights);
        let entry = place.ended(JobSpec::new("job", spec)).await;
        assert_eq!(text(&entry), format!("{mode}{{\"fake\":1}}"), "{rights}");
    }
}

#[tokio::test]
async fn an_agent_that_has_no_mode_for_its_rights_is_asked_nothing_unless_it_may_do_all() {
    for (way, mode, why) in
        [("modal", "missing", "no mode `unheard-of` or `missing`"), ("stubborn", "asks", "not that one")]
    {
        let place = place_of(with_modes(way, [mode; 3])).await;
        for rights in Rights::ALL {
            let spec = AgentSpec::new("agent", "say asked").rights(rights);
            let entry = place.ended(JobSpec::new("job", spec)).await;
            if rights == Rights::Full {
                assert_eq!(text(&entry), "asked", "{}", message(&entry));
                continue;
            }
            assert_eq!((entry.summary().as_str(), text(&entry)), ("error{spawn handshake}", ""), "{rights}");
            assert!(message(&entry).contains(why), "{}", message(&entry));
        }
    }
    // One without modes is held by the answers to its questions.
    let place = place_of(with_modes("well", ["asks"; 3])).await;
    let spec = AgentSpec::new("agent", "say asked").rights(Rights::ReadOnly);
    assert_eq!(text(&place.ended(JobSpec::new("job", spec)).await), "asked");
}
