//! Question: how do callers share commits when each waits for its own, and what does a job cost from launch to settle
//! over a store, 256 at a time?
//!
//! Unit: nanoseconds a reply, by how many callers wait at once, and nanoseconds a job. Each caller begins a turn of a
//! session of its own, waits for its commit, ends it, and waits for that: one record each. The partner of the first is
//! the same supervisor over a journal that appends the bytes to a file and syncs it once a batch; of the second a bare
//! `JoinSet`, for jobs that are launched one by one and for fan-outs of all at once. Both in turn in one process. Run: `cargo bench -p fanin-benches --bench committers`, with `-- --dir DIR`
//! for another file system. `-- --jobs` and `-- --callers N` measure one of it, for a profiler.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fanin_benches::{Error, Figures, Folder, table};
use fanin_protocol::record::Level;
use fanin_protocol::{Lifetime, RowKind, Seq};
use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::journal::{
    Batch, Change, Journal, JournalError, JournalReader, Opened, OutputChange, RecordPage, Row, StoredOutput,
};
use fanin_supervisor::{JobSpec, Supervisor};
use tokio::task::JoinSet;

/// Callers, and replies of a round.
const CALLERS: [(usize, usize); 4] = [(1, 400), (16, 3_200), (256, 25_600), (4_096, 81_920)];
/// Jobs in flight, and jobs of a round.
const JOBS: (usize, usize) = (256, 25_600);
const ROUNDS: usize = 5;

/// What was committed.
#[derive(Debug, Default)]
struct Counts {
    batches: AtomicU64,
    records: AtomicU64,
    commits: AtomicU64,
    marks: AtomicU64,
}

impl Counts {
    /// Those since the last call.
    fn take(&self) -> [u64; 4] {
        [&self.batches, &self.records, &self.commits, &self.marks]
            .map(|count| count.swap(0, Ordering::Relaxed))
    }
}

/// A store that says what it commits.
#[derive(Debug)]
struct Counted(SqliteJournal, Arc<Counts>);

impl Journal for Counted {
    fn level(&self) -> Level {
        self.0.level()
    }

    fn load(&mut self) -> Result<Opened, JournalError> {
        self.0.load()
    }

    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let before = self.0.syncs();
        self.0.append(batch)?;
        let syncs = self.0.syncs();
        self.1.batches.fetch_add(1, Ordering::Relaxed);
        self.1.records.fetch_add(batch.records.len() as u64, Ordering::Relaxed);
        self.1.commits.fetch_add(syncs.commits - before.commits, Ordering::Relaxed);
        self.1.marks.fetch_add(syncs.mark - before.mark, Ordering::Relaxed);
        Ok(())
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        self.0.reader()
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        Box::new(self.0).close()
    }
}

/// The least that a batch can cost: its bytes behind those of the one before, and a sync.
#[derive(Debug)]
struct Bare {
    file: File,
    bytes: Vec<u8>,
}

fn io(error: impl std::fmt::Display) -> JournalError {
    JournalError::Io(error.to_string())
}

impl Journal for Bare {
    fn level(&self) -> Level {
        Level::Durable
    }

