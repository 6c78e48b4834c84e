//! Processes as `/proc` shows them, and commands whose processes a test can find.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fanin_protocol::{JobId, Record};
use fanin_supervisor::{Delivery, Filter, Since, Subscription, Supervisor};

use super::STUCK;

/// A process of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its pid.
    pub pid: u32,
    /// Its program.
    pub name: String,
    /// `R`, `S`, `Z`...
    pub state: char,
    parent: u32,
}

/// All processes of a group, defunct ones too.
///
/// # Panics
///
/// Where `/proc` is none.
pub fn group(pgid: u32) -> Vec<Member> {
    let mut members = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<u32>() else { continue };
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

/// Checks that nothing of a group is alive, and nothing of it is defunct that we have to reap.
#[track_caller]
pub fn assert_gone(pgid: u32) {
    let mut left = group(pgid);
    left.retain(|member| member.state != 'Z' || member.parent == std::process::id());
    assert_eq!(left, [], "left of group {pgid}");
}

/// Waits until `count` processes of a group sleep. It polls, since nothing tells of what other programs do.
///
/// # Panics
///
/// Where that takes longer than [`STUCK`].
pub async fn asleep(pgid: u32, count: usize) {
    until(&format!("{count} asleep"), || {
        group(pgid).iter().filter(|member| member.name == "sleep" && member.state != 'Z').count() == count
    })
    .await;
}

/// Waits until something holds that nobody tells of.
///
/// # Panics
///
/// Where that takes longer than [`STUCK`].
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < STUCK, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Sends a signal by its name, from outside.
///
/// # Panics
///
/// Where it cannot.
pub fn signal(pid: u32, name: &str) {
    let status = std::process::Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(status.unwrap().success(), "kill -s {name} {pid}");
}

/// Learns which process each command has.
#[derive(Debug)]
pub struct Pids(Subscription);

impl Pids {
    /// From now on.
    ///
    /// # Panics
    ///
    /// Where it cannot subscribe.
    pub async fn of(supervisor: &Supervisor) -> Self {
        let filter = Filter::all().kinds(["run.bound"]);
        Self(supervisor.subscribe(filter, Since::Now).await.unwrap())
    }

    /// The next command that was started: its job, and its process, which leads a group.
    ///
    /// # Panics
    ///
    /// Where there is none within [`STUCK`].
    pub async fn next(&mut self) -> (JobId, u32) {
        let Some(Delivery::Event(event)) = super::soon(self.0.next()).await else { panic!("no run.bound") };
        let Record::RunBound(bound) = event.record() else { panic!("{event:?}") };
        assert_eq!(bound.pid, bound.pgid);
        (event.job().unwrap().clone(), bound.pid.unwrap())
    }

    /// Those that were started so far and not looked at.
    pub fn so_far(&mut self) -> Vec<u32> {
        let mut pids = Vec::new();
        while let Ok(Delivery::Event(event)) = self.0.try_next() {
            if let Record::RunBound(bound) = event.record() {
                pids.extend(bound.pid);
            }
        }
        pids
    }
}

/// A number of seconds that no other program sleeps for, so that what was started with it is found again: by its
/// command line, whatever group, session and environment it has by then.
#[derive(Debug, Clone)]
pub struct Token(String);

impl Default for Token {
    fn default() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        // A minute or so: what a failed test leaves behind goes by itself.
        Self(format!("6{}.{:07}{:05}", next % 10, std::process::id(), next))
    }
}

impl Token {
    /// The line with each `TOKEN` in it replaced.
    pub fn line(&self, line: &str) -> String {
        line.replace("TOKEN", &self.0)
    }

    /// What carries it and is not defunct: pid and command line.
    ///
    /// # Panics
    ///
    /// Where `/proc` is none.
    pub fn alive(&self) -> Vec<(u32, String)> {
        let mut alive = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap() {
            let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<u32>() else { continue };
            // The command line of a defunct process is empty.
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(&self.0) && pid != std::process::id() {
                alive.push((pid, line));
            }
        }
        alive
    }

    /// How many of those sleep, by their program.
    pub fn asleep(&self) -> usize {
        self.alive().iter().filter(|(_, line)| line.starts_with("sleep ")).count()
    }

    /// Checks that nothing that carries it is alive.
    #[track_caller]
    pub fn assert_gone(&self) {
        assert_eq!(self.alive(), [], "alive with {}", self.0);
    }
}

/// Who started a process, or has taken it over.
///
/// # Panics
///
/// Where there is no such process.
pub fn parent_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Children of this process that have ended and were not reaped.
pub fn defunct_children() -> Vec<Member> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let (name, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields[0] == "Z" && fields[1] == std::process::id().to_string() {
            let name = name.split_once('(').unwrap().1.to_owned();
            children.push(Member { pid, name, state: 'Z', parent: std::process::id() });
        }
    }
    children
}
