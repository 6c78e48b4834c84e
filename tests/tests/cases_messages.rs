//! Talking to running jobs and to parents: what is accepted is answered or shown, and nothing is dropped (B57, B07, S-2).

use std::time::Duration;

use fanin_supervisor::protocol::{Code, JobId, MessageId, Status};
use fanin_supervisor::{
    CallError, JobError, JobSpec, Message, NotAccepted, Queued, Refusal, RunContext, Session,
};
use fanin_tests::cases::{Gate, QUIET, start_with_parent};

/// A body that answers the text it began with, and each follow-up until none is left.
async fn talk(context: RunContext, gate: Gate) -> Result<fanin_supervisor::JobOutput, JobError> {
    context.listen();
    gate.passed().await;
    let mut answers = vec!["first".to_owned()];
    while let Some(message) = context.last_message().await? {
        answers.push(message.to_uppercase());
    }
    Ok(answers.join(" ").into())
}

fn talker(gate: &Gate) -> JobSpec {
    let gate = gate.clone();
    JobSpec::run("talker", move |context| talk(context, gate))
}

fn refused(queued: Result<Queued, CallError>) -> NotAccepted {
    match queued {
        Err(CallError::Refused(Refusal::NotAccepted { why, .. })) => why,
        other => panic!("{other:?}"),
    }
}

