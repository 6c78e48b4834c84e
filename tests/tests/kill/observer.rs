//! Who watches from outside: starts a supervisor, hears what it says, looks for processes, and kills it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fanin_tests::cases::process::Token;

/// Longer than it takes to come up on any machine.
const STUCK: Duration = Duration::from_secs(60);

/// A record as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) ts_ms: u64,
    pub(crate) kind: String,
    pub(crate) says: u64,
}

/// All that the observer was told, and what it saw.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) events: BTreeMap<u64, Seen>,
    /// Groups whose launch was acknowledged, and how many jobs each has.
    pub(crate) launched: BTreeMap<String, usize>,
    pub(crate) cancelled: BTreeSet<String>,
    /// Foreground calls that came back before their jobs were over.
    pub(crate) backgrounded: BTreeSet<String>,
    pub(crate) posted: BTreeSet<String>,
    pub(crate) extended: BTreeSet<String>,
    /// Groups and words whose taking was acknowledged.
    pub(crate) acked: BTreeSet<String>,
    /// What must not be, whatever is stored.
    pub(crate) breaches: Vec<String>,
    /// Asked for and never answered.
    asked: BTreeMap<String, usize>,
    /// Launches that were asked for again, and were known.
    known: usize,
    promoted: usize,
    over: usize,
    /// Lives that got as far as to serve.
    served: usize,
    /// Processes of jobs that were alive where their supervisor was killed.
    abandoned: usize,
    last_event: Option<u64>,
}

impl Told {
    pub(crate) fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["opened"] => self.served += 1,
            ["event", seq, ts_ms, kind, says] => {
                let seq = seq.parse().unwrap();
                let seen = Seen {
                    ts_ms: ts_ms.parse().unwrap(),
                    kind: kind.to_owned(),
                    says: says.parse().unwrap(),
                };
                if self.last_event.replace(seq).is_some_and(|last| last + 1 != seq) {
                    self.breaches.push(format!("record {seq} was not seen behind the one before it"));
                }
                if self.events.insert(seq, seen).is_some() {
                    self.breaches.push(format!("record {seq} was seen twice"));
                }
            }
            ["asks", group, jobs] => drop(self.asked.insert(group.to_owned(), jobs.parse().unwrap())),
            ["launched", group, jobs] => self.launched(group, jobs),
            ["again", group, jobs, was] => {
                self.known += usize::from(was == "known");
                self.launched(group, jobs);
            }
            ["over", group, jobs] => {
                self.over += 1;
                self.launched(group, jobs);
            }
            ["backgrounded", group, jobs] => {
                self.launched(group, jobs);
                self.backgrounded.insert(group.to_owned());
            }
            ["cancelled", group] => drop(self.cancelled.insert(group.to_owned())),
            ["promoted", _] => self.promoted += 1,
            ["posted", key] => drop(self.posted.insert(key.to_owned())),
            ["extended", key] => drop(self.extended.insert(key.to_owned())),
            ["acked" | "heard", key] => {
                if !self.acked.insert(key.to_owned()) {
                    self.breaches.push(format!("{key} was delivered twice"));
                }
            }
            ["closed"] => {}
            _ => panic!("`{line}` is no line of it"),
        }
    }

    fn launched(&mut self, group: &str, jobs: &str) {
        self.asked.remove(group);
        self.launched.insert(group.to_owned(), jobs.parse().unwrap());
    }

    /// Checks that there was something to lose of everything. How much depends on the machine.
    pub(crate) fn assert_busy(&self, kills: usize) {
        let much = [self.served, self.launched.len(), self.acked.len(), self.posted.len(), self.abandoned];
        assert!(much.iter().all(|count| *count > kills / 10), "it was killed before it did anything: {self}");
        let some =
            [self.cancelled.len(), self.backgrounded.len(), self.promoted, self.extended.len(), self.over];
        assert!(some.iter().all(|count| *count > kills / 100), "something was hardly ever done: {self}");
        assert!(kills < 100 || self.known > 0, "no launch was cut between its commit and its answer: {self}");
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lives served, {} events seen, {} groups launched ({} asked for again and known), {} cancelled, {} \
             promoted, {} sent to the background, {} over in the foreground, {} words posted, {} follow-ups, {} \
             messages taken, {} processes alive at kills",
            self.served,
            self.events.len(),
            self.launched.len(),
            self.known,
            self.cancelled.len(),
            self.promoted,
            self.backgrounded.len(),
            self.over,
            self.posted.len(),
            self.extended.len(),
            self.acked.len(),
            self.abandoned
        )
    }
}

