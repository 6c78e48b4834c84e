//! A parent that launches, cancels and is woken for as long as it lives, over a store: for tests that kill it. It says
//! what it was told, one line each, and says it only after it was told.
//!
//! `killed DIR go` works until it is killed; `killed DIR end` takes the wakes that are owed and ends in order.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use fanin_supervisor::{Delivery, Filter, JobSpec, Session, Since, Supervisor};
use fanin_tests::stores::start_over;

fn say(line: &str) {
    // One write, so that a kill leaves a whole line or none.
    let _ = io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(dir), Some(way)) = (args.next(), args.next()) else { return Err("killed DIR go|end".into()) };
    if !["go", "end"].contains(&way.as_str()) {
        return Err("killed DIR go|end".into());
    }
    let supervisor = start_over(Path::new(&dir)).await;
    let session = supervisor.session("parent").await?;
    say("opened");
    if way == "go" {
        tokio::spawn(watch(supervisor.clone()));
        tokio::spawn(take(session.clone()));
        return work(&session).await;
    }
    // Nothing runs: all that is owed is there.
    while let Ok(wake) = tokio::time::timeout(Duration::from_millis(300), session.next_wake()).await {
        let group = wake?.ack().await?.group.clone();
        say(&format!("acked {group}"));
    }
    supervisor.shutdown().await;
    say("closed");
    Ok(())
}

/// Says each event that it sees.
async fn watch(supervisor: Supervisor) -> Result<(), String> {
    let filter = Filter::default();
    let mut events = supervisor.subscribe(filter, Since::Now).await.map_err(|error| error.to_string())?;
    while let Some(delivery) = events.next().await {
        if let Delivery::Event(event) = delivery {
            say(&format!("event {} {}", event.seq().0, event.kind()));
        }
    }
    Ok(())
}

/// Takes wakes; now and then it drops one, which comes again.
async fn take(session: Session) -> Result<(), String> {
    for n in 0u64.. {
        let wake = session.next_wake().await.map_err(|error| error.to_string())?;
        if n % 5 == 4 {
            continue;
        }
        let group = wake.ack().await.map_err(|error| error.to_string())?.group.clone();
        say(&format!("acked {group}"));
    }
    Ok(())
}

/// Fan-outs of two to seven jobs with tool calls, of which some are cancelled and some never end.
async fn work(session: &Session) -> Result<(), Box<dyn Error>> {
    for n in 0u64.. {
        let jobs = (0..2 + n % 6).map(|k| {
            JobSpec::run(format!("job-{k}"), move |context| async move {
                for call in 0..k {
                    let call = context.tool(format!("call-{call}"), "shell");
                    call.begin();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    call.complete();
                }
                if n % 4 == 3 && k == 0 {
                    context.cancelled().await;
                }
                Ok("done".into())
            })
        });
        let group = session.fan_out(jobs).await?;
        say(&format!("launched {} {}", group.id(), group.jobs().len()));
        if n % 4 == 3 {
            group.cancel().await?;
            say(&format!("cancelled {}", group.id()));
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    Ok(())
}
