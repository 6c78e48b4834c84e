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

use fanin_benches::{Error, Figures};
use fanin_sanitize::{Only, OpenCode, Options, repair, report, testing};

/// Calls, of which so many run.
const CALLS: usize = 100_000;
const RUNNING: [usize; 2] = [1_000, CALLS];
const ROUNDS: usize = 5;
/// The aims, in seconds.
const SCAN: f64 = 1.0;
const REPAIR: f64 = 5.0;

fn main() -> Result<ExitCode, Error> {
    let gate = std::env::args().any(|arg| arg == "--gate");
    let mut is_red = false;
    for running in RUNNING {
        let folder = tempfile::tempdir()?;
        let made = folder.path().join("made.db");
        testing::opencode_of(&made, CALLS, running)?;
        let (mut scan, mut whole, mut partner) = (Figures::default(), Figures::default(), Figures::default());
        for round in 0..ROUNDS {
            let path = folder.path().join(format!("{round}.db"));
            timed(&mut partner, || copy(&made, &path))?;
            timed(&mut scan, || Ok(report(&OpenCode, &path, &Only::All).map(drop)?))?;
            let options = Options { only: Only::All, force: false, now_ms: 1_800_000_000_000 };
            timed(&mut whole, || Ok(repair(&OpenCode, &path, &options).map(drop)?))?;
        }
        println!("{CALLS} calls, {running} of them running, {} MB", fs::metadata(&made)?.len() / 1_000_000);
        for (what, figures) in [("scan", &scan), ("repair", &whole), ("copy", &partner)] {
            let (least, most) = figures.spread();
            let [median, least, most] = [figures.median(), least, most].map(seconds);
            println!("  {what:<8} {median:.3} s ({least:.3} to {most:.3})");
        }
        is_red |= seconds(scan.median()) > 2.0 * SCAN || seconds(whole.median()) > 2.0 * REPAIR;
    }
    Ok(if gate && is_red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn seconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e9
}

fn timed(figures: &mut Figures, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let start = Instant::now();
    work()?;
    figures.add(start.elapsed(), 1);
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to)?;
    Ok(File::open(to)?.sync_all()?)
}