/// Waits until a job takes follow-ups.
async fn until_listening(job: &fanin_supervisor::Job, text: &str) {
    while let Err(error) = job.extend(text).await {
        assert!(matches!(error, CallError::Refused(Refusal::NotAccepted { .. })), "{error}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_follow_up_that_was_accepted_is_answered_before_its_job_ends() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let job = session.start(talker(&gate)).await.unwrap();
    until_listening(&job, "more").await;
    let queued = supervisor.extend(job.id(), "again").await.unwrap();
    assert!(queued.created);
    gate.open();
    let entry = job.wait(None).await.unwrap();
    assert_eq!(&*entry.output.unwrap().text, "first MORE AGAIN");
    assert_eq!((entry.status, entry.unanswered), (Status::Completed, 0));
    assert_eq!(refused(job.extend("late").await), NotAccepted::Over);
    supervisor.shutdown().await;
}

#[tokio::test]
async fn who_takes_no_follow_ups_says_so() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let body = gate.clone();
    let deaf = JobSpec::run("deaf", move |context| async move {
        body.passed().await;
        context.cancelled().await;
        Ok(().into())
    });
    let job = session.start(deaf).await.unwrap();
    assert_eq!(refused(job.extend("hello").await), NotAccepted::NotListening);
    job.cancel().await.unwrap();
    assert_eq!(refused(supervisor.extend(job.id(), "hello").await), NotAccepted::Stopping);
    let nobody = JobId::parse("nobody").unwrap();
    assert_eq!(supervisor.extend(&nobody, "hello").await, Err(Refusal::UnknownJob(nobody).into()));
    gate.open();
    job.wait(None).await.unwrap();
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_body_that_ignores_what_it_accepted_does_not_complete_and_its_result_shows_it() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let body = gate.clone();
    let rude = JobSpec::run("rude", move |context| async move {
        context.listen();
        body.passed().await;
        Ok("done".into())
    });
    let job = session.start(rude).await.unwrap();
    until_listening(&job, "one").await;
    job.extend("two").await.unwrap();
    gate.open();
    let entry = job.wait(None).await.unwrap();
    assert_eq!((entry.status, entry.code, entry.unanswered), (Status::Error, Some(Code::Unanswered), 2));
    assert_eq!(&*entry.output.unwrap().text, "done", "what it did is kept");
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_job_that_waits_for_follow_ups_ends_when_it_is_stopped() {
    let (supervisor, session) = start_with_parent().await;
    let server = JobSpec::run("server", |context| async move {
        context.listen();
        let mut count = 0;
        while context.next_message().await.is_some() {
            count += 1;
        }
        Ok(format!("{count} answered").into())
    });
    let job = session.start(server).await.unwrap();
    until_listening(&job, "one").await;
    job.extend("two").await.unwrap();
    // Both are taken before the stop is told: a stop is no message.
    while job.info().unwrap().status == Status::Running {
        tokio::task::yield_now().await;
        if supervisor.cancel(job.id()).await.is_ok() {
            break;
        }
    }
    let entry = job.wait(Duration::from_secs(20)).await.unwrap();
    assert_eq!(entry.status, Status::Cancelled);
    supervisor.shutdown().await;
}

/// What a parent does with its next message.
async fn next(session: &Session) -> String {
    match session.next_message().await.unwrap() {
        Message::Wake(wake) => {
            let group = wake.result().entries[0].label.clone().unwrap().to_string();
            wake.ack().await.unwrap();
            group
        }
        Message::Words(words) => words.ack().await.unwrap().to_string(),
        Message::Hit(hit) => hit.take().to_string(),
    }
}

#[tokio::test]
async fn a_users_words_go_before_results_that_come_after_them() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let early = session.start(JobSpec::run("early", |_| async { Ok(().into()) })).await.unwrap();
    while !early.info().unwrap().status.is_terminal() {
        tokio::task::yield_now().await;
    }
    let body = gate.clone();
    let late = JobSpec::run("late", move |_| async move {
        body.passed().await;
        Ok(().into())
    });
    session.start(late).await.unwrap();
    let key = MessageId::parse("ask").unwrap();
    assert!(session.post("how far are you?", key.clone()).await.unwrap().created);
    assert!(!session.post("how far are you?", key).await.unwrap().created, "a known key");
    gate.open();
    // Dropped without `ack` it comes again.
    drop(session.next_message().await.unwrap());
    assert_eq!(
        [next(&session).await, next(&session).await, next(&session).await],
        ["early", "how far are you?", "late"]
    );
    supervisor.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_delivered_is_refused_at_once() {
    let (supervisor, session) = start_with_parent().await;
    let long = "x".repeat(fanin_supervisor::protocol::limits::PROMPT_BYTES_MAX + 1);
    let code = |error: CallError| error.code();
    assert_eq!(session.post(long, None).await.map_err(code), Err("too_large"));
    for _ in 0..fanin_supervisor::protocol::limits::INBOX_MESSAGES_MAX {
        session.post("hello", None).await.unwrap();
    }
    assert_eq!(session.post("hello", None).await.map_err(code), Err("inbox_full"));
    assert_eq!(next(&session).await, "hello");
    session.post("hello", None).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(session.post("hello", None).await.map_err(code), Err("session_closed"));
    supervisor.shutdown().await;
}

/// B07: the wake and an automatic continuation want the parent's next turn at once; a holder that fails lets go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_turn_at_a_time_and_a_holder_that_fails_lets_go() {
    let (supervisor, session) = start_with_parent().await;
    for round in 0..200 {
        let busy = session.turn().await.unwrap();
        session.fan_out([JobSpec::run("work", |_| async { Ok(().into()) })]).await.unwrap();
        let hook = {
            let session = session.clone();
            tokio::spawn(async move {
                // The hook takes the turn as soon as it can, and fails in it.
                let _turn = loop {
                    match session.turn().await {
                        Ok(turn) => break turn,
                        Err(CallError::Refused(Refusal::TurnOpen(_))) => tokio::task::yield_now().await,
                        Err(error) => panic!("round {round}: {error}"),
                    }
                };
                panic!("planned: the hook fails");
            })
        };
        drop(busy);
        let wake = tokio::time::timeout(Duration::from_secs(20), session.next_wake()).await;
        let wake = wake.unwrap_or_else(|_| panic!("no wake in round {round}")).unwrap();
        assert_eq!(wake.result().counts.completed, 1);
        wake.ack().await.unwrap();
        assert!(hook.await.unwrap_err().is_panic());
    }
    drop(session.turn().await.expect("the failed holder let go"));
    supervisor.shutdown().await;
}

/// A watch whose body fires these texts and says how often it may still.
fn watch(times: u32, texts: &'static [&'static str]) -> JobSpec {
    let body = JobSpec::run("watch", move |context: RunContext| async move {
        let mut left = Vec::new();
        for text in texts {
            left.push(match context.fire(*text).await {
                Ok(left) => left.to_string(),
                Err(error) => error.code().to_owned(),
            });
        }
        Ok(left.join(" ").into())
    });
    body.fires(times, QUIET)
}

