//! Parents that launch, cancel, promote, extend and are woken for as long as they live, over a store: for tests that kill
//! them. They say what they were told, one line each, and say it only after they were told. It is its own shim.
//!
//! `killed DIR go LIFE TOKEN [GROUP:JOBS]...` says that it serves, waits for a line, and works until it is killed; each
//! group that is named was asked for in an earlier life that told nobody what became of it, and is asked for again.
//! `killed DIR end LIFE TOKEN` takes all that is owed and ends in order.

mod client;

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fanin_subprocess::{SubprocessRunner, shim};
use fanin_supervisor::{Delivery, Filter, Message, Session, Since, Supervisor};
use fanin_tests::stores::{journal, said_by};
use tokio::task::JoinSet;

use crate::client::Client;

/// Parents that work at once, each with a session of its own.
const CLIENTS: usize = 8;
/// Longer than a wake that is owed takes to come.
const QUIET: Duration = Duration::from_millis(300);

type Failure = Box<dyn Error + Send + Sync>;

fn say(line: &str) {
    // One write, so that a kill leaves a whole line or none. Nobody listens to one that is being killed.
    let _ = io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

fn main() -> ExitCode {
    if shim::is_called() {
        return shim::main();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match runtime.block_on(run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("killed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &[String]) -> Result<(), Failure> {
    let [dir, way, life, token, asked @ ..] = args else {
        return Err("killed DIR go|end LIFE TOKEN [GROUP:JOBS]...".into());
    };
    let supervisor = Supervisor::builder()
        .runner(SubprocessRunner::with_shim("/proc/self/exe"))
        .grace(Duration::from_millis(200))
        .journal(journal(Path::new(dir)).await)
        .start()
        .await?;
    let mut sessions = Vec::new();
    for n in 0..CLIENTS {
        sessions.push(supervisor.session(format!("parent-{n}")).await?);
    }
    say("opened");
    // Somebody looks at what is left of earlier lives before anything new is there.
    let _ = io::stdin().read_line(&mut String::new())?;
    let mut tasks = JoinSet::new();
    match way.as_str() {
        "go" => {
            tasks.spawn(watch(supervisor.clone()));
            for (who, session) in sessions.into_iter().enumerate() {
                tasks.spawn(take(session.clone()));
                let client = Client { supervisor: supervisor.clone(), session, who, token: token.clone() };
                let name = format!("{life}-{who}");
                let mine: Vec<String> = asked.iter().filter(|ask| client.asked(ask)).cloned().collect();
                tasks.spawn(async move { client.work(&name, &mine).await });
            }
        }
        "end" => drop(sessions.into_iter().map(|session| tasks.spawn(take_all(session))).count()),
        _ => return Err("it is `go` or `end`".into()),
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    supervisor.shutdown().await;
    say("closed");
    Ok(())
}

/// Says each event that it sees.
async fn watch(supervisor: Supervisor) -> Result<(), Failure> {
    let mut events = supervisor.subscribe(Filter::default(), Since::Now).await?;
    while let Some(delivery) = events.next().await {
        match delivery {
            Delivery::Event(event) => {
                let (seq, ts_ms) = (event.seq().0, event.ts_ms());
                say(&format!("event {seq} {ts_ms} {} {}", event.kind(), said_by(event.record())));
            }
            other => return Err(format!("{other}").into()),
        }
    }
    Ok(())
}

/// Takes what comes; now and then it drops a message, which comes again.
async fn take(session: Session) -> Result<(), Failure> {
    for n in 0u64.. {
        let message = session.next_message().await?;
        if n % 5 != 4 {
            take_one(message).await?;
        }
    }
    Ok(())
}

/// Takes all that is owed. Nothing runs, so all of it is there.
async fn take_all(session: Session) -> Result<(), Failure> {
    while let Ok(message) = tokio::time::timeout(QUIET, session.next_message()).await {
        take_one(message?).await?;
    }
    Ok(())
}

async fn take_one(message: Message) -> Result<(), Failure> {
    match message {
        Message::Wake(wake) => say(&format!("acked {}", wake.ack().await?.group)),
        Message::Words(words) => {
            let key = words.key().clone();
            words.ack().await?;
            say(&format!("heard {key}"));
        }
        Message::Hit(hit) => say(&format!("seen {}", hit.take())),
    }
    Ok(())
}
