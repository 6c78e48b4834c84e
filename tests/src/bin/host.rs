//! A harness as small as it can be: it runs shell lines as jobs, is its own shim, and says what becomes of them. Tests
//! kill it.
//!
//! `host LINE...` writes one line for each record that tells of a process or an end: `KIND JSON`. It ends when all of
//! the jobs have.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use fanin_subprocess::{SubprocessRunner, shim};
use fanin_supervisor::{Delivery, Filter, JobSpec, Since, Supervisor};

fn main() -> ExitCode {
    if shim::is_called() {
        return shim::main();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(std::env::args().skip(1)));
    ExitCode::SUCCESS
}

async fn run(lines: impl Iterator<Item = String>) {
    let runner = SubprocessRunner::with_shim("/proc/self/exe");
    let supervisor =
        Supervisor::builder().runner(runner).grace(Duration::from_millis(200)).start().await.unwrap();
    let filter = Filter::all().kinds(["run.bound", "run.ended", "job.ended"]);
    let mut events = supervisor.subscribe(filter, Since::Start).await.unwrap();
    let session = supervisor.session("host").await.unwrap();
    let group = session.fan_out(lines.map(|line| JobSpec::shell("line", line))).await.unwrap();
    let mut left = group.jobs().len();
    while left > 0 {
        let Some(Delivery::Event(event)) = events.next().await else { panic!("no more events") };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{} {}", event.kind(), event.record().json_body().unwrap()).unwrap();
        out.flush().unwrap();
        left -= usize::from(event.kind() == "job.ended");
    }
    supervisor.shutdown().await;
}
