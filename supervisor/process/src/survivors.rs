//! What outlived the supervisor that started it: found by the mark in its environment, asked to end, and killed. A later
//! supervisor of the same log does so before it starts anything (RE-2).

use std::thread::sleep;
use std::time::{Duration, Instant};

use fanin_protocol::limits::{SURVIVOR_GRACE, SURVIVOR_WAIT};
use fanin_protocol::{LeftProcess, LogId};

use crate::hunt;
use crate::table::{Entry, Table};

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Stops all that carries a mark of this log, and names what is still alive at the end. It blocks its thread, for
/// [`SURVIVOR_WAIT`] at the most.
///
/// Call it before anything of the log is started: it knows no run from another.
pub fn stop_survivors(table: &Table, log: &LogId) -> Vec<LeftProcess> {
    let alive = || {
        let mut found: Vec<Entry> = table.of_log(log);
        found.retain(|entry| !entry.is_defunct);
        found
    };
    let started = Instant::now();
    let first = alive();
    if first.is_empty() {
        return Vec::new();
    }
    hunt::ask(table, first.iter());
    loop {
        let left = alive();
        let waited = started.elapsed();
        if left.is_empty() || waited >= SURVIVOR_WAIT {
            return hunt::named(left);
        }
        if waited >= SURVIVOR_GRACE {
            hunt::kill(table, alive);
        }
        sleep(LOOK);
    }
}
