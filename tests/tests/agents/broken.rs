//! Agents that misbehave. None of them keeps anybody waiting, and each is named for what it did.

use fanin_protocol::limits::AGENT_LINE_BYTES_MAX;
use fanin_tests::cases::assert_nothing_lives;

use super::*;

/// The end of a task of an agent that never takes its prompt, tried once.
async fn unprompted(place: &Place, agent: &str) -> ResultEntry {
    let entry = place.ended(JobSpec::agent("job", agent, "say x").retries(0)).await;
    assert_nothing_lives(&place.supervisor);
    assert_eq!(entry.output, None);
    entry
}

#[tokio::test]
async fn what_goes_wrong_before_the_prompt_is_named() {
    let place = place().await;
    for (agent, end, words) in [
        ("missing", "error{spawn program_not_found}", "\"no-such-agent\" was not found"),
        ("dies", "error{spawn handshake}", "(exit status 7); it wrote: no licence"),
        ("garbage", "error{spawn handshake}", "lines that are no messages of ACP"),
        ("old", "error{spawn handshake}", "only supports ACP protocol version 1"),
        ("wrong", "error{spawn handshake}", "`initialize` with an error"),
        ("unwilling", "error{spawn handshake}", "out of order"),
        ("closes", "error{spawn handshake}", "closed its output"),
        ("logged-out", "error{spawn auth_required}", "wants somebody to log in"),
    ] {
        let entry = unprompted(&place, agent).await;
        assert_eq!((entry.summary().as_str(), entry.runs), (end, 1), "{agent}: {}", message(&entry));
        assert!(message(&entry).contains(words), "{agent}: {}", message(&entry));
    }
}

#[tokio::test]
async fn words_before_the_first_message_are_forgiven() {
    let place = place().await;
    let entry = place.ended(JobSpec::agent("job", "noisy", "say x; garbage y; say z")).await;
    assert_eq!((entry.summary().as_str(), text(&entry)), ("completed", "xz"));
}

