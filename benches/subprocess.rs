//! Questions: what does a command cost, with its process group alone and with a shim, and does that change with our
//! resident size? How long does it take to kill and reap a tree? What do idle commands cost in memory?
//!
//! Units: microseconds per command, milliseconds per tree, KiB; the partner is bare `tokio::process` with a process
//! group, in the same process and round by round in turn. Run: `cargo bench -p fanin-benches --bench subprocess`. With
//! `-- --gate` it fails at twice an aim: a shared machine is noisy.

use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use fanin_benches::{Figures, ratio};
use fanin_subprocess::{SubprocessRunner, shim};
use fanin_supervisor::{JobSpec, Session, Supervisor};
use tokio::process::Command;
use tokio::task::JoinSet;

const ROUNDS: usize = 7;
/// Commands of a round.
const COMMANDS: usize = 200;
/// Resident size of the second measurement: what a harness with a large model's context and caches has.
const BALLAST: usize = 1 << 30;
/// The aims: commands by their group, by a shim, against the partner.
const AIMS: [f64; 2] = [1.3, 2.2];
/// The aim: what 100 idle commands add to this process.
const IDLE_KIB: f64 = 3.0 * 1024.0;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Error> {
    if shim::is_called() {
        return Ok(shim::main());
    }
    let gate = std::env::args().any(|arg| arg == "--gate");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut is_met = runtime.block_on(idle())?;
    for (resident, size) in [("small", 0), ("1 GiB", BALLAST)] {
        // Written to, so that it is there.
        let ballast = vec![1_u8; size];
        for in_flight in [1, 16] {
            is_met &= runtime.block_on(commands(resident, in_flight))?;
        }
        drop(std::hint::black_box(ballast));
    }
    runtime.block_on(trees())?;
    Ok(if gate && !is_met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// By their process group, and by a shim.
fn ways() -> [SubprocessRunner; 2] {
    [SubprocessRunner::new(), SubprocessRunner::with_shim("/proc/self/exe")]
}

async fn start(runner: SubprocessRunner, slots: usize) -> Result<(Supervisor, Session), Error> {
    let supervisor = Supervisor::builder().runner(runner).slots(slots).start().await?;
    let session = supervisor.session("bench").await?;
    Ok((supervisor, session))
}

/// A trivial command from its launch to its result; true where the aims are met within a factor of two.
async fn commands(resident: &str, in_flight: usize) -> Result<bool, Error> {
    let mut sides = [(); 3].map(|()| Figures::default());
    for round in 0..=ROUNDS {
        let mut took = vec![bare(in_flight).await?];
        for runner in ways() {
            let (supervisor, session) = start(runner, in_flight).await?;
            let start = Instant::now();
            let group = session.fan_out((0..COMMANDS).map(|_| JobSpec::command("", ["/bin/true"]))).await?;
            let result = group.wait(None).await?;
            took.push(start.elapsed());
            assert_eq!(result.counts.completed as usize, COMMANDS);
            supervisor.shutdown().await;
        }
        // The first round warms up caches.
        if round > 0 {
            sides.iter_mut().zip(took).for_each(|(side, took)| side.add(took, COMMANDS));
        }
    }
    let [partner, ours @ ..] = &sides;
    println!("{resident}, {in_flight} in flight: bare {} us", shown(partner));
    let mut is_met = true;
    for ((way, figures), aim) in ["group", "shim"].iter().zip(ours).zip(AIMS) {
        let ratio = ratio(figures, partner);
        println!("    {way:>5} {} us, {ratio:.2}x (aim: {aim}x)", shown(figures));
        is_met &= ratio <= 2.0 * aim;
    }
    Ok(is_met)
}

fn shown(figures: &Figures) -> String {
    let (min, max) = figures.spread();
    format!("{:.0} ({:.0}..{:.0})", figures.median() / 1e3, min / 1e3, max / 1e3)
}

/// The partner: the same command, its output read, in a group of its own.
fn command() -> Command {
    let mut command = Command::new("/bin/true");
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn bare(in_flight: usize) -> Result<Duration, Error> {
    let start = Instant::now();
    let mut tasks: JoinSet<std::io::Result<std::process::Output>> = JoinSet::new();
    for _ in 0..COMMANDS {
        if tasks.len() == in_flight
            && let Some(ended) = tasks.join_next().await
        {
            assert!(ended??.status.success());
        }
        tasks.spawn(async { command().spawn()?.wait_with_output().await });
    }
    while let Some(ended) = tasks.join_next().await {
        assert!(ended??.status.success());
    }
    Ok(start.elapsed())
}

/// From the kill of a tree to its job's result; nothing of it is alive or defunct then.
async fn trees() -> Result<(), Error> {
    for size in [1, 10, 100] {
        let children = "sleep 60 & ".repeat(size - 1);
        // One of ten has a session of its own: what a group does not reach, and a shim has to find.
        let apart = children.replacen("sleep", "setsid sleep", size / 10);
        for (tree, line) in [("one group", &children), ("a tenth apart", &apart)] {
            for (way, runner) in ["group", "shim"].into_iter().zip(ways()) {
                // What leaves the group is out of its reach, and would stay.
                if way == "group" && line.contains("setsid") {
                    continue;
                }
                let mut figures = Figures::default();
                for _ in 0..ROUNDS {
                    figures.add(kill(runner.clone(), line).await?, 1);
                }
                let (min, max) = figures.spread();
                println!(
                    "kill of {size:>3}, {tree}, {way:>5}: {:.1} ({:.1}..{:.1}) ms",
                    figures.median() / 1e6,
                    min / 1e6,
                    max / 1e6
                );
            }
        }
    }
    Ok(())
}

async fn kill(runner: SubprocessRunner, line: &str) -> Result<Duration, Error> {
    let (supervisor, session) = start(runner, 1).await?;
    let spec = JobSpec::shell("tree", format!("{line} echo up; exec sleep 60")).grace(Duration::ZERO);
    let job = session.start(spec).await?;
    while supervisor.progress(job.id()).is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // What was just forked is still on its way to its program.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let start = Instant::now();
    job.cancel().await?;
    job.wait(None).await?;
    let took = start.elapsed();
    supervisor.shutdown().await;
    Ok(took)
}

/// What 100 idle commands add to this process, and what their shims are.
async fn idle() -> Result<bool, Error> {
    let mut is_met = true;
    for (way, runner) in ["group", "shim"].into_iter().zip(ways()) {
        let (supervisor, session) = start(runner, 100).await?;
        let warm = session.fan_out((0..100).map(|_| JobSpec::command("", ["true"]))).await?;
        warm.wait(None).await?;
        let before = resident("/proc/self/smaps_rollup", "Pss_Anon:")?;
        let group = session.fan_out((0..100).map(|_| JobSpec::shell("", "echo up; exec sleep 60"))).await?;
        for job in group.jobs() {
            while supervisor.progress(job).is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let added = resident("/proc/self/smaps_rollup", "Pss_Anon:")? - before;
        println!("100 idle commands, {way:>5}: {added:.0} KiB more here (aim: {IDLE_KIB:.0} KiB)");
        is_met &= added <= 2.0 * IDLE_KIB;
        let shims = shims()?;
        if !shims.is_empty() {
            let own: f64 = shims.iter().map(|(own, _)| own).sum();
            let share: f64 = shims.iter().map(|(_, share)| share).sum();
            let count = shims.len();
            println!(
                "    {count} shims: {own:.0} KiB of their own, {share:.0} KiB with their share of the program"
            );
        }
        group.cancel().await?;
        supervisor.shutdown().await;
    }
    Ok(is_met)
}

/// A value of a file of `/proc`, in KiB.
fn resident(path: &str, key: &str) -> Result<f64, Error> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().find(|line| line.starts_with(key)).ok_or("the system does not say")?;
    Ok(line.split_whitespace().nth(1).ok_or("the system does not say")?.parse()?)
}

/// Memory of each shim: what it alone has, and that with its share of what others have as well.
fn shims() -> Result<Vec<(f64, f64)>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let folder = entry?.path();
        let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        let ours = format!("PPid:\t{}\n", std::process::id());
        if name.trim() == "fanin-shim"
            && std::fs::read_to_string(folder.join("status")).is_ok_and(|status| status.contains(&ours))
        {
            let rollup = folder.join("smaps_rollup").to_string_lossy().into_owned();
            let own = resident(&rollup, "Private_Dirty:")?;
            found.push((own, resident(&rollup, "Pss:")?));
        }
    }
    Ok(found)
}
