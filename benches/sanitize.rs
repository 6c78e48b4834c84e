//! Question: how long does `fanin sanitize` look at a store of 100,000 tool calls, and how long does it repair one?
//!
//! Unit: seconds, the median of the rounds with the least and the most; each round has a store of its own, made before the
//! clock starts. A repair is all of it: the scans, the backup, the changes, and the commit on disk. The partner is the
//! least there can be: a copy of the file, brought to disk. Run: `cargo bench -p fanin-benches --bench sanitize`. With
//! `-- --gate` it fails at twice an aim.

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use fanin_sanitize::{Only, OpenCode, Options, repair, report, testing};

type Error = Box<dyn std::error::Error>;

/// Calls, of which so many run.
const CALLS: usize = 100_000;
const RUNNING: [usize; 2] = [1_000, CALLS];
const ROUNDS: usize = 5;
/// The aims, in seconds.
const SCAN: f64 = 1.0;
const REPAIR: f64 = 5.0;

fn main() -> Result<ExitCode, Error> {
    let gate = std::env::args().any(|arg| arg == "--gate");
    let mut is_met = true;
    for running in RUNNING {
        let folder = tempfile::tempdir()?;
        let made = folder.path().join("made.db");
        testing::opencode_of(&made, CALLS, running)?;
        let (mut scans, mut repairs, mut copies) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let path = folder.path().join(format!("{round}.db"));
            copies.push(timed(|| copy(&made, &path))?);
            scans.push(timed(|| Ok(report(&OpenCode, &path, &Only::All).map(drop)?))?);
            let options = Options { only: Only::All, force: false, now_ms: 1_800_000_000_000 };
            repairs.push(timed(|| Ok(repair(&OpenCode, &path, &options).map(drop)?))?);
        }
        println!("{CALLS} calls, {running} of them running, {} MB", fs::metadata(&made)?.len() / 1_000_000);
        for (what, seconds) in [("scan", &mut scans), ("repair", &mut repairs), ("copy", &mut copies)] {
            seconds.sort_by(f64::total_cmp);
            let [least, .., most] = seconds[..] else { continue };
            println!("  {what:<8} {:.3} s ({least:.3} to {most:.3})", seconds[ROUNDS / 2]);
        }
        is_met &= scans[ROUNDS / 2] < 2.0 * SCAN && repairs[ROUNDS / 2] < 2.0 * REPAIR;
    }
    Ok(if gate && !is_met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn timed(work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to)?;
    Ok(File::open(to)?.sync_all()?)
}
