//! Real commands, run without a supervisor. What is started here ends by itself, whatever a test does.

mod leftovers;
mod output;
mod start;
mod stop;

use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fanin_process::Identity;
use fanin_protocol::Containment;
use fanin_protocol::cause::Exit;
use fanin_protocol::limits::{LEFTOVER_GRACE, OUTPUT_BYTES_MAX, PIPE_DRAIN, PROGRESS_EVERY};
use fanin_protocol::{Cause, Code, CommandSpec};
use fanin_supervisor::{Bound, Ending, HeadTail, StopSignal, StopStage};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::host::Host;
use crate::run::run;

/// Far more than anything here takes.
const LIMIT: Duration = Duration::from_secs(20);

type WhenBound = Box<dyn Fn(&StopSignal, i32) + Send + Sync>;

/// Stands for the supervisor.
#[derive(Default)]
struct TestHost {
    stop: StopSignal,
    /// Called from inside of `bound`.
    when_bound: Option<WhenBound>,
    pid: AtomicI32,
    lines: Mutex<Vec<String>>,
    beats: AtomicI32,
    output: Mutex<Option<HeadTail>>,
    changed: Notify,
}

impl Host for TestHost {
    fn stage(&self) -> StopStage {
        self.stop.stage()
    }

    fn beyond(&self, stage: StopStage) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let next = if stage == StopStage::None { StopStage::Polite } else { StopStage::Forced };
        Box::pin(self.stop.reached(next))
    }

    fn mark(&self) -> String {
        format!("test:{}", std::process::id())
    }

    fn bound(&self, bound: Bound) {
        let Bound { pid: Some(pid), pid_start: Some(start), boot_id: boot, pgid, containment, .. } = bound
        else {
            panic!("{bound:?}")
        };
        // It may be over by now, and not reaped.
        let seen = Identity::of(&fanin_process::Table::default(), pid);
        assert_eq!(seen, Some(Identity { pid, start, boot }));
        assert_eq!((pgid, containment), (Some(pid), Some(Containment::Group)));
        let pid = pid.cast_signed();
        assert_eq!(self.pid.swap(pid, Ordering::SeqCst), 0, "bound twice");
        if let Some(when_bound) = &self.when_bound {
            when_bound(&self.stop, pid);
        }
        self.changed.notify_waiters();
    }

    fn beat(&self) {
        self.beats.fetch_add(1, Ordering::SeqCst);
    }

    fn write(&self, bytes: &[u8]) {
        self.output.lock().unwrap().get_or_insert_with(|| HeadTail::new(OUTPUT_BYTES_MAX)).push(bytes);
    }

    fn progress(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
        self.changed.notify_waiters();
    }
}

impl TestHost {
    fn pid(&self) -> i32 {
        self.pid.load(Ordering::SeqCst)
    }

    /// Waits until the command has shown this line, and gives its pid.
    async fn shown(&self, wanted: &str) -> i32 {
        let shown = async {
            loop {
                let changed = self.changed.notified();
                if self.lines.lock().unwrap().iter().any(|line| line == wanted) {
                    return self.pid();
                }
                changed.await;
            }
        };
        let lines = || format!("no line {wanted:?} in {:?}", self.lines.lock().unwrap());
        tokio::time::timeout(LIMIT, shown).await.unwrap_or_else(|_| panic!("{}", lines()))
    }
}

fn start(spec: CommandSpec) -> (Arc<TestHost>, JoinHandle<Ending>) {
    start_on(TestHost::default(), spec)
}

fn start_on(host: TestHost, spec: CommandSpec) -> (Arc<TestHost>, JoinHandle<Ending>) {
    *host.output.lock().unwrap() = spec.output_bytes_max.map(HeadTail::new);
    let host = Arc::new(host);
    let task = tokio::spawn({
        let host = host.clone();
        async move {
            let ending = run(&spec, None, &*host).await;
            let output = host.output.lock().unwrap().take().map(HeadTail::finish).unwrap_or_default();
            Ending { output, ..ending }
        }
    });
    (host, task)
}

async fn ended(task: JoinHandle<Ending>) -> Ending {
    tokio::time::timeout(LIMIT, task).await.expect("the command did not end in time").unwrap()
}

async fn run_shell(line: &str) -> Ending {
    ended(start(CommandSpec::shell(line)).1).await
}

fn code(ending: &Ending) -> Option<(Cause, Option<Code>)> {
    ending.failure.as_ref().map(|failure| (failure.cause, failure.code))
}

fn message(ending: &Ending) -> &str {
    ending.failure.as_ref().map_or("", |failure| &failure.message)
}

/// A process of a group, as `/proc` shows it.
#[derive(Debug)]
struct Member {
    pid: i32,
    name: String,
    state: char,
    parent: u32,
}

impl Member {
    fn is_asleep(&self) -> bool {
        self.name == "sleep" && self.state != 'Z'
    }
}

fn group(pgid: i32) -> Vec<Member> {
    let mut members = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<i32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let (name, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields[2] == pgid.to_string() {
            let name = name.split_once('(').unwrap().1.to_owned();
            let (state, parent) = (fields[0].chars().next().unwrap(), fields[1].parse().unwrap());
            members.push(Member { pid, name, state, parent });
        }
    }
    members
}

/// What must not be there after a command's end: what is alive, and what is defunct because we did not reap it.
/// Defunct orphans are their new parent's; some take their time.
fn left(pgid: i32) -> Vec<Member> {
    let ours = |member: &Member| member.state != 'Z' || member.parent == std::process::id();
    group(pgid).into_iter().filter(ours).collect()
}

fn assert_nothing_left(pgid: i32) {
    let left = left(pgid);
    assert!(left.is_empty(), "{left:?}");
}

/// Waits until `count` processes of the group sleep: a shell in between a fork and what follows it loses signals.
async fn asleep(pgid: i32, count: usize) {
    let all = || group(pgid).iter().filter(|member| member.is_asleep()).count() == count;
    until(&format!("{count} sleeping in {:?}", group(pgid)), all).await;
}

async fn leader_reaped(pgid: i32) {
    until("the leader reaped", || !group(pgid).iter().any(|member| member.pid == pgid)).await;
}

/// Polls, since nothing reports what is looked for here.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The same without the runtime's help.
fn poll_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(pid: i32, name: &str) {
    let sent = std::process::Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -s {name} {pid}");
}

fn kill(pid: i32) {
    signal(pid, "KILL");
}

/// A shell with three children, each with a child that sleeps; `trap` stands before each of them.
fn tree_of_seven(trap: &str) -> CommandSpec {
    let branch = format!("sh -c '{trap} sleep 60 & wait; wait' &");
    CommandSpec::shell(format!("{trap} {branch} {branch} {branch} echo ready; wait; wait"))
}

/// True where the test runs in a process of its own, as its body must; makes that process and checks it elsewhere.
/// `env` is given to the program of that name.
fn is_alone(name: &str, env: &[&str]) -> bool {
    const MARK: &str = "FANIN_TEST_ALONE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let output = std::process::Command::new("env")
        .args(env)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("run_tests::{name}")])
        .env(MARK, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}
