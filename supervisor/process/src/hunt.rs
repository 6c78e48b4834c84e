//! Kills all of a kind of processes, however they fork meanwhile. It signals only what it has verified.

use std::collections::HashSet;

use fanin_protocol::LeftProcess;
use fanin_protocol::limits::{FREEZE_ROUNDS, LEFT_NAMED_MAX};
use rustix::process::Signal;

use crate::identity::Identity;
use crate::table::{Entry, Table};

/// Freezes what `find` finds until it finds nothing new, and then kills all of it; returns how many.
///
/// What is frozen makes no children, so that none is missed by a walk that is slower than a fork.
pub(crate) fn kill(table: &Table, find: impl Fn() -> Vec<Entry>) -> usize {
    let (mut known, mut frozen) = (HashSet::new(), Vec::new());
    for _ in 0..FREEZE_ROUNDS {
        let before = known.len();
        for entry in find().into_iter().filter(|entry| !entry.is_defunct) {
            if known.insert((entry.pid, entry.start)) {
                let identity = Identity::seen(table, &entry);
                if signal(table, &identity, Signal::STOP) {
                    frozen.push(identity);
                }
            }
        }
        if known.len() == before {
            break;
        }
    }
    // Not held open since the freeze: a large tree has more processes than we may have descriptors.
    frozen.iter().filter(|identity| signal(table, identity, Signal::KILL)).count()
}

/// Asks all of these to end; one that is stopped acts on it only once it goes on.
pub(crate) fn ask<'e>(table: &Table, entries: impl Iterator<Item = &'e Entry>) {
    for entry in entries.filter(|entry| !entry.is_defunct) {
        let identity = Identity::seen(table, entry);
        if signal(table, &identity, Signal::TERM) {
            signal(table, &identity, Signal::CONT);
        }
    }
}

/// False where the process is gone, or is another user's.
fn signal(table: &Table, identity: &Identity, signal: Signal) -> bool {
    identity.find(table).is_some_and(|found| found.signal(signal).is_ok())
}

/// The names of those that are alive.
pub(crate) fn named(entries: impl IntoIterator<Item = Entry>) -> Vec<LeftProcess> {
    let alive = entries.into_iter().filter(|entry| !entry.is_defunct);
    alive
        .take(LEFT_NAMED_MAX)
        .map(|entry| LeftProcess { pid: entry.pid, pid_start: entry.start, program: entry.program })
        .collect()
}
