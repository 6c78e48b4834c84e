//! What outlived the supervisor that started it: found by the mark in its environment, asked to end, and killed. A later
//! supervisor of the same log does so before it starts anything (RE-2).

use std::thread::sleep;
use std::time::{Duration, Instant};

use fanin_protocol::limits::{LEFT_NAMED_MAX, SURVIVOR_GRACE, SURVIVOR_WAIT};
use fanin_protocol::{Left, LeftProcess, LogId};

use crate::hunt;
use crate::table::{Entry, Table};

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// True where this process is still there. One that has ended and waits to be reaped by somebody else is not.
pub fn is_alive(table: &Table, process: &LeftProcess) -> bool {
    table.entry(process.pid).is_some_and(|entry| entry.start == process.pid_start && !entry.is_defunct)
}

/// True where something of what a run left may still be alive. It looks without waiting.
pub fn may_live(left: &Left) -> bool {
    // Where more may live than is named nobody can vouch.
    let table = Table::default();
    left.shim_lost
        || left.alive.len() >= LEFT_NAMED_MAX
        || left.alive.iter().any(|process| is_alive(&table, process))
}

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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    // J-14: what was left is alive as long as it is itself, and not when its number is another's.
    #[test]
    fn what_was_left_is_alive_until_it_has_ended() {
        let (table, mut child) = (Table::default(), Command::new("sleep").arg("60").spawn().unwrap());
        let entry = table.entry(child.id()).unwrap();
        let left = LeftProcess { pid: entry.pid, pid_start: entry.start, program: entry.program };
        assert!(is_alive(&table, &left));
        assert!(!is_alive(&table, &LeftProcess { pid_start: left.pid_start + 1, ..left.clone() }));
        child.kill().unwrap();
        // It is not reaped yet, and goes without one who would.
        while table.entry(left.pid).is_some_and(|entry| !entry.is_defunct) {
            std::thread::yield_now();
        }
        assert!(!is_alive(&table, &left), "it is dead");
        child.wait().unwrap();
        assert!(!is_alive(&table, &left), "it is gone");
    }
}