// SC-17: before the prompt nothing has taken effect, so it is tried again without asking; not where nobody has logged in.
#[tokio::test]
async fn only_what_may_help_is_tried_again() {
    let place = place().await;
    let group = soon(place.session.fan_out([
        JobSpec::agent("dies", "dies", "x"),
        JobSpec::agent("logged out", "logged-out", "x"),
        JobSpec::agent("prompted", "well", "exit 3"),
    ]));
    let result = group.await.unwrap().wait(STUCK).await.unwrap();
    let runs: Vec<_> = result.entries.iter().map(|entry| entry.runs).collect();
    assert_eq!(runs, [3, 1, 1]);
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_given_up_in_time() {
    let runner = AcpRunner::new(agents()).with_shim(HOST).answer_within(300 * MS);
    let supervisor = Supervisor::builder().runner(runner).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    for (agent, words) in
        [("mute", "did not answer `initialize` within 300ms"), ("sessionless", "within 300ms")]
    {
        let job = session.start(JobSpec::agent("job", agent, "x").retries(0)).await.unwrap();
        let entry = job.wait(STUCK).await.unwrap();
        assert_eq!(entry.summary(), "error{spawn handshake}", "{}", message(&entry));
        assert!(message(&entry).contains(words), "{}", message(&entry));
        assert_nothing_lives(&supervisor);
    }
}

#[tokio::test]
async fn the_limits_of_the_job_hold_before_the_prompt_and_after_it() {
    let place = place().await;
    let mute = JobSpec::agent("job", "mute", "x").start_timeout(100 * MS).retries(0);
    assert_eq!(place.ended(mute).await.summary(), "error{timeout start}");
    for (spec, end) in [
        (JobSpec::agent("job", "well", "wait").idle(300 * MS), "error{timeout idle}"),
        (JobSpec::agent("job", "well", "wait").timeout(300 * MS), "error{timeout run}"),
    ] {
        assert_eq!(place.ended(spec).await.summary(), end);
    }
    assert_nothing_lives(&place.supervisor);
}

// B99
#[tokio::test]
async fn an_agent_that_dies_in_its_turn_ends_the_job_with_its_exit() {
    let place = place().await;
    let entry = place.run("say so far; tool a execute; complain out of memory; exit 3").await;
    assert_eq!((entry.summary().as_str(), entry.exit_code), ("error{failed exit_status}", Some(3)));
    assert_eq!(text(&entry), "so far");
    assert!(message(&entry).contains("(exit status 3); it wrote: out of memory"), "{}", message(&entry));
    assert_eq!(place.parts().await, ["a execute: Pending Running Error!"], "closed as interrupted");
    let entry = place.run("say x; abort").await;
    assert_eq!((entry.summary().as_str(), entry.signal), ("error{failed signal}", Some(6)));
    let entry = place.run("say x; exit 0").await;
    assert_eq!(entry.summary(), "error{failed exit_status}", "a status of 0 is no answer");
    let entry = place.run("say x; close").await;
    assert_eq!(entry.summary(), "error{failed protocol}", "{}", message(&entry));
    let entry = place.run("say x; error -32603").await;
    assert_eq!(entry.summary(), "error{failed}");
    assert!(message(&entry).contains("it went wrong, code -32603"), "{}", message(&entry));
    let entry = place.run("say x; error -32000").await;
    assert_eq!((entry.summary().as_str(), entry.runs), ("error{failed auth_required}", 1));
    assert_nothing_lives(&place.supervisor);
}

#[tokio::test]
async fn a_call_that_is_left_open_in_a_turn_that_ended_well_is_closed_as_interrupted() {
    let place = place().await;
    assert_eq!(place.run("tool a execute; say x").await.summary(), "completed");
    assert_eq!(place.parts().await, ["a execute: Pending Running Error!"]);
}

#[tokio::test]
async fn what_is_said_twice_or_of_something_else_changes_nothing() {
    let place = place().await;
    let entry =
        place.run("say x; done nobody; done nobody; tool a read; done a; failed a; elsewhere y; twice").await;
    assert_eq!((entry.summary().as_str(), text(&entry)), ("completed", "x"));
    let parts = ["nobody other: Pending Completed", "a read: Pending Running Completed"];
    assert_eq!(place.parts().await, parts);
}

#[tokio::test]
async fn a_flood_is_taken_in_within_bounds() {
    let place = place().await;
    let entry = place.run("flood 5000; say z").await;
    let output = entry.output.as_ref().unwrap();
    assert_eq!((entry.summary().as_str(), output.bytes_total), ("completed", 5_000_001));
    assert!(output.truncated && output.text.ends_with("yz"));
}

#[tokio::test]
async fn a_line_without_end_and_requests_without_readers_are_cut_off() {
    let place = place().await;
    let entry = place.run(&format!("say x; long {}; wait", AGENT_LINE_BYTES_MAX + 1)).await;
    assert_eq!(entry.summary(), "error{failed protocol}");
    assert!(message(&entry).contains("a line of more than"), "{}", message(&entry));
    let entry = place.run("say x; pester 1000; wait").await;
    assert_eq!(entry.summary(), "error{failed protocol}");
    assert!(message(&entry).contains("reads no answers"), "{}", message(&entry));
    assert_nothing_lives(&place.supervisor);
}

// B58: a prompt beyond the limit is refused, the largest one is taken.
#[tokio::test]
async fn a_large_prompt_is_taken_or_refused_by_a_limit() {
    let place = place().await;
    let script = |bytes: usize| format!("think {}; say x", "p".repeat(bytes));
    let most = fanin_protocol::limits::PROMPT_BYTES_MAX - 100;
    let specs = (0..7).map(|n| JobSpec::agent(format!("{n}"), "well", script(most)));
    let result = soon(place.session.fan_out(specs)).await.unwrap().wait(STUCK).await.unwrap();
    assert!(result.entries.iter().all(|entry| text(entry) == "x"));
    let error = place.session.start(JobSpec::agent("job", "well", script(most + 200))).await.unwrap_err();
    assert!(error.to_string().contains("262144"), "{error}");
}
