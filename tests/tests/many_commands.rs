//! Many commands in one process that nothing else shares: cancels of all that does not want to end, descriptors that
//! come back, a table of descriptors that is full, and nothing defunct.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fanin_protocol::limits::KILL_WAIT;
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::protocol::{Code, Status};
use fanin_supervisor::{JobSpec, Session, Supervisor};
use fanin_tests::cases::process::{Token, defunct_children, until};
use fanin_tests::cases::*;

/// These tests look at the whole process: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

const GRACE: Duration = Duration::from_millis(200);

fn alone(test: impl Future<Output = ()>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build().unwrap();
    runtime.block_on(test);
    runtime.shutdown_background();
}

async fn start(slots: usize) -> (Supervisor, Session) {
    let runner = SubprocessRunner::with_shim(env!("CARGO_BIN_EXE_host"));
    let supervisor = Supervisor::builder().runner(runner).slots(slots).grace(GRACE).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    (supervisor, session)
}

/// Commands that do not end when they are told to. Each has one `sleep` that shows that it is up.
const DEAF: &[(&str, &str)] = &[
    ("ignores TERM", "trap '' TERM; while :; do sleep TOKEN; done"),
    ("setsid grandchild", "setsid sh -c 'trap \"\" TERM; while :; do sleep TOKEN; done' & wait; wait"),
    (
        "double fork, scrubbed",
        "(setsid sh -c 'env -i setsid sleep TOKEN >/dev/null 2>&1 & exit' &); trap '' TERM; while :; do sleep 1; done",
    ),
    ("held pipe", "setsid sh -c 'trap \"\" TERM; exec sleep TOKEN' & exit 0"),
    ("stopped", "sleep TOKEN & kill -STOP $$; wait"),
    ("writes for ever", "trap '' TERM PIPE; sleep TOKEN & yes"),
];

/// Panics when it is dropped.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("a bomb went off");
    }
}

/// Two of each kind of closure that does not end: one that blocks its thread until the gate opens, and one with a
/// bomb. `up` counts those that have begun.
fn closures(held: &Gate, bombs: &Arc<AtomicUsize>, up: &Arc<AtomicUsize>) -> Vec<JobSpec> {
    let mut specs = Vec::new();
    for _ in 0..2 {
        let (block, blocks) = (held.clone(), Arc::clone(up));
        specs.push(JobSpec::run("blocks its thread", move |_| async move {
            blocks.fetch_add(1, Ordering::Relaxed);
            block.block();
            Ok(().into())
        }));
        let (bomb, bears) = (Bomb(Arc::clone(bombs)), Arc::clone(up));
        specs.push(JobSpec::run("panics in its drop", move |_| async move {
            let _bomb = bomb;
            bears.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        }));
    }
    specs
}

// B36, B53, SC-2, J-18: every kind that does not want to end settles in its time, and the table is clean afterwards.
// `FANIN_CANCELS` says how many; 1,000 take four minutes.
#[test]
fn every_kind_that_does_not_want_to_end_settles_in_time_and_leaves_nothing() {
    let wanted = std::env::var("FANIN_CANCELS").map_or(100, |count| count.parse().unwrap());
    // A runtime may hold other tasks behind one that blocks its thread, and does not give them to other threads
    // (SC-3): those that block have one of their own.
    let apart = tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build().unwrap();
    let (blocked, parent) = apart.block_on(start(64));
    alone(async {
        let (supervisor, session) = start(64).await;
        let (mut cancelled, mut slowest, bombs) = (0, [Duration::ZERO; 2], Arc::new(AtomicUsize::new(0)));
        while cancelled < wanted {
            let (token, held, up) = (Token::default(), Gate::new(), Arc::new(AtomicUsize::new(0)));
            let _goes_on = held.at_the_latest();
            let deaf = DEAF.iter().chain(DEAF).map(|(name, line)| JobSpec::shell(*name, token.line(line)));
            let commands = session.fan_out(deaf.collect::<Vec<_>>()).await.unwrap();
            let closures = parent.fan_out(closures(&held, &bombs, &up)).await.unwrap();
            // What holds a pipe has ended: it is up when it has been told to stop, if not before.
            until("all are up", || up.load(Ordering::Relaxed) == 4 && token.asleep() >= 2 * DEAF.len() - 2)
                .await;
            let started = Instant::now();
            commands.cancel().await.unwrap();
            closures.cancel().await.unwrap();
            for (slowest, group) in slowest.iter_mut().zip([&commands, &closures]) {
                let result = group.wait(STUCK).await.unwrap();
                let took = started.elapsed();
                *slowest = took.max(*slowest);
                assert!(took < GRACE + Duration::from_secs(5), "{took:?}");
                for entry in &result.entries {
                    let label = entry.label.as_deref().unwrap();
                    assert_eq!(entry.unreaped, label == "blocks its thread", "{label}: {:?}", entry.message);
                    let has_ended = label == "held pipe" && entry.status == Status::Completed;
                    assert!(has_ended || entry.status == Status::Cancelled, "{label}: {}", entry.summary());
                }
                cancelled += result.entries.len();
                token.assert_gone();
            }
        }
        println!("{cancelled} cancelled; the slowest rounds of commands and closures took {slowest:?}");
        assert!(slowest[1] >= KILL_WAIT && bombs.load(Ordering::Relaxed) * 8 == cancelled);
        soon(supervisor.shutdown()).await;
        soon(blocked.shutdown()).await;
        until("no child is left", || children() == 0).await;
    });
    apart.shutdown_background();
}

