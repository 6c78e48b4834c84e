//! A parent that launches in the middle of its turn, goes on with its own work, and is woken once.
//!
//! Run it with `cargo run -p fanin-tests --example wake_after_turn`.

use std::error::Error;

use fanin_supervisor::{JobSpec, Supervisor};
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for line in converse().await? {
        println!("{line}");
    }
    Ok(())
}

/// Lives through one turn and the wake after it, and returns what happened in order.
pub(crate) async fn converse() -> Result<Vec<String>, Box<dyn Error>> {
    let supervisor = Supervisor::builder().start().await?;
    let session = supervisor.session("main").await?;
    let mut story = Vec::new();

    // The parent is busy from here on. What it starts now belongs to one group: the group of this turn.
    let turn = session.turn().await?;
    let quick = session.start(JobSpec::run("quick", |_| async { Ok("done at once".into()) })).await?;
    let (finish, finished) = oneshot::channel();
    let slow = JobSpec::run("slow", |_| async move { Ok(format!("heard {:?}", finished.await?).into()) });
    session.start(slow).await?;

    // It needs one answer at once, and takes it with a wait. The other job goes on.
    let answer = quick.wait(None).await?;
    story.push(format!("in the turn: {} is {}", answer.label.as_deref().unwrap_or("-"), answer.status));
    turn.end().await?;

    // Only now does the slow job get what it waits for. Its end is the end of the group, and so the one wake.
    if finish.send("the bell").is_err() {
        return Err("the slow job ended too early".into());
    }
    let wake = session.next_wake().await?;
    story.push(format!(
        "woken: {} of {} jobs completed",
        wake.result().counts.completed,
        wake.result().counts.launched
    ));
    for entry in &wake.result().entries {
        let label = entry.label.as_deref().unwrap_or("-");
        story.push(match &entry.output {
            Some(output) => format!("{label}: {}", output.text),
            // What the parent has from its wait is not repeated.
            None if entry.reference => format!("{label}: known already"),
            None => format!("{label}: no output"),
        });
    }
    // Taken: it never comes again. A wake that is dropped without this comes once more.
    wake.ack().await?;
    supervisor.shutdown().await;
    Ok(story)
}
