//! What a shim holds: whole trees, exact endings, and nothing that outlives its job or its supervisor.

mod descriptors;
mod dying;
mod lost;
mod starts;
mod trees;

use std::time::Duration;

use fanin_protocol::Left;
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::protocol::{Record, ResultEntry};
use fanin_supervisor::{Delivery, Filter, Job, JobSpec, Session, Since, Subscription, Supervisor};
use fanin_tests::cases::process::Pids;
use fanin_tests::cases::soon;

/// A program that is its own shim.
const HOST: &str = env!("CARGO_BIN_EXE_host");

const MS: Duration = Duration::from_millis(1);

/// A supervisor whose commands have shims, and what it says of them.
struct Shimmed {
    supervisor: Supervisor,
    session: Session,
    pids: Pids,
    ends: Subscription,
}

async fn start() -> Shimmed {
    let runner = SubprocessRunner::with_shim(HOST);
    let supervisor = Supervisor::builder().runner(runner).grace(200 * MS).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let pids = Pids::of(&supervisor).await;
    let ends = supervisor.subscribe(Filter::all().kinds(["run.ended"]), Since::Now).await.unwrap();
    Shimmed { supervisor, session, pids, ends }
}

impl Shimmed {
    /// Starts a shell line; its main process.
    async fn shell(&mut self, line: &str) -> (Job, u32) {
        let job = self.session.start(JobSpec::shell("job", line)).await.unwrap();
        let (_, pid) = self.pids.next().await;
        (job, pid)
    }

    /// Runs a shell line to its end.
    async fn run(&mut self, line: &str) -> (ResultEntry, Option<Left>) {
        let job = self.session.start(JobSpec::shell("job", line)).await.unwrap();
        self.ended(&job).await
    }

    /// The end of a job: what the record of its run says that it left.
    async fn ended(&mut self, job: &Job) -> (ResultEntry, Option<Left>) {
        let entry = job.wait(fanin_tests::cases::STUCK).await.unwrap();
        let Some(Delivery::Event(event)) = soon(self.ends.next()).await else { panic!("no run.ended") };
        assert_eq!(event.job(), Some(job.id()));
        let Record::RunEnded(ended) = event.record() else { panic!("{event:?}") };
        (entry, ended.left.as_deref().cloned())
    }
}
