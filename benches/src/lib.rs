//! What the benches share: interleaved rounds, medians and spread.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Figures of one side: nanoseconds per item, one a round.
#[derive(Debug, Default, Clone)]
pub struct Figures(Vec<f64>);

impl Figures {
    /// Adds a round of `items` items.
    pub fn add(&mut self, took: Duration, items: usize) {
        self.0.push(took.as_secs_f64() * 1e9 / items.max(1) as f64);
    }

    /// The middle round.
    pub fn median(&self) -> f64 {
        let mut rounds = self.0.clone();
        rounds.sort_by(f64::total_cmp);
        rounds.get(rounds.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The fastest and the slowest round.
    pub fn spread(&self) -> (f64, f64) {
        let fold = |start, pick: fn(f64, f64) -> f64| self.0.iter().copied().fold(start, pick);
        (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
    }
}

/// The median of the ratios of two sides, round by round: what drifts between rounds falls out.
pub fn ratio(ours: &Figures, partner: &Figures) -> f64 {
    let mut ratios: Vec<f64> = ours.0.iter().zip(&partner.0).map(|(ours, partner)| ours / partner).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Whatever went wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of this process that are in memory now.
///
/// # Errors
///
/// Where the system does not say so the way Linux does.
pub fn resident() -> Result<i64, Error> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    let kib: i64 = line.split_whitespace().next().ok_or("VmRSS says nothing")?.parse()?;
    Ok(kib * 1024)
}

/// A folder that is gone afterwards.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// A new one in another.
    ///
    /// # Errors
    ///
    /// Where it cannot be made.
    pub fn new(above: &Path, name: &str) -> Result<Self, Error> {
        let path = above.join(format!("fanin-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} stays behind: {error}", self.0.display());
        }
    }
}

/// The table that benches print.
pub mod table {
    use super::{Figures, ratio};

    /// Its head: what was varied, ours, the partner's.
    pub fn head(varied: &str, ours: &str, partner: &str) {
        println!("{varied:>9} {ours:>30} {partner:>32} {:>7}", "ratio");
    }

    /// One row.
    pub fn row(varied: impl std::fmt::Display, ours: &Figures, partner: &Figures) {
        println!("{varied:>9} {:>30} {:>32} {:>6.2}x", shown(ours), shown(partner), ratio(ours, partner));
    }

    fn shown(figures: &Figures) -> String {
        let (min, max) = figures.spread();
        format!("{:.0} ({min:.0}..{max:.0})", figures.median())
    }
}