/// Children of this process, also defunct ones.
fn children() -> usize {
    let table = fanin_process::Table::default();
    table.all().iter().filter(|entry| entry.parent == std::process::id()).count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

// B52: 2,000 commands, and as many descriptors as before.
#[test]
fn descriptors_come_back() {
    alone(async {
        let (supervisor, session) = start(8).await;
        session.start(JobSpec::command("first", ["true"])).await.unwrap().wait(STUCK).await.unwrap();
        let base = descriptors();
        let group =
            session.fan_out((0..2_000).map(|n| JobSpec::command(format!("{n}"), ["true"]))).await.unwrap();
        let result = group.wait(Duration::from_secs(300)).await.unwrap();
        assert_eq!(result.counts.completed, 2_000);
        until("descriptors are back", || descriptors().abs_diff(base) <= 5).await;
        soon(supervisor.shutdown()).await;
        until("no child is left", || children() == 0).await;
    });
}

/// Allows this process so many descriptors more than it has; all that it had where that is `None`.
fn allow(more: Option<usize>) {
    let limit = more.map_or_else(|| "1024".to_owned(), |more| (descriptors() - 1 + more).to_string());
    let args = [format!("--pid={}", std::process::id()), format!("--nofile={limit}:")];
    assert!(Command::new("prlimit").args(args).status().unwrap().success());
}

// B52: where descriptors run out, that job says so, nothing of it runs, and the next one is fine.
#[test]
fn running_out_of_descriptors_is_that_jobs_error() {
    alone(async {
        let (supervisor, session) = start(8).await;
        let run = async || {
            let job = session.start(JobSpec::shell("job", "echo fine")).await.unwrap();
            job.wait(STUCK).await.unwrap()
        };
        run().await;
        let (mut failed, mut worked) = (0, 0);
        for more in 0..24 {
            allow(Some(more));
            let entry = run().await;
            allow(None);
            if entry.status == Status::Error {
                failed += 1;
                let message = entry.message.as_deref().unwrap();
                assert!(message.contains("Too many open files"), "{more}: {message}");
                assert_eq!((entry.code, entry.unreaped), (Some(Code::Os), false), "{more}: {message}");
            } else {
                worked += 1;
                assert_eq!(&*entry.output.unwrap().text, "fine\n");
            }
        }
        assert!(failed > 0 && worked > 0, "{failed} failed, {worked} worked");
        assert_eq!(run().await.summary(), "completed");
        soon(supervisor.shutdown()).await;
        until("no child is left", || children() == 0).await;
    });
}

// B27: cancelled and dropped, none stays defunct, though nothing more is started.
#[test]
fn nothing_stays_defunct() {
    alone(async {
        let (supervisor, session) = start(64).await;
        for round in 0..10 {
            let specs = (0..50).map(|n| JobSpec::command(format!("{n}"), ["sleep", "60"]));
            let group = session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
            // Some are on their way, some are up, some have not begun.
            for _ in 0..round * 200 {
                tokio::task::yield_now().await;
            }
            group.cancel().await.unwrap();
            if round % 2 == 0 {
                group.wait(STUCK).await.unwrap();
            }
        }
        drop((supervisor, session));
        until("no child is left", || children() == 0).await;
        assert_eq!(defunct_children(), []);
    });
}