/// How long one supervisor lives: from its start, or from where it serves.
pub(crate) struct Life {
    pub(crate) n: usize,
    pub(crate) millis: u64,
    pub(crate) from_serving: bool,
}

/// Starts supervisors over one store.
pub(crate) struct Observer {
    dir: PathBuf,
    token: Token,
    pub(crate) told: Told,
}

/// A supervisor that is alive.
struct Running {
    child: Child,
    lines: Receiver<String>,
    reader: JoinHandle<()>,
}

impl Observer {
    pub(crate) fn new(dir: &Path, token: Token) -> Self {
        Self { dir: dir.to_owned(), token, told: Told::default() }
    }

    fn start(&self, way: &str, n: usize) -> Running {
        let asked = self.told.asked.iter().map(|(group, jobs)| format!("{group}:{jobs}"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_killed"))
            .arg(&self.dir)
            .args([way, &n.to_string(), &self.token.line("TOKEN")])
            .args(asked)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || read(out, |line| sender.send(line).is_ok()));
        Running { child, lines, reader }
    }

    /// It serves: nothing of earlier lives is alive now. Only then it goes on.
    fn serves(&mut self, running: &mut Running) {
        self.told.hear("opened");
        for (pid, line) in self.token.alive() {
            if pid != running.child.id() {
                self.told.breaches.push(format!("`{line}` of a dead run is alive"));
            }
        }
        // It may be gone already, of itself: that is seen when it is waited for.
        let _ = running.child.stdin.take().unwrap().write_all(b"\n");
    }

    /// Lets it live for a while, then kills it, and hears what it still had said.
    pub(crate) fn watch(&mut self, life: &Life) {
        self.told.last_event = None;
        let mut running = self.start("go", life.n);
        let started = Instant::now();
        let mut until = started + Duration::from_millis(life.millis);
        if life.from_serving {
            assert_eq!(running.lines.recv_timeout(STUCK).as_deref(), Ok("opened"), "life {}", life.n);
            self.serves(&mut running);
            until = Instant::now() + Duration::from_millis(life.millis);
        }
        while let Ok(line) = running.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            match line.as_str() {
                "opened" => self.serves(&mut running),
                line => self.told.hear(line),
            }
        }
        self.told.abandoned +=
            self.token.alive().iter().filter(|(_, line)| line.starts_with("sleep ")).count();
        running.child.kill().unwrap();
        let status = self.over(running);
        assert_eq!(status.signal(), Some(9), "life {} ended of itself: {status}", life.n);
    }

    /// The last one: takes what is owed, and ends in order.
    pub(crate) fn end(&mut self, n: usize) {
        self.told.last_event = None;
        let mut running = self.start("end", n);
        assert_eq!(running.lines.recv_timeout(STUCK).as_deref(), Ok("opened"));
        self.serves(&mut running);
        assert!(self.over(running).success());
        self.token.assert_gone();
    }

    /// Hears it to its end.
    fn over(&mut self, mut running: Running) -> ExitStatus {
        let status = running.child.wait().unwrap();
        running.reader.join().unwrap();
        for line in running.lines.try_iter() {
            self.told.hear(&line);
        }
        status
    }
}

fn read(out: ChildStdout, mut hear: impl FnMut(String) -> bool) {
    let lines = BufReader::new(out).lines();
    lines.map_while(Result::ok).all(&mut hear);
}
