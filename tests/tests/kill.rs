//! A supervisor that is killed again and again, with real processes and real syncs, and an observer that keeps all it
//! was told (B19 to B24, G3 to G6).
//!
//! `FANIN_KILLS=10000 cargo test -p fanin-tests --test kill` for the long run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fanin_protocol::record::TakenBy;
use fanin_protocol::{Record, Seq};
use fanin_sqlite::{StoreReader, check};
use fanin_supervisor::journal::JournalReader;
use fanin_supervisor::stored::LogFold;

/// Longer than it takes to come up on any machine.
const STUCK: Duration = Duration::from_secs(20);

/// Kills of one run in the suite.
const KILLS: usize = 500;

/// All that the observer was told.
#[derive(Default)]
struct Told {
    events: BTreeMap<u64, String>,
    launched: BTreeMap<String, u32>,
    cancelled: BTreeSet<String>,
    acked: BTreeSet<String>,
    /// Lives of the supervisor that got as far as to serve.
    opened: usize,
}

impl Told {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["opened"] => self.opened += 1,
            ["event", seq, kind] => {
                let before = self.events.insert(seq.parse().unwrap(), kind.to_owned());
                assert_eq!(before, None, "record {seq} came twice in one life, or in two");
            }
            ["launched", group, jobs] => drop(self.launched.insert(group.to_owned(), jobs.parse().unwrap())),
            ["cancelled", group] => drop(self.cancelled.insert(group.to_owned())),
            ["acked", group] => assert!(self.acked.insert(group.to_owned()), "{group} woke twice"),
            ["closed"] => {}
            _ => panic!("`{line}` is no line of it"),
        }
    }
}

fn start(dir: &Path, way: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_killed"))
        .args([dir.as_os_str(), way.as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets it live for a while, then kills it, and hears what it still had said. The while begins with its start, or where
/// it serves: on a slow machine nothing but openings would be cut otherwise.
fn live(dir: &Path, life: Duration, from_serving: bool, told: &mut Told) {
    let mut child = start(dir, "go");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader =
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    if from_serving {
        told.hear(&receiver.recv_timeout(STUCK).expect("it does not come up"));
    }
    let until = Instant::now() + life;
    while let Ok(line) = receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
        told.hear(&line);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    receiver.try_iter().for_each(|line| told.hear(&line));
}

#[test]
fn nothing_that_was_told_is_lost_however_often_it_is_killed() {
    let kills = std::env::var("FANIN_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let dir = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    // Lives of all lengths: cut in the opening, in the recovery, and in full work.
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for n in 0..kills {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        live(dir.path(), Duration::from_millis(seed % 40), n % 4 != 0, &mut told);
    }
    let mut child = start(dir.path(), "end");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).for_each(|line| told.hear(&line));
    assert!(child.wait().unwrap().success());
    println!(
        "{kills} kills, {} lives served, {} events seen, {} groups launched, {} woken",
        told.opened,
        told.events.len(),
        told.launched.len(),
        told.acked.len()
    );
    assert!(
        told.opened > kills / 4 && told.launched.len() > kills / 4,
        "it was killed before it did anything"
    );
    compare(dir.path(), &told);
    let mut fold = LogFold::default();
    let report = check(dir.path(), |record| fold.take(record)).unwrap();
    // Of a long run the first records are no longer kept.
    assert_eq!(fold.compare(&report.rows), Ok(report.records.0 == Seq(1)), "rows and records");
}

/// What was told is in the store, and what is there came to its end.
fn compare(dir: &Path, told: &Told) {
    let records = records(&StoreReader::open(dir).unwrap());
    for (seq, kind) in &told.events {
        let there = records.get(seq).map(Record::kind);
        assert_eq!(there, Some(kind.as_str()), "record {seq} was seen");
    }
    let (mut fired, mut taken, mut sealed) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    let (mut parts, mut ended) = (BTreeMap::new(), BTreeSet::new());
    for record in records.values() {
        match record {
            Record::GroupSealed(body) => drop(sealed.insert(body.group.to_string(), body.members.clone())),
            Record::GroupFired(body) => {
                assert!(fired.insert(body.group.to_string()), "{} fires twice", body.group)
            }
            Record::JobEnded(body) => assert!(ended.insert(body.job.clone()), "{} ends twice", body.job),
            Record::MessageTaken(body) => {
                for key in &body.keys {
                    let before = taken.insert(key.to_string(), body.by);
                    assert_eq!(before, None, "{key} is taken twice");
                }
            }
            Record::ToolPart(part) => {
                if part.state.is_terminal() {
                    assert!(part.end_ms >= part.start_ms, "{part:?}");
                }
                parts.insert((part.run, part.call.clone()), part.state);
            }
            _ => {}
        }
    }
    let open: Vec<_> = parts.iter().filter(|(_, state)| !state.is_terminal()).collect();
    assert!(open.is_empty(), "{open:?} are open");
    for (group, members) in &sealed {
        assert!(fired.contains(group), "{group} never fired");
        assert!(members.iter().all(|member| ended.contains(member)), "{group} has members that never ended");
        assert_eq!(taken.get(group), Some(&TakenBy::Inbox), "the wake of {group}");
    }
    for (group, jobs) in &told.launched {
        let there = sealed.get(group).map(|members| members.len() as u32);
        assert_eq!(there, Some(*jobs), "{group} was launched");
    }
    for group in told.acked.iter().chain(&told.cancelled) {
        assert!(sealed.contains_key(group), "{group} was woken or cancelled");
    }
}

/// All records of a store, whose checksums and places the reader compares.
fn records(reader: &StoreReader) -> BTreeMap<u64, Record> {
    let mut records = BTreeMap::new();
    let mut from = Seq(1);
    loop {
        let page = reader.page(from, 1_000).unwrap();
        let Some(last) = page.records.last().map(|record| record.seq) else { break };
        for envelope in page.records {
            records.insert(envelope.seq.0, envelope.record().unwrap().unwrap());
        }
        from = last.next();
    }
    assert_eq!(records.len() as u64, from.0 - 1, "a hole in the log");
    records
}
