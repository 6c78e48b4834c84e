//! A harness's parent loop, and below it the tests that its author writes with `fanin_supervisor::testing`.
//!
//! Run it with `cargo run -p fanin-tests --example parent_loop`, and its tests with
//! `cargo test -p fanin-tests --example parent_loop`.

use std::collections::VecDeque;
use std::error::Error;
use std::time::Duration;

use fanin_supervisor::testing::{FakeRunner, script, start_with, story};
use fanin_supervisor::{JobSpec, Session, Wake};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let agents = FakeRunner::agents()
        .on("lint", script().fails("2 warnings"))
        .otherwise(script().after(Duration::from_millis(300)).echoes());
    let (supervisor, session) = start_with(&agents).await;
    let mut model = Model::new(Duration::ZERO, [fan_out(), Step::Rest, Step::Answer("the survey is done")]);
    println!("{}", parent_loop(&session, &mut model, "Survey this folder").await?);
    story(&session).iter().for_each(|line| println!("  {line}"));
    supervisor.shutdown().await;
    Ok(())
}

/// Gives the model turn after turn until it has an answer.
///
/// Between two turns it is woken: once for all that was launched in the turn before.
async fn parent_loop(
    session: &Session,
    model: &mut Model,
    task: &str,
) -> Result<&'static str, Box<dyn Error>> {
    let mut input = task.to_owned();
    let mut wake: Option<Wake> = None;
    loop {
        let turn = session.turn().await?;
        let answer = one_turn(session, model, &input).await?;
        // Only now has the model worked with the result. Where its turn fails, the wake is dropped and comes again.
        if let Some(wake) = wake.take() {
            wake.ack().await?;
        }
        turn.end().await?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
        let next = session.next_wake().await?;
        input = next.result().to_text();
        wake = Some(next);
    }
}

/// One turn: steps of the model until it rests or has an answer.
async fn one_turn(
    session: &Session,
    model: &mut Model,
    input: &str,
) -> Result<Option<&'static str>, Box<dyn Error>> {
    let mut input = input.to_owned();
    loop {
        match model.step(&input).await? {
            Step::FanOut(subtasks) => {
                let limit = Duration::from_secs(30 * 60);
                let jobs = subtasks
                    .into_iter()
                    .map(|(label, prompt)| JobSpec::agent(label, "worker", prompt).timeout(limit));
                let group = session.fan_out(jobs).await?;
                input = format!("{} jobs launched", group.jobs().len());
            }
            Step::Rest => return Ok(None),
            Step::Answer(text) => return Ok(Some(text)),
        }
    }
}

/// What a model does next.
enum Step {
    /// It hands out subtasks, label and prompt, and goes on with its turn.
    FanOut(Vec<(&'static str, &'static str)>),
    /// It ends its turn, to be woken.
    Rest,
    /// It is done.
    Answer(&'static str),
}

/// Three subtasks at once.
fn fan_out() -> Step {
    Step::FanOut(vec![("scan", "Count the files"), ("lint", "Look for warnings"), ("docs", "Read the docs")])
}

/// A model that says what it was told to say.
struct Model {
    /// What it needs for a step.
    thinks: Duration,
    steps: VecDeque<Step>,
    /// What it was shown, step by step.
    seen: Vec<String>,
}

impl Model {
    fn new(thinks: Duration, steps: impl IntoIterator<Item = Step>) -> Self {
        Self { thinks, steps: steps.into_iter().collect(), seen: Vec::new() }
    }

    async fn step(&mut self, input: &str) -> Result<Step, Box<dyn Error>> {
        self.seen.push(input.to_owned());
        tokio::time::sleep(self.thinks).await;
        self.steps.pop_front().ok_or_else(|| "the model is out of reach".into())
    }
}

#[cfg(test)]
mod tests {
    use fanin_supervisor::JobFilter;
    use fanin_supervisor::testing::{
        assert_nothing_lives, assert_nothing_owed, assert_woken, no_wake, summary, woken,
    };
    use tokio::time::Instant;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn three_jobs_of_which_one_fails_are_one_wake() {
        let agents = FakeRunner::agents()
            .on("lint", script().after(MINUTE).fails("2 warnings"))
            .otherwise(script().after(20 * MINUTE).completes("nothing new"));
        let (supervisor, session) = start_with(&agents).await;
        let mut model = Model::new(SECOND, [fan_out(), Step::Rest, Step::Answer("fix the lint")]);
        assert_eq!(parent_loop(&session, &mut model, "Survey this").await.unwrap(), "fix the lint");
        assert!(model.seen[2].contains("2 warnings"));
        assert_woken(&session, 1);
        assert_nothing_owed(&session);
        assert_nothing_lives(&supervisor);
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_that_are_over_during_a_turn_wake_after_it() {
        let agents = FakeRunner::agents().otherwise(script().after(SECOND).completes("ok"));
        let (_supervisor, session) = start_with(&agents).await;
        let mut model = Model::new(MINUTE, [fan_out(), Step::Rest, Step::Answer("done")]);
        parent_loop(&session, &mut model, "Survey this").await.unwrap();
        let told = story(&session);
        let told: Vec<&str> = told.iter().map(|line| line.split(':').next().unwrap()).collect();
        let expected = ["turn", "sealed", "fired", "turn over", "turn", "taken by a wake", "turn over"];
        assert_eq!(told, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_whose_turn_fails_comes_again() {
        let agents = FakeRunner::agents().otherwise(script().completes("ok"));
        let (_supervisor, session) = start_with(&agents).await;
        let mut model = Model::new(SECOND, [fan_out(), Step::Rest]);
        parent_loop(&session, &mut model, "Survey this").await.unwrap_err();
        assert_woken(&session, 0);
        let again = woken(&session).await;
        assert_eq!(summary(&again.entries), ["scan: completed", "lint: completed", "docs: completed"]);
        no_wake(&session).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_hangs_is_stopped_after_ten_minutes_and_keeps_what_it_wrote() {
        let agents = FakeRunner::agents()
            .on("docs", script().writes("half of it").hangs())
            .otherwise(script().completes("ok"));
        let (_supervisor, session) = start_with(&agents).await;
        let mut model = Model::new(Duration::ZERO, [fan_out(), Step::Rest, Step::Answer("done")]);
        let begun = Instant::now();
        parent_loop(&session, &mut model, "Survey this").await.unwrap();
        assert_eq!(begun.elapsed(), 10 * MINUTE);
        assert!(model.seen[2].contains("error{timeout idle}") && model.seen[2].contains("half of it"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_the_user_cancels_is_an_entry_like_any_other() {
        let agents = FakeRunner::agents().on("scan", script().hangs()).otherwise(script().completes("ok"));
        let (supervisor, session) = start_with(&agents).await;
        let user = async {
            agents.until_started("scan").await;
            let scan = supervisor.list(&JobFilter::default()).unwrap().jobs.swap_remove(0);
            supervisor.cancel(&scan.job).await.unwrap();
        };
        let mut model = Model::new(SECOND, [fan_out(), Step::Rest, Step::Answer("done")]);
        let (done, ()) = tokio::join!(parent_loop(&session, &mut model, "Survey this"), user);
        done.unwrap();
        assert!(model.seen[2].contains("cancelled{user}"));
        assert_woken(&session, 1);
    }
}
