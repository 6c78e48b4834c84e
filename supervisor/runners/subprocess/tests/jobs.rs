//! Command jobs through the supervisor: what a launcher sees of them.

#![allow(clippy::unwrap_used)]

#[path = "jobs/watches.rs"]
mod watches;

use std::path::Path;
use std::time::{Duration, Instant};

use fanin_process::{Ancestry, Table};
use fanin_protocol::limits::DEPTH_MAX;
use fanin_protocol::{AgentSpec, JobId, JobKind, Lifetime, ParentMark, Spec, Status};
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::{JobSpec, Runner as _, Session, Supervisor};

/// Far more than anything here takes.
const LIMIT: Duration = Duration::from_secs(20);

async fn supervisor() -> (Supervisor, Session) {
    let supervisor = Supervisor::builder().runner(SubprocessRunner::new()).start().await.unwrap();
    let session = supervisor.session("main").await.unwrap();
    (supervisor, session)
}

/// Polls: progress is a value, and no event tells of it.
async fn progress(supervisor: &Supervisor, job: &JobId) -> String {
    let started = Instant::now();
    loop {
        if let Some(line) = supervisor.progress(job) {
            return line.to_string();
        }
        assert!(started.elapsed() < LIMIT, "no progress");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn is_there(pid: &str) -> bool {
    assert!(pid.parse::<u32>().is_ok());
    Path::new("/proc").join(pid).exists()
}

#[tokio::test]
async fn each_way_to_end_is_told_apart_in_one_result() {
    let (supervisor, session) = supervisor().await;
    let jobs = [
        JobSpec::command("fine", ["echo", "out"]),
        JobSpec::shell("status", "echo err >&2; exit 3"),
        JobSpec::command("missing", ["no-such-program"]),
        JobSpec::shell("signal", "kill -KILL $$"),
    ];
    let group = session.fan_out(jobs).await.unwrap();
    let result = group.wait(LIMIT).await.unwrap();
    let seen: Vec<String> = result.entries.iter().map(fanin_protocol::ResultEntry::summary).collect();
    let expected =
        ["completed", "error{failed exit_status}", "error{spawn program_not_found}", "error{failed signal}"];
    assert_eq!(seen, expected);
    let exits: Vec<_> = result.entries.iter().map(|entry| (entry.exit_code, entry.signal)).collect();
    assert_eq!(exits, [(Some(0), None), (Some(3), None), (None, None), (None, Some(9))]);
    let texts: Vec<_> = result
        .entries
        .iter()
        .map(|entry| entry.output.as_ref().map(|output| output.text.to_string()))
        .collect();
    assert_eq!(texts, [Some("out\n".into()), Some("err\n".into()), None, None]);
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_cancelled_command_that_ignores_it_is_killed_after_its_grace() {
    let (supervisor, session) = supervisor().await;
    let line = "trap '' TERM; echo $$; while :; do sleep 60; done";
    let job = session.start(JobSpec::shell("deaf", line).grace(Duration::from_millis(300))).await.unwrap();
    let pid = progress(&supervisor, job.id()).await;
    let cancelled = Instant::now();
    job.cancel().await.unwrap();
    let entry = job.wait(LIMIT).await.unwrap();
    let took = cancelled.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_millis(1_300), "{took:?}");
    assert_eq!((entry.status, entry.signal, entry.unreaped), (Status::Cancelled, Some(9), false));
    assert!(!is_there(&pid));
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_cancelled_command_that_finishes_well_says_so() {
    let (supervisor, session) = supervisor().await;
    let line = "exec 2>/dev/null; trap 'echo cleaned; exit 0' TERM; echo $$; while :; do sleep 0.05; done";
    let job = session.start(JobSpec::shell("polite", line)).await.unwrap();
    let pid = progress(&supervisor, job.id()).await;
    job.cancel().await.unwrap();
    let entry = job.wait(LIMIT).await.unwrap();
    assert_eq!((entry.status, entry.completed_anyway), (Status::Cancelled, true));
    assert_eq!(&*entry.output.unwrap().text, format!("{pid}\ncleaned\n"));
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_suspended_command_follows_a_polite_stop() {
    let (supervisor, session) = supervisor().await;
    let line = "echo $$; kill -STOP $$; exec sleep 60";
    let job = session.start(JobSpec::shell("suspended", line)).await.unwrap();
    let pid = progress(&supervisor, job.id()).await;
    let stat = Path::new("/proc").join(pid).join("stat");
    let started = Instant::now();
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        assert!(started.elapsed() < LIMIT, "not suspended");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    job.cancel().await.unwrap();
    // Well within the grace of 10 s: TERM ended it, not KILL.
    let entry = job.wait(LIMIT / 4).await.unwrap();
    assert_eq!((entry.status, entry.signal), (Status::Cancelled, Some(15)));
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_command_over_its_time_is_stopped() {
    let (supervisor, session) = supervisor().await;
    let spec = JobSpec::command("slow", ["sleep", "60"]).timeout(Duration::from_millis(100));
    let entry = session.start(spec).await.unwrap().wait(LIMIT).await.unwrap();
    assert_eq!((entry.summary().as_str(), entry.signal), ("error{timeout run}", Some(15)));
    supervisor.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_supervisor_leaves_no_command() {
    let (supervisor, session) = supervisor().await;
    let job = session.start(JobSpec::shell("long", "echo $$; exec sleep 60")).await.unwrap();
    let pid = progress(&supervisor, job.id()).await;
    assert!(is_there(&pid));
    drop((supervisor, session, job));
    let started = Instant::now();
    while is_there(&pid) {
        assert!(started.elapsed() < LIMIT, "alive or defunct");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn only_commands_are_taken() {
    let runner = SubprocessRunner::new();
    let agent = Spec::Agent(AgentSpec::new("a", "p"));
    assert_eq!(runner.kind(), JobKind::Command);
    assert!(runner.check(&agent).unwrap_err().contains("agent"));
    assert!(runner.check(&Spec::Command(fanin_protocol::CommandSpec::argv(["true"]))).is_ok());
}

/// The line that a command writes to this file.
async fn written(folder: &tempfile::TempDir, name: &str) -> String {
    let started = Instant::now();
    loop {
        match std::fs::read_to_string(folder.path().join(name)) {
            Ok(line) if line.ends_with('\n') => return line.trim().to_owned(),
            Ok(_) | Err(_) => assert!(started.elapsed() < LIMIT, "nothing was written"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

// SEC-3: a token is worth something to the supervisor that gave it, for its own run, while that lives.
#[tokio::test]
async fn a_token_proves_to_be_part_of_its_run_and_only_while_that_lives() {
    let folder = tempfile::tempdir().unwrap();
    let (supervisor, session) = supervisor().await;
    let (stranger, _) = self::supervisor().await;
    let line = |name: &str| {
        let file = folder.path().join(name);
        let file = file.display();
        format!("echo \"$FANIN_TOKEN\" > {file}; while [ ! -e {file}.go ]; do sleep 0.01; done; exit 3")
    };
    let first = session.start(JobSpec::shell("a", line("a")).retries(1)).await.unwrap();
    let second = session.start(JobSpec::shell("b", line("b"))).await.unwrap();
    let (a, b) = (written(&folder, "a").await, written(&folder, "b").await);
    let run = supervisor.run_of(&a).unwrap().unwrap();
    assert_eq!((&run.job, run.lifetime), (first.id(), first.lifetime()));
    assert_eq!((run.session.to_string().as_str(), run.depth, run.depth_max), ("main", 1, DEPTH_MAX));
    assert_eq!(supervisor.run_of(&b).unwrap().unwrap().job, *second.id());
    // Neither half of it, nor that of another run, nor anywhere else.
    let (job, secret) = a.split_once('/').unwrap();
    let (other, _) = b.split_once('/').unwrap();
    for wrong in ["", job, secret, &format!("{other}/{secret}"), &a[..a.len() - 1], &format!("{a}0")] {
        assert_eq!(supervisor.run_of(wrong).unwrap(), None, "{wrong}");
    }
    assert_eq!(stranger.run_of(&a).unwrap(), None);
    // The next run of the same job has another one.
    std::fs::remove_file(folder.path().join("a")).unwrap();
    std::fs::write(folder.path().join("a.go"), "").unwrap();
    std::fs::write(folder.path().join("b.go"), "").unwrap();
    second.wait(LIMIT).await.unwrap();
    assert_eq!(supervisor.run_of(&b).unwrap(), None);
    first.wait(LIMIT).await.unwrap();
    let again = std::fs::read_to_string(folder.path().join("a")).unwrap();
    assert_ne!(again.trim(), a);
    for old in [&*a, again.trim()] {
        assert_eq!(supervisor.run_of(old).unwrap(), None);
    }
    supervisor.shutdown().await;
}

// SEC-3: a caller without a token is known by its process, also where it has dropped what its environment said.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_without_a_token_is_known_by_those_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let (supervisor, session) = supervisor().await;
    let file = folder.path().join("pid");
    let inner = format!("echo $$ > {0}; while [ ! -e {0}.go ]; do sleep 0.01; done", file.display());
    let line = format!("env -i PATH=\"$PATH\" sh -c '{inner}'; :");
    let job = session.start(JobSpec::shell("a", line)).await.unwrap();
    let pid: u32 = written(&folder, "pid").await.parse().unwrap();
    let caller = Ancestry::of(&Table::default(), pid).parent.unwrap();
    let run = supervisor.run_in(&caller).unwrap().unwrap();
    assert_eq!((&run.job, run.lifetime), (job.id(), job.lifetime()));
    let (stranger, _) = self::supervisor().await;
    assert_eq!(stranger.run_in(&caller).unwrap(), None);
    let earlier = ParentMark { lifetime: Lifetime(0), ..caller.clone() };
    assert_eq!(supervisor.run_in(&earlier).unwrap(), None);
    std::fs::write(folder.path().join("pid.go"), "").unwrap();
    job.wait(LIMIT).await.unwrap();
    assert_eq!(supervisor.run_in(&caller).unwrap(), None, "it is over");
    supervisor.shutdown().await;
}
