//! A writer that is killed in the middle of its work: what it was told is committed is there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{Random, open, shown};
use fanin_protocol::{RowKind, Seq};
use fanin_sqlite::{Owner, StoreReader, check};
use fanin_supervisor::journal::{Batch, Journal, JournalReader};
use fanin_supervisor::testing::journal::{batch, put, record, records, retire};

const STORE: &str = "FANIN_TEST_STORE";
/// What stands before the number of an acknowledged record.
const MARK: &str = "committed ";

/// Not a test of its own: the program that is killed. It says what is committed, when it is.
#[test]
#[ignore = "started by the tests beside it"]
fn writes_until_it_is_killed() {
    let dir = std::env::var_os(STORE).unwrap();
    let mut journal = open(Path::new(&dir)).unwrap();
    let mut after = journal.load().unwrap().head.0;
    let mut random = Random(after);
    loop {
        let (count, n) = (1 + random.below(8) as u64, after);
        let rows = vec![
            put(RowKind::Job, n, &n.to_string(), &"open".repeat(20)),
            retire(RowKind::Group, n, &n.to_string(), "over"),
        ];
        journal.append(&Batch { rows, ..batch(after, count) }).unwrap();
        after += count;
        println!("\n{MARK}{after}");
        std::io::stdout().flush().unwrap();
    }
}

struct Writer {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Writer {
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "writes_until_it_is_killed", "--nocapture"])
            .env(STORE, dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next number that it was told is committed; `None` once it is gone.
    fn committed(&mut self) -> Option<u64> {
        self.lines.find_map(|line| line.unwrap().strip_prefix(MARK)?.parse().ok())
    }

    /// Kills it, and says what it was told last.
    fn kill(mut self, mut last: u64) -> u64 {
        self.child.kill().unwrap();
        while let Some(committed) = self.committed() {
            last = committed;
        }
        self.child.wait().unwrap();
        last
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(1);
    let mut head = 0;
    for round in 0..10 {
        let mut writer = Writer::start(dir.path());
        let mut last = 0;
        for _ in 0..=random.below(60) {
            last = writer.committed().unwrap();
        }
        let last = writer.kill(last);
        assert!(last > head, "round {round}");
        // Nobody owns it, so one can look at it as it was left.
        assert_eq!(Owner::of(dir.path()), Ok(Owner::None));
        let read = records(&StoreReader::open(dir.path()).unwrap()).unwrap();
        check(dir.path(), |_| {}).unwrap();
        let shown = shown(dir.path()).unwrap();
        head = shown.opened.head.0;
        assert!(head >= last, "round {round}: {last} was acknowledged, and the log ends at {head}");
        assert_eq!(shown.records, (1..=head).map(record).collect::<Vec<_>>());
        assert_eq!(read, shown.records);
        assert_eq!(shown.rows.len(), shown.opened.rows.len() * 2, "half a batch");
    }
}

#[test]
fn a_reader_of_another_process_needs_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(dir.path());
    let mut seen = 0;
    for _ in 0..20 {
        let committed = writer.committed().unwrap();
        let reader = StoreReader::open(dir.path()).unwrap();
        let page = reader.page(Seq(1), 10_000).unwrap();
        assert!(page.head.0 >= committed && page.head.0 >= seen);
        assert_eq!(page.records.len() as u64, page.head.0);
        seen = page.head.0;
    }
    let owner = Owner::of(dir.path()).unwrap();
    assert!(matches!(&owner, Owner::Live(who) if who.contains(&writer.child.id().to_string())), "{owner:?}");
    assert_eq!(open(dir.path()).unwrap_err().code(), "store_owned");
    assert!(writer.kill(seen) >= seen);
}