// SC-22: each firing is one message, and what was not taken comes again.
#[tokio::test]
async fn each_firing_comes_once_and_again_where_it_was_not_taken() {
    let (supervisor, session) = start_with_parent().await;
    let job = session.start(watch(2, &["one", "two", "three"])).await.unwrap();
    let entry = job.wait(None).await.unwrap();
    assert_eq!(&*entry.output.unwrap().text, "1 0 firings_spent");
    drop(session.next_hit().await.unwrap());
    let first = session.next_hit().await.unwrap().take();
    assert_eq!((first.job, first.number), (job.id().clone(), 1));
    let Message::Hit(second) = session.next_message().await.unwrap() else { panic!("a firing comes first") };
    assert_eq!((second.number, second.seen()), (2, "two"));
    assert_eq!(session.owing().unwrap().hits, 1, "what is held is owed");
    second.take();
    while session.owing().unwrap().hits > 0 {
        tokio::task::yield_now().await;
    }
    supervisor.shutdown().await;
}

// SH-3: nobody waits for the end of a watch, and somebody for what it saw.
#[tokio::test(start_paused = true)]
async fn a_session_is_done_although_a_watch_runs_and_not_before_its_firing_was_taken() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let opens = gate.clone();
    let body = JobSpec::run("looks", |context: RunContext| async move {
        opens.passed().await;
        context.fire("seen").await?;
        std::future::pending().await
    });
    let job = session.start(body.fires(3, QUIET)).await.unwrap();
    assert!(session.owing().unwrap().is_nothing());
    gate.open();
    let hit = session.next_hit().await.unwrap();
    assert!(!session.owing().unwrap().is_nothing());
    hit.take();
    while !session.owing().unwrap().is_nothing() {
        tokio::task::yield_now().await;
    }
    assert_eq!(supervisor.get(job.id()).unwrap().status, Status::Running);
    session.close().await.unwrap();
    supervisor.shutdown().await;
}

// SC-22: its life ends it, as a limit does; what it saw stays owed.
#[tokio::test(start_paused = true)]
async fn the_life_of_a_watch_ends_it_and_what_it_saw_is_owed() {
    let (supervisor, session) = start_with_parent().await;
    let body = JobSpec::run("looks", |context: RunContext| async move {
        context.fire("seen").await?;
        std::future::pending().await
    });
    let job = session.start(body.fires(3, Duration::from_secs(60))).await.unwrap();
    let entry = job.wait(None).await.unwrap();
    assert_eq!((entry.status, entry.code), (Status::Error, Some(Code::Total)));
    assert_eq!(session.next_hit().await.unwrap().take().seen(), "seen");
    supervisor.shutdown().await;
}

// SC-22, SC-12: whoever takes nothing is not flooded, and nothing that was refused is counted.
#[tokio::test]
async fn a_firing_that_there_is_no_room_for_is_refused_and_may_be_said_later() {
    let (supervisor, session) = start_with_parent().await;
    for _ in 0..fanin_supervisor::protocol::limits::INBOX_MESSAGES_MAX {
        session.post("words", None).await.unwrap();
    }
    let (full, emptied) = (Gate::new(), Gate::new());
    let (says, waits) = (full.clone(), emptied.clone());
    let body = JobSpec::run("looks", |context: RunContext| async move {
        let refused = context.fire("seen").await.unwrap_err().code();
        says.open();
        waits.passed().await;
        let left = context.fire("seen").await?;
        let too_long = context.fire("x".repeat(5_000)).await.unwrap_err().code();
        Ok(format!("{refused} {left} {too_long}").into())
    });
    let job = session.start(body.fires(2, QUIET)).await.unwrap();
    full.passed().await;
    let Message::Words(words) = session.next_message().await.unwrap() else {
        panic!("words were posted first")
    };
    words.ack().await.unwrap();
    emptied.open();
    let entry = job.wait(None).await.unwrap();
    assert_eq!(&*entry.output.unwrap().text, "inbox_full 1 too_large");
    supervisor.shutdown().await;
}

// SC-22: a job that is no watch does not fire.
#[tokio::test]
async fn only_a_watch_fires() {
    let (supervisor, session) = start_with_parent().await;
    let body = |context: RunContext| async move {
        let watch = JobSpec::run("below", |_| async { Ok("".into()) }).fires(1, QUIET);
        let below = context.start(watch).await.unwrap_err().code();
        Ok(format!("{} {below}", context.fire("seen").await.unwrap_err().code()).into())
    };
    let entry = session.start(JobSpec::run("job", body)).await.unwrap().wait(None).await.unwrap();
    assert_eq!(&*entry.output.unwrap().text, "no_watch bad_watch");
    supervisor.shutdown().await;
}
