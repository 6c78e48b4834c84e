//! Question: what does a mail cost, from its send to its receipt?
//!
//! Unit: nanoseconds a mail from one member to another; the partner is a bounded `tokio::sync::mpsc` channel of as much
//! room between two tasks, round by round in turn. On both sides the sender waits for a permit of a semaphore that the
//! receiver gives back, so that nobody sends into a full inbox. Run: `cargo bench -p fanin-benches --bench mail`. With
//! `-- --gate` it fails at twice the aim: a shared machine is noisy.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fanin_benches::{Error, Figures, ratio, table};
use fanin_protocol::JobId;
use fanin_protocol::limits::MAIL_INBOX_MAX;
use fanin_supervisor::{JobError, JobSpec, Supervisor};
use tokio::sync::{Semaphore, mpsc};

/// Mails of a round.
const MAILS: usize = 100_000;
const ROUNDS: usize = 7;
/// The aim: against the channel.
const AIM: f64 = 3.0;
/// How long a receiver waits, which it never does for so long.
const LONG: Duration = Duration::from_secs(30);

fn main() -> Result<ExitCode, Error> {
    let gate = std::env::args().any(|arg| arg == "--gate");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut ours, mut partner) = (Figures::default(), Figures::default());
    for round in 0..=ROUNDS {
        let mail = runtime.block_on(mail())?;
        let channel = runtime.block_on(channel())?;
        // The first round warms up the allocator and the caches.
        if round > 0 {
            ours.add(mail, MAILS);
            partner.add(channel, MAILS);
        }
    }
    table::head("mails", "fanin ns/mail (min..max)", "channel ns/mail (min..max)");
    table::row(MAILS, &ours, &partner);
    println!("mail: aim {AIM}x");
    Ok(if gate && ratio(&ours, &partner) > 2.0 * AIM { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Two members: one sends, the other receives.
async fn mail() -> Result<Duration, Error> {
    let sends = u32::try_from(MAILS)?;
    let supervisor = Supervisor::builder().sends_per_member(sends).start().await?;
    let session = supervisor.session("bench").await?;
    let text: Arc<str> = "found it in src/model".into();
    let takes = Arc::new(Semaphore::new(MAIL_INBOX_MAX));
    let gives = Arc::clone(&takes);
    let start = Instant::now();
    let sender = JobSpec::run("sender", move |context| async move {
        for _ in 0..MAILS {
            takes.acquire().await?.forget();
            context.team_send("receiver", Arc::clone(&text)).await?;
        }
        Ok(().into())
    });
    let receiver = JobSpec::run("receiver", |context| async move {
        for _ in 0..MAILS {
            context.team_recv(None, LONG).await?.ok_or_else(|| JobError::new("no mail came"))?;
            gives.add_permits(1);
        }
        Ok(().into())
    });
    let specs =
        [sender.id(JobId::parse("sender")?).sends(["receiver"]), receiver.id(JobId::parse("receiver")?)];
    let result = session.fan_out(specs).await?.wait(None).await?;
    let took = start.elapsed();
    assert_eq!(result.counts.completed, 2, "{result:?}");
    supervisor.shutdown().await;
    Ok(took)
}

async fn channel() -> Result<Duration, Error> {
    let text: Arc<str> = "found it in src/model".into();
    let takes = Arc::new(Semaphore::new(MAIL_INBOX_MAX));
    let gives = Arc::clone(&takes);
    let (sender, mut receiver) = mpsc::channel(MAIL_INBOX_MAX);
    let start = Instant::now();
    let sends = tokio::spawn(async move {
        for _ in 0..MAILS {
            takes.acquire().await?.forget();
            sender.send(Arc::clone(&text)).await?;
        }
        Ok::<_, Error>(())
    });
    let receives = tokio::spawn(async move {
        let mut received = 0;
        while received < MAILS && receiver.recv().await.is_some() {
            received += 1;
            gives.add_permits(1);
        }
        received
    });
    sends.await??;
    assert_eq!(receives.await?, MAILS);
    Ok(start.elapsed())
}