    fn load(&mut self) -> Result<Opened, JournalError> {
        Ok(Opened::default())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.bytes.clear();
        for record in &batch.records {
            self.bytes.extend(record.encode().map_err(io)?);
        }
        for Change::Put(row) | Change::Retire(row) in &batch.rows {
            self.bytes.extend_from_slice(&row.body);
        }
        for output in &batch.outputs {
            match output {
                OutputChange::Append { bytes, .. } => self.bytes.extend_from_slice(bytes),
                OutputChange::Replace { pieces, .. } => {
                    pieces.iter().for_each(|(_, bytes)| self.bytes.extend_from_slice(bytes));
                }
                // They name a job and bring no bytes.
                OutputChange::Retire { .. } | OutputChange::Drop { .. } => {}
            }
        }
        self.file.write_all(&self.bytes).map_err(io)?;
        self.file.sync_data().map_err(io)
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::new(Unread)
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Nobody reads the bare file.
#[derive(Debug)]
struct Unread;

impl JournalReader for Unread {
    fn page(&self, _: Seq, _: usize) -> Result<RecordPage, JournalError> {
        Err(io("nobody reads it"))
    }

    fn find(&self, _: RowKind, _: &str) -> Result<Option<Row>, JournalError> {
        Ok(None)
    }

    fn find_before(&self, _: RowKind, _: &str, _: u64) -> Result<Option<Row>, JournalError> {
        Ok(None)
    }

    fn row(&self, _: RowKind, _: u64) -> Result<Option<Row>, JournalError> {
        Ok(None)
    }

    fn rows(&self, _: RowKind, _: u64, _: usize) -> Result<Vec<Row>, JournalError> {
        Ok(Vec::new())
    }

    fn output_from(&self, _: Lifetime, _: u64) -> Result<Option<StoredOutput>, JournalError> {
        Ok(None)
    }
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
    let dir = value("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let only = value("--callers").and_then(|n| n.parse::<usize>().ok());
    let only_jobs = args.iter().any(|arg| arg == "--jobs");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if !only_jobs {
        table::head("callers", "fanin ns/reply", "bare file ns/reply");
        for (callers, replies) in CALLERS.into_iter().filter(|(n, _)| only.is_none_or(|only| only == *n)) {
            runtime.block_on(replies_of(&dir, callers, replies))?;
        }
    }
    if only.is_none() {
        table::head("at once", "fanin ns/job", "JoinSet ns/job");
        runtime.block_on(jobs(&dir))?;
    }
    Ok(())
}

async fn replies_of(dir: &Path, callers: usize, replies: usize) -> Result<(), Error> {
    let (ours, theirs) = (Folder::new(dir, "callers")?, Folder::new(dir, "bare")?);
    let counts = Arc::new(Counts::default());
    let journal = Counted(SqliteJournal::open(&ours.0, &Options::default())?, Arc::clone(&counts));
    let fanin = Supervisor::builder().journal(journal).start().await?;
    let bare = Bare { file: File::create(theirs.0.join("raw"))?, bytes: Vec::new() };
    let bare = Supervisor::builder().journal(bare).start().await?;
    let (mut ours, mut theirs) = (Figures::default(), Figures::default());
    for round in 0..=ROUNDS {
        let one = ask(&fanin, callers, replies).await?;
        let other = ask(&bare, callers, replies).await?;
        // The first round opens the sessions.
        if round == 0 {
            counts.take();
        } else {
            ours.add(one, replies);
            theirs.add(other, replies);
        }
    }
    table::row(callers, &ours, &theirs);
    let [batches, records, commits, marks] = counts.take();
    let size = records as f64 / batches.max(1) as f64;
    println!(
        "{:>9} {records} records in {batches} batches, {commits} commits, {marks} syncs of the mark; {size:.1} records \
         a batch, {:.2} of the callers",
        "",
        size / callers as f64
    );
    fanin.shutdown().await;
    bare.shutdown().await;
    Ok(())
}

/// All callers ask until there were so many replies.
async fn ask(supervisor: &Supervisor, callers: usize, replies: usize) -> Result<Duration, Error> {
    let mut sessions = Vec::with_capacity(callers);
    for n in 0..callers {
        sessions.push(supervisor.session(format!("caller-{n}")).await?);
    }
    let turns = replies / callers / 2;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for session in sessions {
        tasks.spawn(async move {
            for _ in 0..turns {
                session.turn().await?.end().await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(start.elapsed())
}

async fn jobs(dir: &Path) -> Result<(), Error> {
    let (at_once, jobs) = JOBS;
    let folder = Folder::new(dir, "jobs")?;
    let counts = Arc::new(Counts::default());
    let journal = Counted(SqliteJournal::open(&folder.0, &Options::default())?, Arc::clone(&counts));
    let fanin = Supervisor::builder().journal(journal).start().await?;
    let memory = Supervisor::builder().start().await?;
    for way in [Way::OneByOne, Way::FanOut] {
        let (mut durable, mut in_memory, mut partner) =
            (Figures::default(), Figures::default(), Figures::default());
        for round in 0..=ROUNDS {
            let one = settle(&fanin, way, at_once, jobs).await?;
            let two = settle(&memory, way, at_once, jobs).await?;
            let three = join_set(at_once, jobs).await?;
            if round == 0 {
                counts.take();
            } else {
                durable.add(one, jobs);
                in_memory.add(two, jobs);
                partner.add(three, jobs);
            }
        }
        println!("{}", way.name());
        table::row(at_once, &durable, &partner);
        println!("{:>9} without a store:", "");
        table::row(at_once, &in_memory, &partner);
        let [batches, records, commits, _] = counts.take();
        println!("{:>9} {records} records in {batches} batches, {commits} commits", "");
    }
    fanin.shutdown().await;
    memory.shutdown().await;
    Ok(())
}

/// How jobs come to be in flight at once.
#[derive(Clone, Copy)]
enum Way {
    /// Callers that each launch a job, wait for its result, and launch the next.
    OneByOne,
    /// One caller that launches them as one group, waits for its result, and launches the next.
    FanOut,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::OneByOne => "one by one",
            Self::FanOut => "fan-outs",
        }
    }
}

async fn settle(supervisor: &Supervisor, way: Way, at_once: usize, jobs: usize) -> Result<Duration, Error> {
    let session = supervisor.session("bench").await?;
    let start = Instant::now();
    if matches!(way, Way::FanOut) {
        for _ in 0..jobs / at_once {
            let specs = (0..at_once).map(|_| JobSpec::run("", |_| async { Ok(().into()) }));
            session.fan_out(specs).await?.wait(None).await?;
        }
        return Ok(start.elapsed());
    }
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        let session = session.clone();
        tasks.spawn(async move {
            for _ in 0..jobs / at_once {
                session.start(JobSpec::run("", |_| async { Ok(().into()) })).await?.wait(None).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(start.elapsed())
}

/// The same on bare tasks.
async fn join_set(at_once: usize, jobs: usize) -> Result<Duration, Error> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        tasks.spawn(async {});
    }
    let mut left = jobs - at_once;
    while let Some(ended) = tasks.join_next().await {
        ended?;
        if left > 0 {
            left -= 1;
            tasks.spawn(async {});
        }
    }
    Ok(start.elapsed())
}
