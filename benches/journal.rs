//! Question: what does a record cost that is committed, by the size of the batch, and how long does a store take to open?
//!
//! Unit: microseconds a batch, the median of the rounds, and records a second. The partner appends the same bytes to a
//! file on the same file system, and syncs it once a batch. Opening: milliseconds until the rows are loaded, with many
//! rows that are over, and with many that are open. Run: `cargo bench -p fanin-benches --bench journal`. `-- --dir DIR`
//! measures another file system; `-- --small` leaves the largest stores out, `-- --over N` opens one with so many rows
//! that are over. With `-- --gate` it only opens, and fails where that takes twice as long as it should, or more with
//! more that is over.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fanin_benches::{Error, Figures, Folder, table};
use fanin_protocol::record::{Level, StoreOpened};
use fanin_protocol::{Envelope, FORMAT_VERSION, Ids, LogId, Record, RowKind, Seq};
use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::journal::{Batch, Change, Journal, Row};

/// Records of a batch, and batches of a round.
const SIZES: [(u64, u64); 4] = [(1, 200), (16, 100), (256, 40), (4_096, 8)];
const ROUNDS: usize = 7;
/// Bytes of a record's body: what a `job.ended` or `run.started` has at the most.
const BODY: usize = 170;
/// Rows that are over, and rows that are open.
const OVER: [u64; 3] = [10_000, 100_000, 1_000_000];
const OPEN: u64 = 100_000;
/// Rows of a batch that fills a store.
const FILL: u64 = 10_000;
/// The aims of an opening: with what is over, and with [`OPEN`] rows.
const AIM_OVER: Duration = Duration::from_millis(100);
const AIM_OPEN: Duration = Duration::from_secs(1);
/// What two medians of the same may differ by on a busy machine.
const NOISE: Duration = Duration::from_millis(10);

fn main() -> Result<ExitCode, Error> {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let dir = value("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    if let Some(over) = value("--over") {
        opening(&dir, over.parse()?, true)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !has("--gate") {
        for (rows, what) in [(false, "records alone"), (true, "with a row for each record")] {
            println!("{what}, microseconds a batch");
            table::head("records", "fanin", "append and fdatasync");
            for (records, batches) in SIZES {
                commits(&dir, records, batches, rows)?;
            }
        }
    }
    let many = if has("--small") || has("--gate") { 2 } else { OVER.len() };
    let mut over = Vec::new();
    for rows in OVER.into_iter().take(many) {
        over.push(opening(&dir, rows, true)?);
    }
    let open = opening(&dir, OPEN, false)?;
    let (least, most) = over
        .iter()
        .fold((Duration::MAX, Duration::ZERO), |(least, most), took| (least.min(*took), most.max(*took)));
    let is_kept = most <= AIM_OVER * 2 && open <= AIM_OPEN * 2 && most <= least * 2 + NOISE;
    Ok(if has("--gate") && !is_kept { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn record(seq: u64) -> Result<Envelope, Error> {
    let (kind, body) = if seq == 1 {
        let opened = StoreOpened {
            log: LogId::from_uuid([7; 16]),
            level: Level::Durable,
            previous: None,
            clean: false,
        };
        let record = Record::StoreOpened(opened);
        (record.kind(), record.encode_body()?)
    } else {
        ("bench.record", vec![b'x'; BODY])
    };
    let (kind, body) = (kind.to_owned(), body.into());
    Ok(Envelope {
        v: FORMAT_VERSION,
        seq: Seq(seq),
        ts_ms: seq,
        kind,
        ignorable: true,
        ids: Ids::default(),
        body,
    })
}

fn row(key: u64) -> Row {
    Row { kind: RowKind::Job, key, id: format!("job-{key:016}"), body: vec![b'r'; 300].into() }
}

fn batch(after: u64, records: u64, rows: bool) -> Result<Batch, Error> {
    // Half of them are new, the others end what was new a batch before: no row changes twice in a batch.
    let back = if records == 1 { 1 } else { records + 1 };
    let change = |n: u64| match n.checked_sub(back).filter(|_| !n.is_multiple_of(2)) {
        Some(key) => Change::Retire(row(key)),
        None => Change::Put(row(n)),
    };
    Ok(Batch {
        after: Seq(after),
        epoch: Seq(1),
        records: (after + 1..=after + records).map(record).collect::<Result<_, _>>()?,
        rows: if rows { (after..after + records).map(change).collect() } else { Vec::new() },
        outputs: Vec::new(),
    })
}

fn commits(dir: &Path, records: u64, batches: u64, rows: bool) -> Result<(), Error> {
    let (mut ours, mut theirs) = (Figures::default(), Figures::default());
    let folder = Folder::new(dir, "commits")?;
    let mut journal = SqliteJournal::open(&folder.0, &Options::default())?;
    journal.load()?;
    let mut raw = File::create(folder.0.join("raw"))?;
    let mut after = 0;
    for _ in 0..ROUNDS {
        let made: Vec<Batch> =
            (0..batches).map(|n| batch(after + n * records, records, rows)).collect::<Result<_, _>>()?;
        after += batches * records;
        let bytes: Vec<Vec<u8>> = made
            .iter()
            .map(|batch| batch.records.iter().map(Envelope::encode).collect::<Result<Vec<_>, _>>())
            .map(|encoded| encoded.map(|encoded| encoded.concat()))
            .collect::<Result<_, _>>()?;
        let start = Instant::now();
        for bytes in &bytes {
            raw.write_all(bytes)?;
            raw.sync_data()?;
        }
        theirs.add(start.elapsed() / 1_000, usize::try_from(batches)?);
        let start = Instant::now();
        for batch in &made {
            journal.append(batch)?;
        }
        ours.add(start.elapsed() / 1_000, usize::try_from(batches)?);
    }
    table::row(usize::try_from(records)?, &ours, &theirs);
    let syncs = journal.syncs();
    let all = batches * ROUNDS as u64;
    println!("{:>9} {} commits for {all} batches, {} syncs of the mark", "", syncs.commits, syncs.mark);
    Box::new(journal).close()?;
    Ok(())
}

/// The median of how long it takes to open and load a store with so many rows.
fn opening(dir: &Path, rows: u64, over: bool) -> Result<Duration, Error> {
    let folder = Folder::new(dir, "opening")?;
    let mut journal = SqliteJournal::open(&folder.0, &Options::default())?;
    journal.load()?;
    let mut after = 0;
    while after < rows {
        let change = |key| if over { Change::Retire(row(key)) } else { Change::Put(row(key)) };
        let mut batch = batch(after, FILL, false)?;
        batch.rows = (after..after + FILL).map(change).collect();
        journal.append(&batch)?;
        after += FILL;
    }
    Box::new(journal).close()?;
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut journal = SqliteJournal::open(&folder.0, &Options::default())?;
        let opened = journal.load()?;
        took.push(start.elapsed());
        assert_eq!(opened.rows.len() as u64, if over { 0 } else { rows });
    }
    took.sort_unstable();
    let millis = |at: usize| took.get(at).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3);
    let size = fs::metadata(folder.0.join("store.db"))?.len() / (1024 * 1024);
    println!(
        "{rows:>9} rows {} ({size} MiB): opened and loaded in {:.1} ms ({:.1}..{:.1})",
        if over { "over" } else { "open" },
        millis(ROUNDS / 2),
        millis(0),
        millis(ROUNDS - 1)
    );
    Ok(took.get(ROUNDS / 2).copied().unwrap_or_default())
}
