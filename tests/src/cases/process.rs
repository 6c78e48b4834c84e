//! Processes as `/proc` shows them, and commands whose processes a test can find.

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
